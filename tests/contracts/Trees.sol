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

    /// @dev Siblings of leaves first .. first + count - 1, as `PositionalMerkle.verifyRange` wants them.
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
