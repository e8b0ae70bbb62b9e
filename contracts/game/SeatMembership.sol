// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {AUDITOR_SEATS_MAX, GameTerms, SeatRole, SeatStatus, SOLVER_SEATS_MAX} from "./GameTypes.sol";
import {RoundReading} from "./RoundReading.sol";
import {SeatSitting} from "./SeatSitting.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {ISeats} from "./interfaces/ISeats.sol";
import {OpenCounts} from "./libraries/OpenCounts.sol";
import {Pots} from "./libraries/Pots.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Lets accounts join a task with a stake, add to it, leave, and be paid out.
/// @dev Twin of `seats.py` and `seat_payments.py` in `protocol/spec/game`.
abstract contract SeatMembership is SeatSitting, RoundReading, ISeats {
    using OpenCounts for uint16[9];

    // Joining (4)
    /// @inheritdoc ISeats
    function join(TaskId task, SeatRole role, uint256 stakeWei) external returns (uint256 seat) {
        Task storage entry = _open(task);
        GameTerms storage terms = entry.terms;
        game.sync(task);
        uint16 next = _requireJoinable(task, terms);
        if (entry.seatOf[msg.sender] != 0) revert IRefusals.AlreadySeated(msg.sender);
        (uint256 least, uint256 most) = (_required(terms, role), _bounds.amountMax);
        if (stakeWei < least || stakeWei > most) revert IRefusals.StakeWrong(least, most, stakeWei);
        if (role == SeatRole.SOLVER) _requirePlace(entry, stakeWei);
        seat = _takeNumber(entry.members[uint256(role)], role);
        Record storage record = entry.seatAt[seat];
        (record.account, record.stakeWei) = (msg.sender, uint96(stakeWei));
        (record.status, record.settled, record.joined) = (SeatStatus.ACTIVE, next, next);
        entry.seatOf[msg.sender] = seat;
        ++entry.seats;
        if (role == SeatRole.SOLVER) entry.activeSolvers |= uint64(1 << (seat & NUMBER));
        emit SeatJoined(task, seat, msg.sender, stakeWei);
        _updateSitting(entry, seat);
        vault.take(msg.sender, Pots.stakes(task), stakeWei);
    }

    /// @return next the next round to open: the seat sits in no earlier one
    function _requireJoinable(TaskId task, GameTerms storage terms) private view returns (uint16 next) {
        RoundLine storage line = _lines[task];
        next = line.nextRound;
        if (line.isHalted) revert IRefusals.TaskHalted(TaskId.unwrap(task));
        if (next >= terms.rounds || _isOver(task)) revert IRefusals.TaskOver(TaskId.unwrap(task));
    }

    /// @dev The lowest free number of a role.
    function _takeNumber(RolePools storage members, SeatRole role) private returns (uint256 seat) {
        uint256 most = role == SeatRole.SOLVER ? SOLVER_SEATS_MAX : AUDITOR_SEATS_MAX;
        uint256 word;
        while (members.taken[word] == type(uint256).max) ++word;
        uint256 taken = members.taken[word];
        uint256 number = word << 8 | LibBit.ffs(~taken);
        if (number >= most) revert IRefusals.SeatsTaken(0);
        members.taken[word] = taken | 1 << (number % 256);
        if (word >= members.span) members.span = uint16(word + 1);
        return _seatId(role, number);
    }

    /// @dev Where all places are taken a solver needs a larger stake than the smallest that has one. It takes nobody's place before the next freeze: else an
    /// account could displace others, leave again before the freeze, and lose nothing.
    function _requirePlace(Task storage entry, uint256 stakeWei) private view {
        uint256 open = entry.activeSolvers;
        if (LibBit.popCount(open) < entry.terms.solverSeats) return;
        (, uint256 smallestWei) = _largest(entry, open);
        if (stakeWei <= smallestWei) revert IRefusals.SeatsTaken(smallestWei + 1);
    }

    /// @inheritdoc ISeats
    function topUp(TaskId task, uint256 seat, uint256 wei_) external {
        Task storage entry = _open(task);
        game.sync(task);
        Record storage record = _ownActive(entry, seat);
        uint256 most = _bounds.amountMax - record.stakeWei;
        if (wei_ == 0 || wei_ > most) revert IRefusals.StakeWrong(1, most, wei_);
        record.stakeWei += uint96(wei_);
        emit SeatToppedUp(task, seat, wei_);
        _updateSitting(entry, seat);
        vault.take(msg.sender, Pots.stakes(task), wei_);
    }

    // Leaving (4)
    /// @inheritdoc ISeats
    function leave(TaskId task, uint256 seat) external {
        Task storage entry = _open(task);
        game.sync(task);
        _ownActive(entry, seat);
        _retire(task, entry, seat);
    }

    function _ownActive(Task storage entry, uint256 seat) private view returns (Record storage record) {
        record = _taken(entry, seat);
        if (record.account != msg.sender) revert IRefusals.NotHolder(record.account, msg.sender);
        if (record.status != SeatStatus.ACTIVE) revert IRefusals.SeatNotActive(seat);
    }

    /// @inheritdoc ISeats
    function payOut(TaskId task, uint256 seat) external {
        Task storage entry = _open(task);
        game.sync(task);
        Record storage record = _taken(entry, seat);
        if (record.status == SeatStatus.ACTIVE && !_isOver(task) && !_isCrowdedOut(entry, seat)) {
            revert IRefusals.TaskRuns(TaskId.unwrap(task));
        }
        bool isAsked = record.queries.total() + record.disputes.total() != 0;
        if (isAsked || _isHeld(task, entry, seat, _settledOf(task, record))) revert IRefusals.SeatBusy(seat);
        if (record.status == SeatStatus.ACTIVE) _retire(task, entry, seat);
        _free(task, entry, seat, record);
    }

    /// @dev Whether an ACTIVE solver seat waits where no number is left for a larger stake.
    function _isCrowdedOut(Task storage entry, uint256 seat) private view returns (bool) {
        uint256 numbers = (1 << SOLVER_SEATS_MAX) - 1;
        if (!_isSolver(seat) || entry.members[uint256(SeatRole.SOLVER)].taken[0] != numbers) return false;
        (uint256 chosen,) = _largest(entry, entry.activeSolvers);
        return chosen >> (seat & NUMBER) & 1 == 0;
    }

    /// @dev Whether a round from `fromRound` on holds a seat: one that was opened, or whose pools are frozen while it may open.
    function _isHeld(TaskId task, Task storage entry, uint256 seat, uint256 fromRound) private view returns (bool) {
        RoundLine storage line = _lines[task];
        bool mayOpen = line.live != 0 || _isStartAlive(line);
        uint256 end = mayOpen ? _max(line.frozenTo, line.nextRound) : line.nextRound;
        for (uint256 round = fromRound; round < end; ++round) {
            if (_isInPool(entry, _roundAt(task, round), seat)) return true;
        }
        return false;
    }

    /// @dev The record stays until the number is taken again: pay of its claims may still be restored. Of a CONVICTED seat none is: no round has the index
    /// that it is said to have joined at.
    function _free(TaskId task, Task storage entry, uint256 seat, Record storage record) private {
        RolePools storage members = entry.members[seat >> 16];
        (uint256 word, uint256 bit) = ((seat & NUMBER) / 256, 1 << ((seat & NUMBER) % 256));
        members.taken[word] &= ~bit;
        if (record.status == SeatStatus.CONVICTED) {
            members.convicted[word] &= ~bit;
            --entry.convictedCount;
            record.joined = type(uint16).max;
        }
        uint256 stakeWei = record.stakeWei;
        (record.status, record.stakeWei) = (SeatStatus.NONE, 0);
        delete entry.seatOf[record.account];
        --entry.seats;
        emit SeatFreed(task, seat, stakeWei);
        vault.give(Pots.stakes(task), record.account, stakeWei);
    }
}
