// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {LeafProof, StateHeader, StepFacts} from "../Types.sol";
import {IStepProofs} from "../interfaces/IStepProofs.sol";
import {IReferee} from "../interfaces/IReferee.sol";
import {Float32} from "./Float32.sol";
import {Hashing} from "./Hashing.sol";
import {Openings} from "./Openings.sol";
import {PositionalMerkle} from "./PositionalMerkle.sol";
import {StepNode} from "./StepNode.sol";

/// @title Checks what the two sides of a dispute show of one training step (docs/spec.md, sections 8 and 11). Computes; keeps nothing.
library StepProofs {
    /// @dev Numbers of the buffers that data faults are about (docs/spec.md, section 8).
    uint256 internal constant TOKENS_BUFFER = 3;
    uint256 internal constant LABELS_BUFFER = 4;
    uint256 internal constant SCALARS_BUFFER = 5;
    uint32 internal constant SCALARS = 3;

    uint256 private constant HEAD_BYTES = 75;
    /// @dev Of the head: the number of the buffer of the new W; those of m and v follow.
    uint256 private constant OUTPUTS_AT = 35;
    uint256 private constant INTEGER_BYTES = 8;
    /// @dev A node up to its loops' sizes; an access without strides and root, and where in it buffer and size stand.
    uint256 private constant NODE_HEAD_BYTES = 12;
    uint256 private constant ACCESS_BYTES = 26;
    uint256 private constant ACCESS_BUFFER = 2;
    uint256 private constant ACCESS_SIZE = 10;
    uint256 private constant ELEMENT_BYTES = 4;
    uint256 private constant WORD_BYTES = 32;

    /// @notice A leaf that the claimant must show.
    /// @param buffers of the program: leaves of the trace
    /// @param leafCount leaves of the buffer's tree
    /// @param lastBytes of the last leaf, before its padding
    struct Demand {
        uint8 role;
        uint16 leafBytes;
        uint16 lastBytes;
        uint32 buffer;
        uint32 buffers;
        uint32 leafIndex;
        uint64 leafCount;
    }

    // Facts and states
    function requireFacts(bytes32 stepRoot, StepFacts calldata facts) internal pure {
        bytes32 actual = Hashing.stepRoot(facts);
        if (actual != stepRoot) revert IStepProofs.FactsMismatch(stepRoot, actual);
    }

    function requireHeader(bytes32 expected, StateHeader calldata header) internal pure {
        bytes32 actual = Hashing.stateRoot(header);
        if (actual != expected) revert IStepProofs.HeaderMismatch(expected, actual);
    }

    /// @notice Reverts unless the trace's output buffers are the three tensors of the state after the step.
    function requireOutputs(
        StepFacts calldata facts,
        bytes32 traceRoot,
        StateHeader calldata end,
        IStepProofs.TraceProof calldata proof
    ) internal pure {
        bytes calldata head = proof.head;
        uint256 leaves = Openings.FIRST_NODE_LEAF + uint256(facts.programNodes);
        if (
            head.length != HEAD_BYTES
                || !PositionalMerkle.verifyData(facts.programRoot, head, 0, leaves, proof.headPath)
        ) revert IStepProofs.HeadMismatch(facts.programRoot);
        uint256 buffers = facts.programBuffers;
        _requireOutput(traceRoot, buffers, 0, head, end.weightsRoot, proof.weightsPath);
        _requireOutput(traceRoot, buffers, 1, head, end.firstMomentRoot, proof.firstMomentPath);
        _requireOutput(traceRoot, buffers, 2, head, end.secondMomentRoot, proof.secondMomentPath);
    }

    function _requireOutput(
        bytes32 traceRoot,
        uint256 buffers,
        uint8 tensor,
        bytes calldata head,
        bytes32 root,
        bytes32[] calldata path
    ) private pure {
        uint256 at = OUTPUTS_AT + INTEGER_BYTES * tensor;
        uint256 buffer = _integerAt(head, at);
        if (!PositionalMerkle.verify(traceRoot, root, buffer, buffers, path)) {
            revert IStepProofs.OutputMismatch(tensor, buffer);
        }
    }

    // Demands
    /// @notice Leaf `leafIndex` of the buffer at a place of a proven node; place 0 is its output, 1 and up its operands.
    function demandOf(
        StepFacts calldata facts,
        IReferee.NodeProof calldata node,
        uint32 place,
        uint32 leafIndex
    ) internal pure returns (Demand memory demand) {
        Openings.requireNode(facts, node);
        uint256 at = _accessAt(node.data, place);
        uint256 buffer = _integerAt(node.data, at + ACCESS_BUFFER);
        demand.role = uint8(node.data[at]);
        if (demand.role == StepNode.CONSTANT) revert IStepProofs.ConstantDemanded(buffer);
        uint256 leafBytes = 1 << uint8(node.data[at + 1]);
        uint256 length = StepNode.elementBytesOf(demand.role) * _integerAt(node.data, at + ACCESS_SIZE);
        uint256 leafCount = (length + leafBytes - 1) / leafBytes;
        if (leafIndex >= leafCount) revert IStepProofs.LeafUnknown(leafIndex, leafCount);
        (demand.leafBytes, demand.leafIndex, demand.leafCount) =
            (uint16(leafBytes), leafIndex, uint64(leafCount));
        demand.lastBytes = uint16(length - (leafCount - 1) * leafBytes);
        (demand.buffer, demand.buffers) = (uint32(buffer), facts.programBuffers);
    }

    /// @dev Where in a node's bytes the access of its output or of an operand stands. Whoever joins a task has checked its whole program, so
    /// bytes under its root need no second check; the referee reads all of a node, this only the buffers.
    function _accessAt(bytes calldata node, uint256 place) private pure returns (uint256 at) {
        (uint256 loops, uint256 reduced) = (uint8(node[1]), uint8(node[2]));
        if (place > uint8(node[3])) revert IStepProofs.PlaceUnknown(uint32(place), uint8(node[3]));
        at = NODE_HEAD_BYTES + INTEGER_BYTES * loops;
        uint256 strides = loops - reduced;
        for (uint256 i = 0; i < place; ++i) {
            uint256 rootBytes = uint8(node[at]) == StepNode.CONSTANT ? 32 : 0;
            at += ACCESS_BYTES + INTEGER_BYTES * strides + rootBytes;
            strides = loops;
        }
    }

    function _integerAt(bytes calldata data, uint256 at) private pure returns (uint256) {
        return uint64(bytes8(data[at:at + INTEGER_BYTES]));
    }

    /// @notice Reverts unless the opening shows the demanded leaf.
    /// @dev The padding is checked too: a buffer with other padding has a wrong root though each of its elements is right. No proof of an element could
    /// convict then.
    function requireAnswer(
        Demand memory demand,
        bytes32 traceRoot,
        StateHeader calldata start,
        IReferee.BufferOpening calldata opening
    ) internal pure {
        if (opening.leaves.length != demand.leafBytes) {
            revert IReferee.WrongLeafBytes(demand.leafBytes, opening.leaves.length);
        }
        bytes32 root = _rootOf(demand, traceRoot, start, opening);
        if (!PositionalMerkle.verifyData(
                root, opening.leaves, demand.leafIndex, demand.leafCount, opening.path
            ) || !_isPadded(demand, opening)) revert IStepProofs.LeafMismatch(root, demand.leafIndex);
    }

    function _isPadded(Demand memory demand, IReferee.BufferOpening calldata opening)
        private
        pure
        returns (bool)
    {
        bool isLast = demand.leafIndex + 1 == demand.leafCount;
        if (isLast && !_isEmptyFrom(opening.leaves, demand.lastBytes)) return false;
        return PositionalMerkle.isPadded(demand.leafIndex, demand.leafCount, opening.path);
    }

    /// @dev Word by word, backwards: a leaf has whole words, its elements may end within one. Byte by byte the padding of one leaf would cost a million gas.
    function _isEmptyFrom(bytes calldata leaf, uint256 end) private pure returns (bool) {
        for (uint256 at = leaf.length; at > end;) {
            unchecked {
                at -= WORD_BYTES;
            }
            bytes32 word = bytes32(leaf[at:at + WORD_BYTES]);
            if (at < end) word <<= 8 * (end - at);
            if (word != 0) return false;
        }
        return true;
    }

    function _rootOf(
        Demand memory demand,
        bytes32 traceRoot,
        StateHeader calldata start,
        IReferee.BufferOpening calldata opening
    ) private pure returns (bytes32) {
        if (demand.role == StepNode.WEIGHTS) return start.weightsRoot;
        if (demand.role == StepNode.FIRST_MOMENT) return start.firstMomentRoot;
        if (demand.role == StepNode.SECOND_MOMENT) return start.secondMomentRoot;
        _requireBuffer(traceRoot, demand.buffer, demand.buffers, opening);
        return opening.root;
    }

    function _requireBuffer(
        bytes32 traceRoot,
        uint256 buffer,
        uint256 buffers,
        IReferee.BufferOpening calldata opening
    ) private pure {
        if (!PositionalMerkle.verify(traceRoot, opening.root, buffer, buffers, opening.rootPath)) {
            revert IReferee.BufferMismatch(traceRoot, buffer);
        }
    }

    // Data
    /// @notice The 4 bytes that the trace has for element `position` of one of its input buffers, as a little-endian number.
    /// @dev Any length of a leaf is accepted. With another length than the tree's own the path is too long or too short, or the hash does not fit: a leaf's
    /// hash would have to be a node's or that of other bytes.
    function tracedElement(
        StepFacts calldata facts,
        bytes32 traceRoot,
        uint256 buffer,
        uint256 position,
        IReferee.BufferOpening calldata opening
    ) internal pure returns (uint32) {
        uint256 size =
            buffer == SCALARS_BUFFER ? SCALARS : uint256(facts.sequencesPerStep) * facts.sequenceTokens;
        if (position >= size) revert IStepProofs.LeafUnknown(position, size);
        uint256 elements = opening.leaves.length / ELEMENT_BYTES;
        if (elements == 0) revert IReferee.WrongLeafBytes(ELEMENT_BYTES, opening.leaves.length);
        _requireBuffer(traceRoot, buffer, facts.programBuffers, opening);
        _requireLeaf(
            opening.root,
            opening.leaves,
            position / elements,
            (size + elements - 1) / elements,
            opening.path
        );
        return Float32.load(opening.leaves, position % elements);
    }

    /// @notice Token `index` of the task's dataset.
    /// @dev No node reads all of a dataset before it stakes. So an entry outside of the vocabulary has a meaning: without one, no step on it
    /// could be proven right or wrong.
    function datasetToken(StepFacts calldata facts, uint256 index, LeafProof calldata leaf)
        internal
        pure
        returns (uint256 token)
    {
        uint256 from = index * facts.tokenBytes;
        uint256 leaves =
            (uint256(facts.datasetBytes) + PositionalMerkle.LEAF_BYTES - 1) / PositionalMerkle.LEAF_BYTES;
        _requireLeaf(facts.datasetRoot, leaf.data, from / PositionalMerkle.LEAF_BYTES, leaves, leaf.path);
        from %= PositionalMerkle.LEAF_BYTES;
        for (uint256 i = facts.tokenBytes; i > 0; --i) {
            token = (token << 8) | uint8(leaf.data[from + i - 1]);
        }
        if (token >= facts.vocabularySize) token = 0;
    }

    /// @notice Scalar `which` of the step with these numbers: the learning rate goes by the global step, the bias corrections by the local one.
    function scalarOf(
        StepFacts calldata facts,
        StateHeader calldata start,
        uint32 which,
        LeafProof calldata leaf
    ) internal pure returns (uint32) {
        uint256 index = which == 0 ? start.globalStep : start.localStep;
        _requireLeaf(facts.scalarsRoot, leaf.data, index, facts.scalarCount, leaf.path);
        return Float32.load(leaf.data, which);
    }

    function _requireLeaf(
        bytes32 root,
        bytes calldata data,
        uint256 index,
        uint256 count,
        bytes32[] calldata path
    ) private pure {
        if (!PositionalMerkle.verifyData(root, data, index, count, path)) {
            revert IStepProofs.LeafMismatch(root, index);
        }
    }
}
