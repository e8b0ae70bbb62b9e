// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../Types.sol";
import {RoundView} from "../GameTypes.sol";

/// @title Rounds: start, commit, draw, post. A phase ends as soon as everybody it waits for has acted.
/// @notice START freezes the pools of two rounds at most; a block's randomness assigns them, then the first opens. COMMIT closes at the first of: all have
/// committed; two thirds have and trainMin has passed; trainMax. The close freezes the pool of the round after next. DRAW records one seed for the
/// audits, the late audits of earlier rounds and shards to come. POST takes the outer root that a majority has merged, and opens the next round; where
/// nothing can be merged, or nobody merged it, the base root stands.
/// @dev The clock is not stored: whoever calls first closes a round whose closing block is past (`sync`).
interface IRounds {
    /// @notice Where a task stands.
    /// @param nextRound the next number to open
    /// @param live index + 1 of the round that has no root yet
    /// @param frozenTo pools of rounds before it are frozen
    /// @param assignedTo rounds before it have a beacon
    /// @param pausedSince when the task last stopped
    /// @param startBlock whose randomness assigns a start that was asked for; 0: none
    /// @param freedEpochs epochs whose storage may be used again
    /// @param isHalted whether no later round opens
    struct Line {
        uint32 nextRound;
        uint32 live;
        uint32 frozenTo;
        uint32 assignedTo;
        uint40 pausedSince;
        uint40 startBlock;
        uint16 freedEpochs;
        bool isHalted;
    }

    /// @notice What settlement needs of a round. Bitmaps are of slots, but for `pool`.
    /// @param isUndone whether an earlier root fell
    /// @param isDrawn whether its audits are drawn
    /// @param pool numbers of solver seats
    /// @param committed slots that committed
    /// @param missing slots that owed a commitment and did not bring it
    /// @param verifiers version of the verifiers' pool
    /// @param whistleblowers version of the whistleblowers' pool
    /// @param dutyUntil the last block in which a statement of the round can cost or earn something; the greatest number while it has no root
    /// @param accepted by votes, and not convicted
    /// @param convicted a fault was proven in the claim itself
    /// @param unserved two of the three auditors of a draw, or all, said UNSERVED
    /// @param lateRejected its late draw has failed, and two of the three auditors or all said REJECT or UNSERVED
    /// @param restored a slash has paid for it
    struct Facts {
        bool isUndone;
        bool isDrawn;
        uint64 pool;
        uint64 committed;
        uint64 missing;
        uint24 verifiers;
        uint24 whistleblowers;
        uint256 dutyUntil;
        uint64 accepted;
        uint64 convicted;
        uint64 unserved;
        uint64 lateRejected;
        uint64 restored;
    }

    /// @notice What has become of a round's claims at this block: bitmaps of slots.
    /// @param accepted by votes, and not convicted
    /// @param mergeable accepted in time, of seats that are not CONVICTED
    /// @param undecided still to be decided in time for the merge
    /// @param open not accepted and not void: undecided, in time or late
    /// @param convicted a fault was proven in the claim itself
    struct ClaimStatuses {
        uint64 accepted;
        uint64 mergeable;
        uint64 undecided;
        uint64 open;
        uint64 convicted;
    }

    /// @notice The pools of the next two rounds were frozen, or of one where no second can follow. The randomness of `beaconBlock` assigns these rounds.
    /// @param task the task
    /// @param firstRound the first round
    /// @param beaconBlock whose randomness assigns them
    event StartAsked(TaskId indexed task, uint256 firstRound, uint256 beaconBlock);
    /// @notice The start's beacon is known.
    /// @param task the task
    /// @param randomness of the deciding block
    event StartDrawn(TaskId indexed task, bytes32 randomness);
    /// @notice Members train the round from its base root.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param baseRoot the outer root that the round starts from
    event RoundOpened(TaskId indexed task, uint256 indexed round, bytes32 baseRoot);
    /// @notice A round that opened without a beacon has one.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param randomness of the deciding block
    event RoundAssigned(TaskId indexed task, uint256 indexed round, bytes32 randomness);
    /// @notice A seat committed.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: its solver's place in the pool
    /// @param claimRoot root of the claim's tree
    /// @param segments how many it has
    event ClaimTaken(TaskId indexed task, uint256 indexed round, uint256 slot, bytes32 claimRoot, uint256 segments);
    /// @notice Commitments ended with `closingBlock`.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param closingBlock the last block that took commitments
    event RoundClosed(TaskId indexed task, uint256 indexed round, uint256 closingBlock);
    /// @notice The audits of a round, the late audits of rounds before it and later shards are drawn.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param randomness of the deciding block
    event AuditsDrawn(TaskId indexed task, uint256 indexed round, bytes32 randomness);
    /// @notice The late audits of the last rounds are drawn; their votes count from `fromBlock`.
    /// @param task the task
    /// @param fromBlock from where late votes count
    /// @param randomness of the deciding block
    event ClosingDrawn(TaskId indexed task, uint256 fromBlock, bytes32 randomness);
    /// @notice A majority merged the round. Bitmaps: slots, seat numbers.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param root the outer root
    /// @param merged slots of the merged claims, as a bitmap
    /// @param signers numbers of the seats that signed, as a bitmap
    event RootPosted(TaskId indexed task, uint256 indexed round, bytes32 root, uint64 merged, uint64 signers);
    /// @notice The root that the round started from stays.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    event RootStood(TaskId indexed task, uint256 indexed round);
    /// @notice No round follows for now.
    /// @param task the task
    event TaskPaused(TaskId indexed task);
    /// @notice A posted root fell: its contest ended in FALLS. Later rounds are undone.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    event RootFell(TaskId indexed task, uint256 indexed round);
    /// @notice No later round opens.
    /// @param task the task
    event TaskHalted(TaskId indexed task);
    /// @notice The storage of an epoch may be used again.
    /// @param task the task
    /// @param epoch 16 rounds: round / 16
    event EpochFreed(TaskId indexed task, uint256 epoch);

    // Everybody
    /// @notice Freezes the pools of the next two rounds, or of one where no second can follow, and asks for their beacon.
    /// @param task the task
    function start(TaskId task) external;

    /// @notice Deals the frozen rounds of a start and opens the first.
    /// @param task the task
    /// @param proof of the deciding block's randomness (`IRandomness.read`)
    function drawStart(TaskId task, bytes calldata proof) external;

    /// @notice Deals a round that opened without a beacon: training begins.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param proof what shows it
    function drawRound(TaskId task, uint256 round, bytes calldata proof) external;

    /// @notice Draws the audits of a closed round.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param proof what shows it
    function drawAudits(TaskId task, uint256 round, bytes calldata proof) external;

    /// @notice Draws the late audits that no later round draws.
    /// @param task the task
    /// @param proof what shows it
    function drawClosing(TaskId task, bytes calldata proof) external;

    /// @notice Commits the sender's claim, once per seat and round.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param baseRoot the outer root that the round starts from
    /// @param beacon of the round
    /// @param claimRoot root of the claim's tree
    /// @param segments trained: at least 3 draws - 2, or all of the round's where these are fewer
    function commit(TaskId task, uint256 round, bytes32 baseRoot, bytes32 beacon, bytes32 claimRoot, uint256 segments) external;

    /// @notice Posts the outer root over accepted claims.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param merged slots of the merged claims
    /// @param root the outer root
    /// @param signers numbers of the seats that signed
    /// @param signatures 64 bytes each (EIP-2098), in ascending order of seat numbers
    function post(TaskId task, uint256 round, uint64 merged, bytes32 root, uint64 signers, bytes calldata signatures) external;

    /// @notice The base root stands: nothing can be merged, or nobody merged it in time.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    function stand(TaskId task, uint256 round) external;

    /// @notice No later round opens: its submitter wants it, or the majority of its shares (`IShares.haltByVote`). What is open settles as always.
    /// @param task the task
    function halt(TaskId task) external;

    /// @notice Lets the ring use the storage of the oldest epoch again: all seats have settled it, but for auditors that earned and owe
    /// nothing in it, and nothing about it is open.
    /// @param task the task
    function freeEpoch(TaskId task) external;

    /// @notice Closes a round whose closing block is past.
    /// @param task the task
    function sync(TaskId task) external;

    // Modules
    /// @notice A posted root fell. The game only: code of Settlement calls it.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param number index of the fall in its task
    /// @return signers numbers of the seats that signed it
    /// @return firstUndone the first round that is undone now
    /// @return lastUndone the last one; below firstUndone where there is none
    function fall(TaskId task, uint256 round, uint256 number)
        external
        returns (uint64 signers, uint256 firstUndone, uint256 lastUndone);

    // Views
    /// @notice An opened round. Reverts with RoundUnknown.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @return what is known of it
    function roundOf(TaskId task, uint256 round) external view returns (RoundView memory);

    /// @notice What has become of the claims of a round.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @return bitmaps of slots
    function statusesOf(TaskId task, uint256 round) external view returns (ClaimStatuses memory);

    /// @notice Roots of a round's claims and their numbers of segments, by slot; 0 where none was committed.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @return roots by slot; 0: none
    /// @return segments by slot; 0: no claim
    function claimsOf(TaskId task, uint256 round) external view returns (bytes32[] memory roots, uint256[] memory segments);

    /// @notice One claim: its seat's id (0: none), root and number of segments.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: its solver's place in the pool
    /// @return seat id of its solver's seat; 0: none
    /// @return root root of its tree
    /// @return segments how many it has
    function claimOf(TaskId task, uint256 round, uint256 slot) external view returns (uint256 seat, bytes32 root, uint256 segments);

    /// @notice The beacon of a round that was assigned, 0 otherwise.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @return the beacon; 0: not assigned
    function beaconOf(TaskId task, uint256 round) external view returns (bytes32);

    /// @notice Where a task stands, and a root: while the task pauses, what the next round starts from; else the base root of the live round.
    /// @param task the task
    /// @return line where it stands
    /// @return root base root of the live round; where none is live, what the next round starts from
    function lineOf(TaskId task) external view returns (Line memory line, bytes32 root);

    /// @notice The next number to open.
    /// @param task the task
    /// @return its number
    function nextRound(TaskId task) external view returns (uint256);

    /// @notice Whether no round is without a root, and the task is halted, or all rounds are used, or it has paused for `dispute` blocks without a start that
    /// can still be drawn. The last is not for good: `start` still works.
    /// @param task the task
    /// @return true: it is over
    function isOver(TaskId task) external view returns (bool);

    /// @notice What settlement needs of the rounds `first` .. `last`.
    /// @param task the task
    /// @param first the first round
    /// @param last the last round
    /// @return in their order
    function factsOf(TaskId task, uint256 first, uint256 last) external view returns (Facts[] memory);
}
