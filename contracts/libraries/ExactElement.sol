// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Enclosure} from "./Enclosure.sol";
import {ExactRow} from "./ExactRow.sol";
import {Float32} from "./Float32.sol";
import {Judge} from "./Judge.sol";
import {Run, Runs} from "./Runs.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title The one right value of an element of an exact program (docs/spec.md, section 9.1).
/// @notice Elementwise operations are those of IEEE 754 binary32, each rounded once, ties to even, subnormals kept. Functions are sequences of integer
/// steps. What a row gives is in `ExactRow`.
/// @dev Twin of `compute_element` in `protocol/spec/exact.py`: the same bits on every input.
library ExactElement {
    using Float32 for uint32;
    using Runs for Run;

    uint32 private constant NAN = ExactRow.NAN;
    uint32 private constant ONE = 0x3f800000;

    // Of `exponential`: 2^38 / ln 2, and 2^30 (ln 2)^k / k! for k = 1 .. 8, the first one highest; of k = 0 it is 2^30.
    uint256 private constant LOG2_E = 396_564_993_198;
    uint256 private constant EXPONENTIAL_COEFFICIENTS = 744_261_118 << 224 | 257_941_248 << 192 | 59_597_083
        << 160 | 10_327_387 << 128 | 1_431_680 << 96 | 165_394 << 64 | 16_377 << 32 | 1419;
    int256 private constant EXPONENTIAL_ONE = 1 << 30;
    /// @dev 128.0: exp(128) is beyond all float32, exp(-128) below half the least one.
    uint32 private constant EXPONENTIAL_LIMIT = 0x43000000;
    // Of `logarithm`: 2^38 ln 2, 2^23 sqrt(2) rounded down, and the integers nearest to 2^31 / (2 k + 1) for k = 0 .. 6, the first one highest.
    int256 private constant LN_2 = 190_530_846_196;
    uint256 private constant ROOT_2 = 11_863_283;
    uint256 private constant LOGARITHM_COEFFICIENTS = 2_147_483_648 << 192 | 715_827_883 << 160 | 429_496_730
        << 128 | 306_783_378 << 96 | 238_609_294 << 64 | 195_225_786 << 32 | 165_191_050;
    uint256 private constant COEFFICIENT_MASK = 0xffffffff;
    uint256 private constant HIDDEN_BIT = 1 << 23;

    /// @notice The right bits of an element: of a float32, or of QUANTIZE a signed integer of 32 bits. Reverts on what is no operation of an exact
    /// program, never on values.
    /// @param operands one run an operand, without indices, as in `Judge.isFault`; as many as the operation takes
    /// @param terms of a reduction, 1 for all others; 0 for SELECTED_SUM where nothing is selected
    /// @param bits of quantized values: 8, 15 or 20; of SCALE_OF and QUANTIZE
    /// @param integerBytes of a factor of QUANTIZED_PRODUCT_SUM: 1, 2 or 4
    function compute(
        uint8 operation,
        Run[] memory operands,
        uint256 terms,
        uint256 bits,
        uint256 integerBytes
    ) internal pure returns (uint32) {
        if (operation < Judge.SUM || operation > Judge.QUANTIZED_PRODUCT_SUM) {
            revert Judge.UnknownOperation(operation);
        }
        if (operation <= Judge.SELECTED_SUM) return ExactRow.sum(operands[0], terms);
        if (operation == Judge.SCALE_OF) return ExactRow.scale(operands[0], terms, bits);
        if (operation == Judge.QUANTIZED_PRODUCT_SUM) {
            return ExactRow.productSum(operands, terms, integerBytes);
        }
        bool isLeast = operation == Judge.MINIMUM;
        if (isLeast || operation == Judge.MAXIMUM_OF || operation == Judge.MAXIMUM) {
            return _extreme(operands, terms, isLeast);
        }
        uint32 a = operands[0].head();
        if (operation == Judge.FINITE_SELECT) return _canonical(operands[a.isFinite() ? 1 : 2].head());
        if (operands.length == 1) return _unary(operation, a);
        return _binary(operation, a, operands[1].head(), bits);
    }

    /// @dev GATHER, EQUAL_SELECT and COPY have one operand too: what is chosen.
    function _unary(uint8 operation, uint32 a) private pure returns (uint32) {
        if (operation == Judge.SQUARE_ROOT) return _squareRoot(a);
        if (operation == Judge.RECIPROCAL_ROOT) return _divide(ONE, _squareRoot(a));
        if (operation == Judge.EXPONENTIAL) return exponential(a);
        if (operation == Judge.LOGARITHM) return logarithm(a);
        if (operation == Judge.SIGMOID) return _divide(ONE, _add(ONE, exponential(a.negate())));
        return _canonical(a);
    }

    function _binary(uint8 operation, uint32 a, uint32 b, uint256 bits) private pure returns (uint32) {
        if (operation == Judge.ADD) return _add(a, b);
        if (operation == Judge.SUBTRACT) return _add(a, b.negate());
        if (operation == Judge.MULTIPLY) return _multiply(a, b);
        if (operation == Judge.DIVIDE) return _divide(a, b);
        if (operation == Judge.FLUSH) return _flush(a, b);
        return _quantize(a, b, bits);
    }

    // Patterns
    function _magnitude(uint32 bits) private pure returns (uint32) {
        return bits & ~Float32.SIGN_BIT;
    }

    function _isNaN(uint32 bits) private pure returns (bool) {
        return _magnitude(bits) > Float32.INFINITY;
    }

    function _isInfinite(uint32 bits) private pure returns (bool) {
        return _magnitude(bits) == Float32.INFINITY;
    }

    function _isZero(uint32 bits) private pure returns (bool) {
        return _magnitude(bits) == 0;
    }

    /// @dev What is hashed: one pattern for all NaN.
    function _canonical(uint32 bits) private pure returns (uint32) {
        return _isNaN(bits) ? NAN : bits;
    }

    // Elementwise: `Float32` where all is finite
    function _add(uint32 a, uint32 b) private pure returns (uint32) {
        if (_isNaN(a) || _isNaN(b) || (_isInfinite(a) && _isInfinite(b) && a != b)) return NAN;
        if (_isInfinite(a)) return a;
        return _isInfinite(b) ? b : Float32.add(a, b);
    }

    function _multiply(uint32 a, uint32 b) private pure returns (uint32) {
        if (_isNaN(a) || _isNaN(b)) return NAN;
        if (a.isFinite() && b.isFinite()) return Float32.mul(a, b);
        return _isZero(a) || _isZero(b) ? NAN : Float32.INFINITY | ((a ^ b) & Float32.SIGN_BIT);
    }

    function _divide(uint32 a, uint32 b) private pure returns (uint32) {
        if (_isNaN(a) || _isNaN(b)) return NAN;
        if ((_isZero(a) && _isZero(b)) || (_isInfinite(a) && _isInfinite(b))) return NAN;
        uint32 sign = (a ^ b) & Float32.SIGN_BIT;
        if (_isInfinite(b)) return sign;
        return _isInfinite(a) || _isZero(b) ? Float32.INFINITY | sign : Float32.div(a, b);
    }

    /// @dev Of -0 it is -0.
    function _squareRoot(uint32 a) private pure returns (uint32) {
        if (_isZero(a)) return a;
        if (a > Float32.INFINITY) return NAN; // below zero, or NaN
        return a.isFinite() ? Enclosure.squareRoot(a) : a;
    }

    /// @dev +0 where |a| < b. A NaN is not below anything, and nothing below it.
    function _flush(uint32 a, uint32 b) private pure returns (uint32) {
        bool isKept = _isNaN(a) || b > Float32.INFINITY || _magnitude(a) >= b;
        return isKept ? _canonical(a) : 0;
    }

    /// @dev The largest or smallest of all elements of all operands; NaN where one is. A zero is +0.
    function _extreme(Run[] memory operands, uint256 terms, bool isLeast) private pure returns (uint32 bits) {
        uint256 best = 0;
        for (uint256 i = 0; i < operands.length; ++i) {
            if (_isNaN(ExactRow.largestMagnitude(operands[i], terms))) return NAN;
            best = FixedPointMathLib.max(operands[i].rankHighest(terms, isLeast), best);
        }
        bits = Runs.unrank(best, isLeast);
        if (_isZero(bits)) bits = 0;
    }

    /// @dev RNE(a / b), cut off at the limit of `bits`, in two's complement. 0 where b is no positive number or a is not finite.
    function _quantize(uint32 a, uint32 b, uint256 bits) private pure returns (uint32) {
        if (!a.isFinite() || b == 0 || b >= Float32.INFINITY) return 0;
        (bool negative, uint256 mantissa, uint256 exponentA) = a.decode();
        (, uint256 divisor, uint256 exponentB) = b.decode();
        unchecked {
            // Of two mantissas below 2^24, 64 places lead beyond every limit, or to nothing.
            if (exponentA > exponentB) mantissa <<= FixedPointMathLib.min(exponentA - exponentB, 64);
            else divisor <<= FixedPointMathLib.min(exponentB - exponentA, 64);
            (uint256 quotient, uint256 rest) = (mantissa / divisor, mantissa % divisor);
            // More than half, or half of what is odd.
            if (2 * rest + (quotient & 1) > divisor) ++quotient;
            quotient = FixedPointMathLib.min(quotient, ExactRow.limitOf(bits));
            return uint32(negative ? 0 - quotient : quotient);
        }
    }

    // Functions: fixed sequences of integers
    /// @notice exp(a): 2^n times the series of 2^f, |f| at most 1/2.
    function exponential(uint32 a) internal pure returns (uint32) {
        if (_isNaN(a)) return NAN;
        bool negative = a >= Float32.SIGN_BIT;
        if (_magnitude(a) >= EXPONENTIAL_LIMIT) return negative ? 0 : Float32.INFINITY;
        (, uint256 mantissa, uint256 exponent) = a.decode();
        unchecked {
            // |a| / ln 2 in units of 2^-32: below 2^40. The exponent is at most 132.
            int256 y = int256(mantissa * LOG2_E >> FixedPointMathLib.min(155 - exponent, 63));
            if (negative) y = -y;
            int256 n = (y + (1 << 31)) >> 32;
            int256 f = y - (n << 32);
            int256 series = 0;
            for (uint256 rest = EXPONENTIAL_COEFFICIENTS; rest != 0; rest >>= 32) {
                series = int256(rest & COEFFICIENT_MASK) + (series * f >> 32);
            }
            series = EXPONENTIAL_ONE + (series * f >> 32);
            return Float32.round(false, uint256(series), n - 30 + 149); // the series is above 2^29
        }
    }

    /// @notice ln(a), a = m * 2^n with m from sqrt(1/2) to sqrt(2): n ln 2 + 2 artanh((m - 1) / (m + 1)).
    function logarithm(uint32 a) internal pure returns (uint32) {
        if (_isZero(a)) return Float32.INFINITY | Float32.SIGN_BIT;
        if (a > Float32.INFINITY) return NAN; // below zero, or NaN
        if (!a.isFinite()) return a;
        (, uint256 mantissa, uint256 exponent) = a.decode();
        unchecked {
            uint256 shift = 23 - LibBit.fls(mantissa);
            mantissa <<= shift;
            int256 n = int256(exponent) - int256(shift) - 126;
            uint256 one = HIDDEN_BIT;
            if (mantissa > ROOT_2) (one, n) = (2 * HIDDEN_BIT, n + 1);
            uint256 quotient = (FixedPointMathLib.dist(mantissa, one) << 34) / (mantissa + one);
            uint256 square = (quotient >> 4) * (quotient >> 4) >> 28; // in 2^-32
            uint256 series = 0;
            for (uint256 rest = LOGARITHM_COEFFICIENTS; rest != 0; rest >>= 32) {
                series = (rest & COEFFICIENT_MASK) + (series * square >> 32);
            }
            int256 total = int256(quotient * series >> 26); // in 2^-38
            total = n * LN_2 + (mantissa < one ? -total : total);
            return Float32.round(total < 0, FixedPointMathLib.abs(total), 149 - 38);
        }
    }
}
