// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Limits} from "../../../contracts/Types.sol";
import {Float32} from "../../../contracts/libraries/Float32.sol";
import {PositionalMerkle} from "../../../contracts/libraries/PositionalMerkle.sol";
import {Tolerance} from "../../../contracts/libraries/Tolerance.sol";
import {StateLeaf} from "../StateLeaf.sol";
import {Test} from "../Test.sol";

/// @dev What it costs to compare a leaf, compiled as the product is.
contract ToleranceGasTest is Test {
    /// @dev Nine leaves of a comparison (`TermsCheck`) and their proofs must fit one transaction of 16.78 M gas.
    uint256 private constant GAS_OF_LEAF = 900_000;

    uint256 private constant RATE = 1 << 60;

    function test_isLeafBeyond_gas_staysInsideATransaction() public view {
        Tolerance.Leaf memory replayed = StateLeaf.filled(0x3d000000, 0x3a000000, 0x33000000);
        Tolerance.Leaf memory claimed = StateLeaf.filled(0x3d000001, 0x3a000001, 0x33000001);
        uint256 before = gasleft();
        bool exceedsLimits =
            Tolerance.doesLeafExceed(claimed, replayed, Limits(1 << 50, 1, 1 << 50, 1, 1 << 50, 1), RATE);
        uint256 used = before - gasleft();
        assertTrue(!exceedsLimits, "every number of every element differs, and is compared");
        assertTrue(used < GAS_OF_LEAF, string.concat("gas ", vm.toString(used)));
    }
}
