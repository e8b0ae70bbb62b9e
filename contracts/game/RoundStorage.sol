// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {GameStorage} from "./GameStorage.sol";
import {EPOCH_ROUNDS, RING_ROUNDS} from "./GameTypes.sol";
import {Module} from "./Module.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {Frame, Frames, FrameWords, Roster, Track} from "./libraries/Frames.sol";

/// @title Keeps the rounds of each task, closes them when their time is over, and freezes pools for those to come.
/// @dev Rounds are kept in a ring: storage that is written again costs a quarter of new storage. A round opens only where the one 128 before it is
/// settled (`freeEpoch`). Twin of `protocol/spec/game/timing.py`.
abstract contract RoundStorage is GameStorage, Module, IRounds {
    using Frames for Frame;
    using FrameWords for Frame;
    using FrameWords for Roster;
    using FrameWords for Track;
    using FrameWords for uint256;

    uint256 private constant RING_EPOCHS = RING_ROUNDS / EPOCH_ROUNDS;

    // Closing ---------------------------------------------------------------------------------------------------------
    /// @inheritdoc IRounds
    function sync(TaskId task) external {
        RoundRing storage s = _roundRings[task];
        _sync(task, s, s.track.toTrack());
    }

    /// @dev What the closing block still changed counts, what a later block changes does not.
    function _sync(TaskId task, RoundRing storage s, Track memory t) private {
        if (t.live == 0) return;
        uint256 round = t.live - 1;
        uint256 word = s.frames[round % RING_ROUNDS];
        if (word.hasFlag(Frames.SYNCED)) return;
        Frame memory f = word.toFrame();
        uint256 closing = _closingOf(task, f, t);
        if (block.number <= closing) return;
        f.closed = f.offsetOf(closing);
        f.flags |= Frames.SYNCED;
        _keep(s, round, f);
        emit RoundClosed(task, round, closing);
        if (t.frozenTo == round + 2) _freeze(task, s, t, round + 2, round + 3);
    }

    /// @dev The closing block, as far as the commitments so far decide it.
    function _closingOf(TaskId task, Frame memory f, Track memory t) private view returns (uint256) {
        if (f.trained != 0 || f.closed != 0) return f.closingBlock(t);
        return f.beaconBlock(_tasks[task].terms.windows) + _limits.sealBlocks;
    }

    /// @dev The pools as they are now, for the rounds `from` .. `to` - 1 as far as the task and the ring have room.
    function _freeze(TaskId task, RoundRing storage s, Track memory t, uint256 from, uint256 to) internal {
        to = _min(to, _tasks[task].terms.rounds);
        if (from >= to || !_isFree(t, from)) return;
        Roster memory roster;
        (roster.pool, roster.verifiers, roster.whistleblowers, roster.isEnough) = seatBook.freezePools(task);
        for (; from < to && _isFree(t, from); ++from) {
            s.rosters[from % RING_ROUNDS] = roster.pack();
            t.frozenTo = from + 1;
        }
        s.track = t.pack();
    }

    function _isFree(Track memory t, uint256 round) internal pure returns (bool) {
        return round / EPOCH_ROUNDS < RING_EPOCHS + t.freedEpochs;
    }

    // Reading and writing ---------------------------------------------------------------------------------------------
    /// @dev The task's rounds, the clock taken into account. Who changes the track keeps it.
    function _at(TaskId task) internal returns (RoundRing storage s, Track memory t) {
        s = _roundRings[task];
        t.fill(s.track);
        if (t.segments == 0) revert IRefusals.TaskUnknown(TaskId.unwrap(task));
        _sync(task, s, t);
    }

    function _frameAt(RoundRing storage s, uint256 round) internal view returns (Frame memory f) {
        f.fill(s.frames[round % RING_ROUNDS]);
    }

    function _keep(RoundRing storage s, uint256 round, Frame memory f) internal {
        s.frames[round % RING_ROUNDS] = f.pack();
    }

    function _rosterAt(RoundRing storage s, uint256 round) internal view returns (Roster memory roster) {
        roster.fill(s.rosters[round % RING_ROUNDS]);
    }

    function _frameOf(RoundRing storage s, Track memory t, uint256 round) internal view returns (Frame memory f) {
        _requireKept(t, round);
        f.fill(s.frames[round % RING_ROUNDS]);
    }

    function _requireKept(Track memory t, uint256 round) private pure {
        bool isKept = round / EPOCH_ROUNDS >= t.freedEpochs;
        if (round >= t.nextRound || !isKept) revert IRefusals.RoundUnknown(round);
    }

    /// @dev A round as it is looked at: the clock is not.
    function _look(TaskId task, uint256 round)
        internal
        view
        returns (RoundRing storage s, Track memory t, Frame memory f)
    {
        s = _roundRings[task];
        t.fill(s.track);
        _requireKept(t, round);
        f.fill(s.frames[round % RING_ROUNDS]);
    }
}
