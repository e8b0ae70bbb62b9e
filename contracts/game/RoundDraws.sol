// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {AuditDraw} from "../libraries/AuditDraw.sol";
import {EPOCH_ROUNDS, GameTerms, Phase, RING_ROUNDS} from "./GameTypes.sol";
import {RoundOpening} from "./RoundOpening.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {Frame, Frames, FrameWords, Roster, Track} from "./libraries/Frames.sol";
import {Slots} from "./libraries/Slots.sol";

/// @title Seals the randomness of rounds, draws audits and late audits, and says which claims are accepted or open.
/// @dev Twin of `round_seals.py` and `claim_status.py` in `protocol/spec/game`.
abstract contract RoundDraws is RoundOpening {
    using Frames for Frame;
    using FrameWords for Roster;
    using FrameWords for Track;
    using FrameWords for uint256;

    uint256 private constant CLOSING = 1 << 31;

    // Beacons and audits ----------------------------------------------------------------------------------------------
    /// @inheritdoc IRounds
    function sealRound(TaskId task, uint256 round, bytes calldata proof) external {
        (RoundRing storage s, Track memory t) = _at(task);
        Frame memory f = _frameOf(s, t, round);
        if (f.trained != 0 || f.phaseOf() != Phase.RUNNING) revert IRefusals.NothingToSeal(round);
        uint256 beaconBlock = f.beaconBlock(_tasks[task].terms.windows);
        _requireWindow(beaconBlock + 1, beaconBlock + _limits.sealBlocks);
        bytes32 value = randomness.read(beaconBlock, proof);
        f.trained = f.offsetOf(block.number);
        _keep(s, round, f);
        s.beacons[round % RING_ROUNDS] = AuditDraw.roundBeacon(_domain(task), uint32(round), value);
        emit RoundDealt(task, round, value);
    }

    /// @inheritdoc IRounds
    function sealAudits(TaskId task, uint256 round, bytes calldata proof) external {
        (RoundRing storage s, Track memory t) = _at(task);
        GameTerms storage terms = _tasks[task].terms;
        Frame memory f = _frameOf(s, t, round);
        if (!f.isClosed() || f.has(Frames.SEALED) || f.phaseOf() == Phase.UNDONE) {
            revert IRefusals.NothingToSeal(round);
        }
        uint256 closed = f.at(f.closed);
        bytes32 value = _readDraw(closed, terms, proof);
        f.flags |= Frames.SEALED;
        _keep(s, round, f);
        s.seeds[round % RING_ROUNDS] = AuditDraw.roundSeed(_domain(task), uint32(round), value);
        emit AuditsDrawn(task, round, value);
        if (terms.lateChance != 0) _drawLate(task, s, t, terms, round, closed, uint32(round));
        _deal(task, s, t, value, round + 2);
        s.track = t.pack();
    }

    function _readDraw(uint256 fromBlock, GameTerms storage terms, bytes calldata proof)
        private
        view
        returns (bytes32)
    {
        (uint256 first, uint256 last) = Frames.drawWindow(fromBlock, terms.windows, _limits.sealBlocks);
        _requireWindow(first, last);
        return randomness.read(first - 1, proof);
    }

    // Late audits -----------------------------------------------------------------------------------------------------
    /// @dev Late audits of rounds before `round` that have none and have not settled. Each such draw takes all of them, so the first one that was drawn
    /// already ends the search.
    function _drawLate(
        TaskId task,
        RoundRing storage s,
        Track memory t,
        GameTerms storage terms,
        uint256 round,
        uint256 fromBlock,
        uint32 by
    ) private {
        uint256 oldest = t.freedEpochs * EPOCH_ROUNDS;
        while (round > oldest) {
            Frame memory f = _frameAt(s, --round);
            (bool isLast, bool isMissing) = _isMissing(s, f, round, terms.windows.dispute);
            if (isLast) return;
            if (!isMissing) continue;
            Fates memory fates = _fatesOf(task, f, terms, round, seatBook.closedSolvers(task));
            Roster memory roster = _rosterAt(s, round);
            (roster.lateFrom, roster.lateBy) = (uint40(fromBlock), by);
            roster.lateSlots = fates.accepted | fates.open;
            s.rosters[round % RING_ROUNDS] = roster.pack();
        }
    }

    /// @return isLast no round before it can be missing its late audits
    function _isMissing(RoundRing storage s, Frame memory f, uint256 round, uint256 disputeBlocks)
        private
        view
        returns (bool isLast, bool isMissing)
    {
        if (!f.isClosed()) return (false, false);
        isLast = _rosterAt(s, round).lateFrom != 0 || block.number > f.at(f.closed) + disputeBlocks;
        isMissing = !isLast && f.committed != 0 && f.phaseOf() != Phase.UNDONE;
    }

    /// @inheritdoc IRounds
    function sealClosing(TaskId task, bytes calldata proof) external {
        (RoundRing storage s, Track memory t) = _at(task);
        GameTerms storage terms = _tasks[task].terms;
        uint256 fromBlock = _closingFrom(s, t, terms);
        if (fromBlock == 0) revert IRefusals.NothingToSeal(t.nextRound);
        bytes32 value = _readDraw(fromBlock, terms, proof);
        bytes32 seed = AuditDraw.roundSeed(_domain(task), uint32(t.nextRound), value);
        emit ClosingDrawn(task, fromBlock, value);
        uint32 by = uint32(CLOSING | s.closingSeeds.length);
        s.closingSeeds.push(seed);
        _drawLate(task, s, t, terms, t.nextRound, fromBlock, by);
    }

    /// @dev From the last missing round's close + auditMax, at the earliest when the task came to stand still; 0 where no closing seed is due.
    function _closingFrom(RoundRing storage s, Track memory t, GameTerms storage terms)
        private
        view
        returns (uint256 fromBlock)
    {
        if (terms.lateChance == 0 || t.live != 0 || _isStartAlive(t)) return 0;
        uint256 oldest = t.freedEpochs * EPOCH_ROUNDS;
        for (uint256 round = t.nextRound; round > oldest;) {
            Frame memory f = _frameAt(s, --round);
            (bool isLast, bool isMissing) = _isMissing(s, f, round, terms.windows.dispute);
            if (isLast) break;
            if (isMissing) fromBlock = _max(fromBlock, f.at(f.closed) + terms.windows.auditMax);
        }
        if (fromBlock != 0) fromBlock = _max(fromBlock, t.standsSince);
    }

    function _lateSeed(RoundRing storage s, Roster memory roster) internal view returns (bytes32) {
        if (roster.lateFrom == 0) return 0;
        if (roster.lateBy >= CLOSING) return s.closingSeeds[roster.lateBy - CLOSING];
        return s.seeds[roster.lateBy % RING_ROUNDS];
    }

    // Fates of claims -------------------------------------------------------------------------------------------------
    /// @inheritdoc IRounds
    function fatesOf(TaskId task, uint256 round) external view returns (Fates memory) {
        (RoundRing storage s,, Frame memory f) = _look(task, round);
        return _fatesOf(task, f, _tasks[task].terms, round, seatBook.closedSolvers(task));
    }

    /// @dev Claims of closed seats that were not accepted are void, and all claims of a round whose draw was missed.
    /// @param closedSeats numbers of closed solver seats
    function _fatesOf(TaskId task, Frame memory f, GameTerms storage terms, uint256 round, uint256 closedSeats)
        internal
        view
        returns (Fates memory fates)
    {
        uint256 refused;
        (fates.accepted, refused, fates.convicted) = votes.resultOf(task, round);
        if (_isUnsealed(f, terms)) {
            fates.accepted = 0;
            return fates;
        }
        uint256 closed = Slots.slotsOf(f.pool, closedSeats) | fates.accepted | refused | fates.convicted;
        fates.accepted &= ~fates.convicted;
        fates.mergeable = fates.accepted & ~uint64(refused);
        uint256 over = f.isClosed() ? block.number - f.at(f.closed) : 0;
        if (over <= 2 * terms.windows.auditMax) fates.open = f.committed & ~uint64(closed);
        if (over <= terms.windows.auditMax) fates.undecided = fates.open;
    }

    function _isUnsealed(Frame memory f, GameTerms storage terms) private view returns (bool) {
        if (f.has(Frames.SEALED) || !f.isClosed()) return false;
        (, uint256 last) = Frames.drawWindow(f.at(f.closed), terms.windows, _limits.sealBlocks);
        return block.number > last;
    }
}
