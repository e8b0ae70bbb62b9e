// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {StateHeader, StepFacts} from "../../contracts/Types.sol";
import {IReferee} from "../../contracts/interfaces/IReferee.sol";
import {Float32} from "../../contracts/libraries/Float32.sol";
import {PositionalMerkle} from "../../contracts/libraries/PositionalMerkle.sol";
import {Test} from "./Test.sol";
import {Trees} from "./Trees.sol";

/// @title A training step of a few hand-made nodes over small buffers, and the proofs of its elements.
abstract contract ToyStep is Test {
    uint8 internal constant WEIGHTS = 1;
    uint8 internal constant FIRST_MOMENT = 2;
    uint8 internal constant SECOND_MOMENT = 3;
    uint8 internal constant TOKENS = 4;
    uint8 internal constant LABELS = 5;
    uint8 internal constant SCALARS = 6;
    uint8 internal constant CONSTANT = 7;
    uint8 internal constant TENSOR = 8;
    uint8 internal constant INTEGER8 = 9;
    uint8 internal constant INTEGER16 = 10;
    uint8 internal constant INTEGER32 = 11;

    /// @dev data: whole leaves of little-endian words, the last one padded.
    struct ToyBuffer {
        uint8 role;
        uint8 leafLog;
        uint256 size;
        bytes data;
    }

    struct ToyAccess {
        uint256 buffer;
        int64 offset;
        int64[] strides;
    }

    struct Opening {
        bytes leaves;
        bytes32[] path;
    }

    ToyBuffer[] internal buffers;
    bytes[] internal nodes;

    // Buffers
    function addBuffer(uint8 role, uint8 leafLog, uint256 size) internal returns (uint256 number) {
        number = buffers.length;
        uint256 leafBytes = 1 << leafLog;
        uint256 leaves = (elementBytesOf(role) * size + leafBytes - 1) / leafBytes;
        buffers.push(ToyBuffer(role, leafLog, size, new bytes(leaves * leafBytes)));
    }

    function elementBytesOf(uint8 role) internal pure returns (uint256) {
        return role == INTEGER8 ? 1 : role == INTEGER16 ? 2 : 4;
    }

    /// @dev A quantized value.
    function setInteger(uint256 buffer, uint256 place, int256 value) internal {
        uint256 width = elementBytesOf(buffers[buffer].role);
        for (uint256 i = 0; i < width; ++i) {
            buffers[buffer].data[place * width + i] = bytes1(uint8(uint256(value) >> 8 * i));
        }
    }

    function setValues(uint256 buffer, uint256 first, uint32[] memory values) internal {
        bytes memory data = buffers[buffer].data;
        for (uint256 i = 0; i < values.length; ++i) {
            Float32.store(data, first + i, values[i]);
        }
        buffers[buffer].data = data;
    }

    function setValue(uint256 buffer, uint256 place, uint32 value) internal {
        uint32[] memory values = new uint32[](1);
        values[0] = value;
        setValues(buffer, place, values);
    }

    function valueOf(uint256 buffer, uint256 place) internal view returns (uint32) {
        return Float32.load(buffers[buffer].data, place);
    }

    function leavesOf(uint256 buffer) internal view returns (bytes32[] memory) {
        uint256 leafBytes = 1 << buffers[buffer].leafLog;
        bytes[] memory leaves = new bytes[](buffers[buffer].data.length / leafBytes);
        for (uint256 i = 0; i < leaves.length; ++i) {
            leaves[i] = cut(buffers[buffer].data, i * leafBytes, leafBytes);
        }
        return Trees.hashAll(leaves);
    }

    function rootOf(uint256 buffer) internal view returns (bytes32) {
        return Trees.root(leavesOf(buffer));
    }

    function cut(bytes memory data, uint256 first, uint256 length)
        internal
        pure
        returns (bytes memory piece)
    {
        piece = new bytes(length);
        for (uint256 i = 0; i < length; ++i) {
            piece[i] = data[first + i];
        }
    }

    // Nodes
    /// @param reduced of the loops, the last ones
    /// @param accesses the output's first, then the operands'
    function addNode(
        uint8 operation,
        uint256[] memory sizes,
        uint8 reduced,
        uint256 selected,
        ToyAccess[] memory accesses
    ) internal returns (uint32 number) {
        number = uint32(nodes.length);
        nodes.push(encodeNode(operation, sizes, reduced, selected, accesses));
    }

    function encodeNode(
        uint8 operation,
        uint256[] memory sizes,
        uint8 reduced,
        uint256 selected,
        ToyAccess[] memory accesses
    ) internal view returns (bytes memory data) {
        data = abi.encodePacked(
            operation, uint8(sizes.length), reduced, uint8(accesses.length - 1), uint64(selected)
        );
        for (uint256 i = 0; i < sizes.length; ++i) {
            data = abi.encodePacked(data, uint64(sizes[i]));
        }
        for (uint256 i = 0; i < accesses.length; ++i) {
            data = bytes.concat(data, encodeAccess(accesses[i]));
        }
    }

    function encodeAccess(ToyAccess memory entry) internal view returns (bytes memory data) {
        ToyBuffer storage buffer = buffers[entry.buffer];
        data = abi.encodePacked(
            buffer.role, buffer.leafLog, uint64(entry.buffer), uint64(buffer.size), entry.offset
        );
        for (uint256 i = 0; i < entry.strides.length; ++i) {
            data = abi.encodePacked(data, entry.strides[i]);
        }
        if (buffer.role == CONSTANT) data = abi.encodePacked(data, rootOf(entry.buffer));
    }

    // Proofs
    function contextOf() internal view returns (IReferee.StepContext memory context) {
        context.facts.programRoot = Trees.root(_programLeaves());
        context.facts.programNodes = uint32(nodes.length);
        context.facts.programBuffers = uint32(buffers.length);
        context.start = StateHeader(rootOf(0), rootOf(1), rootOf(2), 7, 7);
        context.traceRoot = Trees.root(traceLeaves());
    }

    function _programLeaves() private view returns (bytes32[] memory leaves) {
        leaves = new bytes32[](nodes.length + 2);
        (leaves[0], leaves[1]) = (keccak256("head"), keccak256("buffers"));
        for (uint256 i = 0; i < nodes.length; ++i) {
            leaves[i + 2] = PositionalMerkle.leafHash(nodes[i]);
        }
    }

    function traceLeaves() internal view returns (bytes32[] memory roots) {
        roots = new bytes32[](buffers.length);
        for (uint256 i = 0; i < roots.length; ++i) {
            roots[i] = rootOf(i);
        }
    }

    function proveNode(uint32 number) internal view returns (IReferee.NodeProof memory) {
        return IReferee.NodeProof(number, nodes[number], Trees.path(_programLeaves(), number + 2));
    }

    /// @dev The leaves of elements first .. first + length - 1, and their siblings.
    function open(uint256 buffer, uint256 first, uint256 length)
        internal
        view
        returns (Opening memory opening)
    {
        uint256 leafBytes = 1 << buffers[buffer].leafLog;
        uint256 width = elementBytesOf(buffers[buffer].role);
        (uint256 from, uint256 to) = (width * first / leafBytes, (width * (first + length) - 1) / leafBytes);
        opening.leaves = cut(buffers[buffer].data, from * leafBytes, (to - from + 1) * leafBytes);
        opening.path = Trees.rangePath(leavesOf(buffer), from, to - from + 1);
    }

    /// @dev Siblings of the roots of those of some buffers that are the trace's alone.
    function openTrace(uint256[] memory opened) internal view returns (bytes32[] memory) {
        uint256 count = 0;
        uint256[] memory found = new uint256[](opened.length);
        for (uint256 buffer = 0; buffer < buffers.length; ++buffer) {
            if (_isTraced(buffer) && _has(opened, buffer)) found[count++] = buffer;
        }
        uint256[] memory indices = new uint256[](count);
        for (uint256 i = 0; i < count; ++i) {
            indices[i] = found[i];
        }
        return Trees.setPath(traceLeaves(), indices);
    }

    function _isTraced(uint256 buffer) private view returns (bool) {
        uint8 role = buffers[buffer].role;
        return role > SECOND_MOMENT && role != CONSTANT;
    }

    function _has(uint256[] memory list_, uint256 value) private pure returns (bool) {
        for (uint256 i = 0; i < list_.length; ++i) {
            if (list_[i] == value) return true;
        }
        return false;
    }

    // Short lists
    function list(uint256 a) internal pure returns (uint256[] memory made) {
        made = new uint256[](1);
        made[0] = a;
    }

    function list(uint256 a, uint256 b) internal pure returns (uint256[] memory made) {
        made = new uint256[](2);
        (made[0], made[1]) = (a, b);
    }

    function access(uint256 buffer, int64 offset, int64 stride)
        internal
        pure
        returns (ToyAccess memory made)
    {
        made = ToyAccess(buffer, offset, new int64[](1));
        made.strides[0] = stride;
    }

    function access(uint256 buffer, int64 offset, int64 outer, int64 inner)
        internal
        pure
        returns (ToyAccess memory made)
    {
        made = ToyAccess(buffer, offset, new int64[](2));
        (made.strides[0], made.strides[1]) = (outer, inner);
    }
}
