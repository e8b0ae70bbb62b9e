// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {StepFacts} from "../Types.sol";
import {IReferee} from "../interfaces/IReferee.sol";
import {PositionalMerkle} from "./PositionalMerkle.sol";
import {Run} from "./Runs.sol";
import {StepNode} from "./StepNode.sol";

/// @title Checks what is shown of a step: a node of its program, leaves of its buffers (docs/spec.md, section 10).
library Openings {
    /// @dev Of the program tree: the head and the buffers come before the nodes.
    uint256 internal constant FIRST_NODE_LEAF = 2;

    /// @notice How far the openings of an element are read.
    /// @param place the next byte
    /// @param roots of the buffers that were opened and are leaves of the trace
    struct Reader {
        uint256 place;
        PositionalMerkle.Set roots;
    }

    /// @notice Reverts unless the node is the one of that number in the task's program.
    function requireNode(StepFacts calldata facts, IReferee.NodeProof calldata node) internal pure {
        (uint256 index, uint256 count) =
            (FIRST_NODE_LEAF + node.number, FIRST_NODE_LEAF + uint256(facts.programNodes));
        if (!PositionalMerkle.verifyData(facts.programRoot, node.data, index, count, node.path)) {
            revert IReferee.NodeMismatch(facts.programRoot, node.number);
        }
    }

    /// @notice The elements of an access, in leaves that lead to the right root or, where that root is a leaf of the trace, are put down for
    /// `requireTrace`; one element repeats for all terms.
    /// @param openings leaves and siblings of one access after the other; `reader` knows where this one's begin
    function openRun(
        IReferee.StepContext calldata context,
        StepNode.Access memory access,
        bytes calldata openings,
        Reader memory reader
    ) internal pure returns (Run memory run) {
        (uint256 start, uint256 length, uint256 leafBytes) = (access.start, access.length, access.leafBytes);
        if (start >= access.size || length > access.size - start) {
            revert IReferee.IndexOutside(start, access.size);
        }
        unchecked {
            uint256 elementBytes = access.elementBytes;
            uint256 first = elementBytes * start / leafBytes;
            uint256 count = (elementBytes * (start + length) - 1) / leafBytes + 1 - first;
            bytes32 root;
            (run.data, root) = _readLeaves(access, first, count, openings, reader);
            _requireRoot(context, access, first, count, root, reader);
            run.first = start - first * leafBytes / elementBytes;
            run.repeats = length == 1;
        }
    }

    /// @notice Reverts unless the buffers read so far are the trace's, by the siblings of their roots, which are all that is left of `openings`.
    function requireTrace(
        IReferee.StepContext calldata context,
        bytes calldata openings,
        Reader memory reader
    ) internal pure {
        uint256 levels = PositionalMerkle.depth(context.facts.programBuffers);
        uint256 siblings = 0;
        if (reader.roots.count != 0) siblings = PositionalMerkle.setSiblings(reader.roots, levels);
        bytes32[] calldata path = _readPath(siblings, openings, reader);
        if (reader.place != openings.length) {
            revert IReferee.WrongOpeningBytes(reader.place, openings.length);
        }
        if (reader.roots.count == 0) return;
        bytes32 found = PositionalMerkle.foldSet(reader.roots, levels, path);
        if (found != context.traceRoot) revert IReferee.TraceMismatch(context.traceRoot, found);
    }

    /// @dev `count` leaves from leaf `first` on, and the root that they lead to.
    function _readLeaves(
        StepNode.Access memory access,
        uint256 first,
        uint256 count,
        bytes calldata openings,
        Reader memory reader
    ) private pure returns (bytes memory leaves, bytes32 root) {
        unchecked {
            uint256 leafBytes = access.leafBytes;
            uint256 levels =
                PositionalMerkle.depth((access.elementBytes * access.size + leafBytes - 1) / leafBytes);
            (uint256 from, uint256 to) = (reader.place, reader.place + count * leafBytes);
            reader.place = to;
            bytes32[] calldata path =
                _readPath(PositionalMerkle.rangeSiblings(first, count, levels), openings, reader);
            leaves = openings[from:to];
            root = PositionalMerkle.foldRange(leaves, leafBytes, first, count, path);
        }
    }

    /// @dev The next `siblings` words of `openings`, in place: assembly makes an array of them, since Solidity would have to copy them. They end within
    /// `openings`, which is checked before.
    function _readPath(uint256 siblings, bytes calldata openings, Reader memory reader)
        private
        pure
        returns (bytes32[] calldata path)
    {
        uint256 from = reader.place;
        unchecked {
            reader.place = from + 32 * siblings;
        }
        if (reader.place > openings.length) {
            revert IReferee.WrongOpeningBytes(reader.place, openings.length);
        }
        assembly ("memory-safe") {
            path.offset := add(openings.offset, from)
            path.length := siblings
        }
    }

    function _requireRoot(
        IReferee.StepContext calldata context,
        StepNode.Access memory access,
        uint256 first,
        uint256 count,
        bytes32 root,
        Reader memory reader
    ) private pure {
        bytes32 expected;
        if (access.role == StepNode.WEIGHTS) expected = context.start.weightsRoot;
        else if (access.role == StepNode.FIRST_MOMENT) expected = context.start.firstMomentRoot;
        else if (access.role == StepNode.SECOND_MOMENT) expected = context.start.secondMomentRoot;
        else if (access.role == StepNode.CONSTANT) expected = access.constantRoot;
        else return _requireBuffer(context, access.buffer, root, reader);
        if (root != expected) revert IReferee.LeavesMismatch(expected, first, count);
    }

    /// @dev One root for each buffer, however many of its runs are read.
    function _requireBuffer(
        IReferee.StepContext calldata context,
        uint256 buffer,
        bytes32 root,
        Reader memory reader
    ) private pure {
        bool isOne = buffer < context.facts.programBuffers;
        if (!isOne || !PositionalMerkle.add(reader.roots, buffer, root)) {
            revert IReferee.BufferMismatch(context.traceRoot, buffer);
        }
    }
}
