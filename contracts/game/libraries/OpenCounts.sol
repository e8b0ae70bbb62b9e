// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EPOCH_ROUNDS} from "../GameTypes.sol";

/// @title How many things are open, by the epoch of the round that they are about.
/// @dev A circle of nine counts: nine epochs in a row have places of their own. At most eight in a row have something open, those that the ring keeps.
library OpenCounts {
    uint256 private constant PLACES = 9;
    /// @dev Nine of them are 18,423: so the k of a contest's bond fits 16 bits.
    uint256 private constant MOST = 2047;

    /// @notice More is open than can be counted.
    /// @param round index of the round in its task, from 0
    /// @custom:remedy Wait until something has ended.
    error TooManyOpen(uint256 round);

    function add(uint16[9] storage counts, uint256 round) internal {
        uint256 place = _placeOf(round / EPOCH_ROUNDS);
        if (counts[place] == MOST) revert TooManyOpen(round);
        ++counts[place];
    }

    function remove(uint16[9] storage counts, uint256 round) internal {
        --counts[_placeOf(round / EPOCH_ROUNDS)];
    }

    function total(uint16[9] storage counts) internal view returns (uint256 sum) {
        for (uint256 place = 0; place < PLACES; ++place) {
            sum += counts[place];
        }
    }

    /// @notice Whether anything is open in the epochs `first` .. `last`.
    function isAnyIn(uint16[9] storage counts, uint256 first, uint256 last) internal view returns (bool) {
        for (uint256 epoch = first; epoch <= last; ++epoch) {
            if (counts[_placeOf(epoch)] != 0) return true;
        }
        return false;
    }

    function _placeOf(uint256 epoch) private pure returns (uint256) {
        return epoch % PLACES;
    }
}
