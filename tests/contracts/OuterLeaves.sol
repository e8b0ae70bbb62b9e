// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Float32} from "../../contracts/libraries/Float32.sol";
import {OuterMath} from "../../contracts/libraries/OuterMath.sol";

/// @title Leaves of weights, momentum and pseudo-gradients for tests of the outer step.
library OuterLeaves {
    /// @dev Pseudo-gradients whose sums round: scales of all sizes, of neighbours, or one far above the others.
    function rounding(uint256 kind, uint256 claims) internal pure returns (bytes[] memory deltas) {
        deltas = new bytes[](claims);
        for (uint256 i = 0; i < claims; ++i) {
            uint256 scale = kind == 0 ? i * 220 / (claims - 1) : kind == 1 ? 100 + i : i == 0 ? 220 : 197;
            deltas[i] = new bytes(OuterMath.DELTA_LEAF_BYTES);
            for (uint256 j = 0; j < 260; ++j) {
                int8 quantum = kind < 2
                    ? int8(uint8(uint256(keccak256(abi.encode(i, j)))))
                    : i == 0 ? int8(64) : i % 2 == 0 ? int8(127) : int8(-127);
                deltas[i][j] = j % 65 == 0 ? bytes1(uint8(scale)) : bytes1(uint8(quantum));
            }
        }
    }

    /// @dev 256 float32 numbers of either sign between 2^-17 and 2^3.
    function noise(uint256 seed) internal pure returns (bytes memory leaf) {
        leaf = new bytes(1024);
        for (uint256 i = 0; i < 256; ++i) {
            uint256 word = uint256(keccak256(abi.encode(seed, i)));
            Float32.store(
                leaf,
                i,
                uint32(((110 + word % 20) << 23) | ((word >> 32) & 0x7fffff) | (((word >> 64) & 1) << 31))
            );
        }
    }
}
