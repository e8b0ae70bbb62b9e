// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {AuditDraw} from "../libraries/AuditDraw.sol";
import {GameTerms, GameWindows, Phase, RING_ROUNDS} from "./GameTypes.sol";
import {RoundStorage} from "./RoundStorage.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {Frame, Frames, FrameWords, Roster, Track} from "./libraries/Frames.sol";
import {Slots} from "./libraries/Slots.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Begins a task's rounds, opens one after the other, and takes the claims that solvers commit to.
/// @dev Twin of `round_opening.py` and `rounds.py` in `protocol/spec/game`.
abstract contract RoundOpening is RoundStorage {
    using Frames for Frame;
    using FrameWords for Track;
    using FrameWords for uint256;

    // Starting --------------------------------------------------------------------------------------------------------
    /// @inheritdoc IRounds
    function begin(TaskId task, bytes32 root) external onlyGame {
        RoundRing storage s = _roundRings[task];
        GameTerms storage terms = _terms(task);
        Track memory t;
        uint256 segments = terms.innerSteps / terms.segmentSteps;
        (t.segments, t.leastSegments) = (segments, _min(segments, 3 * uint256(terms.draws) - 2));
        (t.trainMin, t.trainMax) = (terms.windows.trainMin, terms.windows.trainMax);
        t.standsSince = block.number;
        (s.root, s.track) = (root, t.pack());
    }

    /// @inheritdoc IRounds
    function start(TaskId task) external {
        (RoundRing storage s, Track memory t) = _at(task);
        GameTerms storage terms = _tasks[task].terms;
        uint256 next = t.nextRound;
        if (t.isHalted != 0) revert IRefusals.TaskHalted(TaskId.unwrap(task));
        if (next >= terms.rounds) revert IRefusals.TaskOver(TaskId.unwrap(task));
        if (t.live != 0) revert IRefusals.NotStanding(t.live - 1);
        if (_isStartAlive(t)) revert IRefusals.StartPending(t.startBlock + _limits.sealBlocks);
        if (!_isFree(t, next)) revert IRefusals.RingFull(next);
        if (!seatBook.isFunded(task)) revert IRefusals.PoolTooSmall(TaskId.unwrap(task));
        t.startBlock = AuditDraw.gridBlock(block.number + terms.windows.delay, terms.windows.drawGrid);
        _freeze(task, s, t, next, next + 2);
        emit StartAsked(task, next, t.startBlock);
    }

    function _isStartAlive(Track memory t) internal view returns (bool) {
        return t.startBlock != 0 && t.isHalted == 0 && block.number <= t.startBlock + _limits.sealBlocks;
    }

    /// @inheritdoc IRounds
    function sealStart(TaskId task, bytes calldata proof) external {
        (RoundRing storage s, Track memory t) = _at(task);
        uint256 startBlock = t.startBlock;
        if (startBlock == 0) revert IRefusals.NothingToSeal(t.nextRound);
        if (t.isHalted != 0) revert IRefusals.TaskHalted(TaskId.unwrap(task));
        _requireWindow(startBlock + 1, startBlock + _limits.sealBlocks);
        (uint64 closed, bool isAnyClosed) = seatBook.closures(task);
        Roster memory roster = _rosterAt(s, t.nextRound);
        if (!_isEnough(task, roster, isAnyClosed)) {
            revert IRefusals.PoolTooSmall(TaskId.unwrap(task));
        }
        bytes32 value = randomness.read(startBlock, proof);
        emit StartSealed(task, value);
        t.dealtTo = t.nextRound;
        _deal(task, s, t, value, type(uint32).max);
        _open(task, s, t, roster.pool, s.root, closed);
    }

    function _isEnough(TaskId task, Roster memory roster, bool isAnyClosed) private view returns (bool) {
        if (!isAnyClosed) return roster.isEnough;
        return seatBook.isEnough(task, roster.pool, roster.verifiers, roster.whistleblowers);
    }

    /// @dev Beacons for frozen rounds up to and with `last` that have neither a beacon nor begun. The caller keeps the track.
    function _deal(TaskId task, RoundRing storage s, Track memory t, bytes32 value, uint256 last) internal {
        uint256 round = _max(t.dealtTo, t.nextRound);
        uint256 to = _min(last + 1, t.frozenTo);
        if (round >= to) return;
        bytes32 domain = _domain(task);
        for (; round < to; ++round) {
            s.beacons[round % RING_ROUNDS] = AuditDraw.roundBeacon(domain, uint32(round), value);
        }
        t.dealtTo = to;
    }

    function _open(TaskId task, RoundRing storage s, Track memory t, uint64 pool, bytes32 base, uint64 closed)
        private
    {
        uint256 round = t.nextRound;
        Frame memory f;
        (f.pool, f.opened, f.counted) = (pool, uint40(block.number), uint8(LibBit.popCount(pool & ~closed)));
        if (round < t.dealtTo) f.trained = 1;
        f.setPhase(Phase.RUNNING);
        _keep(s, round, f);
        s.bases[round % RING_ROUNDS] = base;
        (t.startBlock, t.nextRound, t.live) = (0, round + 1, round + 1);
        s.track = t.pack();
        emit RoundOpened(task, round, base);
    }

    /// @dev After a round got its root: the next one opens, or the task stands still until it is started.
    function _openNext(
        TaskId task,
        RoundRing storage s,
        Track memory t,
        bytes32 root,
        uint64 closed,
        bool isAnyClosed
    ) internal {
        if (t.nextRound < t.frozenTo && t.isHalted == 0) {
            Roster memory roster = _rosterAt(s, t.nextRound);
            if (_isEnough(task, roster, isAnyClosed)) {
                _open(task, s, t, roster.pool, root, closed);
                return;
            }
        }
        (t.live, t.standsSince) = (0, block.number);
        _dropUnopened(t);
        (s.track, s.root) = (t.pack(), root);
        emit TaskStood(task);
    }

    /// @dev Pools and beacons of rounds that were not opened are of no use any more.
    function _dropUnopened(Track memory t) internal pure {
        (t.frozenTo, t.dealtTo, t.startBlock) = (t.nextRound, t.nextRound, 0);
    }

    /// @inheritdoc IRounds
    function halt(TaskId task) external {
        (RoundRing storage s, Track memory t) = _at(task);
        address submitter = _terms(task).submitter;
        bool mayHalt = msg.sender == submitter || msg.sender == address(shares);
        if (!mayHalt) revert IRefusals.NotSubmitter(submitter, msg.sender);
        if (t.isHalted != 0) revert IRefusals.TaskHalted(TaskId.unwrap(task));
        t.isHalted = 1;
        s.track = t.pack();
        emit TaskHalted(task);
    }

    // Committing ------------------------------------------------------------------------------------------------------
    /// @inheritdoc IRounds
    function commit(
        TaskId task,
        uint256 round,
        bytes32 baseRoot,
        bytes32 beacon,
        bytes32 claimRoot,
        uint256 segments
    ) external {
        (RoundRing storage s, Track memory t) = _at(task);
        Frame memory f = _frameOf(s, t, round);
        if (f.phaseOf() != Phase.RUNNING) revert IRefusals.RoundUndone(round);
        if (f.trained == 0) revert IRefusals.WrongBeacon(0, beacon);
        _requireWindow(f.opened, f.closingBlock(t));
        uint256 slot = _slotOf(task, f.pool);
        if (f.committed >> slot & 1 == 1) revert IRefusals.AlreadyCommitted(slot);
        _requireGround(s, round, baseRoot, beacon);
        if (segments < t.leastSegments || segments > t.segments) {
            revert IRefusals.WrongSegments(t.leastSegments, t.segments, segments);
        }
        if (segments != t.segments) _keepShort(s, f, round, slot, segments);
        _count(f, slot);
        s.claims[round % RING_ROUNDS << 6 | slot] = claimRoot;
        _keep(s, round, f);
        emit ClaimTaken(task, round, slot, claimRoot, segments);
    }

    function _keepShort(RoundRing storage s, Frame memory f, uint256 round, uint256 slot, uint256 segments)
        private
    {
        uint256 shorts = f.has(Frames.SHORT) ? s.shorts[round % RING_ROUNDS] : 0;
        s.shorts[round % RING_ROUNDS] = shorts | 1 << slot;
        s.segments[round % RING_ROUNDS << 6 | slot] = segments;
        f.flags |= Frames.SHORT;
    }

    function _requireGround(RoundRing storage s, uint256 round, bytes32 baseRoot, bytes32 beacon) private view {
        bytes32 expected = s.bases[round % RING_ROUNDS];
        if (baseRoot != expected) revert IRefusals.WrongBase(expected, baseRoot);
        expected = s.beacons[round % RING_ROUNDS];
        if (beacon != expected) revert IRefusals.WrongBeacon(expected, beacon);
    }

    function _slotOf(TaskId task, uint256 pool) private view returns (uint256) {
        (uint256 seat, bool isClosed) = seatBook.seatOfSolver(task, msg.sender);
        uint256 number = seat & type(uint16).max;
        if (seat == 0 || pool >> number & 1 == 0) revert IRefusals.NotCommitter(msg.sender);
        if (isClosed) revert IRefusals.SeatClosed(seat);
        return Slots.slotOf(pool, number);
    }

    function _count(Frame memory f, uint256 slot) private view {
        f.committed |= uint64(1 << slot);
        uint256 count = LibBit.popCount(f.committed);
        if (f.enough == 0 && 3 * count >= 2 * uint256(f.counted)) f.enough = f.offsetOf(block.number);
        if (count == f.counted) f.closed = f.offsetOf(block.number);
    }
}
