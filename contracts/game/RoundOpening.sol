// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {AuditDraw} from "../libraries/AuditDraw.sol";
import {GameTerms, Phase} from "./GameTypes.sol";
import {RoundClosing} from "./RoundClosing.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {Slots} from "./libraries/Slots.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Starts a task's rounds, opens one after the other, and takes the claims that solvers commit to.
/// @dev Twin of `round_opening.py` and `rounds.py` in `protocol/spec/game`.
abstract contract RoundOpening is RoundClosing {
    // Starting (7.1)
    /// @inheritdoc IRounds
    function start(TaskId task) external {
        RoundLine storage line = _syncedLine(task);
        GameTerms storage terms = _tasks[task].terms;
        uint256 next = line.nextRound;
        if (line.isHalted) revert IRefusals.TaskHalted(TaskId.unwrap(task));
        if (next >= terms.rounds) revert IRefusals.TaskOver(TaskId.unwrap(task));
        if (line.live != 0) revert IRefusals.NotPaused(line.live - 1);
        if (_isStartAlive(line)) revert IRefusals.StartPending(uint256(line.startBlock) + _bounds.headerBlocks);
        if (!_isFree(line, next)) revert IRefusals.RingFull(next);
        if (!_isManned(task)) revert IRefusals.PoolTooSmall(TaskId.unwrap(task));
        uint256 startBlock = AuditDraw.gridBlock(block.number + terms.windows.delay, terms.windows.drawGrid);
        line.startBlock = uint40(startBlock);
        _freeze(task, line, next, next + 2);
        emit StartAsked(task, next, startBlock);
    }

    /// @inheritdoc IRounds
    function drawStart(TaskId task, bytes calldata proof) external {
        RoundLine storage line = _syncedLine(task);
        (uint256 startBlock, uint256 next) = (line.startBlock, line.nextRound);
        if (startBlock == 0) revert IRefusals.NoDrawDue(next);
        if (line.isHalted) revert IRefusals.TaskHalted(TaskId.unwrap(task));
        _requireWindow(startBlock + 1, startBlock + _bounds.headerBlocks);
        if (!_isEnough(task, _roundAt(task, next))) revert IRefusals.PoolTooSmall(TaskId.unwrap(task));
        bytes32 value = randomness.read(startBlock, proof);
        emit StartDrawn(task, value);
        line.assignedTo = uint16(next);
        _assign(task, line, value, line.frozenTo);
        _openRound(task, line, line.root);
    }

    /// @dev Beacons for frozen rounds before `end` that have neither a beacon nor begun.
    function _assign(TaskId task, RoundLine storage line, bytes32 value, uint256 end) internal {
        (uint256 first, uint256 to) = (_max(line.assignedTo, line.nextRound), _min(end, line.frozenTo));
        if (first >= to) return;
        bytes32 domain = _domain(task);
        for (uint256 round = first; round < to; ++round) {
            _roundAt(task, round).beacon = AuditDraw.roundBeacon(domain, uint32(round), value);
        }
        line.assignedTo = uint16(to);
    }

    // Opening (7.1)
    function _openRound(TaskId task, RoundLine storage line, bytes32 base) private {
        uint256 number = line.nextRound;
        Round storage round = _roundAt(task, number);
        uint256 counted = LibBit.popCount(round.pool & ~_convictedSolvers(_tasks[task]));
        uint40 sharded = number < line.assignedTo ? uint40(block.number) : 0;
        (round.committed, round.sharded, round.enough, round.closing) = (0, sharded, 0, 0);
        (round.counted, round.phase) = (uint8(counted), Phase.RUNNING);
        (round.isClosed, round.isDrawn) = (false, false);
        (round.accepted, round.refused, round.convicted) = (0, 0, 0);
        (round.opened, round.isMarked) = (uint40(block.number), false);
        round.base = base;
        (line.startBlock, line.nextRound, line.live) = (0, uint16(number + 1), uint16(number + 1));
        emit RoundOpened(task, number, base);
    }

    /// @dev After a round got its root: the next one opens, or the task pauses until it is started.
    function _openNext(TaskId task, RoundLine storage line, bytes32 root) internal {
        uint256 next = line.nextRound;
        bool isFrozen = next < line.frozenTo && !line.isHalted;
        if (isFrozen && _isEnough(task, _roundAt(task, next))) return _openRound(task, line, root);
        (line.live, line.pausedSince, line.root) = (0, uint40(block.number), root);
        _dropUnopened(line);
        emit TaskPaused(task);
    }

    /// @dev Pools and beacons of rounds that were not opened are of no use any more.
    function _dropUnopened(RoundLine storage line) internal {
        uint16 next = line.nextRound;
        (line.frozenTo, line.assignedTo, line.startBlock) = (next, next, 0);
    }

    /// @inheritdoc IRounds
    function halt(TaskId task) external {
        RoundLine storage line = _syncedLine(task);
        address submitter = _tasks[task].terms.submitter;
        bool mayHalt = msg.sender == submitter || msg.sender == address(shares);
        if (!mayHalt) revert IRefusals.NotSubmitter(submitter, msg.sender);
        if (line.isHalted) revert IRefusals.TaskHalted(TaskId.unwrap(task));
        line.isHalted = true;
        emit TaskHalted(task);
    }

    // Committing (7.3)
    /// @inheritdoc IRounds
    function commit(
        TaskId task,
        uint256 round,
        bytes32 baseRoot,
        bytes32 beacon,
        bytes32 claimRoot,
        uint256 segments
    ) external {
        _syncedLine(task);
        Round storage here = _roundOf(task, round);
        GameTerms storage terms = _tasks[task].terms;
        if (here.phase != Phase.RUNNING) revert IRefusals.RoundNotRunning(round);
        if (here.sharded == 0) revert IRefusals.WrongBeacon(0, beacon);
        uint256 closing = _closingBlock(here, terms.windows);
        if (block.number > closing) revert IRefusals.OutsideWindow(here.opened, closing, block.number);
        uint256 slot = _slotOf(task, here.pool);
        if (_hasClaim(here, slot)) revert IRefusals.AlreadyCommitted(slot);
        if (baseRoot != here.base) revert IRefusals.WrongBase(here.base, baseRoot);
        if (beacon != here.beacon) revert IRefusals.WrongBeacon(here.beacon, beacon);
        _requireSegments(terms, segments);
        here.claims[slot] = KeptClaim(claimRoot, uint16(segments), 0);
        _count(here, slot);
        emit ClaimTaken(task, round, slot, claimRoot, segments);
    }

    /// @dev The least number of segments with which a claim has all of the task's draws (`AuditDraw.countDraws`). A round of fewer segments is claimed whole.
    function _requireSegments(GameTerms storage terms, uint256 segments) private view {
        uint256 most = _wholeSegments(terms);
        uint256 least = _min(most, 3 * uint256(terms.draws) - 2);
        if (segments < least || segments > most) revert IRefusals.WrongSegments(least, most, segments);
    }

    function _slotOf(TaskId task, uint256 pool) private view returns (uint256) {
        uint256 seat = _tasks[task].seatOf[msg.sender];
        uint256 number = seat & NUMBER;
        bool isSitting = _isSolver(seat & ~CONVICTED) && pool >> number & 1 == 1;
        if (!isSitting) revert IRefusals.NotCommitter(msg.sender);
        if (seat & CONVICTED != 0) revert IRefusals.SeatIsConvicted(seat & ~CONVICTED);
        return Slots.slotOf(pool, number);
    }

    function _count(Round storage round, uint256 slot) private {
        uint64 committed = round.committed | uint64(1 << slot);
        (uint256 count, uint256 counted) = (LibBit.popCount(committed), round.counted);
        round.committed = committed;
        if (round.enough == 0 && 3 * count >= 2 * counted) round.enough = uint40(block.number);
        if (count == counted) round.closing = uint40(block.number);
    }
}
