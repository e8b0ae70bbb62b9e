// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {PositionalMerkle} from "../../contracts/libraries/PositionalMerkle.sol";

/// @title Builds trees and paths, which the contracts never do.
library Trees {
    function pad(bytes32[] memory leaves) internal pure returns (bytes32[] memory padded) {
        padded = new bytes32[](1 << PositionalMerkle.depth(leaves.length));
        for (uint256 i = 0; i < leaves.length; ++i) {
            padded[i] = leaves[i];
        }
    }

    function root(bytes32[] memory leaves) internal pure returns (bytes32) {
        return PositionalMerkle.rootOf(pad(leaves));
    }

    /// @dev All nodes of the level that lies `height` above the leaves.
    function level(bytes32[] memory leaves, uint256 height) internal pure returns (bytes32[] memory nodes) {
        nodes = pad(leaves);
        for (uint256 i = 0; i < height; ++i) {
            nodes = _parents(nodes);
        }
    }

    function _parents(bytes32[] memory nodes) private pure returns (bytes32[] memory parents) {
        parents = new bytes32[](nodes.length / 2);
        for (uint256 i = 0; i < parents.length; ++i) {
            parents[i] = PositionalMerkle.nodeHash(nodes[2 * i], nodes[2 * i + 1]);
        }
    }

    function path(bytes32[] memory leaves, uint256 index) internal pure returns (bytes32[] memory siblings) {
        bytes32[] memory nodes = pad(leaves);
        siblings = new bytes32[](PositionalMerkle.depth(leaves.length));
        for (uint256 j = 0; j < siblings.length; ++j) {
            siblings[j] = nodes[(index >> j) ^ 1];
            nodes = _parents(nodes);
        }
    }

    /// @notice Whether `leaves` are whole leaves first .. first + count - 1 of the tree over exactly `total`, and `path` is all that they need.
    function verifyRange(
        bytes32 expected,
        bytes memory leaves,
        uint256 leafBytes,
        uint256 first,
        uint256 count,
        uint256 total,
        bytes32[] calldata siblings
    ) internal pure returns (bool) {
        if (count == 0 || count > total || first > total - count) return false;
        if (leaves.length != count * leafBytes) return false;
        uint256 needed = PositionalMerkle.rangeSiblings(first, count, PositionalMerkle.depth(total));
        if (siblings.length != needed) return false;
        return PositionalMerkle.foldRange(leaves, leafBytes, first, count, siblings) == expected;
    }

    /// @notice Whether these are leaves of the tree over exactly `total`, rising in index, and `path` is all that they need.
    function verifySet(
        bytes32 expected,
        uint256[] memory indices,
        bytes32[] memory leaves,
        uint256 total,
        bytes32[] calldata siblings
    ) internal pure returns (bool) {
        PositionalMerkle.Set memory set;
        for (uint256 i = 0; i < indices.length; ++i) {
            if (indices[i] >= total || leaves[i] == 0) return false;
            if (!PositionalMerkle.add(set, indices[i], leaves[i])) return false;
        }
        uint256 levels = PositionalMerkle.depth(total);
        if (set.count == 0 || siblings.length != PositionalMerkle.setSiblings(set, levels)) return false;
        return PositionalMerkle.foldSet(set, levels, siblings) == expected;
    }

    /// @dev Siblings of leaves with rising indices, as `PositionalMerkle.foldSet` wants them.
    function setPath(bytes32[] memory leaves, uint256[] memory indices)
        internal
        pure
        returns (bytes32[] memory)
    {
        if (indices.length == 0) return new bytes32[](0);
        return _setPath(leaves, indices, 0, indices.length - 1, PositionalMerkle.depth(leaves.length));
    }

    function _setPath(
        bytes32[] memory leaves,
        uint256[] memory indices,
        uint256 from,
        uint256 to,
        uint256 height
    ) private pure returns (bytes32[] memory) {
        bytes32[] memory own = path(leaves, indices[from]);
        if (from == to) return concat(own, 0, height, new bytes32[](0));
        uint256 fork = 0;
        while ((indices[from] ^ indices[to]) >> (fork + 1) != 0) ++fork;
        uint256 middle = from + 1;
        while (indices[middle] >> fork == indices[from] >> fork) ++middle;
        bytes32[] memory below = concat(
            _setPath(leaves, indices, middle, to, fork),
            0,
            type(uint256).max,
            _setPath(leaves, indices, from, middle - 1, fork)
        );
        return concat(own, fork + 1, height, below);
    }

    /// @dev `before`, then words from .. to - 1 of `words`, or all from there on.
    function concat(bytes32[] memory words, uint256 from, uint256 to, bytes32[] memory before)
        internal
        pure
        returns (bytes32[] memory made)
    {
        if (to > words.length) to = words.length;
        made = new bytes32[](before.length + to - from);
        for (uint256 i = 0; i < made.length; ++i) {
            made[i] = i < before.length ? before[i] : words[from + i - before.length];
        }
    }

    /// @dev Siblings of leaves first .. first + count - 1, as `PositionalMerkle.foldRange` wants them.
    function rangePath(bytes32[] memory leaves, uint256 first, uint256 count)
        internal
        pure
        returns (bytes32[] memory siblings)
    {
        uint256 used = 0;
        uint256 last = first + count - 1;
        bytes32[] memory nodes = pad(leaves);
        bytes32[] memory found = new bytes32[](2 * PositionalMerkle.depth(leaves.length));
        for (; nodes.length > 1; nodes = _parents(nodes)) {
            if (first % 2 == 1) found[used++] = nodes[first - 1];
            if (last % 2 == 0) found[used++] = nodes[last + 1];
            (first, last) = (first / 2, last / 2);
        }
        siblings = new bytes32[](used);
        for (uint256 i = 0; i < used; ++i) {
            siblings[i] = found[i];
        }
    }

    function hashAll(bytes[] memory data) internal pure returns (bytes32[] memory leaves) {
        leaves = new bytes32[](data.length);
        for (uint256 i = 0; i < data.length; ++i) {
            leaves[i] = PositionalMerkle.leafHash(data[i]);
        }
    }
}
