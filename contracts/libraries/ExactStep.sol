// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Float32} from "./Float32.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title The exact result of one addition, subtraction, multiplication or division, before it is rounded.
/// @notice A result is (-1)^negative * magnitude * 2^(exponent - 149). The lowest bit of a magnitude may stand for lost bits; then it
/// has at least 26 bits, so that its length, its rounding and its order among powers of two are the exact result's.
library ExactStep {
    int256 private constant BIAS = 149;
    /// @dev Up to here two mantissas are added as they are: 24 + 200 bits.
    uint256 private constant NEAR = 200;
    /// @dev Beyond, the smaller one is below 2^(24 - 201 + 128) < 1 in these many places of the larger.
    uint256 private constant FAR_PLACES = 128;
    uint256 private constant QUOTIENT_PLACES = 64;

    struct Result {
        bool negative;
        uint256 magnitude;
        int256 exponent;
    }

    /// @notice a + b of finite patterns.
    function add(uint32 a, uint32 b) internal pure returns (Result memory) {
        // Magnitudes order as their bits do; the larger one goes first.
        if (a & ~Float32.SIGN_BIT < b & ~Float32.SIGN_BIT) (a, b) = (b, a);
        (bool negative, uint256 mantissaA, uint256 exponentA) = Float32.decode(a);
        (bool negativeB, uint256 mantissaB, uint256 exponentB) = Float32.decode(b);
        unchecked {
            uint256 places = exponentA - exponentB;
            if (places > NEAR) {
                // Anything between 0 and 1 leaves the same bits: those of one less, or of one more, in the last place.
                if (mantissaB != 0) mantissaB = 1;
                places = FAR_PLACES;
            }
            mantissaA <<= places;
            uint256 total = negative == negativeB ? mantissaA + mantissaB : mantissaA - mantissaB;
            return Result(negative, total, int256(exponentA) - int256(places));
        }
    }

    /// @notice a * b of finite patterns.
    function multiply(uint32 a, uint32 b) internal pure returns (Result memory) {
        (bool negativeA, uint256 mantissaA, uint256 exponentA) = Float32.decode(a);
        (bool negativeB, uint256 mantissaB, uint256 exponentB) = Float32.decode(b);
        unchecked {
            return Result(negativeA != negativeB, mantissaA * mantissaB, int256(exponentA + exponentB) - BIAS);
        }
    }

    /// @notice a / b of finite patterns, b not zero.
    function divide(uint32 a, uint32 b) internal pure returns (Result memory) {
        (bool negativeA, uint256 mantissaA, uint256 exponentA) = Float32.decode(a);
        (bool negativeB, uint256 mantissaB, uint256 exponentB) = Float32.decode(b);
        unchecked {
            // At least 40 bits of quotient, and the lowest one tells whether anything was lost.
            mantissaA <<= QUOTIENT_PLACES;
            uint256 quotient = mantissaA / mantissaB;
            if (quotient * mantissaB != mantissaA) quotient |= 1;
            int256 exponent = int256(exponentA) - int256(exponentB) + BIAS - int256(QUOTIENT_PLACES);
            return Result(negativeA != negativeB, quotient, exponent);
        }
    }

    /// @notice The float32 nearest to a result, ties to even; an infinity beyond the range.
    function round(Result memory result) internal pure returns (uint32) {
        return Float32.round(result.negative, result.magnitude, result.exponent);
    }

    /// @notice |result| < 2^power.
    function isBelow(Result memory result, int256 power) internal pure returns (bool) {
        if (result.magnitude == 0) return true;
        return int256(LibBit.fls(result.magnitude)) + result.exponent - BIAS < power;
    }
}
