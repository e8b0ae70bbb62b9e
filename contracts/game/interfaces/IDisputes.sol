// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BoundaryProof, LeafProof, StateHeader, StepFacts, TaskId} from "../../Types.sol";
import {IReferee} from "../../interfaces/IReferee.sol";
import {IStepProofs} from "../../interfaces/IStepProofs.sol";
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
/// @dev Any number runs at once, the k-th open one on a seat costs k bonds. Nothing waits for another dispute, so each ends by a block that is known
/// when it opens. Facts of the task's steps come with each call that needs them; they hash to `GameTerms.stepRoot`.
interface IDisputes is IStepProofs {
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

    /// @notice A leaf that the claimant shall show.
    /// @param node of the task's program, with its place there
    /// @param place 0: the node's output, 1 and up: its operands; no constant, everybody has them
    /// @param leafIndex index of the leaf in the buffer
    struct LeafDemand {
        IReferee.NodeProof node;
        uint32 place;
        uint32 leafIndex;
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
    /// @notice The claimant posted the trace of the named step.
    /// @param task the task
    /// @param dispute name of the dispute
    /// @param traceRoot root of the trace of the named step
    /// @param start state before
    /// @param end state after
    /// @param clockBlock the last block for the next move
    event TracePosted(TaskId indexed task, bytes32 indexed dispute, bytes32 traceRoot, StateHeader start, StateHeader end, uint256 clockBlock);
    /// @notice The opener demands a leaf of a buffer of the trace, or of the state before the step.
    /// @param task the task
    /// @param dispute name of the dispute
    /// @param number which one
    /// @param node the node, with its place in the program
    /// @param place 0 the output, then the operands
    /// @param leafIndex index of the leaf in its buffer
    event LeafDemanded(TaskId indexed task, bytes32 indexed dispute, uint256 number, uint256 node, uint256 place, uint256 leafIndex);
    /// @notice The claimant shows the leaves by this block.
    /// @param task the task
    /// @param dispute name of the dispute
    /// @param clockBlock the last block for the next move
    event LeavesDue(TaskId indexed task, bytes32 indexed dispute, uint256 clockBlock);
    /// @notice The claimant showed a demanded leaf.
    /// @param task the task
    /// @param dispute name of the dispute
    /// @param number which one
    /// @param leaf index of the leaf in its tree
    event LeafShown(TaskId indexed task, bytes32 indexed dispute, uint256 number, bytes leaf);
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
    /// @notice No leaf is named.
    /// @custom:remedy Name one to eight leaves, or prove.
    error NothingDemanded();
    /// @notice A state carries other step numbers than its place in the segment demands.
    /// @param expectedLocal the optimiser's step that is due
    /// @param actualLocal the one that was given
    /// @param expectedGlobal the schedule's step that is due
    /// @param actualGlobal the one that was given
    /// @custom:remedy Bring the state whose step numbers follow those of the segment's start.
    error WrongSteps(uint256 expectedLocal, uint256 actualLocal, uint256 expectedGlobal, uint256 actualGlobal);
    /// @notice What was to be proven wrong is right.
    /// @param index which one
    /// @custom:remedy Prove another element, or let the dispute end.
    error NoFault(uint256 index);

    // Opening --------------------------------------------------------------------------------------------------------
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

    // Turns ----------------------------------------------------------------------------------------------------------
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
    /// @param end opens boundary `segment` + 1 of the claim; in an exact task its leaf is the vote's end leaf, and its root is the last one where the vote is an ACCEPT, another one where it is a REJECT_STATE; else it is not read
    /// @param sealSalt of the seal, which hides the last root
    function postVoteRoots(TaskId task, bytes32 dispute, bytes32[] calldata roots, address solver, BoundaryProof calldata start, BoundaryProof calldata end, bytes32 sealSalt) external;

    /// @notice The opener names the step (0 .. k - 1) that it will prove wrong, and brings the posted roots along.
    /// @param task the task
    /// @param dispute name of the dispute
    /// @param step step of the segment, from 0
    /// @param roots state roots, from the start of the segment to its end
    function nameStep(TaskId task, bytes32 dispute, uint256 step, bytes32[] calldata roots) external;

    /// @notice The claimant posts the trace of the named step, irrevocably.
    /// @param task the task
    /// @param dispute name of the dispute
    /// @param facts what all steps of the task share; they hash to its stepRoot
    /// @param traceRoot root of the trace of the named step
    /// @param start the state before the step
    /// @param end the state after it
    /// @param proof that the trace ends in that state
    function postTrace(TaskId task, bytes32 dispute, StepFacts calldata facts, bytes32 traceRoot, StateHeader calldata start, StateHeader calldata end, TraceProof calldata proof) external;

    /// @notice The opener demands leaves, once in a dispute: one to eight.
    /// @param task the task
    /// @param dispute name of the dispute
    /// @param facts what all steps of the task share; they hash to its stepRoot
    /// @param list the leaves, at most 8
    function demandLeaves(TaskId task, bytes32 dispute, StepFacts calldata facts, LeafDemand[] calldata list) external;

    /// @notice The claimant shows demanded leaves in the order of the list, in one call or in several.
    /// @param task the task
    /// @param dispute name of the dispute
    /// @param start the state before the step
    /// @param openings leaves and their siblings
    function showLeaves(TaskId task, bytes32 dispute, StateHeader calldata start, IReferee.BufferOpening[] calldata openings) external;

    // Proofs: the opener's, from the trace on ----------------------------------------------------------------------------
    /// @notice Convicts: the referee finds the claimed element of a node beyond its bound.
    /// @param task the task
    /// @param dispute name of the dispute
    /// @param facts what all steps of the task share; they hash to its stepRoot
    /// @param start state before
    /// @param node the node, with its place in the program
    /// @param element number of the element of the output, the last loop fastest
    /// @param openings what `IReferee.judge` reads
    function proveOperation(TaskId task, bytes32 dispute, StepFacts calldata facts, StateHeader calldata start, IReferee.NodeProof calldata node, uint256 element, bytes calldata openings) external;

    /// @notice Convicts: a token, label or scalar of the trace is not the one that beacon, shard and step deal out, or the schedule gives.
    /// @param task the task
    /// @param dispute name of the dispute
    /// @param facts what all steps of the task share; they hash to its stepRoot
    /// @param start state before
    /// @param buffer 3 tokens, 4 labels, 5 scalars
    /// @param position row * sequenceTokens + column; of scalars 0 learning rate, 1 and 2 bias corrections
    /// @param opening the leaf of the trace that has it
    /// @param datum the leaf of the dataset, or under `facts.scalarsRoot`, that has the right one
    function proveDatum(TaskId task, bytes32 dispute, StepFacts calldata facts, StateHeader calldata start, uint256 buffer, uint256 position, IReferee.BufferOpening calldata opening, LeafProof calldata datum) external;

    // The end --------------------------------------------------------------------------------------------------------
    /// @notice After a clock has run out: whoever was on turn loses; at once where the seat was convicted elsewhere. Anybody may call it.
    /// @param task the task
    /// @param dispute name of the dispute
    function end(TaskId task, bytes32 dispute) external;

    // Views ----------------------------------------------------------------------------------------------------------
    /// @notice Who computes the operations of a step.
    /// @return its address
    function referee() external view returns (IReferee);

    /// @notice Where a dispute stands; what never changes stands in `DisputeOpened`.
    /// @param task the task
    /// @param dispute name of the dispute
    /// @return stage NONE: there is no such dispute
    /// @return clockBlock the last block of the turn
    /// @return step that was named
    /// @return origin once a step is named, the root of the state before it
    /// @return result once its trace is posted, the root of that
    /// @return shown how many of the demanded leaves
    function disputeOf(TaskId task, bytes32 dispute) external view returns (Stage stage, uint256 clockBlock, uint256 step, bytes32 origin, bytes32 result, uint256 shown);
}
