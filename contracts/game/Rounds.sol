// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EXACT_FORMAT, TaskId} from "../Types.sol";
import {Audit, AUDIT_WORDS, GameTerms, Phase, RING_ROUNDS, RoundView, SeatRole} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {RoundPosting} from "./RoundPosting.sol";
import {RoundStorage} from "./RoundStorage.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {Frame, Frames, FrameWords, Outcome, Roster, Track} from "./libraries/Frames.sol";
import {Slots} from "./libraries/Slots.sol";
import {StructLists} from "./libraries/StructLists.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Rounds from START to POST, and what other contracts and nodes read of them.
contract Rounds is RoundPosting {
    using Frames for Frame;
    using FrameWords for uint256;

    constructor(Modules memory modules) Module(modules) {}

    // One round -------------------------------------------------------------------------------------------------------
    /// @inheritdoc IRounds
    function roundOf(TaskId task, uint256 round) external view returns (RoundView memory view_) {
        (RoundRing storage s, Track memory t, Frame memory f) = _look(task, round);
        Roster memory roster = _rosterAt(s, round);
        (view_.phase, view_.committed, view_.opened) = (f.phaseOf(), f.committed, f.opened);
        view_.isSealed = f.has(Frames.SEALED);
        if (f.isClosed()) view_.closed = f.at(f.closed);
        (view_.pool, view_.verifiers, view_.whistleblowers) =
            (f.pool, roster.verifiers, roster.whistleblowers);
        view_.base = s.bases[round % RING_ROUNDS];
        if (view_.isSealed) view_.seed = s.seeds[round % RING_ROUNDS];
        (view_.lateFrom, view_.lateSlots) = (roster.lateFrom, roster.lateSlots);
        view_.lateSeed = _lateSeed(s, roster);
        if (view_.phase == Phase.POSTED) _viewOutcome(s, t, round, view_);
    }

    function _viewOutcome(RoundRing storage s, Track memory t, uint256 round, RoundView memory view_)
        private
        view
    {
        Outcome memory outcome = s.outcomes[round % RING_ROUNDS].toOutcome();
        (view_.merged, view_.signers, view_.rootUntil) = (outcome.merged, outcome.signers, outcome.rootUntil);
        if (outcome.fallen != 0) view_.root = s.reposted[round];
        else view_.root = round + 1 < t.nextRound ? s.bases[(round + 1) % RING_ROUNDS] : s.root;
    }

    /// @inheritdoc IRounds
    /// @dev Written as it is encoded: an array of the words of `Audit`, then root and segments of each slot.
    function auditOf(TaskId task, uint256 round, uint256 slots, bool isWhole)
        external
        view
        returns (uint256[] memory)
    {
        (RoundRing storage s, Track memory t, Frame memory f) = _look(task, round);
        uint256 count = LibBit.popCount(f.pool);
        uint256 place;
        Audit memory audit;
        assembly ("memory-safe") {
            // The struct is what was allocated last.
            place := add(audit, shl(5, AUDIT_WORDS))
            mstore(0x40, add(place, shl(6, count)))
            calldatacopy(place, calldatasize(), shl(6, count))
        }
        _fillAudit(audit, task, f, round);
        if (isWhole) _fillAuditors(audit, s, round);
        for (slots &= f.committed; slots != 0; slots &= slots - 1) {
            uint256 slot = LibBit.ffs(slots);
            bytes32 root = s.claims[round % RING_ROUNDS << 6 | slot];
            uint256 segments = _segmentsOf(s, t, f, round, slot);
            assembly ("memory-safe") {
                mstore(add(place, shl(6, slot)), root)
                mstore(add(add(place, shl(6, slot)), 32), segments)
            }
        }
        uint256 words = AUDIT_WORDS + 2 * count;
        assembly ("memory-safe") {
            // The head of an array, over what lies before the struct, is of no use any more.
            let encoded := sub(audit, 64)
            mstore(encoded, 32)
            mstore(add(encoded, 32), words)
            return(encoded, add(shl(5, words), 64))
        }
    }

    function _fillAudit(Audit memory a, TaskId task, Frame memory f, uint256 round) private view {
        RoundRing storage s = _roundRings[task];
        GameTerms storage terms = _tasks[task].terms;
        (a.isUndone, a.isSealed) = (f.phaseOf() == Phase.UNDONE, f.has(Frames.SEALED));
        if (f.isClosed()) a.closed = f.at(f.closed);
        a.pool = f.pool;
        a.base = s.bases[round % RING_ROUNDS];
        if (a.isSealed) a.seed = s.seeds[round % RING_ROUNDS];
        (a.draws, a.lateChance, a.auditMax) = (terms.draws, terms.lateChance, terms.windows.auditMax);
        (a.dispute, a.ask, a.respond) = (terms.windows.dispute, terms.windows.ask, terms.windows.respond);
        (a.isExact, a.parameterCount) = (terms.format == EXACT_FORMAT, terms.parameterCount);
    }

    function _fillAuditors(Audit memory a, RoundRing storage s, uint256 round) private view {
        Roster memory roster = _rosterAt(s, round);
        (a.lateFrom, a.lateSlots, a.lateSeed) = (roster.lateFrom, roster.lateSlots, _lateSeed(s, roster));
        (a.verifiers, a.whistleblowers) = (roster.verifiers, roster.whistleblowers);
    }

    // Claims ----------------------------------------------------------------------------------------------------------
    /// @inheritdoc IRounds
    function claimsOf(TaskId task, uint256 round)
        external
        view
        returns (bytes32[] memory roots, uint256[] memory segments)
    {
        (RoundRing storage s, Track memory t, Frame memory f) = _look(task, round);
        uint256 slots = LibBit.popCount(f.pool);
        (roots, segments) = (new bytes32[](slots), new uint256[](slots));
        for (uint256 left = f.committed; left != 0; left &= left - 1) {
            uint256 slot = LibBit.ffs(left);
            roots[slot] = s.claims[round % RING_ROUNDS << 6 | slot];
            segments[slot] = _segmentsOf(s, t, f, round, slot);
        }
    }

    /// @inheritdoc IRounds
    function claimOf(TaskId task, uint256 round, uint256 slot)
        external
        view
        returns (uint256 seat, bytes32 root, uint256 segments)
    {
        (RoundRing storage s, Track memory t, Frame memory f) = _look(task, round);
        if (f.committed >> slot & 1 == 0) return (0, 0, 0);
        uint256 number = Slots.numberAt(f.pool, slot);
        (seat, root) = (uint256(SeatRole.SOLVER) << 16 | number, s.claims[round % RING_ROUNDS << 6 | slot]);
        segments = _segmentsOf(s, t, f, round, slot);
    }

    function _segmentsOf(RoundRing storage s, Track memory t, Frame memory f, uint256 round, uint256 slot)
        private
        view
        returns (uint256)
    {
        if (!f.has(Frames.SHORT) || s.shorts[round % RING_ROUNDS] >> slot & 1 == 0) return t.segments;
        return s.segments[round % RING_ROUNDS << 6 | slot];
    }

    // The line of rounds ----------------------------------------------------------------------------------------------
    /// @inheritdoc IRounds
    function beaconOf(TaskId task, uint256 round) external view returns (bytes32) {
        RoundRing storage s = _roundRings[task];
        Track memory t = s.track.toTrack();
        bool isOpen = round < t.nextRound && _frameOf(s, t, round).trained != 0;
        bool isDealt = isOpen || round >= t.nextRound && round < t.dealtTo;
        return isDealt ? s.beacons[round % RING_ROUNDS] : bytes32(0);
    }

    /// @inheritdoc IRounds
    function lineOf(TaskId task) external view returns (Line memory line, bytes32 root) {
        RoundRing storage s = _roundRings[task];
        Track memory t = s.track.toTrack();
        (line.nextRound, line.live) = (uint32(t.nextRound), uint32(t.live));
        (line.frozenTo, line.dealtTo) = (uint32(t.frozenTo), uint32(t.dealtTo));
        (line.standsSince, line.startBlock) = (uint40(t.standsSince), uint40(t.startBlock));
        (line.freedEpochs, line.isHalted) = (uint16(t.freedEpochs), t.isHalted != 0);
        root = t.live == 0 ? s.root : s.bases[(t.live - 1) % RING_ROUNDS];
    }

    /// @inheritdoc IRounds
    function nextRound(TaskId task) external view returns (uint256) {
        return _roundRings[task].track.toTrack().nextRound;
    }

    /// @inheritdoc IRounds
    function isOver(TaskId task) external view returns (bool) {
        RoundRing storage s = _roundRings[task];
        return _isOver(s.track.toTrack(), _tasks[task].terms);
    }

    function _isOver(Track memory t, GameTerms storage terms) private view returns (bool) {
        if (t.live != 0) return false;
        if (t.isHalted != 0 || t.nextRound >= terms.rounds) return true;
        return !_isStartAlive(t) && block.number >= t.standsSince + terms.windows.dispute;
    }

    /// @inheritdoc IRounds
    /// @dev Pools of rounds that were not opened count while they may be: a start that has lapsed holds nobody.
    function heldTo(TaskId task) external view returns (uint256) {
        Track memory t = _roundRings[task].track.toTrack();
        bool mayOpen = t.live != 0 || _isStartAlive(t);
        return mayOpen ? _max(t.frozenTo, t.nextRound) : t.nextRound;
    }

    /// @inheritdoc IRounds
    function requireJoinable(TaskId task) external view {
        RoundRing storage s = _roundRings[task];
        (Track memory t, GameTerms storage terms) = (s.track.toTrack(), _tasks[task].terms);
        if (t.isHalted != 0) revert IRefusals.TaskHalted(TaskId.unwrap(task));
        bool isLast = t.nextRound >= terms.rounds;
        if (isLast || _isOver(t, terms)) revert IRefusals.TaskOver(TaskId.unwrap(task));
    }

    // Pools and settlement --------------------------------------------------------------------------------------------
    /// @inheritdoc IRounds
    function rosterOf(TaskId task, uint256 round) external view returns (Roster memory) {
        return _rosterAt(_roundRings[task], round);
    }

    /// @inheritdoc IRounds
    function poolsOf(TaskId task, uint256 round)
        external
        view
        returns (uint256 solvers, uint256 verifiers, uint256 whistleblowers)
    {
        Roster memory roster = _rosterAt(_roundRings[task], round);
        return (roster.pool, roster.verifiers, roster.whistleblowers);
    }

    /// @inheritdoc IRounds
    /// @dev Written as it is encoded.
    function factsOf(TaskId task, uint256 first, uint256 last) external view returns (Facts[] memory facts) {
        RoundRing storage s = _roundRings[task];
        (Track memory t, GameTerms storage terms) = (s.track.toTrack(), _tasks[task].terms);
        facts = new Facts[](last + 1 - first);
        for (uint256 round = first; round <= last; ++round) {
            Facts memory fact = facts[round - first];
            Frame memory f = _frameOf(s, t, round);
            (fact.isUndone, fact.isShort) = (f.phaseOf() == Phase.UNDONE, f.has(Frames.SHORT));
            Roster memory roster = _rosterAt(s, round);
            (fact.pool, fact.committed) = (f.pool, f.committed);
            (fact.verifiers, fact.whistleblowers) = (roster.verifiers, roster.whistleblowers);
            // Without a beacon nobody could commit.
            bool isOwed = f.isClosed() && f.trained != 0 && !fact.isUndone;
            if (isOwed) fact.missing = uint64(Slots.all(fact.pool)) & ~f.committed;
            // Of a root that was posted once the window ends with that of disputes.
            bool isAgain = f.phaseOf() == Phase.POSTED && f.has(Frames.REPOSTED);
            uint256 rootUntil = isAgain ? s.outcomes[round % RING_ROUNDS].toOutcome().rootUntil : 0;
            fact.dutyUntil = f.dutyUntil(terms.windows, rootUntil, roster.lateFrom);
        }
        StructLists.send(facts);
    }
}
