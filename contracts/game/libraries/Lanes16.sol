// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @title Counters of 16 bits, 16 in a word of storage. A key is place << 4 | lane, or any number whose lowest four bits are the lane.
library Lanes16 {
    uint256 private constant LANE = type(uint16).max;

    function at(mapping(uint256 => uint256) storage words, uint256 key) internal view returns (uint256) {
        return words[key >> 4] >> _shift(key) & LANE;
    }

    /// @dev A bucket takes 32 rounds, 64 claims and 21 draws of each at most: 43,008.
    function add(mapping(uint256 => uint256) storage words, uint256 key, uint256 amount) internal {
        words[key >> 4] += amount << _shift(key);
    }

    /// @notice Empties a lane.
    function take(mapping(uint256 => uint256) storage words, uint256 key) internal returns (uint256 amount) {
        amount = at(words, key);
        if (amount != 0) words[key >> 4] -= amount << _shift(key);
    }

    function _shift(uint256 key) private pure returns (uint256) {
        return (key & 15) << 4;
    }
}
