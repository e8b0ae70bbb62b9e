// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {EPOCH_ROUNDS, RING_ROUNDS, SeatRole} from "./GameTypes.sol";
import {RoundReading} from "./RoundReading.sol";
import {SeatReading} from "./SeatReading.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Freezes the pools of rounds: which seats sit in them, and whether they are enough.
/// @dev Twin of `protocol/spec/game/pools.py`. Whatever changes a pool first closes a round whose closing block is past (`IRounds.sync`), so that
/// nothing later gets into a frozen pool.
abstract contract PoolFreezing is SeatReading, RoundReading {
    uint256 private constant RING_EPOCHS = RING_ROUNDS / EPOCH_ROUNDS;

    // Freezing (4)
    /// @dev The pools as they are now, for the rounds `from` .. `to` - 1 as far as the task and the ring have room.
    function _freeze(TaskId task, RoundLine storage line, uint256 from, uint256 to) internal {
        Task storage entry = _tasks[task];
        to = _min(to, entry.terms.rounds);
        if (from >= to || !_isFree(line, from)) return;
        if (!entry.isFresh) _refresh(entry);
        for (; from < to && _isFree(line, from); ++from) {
            Round storage round = _roundAt(task, from);
            (round.pool, round.isEnough) = (entry.solvers, entry.isEnough);
            (round.verifiers, round.whistleblowers) = (entry.verifiers, entry.whistleblowers);
            (round.lateFrom, round.lateSlots, round.lateBy) = (0, 0, 0);
            line.frozenTo = uint16(from + 1);
        }
    }

    /// @dev Whether the ring has a place for a round: the epoch of the round 128 before is freed.
    function _isFree(RoundLine storage line, uint256 round) internal view returns (bool) {
        return round / EPOCH_ROUNDS < RING_EPOCHS + line.freedEpochs;
    }

    function _refresh(Task storage entry) private {
        uint64 solvers = _freezeSolvers(entry, entry.members[uint256(SeatRole.SOLVER)]);
        (uint24 verifiers, uint256 count) = _freezeAuditors(entry.members[uint256(SeatRole.VERIFIER)]);
        (uint24 whistleblowers, uint256 lateCount) = _freezeAuditors(entry.members[uint256(SeatRole.WHISTLEBLOWER)]);
        (entry.solvers, entry.verifiers, entry.whistleblowers) = (solvers, verifiers, whistleblowers);
        entry.isEnough = _hasLeast(entry, LibBit.popCount(solvers), count, lateCount);
        entry.isFresh = true;
    }

    /// @dev The largest stakes sit; the others stay members and wait.
    function _freezeSolvers(Task storage entry, RolePools storage members) private returns (uint64 solvers) {
        if (!members.isDirty) return entry.solvers;
        uint256 live = members.live[0];
        bool isFull = LibBit.popCount(live) > entry.terms.solverSeats;
        if (isFull) (live,) = _largest(entry, live);
        (solvers, members.isDirty) = (uint64(live), false);
    }

    /// @dev A copy, where anything has changed since the last one.
    function _freezeAuditors(RolePools storage members) private returns (uint24 version, uint256 count) {
        (version, count) = (members.version, members.count);
        if (!members.isDirty) return (version, count);
        (version, count) = (version + 1, 0);
        uint256 span = members.span;
        for (uint256 i = 0; i < span; ++i) {
            uint256 word = members.live[i];
            members.frozen[uint256(version) << 8 | i] = word;
            count += LibBit.popCount(word);
        }
        (members.version, members.isDirty, members.count) = (version, false, uint16(count));
    }

    // Enough seats (4)
    /// @dev Whether a round can be played with its pools: convicted seats do not count.
    function _isEnough(TaskId task, Round storage round) internal view returns (bool) {
        Task storage entry = _tasks[task];
        if (entry.convictedCount == 0) return round.isEnough;
        RolePools storage members = entry.members[uint256(SeatRole.VERIFIER)];
        uint256 verifiers = _count(members, members.frozen, uint256(round.verifiers) << 8);
        members = entry.members[uint256(SeatRole.WHISTLEBLOWER)];
        uint256 whistleblowers = _count(members, members.frozen, uint256(round.whistleblowers) << 8);
        uint256 solvers = LibBit.popCount(round.pool & ~_convictedSolvers(entry));
        return _hasLeast(entry, solvers, verifiers, whistleblowers);
    }

    /// @dev Whether the pools as they are now would be enough.
    function _isManned(TaskId task) internal view returns (bool) {
        Task storage entry = _tasks[task];
        uint256[4] memory counts;
        for (uint256 role = uint256(SeatRole.SOLVER); role <= uint256(SeatRole.WHISTLEBLOWER); ++role) {
            RolePools storage members = entry.members[role];
            counts[role] = _count(members, members.live, 0);
        }
        return _hasLeast(entry, counts[1], counts[2], counts[3]);
    }

    /// @dev How many seats of a pool are not CONVICTED.
    /// @param from where its words begin
    function _count(RolePools storage members, mapping(uint256 => uint256) storage words, uint256 from)
        private
        view
        returns (uint256 count)
    {
        uint256 span = members.span;
        for (uint256 i = 0; i < span; ++i) {
            count += LibBit.popCount(words[from | i] & ~members.convicted[i]);
        }
    }

    function _hasLeast(Task storage entry, uint256 solvers, uint256 verifiers, uint256 whistleblowers)
        private
        view
        returns (bool)
    {
        return solvers >= entry.terms.leastSolvers && verifiers >= entry.terms.leastVerifiers
            && whistleblowers >= entry.terms.leastWhistleblowers;
    }
}
