// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Float32} from "./Float32.sol";
import {Run, Runs} from "./Runs.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title What an exact program makes of a row of terms: their sum, their scale, the sum of products of quantized values (docs/spec.md, section 9.1).
/// @notice Terms become integers of one unit, these are added exactly, and the total is rounded once: no order of summation is left.
/// @dev Twin of `add_terms`, `choose_scale` and `add_quantized_products` in `protocol/spec/exact_sums.py`.
library ExactRow {
    using Runs for Run;

    /// @dev The one pattern that stands for all NaN.
    uint32 internal constant NAN = 0x7fc00000;
    int256 private constant BIAS = 149;
    /// @dev Places below the leading bit of the largest term that a sum keeps.
    int256 private constant SUM_BITS = 38;
    uint256 private constant EVEN_LANES = type(uint256).max / ((1 << 64) + 1); // of 64 bits

    // The largest term
    /// @notice The largest pattern of the first `terms` elements without their signs; above that of infinity where one is NaN. 0 of no terms.
    function largestMagnitude(Run memory run, uint256 terms) internal pure returns (uint32) {
        (uint256 place, uint256 step) = run.open(terms);
        uint256 ones = Runs.onesAt(place);
        uint256 most = 0; // of each lane
        unchecked {
            uint256 signs = ones << 31;
            for (uint256 i = 0; i < terms; (i, place) = (i + Runs.LANES, place + step)) {
                uint256 x = Runs.word(place, terms - i, ones) | signs;
                // Bit 31 of magnitude + 2^31 - most is set where the magnitude is no less; no lane borrows from the next one.
                uint256 above = ((x - most) >> 31) & ones;
                most ^= (most ^ x) & (above * 0x7fffffff);
            }
        }
        return uint32(Runs.largestLane(most));
    }

    // SUM, SELECTED_SUM
    /// @notice Each term to the nearest multiple of t = 2^(e - 38), e the exponent of the largest one, their exact sum, rounded once. NaN where a
    /// term is not finite; +0 without terms and where the sum is zero.
    function sum(Run memory run, uint256 terms) internal pure returns (uint32) {
        uint32 largest = largestMagnitude(run, terms);
        if (largest >= Float32.INFINITY) return NAN;
        if (largest == 0) return 0;
        (, uint256 mantissa, uint256 exponent) = Float32.decode(largest);
        unchecked {
            int256 unit = int256(LibBit.fls(mantissa) + exponent) - SUM_BITS; // t = 2^(unit - 149)
            int256 total = _addMultiples(run, terms, unit);
            return Float32.round(total < 0, FixedPointMathLib.abs(total), unit);
        }
    }

    /// @dev The sum of RNE(x / t), t = 2^(unit - 149); no |x / t| is above 2^39. A term is m * 2^(e - 149), so m * 2^40 is shifted to the right by
    /// s = unit + 40 - e places: 2 at least, for e is no larger than that of the largest term, and below 2^9.
    function _addMultiples(Run memory run, uint256 terms, int256 unit) private pure returns (int256) {
        (uint256 place, uint256 step) = run.open(terms);
        uint256 ones = Runs.onesAt(place);
        unchecked {
            uint256 most = uint256(unit + 40) * ones;
            uint256 total = 0; // positive terms in the lower half, the negative ones' magnitudes in the upper one
            for (uint256 i = 0; i < terms; (i, place) = (i + Runs.LANES, place + step)) {
                // Zeros behind the last term add nothing.
                total += _addWord(Runs.word(place, terms - i, ones), most, ones);
            }
            return int256(total & type(uint128).max) - int256(total >> 128);
        }
    }

    /// @dev Eight terms; `most` is unit + 40 in every lane. Where no term loses a place, as in most words of a real row, none is rounded.
    function _addWord(uint256 x, uint256 most, uint256 ones) private pure returns (uint256) {
        unchecked {
            uint256 s = (x >> 23) & (ones * 0xff);
            uint256 isNormal = ((s + ones * 0xff) >> 8) & ones;
            uint256 m = (x & (ones * 0x7fffff)) | (isNormal << 23);
            s = most + isNormal - s;
            // Bit 9 of s + 471 is set from 41 on.
            if ((s + ones * 471) & (ones << 9) == 0) {
                return _addWhole(m, (ones * 40 - s) | ((x >> 24) & (ones << 7)));
            }
            return _addRounded(m, s | ((x >> 8) & (ones << 23)));
        }
    }

    /// @dev The sum of the eight lanes of m, each shifted to the left by the lowest byte of its lane of `left`. Shifts of 128 and more put the magnitudes of
    /// negative terms into the upper half. By hand: `byte` takes a lane's shift in one step. Lane by lane, for a loop would cost about as
    /// much as the additions.
    function _addWhole(uint256 m, uint256 left) private pure returns (uint256 total) {
        assembly ("memory-safe") {
            total := shl(byte(3, left), shr(224, m))
            total := add(total, shl(byte(7, left), and(shr(192, m), 0xffffff)))
            total := add(total, shl(byte(11, left), and(shr(160, m), 0xffffff)))
            total := add(total, shl(byte(15, left), and(shr(128, m), 0xffffff)))
            total := add(total, shl(byte(19, left), and(shr(96, m), 0xffffff)))
            total := add(total, shl(byte(23, left), and(shr(64, m), 0xffffff)))
            total := add(total, shl(byte(27, left), and(shr(32, m), 0xffffff)))
            total := add(total, shl(byte(31, left), and(m, 0xffffff)))
        }
    }

    /// @dev The sum of the eight lanes of m times 2^40, each shifted to the right by the low 9 bits of its lane of s and rounded, ties to even. Bit 23 of
    /// a lane of s puts the magnitude of a negative term into the upper half. By hand: nothing is checked, and what wraps from 257 places on
    /// is shifted away.
    function _addRounded(uint256 m, uint256 s) private pure returns (uint256 total) {
        assembly ("memory-safe") {
            for { let lane := 0 } lt(lane, 256) { lane := add(lane, 32) } {
                let v := shl(40, and(shr(lane, m), 0xffffff))
                let places := and(shr(lane, s), 0x1ff)
                // As in `Float32`: less than half is added to what is even, half to what is odd. From 65 places on nothing is left.
                let most := sub(shl(sub(places, 1), 1), 1)
                v := shr(places, add(v, add(most, and(shr(places, v), 1))))
                total := add(total, shl(and(shr(add(lane, 16), s), 128), v))
            }
        }
    }

    // SCALE_OF
    /// @notice The least power of two, at least 2^-149, for which no quantized term is beyond the limit of `bits`. NaN where a term is not finite.
    function scale(Run memory run, uint256 terms, uint256 bits) internal pure returns (uint32) {
        uint32 largest = largestMagnitude(run, terms);
        if (largest >= Float32.INFINITY) return NAN;
        (, uint256 mantissa, uint256 exponent) = Float32.decode(largest);
        uint256 limit = limitOf(bits);
        unchecked {
            // In units of 2^-149 the largest term has `length` bits.
            uint256 length = mantissa == 0 ? 0 : LibBit.fls(mantissa) + 1 + exponent;
            uint256 power = FixedPointMathLib.zeroFloorSub(length, LibBit.fls(limit) + 1);
            uint256 quantized = power > exponent
                ? Float32.shiftRightEven(mantissa, power - exponent)
                : mantissa << (exponent - power);
            if (quantized > limit) ++power;
            return Float32.round(false, 1, int256(power));
        }
    }

    /// @notice The largest magnitude of a quantized value of 8, 15 or 20 bits.
    function limitOf(uint256 bits) internal pure returns (uint256) {
        if (bits == 8) return 127;
        return bits == 15 ? 16_319 : (1 << 19) - 1;
    }

    // QUANTIZED_PRODUCT_SUM
    /// @notice The exact sum of the products of quantized values, times both scales, rounded once; +0 where that is zero. NaN where a scale is not
    /// finite.
    /// @param operands values of a, values of b, scale of a, scale of b
    /// @param terms up to 4,096
    /// @param integerBytes of a quantized value
    function productSum(Run[] memory operands, uint256 terms, uint256 integerBytes)
        internal
        pure
        returns (uint32)
    {
        (uint32 scaleA, uint32 scaleB) = (operands[2].head(), operands[3].head());
        if (!Float32.isFinite(scaleA) || !Float32.isFinite(scaleB)) return NAN;
        int256 total = _addProducts(operands[0], operands[1], terms, integerBytes);
        (bool negativeA, uint256 mantissaA, uint256 exponentA) = Float32.decode(scaleA);
        (bool negativeB, uint256 mantissaB, uint256 exponentB) = Float32.decode(scaleB);
        unchecked {
            // |total| is at most 2^12 * 2^62.
            uint256 magnitude = FixedPointMathLib.abs(total) * mantissaA * mantissaB;
            if (magnitude == 0) return 0;
            bool negative = (total < 0) != (negativeA != negativeB);
            return Float32.round(negative, magnitude, int256(exponentA + exponentB) - BIAS);
        }
    }

    /// @dev How integers of `width` bits are multiplied (`_multiplyWords`). laneBits: of a lane; mask and bias: in each of them; signs: in each integer.
    struct Lanes {
        uint256 width;
        uint256 laneBits;
        uint256 mask;
        uint256 bias;
        uint256 signs;
    }

    function _addProducts(Run memory a, Run memory b, uint256 terms, uint256 integerBytes)
        private
        pure
        returns (int256)
    {
        (uint256 placeA, uint256 stepA) = a.open(terms, integerBytes);
        (uint256 placeB, uint256 stepB) = b.open(terms, integerBytes);
        Lanes memory lanes = _lanesOf(integerBytes);
        unchecked {
            // The sums of the lower lanes may be below zero: half a unit of the highest lane is above all that they lack.
            uint256 total = 1 << (255 - lanes.laneBits);
            for (uint256 i = 0; i < terms; i += 32 / integerBytes) {
                // Zeros of x behind the last term add nothing, whatever stands in y.
                uint256 x = Runs.integers(placeA, terms - i, integerBytes);
                total += _multiplyWords(x, Runs.integers(placeB, 32, integerBytes), lanes);
                placeA += stepA;
                placeB += stepB;
            }
            return int256(total) >> (256 - lanes.laneBits);
        }
    }

    function _lanesOf(uint256 integerBytes) private pure returns (Lanes memory lanes) {
        unchecked {
            uint256 width = 8 * integerBytes;
            lanes.width = width;
            lanes.laneBits = integerBytes == 4 ? 128 : 64;
            uint256 ones = type(uint256).max / ((1 << lanes.laneBits) - 1);
            lanes.mask = (ones << width) - ones;
            lanes.bias = ones << (width - 1);
            lanes.signs = type(uint256).max / ((1 << width) - 1) << (width - 1);
        }
    }

    /// @dev The sum of the products of two words' integers is in the highest lane. Four numbers (or two) x_i in lanes of 64 bits (or 128) are one
    /// number, sum x_i L^i; times sum y_(3-i) L^i it has sum x_i y_i at L^3, and what is above is lost. A word has several such numbers.
    /// The sums of 4,096 products, 2^26, 2^42 or 2^74 at most, do not reach half of a lane.
    function _multiplyWords(uint256 x, uint256 y, Lanes memory lanes) private pure returns (uint256 total) {
        (uint256 width, uint256 laneBits, uint256 mask, uint256 bias) =
            (lanes.width, lanes.laneBits, lanes.mask, lanes.bias);
        unchecked {
            // 2^(width - 1) is added to every integer, which makes it no less than 0, and taken away from the lanes.
            x ^= lanes.signs;
            y ^= lanes.signs;
            y = (y << 128) | (y >> 128);
            if (laneBits == 64) y = ((y & EVEN_LANES) << 64) | ((y >> 64) & EVEN_LANES);
            for (uint256 at = 0; at < laneBits; at += width) {
                total += (((x >> at) & mask) - bias) * (((y >> at) & mask) - bias);
            }
        }
    }
}
