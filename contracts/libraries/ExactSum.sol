// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Float32} from "./Float32.sol";
import {Run, Runs} from "./Runs.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";

/// @title Sums of float32 products, exact, and how far a claimed sum may lie off (docs/spec.md, section 9).
/// @notice Everything counts 2^-300. A finite float32 is m * 2^(e - 150), m < 2^24, e = 1 .. 254 (1 for subnormals, too), so a product
/// is an integer below 2^48 times 2^s, s = 2 .. 508. Limb s >> 7 of base 2^128 takes it, shifted by s & 127: a limb of MAX_TERMS
/// products stays below 2^12 * 2^(48 + 127) = 2^187, carries are left for the end, and no number is ever divided. Products of operands whose exponents lie
/// near one another, as they do in training, are added in one word, and only their sum goes to the limbs.
/// @dev Twin of `_add_products` and `_add` in `protocol/spec/operation_bounds.py`.
library ExactSum {
    using Runs for Run;

    uint256 internal constant MAX_TERMS = 4096;

    /// @dev Lanes: the same 32 bits eight times. Written out, for assembly takes nothing else.
    uint256 private constant ONES = 0x0000000100000001000000010000000100000001000000010000000100000001;
    /// @dev What a sum may meet, in bits of their own.
    uint256 private constant NOT_FINITE = 0x0000010000000100000001000000010000000100000001000000010000000100;
    uint256 private constant SUBNORMAL = 0x0080000000800000008000000080000000800000008000000080000000800000;

    /// @dev Exponents of a window, those of it below the one that it is laid around, and where the last one begins.
    uint256 private constant WINDOW = 32;
    uint256 private constant BELOW = 15;
    uint256 private constant LAST_WINDOW = 255 - WINDOW;

    /// @dev Where in a cursor things stand; a word of eight terms is left where the terms have a bit from 67 on.
    uint256 private constant PLACE_AT = 128;
    uint256 private constant TERMS_AT = 64;
    uint256 private constant TERMS_MASK = 0xffff;
    uint256 private constant PLACE_MASK = 0xffffffff;

    uint256 private constant LIMBS = 4;
    uint256 private constant LIMB_BITS = 128;
    uint256 private constant LIMB_MASK = (1 << LIMB_BITS) - 1;
    /// @dev From 2^-149 to 2^-300.
    uint256 private constant CLAIM_SHIFT = 151;
    /// @dev 2^-124, for each term, is 2^176: limb 1, 48 places up.
    uint256 private constant UNDERFLOW_SHIFT = 48;
    /// @dev 2^127 is 2^427: limb 3, 43 places up.
    uint256 private constant SAFE_SHIFT = 43;

    /// @dev 1 / u, u the unit roundoff of float32: by growth = 1 / (1 - n u) a number may grow that is rounded n times.
    uint256 private constant ONE_BY_UNIT = 1 << 24;

    /// @notice Whether `claimed` is no sum of the products of two runs in any order.
    /// @param terms 1 .. MAX_TERMS
    /// @param roundings n: how often each product may be rounded, itself and in sums; at most MAX_TERMS
    function isProductFault(Run memory a, Run memory b, uint256 terms, uint32 claimed, uint256 roundings)
        internal
        pure
        returns (bool)
    {
        (uint256[8] memory sums, uint256 flags) = _addProducts(a, b, terms, false);
        if (flags & NOT_FINITE != 0) return false;
        if (!Float32.isFinite(claimed)) return _isSafe(sums, roundings);
        uint256[8] memory lost;
        if (flags & SUBNORMAL != 0) (lost,) = _addProducts(a, b, terms, true);
        return _exceedsLimits(sums, lost, terms, claimed, roundings);
    }

    /// @notice Whether `claimed` is no sum of the run in any order.
    /// @param terms 2 .. MAX_TERMS
    /// @param roundings n: how often each term may be rounded in sums; at most MAX_TERMS
    function isFault(Run memory a, uint256 terms, uint32 claimed, uint256 roundings)
        internal
        pure
        returns (bool)
    {
        // Each times 1.0, which changes nothing. Subnormal terms are covered by 2^-124 a term.
        (uint256[8] memory sums, uint256 flags) = _addProducts(a, Run(hex"0000803f", 0, true), terms, false);
        if (flags & NOT_FINITE != 0) return false;
        if (!Float32.isFinite(claimed)) return _isSafe(sums, roundings);
        uint256[8] memory lost;
        return _exceedsLimits(sums, lost, terms, claimed, roundings);
    }

    // The sum
    /// @dev Limbs of the positive products, then of the negative ones' magnitudes, and what was met on the way: NOT_FINITE, SUBNORMAL.
    /// onlySubnormal: of the products with a subnormal operand alone.
    /// Words of eight terms whose operands lie in one window of exponents each are summed without limbs. A word of others goes to the limbs, and the
    /// windows are laid anew around its last lane.
    function _addProducts(Run memory a, Run memory b, uint256 terms, bool onlySubnormal)
        private
        pure
        returns (uint256[8] memory sums, uint256 flags)
    {
        (uint256 cursor, uint256 step) = _open(a, b, terms);
        (uint256 leastA, uint256 leastB) = _windowsAt(cursor);
        while (true) {
            if (!onlySubnormal) {
                uint256 near;
                (cursor, near) = _addNearWords(cursor, step, leastA, leastB);
                _carryNear(sums, near, leastA + leastB);
            }
            terms = (cursor >> TERMS_AT) & TERMS_MASK;
            if (terms == 0) return (sums, flags);
            flags |= _addWord(sums, cursor, terms, onlySubnormal);
            (leastA, leastB) = _windowsAt(cursor);
            unchecked {
                cursor = terms < Runs.LANES ? 0 : cursor + step;
            }
        }
    }

    /// @dev Place of the next word of run a, terms that are left, place of the next word of run b; and what to add for the word behind.
    function _open(Run memory a, Run memory b, uint256 terms)
        private
        pure
        returns (uint256 cursor, uint256 step)
    {
        (cursor, step) = a.open(terms);
        (uint256 placeB, uint256 stepB) = b.open(terms);
        unchecked {
            cursor = cursor << PLACE_AT | terms << TERMS_AT | placeB;
            step = (step << PLACE_AT) - (Runs.LANES << TERMS_AT) + stepB;
        }
    }

    function _windowsAt(uint256 cursor) private pure returns (uint256 leastA, uint256 leastB) {
        return (_windowAt(cursor >> PLACE_AT), _windowAt(cursor & PLACE_MASK));
    }

    /// @dev The least exponent of a window around that of the last lane of a word; 1 .. LAST_WINDOW, so that all of it is normal and finite. Assembly loads
    /// the word from its place and takes the exponent from its last two bytes: the element is little-endian. Any exponent is right, for the window is a guess.
    function _windowAt(uint256 place) private pure returns (uint256 least) {
        uint256 exponent;
        assembly ("memory-safe") {
            let x := mload(place)
            exponent := or(shl(1, and(x, 0x7f)), shr(7, byte(30, x)))
        }
        unchecked {
            if (exponent <= BELOW) return 1;
            return FixedPointMathLib.min(exponent - BELOW, LAST_WINDOW);
        }
    }

    /// @dev The sum of the products of whole words, up to the first word that has an operand outside of its window. Positive products in the lower
    /// half, the negative ones' magnitudes in the upper one; each product is below 2^48 * 2^62, so a half stays below 2^122.
    /// By hand: 105 gas a term. All lanes of a word at once as far as it goes; no sum of a lane reaches the next one.
    function _addNearWords(uint256 cursor, uint256 step, uint256 leastA, uint256 leastB)
        private
        pure
        returns (uint256 behind, uint256 near)
    {
        assembly ("memory-safe") {
            // No constants: in the code as often as used they would cost 30 gas each.
            let ones := ONES
            if iszero(cursor) { ones := 0 }
            mstore(0x00, mul(ones, 0x00ff00ff))
            mstore(0x20, mul(ones, 0x0000ffff))
            leastA := mul(leastA, ones)
            leastB := mul(leastB, ones)
            for {} and(shr(67, cursor), 0x3ff) { cursor := add(cursor, step) } {
                let x := mload(shr(128, cursor))
                let y := mload(and(cursor, 0xffffffff))
                // Little-endian bytes to patterns: neighbours first, then halves.
                x := or(shl(8, and(x, mload(0x00))), and(shr(8, x), mload(0x00)))
                x := or(shl(16, and(x, mload(0x20))), and(shr(16, x), mload(0x20)))
                y := or(shl(8, and(y, mload(0x00))), and(shr(8, y), mload(0x00)))
                y := or(shl(16, and(y, mload(0x20))), and(shr(16, y), mload(0x20)))
                let e := sub(and(shr(23, x), mul(ones, 0xff)), leastA)
                let f := sub(and(shr(23, y), mul(ones, 0xff)), leastB)
                // Below 32 in every lane; less than nothing sets all bits above.
                if and(or(e, f), mul(ones, 0xffffffe0)) { break }
                // Below 64, and 128 more where the product is negative: how far up it belongs.
                e := or(add(e, f), and(shr(24, xor(x, y)), shl(7, ones)))
                f := shl(23, ones)
                x := or(and(x, sub(f, ones)), f)
                y := or(and(y, sub(f, ones)), f)
                near := add(near, shl(byte(3, e), mul(shr(224, x), shr(224, y))))
                near := add(
                    near,
                    shl(byte(7, e), mul(and(shr(192, x), 0xffffff), and(shr(192, y), 0xffffff)))
                )
                near := add(
                    near,
                    shl(byte(11, e), mul(and(shr(160, x), 0xffffff), and(shr(160, y), 0xffffff)))
                )
                near := add(
                    near,
                    shl(byte(15, e), mul(and(shr(128, x), 0xffffff), and(shr(128, y), 0xffffff)))
                )
                near := add(near, shl(byte(19, e), mul(and(shr(96, x), 0xffffff), and(shr(96, y), 0xffffff))))
                near := add(near, shl(byte(23, e), mul(and(shr(64, x), 0xffffff), and(shr(64, y), 0xffffff))))
                near := add(near, shl(byte(27, e), mul(and(shr(32, x), 0xffffff), and(shr(32, y), 0xffffff))))
                near := add(near, shl(byte(31, e), mul(and(x, 0xffffff), and(y, 0xffffff))))
            }
            behind := cursor
        }
    }

    /// @dev Near products to limbs; `s`, the least exponent of all, is below 384 + 64, so the highest limb has room for what reaches it.
    /// Shifts each half of `near` to the left by s & 127 and adds it: the lower half to limb s >> 7 of the positive products, the upper one four limbs, 0x80
    /// bytes, further. What is above 128 bits goes to the next limb; the highest limb keeps it. By hand: no bounds checks, for s >> 7 is below 4.
    function _carryNear(uint256[8] memory sums, uint256 near, uint256 s) private pure {
        if (near == 0) return;
        assembly ("memory-safe") {
            let at := add(sums, shl(5, shr(7, s)))
            let isHighest := eq(shr(7, s), 3)
            s := and(s, 127)
            for { let half := and(near, sub(shl(128, 1), 1)) } 1 { half := near } {
                let low := shl(s, half)
                if iszero(isHighest) {
                    let next := add(at, 0x20)
                    mstore(next, add(mload(next), shr(128, low)))
                    low := and(low, sub(shl(128, 1), 1))
                }
                mstore(at, add(mload(at), low))
                near := shr(128, near)
                at := add(at, 0x80)
                if iszero(near) { break }
            }
        }
    }

    /// @dev The products of one word of up to eight terms, whatever they are. By hand, a fifth less than the compiler makes of the same.
    /// Memory: only `sums` is written, at slots 0 .. 7, since s >> 7 is below 4 and the sign is the bit above.
    function _addWord(uint256[8] memory sums, uint256 cursor, uint256 terms, bool onlySubnormal)
        private
        pure
        returns (uint256 flags)
    {
        (uint256 x, uint256 y) =
            (Runs.word(cursor >> PLACE_AT, terms), Runs.word(cursor & PLACE_MASK, terms));
        assembly ("memory-safe") {
            let ones := ONES
            if iszero(cursor) { ones := 0 }
            let s := and(shr(22, xor(x, y)), shl(9, ones)) // the sign of the product, above the nine bits of its exponent
            let e := and(shr(23, x), sub(shl(8, ones), ones))
            let f := and(shr(23, y), sub(shl(8, ones), ones))
            flags := or(add(e, ones), add(f, ones)) // NOT_FINITE, bit 8: an exponent of 255
            s := add(s, add(e, f))
            // 1 where normal: the hidden bit; 0 where the exponent is 0, which stands for 1.
            e := and(shr(8, add(e, sub(shl(8, ones), ones))), ones)
            f := and(shr(8, add(f, sub(shl(8, ones), ones))), ones)
            s := add(s, sub(shl(1, ones), add(e, f)))
            let fractions := sub(shl(23, ones), ones)
            x := or(and(x, fractions), shl(23, e))
            y := or(and(y, fractions), shl(23, f))
            if or(onlySubnormal, xor(and(e, f), ones)) {
                // Bit 23 of m + 2^23 - 1 is set for all m from 1 to 2^23; those with a hidden bit are not meant.
                e := and(add(x, fractions), not(x))
                e := and(or(e, and(add(y, fractions), not(y))), shl(23, ones))
                flags := or(flags, e)
                if onlySubnormal { x := and(x, mul(shr(23, e), 0xffffffff)) }
            }
            // sums[s >> 7] += x * y << (s & 127), lane by lane.
            let at := add(sums, and(shr(226, s), 0xe0))
            let p := mul(shr(224, x), shr(224, y))
            mstore(at, add(mload(at), shl(and(shr(224, s), 127), p)))
            at := add(sums, and(shr(194, s), 0xe0))
            p := mul(and(shr(192, x), 0xffffff), and(shr(192, y), 0xffffff))
            mstore(at, add(mload(at), shl(and(shr(192, s), 127), p)))
            at := add(sums, and(shr(162, s), 0xe0))
            p := mul(and(shr(160, x), 0xffffff), and(shr(160, y), 0xffffff))
            mstore(at, add(mload(at), shl(and(shr(160, s), 127), p)))
            at := add(sums, and(shr(130, s), 0xe0))
            p := mul(and(shr(128, x), 0xffffff), and(shr(128, y), 0xffffff))
            mstore(at, add(mload(at), shl(and(shr(128, s), 127), p)))
            at := add(sums, and(shr(98, s), 0xe0))
            p := mul(and(shr(96, x), 0xffffff), and(shr(96, y), 0xffffff))
            mstore(at, add(mload(at), shl(and(shr(96, s), 127), p)))
            at := add(sums, and(shr(66, s), 0xe0))
            p := mul(and(shr(64, x), 0xffffff), and(shr(64, y), 0xffffff))
            mstore(at, add(mload(at), shl(and(shr(64, s), 127), p)))
            at := add(sums, and(shr(34, s), 0xe0))
            p := mul(and(shr(32, x), 0xffffff), and(shr(32, y), 0xffffff))
            mstore(at, add(mload(at), shl(and(shr(32, s), 127), p)))
            at := add(sums, and(shr(2, s), 0xe0))
            p := mul(and(x, 0xffffff), and(y, 0xffffff))
            mstore(at, add(mload(at), shl(and(s, 127), p)))
        }
    }

    // The bound
    /// @dev |exact - claimed| > (growth - 1) * size + growth * lost + terms * 2^-124, both sides times (1 - n u) / u <= 2^24: a limb of either side
    /// stays below 2^213.
    function _exceedsLimits(
        uint256[8] memory sums,
        uint256[8] memory lost,
        uint256 terms,
        uint32 claimed,
        uint256 roundings
    ) private pure returns (bool) {
        int256[4] memory off;
        int256[4] memory allowed;
        unchecked {
            uint256 b = ONE_BY_UNIT - roundings;
            for (uint256 i = 0; i < LIMBS; ++i) {
                (uint256 plus, uint256 minus) = (_limb(sums, i), _limb(sums, i + LIMBS));
                _setLimb(off, i, int256(plus) - int256(minus));
                uint256 risk = ONE_BY_UNIT * (_limb(lost, i) + _limb(lost, i + LIMBS));
                _setLimb(allowed, i, int256(roundings * (plus + minus) + risk));
            }
            allowed[1] += int256(terms * b << UNDERFLOW_SHIFT);
            (bool negative, uint256 mantissa, uint256 exponent) = Float32.decode(claimed);
            exponent += CLAIM_SHIFT; // at most 404: limb 3
            int256 value = int256(mantissa << exponent % LIMB_BITS);
            off[exponent / LIMB_BITS] -= negative ? -value : value;
            return _isLess(allowed, off, int256(b)) || _isLess(allowed, off, -int256(b));
        }
    }

    /// @dev growth * size < 2^127: everything on the way is finite.
    function _isSafe(uint256[8] memory sums, uint256 roundings) private pure returns (bool) {
        int256[4] memory reach;
        int256[4] memory limit;
        unchecked {
            for (uint256 i = 0; i < LIMBS; ++i) {
                _setLimb(reach, i, int256(ONE_BY_UNIT * (_limb(sums, i) + _limb(sums, i + LIMBS))));
            }
            limit[LIMBS - 1] = int256((ONE_BY_UNIT - roundings) << SAFE_SHIFT);
            return _isLess(reach, limit, 1);
        }
    }

    /// @dev x < factor * y, limbs of any sign below 2^214 after the product: carried upwards, the top limb decides.
    function _isLess(int256[4] memory x, int256[4] memory y, int256 factor) private pure returns (bool) {
        (int256 carry, uint256 rest) = (0, 0);
        unchecked {
            for (uint256 i = 0; i < LIMBS; ++i) {
                carry += factor * _limb(y, i) - _limb(x, i);
                rest |= uint256(carry) & LIMB_MASK;
                carry >>= LIMB_BITS; // rounds down, so the rest is never negative
            }
        }
        return carry > 0 || (carry == 0 && rest != 0);
    }

    // By hand: the compiler would check each place, which no place needs here
    function _limb(uint256[8] memory limbs, uint256 i) private pure returns (uint256 limb) {
        assembly ("memory-safe") {
            limb := mload(add(limbs, shl(5, i)))
        }
    }

    function _limb(int256[4] memory limbs, uint256 i) private pure returns (int256 limb) {
        assembly ("memory-safe") {
            limb := mload(add(limbs, shl(5, i)))
        }
    }

    function _setLimb(int256[4] memory limbs, uint256 i, int256 limb) private pure {
        assembly ("memory-safe") {
            mstore(add(limbs, shl(5, i)), limb)
        }
    }
}
