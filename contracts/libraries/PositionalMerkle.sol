// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @title Positional SHA-256 Merkle trees: a proof binds the leaf, its index, the depth and the count (docs/spec.md, section 1).
/// @dev Twin of `protocol/spec/merkle.py`. Libraries that sort the two children prove membership only and are unfit here: the place of a
/// leaf is what a dispute is about. The tree is padded to a power of two with the zero word, which is therefore never a leaf.
library PositionalMerkle {
    uint256 internal constant LEAF_BYTES = 1024;
    uint256 internal constant LEAF_ELEMENTS = 256;

    /// @notice Leaf of raw data: sha256(0x00 || data).
    function leafHash(bytes memory data) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(bytes1(0x00), data));
    }

    function nodeHash(bytes32 left, bytes32 right) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(bytes1(0x01), left, right));
    }

    /// @notice ceil(log2 count), count >= 1: the number of siblings in every path of a tree over `count` leaves.
    function depth(uint256 count) internal pure returns (uint256 levels) {
        while (1 << levels < count) ++levels;
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

    /// @notice The root that a leaf and its path lead to; the sibling stands on the left where bit j of `index` is set.
    function fold(bytes32 leaf, uint256 index, bytes32[] calldata path) internal pure returns (bytes32 node) {
        node = leaf;
        for (uint256 j = 0; j < path.length; ++j) {
            node = (index >> j) & 1 == 1 ? nodeHash(path[j], node) : nodeHash(node, path[j]);
        }
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
}
