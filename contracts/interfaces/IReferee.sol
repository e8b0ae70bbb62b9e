// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {StateHeader, StepFacts} from "../Types.sol";

/// @title The referee: does one element of one operation of a training step lie outside its bound (docs/spec.md, sections 8 to 10)?
/// @notice It computes; it never votes, keeps nothing and pays nobody. Every number comes with its proof: the node under the task's program, the
/// operands and the claimed element under the claimant's own trace and state. What is not a well-formed proof reverts with a named error.
interface IReferee {
    /// @notice Leaf 2 + number of the program tree.
    /// @param number number of the node in the program
    /// @param data the node's canonical bytes
    /// @param path its place in the program tree
    struct NodeProof {
        uint32 number;
        bytes data;
        bytes32[] path;
    }

    /// @notice Leaves of one buffer: what answers a demand or shows a datum.
    /// @param root of the buffer's tree and `rootPath`, its place in the trace; both unused for W, m, v (the header has them) and constants (the node has them)
    /// @param rootPath place of the root in the trace
    /// @param leaves consecutive whole leaves
    /// @param path siblings of the range, level by level upwards: the left one where the first index is odd, then the right one where the last index is even
    struct BufferOpening {
        bytes32 root;
        bytes32[] rootPath;
        bytes leaves;
        bytes32[] path;
    }

    /// @notice The step that is judged. The caller vouches for it: facts hash to the task's stepRoot, start to the claimed state's root.
    /// @param facts what all steps of the task share; they hash to its stepRoot
    /// @param start the state before the step
    /// @param traceRoot root of the trace of the named step
    struct StepContext {
        StepFacts facts;
        StateHeader start;
        bytes32 traceRoot;
    }

    /// @notice The node is not the program's.
    /// @param programRoot tree over the program of a step
    /// @param number number of the node in the program
    error NodeMismatch(bytes32 programRoot, uint32 number);
    /// @notice The node's bytes have another length than a node of its kind.
    /// @param expectedBytes length that is due
    /// @param actualBytes length that was given
    error NodeMalformed(uint256 expectedBytes, uint256 actualBytes);
    /// @notice A node of no valid program: `what` is out of place.
    /// @param what which field, as right-padded ASCII
    /// @param value what it holds
    error NodeUnsound(bytes32 what, uint256 value);
    /// @notice The operation has more terms than one call can compute.
    /// @param most the most that fit
    /// @param actual what it has
    error TooManyTerms(uint256 most, uint256 actual);
    /// @notice The node's output has no such element.
    /// @param element the number that was asked for
    /// @param count elements of the output
    error ElementUnknown(uint256 element, uint256 count);
    /// @notice A leaf of another length.
    /// @param expected bytes that are due
    /// @param actual bytes that were given
    error WrongLeafBytes(uint256 expected, uint256 actual);
    /// @notice The openings end early or go on behind what the node asks for.
    /// @param expected bytes that the node asks for
    /// @param actual bytes that were given
    error WrongOpeningBytes(uint256 expected, uint256 actual);
    /// @notice The buffer's root is not the trace's.
    /// @param traceRoot the trace
    /// @param buffer number of the buffer
    error BufferMismatch(bytes32 traceRoot, uint256 buffer);
    /// @notice The opened buffers lead to another trace.
    /// @param traceRoot the trace
    /// @param actual root that the opened buffers lead to
    error TraceMismatch(bytes32 traceRoot, bytes32 actual);
    /// @notice Leaves are not under their root.
    /// @param root the tree's root
    /// @param firstLeaf index of the first one
    /// @param count how many they are
    error LeavesMismatch(bytes32 root, uint256 firstLeaf, uint256 count);
    /// @notice An index leads outside of what it chooses from.
    /// @param index the index
    /// @param size how many there are to choose from
    error IndexOutside(uint256 index, uint256 size);
    /// @notice There is no such numeric format.
    /// @param numericFormat what was given: neither FLOAT32_FORMAT nor EXACT_FORMAT
    error UnknownFormat(uint32 numericFormat);

    /// @notice Whether the claimed element is outside of what conforming hardware can give on the claimant's own operands.
    /// @param context the step that is judged
    /// @param node the node, with its place in the program
    /// @param element number of the node's output element, the last loop fastest
    /// @param openings of the output, then of each operand (EQUAL_SELECT: of the index and of the operand that it chooses): the consecutive whole
    /// leaves that hold its run, then their siblings; at the end the siblings of the roots of all these buffers in the trace but W, m, v and
    /// constants. Nothing stands between or behind them: the node tells how long each is.
    /// @return isFault true: beyond the bound, or in an exact program (EXACT_FORMAT) not the one right value
    function judge(
        StepContext calldata context,
        NodeProof calldata node,
        uint256 element,
        bytes calldata openings
    ) external view returns (bool isFault);
}
