// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ExactRow} from "../../../contracts/libraries/ExactRow.sol";
import {Float32} from "../../../contracts/libraries/Float32.sol";
import {Run} from "../../../contracts/libraries/Runs.sol";
import {Test} from "../Test.sol";

/// @dev Checked against plain integers, one term after another; all else by tests/vectors/exact.json.
contract ExactRowTest is Test {
    uint32 private constant ONE = 0x3f800000;
    uint32 private constant INFINITE = 0x7f800000;

    // Helpers
    function _run(uint32[] memory values) private pure returns (Run memory) {
        bytes memory data = new bytes(4 * values.length);
        for (uint256 i = 0; i < values.length; ++i) {
            Float32.store(data, i, values[i]);
        }
        return Run(data, 0, false);
    }

    /// @dev Patterns of exponent fields `least` .. `least + spread - 1`.
    function _values(uint256 seed, uint256 count, uint256 least, uint256 spread)
        private
        pure
        returns (uint32[] memory values)
    {
        values = new uint32[](count);
        for (uint256 i = 0; i < count; ++i) {
            uint256 random = uint256(keccak256(abi.encode(seed, i)));
            uint256 exponent = least + (random >> 64) % spread;
            values[i] = uint32(exponent << 23 | (random & 0x807fffff));
        }
    }

    /// @dev The value in units of 2^-149; exponent fields up to 200.
    function _units(uint32 bits) private pure returns (int256) {
        (bool negative, uint256 mantissa, uint256 exponent) = Float32.decode(bits);
        int256 value = int256(mantissa << exponent);
        return negative ? -value : value;
    }

    function _round(int256 value, uint256 shift) private pure returns (int256) {
        uint256 size = value < 0 ? uint256(-value) : uint256(value);
        int256 rounded = int256(shift == 0 ? size : Float32.shiftRightEven(size, shift));
        return value < 0 ? -rounded : rounded;
    }

    // Sums
    /// @dev Near and far terms: those that lose places and those that do not.
    function testFuzz_sum_isThatOfRoundedUnits(uint256 seed, uint256 count, uint256 spread, uint256 least)
        public
        pure
    {
        uint32[] memory values =
            _values(seed, bound(count, 1, 40), bound(least, 0, 120), bound(spread, 1, 80));
        uint256 largest = 0;
        for (uint256 i = 0; i < values.length; ++i) {
            int256 size = _units(values[i] & ~Float32.SIGN_BIT);
            if (uint256(size) > largest) largest = uint256(size);
        }
        uint256 length = 0;
        while (largest >> length != 0) ++length;
        // t is 2^shift units, or a part of one.
        uint256 shift = length > 39 ? length - 39 : 0;
        int256 total = 0;
        for (uint256 i = 0; i < values.length; ++i) {
            total += _round(_units(values[i]), shift);
        }
        bool negative = total < 0;
        uint32 expected = Float32.round(negative, uint256(negative ? -total : total), int256(shift));
        assertEq(ExactRow.sum(_run(values), values.length), expected, "sum");
    }

    function test_sum_repeatedTerm_countsEachTime() public pure {
        uint32[] memory values = new uint32[](1);
        values[0] = 0x40400000;
        Run memory run = _run(values);
        run.repeats = true;
        assertEq(ExactRow.sum(run, 4096), 0x46400000, "12,288");
        assertEq(ExactRow.sum(run, 3), 0x41100000, "9");
    }

    /// @dev What lies behind the run is no part of it.
    function test_largestMagnitude_endsWithTheRun() public pure {
        uint32[] memory values = new uint32[](20);
        for (uint32 i = 0; i < 20; ++i) {
            values[i] = (i + 1) | (i % 2 == 0 ? Float32.SIGN_BIT : 0);
        }
        for (uint256 terms = 1; terms <= 20; ++terms) {
            assertEq(ExactRow.largestMagnitude(_run(values), terms), terms, "the last one");
        }
        assertEq(ExactRow.largestMagnitude(_run(values), 0), 0, "none");
    }

    // Scales
    /// @dev The least of all that keep every term inside the limit, by trying.
    function testFuzz_scale_isTheLeast(uint256 seed, uint256 count, uint256 least, uint8 kind) public pure {
        uint256 bits = [8, 15, 20][kind % 3];
        uint256 limit = [uint256(127), 16_319, 524_287][kind % 3];
        uint32[] memory values = _values(seed, bound(count, 1, 20), bound(least, 0, 190), 8);
        uint256 largest = 0;
        for (uint256 i = 0; i < values.length; ++i) {
            int256 size = _units(values[i] & ~Float32.SIGN_BIT);
            if (uint256(size) > largest) largest = uint256(size);
        }
        uint256 power = 0;
        while (uint256(_round(int256(largest), power)) > limit) ++power;
        uint32 expected = Float32.round(false, 1, int256(power));
        assertEq(ExactRow.scale(_run(values), values.length, bits), expected, "scale");
    }

    function test_scale_notFinite_isNaN() public pure {
        uint32[] memory values = new uint32[](9);
        values[8] = INFINITE | Float32.SIGN_BIT;
        assertEq(ExactRow.scale(_run(values), 9, 8), ExactRow.NAN, "an infinity");
        assertEq(ExactRow.scale(_run(values), 8, 8), 1, "not among eight");
    }

    // Products
    function _integers(int256[] memory values, uint256 integerBytes) private pure returns (Run memory) {
        bytes memory data = new bytes(integerBytes * values.length);
        for (uint256 i = 0; i < data.length; ++i) {
            data[i] = bytes1(uint8(uint256(values[i / integerBytes]) >> 8 * (i % integerBytes)));
        }
        return Run(data, 0, false);
    }

    function _scale(uint32 bits) private pure returns (Run memory) {
        uint32[] memory values = new uint32[](1);
        values[0] = bits;
        return _run(values);
    }

    /// @dev Any integers of their bytes, honest or not, against one product after another.
    function testFuzz_productSum_isThatOfIntegers(uint256 seed, uint256 count, uint8 kind) public pure {
        uint256 integerBytes = [1, 2, 4][kind % 3];
        count = bound(count, 1, 70);
        (int256[] memory a, int256[] memory b) = (new int256[](count), new int256[](count));
        int256 total = 0;
        for (uint256 i = 0; i < count; ++i) {
            uint256 random = uint256(keccak256(abi.encode(seed, i)));
            uint256 shift = 256 - 8 * integerBytes;
            (a[i], b[i]) = (int256(random << shift) >> shift, int256(random) >> shift);
            total += a[i] * b[i];
        }
        Run[] memory operands = new Run[](4);
        (operands[0], operands[1]) = (_integers(a, integerBytes), _integers(b, integerBytes));
        (operands[2], operands[3]) = (_scale(ONE), _scale(0x3f000000)); // 1 and a half
        bool negative = total < 0;
        uint32 expected = Float32.round(negative, uint256(negative ? -total : total), 148);
        assertEq(ExactRow.productSum(operands, count, integerBytes), expected, "sum");
    }
}
