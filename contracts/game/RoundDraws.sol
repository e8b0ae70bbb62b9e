// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {AuditDraw} from "../libraries/AuditDraw.sol";
import {EPOCH_ROUNDS, GameTerms, Phase} from "./GameTypes.sol";
import {RoundOpening} from "./RoundOpening.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IRounds} from "./interfaces/IRounds.sol";

/// @title Records the randomness of rounds, and draws audits and late audits.
/// @dev Twin of `round_draws.py` in `protocol/spec/game`.
abstract contract RoundDraws is RoundOpening {
    // Beacons and audits (7.2, 7.4)
    /// @inheritdoc IRounds
    function drawRound(TaskId task, uint256 round, bytes calldata proof) external {
        _syncedLine(task);
        Round storage here = _roundOf(task, round);
        if (here.sharded != 0 || here.phase != Phase.RUNNING) revert IRefusals.NoDrawDue(round);
        uint256 beaconBlock = _beaconBlock(here, _tasks[task].terms.windows);
        _requireWindow(beaconBlock + 1, beaconBlock + _bounds.headerBlocks);
        bytes32 value = randomness.read(beaconBlock, proof);
        here.sharded = uint40(block.number);
        here.beacon = AuditDraw.roundBeacon(_domain(task), uint32(round), value);
        emit RoundAssigned(task, round, value);
    }

    /// @inheritdoc IRounds
    function drawAudits(TaskId task, uint256 round, bytes calldata proof) external {
        RoundLine storage line = _syncedLine(task);
        GameTerms storage terms = _tasks[task].terms;
        Round storage here = _roundOf(task, round);
        if (!here.isClosed || here.isDrawn || here.phase == Phase.UNDONE) revert IRefusals.NoDrawDue(round);
        bytes32 value = _readDraw(here.closing, terms, proof);
        here.isDrawn = true;
        here.seed = AuditDraw.roundSeed(_domain(task), uint32(round), value);
        emit AuditsDrawn(task, round, value);
        if (terms.lateChance != 0) _drawLate(task, round, here.closing, uint32(round));
        _assign(task, line, value, round + 3);
    }

    function _readDraw(uint256 fromBlock, GameTerms storage terms, bytes calldata proof)
        private
        view
        returns (bytes32)
    {
        (uint256 first, uint256 last) = _drawWindow(fromBlock, terms.windows);
        _requireWindow(first, last);
        return randomness.read(first - 1, proof);
    }

    // Late audits (7.9)
    /// @dev Draws the late audits of all rounds before `before` that have none and can still have them. It goes back from the newest. Where a round has its
    /// late audits, the draw that gave them served all older rounds too: so there the search ends.
    function _drawLate(TaskId task, uint256 before, uint256 fromBlock, uint32 by) private {
        GameTerms storage terms = _tasks[task].terms;
        uint64 convictedSolvers = _convictedSolvers(_tasks[task]);
        uint256 oldest = _lines[task].freedEpochs * EPOCH_ROUNDS;
        for (uint256 number = before; number > oldest; --number) {
            Round storage round = _roundAt(task, number - 1);
            (bool isLast, bool isMissing) = _lacksLateAudits(round, terms.windows.dispute);
            if (isLast) return;
            if (!isMissing) continue;
            ClaimStatuses memory statuses = _statusesOf(round, terms, convictedSolvers);
            (round.lateFrom, round.lateBy) = (uint40(fromBlock), by);
            round.lateSlots = statuses.accepted | statuses.open;
        }
    }

    /// @return isLast no round before it can be missing its late audits
    function _lacksLateAudits(Round storage round, uint256 disputeBlocks)
        private
        view
        returns (bool isLast, bool isMissing)
    {
        // It is closed: rounds before a closed one are asked about, and those of a task that pauses.
        isLast = round.lateFrom != 0 || block.number > round.closing + disputeBlocks;
        isMissing = !isLast && round.committed != 0 && round.phase != Phase.UNDONE;
    }

    /// @inheritdoc IRounds
    function drawClosing(TaskId task, bytes calldata proof) external {
        RoundLine storage line = _syncedLine(task);
        (GameTerms storage terms, uint256 next) = (_tasks[task].terms, line.nextRound);
        uint256 fromBlock = _closingFrom(task, line, terms);
        if (fromBlock == 0) revert IRefusals.NoDrawDue(next);
        bytes32 value = _readDraw(fromBlock, terms, proof);
        emit ClosingDrawn(task, fromBlock, value);
        uint32 by = uint32(CLOSING | line.closingSeeds.length);
        // A round with this number may open later. Its seed is of another block.
        line.closingSeeds.push(AuditDraw.roundSeed(_domain(task), uint32(next), value));
        _drawLate(task, next, fromBlock, by);
    }

    /// @dev F of 7.9: the greatest close of the rounds that miss their late audits, plus auditMax; at the earliest the block in which the task came to
    /// pause. 0 where no closing seed is due.
    function _closingFrom(TaskId task, RoundLine storage line, GameTerms storage terms)
        private
        view
        returns (uint256 fromBlock)
    {
        if (terms.lateChance == 0 || line.live != 0 || _isStartAlive(line)) return 0;
        uint256 oldest = line.freedEpochs * EPOCH_ROUNDS;
        for (uint256 number = line.nextRound; number > oldest; --number) {
            Round storage round = _roundAt(task, number - 1);
            (bool isLast, bool isMissing) = _lacksLateAudits(round, terms.windows.dispute);
            if (isLast) break;
            if (isMissing) fromBlock = _max(fromBlock, uint256(round.closing) + terms.windows.auditMax);
        }
        if (fromBlock != 0) fromBlock = _max(fromBlock, line.pausedSince);
    }
}
