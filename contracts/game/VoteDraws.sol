// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {AuditDraw} from "../libraries/AuditDraw.sol";
import {GameTerms, RANKS, SeatRole} from "./GameTypes.sol";
import {RoundReading} from "./RoundReading.sol";
import {SeatReading} from "./SeatReading.sol";
import {Ballots} from "./libraries/Ballots.sol";
import {Panel, Panels} from "./libraries/Panels.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Finds the segment and the auditor of a rank of a draw.
/// @dev Twin of `protocol/spec/game/assignments.py`.
abstract contract VoteDraws is SeatReading, RoundReading {
    using Panels for Panel;

    /// @dev A drawn round, its auditors as far as they were needed, and the claim that was looked at last.
    /// @param closed from which the windows of its draws count, but for late ones
    /// @param hasClaim whether the next fields are those of the claim in `slot`
    /// @param drawn its segments, by draw
    struct DrawnRound {
        TaskId task;
        uint256 number;
        uint256 draws;
        uint256 auditMax;
        uint256 closed;
        uint256 slots;
        bytes32 seed;
        uint256 lateFrom;
        uint256 lateSlots;
        bytes32 lateSeed;
        uint256 lateChance;
        Panel primary;
        Panel late;
        bool hasClaim;
        uint256 slot;
        bytes32 claimRoot;
        uint256[] drawn;
        bool isLateDue;
        uint256 lateSegment;
    }

    /// @dev A rank of a draw, and who it is.
    /// @param seat id of the auditor's seat; 0: there is no such draw
    /// @param from from which its windows count
    struct DrawnRank {
        uint256 slot;
        uint256 draw;
        uint256 rank;
        bool isLate;
        uint256 seat;
        uint256 segment;
        uint256 from;
    }

    // The round
    /// @dev A round whose audits are drawn.
    function _drawnRound(TaskId task, uint256 number) internal view returns (DrawnRound memory all) {
        Round storage round = _roundAt(task, number);
        GameTerms storage terms = _tasks[task].terms;
        (all.task, all.number) = (task, number);
        (all.draws, all.lateChance, all.auditMax) = (terms.draws, terms.lateChance, terms.windows.auditMax);
        (all.closed, all.seed, all.slots) = (round.closing, round.seed, LibBit.popCount(round.pool));
        (all.lateFrom, all.lateSlots) = (round.lateFrom, round.lateSlots);
        all.lateSeed = _lateSeed(task, round);
    }

    // The draw (4, 7.9)
    /// @dev A rank of a draw. Its `seat` is 0 where there is no such rank or draw.
    function _find(DrawnRound memory all, uint256 slot, uint256 draw, uint256 rank)
        internal
        view
        returns (DrawnRank memory found)
    {
        if (rank >= RANKS || draw > all.draws || !_loadClaim(all, slot)) return found;
        bool isLate = draw == all.draws;
        if (isLate ? !all.isLateDue : draw >= all.drawn.length) return found;
        (found.slot, found.draw, found.rank, found.isLate) = (slot, draw, rank, isLate);
        found.from = isLate ? all.lateFrom : all.closed;
        found.segment = isLate ? all.lateSegment : all.drawn[draw];
        found.seat = _seatAt(all, found, rank);
    }

    /// @dev The seat of any rank of the same draw.
    function _seatAt(DrawnRound memory all, DrawnRank memory drawn, uint256 rank) internal view returns (uint256) {
        return drawn.isLate
            ? _latePanel(all).seatAt(drawn.slot, 0, rank)
            : _primaryPanel(all).seatAt(drawn.slot, drawn.draw, rank);
    }

    /// @dev Loads a claim and its segments into `all`, where it was not the last one that was looked at. False where there is no such claim.
    function _loadClaim(DrawnRound memory all, uint256 slot) private view returns (bool) {
        if (all.hasClaim && slot == all.slot) return true;
        (bytes32 root, uint256 segments) = _claimAt(_roundAt(all.task, all.number), slot);
        if (segments == 0) return false;
        (all.hasClaim, all.slot, all.claimRoot) = (true, slot, root);
        all.drawn = AuditDraw.circleSegments(all.seed, slot, all.draws, segments);
        all.isLateDue = false;
        if (all.lateFrom == 0 || all.lateSlots >> slot & 1 == 0) return true;
        (all.isLateDue, all.lateSegment) = AuditDraw.late(all.lateSeed, slot, all.lateChance, all.drawn, segments);
        return true;
    }

    function _primaryPanel(DrawnRound memory all) private view returns (Panel memory) {
        if (all.primary.slots != 0) return all.primary;
        uint256 version = _roundAt(all.task, all.number).verifiers;
        uint256[] memory words = _poolOf(all.task, SeatRole.VERIFIER, version);
        return all.primary = Panels.assign(SeatRole.VERIFIER, words, all.seed, all.draws, all.slots);
    }

    function _latePanel(DrawnRound memory all) private view returns (Panel memory) {
        if (all.late.slots != 0) return all.late;
        uint256 version = _roundAt(all.task, all.number).whistleblowers;
        uint256[] memory words = _poolOf(all.task, SeatRole.WHISTLEBLOWER, version);
        return all.late = Panels.assign(SeatRole.WHISTLEBLOWER, words, all.lateSeed, 1, all.slots);
    }

    // Its votes (7.7)
    /// @dev The votes of a draw (`Ballots`); none where there is no claim.
    function _votesOf(TaskId task, uint256 round, uint256 slot, uint256 draw) internal view returns (uint256) {
        Round storage here = _roundAt(task, round);
        return _hasClaim(here, slot) ? Ballots.ofIn(here.claims[slot].votes, draw) : 0;
    }

    /// @dev Whether a draw is accepted, has failed, or is out of time, which it is after from + 2 auditMax. From then on openings of its votes are paid. In a
    /// failed draw an UNSERVED still counts until the draw is out of time (`_isDue` of `VoteCounting`).
    function _isPayable(DrawnRound memory all, DrawnRank memory drawn, uint256 votes_) internal view returns (bool) {
        (bool isAccepted, bool isFailed) = Ballots.statusOf(votes_);
        return isAccepted || isFailed || block.number > drawn.from + 2 * all.auditMax;
    }

    function _keepVotes(DrawnRound memory all, DrawnRank memory drawn, uint256 votes_) internal {
        KeptClaim storage claim = _roundAt(all.task, all.number).claims[drawn.slot];
        claim.votes = Ballots.setIn(claim.votes, drawn.draw, votes_);
    }

    /// @dev From now on the fields of what went wrong are those of this round.
    function _mark(Round storage round) internal {
        if (round.isMarked) return;
        round.isMarked = true;
        (round.unserved, round.lateRejected, round.restored) = (0, 0, 0);
    }
}
