// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {LeafProof, StateHeader, StepFacts, TaskId} from "../../Types.sol";
import {IReferee} from "../../interfaces/IReferee.sol";
import {IStepProofs} from "../../interfaces/IStepProofs.sol";

/// @title The named step of a dispute: the trace, the leaves that are demanded, and the proof of one wrong number.
/// @notice The order of the turns is in `IDisputes`; so are the end of a dispute, and what refuses a move out of turn.
/// @dev Facts of the task's steps come with each call that needs them; they hash to `GameTerms.stepRoot`.
interface ISteps is IStepProofs {
    /// @notice A leaf that the claimant shall show.
    /// @param node of the task's program, with its place there
    /// @param place 0: the node's output, 1 and up: its operands; no constant, everybody has them
    /// @param leafIndex index of the leaf in the buffer
    struct LeafDemand {
        IReferee.NodeProof node;
        uint32 place;
        uint32 leafIndex;
    }

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

    /// @notice No leaf is named.
    /// @custom:remedy Name one to eight leaves, or prove.
    error NothingDemanded();
    /// @notice What was to be proven wrong is right.
    /// @param index which one
    /// @custom:remedy Prove another element, or let the dispute end.
    error NoFault(uint256 index);

    // Turns
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

    // Proofs: the opener's, from the trace on
    /// @notice Convicts: the referee finds the claimed element of a node beyond its bound.
    /// @param task the task
    /// @param dispute name of the dispute
    /// @param facts what all steps of the task share; they hash to its stepRoot
    /// @param start state before
    /// @param node the node, with its place in the program
    /// @param element number of the element of the output, the last loop fastest
    /// @param openings what `IReferee.judge` reads
    function proveOperation(TaskId task, bytes32 dispute, StepFacts calldata facts, StateHeader calldata start, IReferee.NodeProof calldata node, uint256 element, bytes calldata openings) external;

    /// @notice Convicts: a token, label or scalar of the trace is not the one that beacon, shard and step assign, or the schedule gives.
    /// @param task the task
    /// @param dispute name of the dispute
    /// @param facts what all steps of the task share; they hash to its stepRoot
    /// @param start state before
    /// @param buffer 3 tokens, 4 labels, 5 scalars
    /// @param position row * sequenceTokens + column; of scalars 0 learning rate, 1 and 2 bias corrections
    /// @param opening the leaf of the trace that has it
    /// @param datum the leaf of the dataset, or under `facts.scalarsRoot`, that has the right one
    function proveDatum(TaskId task, bytes32 dispute, StepFacts calldata facts, StateHeader calldata start, uint256 buffer, uint256 position, IReferee.BufferOpening calldata opening, LeafProof calldata datum) external;

    // Views
    /// @notice Who computes the operations of a step.
    /// @return its address
    function referee() external view returns (IReferee);
}
