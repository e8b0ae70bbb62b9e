// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {StepProofs} from "../libraries/StepProofs.sol";
import {DeploymentLimits, GameTerms, SeatStatus} from "./GameTypes.sol";
import {IContests} from "./interfaces/IContests.sol";
import {IDisputes} from "./interfaces/IDisputes.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";

/// @dev Leaves of a step that the opener of a dispute may demand.
uint256 constant DEMANDED_LEAVES_MAX = 8;

/// @title All that a deployment keeps: `Game` has it, and every part of its code works on it.
/// @dev Parts have no storage of their own (`tests/contracts/storage.txt` shows that all have the same). They must inherit this contract first.
abstract contract GameStorage {
    // Tasks and seats -------------------------------------------------------------------------------------------------
    /// @dev As `Seat`, and what is open on it (`OpenCounts`). Rounds are at most 65,535: a seat that nobody is owed anything for has joined then.
    struct Record {
        address account;
        uint96 stakeWei;
        SeatStatus status;
        uint16 settled;
        uint16 joined;
        uint104 asks;
        uint104 disputes;
    }

    struct Peer {
        string url;
        bytes32 certificateSha256;
    }

    /// @dev Pools of one role. `live`: seats that sit, were a pool frozen now; `taken`: numbers in use; `closed`: convicted ones; `frozen`: words of frozen
    /// pools by version << 8 | word; `count`: seats of the last one.
    struct RolePools {
        uint16 span;
        uint24 version;
        bool isDirty;
        uint16 count;
        mapping(uint256 => uint256) live;
        mapping(uint256 => uint256) taken;
        mapping(uint256 => uint256) closed;
        mapping(uint256 => uint256) frozen;
    }

    /// @dev seatOf: of a closed seat its id | CONVICTED. closedSeats: how many hold a number. solvers, verifiers, whistleblowers, isEnough: what the last
    /// freeze gave, in one word; isFresh: a freeze now would give the same.
    struct Task {
        GameTerms terms;
        bool isClosed;
        uint64 openSolvers;
        uint16 seats;
        uint16 closedSeats;
        uint64 solvers;
        uint24 verifiers;
        uint24 whistleblowers;
        bool isEnough;
        bool isFresh;
        mapping(uint256 => RolePools) members;
        mapping(uint256 => Record) seatAt;
        mapping(address => uint256) seatOf;
    }

    // Rounds ----------------------------------------------------------------------------------------------------------
    /// @dev Words of `FrameWords`. root: what the next round starts from, while none is open; else it is the base of the live round. Keys are round % 128;
    /// of claims and segments (round % 128) << 6 | slot. `shorts`: slots of short claims, of meaning where the frame says SHORT. `reposted` has whole
    /// rounds as keys: a root that was posted again.
    struct RoundRing {
        uint256 track;
        bytes32 root;
        mapping(uint256 => uint256) frames;
        mapping(uint256 => uint256) rosters;
        mapping(uint256 => uint256) outcomes;
        mapping(uint256 => bytes32) bases;
        mapping(uint256 => bytes32) beacons;
        mapping(uint256 => bytes32) seeds;
        mapping(uint256 => bytes32) claims;
        mapping(uint256 => uint256) segments;
        mapping(uint256 => uint256) shorts;
        mapping(uint256 => bytes32) reposted;
        bytes32[] closingSeeds;
    }

    // Votes -----------------------------------------------------------------------------------------------------------
    /// @dev Written in rounds where something went wrong. restored: claims that a slash has paid for.
    struct Trouble {
        uint64 unserved;
        uint64 lateRejected;
        uint64 restored;
    }

    /// @dev Keys: results and troubles round % 128; ballots (round % 128) << 8 | word; fees epoch % 16 << 32 | seat / 16; books as `Books` has them.
    struct VoteRing {
        mapping(uint256 => uint256) results;
        mapping(uint256 => Trouble) troubles;
        mapping(uint256 => uint256) ballots;
        mapping(uint256 => uint256) fees;
        mapping(uint256 => uint256) books;
    }

    // Convictions -----------------------------------------------------------------------------------------------------
    /// @dev What the signers of a fallen root owe to the rounds first .. last, as far as no earlier fall undid them.
    struct Fall {
        uint32 first;
        uint32 last;
        uint128 owedWei;
        uint128 heldWei;
    }

    // Questions -------------------------------------------------------------------------------------------------------
    struct OpenAsk {
        uint64 lastBlock;
        uint64 bonds;
    }

    /// @dev Four words, two of them written at the opening of a claim's dispute, three at that of a vote's.
    /// @param number k: the bond is k times the task's
    /// @param localStep of the segment's start; so globalStep
    /// @param shown how many of the demanded leaves
    /// @param origin of a vote, what must be opened; then the hash of the step roots; once a step is named, the root of the state before it
    /// @param result once a step is named, the root of the state after it; once its trace is posted, the root of that
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
        bytes32 origin;
        bytes32 result;
    }

    /// @dev Four words, of which a new contest writes the first and the third.
    /// @param bonds how many its contester has laid out
    /// @param level 0: the posted root; else 1 + the node's depth in its tensor tree
    /// @param posting what names the posting of the root: a root that falls and is posted again is another one, with clocks of its own
    /// @param node that is contested (0 at level 0); while the contester is on turn, the hash of the posted nodes
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
    }

    // The layout ------------------------------------------------------------------------------------------------------
    /// @dev Which part has the code of a call; `Game` alone reads it.
    mapping(bytes4 => address) internal _partOf;
    DeploymentLimits internal _limits;
    mapping(address => Peer) internal _peers;
    mapping(TaskId => Task) internal _tasks;
    mapping(TaskId => RoundRing) internal _roundRings;
    mapping(TaskId => VoteRing) internal _voteRings;
    mapping(TaskId => Fall[]) internal _falls;
    mapping(bytes32 => OpenAsk) internal _asks;
    mapping(TaskId => mapping(bytes32 => Dispute)) internal _disputes;
    mapping(bytes32 => StepProofs.Demand[DEMANDED_LEAVES_MAX]) internal _demands;
    mapping(TaskId => mapping(bytes32 => Contest)) internal _contests;
    /// @dev Open contests by epoch of their rounds (`OpenCounts`).
    mapping(TaskId => uint256) internal _contestsOpen;
    mapping(TaskId => uint256) internal _contestedUntil;
    /// @dev By account and hash: the block in which the account announced a proof.
    mapping(address => mapping(bytes32 => uint256)) internal _sealedBlocks;

    function _terms(TaskId task) internal view returns (GameTerms storage terms) {
        terms = _tasks[task].terms;
        if (terms.submitter == address(0)) revert IRefusals.TaskUnknown(TaskId.unwrap(task));
    }
}
