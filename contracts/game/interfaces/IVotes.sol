// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../Types.sol";
import {Statements} from "../../libraries/Statements.sol";
import {StatementRef} from "../GameTypes.sol";

/// @title JUDGE: counts signed votes, decides claims, adds up the pay of opened votes.
/// @notice A draw is accepted where the primary, or both reserves, say ACCEPT; it has failed once that is impossible. Votes decide merging and pay, never a
/// stake. What does not count is skipped, never refused: who hands in one vote of a batch first must not make the batch fail.
interface IVotes {
    /// @notice A vote as it is handed in.
    /// @param place slot << 64 | draw << 56 | rank << 48 | word << 40 | kind << 32 | named leaf; kind 1: with its opening, 0: without
    /// @param startLeaf of the claim
    /// @param a without opening: the claim's end leaf; with: the claim's end root
    /// @param b without opening: the seal; with: the salt of the claim's end leaf
    /// @param c with opening: the auditor's own end root
    /// @param d with opening: the salt of the seal
    /// @param r of the signature, EIP-2098
    /// @param vs of the signature, EIP-2098
    struct HandedVote {
        uint256 place;
        bytes32 startLeaf;
        bytes32 a;
        bytes32 b;
        bytes32 c;
        bytes32 d;
        bytes32 r;
        bytes32 vs;
    }

    /// @notice What settlement needs of a round: bitmaps of slots.
    /// @param accepted by votes, and not convicted
    /// @param convicted a fault was proven in the claim itself
    /// @param unserved two of three auditors of a draw said UNSERVED
    /// @param lateRejected two of three auditors of a late audit said that it is false, or was not served
    /// @param restored a slash has paid for it
    struct Ends {
        uint64 accepted;
        uint64 convicted;
        uint64 unserved;
        uint64 lateRejected;
        uint64 restored;
    }

    /// @notice Votes counted: for each its slot, draw, rank and word, a byte each.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param votes four bytes each: slot, draw, rank, word
    event VotesCounted(TaskId indexed task, uint256 indexed round, bytes votes);
    /// @notice Votes opened, and paid at settlement: slot, draw, rank and word, a byte each.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param votes four bytes each: slot, draw, rank, word
    event VotesOpened(TaskId indexed task, uint256 indexed round, bytes votes);
    /// @notice Votes of this transaction came by way of a contract: whoever holds a false one against its signer reads it here.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param votes those that were counted or paid, as they were handed in
    event VotesRelayed(TaskId indexed task, uint256 indexed round, HandedVote[] votes);

    /// @notice Counts votes of one round, then pays openings. Anybody may hand in anybody's.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param handed in any order; those of one claim together cost least
    function judge(TaskId task, uint256 round, HandedVote[] calldata handed) external;

    /// @notice Judges the votes of a round and late votes of the one before it, then posts the root that they allow (`IRounds.post`).
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param handed in any order; those of one claim together cost least
    /// @param late votes of the round before
    /// @param merged slots of the merged claims, as a bitmap
    /// @param root the outer root
    /// @param signers numbers of the seats that signed, as a bitmap
    /// @param signatures 64 bytes each
    function judgeAndPost(TaskId task, uint256 round, HandedVote[] calldata handed, HandedVote[] calldata late, uint64 merged, bytes32 root, uint64 signers, bytes calldata signatures) external;

    // Modules --------------------------------------------------------------------------------------------------------
    /// @notice A fault was proven in this very claim. The game only.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: its solver's place in the pool
    function markConvicted(TaskId task, uint256 round, uint256 slot) external;

    /// @notice Whether a vote that its seat was convicted of is a counted REJECT that made a claim void, and the claim was not restored yet. The game only.
    /// @param task the task
    /// @param ref the vote
    /// @param seat id of the seat
    /// @return true: it is, and is marked now
    function markRestored(TaskId task, StatementRef calldata ref, uint256 seat) external returns (bool);

    /// @notice Takes what a seat has in the bucket of an epoch. The game only.
    /// @param task the task
    /// @param seat id of the seat
    /// @param epoch 16 rounds: round / 16
    /// @return pays counted votes with an opening
    /// @return fees fees of UNSERVED
    function takeBucket(TaskId task, uint256 seat, uint256 epoch) external returns (uint256 pays, uint256 fees);

    /// @notice Which of the signers have signed a merge. Reverts with NoMajority unless they are more than half of the seats.
    /// @param task the task
    /// @param merge what they signed
    /// @param seats numbers of the round's solver seats that are not closed
    /// @param signers numbers of seats
    /// @param signatures 64 bytes each, in ascending order of seat numbers
    /// @return good numbers of those whose signature is good
    function requireMajority(
        TaskId task,
        Statements.MergeSignature calldata merge,
        uint64 seats,
        uint64 signers,
        bytes calldata signatures
    ) external view returns (uint64 good);

    // Views ----------------------------------------------------------------------------------------------------------
    /// @notice What the votes have made of the claims of a round: bitmaps of slots.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @return accepted by votes
    /// @return refused accepted too late to be merged, or void
    /// @return convicted a fault was proven in the claim itself
    function resultOf(TaskId task, uint256 round) external view returns (uint64 accepted, uint64 refused, uint64 convicted);

    /// @notice What the claims of rounds `first` .. `last` have come to.
    /// @param task the task
    /// @param first the first round
    /// @param last the last round
    /// @return in their order
    function endsOf(TaskId task, uint256 first, uint256 last) external view returns (Ends[] memory);

    /// @notice How many draws of a claim have two UNSERVED.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: its solver's place in the pool
    /// @return draws
    function countUnserved(TaskId task, uint256 round, uint256 slot) external view returns (uint256);

    /// @notice The counted words of a draw by rank, 0 where there is none; 4 more where the opening was paid.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: its solver's place in the pool
    /// @param draw index of the draw in its claim; the task's number of draws is the late one
    /// @return codes of `Ballots`
    function votesOf(TaskId task, uint256 round, uint256 slot, uint256 draw) external view returns (uint256[3] memory);

    /// @notice The seat drawn for a rank, and its segment; 0 where there is no such draw.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: its solver's place in the pool
    /// @param draw index of the draw in its claim; the task's number of draws is the late one
    /// @param rank 0 primary, 1 and 2 reserves
    /// @return seat its id
    /// @return segment index of the segment
    function drawnOf(TaskId task, uint256 round, uint256 slot, uint256 draw, uint256 rank) external view returns (uint256 seat, uint256 segment);

    /// @notice The last round of which a vote of the seat counted, plus one; 0: none.
    /// @param task the task
    /// @param seat id of the seat
    /// @return round + 1; 0: none
    function lastVotedOf(TaskId task, uint256 seat) external view returns (uint256);

    /// @notice Whether no vote of a draw can count any more.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: its solver's place in the pool
    /// @param draw index of the draw in its claim; the task's number of draws is the late one
    /// @return true: none can
    function isDrawOver(TaskId task, uint256 round, uint256 slot, uint256 draw) external view returns (bool);
}
