// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BoundaryProof, TaskId} from "../../Types.sol";
import {StatementRef} from "../GameTypes.sol";
import {SignedVote} from "../StatementTypes.sol";

/// @title DISPUTE of a claim or of a signed vote: "from this state, k steps, I got that state".
/// @notice
/// ```
///            claimant              opener       claimant       opener             claimant         opener
/// dispute -> postRoots ----------> nameStep --> postTrace ---> demandLeaves ----> showLeaves ----> prove...
///   ROOTS -----------------> NAME -------> TRACE ------> PROVE ------------> LEAVES ---------> LAST
/// ```
/// Each turn has `respond` blocks, six turns at most. From the trace on the opener may prove a fault, of which the referee computes everything: then,
/// and where the claimant is silent at its turn, the seat is CONVICTED. Where the opener is silent at its turn the dispute is CLEARED: half of its
/// bond goes to the claimant, half is burned. Where the seat was convicted elsewhere meanwhile the dispute is MOOT, its bond returned.
/// The moves from `postTrace` on are in `ISteps`.
/// @dev Any number runs at once, the k-th open one on a seat costs k bonds. Nothing waits for another dispute, so each ends by a block that is known
/// when it opens.
interface IDisputes {
    /// @notice Where a dispute stands. The last three are ends.
    enum Stage {
        NONE,
        ROOTS,
        NAME,
        TRACE,
        PROVE,
        LEAVES,
        LAST,
        CLEARED,
        CONVICTED,
        MOOT
    }

    /// @notice A statement is disputed; its seat owes the states of all steps of the segment.
    /// @param task the task
    /// @param dispute name of the dispute
    /// @param seat id of the seat
    /// @param statement the claim or the vote
    /// @param segment index of the segment in its claim
    /// @param opener who opened it
    /// @param bondWei the bond, in wei
    /// @param clockBlock the last block for the next move
    event DisputeOpened(TaskId indexed task, bytes32 indexed dispute, uint256 indexed seat, StatementRef statement, uint256 segment, address opener, uint256 bondWei, uint256 clockBlock);
    /// @notice The claimant posted the k + 1 states of the segment.
    /// @param task the task
    /// @param dispute name of the dispute
    /// @param roots state roots, from the start of the segment to its end
    /// @param clockBlock the last block for the next move
    event StepRootsPosted(TaskId indexed task, bytes32 indexed dispute, bytes32[] roots, uint256 clockBlock);
    /// @notice The opener named a step, from 0.
    /// @param task the task
    /// @param dispute name of the dispute
    /// @param step step of the segment, from 0
    /// @param clockBlock the last block for the next move
    event StepNamed(TaskId indexed task, bytes32 indexed dispute, uint256 step, uint256 clockBlock);
    /// @notice A dispute ended.
    /// @param task the task
    /// @param dispute name of the dispute
    /// @param outcome how it ended
    event DisputeEnded(TaskId indexed task, bytes32 indexed dispute, Stage outcome);

    /// @notice There is, or was, this very dispute.
    /// @param dispute name of the dispute
    /// @custom:remedy Choose another salt.
    error DisputeExists(bytes32 dispute);
    /// @notice The sender did not open the dispute.
    /// @param expected what is due
    /// @param actual what was given
    /// @custom:remedy Only who opened the dispute names the step, demands and proves; anybody may open another one.
    error NotOpener(address expected, address actual);
    /// @notice What is brought does not belong to the statement, or to what was posted before, or is another number of things than is due.
    /// @param what which one, as right-padded ASCII
    /// @param expected what is due
    /// @param actual what was given
    /// @custom:remedy Bring what the statement hides, or what was posted.
    error NotBound(bytes32 what, uint256 expected, uint256 actual);
    /// @notice There is no such step, demand or datum, or there are too many leaves.
    /// @param what which one, as right-padded ASCII
    /// @param end the first number that there is none of
    /// @param actual what was given
    /// @custom:remedy Stay below `end`: numbers count from 0.
    error NotBelow(bytes32 what, uint256 end, uint256 actual);
    /// @notice A state carries other step numbers than its place in the segment demands.
    /// @param expectedLocal the optimiser's step that is due
    /// @param actualLocal the one that was given
    /// @param expectedGlobal the schedule's step that is due
    /// @param actualGlobal the one that was given
    /// @custom:remedy Bring the state whose step numbers follow those of the segment's start.
    error WrongSteps(uint256 expectedLocal, uint256 actualLocal, uint256 expectedGlobal, uint256 actualGlobal);

    // Opening
    /// @notice Disputes a segment of a claim, once the claim is decided and until the round's close + `dispute`.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: its solver's place in the pool
    /// @param segment index of the segment in its claim
    /// @param bondLimitWei the most that the sender pays; taken from its credit are (1 + open disputes on the seat) * disputeBond
    /// @param salt names the dispute, with the task and the sender
    /// @return dispute keccak256(abi.encode(task, sender, salt))
    function disputeClaim(TaskId task, uint256 round, uint256 slot, uint256 segment, uint256 bondLimitWei, bytes32 salt)
        external
        returns (bytes32 dispute);

    /// @notice Disputes a signed vote on its segment; a late one until the block from which late votes count + `dispute`. The claimant is its signer.
    /// @param task the task
    /// @param signed the vote and its signature
    /// @param bondLimitWei the most that the sender pays
    /// @param salt tells equal ones apart
    /// @return dispute its name
    function disputeVote(TaskId task, SignedVote calldata signed, uint256 bondLimitWei, bytes32 salt)
        external
        returns (bytes32 dispute);

    // Turns
    /// @notice The solver posts the k + 1 state roots of the segment.
    /// @param task the task
    /// @param dispute name of the dispute
    /// @param roots state roots, from the start of the segment to its end
    /// @param start opens boundary `segment` of the claim, the first root
    /// @param end opens boundary `segment` + 1, the last root
    function postClaimRoots(TaskId task, bytes32 dispute, bytes32[] calldata roots, BoundaryProof calldata start, BoundaryProof calldata end) external;

    /// @notice The auditor posts the k + 1 state roots of its replay.
    /// @param task the task
    /// @param dispute name of the dispute
    /// @param roots state roots, from the start of the segment to its end
    /// @param solver account of the claim's solver, which the start leaf names
    /// @param start opens boundary `segment` of the claim, the first root; its leaf is the vote's start leaf
    /// @param end opens boundary `segment` + 1 of the claim; in an exact task its leaf is the vote's end leaf, and its root is the last one where the vote
    /// is an ACCEPT, another one where it is a REJECT_STATE; else it is not read
    /// @param sealSalt of the seal, which hides the last root
    function postVoteRoots(TaskId task, bytes32 dispute, bytes32[] calldata roots, address solver, BoundaryProof calldata start, BoundaryProof calldata end, bytes32 sealSalt) external;

    /// @notice The opener names the step (0 .. k - 1) that it will prove wrong, and brings the posted roots along.
    /// @param task the task
    /// @param dispute name of the dispute
    /// @param step step of the segment, from 0
    /// @param roots state roots, from the start of the segment to its end
    function nameStep(TaskId task, bytes32 dispute, uint256 step, bytes32[] calldata roots) external;

    // The end
    /// @notice After a clock has run out: whoever was on turn loses; at once where the seat was convicted elsewhere. Anybody may call it.
    /// @param task the task
    /// @param dispute name of the dispute
    function endDispute(TaskId task, bytes32 dispute) external;

    // Views
    /// @notice Where a dispute stands; what never changes stands in `DisputeOpened`.
    /// @param task the task
    /// @param dispute name of the dispute
    /// @return stage NONE: there is no such dispute
    /// @return clockBlock the last block of the turn
    /// @return step that was named
    /// @return startRoot once a step is named, the root of the state before it
    /// @return traceRoot once its trace is posted, the root of that
    /// @return shown how many of the demanded leaves
    function disputeOf(TaskId task, bytes32 dispute) external view returns (Stage stage, uint256 clockBlock, uint256 step, bytes32 startRoot, bytes32 traceRoot, uint256 shown);
}
