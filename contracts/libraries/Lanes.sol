// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {AuditStatus} from "../Types.sol";

/// @title What a round knows of the draws of one claim, 32 bits a draw: eight draws share a word of storage.
/// @notice bit 0 the solver opened the start, 1 the end, 2 to 4 the leaves of phase 0 to 2; bits 5 to 16 the status of the auditor of each rank, four
/// bits each; bits 17 to 19 whether that auditor was fined.
/// @dev A lane is read, changed in memory and written back before anybody else is called.
library Lanes {
    uint256 internal constant START = 0;
    uint256 internal constant END = 1;
    uint256 private constant LEAVES = 2;
    uint256 private constant STATUS = 5;
    uint256 private constant STATUS_BITS = 4;
    uint256 private constant FINED = 17;
    uint256 private constant LANE_BITS = 32;
    uint256 private constant LANES = 8;

    /// @param word where it is stored
    /// @param shift of the lane in the word
    struct Lane {
        bytes32 word;
        uint256 shift;
        uint256 bits;
    }

    /// @notice The lane of a draw; `slotKey` names the claim.
    function load(mapping(bytes32 => uint256) storage words, bytes32 slotKey, uint256 draw)
        internal
        view
        returns (Lane memory lane)
    {
        lane.word = bytes32(uint256(slotKey) + draw / LANES);
        lane.shift = draw % LANES * LANE_BITS;
        lane.bits = words[lane.word] >> lane.shift;
    }

    /// @notice Writes the lane back beside its neighbours.
    function save(Lane memory lane, mapping(bytes32 => uint256) storage words) internal {
        uint256 mask = uint256(type(uint32).max) << lane.shift;
        words[lane.word] = words[lane.word] & ~mask | (lane.bits << lane.shift) & mask;
    }

    function has(Lane memory lane, uint256 bit) internal pure returns (bool) {
        return (lane.bits >> bit) & 1 == 1;
    }

    function hasLeaves(Lane memory lane, uint32 phase) internal pure returns (bool) {
        return has(lane, LEAVES + phase);
    }

    function isFined(Lane memory lane, uint32 rank) internal pure returns (bool) {
        return has(lane, FINED + rank);
    }

    /// @dev Nobody has the ranks beyond those drawn.
    function statusOf(Lane memory lane, uint32 rank) internal pure returns (AuditStatus) {
        if (rank > 2) return AuditStatus.NONE;
        return AuditStatus((lane.bits >> (STATUS + STATUS_BITS * rank)) & 15);
    }

    function set(Lane memory lane, uint256 bit) internal pure {
        lane.bits |= 1 << bit;
    }

    function setLeaves(Lane memory lane, uint32 phase) internal pure {
        set(lane, LEAVES + phase);
    }

    function setFined(Lane memory lane, uint32 rank) internal pure {
        set(lane, FINED + rank);
    }

    function setStatus(Lane memory lane, uint32 rank, AuditStatus status) internal pure {
        uint256 shift = STATUS + STATUS_BITS * rank;
        lane.bits = lane.bits & ~(15 << shift) | (uint256(status) << shift);
    }
}
