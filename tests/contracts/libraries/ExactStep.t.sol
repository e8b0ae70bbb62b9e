// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ExactStep} from "../../../contracts/libraries/ExactStep.sol";
import {Float32} from "../../../contracts/libraries/Float32.sol";
import {Test} from "../Test.sol";

/// @title Exact results against integers, their rounding against `Float32`, and their order among powers of two.
contract ExactStepTest is Test {
    using ExactStep for ExactStep.Result;

    uint32 private constant ONE = 0x3f800000;
    uint32 private constant TWO = 0x40000000;
    uint32 private constant THREE = 0x40400000;
    uint32 private constant LEAST = 1;
    uint32 private constant GREATEST = 0x7f7fffff;

    function _finite(uint32 bits) private pure returns (uint32) {
        return bits & 0x7f800000 == 0x7f800000 ? bits ^ 0x40000000 : bits;
    }

    /// @dev In units of 2^-149.
    function _units(uint32 bits) private pure returns (int256) {
        (bool negative, uint256 mantissa, uint256 exponent) = Float32.decode(bits);
        int256 size = int256(mantissa << exponent);
        return negative ? -size : size;
    }

    function _units(ExactStep.Result memory result, int256 finest) private pure returns (int256) {
        int256 size = int256(result.magnitude << uint256(result.exponent - finest));
        return result.negative ? -size : size;
    }

    /// @dev Exponents less than 128 apart: nothing of the smaller one is lost.
    function testFuzz_add_near_isTheSum(uint32 a, uint32 b) public pure {
        (a, b) = (_finite(a) & 0x9fffffff, _finite(b) & 0x9fffffff);
        ExactStep.Result memory sum = ExactStep.add(a, b);
        assertEq(uint256(_units(sum, 0)), uint256(_units(a) + _units(b)), "sum");
    }

    function testFuzz_multiply_isTheProduct(uint32 a, uint32 b) public pure {
        (a, b) = (_finite(a) & 0x9fffffff, _finite(b) & 0x9fffffff);
        ExactStep.Result memory product = ExactStep.multiply(a, b);
        assertEq(uint256(_units(product, -149)), uint256(_units(a) * _units(b)), "product in units of 2^-298");
    }

    function testFuzz_round_isThatOfFloat32(uint32 a, uint32 b) public pure {
        (a, b) = (_finite(a), _finite(b));
        // Signs of zeros are the caller's matter.
        uint32 sum = Float32.add(a, b);
        if (sum << 1 != 0) assertEq(ExactStep.add(a, b).round(), sum, "sum");
        assertEq(ExactStep.multiply(a, b).round(), Float32.mul(a, b), "product");
        if (b << 1 != 0) assertEq(ExactStep.divide(a, b).round(), Float32.div(a, b), "quotient");
    }

    /// @dev So far apart that of the smaller one only its sign is left.
    function test_add_farApart_staysBesideTheLarger() public pure {
        ExactStep.Result memory less = ExactStep.add(GREATEST, LEAST | Float32.SIGN_BIT);
        assertTrue(less.isBelow(128), "the greatest");
        assertTrue(!less.isBelow(127), "no less than its power of two");
        less = ExactStep.add(0x7f000000, LEAST | Float32.SIGN_BIT);
        assertTrue(less.isBelow(127), "below 2^127, by next to nothing");
        assertTrue(!ExactStep.add(0x7f000000, 0).isBelow(127), "2^127 itself");
        assertTrue(!ExactStep.add(0x7f000000, LEAST).isBelow(127), "and more than it");
    }

    function test_divide_lostBits_areSeen() public pure {
        assertEq(ExactStep.divide(THREE, TWO).magnitude & 1, 0, "exact");
        assertEq(ExactStep.divide(ONE, THREE).magnitude & 1, 1, "one third");
        assertTrue(ExactStep.divide(ONE | Float32.SIGN_BIT, THREE).negative, "sign");
        assertTrue(!ExactStep.divide(ONE, THREE).isBelow(-2), "a third is no less than a quarter");
        assertTrue(ExactStep.divide(ONE, THREE).isBelow(-1), "but less than a half");
    }

    function test_isBelow_zero_isBelowAll() public pure {
        assertTrue(ExactStep.multiply(0, ONE).isBelow(-1000), "zero");
        assertTrue(!ExactStep.multiply(ONE, ONE).isBelow(0), "one is not below one");
        assertTrue(ExactStep.multiply(ONE, ONE).isBelow(1), "but below two");
    }
}
