// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {LibBit} from "solady/utils/LibBit.sol";

/// @title IEEE-754 binary32 on bit patterns: exact values and correctly rounded operations (docs/spec.md, section 5).
/// @notice Round to nearest, ties to even, subnormals kept, no fused multiply-add. Overflow gives infinity; an operand that is not
/// finite is refused: the protocol never lets one in. Source: IEEE 754-2019, sections 4.3.1, 6.3 and 7.4.
/// @dev Twin of `protocol/spec/float32.py`. A finite number is (-1)^sign * mantissa * 2^(exponent - 149), mantissa < 2^24, exponent 0 .. 253.
library Float32 {
    uint32 internal constant SIGN_BIT = 1 << 31;
    uint32 internal constant INFINITY = 0xff << 23;
    int256 private constant BIAS = 149;
    /// @dev Beyond this distance of exponents the smaller summand is below a quarter of the larger one's last place.
    uint256 private constant NEGLIGIBLE_SHIFT = 64;
    uint256 private constant QUOTIENT_SHIFT = 64;
    // Highest bits of what comes of normal numbers, the least of them: of sums without much cancellation, in units of the smaller exponent.
    uint256 private constant SUM_TOP = 22;
    uint256 private constant PRODUCT_TOP = 46;
    uint256 private constant QUOTIENT_TOP = 63;
    /// @dev Byte k is the place of the highest bit of k, for k from 1 to 7.
    uint256 private constant TOPS = 0x0000010102020202 << 192;
    uint256 private constant EVEN_BYTES = type(uint256).max / 0x0101; // 0x00ff00ff...
    uint256 private constant EVEN_PAIRS = type(uint256).max / 0x00010001; // 0x0000ffff0000ffff...

    /// @notice An operand is infinite or no number.
    /// @param bits its float32 bits
    error NotFinite(uint32 bits);
    /// @notice A divisor is zero.
    error DivisionByZero();

    // Exact values
    /// @notice Neither an infinity nor a NaN.
    function isFinite(uint32 bits) internal pure returns (bool) {
        return bits & INFINITY != INFINITY;
    }

    /// @notice The exact value of a finite pattern: (-1)^negative * mantissa * 2^(exponent - 149).
    /// @dev By hand, for it is called for each element of a leaf: no masks and no overflow checks of the compiler's.
    function decode(uint32 bits) internal pure returns (bool negative, uint256 mantissa, uint256 exponent) {
        if (!isFinite(bits)) revert NotFinite(bits);
        assembly ("memory-safe") {
            bits := and(bits, 0xffffffff)
            negative := shr(31, bits)
            exponent := and(shr(23, bits), 0xff)
            // Subnormals have no hidden bit, and the exponent of the least normal ones.
            let normal := gt(exponent, 0)
            mantissa := or(and(bits, 0x7fffff), shl(23, normal))
            exponent := sub(exponent, normal)
        }
    }

    /// @notice The float32 nearest to (-1)^negative * magnitude * 2^(exponent - 149), ties to even, infinity beyond the range.
    /// @dev By hand, for it is called for each element of a leaf: no overflow checks of the compiler's.
    /// @param magnitude any integer; its lowest bit may stand for lost bits, when at least 26 significant bits are given
    /// @param exponent may be negative
    function round(bool negative, uint256 magnitude, int256 exponent) internal pure returns (uint32 bits) {
        uint256 top = magnitude == 0 ? 0 : LibBit.fls(magnitude);
        assembly ("memory-safe") {
            bits := shl(31, negative)
            if magnitude {
                // 24 bits stay, or fewer for subnormals, whose last place is 2^-149.
                let shift := sub(top, 23)
                let least := sub(0, exponent)
                if slt(shift, least) { shift := least }
                let significand := shl(sub(0, shift), magnitude)
                if sgt(shift, 0) {
                    // As `shiftRightEven`.
                    significand := shr(shift, magnitude)
                    let rest := sub(magnitude, shl(shift, significand))
                    let half := shl(sub(shift, 1), 1)
                    let tie := and(eq(rest, half), significand)
                    significand := add(significand, and(or(gt(rest, half), tie), lt(shift, 257)))
                }
                // A carry out of the significand lands in the exponent field by itself: that is what the layout is for.
                let packed := add(shl(23, add(exponent, shift)), significand)
                if sgt(packed, INFINITY) { packed := INFINITY }
                bits := or(bits, packed)
            }
        }
    }

    /// @notice magnitude / 2^shift, rounded to the nearest integer, ties to even; shift >= 1.
    function shiftRightEven(uint256 magnitude, uint256 shift) internal pure returns (uint256 quotient) {
        if (shift > 256) return 0;
        unchecked {
            uint256 half = 1 << (shift - 1);
            quotient = magnitude >> shift;
            uint256 rest = magnitude & (half | (half - 1));
            if (rest > half || (rest == half && quotient & 1 == 1)) ++quotient;
        }
    }

    // Operations, each rounded once
    // By hand: a leaf of the outer step has 1,536 of them.
    /// @notice fl(a + b). An exact zero is +0 unless both operands are -0.
    function add(uint32 a, uint32 b) internal pure returns (uint32) {
        // Magnitudes order as their bits do; the larger one goes first. If it is finite, both are.
        if (a & ~SIGN_BIT < b & ~SIGN_BIT) (a, b) = (b, a);
        if (!isFinite(a)) revert NotFinite(a);
        (uint256 total, uint256 exponentA) = _parts(a);
        (uint256 mantissaB, uint256 exponentB) = _parts(b);
        unchecked {
            uint256 shift = exponentA - exponentB;
            if (shift > NEGLIGIBLE_SHIFT) return a;
            uint256 sign;
            assembly ("memory-safe") {
                // Of two signs the mantissa is subtracted: its complement and one are added.
                let differ := and(shr(31, xor(a, b)), 1)
                total := add(add(shl(shift, total), xor(mantissaB, sub(0, differ))), differ)
                sign := and(and(a, or(b, sub(0, gt(total, 0)))), SIGN_BIT)
            }
            return _roundShort(sign, total, int256(exponentB), shift + SUM_TOP);
        }
    }

    /// @notice -a: flips the sign bit.
    function negate(uint32 a) internal pure returns (uint32) {
        return a ^ SIGN_BIT;
    }

    /// @notice fl(a - b).
    function sub(uint32 a, uint32 b) internal pure returns (uint32) {
        return add(a, negate(b));
    }

    /// @notice fl(a * b).
    function mul(uint32 a, uint32 b) internal pure returns (uint32) {
        if (!isFinite(a)) revert NotFinite(a);
        if (!isFinite(b)) revert NotFinite(b);
        (uint256 mantissaA, uint256 exponentA) = _parts(a);
        (uint256 mantissaB, uint256 exponentB) = _parts(b);
        unchecked {
            int256 exponent = int256(exponentA + exponentB) - BIAS;
            return _roundShort((a ^ b) & SIGN_BIT, mantissaA * mantissaB, exponent, PRODUCT_TOP);
        }
    }

    /// @notice fl(a / b); a zero divisor is refused.
    function div(uint32 a, uint32 b) internal pure returns (uint32) {
        if (!isFinite(a)) revert NotFinite(a);
        if (!isFinite(b)) revert NotFinite(b);
        (uint256 mantissaA, uint256 exponentA) = _parts(a);
        (uint256 mantissaB, uint256 exponentB) = _parts(b);
        if (mantissaB == 0) revert DivisionByZero();
        unchecked {
            // At least 40 bits of quotient, and the lowest one tells whether anything was lost.
            mantissaA <<= QUOTIENT_SHIFT;
            uint256 quotient = mantissaA / mantissaB;
            if (quotient * mantissaB != mantissaA) quotient |= 1;
            int256 exponent = int256(exponentA) - int256(exponentB) + BIAS - int256(QUOTIENT_SHIFT);
            return _roundShort((a ^ b) & SIGN_BIT, quotient, exponent, QUOTIENT_TOP);
        }
    }

    /// @dev Mantissa and exponent of a finite pattern, as `decode` gives them.
    function _parts(uint256 bits) private pure returns (uint256 mantissa, uint256 exponent) {
        assembly ("memory-safe") {
            exponent := and(shr(23, bits), 0xff)
            let normal := gt(exponent, 0)
            mantissa := or(and(bits, 0x7fffff), shl(23, normal))
            exponent := sub(exponent, normal)
        }
    }

    /// @dev As `round`, for what operations round: magnitudes below 2^128, exponents above -256.
    /// @param sign the sign bit
    /// @param least where the highest bit is likely: `least` .. `least` + 2 cost a look into a table, other places a search
    function _roundShort(uint256 sign, uint256 magnitude, int256 exponent, uint256 least)
        private
        pure
        returns (uint32 bits)
    {
        uint256 top;
        bool isElsewhere;
        assembly ("memory-safe") {
            // Looks the highest bit up in TOPS where it is at `least` .. `least` + 2; elsewhere `head` is 0 or above 7.
            let head := shr(least, magnitude)
            isElsewhere := gt(sub(head, 1), 6)
            top := add(least, byte(head, TOPS))
        }
        if (isElsewhere) {
            if (magnitude == 0) return uint32(sign);
            top = LibBit.fls(magnitude);
        }
        assembly ("memory-safe") {
            let lost := sub(top, 23)
            let deepest := sub(0, exponent)
            if slt(lost, deepest) { lost := deepest }
            let significand := shl(sub(0, lost), magnitude)
            if sgt(lost, 0) {
                // Less than half is added to what is even, half to what is odd: then cutting off rounds to the nearest, ties to even.
                let most := sub(shl(sub(lost, 1), 1), 1)
                let odd := and(shr(lost, magnitude), 1)
                significand := shr(lost, add(magnitude, add(most, odd)))
            }
            // As in `round`: a carry lands in the exponent field.
            let packed := add(shl(23, add(exponent, lost)), significand)
            if gt(packed, INFINITY) { packed := INFINITY }
            bits := or(sign, packed)
        }
    }

    /// @notice A small integer as float32, exact below 2^24.
    function fromUint(uint256 value) internal pure returns (uint32) {
        return round(false, value, BIAS);
    }

    // Leaves: words of memory at any byte, no loop over bytes. Bounds are not checked: whoever calls keeps `index` or `word` inside `data`
    /// @notice Pattern `index` of a little-endian float32 buffer.
    function load(bytes memory data, uint256 index) internal pure returns (uint32) {
        uint256 raw;
        assembly ("memory-safe") {
            raw := shr(224, mload(add(add(data, 32), shl(2, index))))
        }
        return uint32(_swap(raw));
    }

    /// @notice Writes pattern `index` of a little-endian float32 buffer.
    /// @dev A whole word is written, whose other 28 bytes stay what they are, also those after the end of `data`.
    function store(bytes memory data, uint256 index, uint32 bits) internal pure {
        uint256 raw = _swap(bits);
        assembly ("memory-safe") {
            let place := add(add(data, 32), shl(2, index))
            mstore(place, or(shl(224, raw), shr(32, shl(32, mload(place)))))
        }
    }

    /// @notice Patterns 8 * word .. 8 * word + 7 of a little-endian float32 buffer, the first one in the highest 32 bits.
    /// @dev One load of a word, then the bytes of all eight are reversed at once.
    function lanes(bytes memory data, uint256 word) internal pure returns (uint256 x) {
        assembly ("memory-safe") {
            x := mload(add(add(data, 32), shl(5, word)))
        }
        x = ((x & EVEN_BYTES) << 8) | ((x >> 8) & EVEN_BYTES);
        x = ((x & EVEN_PAIRS) << 16) | ((x >> 16) & EVEN_PAIRS);
    }

    /// @dev Reverses the four bytes: neighbours first, then halves.
    function _swap(uint256 x) private pure returns (uint256) {
        x = ((x & 0x00ff00ff) << 8) | ((x >> 8) & 0x00ff00ff);
        return ((x & 0xffff) << 16) | (x >> 16);
    }
}
