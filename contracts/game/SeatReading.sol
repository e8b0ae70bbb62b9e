// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {GameStorage} from "./GameStorage.sol";
import {EPOCH_ROUNDS, SeatRole, SeatStatus} from "./GameTypes.sol";
import {Module} from "./Module.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Reads tasks, their seats and the members of their pools.
abstract contract SeatReading is GameStorage, Module {
    /// @dev The bits of a seat's id that are its number.
    uint256 internal constant NUMBER = type(uint16).max;
    /// @dev In `Task.seatOf`: the account's seat is CONVICTED.
    uint256 internal constant CONVICTED = 1 << 32;

    // Tasks
    function _open(TaskId task) internal view returns (Task storage entry) {
        entry = _known(task);
        if (entry.isClosed) revert IRefusals.TaskIsClosed(TaskId.unwrap(task));
    }

    function _known(TaskId task) internal view returns (Task storage entry) {
        entry = _tasks[task];
        if (entry.terms.submitter == address(0)) revert IRefusals.TaskUnknown(TaskId.unwrap(task));
    }

    // Seats (4)
    function _seatId(SeatRole role, uint256 number) internal pure returns (uint256) {
        return uint256(role) << 16 | number;
    }

    function _isSolver(uint256 seat) internal pure returns (bool) {
        return seat >> 16 == uint256(SeatRole.SOLVER);
    }

    function _taken(Task storage entry, uint256 seat) internal view returns (Record storage record) {
        record = entry.seatAt[seat];
        if (record.status == SeatStatus.NONE) revert IRefusals.SeatUnknown(seat);
    }

    /// @dev An account's seat is its own until it is freed.
    /// @return seat its id; 0: none
    function _seatOf(TaskId task, address account) internal view returns (uint256 seat) {
        return _tasks[task].seatOf[account] & ~CONVICTED;
    }

    /// @dev As many solver seats as there are places: those with the largest stakes, of equal ones the lower number first.
    /// @return chosen numbers
    /// @return leastWei the smallest stake among them
    function _largest(Task storage entry, uint256 numbers) internal view returns (uint256 chosen, uint256 leastWei) {
        uint256 places = entry.terms.solverSeats;
        chosen = numbers;
        // One is taken out a turn, until as many are left as there are places: of equal ones the highest number, whoever came later.
        for (uint256 count = LibBit.popCount(numbers);; --count) {
            uint256 smallest;
            leastWei = type(uint256).max;
            for (uint256 left = chosen; left != 0; left &= left - 1) {
                uint256 number = LibBit.ffs(left);
                uint256 wei_ = entry.seatAt[_seatId(SeatRole.SOLVER, number)].stakeWei;
                if (wei_ <= leastWei) (smallest, leastWei) = (number, wei_);
            }
            if (count <= places) return (chosen, leastWei);
            chosen &= ~(1 << smallest);
        }
    }

    /// @dev The first round that a seat has not settled. Of a freed epoch nothing is left to settle.
    function _settledOf(TaskId task, Record storage record) internal view returns (uint256) {
        return _max(record.settled, _lines[task].freedEpochs * EPOCH_ROUNDS);
    }

    /// @dev The earliest round that a seat of the task has not settled; the greatest uint32 where it has no seats.
    function _settledBy(TaskId task) internal view returns (uint256 round) {
        Task storage entry = _tasks[task];
        round = type(uint32).max;
        for (uint256 role = uint256(SeatRole.SOLVER); role <= uint256(SeatRole.WHISTLEBLOWER); ++role) {
            RolePools storage members = entry.members[role];
            uint256 span = members.span;
            for (uint256 i = 0; i < span; ++i) {
                for (uint256 left = members.taken[i]; left != 0; left &= left - 1) {
                    uint256 seat = role << 16 | i << 8 | LibBit.ffs(left);
                    round = _min(round, _settledOf(task, entry.seatAt[seat]));
                }
            }
        }
    }

    /// @dev Whether all seats have settled an epoch, but for auditors to whom nothing was paid or charged in it: they would cost others their settlement.
    function _isSettled(TaskId task, uint256 epoch) internal view returns (bool) {
        Task storage entry = _tasks[task];
        for (uint256 role = uint256(SeatRole.SOLVER); role <= uint256(SeatRole.WHISTLEBLOWER); ++role) {
            RolePools storage members = entry.members[role];
            AuditBook storage book = _auditBooks[task][epoch][SeatRole(role)];
            uint256 span = members.span;
            for (uint256 i = 0; i < span; ++i) {
                for (uint256 left = members.taken[i]; left != 0; left &= left - 1) {
                    uint256 number = i << 8 | LibBit.ffs(left);
                    if (entry.seatAt[role << 16 | number].settled >= (epoch + 1) * EPOCH_ROUNDS) continue;
                    bool isIdle = role != uint256(SeatRole.SOLVER) && book.pays[number] == 0 && book.fees[number] == 0;
                    if (!isIdle) return false;
                }
            }
        }
        return true;
    }

    // Convicted seats (12.2)
    /// @dev Numbers of convicted solver seats.
    function _convictedSolvers(Task storage entry) internal view returns (uint64) {
        return entry.convictedCount == 0 ? 0 : uint64(entry.members[uint256(SeatRole.SOLVER)].convicted[0]);
    }

    function _isConvicted(Task storage entry, uint256 seat) internal view returns (bool) {
        if (entry.convictedCount == 0) return false;
        return _isIn(entry.members[seat >> 16].convicted, 0, seat & NUMBER);
    }

    /// @dev Whether a number is in a bitmap.
    /// @param from where its words begin
    function _isIn(mapping(uint256 => uint256) storage words, uint256 from, uint256 number)
        internal
        view
        returns (bool)
    {
        return words[from | number / 256] >> (number % 256) & 1 == 1;
    }

    // Frozen pools (4)
    /// @dev A frozen pool of auditors: words of a bitmap of seat numbers.
    function _poolOf(TaskId task, SeatRole role, uint256 version) internal view returns (uint256[] memory words) {
        RolePools storage members = _tasks[task].members[uint256(role)];
        bool isFrozen = version != 0 && version <= members.version;
        words = new uint256[](isFrozen ? members.span : 0);
        for (uint256 i = 0; i < words.length; ++i) {
            words[i] = members.frozen[version << 8 | i];
        }
    }

    /// @dev Whether a frozen pool of this round has a seat.
    function _isInPool(Task storage entry, Round storage round_, uint256 seat) internal view returns (bool) {
        uint256 number = seat & NUMBER;
        if (_isSolver(seat)) return round_.pool >> number & 1 == 1;
        bool isVerifier = seat >> 16 == uint256(SeatRole.VERIFIER);
        uint256 version = isVerifier ? round_.verifiers : round_.whistleblowers;
        return _isIn(entry.members[seat >> 16].frozen, version << 8, number);
    }
}
