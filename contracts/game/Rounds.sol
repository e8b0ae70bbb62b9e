// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {Phase, RoundView, SeatRole} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {RoundFacts} from "./RoundFacts.sol";
import {RoundPosting} from "./RoundPosting.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {Slots} from "./libraries/Slots.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Rounds from START to POST, and what others read of them.
contract Rounds is RoundPosting, RoundFacts {
    constructor(Modules memory modules) Module(modules) {}

    // One round
    /// @inheritdoc IRounds
    function roundOf(TaskId task, uint256 round) external view returns (RoundView memory view_) {
        Round storage here = _roundOf(task, round);
        (view_.phase, view_.committed, view_.opened) = (here.phase, here.committed, here.opened);
        (view_.isDrawn, view_.closed) = (here.isDrawn, _closedAt(here));
        (view_.pool, view_.verifiers, view_.whistleblowers) = (here.pool, here.verifiers, here.whistleblowers);
        view_.base = here.base;
        if (view_.isDrawn) view_.seed = here.seed;
        (view_.lateFrom, view_.lateSlots) = (here.lateFrom, here.lateSlots);
        view_.lateSeed = _lateSeed(task, here);
        if (view_.phase != Phase.POSTED) return view_;
        (view_.merged, view_.signers, view_.rootUntil) = (here.merged, here.signers, here.rootUntil);
        view_.root = _rootOf(task, round);
    }

    /// @inheritdoc IRounds
    function statusesOf(TaskId task, uint256 round) external view returns (ClaimStatuses memory) {
        return _statusesOf(_roundOf(task, round), _tasks[task].terms, _convictedSolvers(_tasks[task]));
    }

    /// @inheritdoc IRounds
    function beaconOf(TaskId task, uint256 round) external view returns (bytes32) {
        RoundLine storage line = _lines[task];
        if (round >= line.nextRound) return round < line.assignedTo ? _roundAt(task, round).beacon : bytes32(0);
        Round storage here = _roundOf(task, round);
        return here.sharded == 0 ? bytes32(0) : here.beacon;
    }

    // Claims
    /// @inheritdoc IRounds
    function claimsOf(TaskId task, uint256 round)
        external
        view
        returns (bytes32[] memory roots, uint256[] memory segments)
    {
        Round storage here = _roundOf(task, round);
        uint256 slots = LibBit.popCount(here.pool);
        (roots, segments) = (new bytes32[](slots), new uint256[](slots));
        for (uint256 slot = 0; slot < slots; ++slot) {
            (roots[slot], segments[slot]) = _claimAt(here, slot);
        }
    }

    /// @inheritdoc IRounds
    function claimOf(TaskId task, uint256 round, uint256 slot)
        external
        view
        returns (uint256 seat, bytes32 root, uint256 segments)
    {
        Round storage here = _roundOf(task, round);
        if (!_hasClaim(here, slot)) return (0, 0, 0);
        seat = _seatId(SeatRole.SOLVER, Slots.numberAt(here.pool, slot));
        (root, segments) = _claimAt(here, slot);
    }

    // The line of rounds
    /// @inheritdoc IRounds
    function lineOf(TaskId task) external view returns (Line memory, bytes32 root) {
        RoundLine storage line = _lines[task];
        root = line.live == 0 ? line.root : _roundAt(task, line.live - 1).base;
        return (
            Line(
                line.nextRound,
                line.live,
                line.frozenTo,
                line.assignedTo,
                line.pausedSince,
                line.startBlock,
                line.freedEpochs,
                line.isHalted
            ),
            root
        );
    }

    /// @inheritdoc IRounds
    function nextRound(TaskId task) external view returns (uint256) {
        return _lines[task].nextRound;
    }

    /// @inheritdoc IRounds
    function isOver(TaskId task) external view returns (bool) {
        return _isOver(task);
    }

    // Settlement
    /// @inheritdoc IRounds
    function factsOf(TaskId task, uint256 first, uint256 last) external view returns (Facts[] memory) {
        return _factsOf(task, first, last);
    }
}
