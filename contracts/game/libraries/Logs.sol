// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @notice Entries of four bytes, one behind the other.
struct Log {
    uint256 count;
    bytes data;
}

/// @title Collects what an event says of many votes.
library Logs {
    /// @notice An empty log with room for so many entries.
    function create(uint256 most) internal pure returns (Log memory log) {
        // A word more: an entry is written as the head of one.
        log.data = new bytes(4 * most + 32);
    }

    function append(Log memory log, uint256 entry) internal pure {
        (bytes memory data, uint256 count) = (log.data, log.count);
        assembly ("memory-safe") {
            mstore(add(add(data, 32), mul(4, count)), shl(224, entry))
        }
        log.count = count + 1;
    }

    /// @notice What was written; nothing can be appended any more.
    function seal(Log memory log) internal pure returns (bytes memory data) {
        (data, log.data) = (log.data, "");
        uint256 count = log.count;
        assembly ("memory-safe") {
            mstore(data, mul(4, count))
        }
    }
}
