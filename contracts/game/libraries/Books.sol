// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EPOCH_ROUNDS} from "../GameTypes.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";

/// @title What an auditor's votes earn and when it voted last: lanes of 32 bits, eight seats in a word; the lower half of a lane counts votes to be paid,
/// the upper half is the last round of which a vote counted, plus one.
/// @dev A key is epoch % 16 << 32 | seat: there is a book an epoch, and the last vote is the latest of all books. What stands in a book of sixteen epochs
/// before is of an earlier round, so nobody needs to wipe it.
library Books {
    uint256 private constant EPOCHS = 16;
    uint256 private constant HALF = type(uint16).max;

    /// @notice Names the lane of a seat in the book of a round.
    function keyOf(uint256 round, uint256 seat) internal pure returns (uint256) {
        return round / EPOCH_ROUNDS % EPOCHS << 32 | seat;
    }

    /// @notice Where the word of a lane stands.
    function wordOf(uint256 key) internal pure returns (uint256) {
        return key >> 3;
    }

    /// @notice The word with one more vote to be paid.
    /// @dev A book takes 32 rounds, 64 claims and 21 draws of each at most: 43,008.
    function pay(uint256 word, uint256 key) internal pure returns (uint256) {
        unchecked {
            return word + (1 << _shift(key));
        }
    }

    /// @notice The word with a vote of this round, where no later one is written.
    function raise(uint256 word, uint256 key, uint256 round) internal pure returns (uint256) {
        unchecked {
            uint256 shift = _shift(key) + 16;
            uint256 held = word >> shift & HALF;
            return round < held ? word : word + (round + 1 - held << shift);
        }
    }

    /// @notice The votes to be paid.
    function paysAt(uint256 word, uint256 key) internal pure returns (uint256) {
        return word >> _shift(key) & HALF;
    }

    /// @notice The latest round of a seat in all books, plus one; 0: none.
    function lastOf(mapping(uint256 => uint256) storage books, uint256 seat) internal view returns (uint256 last) {
        for (uint256 epoch = 0; epoch < EPOCHS; ++epoch) {
            uint256 key = epoch << 32 | seat;
            uint256 held = books[wordOf(key)] >> (_shift(key) + 16) & HALF;
            last = FixedPointMathLib.max(held, last);
        }
    }

    /// @notice Empties what is to be paid.
    function take(mapping(uint256 => uint256) storage books, uint256 key) internal returns (uint256 pays) {
        uint256 word = books[wordOf(key)];
        pays = paysAt(word, key);
        if (pays != 0) books[wordOf(key)] = word - (pays << _shift(key));
    }

    function _shift(uint256 key) private pure returns (uint256) {
        return (key & 7) << 5;
    }
}
