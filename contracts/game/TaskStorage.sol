// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {GameStorage} from "./GameStorage.sol";
import {SeatStatus} from "./GameTypes.sol";
import {Module} from "./Module.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";

/// @title Keeps tasks, their seats and the members of their pools.
abstract contract TaskStorage is GameStorage, Module {
    uint256 internal constant NUMBER = type(uint16).max;
    uint256 internal constant CONVICTED = 1 << 32;

    // Reading ---------------------------------------------------------------------------------------------------------
    function _open(TaskId task) internal view returns (Task storage entry) {
        entry = _known(task);
        if (entry.isClosed) revert IRefusals.GameOver(TaskId.unwrap(task));
    }

    function _known(TaskId task) internal view returns (Task storage entry) {
        entry = _tasks[task];
        if (entry.terms.submitter == address(0)) revert IRefusals.TaskUnknown(TaskId.unwrap(task));
    }

    function _taken(Task storage entry, uint256 seat) internal view returns (Record storage record) {
        record = entry.seatAt[seat];
        if (record.status == SeatStatus.NONE) revert IRefusals.SeatUnknown(seat);
    }
}
