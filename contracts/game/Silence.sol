// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {Phase, Seat, SeatRole, SeatStatus} from "./GameTypes.sol";
import {Module} from "./Module.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {ISettlement} from "./interfaces/ISettlement.sol";
import {Slots} from "./libraries/Slots.sol";

/// @title Retires a seat that has missed its rounds or its draws again and again.
/// @dev Twin of `apply_mark_silent` in `protocol/spec/game/silence.py`.
abstract contract Silence is Module, ISettlement {
    /// @notice Missed rounds or primary draws after which a seat is silent.
    uint256 public constant SILENCES_MAX = 3;

    /// @inheritdoc ISettlement
    function markSilent(TaskId task, uint256 seat, MissedPlace[] calldata missed) external {
        rounds.sync(task);
        Seat memory record = seatBook.seatAt(task, seat);
        if (record.status == SeatStatus.NONE) revert IRefusals.SeatUnknown(seat);
        if (record.status != SeatStatus.OPEN) revert IRefusals.SeatClosed(seat);
        bool isSolver = seat >> 16 == uint256(SeatRole.SOLVER);
        bool isSilent = missed.length >= SILENCES_MAX
            && (isSolver ? _isMissing(task, seat, record, missed) : _isMute(task, seat, record, missed));
        if (!isSilent) revert IRefusals.NotSilent(seat);
        seatBook.retire(task, seat);
    }

    /// @dev Missed rounds, and no commitment since the first of them. While a contest runs, and `respond` after one was lost, no solver is silent: an honest one
    /// does not train on a wrong root, and contests it itself where another's contest was lost.
    function _isMissing(TaskId task, uint256 seat, Seat memory record, MissedPlace[] calldata missed)
        private
        view
        returns (bool)
    {
        (uint256 first, uint256 next) = (missed[0].round, rounds.nextRound(task));
        bool isKept = record.settled <= first && first < next;
        bool isContested = contests.openOf(task) != 0 || block.number <= contests.contestedUntil(task);
        if (!isKept || isContested) return false;
        (IRounds.Facts[] memory facts, uint256 found) = (rounds.factsOf(task, first, next - 1), 0);
        for (uint256 i = 0; i < facts.length; ++i) {
            (uint256 pool, uint256 number) = (facts[i].pool, seat & type(uint16).max);
            if (pool >> number & 1 == 0) continue;
            uint256 slot = Slots.slotOf(pool, number);
            if (facts[i].committed >> slot & 1 == 1) return false;
            bool isNamed = found < missed.length && _keyOf(missed[found]) == first + i << 64;
            if (isNamed && facts[i].missing >> slot & 1 == 1) ++found;
        }
        return found == missed.length;
    }

    /// @dev Primary draws that are over without the seat's vote, in rounds after its last vote.
    function _isMute(TaskId task, uint256 seat, Seat memory record, MissedPlace[] calldata missed)
        private
        view
        returns (bool)
    {
        uint256 from = _max(record.settled, votes.lastVotedOf(task, seat));
        (uint256 next, uint256 before) = (rounds.nextRound(task), 0);
        for (uint256 i = 0; i < missed.length; ++i) {
            MissedPlace calldata place = missed[i];
            uint256 key = _keyOf(place);
            if (place.round < from || place.round >= next || i != 0 && key <= before) return false;
            if (!_isUnvoted(task, seat, place)) return false;
            before = key;
        }
        return true;
    }

    /// @dev Places in their order.
    function _keyOf(MissedPlace calldata place) private pure returns (uint256) {
        return uint256(place.round) << 64 | uint256(place.slot) << 32 | place.draw;
    }

    function _isUnvoted(TaskId task, uint256 seat, MissedPlace calldata place) private view returns (bool) {
        if (rounds.roundOf(task, place.round).phase == Phase.UNDONE) return false;
        (uint256 drawn,) = votes.drawnOf(task, place.round, place.slot, place.draw, 0);
        if (drawn != seat || !votes.isDrawOver(task, place.round, place.slot, place.draw)) return false;
        return votes.votesOf(task, place.round, place.slot, place.draw)[0] == 0;
    }
}
