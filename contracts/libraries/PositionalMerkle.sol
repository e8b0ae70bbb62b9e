// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {LibBit} from "solady/utils/LibBit.sol";

/// @title Positional SHA-256 Merkle trees: a proof binds the leaf, its index, the depth and the count (docs/spec.md, section 1).
/// @dev Twin of `protocol/spec/merkle.py`. Libraries that sort the two children prove membership only and are unfit here: the place of a
/// leaf is what a dispute is about. The tree is padded to a power of two with the zero word, which is therefore never a leaf.
/// Paths are folded in assembly: a proof of one operation has seventy levels, and the compiler's own way to hash costs more than the hashes.
library PositionalMerkle {
    uint256 internal constant LEAF_BYTES = 1024;
    uint256 internal constant LEAF_ELEMENTS = 256;

    /// @dev The precompile had not even the gas for one hash.
    error HashFailed();

    /// @notice Leaf of raw data: sha256(0x00 || data).
    function leafHash(bytes memory data) internal pure returns (bytes32) {
        return _leafAt(data, 0, data.length);
    }

    function nodeHash(bytes32 left, bytes32 right) internal pure returns (bytes32) {
        uint256 message;
        assembly ("memory-safe") {
            message := mload(0x40)
            mstore8(message, 1)
            mstore(add(message, 1), left)
            mstore(add(message, 33), right)
        }
        return _digest(message, 65);
    }

    /// @notice ceil(log2 count), count >= 1: the number of siblings in every path of a tree over `count` leaves.
    function depth(uint256 count) internal pure returns (uint256 levels) {
        if (count < 2) return 0;
        unchecked {
            return LibBit.fls(count - 1) + 1;
        }
    }

    /// @notice Leaves of the tensor tree of a flat float32 vector.
    function tensorLeafCount(uint256 parameterCount) internal pure returns (uint256) {
        return (parameterCount + LEAF_ELEMENTS - 1) / LEAF_ELEMENTS;
    }

    /// @notice Whether `leaf` is leaf `index` of the tree over exactly `count` leaves with this root.
    function verify(bytes32 root, bytes32 leaf, uint256 index, uint256 count, bytes32[] calldata path)
        internal
        pure
        returns (bool)
    {
        if (leaf == 0 || index >= count || path.length != depth(count)) return false;
        return fold(leaf, index, path) == root;
    }

    /// @notice The same for raw data.
    function verifyData(
        bytes32 root,
        bytes calldata data,
        uint256 index,
        uint256 count,
        bytes32[] calldata path
    ) internal pure returns (bool) {
        return verify(root, leafHash(data), index, count, path);
    }

    /// @notice Whether `leaves` are `count` whole leaves of raw data, one after the other, from leaf `first` on, of the tree over exactly `total`.
    /// @param leaves `count` times `leafBytes` bytes
    /// @param path siblings of the range, level by level upwards: the left one where the first index is odd, then the right one where the last index is
    /// even (padding too); none at the root's level. Every one of them is needed.
    function verifyRange(
        bytes32 root,
        bytes memory leaves,
        uint256 leafBytes,
        uint256 first,
        uint256 count,
        uint256 total,
        bytes32[] calldata path
    ) internal pure returns (bool) {
        if (count == 0 || count > total || first > total - count) return false;
        if (leafBytes == 0 || leaves.length / leafBytes != count || leaves.length % leafBytes != 0) {
            return false;
        }
        uint256 levels = depth(total);
        if (count == 1) return path.length == levels && fold(leafHash(leaves), first, path) == root;
        return _verifyLeaves(root, _leavesOf(leaves, leafBytes, count), first, levels, path);
    }

    /// @dev The same for neighbours' hashes, in a tree of this depth that has them all.
    function _verifyLeaves(
        bytes32 root,
        bytes32[] memory nodes,
        uint256 first,
        uint256 levels,
        bytes32[] calldata path
    ) private pure returns (bool) {
        uint256 used = 0;
        for (; nodes.length > 1; first >>= 1) {
            uint256 needed = (first & 1) + ((first + nodes.length) & 1);
            if (path.length - used < needed) return false;
            nodes = _parentsOf(nodes, first, path[used:]);
            used += needed;
            --levels;
        }
        // One node is left: each level above it has one sibling.
        if (path.length - used != levels) return false;
        return fold(nodes[0], first, path[used:]) == root;
    }

    /// @dev The hashes of whole leaves.
    function _leavesOf(bytes memory leaves, uint256 leafBytes, uint256 count)
        private
        pure
        returns (bytes32[] memory nodes)
    {
        nodes = new bytes32[](count);
        for (uint256 i = 0; i < count; ++i) {
            nodes[i] = _leafAt(leaves, i * leafBytes, leafBytes);
        }
    }

    /// @dev The level above neighbours of which the first has index `first`; `path` opens with the siblings that they lack.
    function _parentsOf(bytes32[] memory nodes, uint256 first, bytes32[] calldata path)
        private
        pure
        returns (bytes32[] memory parents)
    {
        uint256 odd = first & 1;
        parents = new bytes32[]((nodes.length + odd + 1) / 2);
        for (uint256 i = 0; i < parents.length; ++i) {
            uint256 right = 2 * i + 1 - odd;
            bytes32 left = right == 0 ? path[0] : nodes[right - 1];
            parents[i] = nodeHash(left, right < nodes.length ? nodes[right] : path[odd]);
        }
    }

    /// @notice The root that a leaf and its path lead to; the sibling stands on the left where bit j of `index` is set.
    function fold(bytes32 leaf, uint256 index, bytes32[] calldata path) internal pure returns (bytes32 node) {
        function(bytes32, uint256, bytes32[] calldata) view returns (bytes32) reads = _fold;
        function(bytes32, uint256, bytes32[] calldata) pure returns (bytes32) computes;
        assembly ("memory-safe") {
            computes := reads
        }
        return computes(leaf, index, path);
    }

    /// @notice Root of a complete subtree, given all 2^n nodes of its lowest level from left to right.
    function rootOf(bytes32[] memory nodes) internal pure returns (bytes32) {
        for (uint256 width = nodes.length / 2; width > 0; width /= 2) {
            for (uint256 i = 0; i < width; ++i) {
                nodes[i] = nodeHash(nodes[2 * i], nodes[2 * i + 1]);
            }
        }
        return nodes[0];
    }

    // SHA-256 by its precompile, which computes from its input alone; yet a call counts as a look at the chain: hence the casts to pure -----------
    /// @dev sha256(0x00 || the `length` bytes of `data` from `start` on), without a copy: the byte in front of them is lent to the prefix.
    function _leafAt(bytes memory data, uint256 start, uint256 length) private pure returns (bytes32 hash) {
        uint256 message;
        uint256 kept;
        assembly ("memory-safe") {
            message := add(add(data, 31), start)
            kept := mload(message)
            mstore8(message, 0)
        }
        hash = _digest(message, length + 1);
        assembly ("memory-safe") {
            mstore(message, kept)
        }
    }

    /// @dev Of `length` bytes of memory at `place`.
    function _digest(uint256 place, uint256 length) private pure returns (bytes32) {
        function(uint256, uint256) view returns (bytes32) reads = _sha256;
        function(uint256, uint256) pure returns (bytes32) computes;
        assembly ("memory-safe") {
            computes := reads
        }
        return computes(place, length);
    }

    function _sha256(uint256 place, uint256 length) private view returns (bytes32 hash) {
        bool ok;
        assembly ("memory-safe") {
            ok := staticcall(gas(), 2, place, length, 0, 32)
            hash := mload(0)
        }
        if (!ok) revert HashFailed();
    }

    /// @dev The message 0x01 || left || right stays in place; each digest is written to the side where the next level wants it.
    function _fold(bytes32 leaf, uint256 index, bytes32[] calldata path) private view returns (bytes32 node) {
        bool ok = true;
        assembly ("memory-safe") {
            let message := mload(0x40)
            let left := add(message, 1)
            let bits := shl(5, index)
            let own := add(left, and(bits, 32))
            let sides := add(left, add(left, 32))
            let end := add(path.offset, shl(5, path.length))
            mstore8(message, 1)
            mstore(own, leaf)
            for { let sibling := path.offset } lt(sibling, end) { sibling := add(sibling, 32) } {
                mstore(sub(sides, own), calldataload(sibling))
                bits := shr(1, bits)
                own := add(left, and(bits, 32))
                ok := and(ok, staticcall(gas(), 2, message, 65, own, 32))
            }
            node := mload(own)
        }
        if (!ok) revert HashFailed();
    }
}
