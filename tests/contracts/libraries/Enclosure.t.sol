// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Enclosure} from "../../../contracts/libraries/Enclosure.sol";
import {Float32} from "../../../contracts/libraries/Float32.sol";
import {Test} from "../Test.sol";

contract EnclosureTest is Test {
    /// @dev From 2^127 on some machine may have overflowed on its way: below, nobody has.
    function test_isOutside_infinity_isAFaultBelowTheSafePowerOnly() public pure {
        for (uint256 negative = 0; negative < 2; ++negative) {
            int256 value = negative == 0 ? int256(1) << 70 : -(int256(1) << 70);
            assertTrue(Enclosure.isOutside(Float32.INFINITY, value, value, 56, 1, false), "2^126");
            assertTrue(!Enclosure.isOutside(Float32.INFINITY, value, value, 57, 1, false), "2^127");
        }
        assertTrue(Enclosure.isOutside(Float32.INFINITY, 0, 0, 64, 1, false), "zero");
    }

    /// @dev One unit in the last place off is no fault, two are.
    function test_isOutside_atTheBound_isNone() public pure {
        uint32 one = 0x3f800000;
        int256 exact = int256(1) << 100;
        assertTrue(!Enclosure.isOutside(one + 1, exact, exact, -100, 1, false), "1 + 2^-23");
        assertTrue(Enclosure.isOutside(one + 2, exact, exact, -100, 1, false), "1 + 2^-22");
        assertTrue(!Enclosure.isOutside(one - 2, exact, exact, -100, 1, false), "1 - 2^-23");
        assertTrue(Enclosure.isOutside(one - 3, exact, exact, -100, 1, false), "1 - 3 * 2^-24");
    }
}
