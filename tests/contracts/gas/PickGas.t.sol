// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Float32} from "../../../contracts/libraries/Float32.sol";
import {Run, Runs} from "../../../contracts/libraries/Runs.sol";
import {Test} from "../Test.sol";

/// @dev What it costs to pick the terms of a SELECTED_SUM, compiled as the product is.
contract PickGasTest is Test {
    uint256 private constant TERMS = 4096;
    /// @dev Less than a third of what the proof of a fault is priced by (`CONVICTION_GAS` in protocol/economics/gas_costs.py).
    uint256 private constant MOST_GAS = 1_000_000;

    event log_named_uint(string key, uint256 value);

    /// @dev Where a chunk of the batch has one token only, all terms are picked.
    function test_pick_gasOf4096Matches_staysInsideItsShare() public {
        bytes memory values = new bytes(4 * TERMS);
        for (uint256 i = 0; i < TERMS; ++i) {
            Float32.store(values, i, uint32(i + 1));
        }
        Run memory keys = Run(new bytes(4 * TERMS), 0, false);
        uint256 gas = gasleft();
        (bytes memory picked, uint256 count,) = Runs.pick(keys, Run(values, 0, false), TERMS, 0);
        gas -= gasleft();
        emit log_named_uint("gas of picking 4096 of 4096", gas);
        assertEq(count, TERMS, "count");
        assertEq(picked, values, "picked");
        assertTrue(gas < MOST_GAS, "gas");
    }
}
