// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Float32} from "../../contracts/libraries/Float32.sol";
import {PositionalMerkle} from "../../contracts/libraries/PositionalMerkle.sol";
import {Tolerance} from "../../contracts/libraries/Tolerance.sol";

/// @title A leaf of a state whose 256 elements are all the same.
library StateLeaf {
    function filled(uint32 weight, uint32 first, uint32 second)
        internal
        pure
        returns (Tolerance.Leaf memory leaf)
    {
        leaf = Tolerance.Leaf(new bytes(1024), new bytes(1024), new bytes(1024));
        for (uint256 i = 0; i < PositionalMerkle.LEAF_ELEMENTS; ++i) {
            Float32.store(leaf.weights, i, weight);
            Float32.store(leaf.firstMoment, i, first);
            Float32.store(leaf.secondMoment, i, second);
        }
    }
}
