// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {AuditRef, Role, RoundStatus, TaskId, TaskTerms} from "./Types.sol";
import {ITaskRegistry} from "./interfaces/ITaskRegistry.sol";
import {Clock, Deadlines} from "./libraries/Clock.sol";
import {Draw} from "./libraries/Draw.sol";
import {Hashing} from "./libraries/Hashing.sol";
import {Terms} from "./libraries/Terms.sol";

/// @notice Everything about a round that does not change while a call runs, as far as the ledger needs it. Blocks, wei and counts.
/// @param task the task
/// @param round index of the round
/// @param status where the round stands
/// @param solvers how many are enrolled
/// @param verifiers how many are enrolled
/// @param whistleblowers how many are enrolled
/// @param submitter who funds the task
/// @param initialWeightsRoot tensor tree of the initial parameters
/// @param zeroRoot tensor tree of a zero vector
/// @param innerSteps steps of a round
/// @param segmentCount segments of a round
/// @param segmentDraws segments audited of each claim
/// @param carryMoments whether m, v and the local step carry over
/// @param noShowFee F
/// @param solverPay to each accepted solver
/// @param mergePay to the poster of the root that stands
/// @param mergeBond exposed by whoever posts a root
/// @param finderCap most that a finder gets of one slash
/// @param delay from a deadline to the block whose randomness is taken
/// @param seal in which it must be handed in
/// @param merge length of the merge window
/// @param trainOpens first block of the training window
/// @param trainEnd end of the training window
/// @param drawBlock whose randomness gives the draw
/// @param drawEnd end of its sealing
/// @param startEnd end of the openings of starts
/// @param showEnd end of openings of ends and of reveals
/// @param openEnd end of the openings of leaves
/// @param compareEnd end of comparisons
/// @param callEnd reserves that are called before it have half of their replay window or more
/// @param reserveCompareEnd the same of the reserves
/// @param mergeBy the block by which a round that can be merged should be; late deadlines start there at the latest
/// @param lateSpan from the merged block to disputeEnd
struct RoundFrame {
    TaskId task;
    uint32 round;
    RoundStatus status;
    uint32 solvers;
    uint32 verifiers;
    uint32 whistleblowers;
    address submitter;
    bytes32 initialWeightsRoot;
    bytes32 zeroRoot;
    uint32 innerSteps;
    uint32 segmentCount;
    uint32 segmentDraws;
    bool carryMoments;
    uint256 noShowFee;
    uint256 solverPay;
    uint256 mergePay;
    uint256 mergeBond;
    uint256 finderCap;
    uint256 delay;
    uint256 seal;
    uint256 merge;
    uint256 trainOpens;
    uint256 trainEnd;
    uint256 drawBlock;
    uint256 drawEnd;
    uint256 startEnd;
    uint256 showEnd;
    uint256 openEnd;
    uint256 compareEnd;
    uint256 callEnd;
    uint256 reserveCompareEnd;
    uint256 mergeBy;
    uint256 lateSpan;
}

/// @title Fetches a frame without decoding it word by word: the reader made it itself, and every field is a word.
library Frames {
    uint256 internal constant FRAME_BYTES = 33 * 32;

    function load(RoundReader reader, TaskId task, uint32 round) internal view returns (RoundFrame memory f) {
        bytes4 selector = RoundReader.frameOf.selector;
        uint256 size = FRAME_BYTES;
        assembly ("memory-safe") {
            f := mload(0x40)
            mstore(f, selector)
            mstore(add(f, 4), task)
            mstore(add(f, 36), round)
            let found := staticcall(gas(), reader, f, 68, f, size)
            if iszero(found) {
                returndatacopy(f, 0, returndatasize())
                revert(f, returndatasize())
            }
            mstore(0x40, add(f, size))
        }
    }
}

/// @title What follows for a round from its terms, its start block and its seeds alone.
/// @dev Has no state and moves nothing. It is a contract of its own because the ledger with it would exceed the size that the chain admits
/// (EIP-170); the ledger creates it.
contract RoundReader {
    ITaskRegistry private immutable registry;

    constructor(ITaskRegistry registry_) {
        registry = registry_;
    }

    /// @notice Steps and segments of every round of a task.
    /// @param task the task
    /// @return innerSteps steps of a round
    /// @return segmentCount segments of a round
    function sizesOf(TaskId task) external view returns (uint32 innerSteps, uint32 segmentCount) {
        TaskTerms memory terms = Terms.load(registry, task);
        return (terms.innerSteps, terms.innerSteps / terms.segmentSteps);
    }

    // Frame -------------------------------------------------------------------------------------------------------
    /// @notice The frame of a round.
    /// @dev What lies in memory is the encoding of the answer: every field is a word.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @return f the frame
    function frameOf(TaskId task, uint32 round) external view returns (RoundFrame memory f) {
        uint256 startBlock;
        TaskTerms memory terms = Terms.load(registry, task);
        (f.task, f.round) = (task, round);
        (f.status, startBlock,, f.solvers, f.verifiers, f.whistleblowers) = registry.roundOf(task, round);
        _setTerms(f, terms);
        _setAmounts(f, terms);
        _setDeadlines(f, terms, startBlock);
        uint256 size = Frames.FRAME_BYTES;
        assembly ("memory-safe") {
            return(f, size)
        }
    }

    function _setTerms(RoundFrame memory f, TaskTerms memory terms) private pure {
        f.submitter = terms.submitter;
        (f.initialWeightsRoot, f.zeroRoot) = (terms.initialWeightsRoot, terms.zeroRoot);
        (f.innerSteps, f.segmentCount) = (terms.innerSteps, terms.innerSteps / terms.segmentSteps);
        f.segmentDraws = terms.segmentDraws;
        f.carryMoments = terms.carryMoments == 1;
    }

    function _setAmounts(RoundFrame memory f, TaskTerms memory terms) private pure {
        (f.noShowFee, f.solverPay) = (terms.amounts.noShowFee, terms.amounts.solverPay);
        (f.mergePay, f.mergeBond) = (terms.amounts.mergePay, terms.amounts.mergeBond);
        f.finderCap = terms.amounts.finderCap;
    }

    function _setDeadlines(RoundFrame memory f, TaskTerms memory terms, uint256 startBlock) private pure {
        Deadlines memory d = Clock.compute(startBlock, terms.windows);
        (f.delay, f.seal, f.merge) = (terms.windows.delay, terms.windows.seal, terms.windows.merge);
        (f.trainOpens, f.trainEnd, f.drawBlock, f.drawEnd) =
        (d.beaconBlock + 1, d.trainEnd, d.drawBlock, d.drawEnd);
        (f.startEnd, f.showEnd, f.openEnd, f.compareEnd) = (d.startEnd, d.showEnd, d.openEnd, d.compareEnd);
        f.callEnd = d.compareEnd + terms.windows.replay / 2;
        f.reserveCompareEnd = d.reserveCompareEnd;
        f.mergeBy = d.reserveCompareEnd + terms.windows.merge;
        f.lateSpan = Clock.computeLate(0, terms.windows).disputeEnd;
    }

    // Draws -------------------------------------------------------------------------------------------------------
    /// @notice The segment and the auditor of one audit; auditor 0: there is no such audit.
    /// @param ref the audit
    /// @param drawSeed 0: nothing is drawn
    /// @param lateSeed 0: no late audit of this claim is drawn
    /// @return index of the segment in the round
    /// @return who was drawn
    function drawnOf(AuditRef memory ref, bytes32 drawSeed, bytes32 lateSeed)
        external
        view
        returns (uint32, address)
    {
        (,,, uint32 solvers, uint32 verifiers, uint32 whistleblowers) = registry.roundOf(ref.task, ref.round);
        if (drawSeed == 0 || ref.slot >= solvers) return (0, address(0));
        TaskTerms memory terms = Terms.load(registry, ref.task);
        bytes32 slotSeed = Hashing.slotSeed(drawSeed, ref.slot);
        uint256[] memory segments =
            Draw.segments(slotSeed, terms.segmentDraws, terms.innerSteps / terms.segmentSteps);
        if (ref.draw == segments.length && ref.rank == 0) {
            return _lateOf(ref, terms, segments, lateSeed, whistleblowers);
        }
        if (ref.draw >= segments.length || ref.rank >= Draw.AUDITORS_PER_DRAW) return (0, address(0));
        uint256 index = Draw.auditors(slotSeed, ref.draw, verifiers)[ref.rank];
        return (
            uint32(segments[ref.draw]),
            registry.enrolledAt(ref.task, ref.round, Role.VERIFIER, uint32(index))
        );
    }

    function _lateOf(
        AuditRef memory ref,
        TaskTerms memory terms,
        uint256[] memory segments,
        bytes32 lateSeed,
        uint32 whistleblowers
    ) private view returns (uint32, address) {
        if (lateSeed == 0) return (0, address(0));
        uint256 segmentCount = terms.innerSteps / terms.segmentSteps;
        (bool due, uint256 segment, uint256 index) =
            Draw.lateAudit(lateSeed, ref.slot, terms.lateRate, segments, segmentCount, whistleblowers);
        if (!due) return (0, address(0));
        return (
            uint32(segment), registry.enrolledAt(ref.task, ref.round, Role.WHISTLEBLOWER, uint32(index))
        );
    }
}
