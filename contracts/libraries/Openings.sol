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
    uint256 internal constant ELEMENT_BYTES = 4;

    /// @notice Reverts unless the node is the one of that number in the task's program.
    function requireNode(StepFacts calldata facts, IReferee.NodeProof calldata node) internal pure {
        (uint256 index, uint256 count) =
            (FIRST_NODE_LEAF + node.number, FIRST_NODE_LEAF + uint256(facts.programNodes));
        if (!PositionalMerkle.verifyData(facts.programRoot, node.data, index, count, node.path)) {
            revert IReferee.NodeMismatch(facts.programRoot, node.number);
        }
    }

    /// @notice The elements of an access, once proven; one element repeats for all terms.
    function openRun(
        IReferee.StepContext calldata context,
        StepNode.Access memory access,
        IReferee.BufferOpening calldata opening
    ) internal pure returns (Run memory run) {
        (uint256 start, uint256 length, uint256 leafBytes) = (access.start, access.length, access.leafBytes);
        if (start >= access.size || length > access.size - start) {
            revert IReferee.IndexOutside(start, access.size);
        }
        unchecked {
            uint256 first = ELEMENT_BYTES * start / leafBytes;
            uint256 last = (ELEMENT_BYTES * (start + length) - 1) / leafBytes;
            run.data = openLeaves(context, access, first, last - first + 1, opening);
            run.first = start - first * leafBytes / ELEMENT_BYTES;
            run.repeats = length == 1;
        }
    }

    /// @notice `count` consecutive leaves of a buffer from leaf `first` on, once proven under the claimant's state, the node's constant or the trace.
    /// @dev `root` and `rootPath` of what needs none are not looked at.
    function openLeaves(
        IReferee.StepContext calldata context,
        StepNode.Access memory access,
        uint256 first,
        uint256 count,
        IReferee.BufferOpening calldata opening
    ) internal pure returns (bytes memory leaves) {
        leaves = opening.leaves;
        uint256 expected = count * access.leafBytes;
        if (leaves.length != expected) revert IReferee.WrongLeafBytes(expected, leaves.length);
        bytes32 root = _rootOf(context, access, opening);
        uint256 total = leafCount(access);
        if (!PositionalMerkle.verifyRange(root, leaves, access.leafBytes, first, count, total, opening.path))
        {
            revert IReferee.LeavesMismatch(root, first, count);
        }
    }

    /// @notice Leaves of the buffer's tree.
    function leafCount(StepNode.Access memory access) internal pure returns (uint256) {
        return (ELEMENT_BYTES * access.size + access.leafBytes - 1) / access.leafBytes;
    }

    function _rootOf(
        IReferee.StepContext calldata context,
        StepNode.Access memory access,
        IReferee.BufferOpening calldata opening
    ) private pure returns (bytes32) {
        if (access.role == StepNode.WEIGHTS) {
            return context.start.weightsRoot;
        }
        if (access.role == StepNode.FIRST_MOMENT) return context.start.firstMomentRoot;
        if (access.role == StepNode.SECOND_MOMENT) return context.start.secondMomentRoot;
        if (access.role == StepNode.CONSTANT) return access.constantRoot;
        (bytes32 trace, uint256 count) = (context.traceRoot, context.facts.programBuffers);
        if (!PositionalMerkle.verify(trace, opening.root, access.buffer, count, opening.rootPath)) {
            revert IReferee.BufferMismatch(trace, access.buffer);
        }
        return opening.root;
    }
}
