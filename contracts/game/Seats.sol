// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {Seat, SeatRole} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {SeatMembership} from "./SeatMembership.sol";
import {ISeats} from "./interfaces/ISeats.sol";
import {OpenCounts} from "./libraries/OpenCounts.sol";

/// @title Seats of tasks, and what others read of them.
contract Seats is SeatMembership {
    using OpenCounts for uint16[9];

    constructor(Modules memory modules) Module(modules) {}

    /// @inheritdoc ISeats
    function seatAt(TaskId task, uint256 seat) external view returns (Seat memory) {
        Record storage record = _tasks[task].seatAt[seat];
        return Seat(record.account, record.stakeWei, record.status, uint32(_settledOf(task, record)), record.joined);
    }

    /// @inheritdoc ISeats
    function openOn(TaskId task, uint256 seat) external view returns (uint256 queries, uint256 disputes) {
        Record storage record = _tasks[task].seatAt[seat];
        return (record.queries.total(), record.disputes.total());
    }

    /// @inheritdoc ISeats
    function seatOf(TaskId task, address account) external view returns (uint256) {
        return _seatOf(task, account);
    }

    /// @inheritdoc ISeats
    function poolOf(TaskId task, SeatRole role, uint256 version) external view returns (uint256[] memory) {
        return _poolOf(task, role, version);
    }

    /// @inheritdoc ISeats
    function settledBy(TaskId task) external view returns (uint256) {
        return _settledBy(task);
    }
}
