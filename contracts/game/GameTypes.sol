// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Limits} from "../Types.sol";
import {
    AUDITOR_SEATS_MAX,
    DRAWS_MAX,
    EPOCH_ROUNDS,
    FANOUT_LEVELS,
    NUMBER_MAX,
    Phase,
    Proof,
    RANKS,
    RING_ROUNDS,
    ROUNDS_UNDER_WAY,
    SeatRole,
    SeatStatus,
    SEGMENT_STEPS_MAX,
    SILENCES_LEAST,
    SOLVER_SEATS_MAX
} from "./GameTables.sol";

/// @title Types of the round: the terms of a task, the bounds of a deployment, and what is read of rounds and seats.
/// @dev Twin of `protocol/spec/game/`. Enumerations and numbers of the rules come from `GameTables`.

/// @notice Windows and clocks, in blocks.
/// @param delay from the block that a draw counts from to the first one whose randomness may decide. A draw counts from a start, from an opening without a
/// beacon, from a close, or from F of 7.9
/// @param drawGrid the deciding block's number is a multiple of it
/// @param trainMin from when shards are known: the earliest close while a commitment is missing
/// @param trainMax from when shards are known: the latest close
/// @param auditMax from the close: votes that decide merging; twice as long for pay. `RoundReading` has all that is counted by it
/// @param post after the first auditMax, and again after a fall: for a majority to post the outer root
/// @param respond for one answer
/// @param dispute from the close, of a late audit from `lateFrom`: for disputes and proofs. From the close, or from a new post after a fall: for contests of
/// the root. From the close: for the drawing of late audits. Also how long a pause takes to make a task over, and how long a majority of shares has to stand
/// @param query from where votes stop counting: for queries
struct GameWindows {
    uint32 delay;
    uint32 drawGrid;
    uint32 trainMin;
    uint32 trainMax;
    uint32 auditMax;
    uint32 post;
    uint32 respond;
    uint32 dispute;
    uint32 query;
}

/// @notice Money of a task, in the smallest unit of the token.
/// @param solverStake a solver seat needs to sit
/// @param auditorStake a verifier or whistleblower seat needs to sit
/// @param solverPay for an accepted claim of all segments
/// @param auditPay for a counted vote with its opening
/// @param latePay for a counted late vote with its opening
/// @param droppedFee of a solver that did not commit
/// @param unservedFee where two of three auditors say UNSERVED: of the solver and of each who said so
/// @param contestBond for a contest of a posted root
/// @param queryBond for the first open query on a seat; the k-th costs k
/// @param disputeBond for the first open dispute on a seat; the k-th costs k
/// @param finderCap the most that a finder gets of one slash
struct GameAmounts {
    uint128 solverStake;
    uint128 auditorStake;
    uint128 solverPay;
    uint128 auditPay;
    uint128 latePay;
    uint128 droppedFee;
    uint128 unservedFee;
    uint128 contestBond;
    uint128 queryBond;
    uint128 disputeBond;
    uint128 finderCap;
}

/// @notice What the contracts must know of a task. The rest of its text is the opaque `training` bytes.
/// @param submitter posts and funds the task
/// @param salt tells equal tasks of one submitter apart
/// @param initialWeightsRoot tensor tree of the initial parameters
/// @param zeroRoot tensor tree of a zero vector of `parameterCount` elements
/// @param scheduleRoot tree over the summed learning rate of every segment of the task
/// @param stepRoot hash of the `StepFacts` that all training steps share
/// @param format id of the numeric format: FLOAT32_FORMAT, or EXACT_FORMAT (no limits, nobody is asked)
/// @param encoding id of how pseudo-gradients are encoded: 0 int8 in blocks of 64. Others are reserved
/// @param aggregation id of how claims are summed in the outer step: 0 the mean, each claim counts once. Others are reserved
/// @param audit id of what a draw audits: 0 one segment. Others are reserved
/// @param parameterCount elements of W
/// @param rounds outer steps at most
/// @param innerSteps H, a multiple of `segmentSteps`
/// @param segmentSteps k, steps of a segment
/// @param solverSeats at most 64
/// @param draws q: audited segments of a claim
/// @param lateChance of a late audit of a claim, in 1/65536
/// @param leastSolvers that a round needs to open; so for verifiers and whistleblowers
/// @param leastVerifiers see leastSolvers
/// @param leastWhistleblowers see leastSolvers
/// @param carryMoments 1: m, v and the local step carry over from the solver's last merged claim of the same epoch of 16 rounds, zero where there is none; 0:
/// zero at each round
/// @param outerLearningRate float32 bits
/// @param outerMomentum float32 bits
/// @param windows in blocks
/// @param amounts in wei
/// @param limits what honest hardware may differ by; unused in exact tasks
struct GameTerms {
    address submitter;
    bytes32 salt;
    bytes32 initialWeightsRoot;
    bytes32 zeroRoot;
    bytes32 scheduleRoot;
    bytes32 stepRoot;
    uint32 format;
    uint32 encoding;
    uint32 aggregation;
    uint32 audit;
    uint32 parameterCount;
    uint32 rounds;
    uint32 innerSteps;
    uint32 segmentSteps;
    uint32 solverSeats;
    uint32 draws;
    uint32 lateChance;
    uint32 leastSolvers;
    uint32 leastVerifiers;
    uint32 leastWhistleblowers;
    uint32 carryMoments;
    uint32 outerLearningRate;
    uint32 outerMomentum;
    GameWindows windows;
    GameAmounts amounts;
    Limits limits;
}

/// @notice Constants of a deployment, chosen for its block time.
/// @param least windows that a task may have, in blocks
/// @param windowMax the greatest window, in blocks
/// @param leastBondWei of every bond and stake
/// @param amountMax of every amount, in wei
/// @param headerBlocks how long the header of a block can be proven
/// @param proofCommitBlocks how long a committed proof is good
/// @param drawMargin blocks at least that are left for recording a draw
struct DeploymentBounds {
    GameWindows least;
    uint32 windowMax;
    uint128 leastBondWei;
    uint128 amountMax;
    uint32 headerBlocks;
    uint32 proofCommitBlocks;
    uint32 drawMargin;
}

/// @notice An opened round.
/// @param closed the closing block; 0 while the round runs
/// @param lateFrom from where late votes count; 0: not drawn
/// @param lateSlots slots of claims that may be audited late
/// @param rootUntil contests of its root open until then
struct RoundView {
    Phase phase;
    bool isDrawn;
    uint64 pool;
    uint64 committed;
    uint64 merged;
    uint64 signers;
    uint64 lateSlots;
    uint256 opened;
    uint256 closed;
    uint256 lateFrom;
    uint256 rootUntil;
    uint24 verifiers;
    uint24 whistleblowers;
    bytes32 base;
    bytes32 root;
    bytes32 seed;
    bytes32 lateSeed;
}

/// @notice A member of a task. A CONVICTED one has no stake.
/// @param settled the first round that the seat has not settled
/// @param joined the next round when it joined
struct Seat {
    address account;
    uint96 stakeWei;
    SeatStatus status;
    uint32 settled;
    uint32 joined;
}

/// @notice A claim (draw is NO_DRAW), or the vote of a rank of a draw.
struct StatementRef {
    uint32 round;
    uint32 slot;
    uint32 draw;
    uint32 rank;
}

uint32 constant NO_DRAW = type(uint32).max;
