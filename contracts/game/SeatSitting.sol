// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {GameTerms, SeatRole, SeatStatus} from "./GameTypes.sol";
import {SeatReading} from "./SeatReading.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {ISeats} from "./interfaces/ISeats.sol";

/// @title Notes which seats sit in pools that are frozen from now on.
/// @dev Twin of `seats.py` in `protocol/spec/game`.
abstract contract SeatSitting is SeatReading {
    /// @dev Lets a seat sit in pools that are frozen from now on, where it is ACTIVE with its stake whole; else lets it sit in none.
    function _updateSitting(Task storage entry, uint256 seat) internal {
        Record storage record = entry.seatAt[seat];
        bool isWhole = record.stakeWei >= _required(entry.terms, SeatRole(seat >> 16));
        _sit(entry, seat, isWhole && record.status == SeatStatus.ACTIVE);
    }

    function _required(GameTerms storage terms, SeatRole role) internal view returns (uint256) {
        if (role == SeatRole.NONE) revert IRefusals.SeatUnknown(0);
        return role == SeatRole.SOLVER ? terms.amounts.solverStake : terms.amounts.auditorStake;
    }

    function _sit(Task storage entry, uint256 seat, bool sits) private {
        RolePools storage members = entry.members[seat >> 16];
        (uint256 word, uint256 bit) = ((seat & NUMBER) / 256, 1 << ((seat & NUMBER) % 256));
        uint256 live = members.live[word];
        // Who of the solvers sits depends on all of their stakes.
        bool isChanging = (live & bit != 0) != sits;
        if (isChanging) members.live[word] = live ^ bit;
        if (isChanging || _isSolver(seat)) (members.isDirty, entry.isFresh) = (true, false);
    }

    function _retire(TaskId task, Task storage entry, uint256 seat) internal {
        entry.seatAt[seat].status = SeatStatus.LEAVING;
        _unseat(entry, seat);
        emit ISeats.SeatLeft(task, seat);
    }

    function _unseat(Task storage entry, uint256 seat) internal {
        if (_isSolver(seat)) entry.activeSolvers &= ~uint64(1 << (seat & NUMBER));
        _sit(entry, seat, false);
    }
}
