// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EPOCH_ROUNDS} from "../GameTypes.sol";

/// @title How many things are open, by the epoch of the round that they are about: nine counts in 99 bits, so that a seat has room for two of them.
/// @dev Of nine epochs in a row each has a place of its own, and no more are alive: eight of the ring and the one that follows.
library OpenCounts {
    uint256 private constant LANES = 9;
    uint256 private constant LANE_BITS = 11;
    uint256 private constant LANE = (1 << LANE_BITS) - 1;
    /// @dev The first of nine lanes and every second one after it.
    uint256 private constant EVEN_LANES = LANE * (1 | 1 << 22 | 1 << 44 | 1 << 66 | 1 << 88);

    /// @notice More is open than can be counted.
    /// @param round index of the round in its task, from 0
    /// @custom:remedy Wait until something has ended.
    error TooManyOpen(uint256 round);

    function add(uint256 counts, uint256 round) internal pure returns (uint256) {
        uint256 shift = _shift(round / EPOCH_ROUNDS);
        if (counts >> shift & LANE == LANE) revert TooManyOpen(round);
        unchecked {
            return counts + (1 << shift);
        }
    }

    function remove(uint256 counts, uint256 round) internal pure returns (uint256) {
        return counts - (1 << _shift(round / EPOCH_ROUNDS));
    }

    function at(uint256 counts, uint256 epoch) internal pure returns (uint256) {
        return counts >> _shift(epoch) & LANE;
    }

    /// @dev Neighbours are added first. Of lanes of 22 bits, which weigh powers of 2^22, what is left by 2^22 - 1 is the sum: it is less than that.
    function total(uint256 counts) internal pure returns (uint256) {
        unchecked {
            uint256 pairs = (counts & EVEN_LANES) + (counts >> LANE_BITS & EVEN_LANES);
            return pairs % ((1 << 2 * LANE_BITS) - 1);
        }
    }

    /// @notice Whether anything is open in the epochs `first` .. `last`.
    function isAnyIn(uint256 counts, uint256 first, uint256 last) internal pure returns (bool) {
        if (counts == 0) return false;
        for (uint256 epoch = first; epoch <= last; ++epoch) {
            if (at(counts, epoch) != 0) return true;
        }
        return false;
    }

    function _shift(uint256 epoch) private pure returns (uint256) {
        unchecked {
            return epoch % LANES * LANE_BITS;
        }
    }
}
