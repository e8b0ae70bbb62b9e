// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Float32} from "./Float32.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title The unary functions of a program between two numbers that lie closer than any bound asks for.
/// @notice An answer (low, high, exponent) says low * 2^exponent <= exact value <= high * 2^exponent; low and high below 2^193.
/// @dev Twin of `protocol/spec/enclosures.py`, the same integers: integer series in fixed point of 120 bits, where a product of two
/// numbers below 2 has 242, and what they cut off is counted (SLACK).
library Enclosure {
    using Float32 for uint32;

    uint256 private constant FRACTION_BITS = 120;
    uint256 private constant ONE = 1 << FRACTION_BITS;
    uint256 private constant LN_2 = 0xb17217f7d1cf79abc9e3b39803f2d4;
    int256 private constant SLACK = 1 << 20;
    /// @dev 128.0, the largest magnitude that a series is taken at: exp(-128) is below 2^-184.
    uint32 internal constant LIMIT = 0x43000000;
    int256 private constant FAR_EXPONENT = -184;
    /// @dev Fixed point of a sigmoid beyond 1/2: it shows that 1 - 2^-185 is less than 1.
    uint256 private constant UPPER_BITS = 192;

    int256 private constant LEAST_NORMAL_POWER = -126;
    int256 private constant SAFE_POWER = 127;
    int256 private constant UNIT_POWER = -149;
    /// @dev So many places more, and 2^-126 is a whole number in every unit of an enclosure that it may be added to.
    uint256 private constant GUARD_PLACES = 8;
    /// @dev A claim is cut off at 2^220 units, beyond every enclosure and bound.
    uint256 private constant FAR_PLACES = 220;

    /// @notice 1 / sqrt(a) of a positive normal pattern.
    function reciprocalRoot(uint32 a) internal pure returns (int256 low, int256 high, int256 exponent) {
        (uint256 significand, int256 half) = splitEven(a);
        low = int256(FixedPointMathLib.sqrt((1 << 254) / significand));
        return (low, low + 1, -127 - half);
    }

    /// @notice exp(a) of a finite pattern, at most LIMIT: 2^scale times the series of exp at 0 <= rest < ln 2.
    function exponential(uint32 a) internal pure returns (int256 low, int256 high, int256 exponent) {
        if (a & ~Float32.SIGN_BIT > LIMIT) return (0, 1, FAR_EXPONENT);
        unchecked {
            int256 x = _toFixed(a);
            int256 scale = x / int256(LN_2);
            if (scale * int256(LN_2) > x) --scale; // the whole part, downwards
            uint256 rest = uint256(x - scale * int256(LN_2));
            (uint256 total, uint256 term) = (0, ONE);
            for (uint256 order = 1; term != 0; ++order) {
                total += term;
                term = (term * rest >> FRACTION_BITS) / order;
            }
            return (int256(total) - SLACK, int256(total) + SLACK, scale - int256(FRACTION_BITS));
        }
    }

    /// @notice log(a) of a positive normal pattern: a = m * 2^e with m from 3/4 to 3/2, log m = 2 artanh((m - 1) / (m + 1)).
    function logarithm(uint32 a) internal pure returns (int256 low, int256 high, int256 exponent) {
        (, uint256 mantissa, uint256 place) = Float32.decode(a);
        exponent = -int256(FRACTION_BITS);
        unchecked {
            uint256 m = mantissa << (FRACTION_BITS - 23);
            int256 e = int256(place) - 126;
            if (2 * m > 3 * ONE) (m, e) = (m >> 1, e + 1);
            if (m == ONE && e == 0) return (0, 0, exponent);
            int256 total = e * int256(LN_2) + 2 * _artanhOfRatio(m);
            return (total - SLACK, total + SLACK, exponent);
        }
    }

    /// @notice 1 / (1 + exp(-a)) of a finite pattern: e / (1 + e) with e = exp(-|a|) where a < 0, else 1 less that.
    function sigmoid(uint32 a) internal pure returns (int256 low, int256 high, int256 exponent) {
        (low, high, exponent) = exponential(a | Float32.SIGN_BIT);
        unchecked {
            // 1 + e in 2^-120, rounded up and down: e, below 2^121 and shifted to the right, may be far smaller than its last place.
            int256 places = exponent + int256(FRACTION_BITS);
            int256 above = int256(ONE) + _shift(high, places) + 1;
            int256 below = int256(ONE) + _shift(low, places);
            (low, high) = ((low << FRACTION_BITS) / above, (high << FRACTION_BITS) / below + 1);
            if (a > Float32.SIGN_BIT) return (low, high, exponent);
            places = exponent + int256(UPPER_BITS);
            int256 one = int256(1) << UPPER_BITS;
            return (one - _shift(high, places) - 1, one - _shift(low, places), -int256(UPPER_BITS));
        }
    }

    /// @notice |a| = significand * 4^half, significand below 2^27. Half the exponent of a root.
    function splitEven(uint32 a) internal pure returns (uint256 significand, int256 half) {
        (, uint256 mantissa, uint256 place) = Float32.decode(a);
        unchecked {
            // Of the doubled number mantissa * 2^(place + 1) at least 25 bits stay, and only zeros go.
            uint256 length = mantissa == 0 ? 0 : LibBit.fls(mantissa) + place + 2;
            uint256 drop = length < 27 ? 0 : (length - 25) & ~uint256(1);
            significand = mantissa << (place + 1 - drop);
            half = int256(drop / 2) - 75;
        }
    }

    /// @notice The float32 nearest to sqrt(|a|) of a finite pattern, ties to even.
    function squareRoot(uint32 a) internal pure returns (uint32) {
        (uint256 significand, int256 half) = splitEven(a);
        unchecked {
            // 100 places decide: no root is within 2^-50 (relative) of halfway between two float32 numbers. 227 bits.
            return Float32.round(false, FixedPointMathLib.sqrt(significand << 200), half - 100 + 149);
        }
    }

    /// @notice Whether a claim lies beyond the bound: `ulps` units in the last place, and 2^-126 where the value is below 2^-125 or
    /// `isTinyAllowed`. A claim that is not finite: whether the value is below 2^127.
    /// @dev exponent: -305 .. 64.
    function isOutside(
        uint32 claimed,
        int256 low,
        int256 high,
        int256 exponent,
        uint256 ulps,
        bool isTinyAllowed
    ) internal pure returns (bool) {
        unchecked {
            low <<= GUARD_PLACES;
            high <<= GUARD_PLACES;
            exponent -= int256(GUARD_PLACES);
            uint256 largest = FixedPointMathLib.max(FixedPointMathLib.abs(low), FixedPointMathLib.abs(high));
            uint256 smallest = FixedPointMathLib.min(FixedPointMathLib.abs(low), FixedPointMathLib.abs(high));
            // |x| * 2^exponent < 2^p where x has at most p - exponent bits; fls of 0 is 256, so zero goes first.
            if (!claimed.isFinite()) return largest == 0 || _power(largest) + exponent < SAFE_POWER;
            if (smallest == 0 || _power(smallest) + exponent <= LEAST_NORMAL_POWER) isTinyAllowed = true;
            // Whole numbers, below 2^200: a last place is no finer than 2^-149, and values that far down count finer units.
            int256 bound = isTinyAllowed ? int256(1) << uint256(LEAST_NORMAL_POWER - exponent) : int256(0);
            if (largest != 0) {
                int256 last = FixedPointMathLib.max(_power(largest) + exponent - 23, UNIT_POWER);
                bound += int256(ulps << uint256(last - exponent));
            }
            return _isApart(claimed, low - bound, high + bound, exponent);
        }
    }

    /// @dev Whether a claim lies below `least` or above `most`, whole numbers of 2^exponent: so does it where its own whole number,
    /// rounded towards the two, does.
    function _isApart(uint32 claimed, int256 least, int256 most, int256 exponent)
        private
        pure
        returns (bool)
    {
        (bool negative, uint256 mantissa, uint256 place) = claimed.decode();
        unchecked {
            int256 value = negative ? -int256(mantissa) : int256(mantissa);
            int256 shift = int256(place) + UNIT_POWER - exponent;
            if (shift >= 0) {
                value <<= FixedPointMathLib.min(uint256(shift), FAR_PLACES);
                return value < least || value > most;
            }
            return value >> uint256(-shift) < least || -(-value >> uint256(-shift)) > most;
        }
    }

    /// @dev The whole part of the binary logarithm.
    function _power(uint256 value) private pure returns (int256) {
        return int256(LibBit.fls(value));
    }

    /// @dev value * 2^places, downwards.
    function _shift(int256 value, int256 places) private pure returns (int256) {
        return places >= 0 ? value << uint256(places) : value >> uint256(-places);
    }

    /// @dev a in units of 2^-120, downwards; |a| <= 128, so below 2^128.
    function _toFixed(uint32 a) private pure returns (int256) {
        (bool negative, uint256 mantissa, uint256 place) = Float32.decode(a);
        int256 value = negative ? -int256(mantissa) : int256(mantissa);
        return _shift(value, int256(place) - 29); // 29 = 149 - 120
    }

    /// @dev artanh((m - 1) / (m + 1)) = z + z^3 / 3 + z^5 / 5 ..., where |z| is at most 1/5.
    function _artanhOfRatio(uint256 m) private pure returns (int256) {
        unchecked {
            bool negative = m < ONE;
            uint256 numerator = (negative ? ONE - m : m - ONE) << FRACTION_BITS;
            // z is rounded downwards: |z| upwards where z is negative.
            uint256 power = (numerator + (negative ? m + ONE - 1 : 0)) / (m + ONE);
            uint256 square = power * power >> FRACTION_BITS;
            uint256 total = 0;
            for (uint256 order = 1; power != 0; order += 2) {
                total += power / order;
                power = power * square >> FRACTION_BITS;
            }
            return negative ? -int256(total) : int256(total);
        }
    }
}
