// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {AuditDraw} from "../libraries/AuditDraw.sol";
import {Statements} from "../libraries/Statements.sol";
import {Audit, RANKS, SeatRole} from "./GameTypes.sol";
import {VoteStorage} from "./VoteStorage.sol";
import {Audits} from "./libraries/Audits.sol";
import {Ballots} from "./libraries/Ballots.sol";
import {Panel, Panels} from "./libraries/Panels.sol";
import {Slots} from "./libraries/Slots.sol";
import {Voters} from "./libraries/Voters.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Finds the draw, segment and auditor that the place of a vote names.
/// @dev Twin of `protocol/spec/game/assignments.py`.
abstract contract VoteDraws is VoteStorage {
    using Audits for Audit;
    using Panels for Panel;

    /// @dev What the votes of one call share; then the claim and the vote at hand.
    struct Session {
        TaskId task;
        uint256 round;
        bytes32 domain;
        bytes32 separator;
        Audit audit;
        Statements.Vote vote;
        uint256 count;
        uint256[] accounts;
        uint256[] seats;
        uint256[] drawnSegments;
        Panel primary;
        Panel late;
        uint256 slot;
        uint256[] drawn;
        uint256 lateSegment;
        bool isLateDue;
        uint256 touched;
        uint256 touchedLate;
        uint256 draw;
        uint256 rank;
        uint256 word;
        uint256 seat;
        uint256 segment;
        uint256 shift;
        bool isLate;
        uint256 from;
        Page ballots;
        Page book;
    }

    // Rounds and places -----------------------------------------------------------------------------------------------
    /// @dev A round as it can be judged, or looked at, with those of its claims.
    function _look(Session memory x, TaskId task, uint256 round, uint256 slots) internal view {
        if (x.domain == 0) (x.task, x.domain) = (task, _domain(task));
        (x.round, x.slot) = (round, NOTHING);
        // Nothing of another round is left.
        (x.primary.slots, x.late.slots, x.touched, x.touchedLate) = (0, 0, 0, 0);
        x.audit = Audits.load(rounds, task, round, slots, true);
        x.count = LibBit.popCount(x.audit.pool);
        (x.ballots.key, x.book.key) = (NOTHING, NOTHING);
    }

    /// @dev Slots that votes name, whether there are claims or not.
    function _slotsIn(HandedVote[] calldata handed) internal pure returns (uint256 slots) {
        unchecked {
            for (uint256 i = 0; i < handed.length; ++i) {
                slots |= 1 << (handed[i].place >> 64);
            }
        }
    }

    /// @dev Goes to the draw that a vote names. False where there is no such draw; then seat and segment have no meaning.
    function _enter(Session memory x, uint256 place) internal view returns (bool) {
        uint256 slot = place >> 64;
        (x.draw, x.rank, x.word) = (uint8(place >> 56), uint8(place >> 48), uint8(place >> 40));
        if (x.rank >= RANKS) return false;
        if (slot != x.slot && !_enterClaim(x, slot)) return false;
        bool isLate = x.draw == x.audit.draws;
        if (isLate ? !x.isLateDue : x.draw >= x.drawn.length) return false;
        x.segment = isLate ? x.lateSegment : x.drawn[x.draw];
        if (!isLate) _dealPrimary(x);
        x.seat = isLate ? x.late.seatAt(slot, 0, x.rank) : x.primary.seatAt(slot, x.draw, x.rank);
        return true;
    }

    /// @dev False where there is no such claim, or the pool has no such slot.
    function _enterClaim(Session memory x, uint256 slot) private view returns (bool) {
        Audit memory a = x.audit;
        (, uint256 count) = a.claimAt(slot);
        if (count == 0) return false;
        x.slot = slot;
        x.drawn = AuditDraw.circleSegments(a.seed, slot, a.draws, count);
        x.isLateDue = false;
        if (a.lateFrom == 0 || a.lateSlots >> slot & 1 == 0) return true;
        _dealLate(x);
        (x.isLateDue, x.lateSegment) = AuditDraw.late(a.lateSeed, slot, a.lateChance, x.drawn, count);
        return true;
    }

    function _dealPrimary(Session memory x) private view {
        if (x.primary.slots != 0) return;
        uint256[] memory words = seatBook.poolOf(x.task, SeatRole.VERIFIER, x.audit.verifiers);
        x.primary = Panels.deal(SeatRole.VERIFIER, words, x.audit.seed, x.audit.draws, x.count);
    }

    function _dealLate(Session memory x) private view {
        if (x.late.slots != 0) return;
        uint256[] memory words = seatBook.poolOf(x.task, SeatRole.WHISTLEBLOWER, x.audit.whistleblowers);
        x.late = Panels.deal(SeatRole.WHISTLEBLOWER, words, x.audit.lateSeed, 1, x.count);
    }

    // The draw at hand ------------------------------------------------------------------------------------------------
    /// @dev Finds the seats that are drawn, and reads all accounts in one call: those of the seats, then those of the solvers by slot.
    function _prepare(Session memory x, HandedVote[] calldata handed) internal view {
        uint256 pool = x.audit.pool;
        uint256[] memory seats = new uint256[](handed.length + x.count);
        (x.seats, x.drawnSegments) = (seats, new uint256[](handed.length));
        unchecked {
            for (uint256 i = 0; i < handed.length; ++i) {
                if (!_enter(x, handed[i].place)) continue;
                _set(seats, i, x.seat);
                _set(x.drawnSegments, i, x.segment);
            }
            // Solvers by slot.
            uint256 number;
            for (uint256 i = handed.length; pool != 0; pool &= pool - 1) {
                (, uint256 segments) = x.audit.claimAt(i - handed.length);
                number = Slots.lowest(pool, number);
                // Of claims that no vote names nothing is needed.
                if (segments != 0) _set(seats, i, uint256(SeatRole.SOLVER) << 16 | number);
                ++i;
                ++number;
            }
        }
        x.accounts = Voters.load(seatBook, x.task, seats);
        x.separator = _separator();
        (x.vote.domain, x.vote.round, x.vote.baseRoot) = (x.domain, uint32(x.round), x.audit.base);
    }

    /// @dev Goes back to the draw that the vote of this index names.
    function _goTo(VoteRing storage s, Session memory x, uint256 place, uint256 index) internal returns (bool) {
        uint256 seat = _at(x.seats, index);
        if (seat == 0) return false;
        (x.slot, x.rank, x.word) = (place >> 64, place >> 48 & 0xff, place >> 40 & 0xff);
        (x.seat, x.segment) = (seat, _at(x.drawnSegments, index));
        _goToDraw(s, x, place >> 56 & 0xff);
        return true;
    }

    /// @dev A draw of the claim at hand: its votes, and from when its windows count.
    function _goToDraw(VoteRing storage s, Session memory x, uint256 draw) private {
        bool isLate = draw == x.audit.draws;
        (x.draw, x.isLate, x.from) = (draw, isLate, isLate ? x.audit.lateFrom : x.audit.closed);
        _turnBallots(s, x);
    }

    /// @dev Turns to the word that holds the nine bits of the draw at hand.
    function _turnBallots(VoteRing storage s, Session memory x) private {
        (uint256 key, uint256 shift) = _placeIn(x.round, x.slot, x.draw, x.audit.draws);
        x.shift = shift;
        if (x.ballots.key == key) return;
        _turn(s.ballots, x.ballots, key);
        x.ballots.word = x.ballots.kept = Ballots.lapOf(x.ballots.word, x.round);
    }

    /// @dev The nine bits of the draw at hand.
    function _votesAt(Session memory x) internal pure returns (uint256) {
        return x.ballots.word >> x.shift & Ballots.MASK;
    }

    /// @dev Those of another draw of the claim at hand.
    function _votesOf(VoteRing storage s, Session memory x, uint256 draw) internal returns (uint256) {
        _goToDraw(s, x, draw);
        return _votesAt(x);
    }

    /// @dev Whether no vote of the draw at hand can count any more.
    function _isOver(Session memory x, uint256 votes_) internal view returns (bool) {
        (bool isAccepted, bool isFailed) = Ballots.fateOf(votes_);
        return isAccepted || isFailed || block.number > x.from + 2 * x.audit.auditMax;
    }

    /// @dev Of a list that has this place: it was made with one for each vote. So is `_set`.
    function _at(uint256[] memory list, uint256 place) internal pure returns (uint256 value) {
        assembly ("memory-safe") {
            value := mload(add(add(list, 32), shl(5, place)))
        }
    }

    function _set(uint256[] memory list, uint256 place, uint256 value) internal pure {
        assembly ("memory-safe") {
            mstore(add(add(list, 32), shl(5, place)), value)
        }
    }
}
