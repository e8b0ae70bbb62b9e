// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @title What is shown of one training step, and why it is refused (`StepProofs`).
interface IStepProofs {
    /// @notice That a trace ends in the claimed state.
    /// @param head leaf 0 of the program tree, which has the numbers of the output buffers
    /// @param headPath its place in the program tree
    /// @param weightsPath of the new W's root in the trace; so for m and v
    /// @param firstMomentPath of the new m's root in the trace
    /// @param secondMomentPath of the new v's root in the trace
    struct TraceProof {
        bytes head;
        bytes32[] headPath;
        bytes32[] weightsPath;
        bytes32[] firstMomentPath;
        bytes32[] secondMomentPath;
    }

    /// @notice These are not the facts of the task's steps.
    /// @param expectedStepRoot hash that the task names
    /// @param actualStepRoot hash of what was given
    /// @custom:remedy Bring the facts whose hash the task names.
    error FactsMismatch(bytes32 expectedStepRoot, bytes32 actualStepRoot);
    /// @notice This is not the state of the claim.
    /// @param expectedStateRoot root of the state that is due
    /// @param actualStateRoot root of the state that was given
    /// @custom:remedy Bring the header of the state that is due.
    error HeaderMismatch(bytes32 expectedStateRoot, bytes32 actualStateRoot);
    /// @notice This is not the head of the task's program.
    /// @param programRoot tree over the program of a step
    /// @custom:remedy Bring leaf 0 of the program tree with its path.
    error HeadMismatch(bytes32 programRoot);
    /// @notice The trace does not end in the claimed state.
    /// @param tensor 0 weights, 1 first, 2 second moment
    /// @param buffer the trace's buffer of that tensor
    /// @custom:remedy Bring the trace that ends in the claimed state.
    error OutputMismatch(uint8 tensor, uint256 buffer);
    /// @notice The node has no such place.
    /// @param place 0: the node's output, 1 and up: its operands
    /// @param operands how many operands the node has
    /// @custom:remedy Name the output (0) or an operand of the node.
    error PlaceUnknown(uint32 place, uint256 operands);
    /// @notice A constant is not demanded: everybody has it.
    /// @param buffer the constant
    /// @custom:remedy Take it from the task's program.
    error ConstantDemanded(uint256 buffer);
    /// @notice The buffer has no such leaf.
    /// @param leafIndex the index that was asked for
    /// @param leafCount leaves of the buffer
    /// @custom:remedy Name a leaf that the buffer has.
    error LeafUnknown(uint256 leafIndex, uint256 leafCount);
    /// @notice A leaf is not under its root.
    /// @param root the tree's root
    /// @param index index of the leaf
    /// @custom:remedy Bring the leaf with its path under this root.
    error LeafMismatch(bytes32 root, uint256 index);
}
