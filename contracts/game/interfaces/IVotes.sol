// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../Types.sol";
import {Statements} from "../../libraries/Statements.sol";

/// @title JUDGE: counts signed votes, decides claims, adds up the pay of opened votes.
/// @notice A draw is accepted where the primary, or both reserves, say ACCEPT. It has failed where the primary and a reserve have said something else.
/// Votes decide merging and pay, never a stake. What does not count is skipped, never refused: who hands in one vote of a batch first must not make the
/// batch fail.
interface IVotes {
    /// @notice A vote as it is handed in. What its hashes were made of comes with it, or later, or never.
    /// @param slot of the claim
    /// @param draw index of the draw in its claim; the task's number of draws is the late one
    /// @param rank 0 primary, 1 and 2 reserves
    /// @param word `Statements.Word`
    /// @param isOpened whether it comes with its opening
    /// @param namedLeaf of a REJECT of a leaf
    /// @param startLeaf of the claim
    /// @param endLeaf of the claim, where the vote comes without its opening
    /// @param seal where the vote comes without its opening
    /// @param opening what end leaf and seal were made of
    /// @param r of the signature, EIP-2098
    /// @param vs of the signature, EIP-2098
    struct HandedVote {
        uint32 slot;
        uint8 draw;
        uint8 rank;
        uint8 word;
        bool isOpened;
        uint32 namedLeaf;
        bytes32 startLeaf;
        bytes32 endLeaf;
        bytes32 seal;
        Statements.Opening opening;
        bytes32 r;
        bytes32 vs;
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

    // Views
    /// @notice What the votes have made of the claims of a round: bitmaps of slots.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @return accepted by votes
    /// @return refused accepted too late to be merged, or void
    /// @return convicted a fault was proven in the claim itself
    function resultOf(TaskId task, uint256 round) external view returns (uint64 accepted, uint64 refused, uint64 convicted);

    /// @notice Codes of the counted votes of a draw, by rank. 0 nothing, 1 ACCEPT, 2 a REJECT, 3 UNSERVED, 4 ABSTAIN; 5 and 6 are 1 and 2 with a paid
    /// opening.
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

    /// @notice Whether a draw is accepted, has failed, or is out of time: openings of its votes are paid then. In a failed draw an UNSERVED still counts.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: its solver's place in the pool
    /// @param draw index of the draw in its claim; the task's number of draws is the late one
    /// @return true: it is; false also where there is no such draw
    function isDrawOver(TaskId task, uint256 round, uint256 slot, uint256 draw) external view returns (bool);
}
