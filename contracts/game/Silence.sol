// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {Phase, SeatRole, SeatStatus, SILENCES_LEAST} from "./GameTypes.sol";
import {SeatSitting} from "./SeatSitting.sol";
import {VoteDraws} from "./VoteDraws.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {ISettlement} from "./interfaces/ISettlement.sol";
import {Ballots} from "./libraries/Ballots.sol";
import {OpenCounts} from "./libraries/OpenCounts.sol";
import {Slots} from "./libraries/Slots.sol";

/// @title Retires a seat that has missed its rounds or its draws again and again.
/// @dev Twin of `apply_mark_silent` in `protocol/spec/game/silence.py`.
abstract contract Silence is SeatSitting, VoteDraws, ISettlement {
    using OpenCounts for uint16[9];

    /// @inheritdoc ISettlement
    function markSilent(TaskId task, uint256 seat, MissedPlace[] calldata missed) external {
        game.sync(task);
        Record storage record = _taken(_tasks[task], seat);
        if (record.status != SeatStatus.ACTIVE) revert IRefusals.SeatNotActive(seat);
        bool isSilent = missed.length >= SILENCES_LEAST
            && (_isSolver(seat) ? _hasMissed(task, seat, record, missed) : _isMute(task, seat, record, missed));
        if (!isSilent) revert IRefusals.NotSilent(seat);
        _retire(task, _tasks[task], seat);
    }

    /// @dev Missed rounds, and no commitment since the first of them. While a contest runs, and until `respond` blocks after one ended in HOLDS, no solver is
    /// silent: an honest one does not train on a wrong root, and opens a contest of its own where another's has ended so.
    function _hasMissed(TaskId task, uint256 seat, Record storage record, MissedPlace[] calldata missed)
        private
        view
        returns (bool)
    {
        (uint256 first, uint256 next) = (missed[0].round, _lines[task].nextRound);
        bool isKept = _settledOf(task, record) <= first && first < next;
        bool isContested = _contestsOpen[task].total() != 0 || block.number <= _contestedUntil[task];
        if (!isKept || isContested) return false;
        uint256 found;
        for (uint256 round = first; round < next; ++round) {
            Round storage here = _roundOf(task, round);
            uint256 pool = here.pool;
            if (pool >> (seat & NUMBER) & 1 == 0) continue;
            if (_hasClaim(here, Slots.slotOf(pool, seat & NUMBER))) return false;
            bool isNamed = found < missed.length && _keyOf(missed[found]) == round << 64;
            // Before its shards were known nobody could commit.
            bool isOwed = here.isClosed && here.sharded != 0 && here.phase != Phase.UNDONE;
            if (isNamed && isOwed) ++found;
        }
        return found == missed.length;
    }

    /// @dev Draws, late ones included, whose rank 0 the seat is, and which are decided or out of time without its vote; in rounds after its last vote that
    /// counted.
    function _isMute(TaskId task, uint256 seat, Record storage record, MissedPlace[] calldata missed)
        private
        view
        returns (bool)
    {
        uint256 from = _max(_settledOf(task, record), _lastVoted[task][SeatRole(seat >> 16)][seat & NUMBER]);
        (uint256 next, uint256 before) = (_lines[task].nextRound, 0);
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
        Round storage round = _roundOf(task, place.round);
        if (round.phase == Phase.UNDONE || !round.isDrawn) return false;
        DrawnRound memory all = _drawnRound(task, place.round);
        DrawnRank memory drawn = _find(all, place.slot, place.draw, 0);
        if (drawn.seat != seat) return false;
        uint256 votes_ = _votesOf(task, place.round, place.slot, place.draw);
        return _isPayable(all, drawn, votes_) && Ballots.at(votes_, 0) == Ballots.NOTHING;
    }
}
