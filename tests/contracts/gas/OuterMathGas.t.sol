// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {OuterMath} from "../../../contracts/libraries/OuterMath.sol";
import {OuterLeaves} from "../OuterLeaves.sol";
import {Test} from "../Test.sol";

/// @dev What a leaf of the outer step costs, compiled as the product is.
contract OuterMathGasTest is Test {
    /// @dev The dearest leaf (64 claims) must fit one transaction of 16.78 M gas with 48 KB of proofs beside it.
    uint256 private constant GAS_OF_DEAREST_LEAF = 8_000_000;

    function outerLeaf(bytes memory w, bytes memory m, bytes[] memory deltas, OuterMath.Rates memory rates)
        external
        pure
        returns (bytes memory, bytes memory)
    {
        return OuterMath.outerLeaf(w, m, deltas, rates);
    }

    /// @dev One claim far above the others, so that each later addition rounds, is the dearest that a single cheat can cause; several cheats can be as far
    /// apart as scales go, or say what no encoding says, or make every sum round.
    function test_outerLeaf_gasOf64Claims_fitsATransaction() public view {
        for (uint256 kind = 0; kind < 3; ++kind) {
            _assertGasOf(OuterLeaves.rounding(kind, 64));
        }
        _assertGas(190, 120, 40);
        _assertGas(220, 0, 1);
        _assertGas(220, 0, 221);
        _assertGas(255, 0, 221);
    }

    function _assertGas(uint256 first, uint256 least, uint256 spread) private view {
        bytes[] memory deltas = new bytes[](64);
        for (uint256 i = 0; i < 64; ++i) {
            deltas[i] = new bytes(OuterMath.DELTA_LEAF_BYTES);
            for (uint256 j = 0; j < 260; ++j) {
                deltas[i][j] = j % 65 == 0
                    ? bytes1(uint8(i == 0 ? first : least + (7 * i) % spread))
                    : bytes1(uint8(uint256(keccak256(abi.encode(i, j)))));
            }
        }
        _assertGasOf(deltas);
    }

    function _assertGasOf(bytes[] memory deltas) private view {
        (bytes memory w, bytes memory m) = (OuterLeaves.noise(1), OuterLeaves.noise(2));
        uint256 before = gasleft();
        this.outerLeaf(w, m, deltas, OuterMath.Rates(0x3f333333, 0x3f666666));
        uint256 used = before - gasleft();
        assertTrue(used < GAS_OF_DEAREST_LEAF, string.concat("gas ", vm.toString(used)));
    }
}
