// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Float32} from "./Float32.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";

/// @notice Operands of one sum: element i is float32 number first + i of little-endian `data`, or number `first` always.
struct Run {
    bytes data;
    uint256 first;
    bool repeats;
}

/// @title Reads runs, eight elements a word.
library Runs {
    uint256 internal constant LANES = 8;
    uint256 private constant ELEMENT_BYTES = 4;
    /// @dev 1 in every lane.
    uint256 private constant ONES = 0x0000000100000001000000010000000100000001000000010000000100000001;
    uint256 private constant EXPONENTS = 0xff * ONES;
    uint256 private constant MAGNITUDES = 0x7fffffff * ONES;
    uint256 private constant SIGNS = 0x80000000 * ONES;

    /// @notice An operand reaches beyond its data.
    /// @param expected bytes that it needs
    /// @param actual bytes that are there
    error RunOutside(uint256 expected, uint256 actual);

    /// @notice Element 0.
    function head(Run memory run) internal pure returns (uint32) {
        _requireInside(run, 1);
        return Float32.load(run.data, run.first);
    }

    /// @notice Where in memory the run's first word of eight elements lies, and how far from it the next one: nowhere else where one
    /// element repeats.
    /// @param terms elements of the run, 1 or more
    function open(Run memory run, uint256 terms) internal pure returns (uint256 place, uint256 step) {
        _requireInside(run, run.repeats ? 1 : terms);
        (bytes memory data, uint256 first) = (run.data, run.first);
        assembly ("memory-safe") {
            place := add(add(data, 32), shl(2, first))
        }
        return run.repeats ? (_repeat(place), 0) : (place, 32);
    }

    /// @notice Eight patterns, the first one in the highest 32 bits; those beyond the last `left` ones are zero.
    function word(uint256 place, uint256 left) internal pure returns (uint256 x) {
        bytes memory window;
        assembly ("memory-safe") {
            window := sub(place, 32)
        }
        return _inside(Float32.lanes(window, 0), left); // what lies behind the run in memory is not part of it
    }

    /// @notice The highest rank among the first `terms` elements, and whether `sought` is one of them. Ranks order as numbers do, or
    /// the other way round where `isReversed`; +0 and -0 have two that no other number lies between.
    /// @return isFinite false where an element is an infinity or NaN: the rest says nothing then
    function rankHighest(Run memory run, uint256 terms, uint32 sought, bool isReversed)
        internal
        pure
        returns (bool isFinite, uint256 highest, bool isFound)
    {
        (uint256 place, uint256 step) = open(run, terms);
        (uint256 infinite, uint256 found) = (0, 0);
        unchecked {
            uint256 target = sought * ONES;
            uint256 turn = isReversed ? type(uint256).max : 0;
            for (uint256 i = 0; i < terms; (i, place) = (i + LANES, place + step)) {
                uint256 left = terms - i;
                uint256 x = word(place, left);
                // Bit 8 of e + 1 is set where e is 255.
                infinite |= ((x >> 23) & EXPONENTS) + ONES;
                uint256 y = x ^ target;
                // Bit 31 of y | (y + 2^31 - 1) is clear where y is 0.
                found |= ~(((y & MAGNITUDES) + MAGNITUDES) | y) & _inside(SIGNS, left);
                // Negative numbers with all bits turned, others with the sign's.
                x = x ^ (((x >> 31) & ONES) * 0x7fffffff) ^ SIGNS ^ turn;
                for (uint256 lanes = FixedPointMathLib.min(left, LANES); lanes != 0; --lanes) {
                    if (x >> 224 > highest) highest = x >> 224;
                    x <<= 32;
                }
            }
        }
        return (infinite & (ONES << 8) == 0, highest, found != 0);
    }

    /// @notice The pattern of a rank.
    function unrank(uint256 rank, bool isReversed) internal pure returns (uint32 bits) {
        bits = uint32(isReversed ? ~rank : rank) ^ Float32.SIGN_BIT;
        if (bits & Float32.SIGN_BIT != 0) bits ^= type(uint32).max >> 1;
    }

    /// @dev Zero beyond the first `left` lanes.
    function _inside(uint256 x, uint256 left) private pure returns (uint256) {
        unchecked {
            return left < LANES ? x & ~(type(uint256).max >> 32 * left) : x;
        }
    }

    /// @dev A new word: the four bytes at `place` as they are, eight times.
    function _repeat(uint256 place) private pure returns (uint256 copy) {
        bytes memory data = new bytes(LANES * ELEMENT_BYTES);
        assembly ("memory-safe") {
            copy := add(data, 32)
            mstore(copy, mul(shr(224, mload(place)), ONES))
        }
    }

    function _requireInside(Run memory run, uint256 elements) private pure {
        uint256 end = run.first + elements;
        if (end > run.data.length / ELEMENT_BYTES) revert RunOutside(run.data.length / ELEMENT_BYTES, end);
    }
}
