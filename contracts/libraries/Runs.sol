// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Float32} from "./Float32.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";

/// @notice Operands of one sum: element i is number first + i of little-endian `data`, or number `first` always. Elements are float32, or signed
/// integers of one, two or four bytes where quantized values are read.
struct Run {
    bytes data;
    uint256 first;
    bool repeats;
}

/// @title Reads runs, eight elements a word; of integers as many as there is room for.
/// @dev Assembly reads and writes at places in memory, without the compiler's bounds checks: `_requireInside` has checked the run before, once for all of
/// it. What a word holds of the memory after the run does not count.
library Runs {
    uint256 internal constant LANES = 8;
    uint256 private constant WORD_BYTES = 32;
    uint256 private constant ELEMENT_BYTES = 4;
    uint256 private constant EVEN_BYTES = type(uint256).max / 0x0101; // 0x00ff00ff...
    uint256 private constant EVEN_PAIRS = type(uint256).max / 0x00010001; // 0x0000ffff0000ffff...

    /// @notice An operand reaches beyond its data.
    /// @param expected elements that are there
    /// @param actual where the operand ends, in elements
    error RunOutside(uint256 expected, uint256 actual);

    /// @notice Element 0.
    function head(Run memory run) internal pure returns (uint32) {
        _requireInside(run, 1, ELEMENT_BYTES);
        return Float32.load(run.data, run.first);
    }

    /// @notice Element 0 as a signed integer of so many bytes.
    function headInteger(Run memory run, uint256 elementBytes) internal pure returns (int256) {
        _requireInside(run, 1, elementBytes);
        uint256 x = integers(_placeOf(run, elementBytes), 1, elementBytes);
        unchecked {
            return int256(x) >> 8 * (WORD_BYTES - elementBytes);
        }
    }

    /// @notice Where in memory the run's first word of eight elements lies, and how far from it the next one: nowhere else where one
    /// element repeats.
    /// @param terms elements of the run, 1 or more
    function open(Run memory run, uint256 terms) internal pure returns (uint256 place, uint256 step) {
        return open(run, terms, ELEMENT_BYTES);
    }

    /// @notice The same of elements of 1, 2 or 4 bytes: 32, 16 or 8 a word.
    function open(Run memory run, uint256 terms, uint256 elementBytes)
        internal
        pure
        returns (uint256 place, uint256 step)
    {
        _requireInside(run, run.repeats ? 1 : terms, elementBytes);
        place = _placeOf(run, elementBytes);
        return run.repeats ? (_repeat(place, elementBytes), 0) : (place, WORD_BYTES);
    }

    /// @notice Eight patterns, the first one in the highest 32 bits; those beyond the last `left` ones are zero.
    function word(uint256 place, uint256 left) internal pure returns (uint256 x) {
        // The place as that of a bytes array whose data begin there: `lanes` reads past the 32 bytes of a length.
        bytes memory window;
        assembly ("memory-safe") {
            window := sub(place, 32)
        }
        return _inside(Float32.lanes(window, 0), left); // what lies after the run in memory is not part of it
    }

    /// @notice The same for loops, which keep `onesAt` a place.
    /// @dev Loads a word from a place in memory, which Solidity cannot do.
    function word(uint256 place, uint256 left, uint256 ones) internal pure returns (uint256 x) {
        assembly ("memory-safe") {
            x := mload(place)
        }
        unchecked {
            // Little-endian bytes to patterns: neighbours first, then halves.
            uint256 even = ones * 0x00ff00ff;
            x = ((x & even) << 8) | ((x >> 8) & even);
            even = ones * 0xffff;
            x = ((x & even) << 16) | ((x >> 16) & even);
        }
        return _inside(x, left);
    }

    /// @notice 1 in every lane, for loops. No constant: in the code as often as used it would cost 30 gas each time.
    /// @param place of a run in memory, never 0
    function onesAt(uint256 place) internal pure returns (uint256 ones) {
        assembly ("memory-safe") {
            ones := 0x0000000100000001000000010000000100000001000000010000000100000001
            if iszero(place) { ones := 0 }
        }
    }

    /// @notice A word of integers, the first one in the highest bits; those beyond the last `left` ones are zero.
    /// @dev Loads a word from a place in memory, which Solidity cannot do. The place comes from `open` or `_placeOf`.
    function integers(uint256 place, uint256 left, uint256 elementBytes) internal pure returns (uint256 x) {
        assembly ("memory-safe") {
            x := mload(place)
        }
        unchecked {
            uint256 bytesLeft = left * elementBytes;
            if (bytesLeft < WORD_BYTES) x &= ~(type(uint256).max >> 8 * bytesLeft);
        }
        // Little-endian bytes to integers: neighbours first, then halves.
        if (elementBytes > 1) x = ((x & EVEN_BYTES) << 8) | ((x >> 8) & EVEN_BYTES);
        if (elementBytes > 2) x = ((x & EVEN_PAIRS) << 16) | ((x >> 16) & EVEN_PAIRS);
    }

    /// @notice Whether the first `terms` elements are finite, and whether `sought` is one of them.
    function inspect(Run memory run, uint256 terms, uint32 sought)
        internal
        pure
        returns (bool isFinite, bool isFound)
    {
        (uint256 place, uint256 step) = open(run, terms);
        (uint256 infinite, uint256 found) = (0, 0);
        uint256 ones = onesAt(place);
        unchecked {
            for (uint256 i = 0; i < terms; (i, place) = (i + LANES, place + step)) {
                uint256 x = word(place, terms - i, ones);
                // Bit 8 of e + 1 is set where e is 255.
                infinite |= ((x >> 23) & (ones * 0xff)) + ones;
                found |= _zeros(x ^ sought * ones, ones) & _inside(ones << 31, terms - i);
            }
            return (infinite & (ones << 8) == 0, found != 0);
        }
    }

    /// @notice The elements of `values` at those of the first `terms` places where this run has `sought`, packed one behind the other in room for all.
    /// @return picked their bytes, and zeros
    /// @return count how many they are
    /// @return largest the largest pattern of this run, as an unsigned number
    function pick(Run memory run, Run memory values, uint256 terms, uint32 sought)
        internal
        pure
        returns (bytes memory picked, uint256 count, uint256 largest)
    {
        _requireInside(values, values.repeats ? 1 : terms, ELEMENT_BYTES);
        picked = new bytes(ELEMENT_BYTES * terms);
        (uint256 place, uint256 step) = open(run, terms);
        uint256 ones = onesAt(place);
        uint256 most = 0; // of each lane
        unchecked {
            for (uint256 i = 0; i < terms; (i, place) = (i + LANES, place + step)) {
                uint256 x = word(place, terms - i, ones);
                most = _largerOf(x, most, ones);
                x = _zeros(x ^ sought * ones, ones) & _inside(ones << 31, terms - i);
                if (x != 0) count = _pickMarked(picked, count, values, i, x);
            }
        }
        largest = largestLane(most);
    }

    /// @dev Appends the elements from `i` on whose lanes have their highest bit set, as they lie in memory. Assembly copies four bytes at once, without bounds
    /// checks: `pick` has checked the run of values, and `picked` has room for all of them.
    function _pickMarked(bytes memory picked, uint256 count, Run memory values, uint256 i, uint256 marks)
        private
        pure
        returns (uint256)
    {
        (uint256 from, uint256 step) = (_placeOf(values, ELEMENT_BYTES), values.repeats ? 0 : ELEMENT_BYTES);
        unchecked {
            from += i * step;
        }
        assembly ("memory-safe") {
            let start := add(picked, 32)
            let to := add(start, shl(2, count))
            for {} marks { marks := shl(32, marks) } {
                if slt(marks, 0) {
                    mcopy(to, from, 4)
                    to := add(to, 4)
                }
                from := add(from, step)
            }
            count := shr(2, sub(to, start))
        }
        return count;
    }

    /// @notice The highest rank among the first `terms` elements. Ranks order as numbers do, infinities too, or the other way round where `isReversed`;
    /// +0 and -0 have two that no other number lies between. Where an element is a NaN, a rank says nothing.
    function rankHighest(Run memory run, uint256 terms, bool isReversed)
        internal
        pure
        returns (uint256 highest)
    {
        (uint256 place, uint256 step) = open(run, terms);
        uint256 ones = onesAt(place);
        uint256 turn = isReversed ? type(uint256).max : 0;
        uint256 most = 0; // of each lane
        unchecked {
            for (uint256 i = 0; i < terms; (i, place) = (i + LANES, place + step)) {
                uint256 x = word(place, terms - i, ones);
                // Negative numbers with all bits turned, others with the sign's; behind the last one 0, which nothing is below.
                x = _inside(x ^ (((x >> 31) & ones) * 0x7fffffff) ^ (ones << 31) ^ turn, terms - i);
                most = _largerOf(x, most, ones);
            }
        }
        highest = largestLane(most);
    }

    /// @notice The largest of eight patterns, as unsigned numbers.
    function largestLane(uint256 lanes) internal pure returns (uint256 largest) {
        for (; lanes != 0; lanes >>= 32) {
            largest = FixedPointMathLib.max(largest, uint32(lanes));
        }
    }

    /// @dev The highest bit of every lane that is 0, and no other.
    function _zeros(uint256 x, uint256 ones) private pure returns (uint256) {
        unchecked {
            uint256 magnitudes = (ones << 31) - ones;
            // Bit 31 of x | (x + 2^31 - 1) is clear where x is 0.
            return ~(((x & magnitudes) + magnitudes) | x) & (ones << 31);
        }
    }

    /// @dev The larger one in every lane.
    function _largerOf(uint256 x, uint256 y, uint256 ones) private pure returns (uint256) {
        unchecked {
            uint256 signs = ones << 31;
            // Where their highest bits differ, the one that has it; else x where bit 31 of 2^31 + the rest of x - that of y is set.
            uint256 isNoLess = ((x | signs) - (y & ~signs)) & ~(x ^ y);
            uint256 isFirst = (((x & ~y) | isNoLess) >> 31) & ones;
            return y ^ ((x ^ y) & (isFirst * type(uint32).max));
        }
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

    /// @dev The place of element `first` in memory, without a bounds check: callers have called `_requireInside`.
    function _placeOf(Run memory run, uint256 elementBytes) private pure returns (uint256 place) {
        (bytes memory data, uint256 first) = (run.data, run.first);
        assembly ("memory-safe") {
            place := add(add(data, 32), mul(elementBytes, first))
        }
    }

    /// @dev A new word in memory, and its place: the bytes of the element at `place` as they are, again and again. Assembly loads them at once, and stores
    /// one word.
    function _repeat(uint256 place, uint256 elementBytes) private pure returns (uint256 copy) {
        bytes memory data = new bytes(WORD_BYTES);
        unchecked {
            uint256 bits = 8 * elementBytes; // up to 32
            uint256 ones = type(uint256).max / ((1 << bits) - 1);
            assembly ("memory-safe") {
                copy := add(data, 32)
                mstore(copy, mul(shr(sub(256, bits), mload(place)), ones))
            }
        }
    }

    function _requireInside(Run memory run, uint256 elements, uint256 elementBytes) private pure {
        (uint256 end, uint256 most) = (run.first + elements, run.data.length / elementBytes);
        if (end > most) revert RunOutside(most, end);
    }
}
