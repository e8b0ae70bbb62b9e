// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {LibBit} from "solady/utils/LibBit.sol";

/// @title Positional SHA-256 Merkle trees: a proof binds the leaf, its index, the depth and the count (docs/spec.md, section 1).
/// @dev Twin of `merkle.py`, `merkle_ranges.py` and `merkle_sets.py` in `protocol/spec`. Libraries that sort the two children prove membership only and are
/// unfit here: the place of a leaf is what a dispute is about. The tree is padded to a power of two with the zero word, which is therefore never a leaf.
/// Paths are folded in assembly: a proof of one operation has sixty levels, and the compiler's own way to hash costs more than the hashes.
library PositionalMerkle {
    uint256 internal constant LEAF_BYTES = 1024;
    uint256 internal constant LEAF_ELEMENTS = 256;
    /// @dev Buffers that one operation touches at most: a product of quantized values has four operands.
    uint256 internal constant MAX_SET = 5;

    /// @notice The chain's SHA-256 did not answer.
    /// @dev The precompile had not even the gas for one hash.
    error HashFailed();

    /// @notice Leaf of raw data: sha256(0x00 || data).
    function leafHash(bytes memory data) internal pure returns (bytes32) {
        return _leafAt(data, 0, data.length);
    }

    /// @notice Node over two others: sha256(0x01 || left || right).
    /// @dev By hand: the message is written past the free pointer, which stays where it is. So it is not copied, and its memory is used again.
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
        bytes32 found = rootOver(leaf, index, count, path);
        return found != 0 && found == root;
    }

    /// @notice The root of a tree over exactly `count` leaves whose leaf `index` this is; 0 where there is none.
    function rootOver(bytes32 leaf, uint256 index, uint256 count, bytes32[] calldata path)
        internal
        pure
        returns (bytes32)
    {
        if (leaf == 0 || index >= count || path.length != depth(count)) return 0;
        return fold(leaf, index, path);
    }

    /// @notice As `verify`, for raw data.
    function verifyData(
        bytes32 root,
        bytes calldata data,
        uint256 index,
        uint256 count,
        bytes32[] calldata path
    ) internal pure returns (bool) {
        return verify(root, leafHash(data), index, count, path);
    }

    /// @notice Whether all siblings to the right of the last leaf are roots of empty subtrees, as far as the path of leaf `index` has them. The path of the
    /// last leaf has all of them.
    function isPadded(uint256 index, uint256 count, bytes32[] calldata path) internal pure returns (bool) {
        (bytes32 padding, uint256 last) = (0, count - 1);
        for (uint256 i = 0; i < path.length; ++i) {
            if (index ^ 1 > last && path[i] != padding) return false;
            padding = nodeHash(padding, padding);
            (index, last) = (index >> 1, last >> 1);
        }
        return true;
    }

    // Runs of leaves
    /// @notice How many siblings a run of leaves needs to reach the root of a tree of this depth.
    function rangeSiblings(uint256 first, uint256 count, uint256 levels)
        internal
        pure
        returns (uint256 siblings)
    {
        unchecked {
            siblings = levels;
            for (uint256 last = first + count - 1; first != last; (first, last) = (first >> 1, last >> 1)) {
                siblings = siblings + (first & 1) - (last & 1);
            }
        }
    }

    /// @notice The root that `count` whole leaves of raw data, one after the other, from leaf `first` on, lead to in a tree of this depth.
    /// @param leaves `count` times `leafBytes` bytes
    /// @param path `rangeSiblings` siblings of the range, level by level upwards: the left one where the first index is odd, then the right one where
    /// the last index is even (padding too); none at the root's level
    function foldRange(
        bytes memory leaves,
        uint256 leafBytes,
        uint256 first,
        uint256 count,
        bytes32[] calldata path
    ) internal pure returns (bytes32) {
        if (count == 1) return fold(leafHash(leaves), first, path);
        bytes32[] memory nodes = _leavesOf(leaves, leafBytes, count);
        for (; nodes.length > 1; first >>= 1) {
            uint256 needed = (first & 1) + ((first + nodes.length) & 1);
            nodes = _parentsOf(nodes, first, path);
            path = path[needed:];
        }
        return fold(nodes[0], first, path);
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
    /// @dev Assembly takes the pointer to `_fold`, a view, for one to a pure function: see `_digest`.
    function fold(bytes32 leaf, uint256 index, bytes32[] calldata path) internal pure returns (bytes32 node) {
        function(bytes32, uint256, bytes32[] calldata) view returns (bytes32) reads = _fold;
        function(bytes32, uint256, bytes32[] calldata) pure returns (bytes32) computes;
        assembly ("memory-safe") {
            computes := reads
        }
        return computes(leaf, index, path);
    }

    /// @notice As `fold`, with a path of siblings one behind the other.
    function foldBytes(bytes32 leaf, uint256 index, bytes calldata siblings) internal pure returns (bytes32 node) {
        node = leaf;
        for (; siblings.length != 0; siblings = siblings[32:]) {
            bytes32 sibling = bytes32(siblings);
            node = index & 1 == 0 ? nodeHash(node, sibling) : nodeHash(sibling, node);
            index >>= 1;
        }
    }

    // Sets of leaves
    /// @notice Up to MAX_SET leaves of one tree: `count` pairs of index and leaf, rising in index, one behind the other in memory.
    struct Set {
        uint256 count;
        bytes32[2 * MAX_SET] pairs;
    }

    /// @notice Puts a leaf where it belongs. False where the set has another one of this index already, or no room.
    function add(Set memory set, uint256 index, bytes32 leaf) internal pure returns (bool) {
        (uint256 count, uint256 place) = (set.count, set.count);
        unchecked {
            while (place > 0 && _indexOf(set, place - 1) > index) --place;
            if (place > 0 && _indexOf(set, place - 1) == index) return _leafOf(set, place - 1) == leaf;
            if (count == MAX_SET) return false;
            for (uint256 i = count; i > place; --i) {
                _put(set, i, _indexOf(set, i - 1), _leafOf(set, i - 1));
            }
            set.count = count + 1;
        }
        _put(set, place, index, leaf);
        return true;
    }

    /// @notice How many siblings a set of one leaf or more needs to reach the root of a tree of this depth.
    /// @dev A leaf joins the one before it above the highest bit in which they differ: it brings the siblings below, and is part of one that was
    /// needed.
    function setSiblings(Set memory set, uint256 levels) internal pure returns (uint256 siblings) {
        siblings = levels;
        unchecked {
            for (uint256 i = 1; i < set.count; ++i) {
                siblings = siblings + LibBit.fls(_indexOf(set, i - 1) ^ _indexOf(set, i)) - 1;
            }
        }
    }

    /// @notice The root that a set of one leaf or more leads to in a tree of this depth.
    /// @param path `setSiblings` siblings: those of the left half up to where the halves meet, those of the right half, those above; so in each half
    function foldSet(Set memory set, uint256 levels, bytes32[] calldata path)
        internal
        pure
        returns (bytes32 root)
    {
        unchecked {
            (root,) = _foldPart(set, 0, set.count - 1, levels, path);
        }
    }

    /// @dev The node at `height` over leaves from .. to of the set, all of which are below it, and the siblings that are left.
    function _foldPart(Set memory set, uint256 from, uint256 to, uint256 height, bytes32[] calldata path)
        private
        pure
        returns (bytes32 node, bytes32[] calldata rest)
    {
        uint256 index = _indexOf(set, from);
        unchecked {
            if (from == to) {
                (node, rest) = (_leafOf(set, from), path);
            } else {
                // The highest bit in which indices differ: below it each half has its own paths.
                uint256 fork = LibBit.fls(index ^ _indexOf(set, to));
                uint256 middle = from + 1;
                while (_indexOf(set, middle) >> fork == index >> fork) ++middle;
                bytes32 right;
                (node, rest) = _foldPart(set, from, middle - 1, fork, path);
                (right, rest) = _foldPart(set, middle, to, fork, rest);
                node = nodeHash(node, right);
                (index, height) = (index >> (fork + 1), height - fork - 1);
            }
        }
        (path, rest) = _split(rest, height);
        node = fold(node, index, path);
    }

    /// @dev Cuts an array of calldata in two, in place: slices would check the length of each path. Here it is not checked: `path` must have the `setSiblings`
    /// siblings of the set. `Openings.requireTrace`, which alone of all contracts calls `foldSet`, reads exactly as many. It refuses openings that are too
    /// short.
    function _split(bytes32[] calldata path, uint256 count)
        private
        pure
        returns (bytes32[] calldata first, bytes32[] calldata rest)
    {
        assembly ("memory-safe") {
            first.offset := path.offset
            first.length := count
            rest.offset := add(path.offset, shl(5, count))
            rest.length := sub(path.length, count)
        }
    }

    // By hand: the compiler would check each place against MAX_SET
    function _indexOf(Set memory set, uint256 place) private pure returns (uint256 index) {
        assembly ("memory-safe") {
            index := mload(add(add(set, 0x20), shl(6, place)))
        }
    }

    function _leafOf(Set memory set, uint256 place) private pure returns (bytes32 leaf) {
        assembly ("memory-safe") {
            leaf := mload(add(add(set, 0x40), shl(6, place)))
        }
    }

    function _put(Set memory set, uint256 place, uint256 index, bytes32 leaf) private pure {
        assembly ("memory-safe") {
            mstore(add(add(set, 0x20), shl(6, place)), index)
            mstore(add(add(set, 0x40), shl(6, place)), leaf)
        }
    }

    /// @notice Root of a complete subtree, given all 2^n nodes of its lowest level from left to right. Overwrites `nodes`.
    function rootOf(bytes32[] memory nodes) internal pure returns (bytes32) {
        for (uint256 width = nodes.length / 2; width > 0; width /= 2) {
            for (uint256 i = 0; i < width; ++i) {
                nodes[i] = nodeHash(nodes[2 * i], nodes[2 * i + 1]);
            }
        }
        return nodes[0];
    }

    // SHA-256 by its precompile, address 2
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

    /// @dev SHA-256 of `length` bytes of memory at `place`; as `Sha256.digest`, with this library's error. The precompile reads no state, yet `staticcall`
    /// makes `_sha256` a view. So assembly takes the pointer to it for one to a pure function.
    function _digest(uint256 place, uint256 length) private pure returns (bytes32) {
        function(uint256, uint256) view returns (bytes32) reads = _sha256;
        function(uint256, uint256) pure returns (bytes32) computes;
        assembly ("memory-safe") {
            computes := reads
        }
        return computes(place, length);
    }

    /// @dev The precompile writes its answer to scratch space. `sha256(bytes)` would copy the message to free memory first.
    function _sha256(uint256 place, uint256 length) private view returns (bytes32 hash) {
        bool ok;
        assembly ("memory-safe") {
            ok := staticcall(gas(), 2, place, length, 0, 32)
            hash := mload(0)
        }
        if (!ok) revert HashFailed();
    }

    /// @dev The message 0x01 || left || right stays in place, in scratch space and over the pointer to free memory, which is put back; each digest is
    /// written to the side where the next level wants it.
    function _fold(bytes32 leaf, uint256 index, bytes32[] calldata path) private view returns (bytes32 node) {
        bool ok = true;
        assembly ("memory-safe") {
            let free := mload(0x40)
            let bits := shl(5, index)
            let own := add(32, and(bits, 32))
            let sibling := path.offset
            let end := add(sibling, shl(5, path.length))
            mstore(0, 1)
            mstore(own, leaf)
            if and(path.length, 1) {
                mstore(xor(own, 0x60), calldataload(sibling))
                bits := shr(1, bits)
                own := add(32, and(bits, 32))
                ok := staticcall(gas(), 2, 31, 65, own, 32)
                sibling := add(sibling, 32)
            }
            // Two levels at a time: the loop itself costs a fifth of what it does.
            for {} lt(sibling, end) { sibling := add(sibling, 64) } {
                mstore(xor(own, 0x60), calldataload(sibling))
                own := add(32, and(shr(1, bits), 32))
                ok := and(ok, staticcall(gas(), 2, 31, 65, own, 32))
                mstore(xor(own, 0x60), calldataload(add(sibling, 32)))
                bits := shr(2, bits)
                own := add(32, and(bits, 32))
                ok := and(ok, staticcall(gas(), 2, 31, 65, own, 32))
            }
            node := mload(own)
            mstore(0x40, free)
        }
        if (!ok) revert HashFailed();
    }
}
