// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {StepProofs} from "../libraries/StepProofs.sol";
import {
    AUDITOR_SEATS_MAX,
    DeploymentBounds,
    GameTerms,
    Phase,
    RING_ROUNDS,
    SeatRole,
    SeatStatus,
    SOLVER_SEATS_MAX
} from "./GameTypes.sol";
import {IContests} from "./interfaces/IContests.sol";
import {IDisputes} from "./interfaces/IDisputes.sol";

/// @dev Leaves of a step that the opener of a dispute may demand.
uint256 constant DEMANDED_LEAVES_MAX = 8;

/// @title All that a deployment keeps: `Game` has it, and every part of its code works on it.
/// @dev Parts have no storage of their own (`tests/contracts/storage.txt` shows that all have the same). They must inherit this contract first.
abstract contract GameStorage {
    // Tasks and seats
    /// @dev As `Seat`, and what is open on it (`OpenCounts`). `joined` is 65,535, the index of no round, in the record of a CONVICTED seat whose number is
    /// free: no pay of it is restored (`_voidedBy` of `Convictions`).
    struct Record {
        address account;
        uint96 stakeWei;
        SeatStatus status;
        uint16 settled;
        uint16 joined;
        uint16[9] queries;
        uint16[9] disputes;
    }

    struct Peer {
        string url;
        bytes32 certificateSha256;
    }

    /// @dev Pools of one role, as words of bitmaps of seat numbers. `span`: words in use; `version`: of auditors, that of the last frozen pool; `count`: seats
    /// of that pool; `isDirty`: something has changed since the last freeze. `live`: seats that would sit, were a pool frozen now (of solvers those among which
    /// the largest stakes are chosen); `taken`: numbers in use; `closed`: numbers of CONVICTED seats; `frozen`: frozen pools by version << 8 | word.
    struct RolePools {
        uint16 span;
        uint24 version;
        bool isDirty;
        uint16 count;
        mapping(uint256 => uint256) live;
        mapping(uint256 => uint256) taken;
        mapping(uint256 => uint256) convicted;
        mapping(uint256 => uint256) frozen;
    }

    /// @dev isClosed: the task is closed. activeSolvers: numbers of the solver seats that are ACTIVE, a bitmap. seats: how many hold a number.
    /// convictedCount: how many CONVICTED ones hold a number. solvers, verifiers, whistleblowers, isEnough: what the last freeze gave, in one word;
    /// isFresh: a freeze now would give the same. seatOf: of a CONVICTED seat its id | CONVICTED.
    struct Task {
        GameTerms terms;
        bool isClosed;
        uint64 activeSolvers;
        uint16 seats;
        uint16 convictedCount;
        uint64 solvers;
        uint24 verifiers;
        uint24 whistleblowers;
        bool isEnough;
        bool isFresh;
        mapping(uint256 => RolePools) members;
        mapping(uint256 => Record) seatAt;
        mapping(address => uint256) seatOf;
    }

    // Rounds
    /// @dev `commit` writes root and segments. They stay until another round has the place.
    /// @param votes of its draws (`Ballots`): none at first; votes that count, are paid or are withdrawn change them
    struct KeptClaim {
        bytes32 root;
        uint16 segments;
        uint208 votes;
    }

    /// @dev A round that opened, or for which pools are frozen. Five words come before base, beacon and seed. Each is overwritten as a whole at one moment,
    /// so nothing of the round 128 before shows: when the round opens, when its pools are frozen, when its first root is posted, when it opens, and when
    /// something goes wrong in it (`docs/contracts.md`, The ring). Afterwards fields change singly. `questions` alone is not overwritten: it is 0 by then.
    /// Bitmaps are of slots or numbers.
    /// @param sharded the block in which its shards were known; 0: not yet
    /// @param enough the block in which two thirds had committed; 0: not yet
    /// @param closing the last block that takes commitments; 0: the windows say which
    /// @param counted solver seats of the pool that were not CONVICTED when it opened
    /// @param isClosed whether its close was written down, and the pools of the round after next frozen
    /// @param isDrawn whether its audits are drawn
    /// @param undoneBy number of the fall that undid it; of meaning while it is UNDONE
    /// @param pool numbers of solver seats
    /// @param verifiers version of their pool
    /// @param whistleblowers version of their pool
    /// @param lateFrom from where late votes count; 0: late audits are not drawn
    /// @param lateSlots claims that may be audited late
    /// @param lateBy the round whose seed draws them, or CLOSING | index of a closing seed
    /// @param isEnough whether a round can be played with these pools, as long as no seat is CONVICTED
    /// @param rootUntil contests of its root open until then; of meaning while it is posted
    /// @param fallen when its posted root fell; of meaning once it was posted
    /// @param refused void, as a draw has failed; or, where it is accepted too, accepted after closed + auditMax and not to be merged. No bit says of a claim
    /// that it is void because it is out of time, its seat was CONVICTED, or the draw was missed: `_openClaims` leaves it out
    /// @param convicted a fault was proven in the claim itself
    /// @param questions about it that are open, queries and disputes; 0 before its epoch is freed
    /// @param isMarked whether the next three fields are of this round
    /// @param restored claims that a slash has paid for
    struct Round {
        uint64 committed;
        uint40 sharded;
        uint40 enough;
        uint40 closing;
        uint8 counted;
        Phase phase;
        bool isClosed;
        bool isDrawn;
        uint24 undoneBy;
        // Pools
        uint64 pool;
        uint24 verifiers;
        uint24 whistleblowers;
        uint40 lateFrom;
        uint64 lateSlots;
        uint32 lateBy;
        bool isEnough;
        // Its root
        uint64 merged;
        uint64 signers;
        uint40 rootUntil;
        uint40 fallen;
        // What votes and proofs made of its claims
        uint64 accepted;
        uint64 refused;
        uint64 convicted;
        uint40 opened;
        uint16 questions;
        bool isMarked;
        // What went wrong
        uint64 unserved;
        uint64 lateRejected;
        uint64 restored;
        bytes32 base;
        bytes32 beacon;
        bytes32 seed;
        KeptClaim[SOLVER_SEATS_MAX] claims;
    }

    /// @dev As `IRounds.Line`. Rounds are kept in a ring: storage that is written again costs a quarter of new storage. A round opens only where the one
    /// 128 before it is settled (`freeEpoch`).
    /// @param live the round that has no root yet, plus one; 0: none
    /// @param convictedBlock the block in which a solver was convicted last
    /// @param root what the next round starts from, while the task pauses. While a round is live it is out of date: read the `base` of that round
    /// @param reposted by whole rounds: a root that was posted again
    struct RoundLine {
        uint16 nextRound;
        uint16 live;
        uint16 frozenTo;
        uint16 assignedTo;
        uint16 freedEpochs;
        bool isHalted;
        uint40 pausedSince;
        uint40 startBlock;
        uint40 convictedBlock;
        bytes32 root;
        Round[RING_ROUNDS] ring;
        mapping(uint256 => bytes32) reposted;
        bytes32[] closingSeeds;
    }

    // Votes
    /// @dev What the votes of one role's auditors earn and cost, by number of the seat. Settlement empties it.
    /// @param pays counted votes with their openings: at most 16 rounds, 64 claims, 21 draws
    /// @param fees UNSERVED that were charged
    struct AuditBook {
        uint16[AUDITOR_SEATS_MAX] pays;
        uint16[AUDITOR_SEATS_MAX] fees;
    }

    // Convictions
    /// @dev What is owed for the rounds that a fall undid, and what is held for it. `undoneBy` of a round says which fall that was.
    struct Fall {
        uint128 owedWei;
        uint128 heldWei;
    }

    // Questions
    struct OpenQuery {
        uint64 lastBlock;
        uint64 bonds;
    }

    /// @dev Seven words, two of them written at the opening of a claim's dispute, three at that of a vote's.
    /// @param number k: the bond is k times the task's
    /// @param localStep of the segment's start; so globalStep
    /// @param shown how many of the demanded leaves
    /// @param opening of a vote: hash of what must be opened; 0 of a claim
    /// @param rootsHash hash of the step roots, once they are posted
    /// @param startRoot of the state before the step, once a step is named
    /// @param endRoot of the state after it
    /// @param traceRoot once the step's trace is posted
    struct Dispute {
        IDisputes.Stage stage;
        uint8 step;
        uint8 demanded;
        uint8 shown;
        uint24 seat;
        uint40 clockBlock;
        address opener;
        uint16 round;
        uint8 slot;
        uint8 draw;
        uint8 rank;
        uint16 segment;
        uint24 number;
        uint32 localStep;
        uint32 globalStep;
        bytes32 opening;
        bytes32 rootsHash;
        bytes32 startRoot;
        bytes32 endRoot;
        bytes32 traceRoot;
    }

    /// @dev Five words, of which a new contest writes the first and the third.
    /// @param bonds how many its contester has laid out
    /// @param level 0: the posted root; else 1 + the node's depth in its tensor tree
    /// @param posting what names the posting of the root: a root that falls and is posted again is another one, with clocks of its own
    /// @param node that is contested; 0 at level 0
    /// @param nodesHash hash of the nodes that were posted last
    struct Contest {
        IContests.Turn turn;
        uint8 tensor;
        uint8 level;
        uint16 round;
        uint40 clockBlock;
        uint16 bonds;
        address contester;
        address answerer;
        uint32 index;
        bytes32 posting;
        bytes32 node;
        bytes32 nodesHash;
    }

    // The layout
    /// @dev Which part has the code of a call; `Game` alone reads it.
    mapping(bytes4 => address) internal _partOf;
    DeploymentBounds internal _bounds;
    mapping(address => Peer) internal _peers;
    mapping(TaskId => Task) internal _tasks;
    mapping(TaskId => RoundLine) internal _lines;
    /// @dev By epoch, then role.
    mapping(TaskId => mapping(uint256 => mapping(SeatRole => AuditBook))) internal _auditBooks;
    /// @dev The latest round of which a vote of the seat counted, plus one; 0: none.
    mapping(TaskId => mapping(SeatRole => uint16[AUDITOR_SEATS_MAX])) internal _lastVoted;
    mapping(TaskId => Fall[]) internal _falls;
    mapping(bytes32 => OpenQuery) internal _queries;
    mapping(TaskId => mapping(bytes32 => Dispute)) internal _disputes;
    mapping(bytes32 => StepProofs.Demand[DEMANDED_LEAVES_MAX]) internal _demands;
    mapping(TaskId => mapping(bytes32 => Contest)) internal _contests;
    /// @dev Open contests by epoch of their rounds (`OpenCounts`).
    mapping(TaskId => uint16[9]) internal _contestsOpen;
    /// @dev The block in which a contest last ended in HOLDS, plus `respond`. Until then no solver is marked silent.
    mapping(TaskId => uint256) internal _contestedUntil;
    /// @dev By account and hash: the block in which the account announced a proof.
    mapping(address => mapping(bytes32 => uint256)) internal _committedBlocks;
}
