// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BoundaryProof, LeafProof, TaskId} from "../../Types.sol";
import {Statements} from "../../libraries/Statements.sol";
import {OuterOpening, SignedSealed, SignedVote, WorkProof} from "../StatementTypes.sol";

/// @title What proves a statement false in one transaction.
/// @notice A proof must have been committed by its sender in an earlier block: so nobody can copy it from the pool of transactions. What is committed is
/// keccak256(abi.encode(sender, keccak256(calldata of the proof))).
interface IEvidence {
    /// @notice Names a claim.
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: its solver's place in the pool
    struct ClaimAt {
        uint32 round;
        uint32 slot;
    }

    /// @notice Boundary 0 of a claim and what it must be.
    /// @param first boundary 0
    /// @param base the two roots whose hash is the root that the round started from
    /// @param work of the solver's last merged claim of the same epoch. Looked at only where moments carry over and there is such a claim
    struct StartProof {
        BoundaryProof first;
        OuterOpening base;
        WorkProof work;
    }

    /// @notice A leaf of a claim's pseudo-gradient and what it must be.
    /// @param work of the claim
    /// @param base the two roots whose hash is the root that the round started from
    /// @param last the claim's last boundary
    /// @param globalLeaf in the weights of `base`
    /// @param finalLeaf in the weights of `last`
    /// @param deltaLeaf in the pseudo-gradient
    struct DeltaProof {
        WorkProof work;
        OuterOpening base;
        BoundaryProof last;
        LeafProof globalLeaf;
        LeafProof finalLeaf;
        LeafProof deltaLeaf;
    }

    /// @notice A digest was committed.
    /// @param sender who called
    /// @param digest of the proof to come
    event ProofCommitted(address indexed sender, bytes32 digest);

    /// @notice Commits to a proof that the sender will bring.
    /// @param digest of the proof to come
    function commitProof(bytes32 digest) external;

    // Claims
    /// @notice The claim does not start from the base root, or with other moments and steps than it must.
    /// @param task the task
    /// @param claim the claim
    /// @param proof what shows it
    function proveStart(TaskId task, ClaimAt calldata claim, StartProof calldata proof) external;

    /// @notice A leaf of the pseudo-gradient is not the encoded difference.
    /// @param task the task
    /// @param claim the claim
    /// @param leaf index of the leaf in its tree
    /// @param proof what shows it
    function proveDelta(TaskId task, ClaimAt calldata claim, uint256 leaf, DeltaProof calldata proof) external;

    /// @notice A leaf of the pseudo-gradient has a scale that no encoding has.
    /// @param task the task
    /// @param claim the claim
    /// @param leaf index of the leaf in its tree
    /// @param work the work leaf of the claim
    /// @param deltaLeaf of the pseudo-gradient
    function proveScale(TaskId task, ClaimAt calldata claim, uint256 leaf, WorkProof calldata work, LeafProof calldata deltaLeaf) external;

    /// @notice What the claim hands on is not that of its last boundary.
    /// @param task the task
    /// @param claim the claim
    /// @param work the work leaf of the claim
    /// @param last opens the claim's last boundary
    function proveCarried(TaskId task, ClaimAt calldata claim, WorkProof calldata work, BoundaryProof calldata last) external;

    // Votes
    /// @notice The vote names another leaf at a boundary than the claim's tree holds.
    /// @param task the task
    /// @param signed the vote and its signature
    /// @param boundary index of the boundary: the state after so many segments
    /// @param leaf that the claim's tree holds there
    /// @param path siblings up to the root
    function proveVoteLeaf(TaskId task, SignedVote calldata signed, uint256 boundary, bytes32 leaf, bytes32[] calldata path) external;

    /// @notice Two votes on one draw that differ.
    /// @param task the task
    /// @param first one statement
    /// @param second the other statement
    function proveTwoVotes(TaskId task, SignedVote calldata first, SignedVote calldata second) external;

    /// @notice Two seals of one draw that differ.
    /// @param task the task
    /// @param first one statement
    /// @param second the other statement
    function proveTwoSeals(TaskId task, SignedSealed calldata first, SignedSealed calldata second) external;

    /// @notice A vote that is not on what was sealed.
    /// @param task the task
    /// @param signed the vote and its signature
    /// @param sealed_ what was sealed, and its signature
    function proveVoteAndSeal(TaskId task, SignedVote calldata signed, SignedSealed calldata sealed_) external;

    /// @notice A REJECT of a leaf that is not there.
    /// @param task the task
    /// @param signed the vote and its signature
    function proveNoLeaf(TaskId task, SignedVote calldata signed) external;

    /// @notice A REJECT_START of a claim that starts as it must.
    /// @param task the task
    /// @param signed the vote and its signature
    /// @param proof what shows it
    function proveRightStart(TaskId task, SignedVote calldata signed, StartProof calldata proof) external;

    /// @notice A REJECT_DELTA of a leaf that is the encoded difference, of a claim whose carried root is right too.
    /// @param task the task
    /// @param signed the vote and its signature
    /// @param proof what shows it
    function proveRightDelta(TaskId task, SignedVote calldata signed, DeltaProof calldata proof) external;

    /// @notice In an exact task: an ACCEPT of two ends that differ, or a REJECT_STATE of equal ones.
    /// @param task the task
    /// @param signed the vote and its signature
    /// @param opening what opens it
    function proveEnds(TaskId task, SignedVote calldata signed, Statements.Opening calldata opening) external;

    // Views
    /// @notice What to commit for a call with these bytes.
    /// @param sender who called
    /// @param data all bytes of the call
    /// @return the digest
    function digestOf(address sender, bytes calldata data) external pure returns (bytes32);

    /// @notice The block in which a sender committed a digest last, 0: never.
    /// @param sender who called
    /// @param digest of the proof to come
    /// @return the block; 0: never
    function committedBlock(address sender, bytes32 digest) external view returns (uint256);
}
