// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {GameTerms, RANKS, SeatRole, SeatStatus} from "./GameTypes.sol";
import {TaskStorage} from "./TaskStorage.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {ISeats} from "./interfaces/ISeats.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Freezes the pools of a round: which seats sit in it, and whether they are enough.
/// @dev Twin of `protocol/spec/game/pools.py`. Whatever changes a pool first closes a round whose closing block is past (`rounds.sync`), so that
/// nothing later gets into a frozen pool.
abstract contract SeatPools is TaskStorage, ISeats {
    // Freezing --------------------------------------------------------------------------------------------------------
    /// @inheritdoc ISeats
    function freezePools(TaskId task)
        external
        onlyGame
        returns (uint64 solvers, uint24 verifiers, uint24 whistleblowers, bool isEnough_)
    {
        Task storage entry = _tasks[task];
        if (!entry.isFresh) _refresh(entry);
        return (entry.solvers, entry.verifiers, entry.whistleblowers, entry.isEnough);
    }

    function _refresh(Task storage entry) private {
        uint64 solvers = _freezeSolvers(entry, entry.members[uint256(SeatRole.SOLVER)]);
        (uint24 verifiers, uint256 count) = _freeze(entry.members[uint256(SeatRole.VERIFIER)]);
        (uint24 whistleblowers, uint256 lateCount) = _freeze(entry.members[uint256(SeatRole.WHISTLEBLOWER)]);
        (entry.solvers, entry.verifiers, entry.whistleblowers) = (solvers, verifiers, whistleblowers);
        entry.isEnough = _hasLeast(entry, LibBit.popCount(solvers), count, lateCount);
        entry.isFresh = true;
    }

    /// @dev The largest stakes sit; the others stay members and wait.
    function _freezeSolvers(Task storage entry, RolePools storage members) private returns (uint64 sitting) {
        if (!members.isDirty) return entry.solvers;
        uint256 live = members.live[0];
        bool isFull = LibBit.popCount(live) > entry.terms.solverSeats;
        if (isFull) (live,) = _largest(entry, live);
        (sitting, members.isDirty) = (uint64(live), false);
    }

    /// @dev A copy, where anything has changed since the last one.
    function _freeze(RolePools storage members) private returns (uint24 version, uint256 count) {
        (version, count) = (members.version, members.count);
        if (!members.isDirty) return (version, count);
        unchecked {
            (version, count) = (version + 1, 0);
            uint256 span = members.span;
            for (uint256 i = 0; i < span; ++i) {
                uint256 word = members.live[i];
                members.frozen[uint256(version) << 8 | i] = word;
                count += LibBit.popCount(word);
            }
        }
        (members.version, members.isDirty, members.count) = (version, false, uint16(count));
    }

    /// @dev As many solver seats as there are places: those with the largest stakes, of equal ones the lower number first.
    /// @return chosen numbers
    /// @return leastWei the smallest stake among them
    function _largest(Task storage entry, uint256 numbers)
        internal
        view
        returns (uint256 chosen, uint256 leastWei)
    {
        (uint256 excess, uint256 places) = (LibBit.popCount(numbers), entry.terms.solverSeats);
        chosen = numbers;
        unchecked {
            // One is taken out a turn, until as many are left as there are places: of equal ones the highest number, whoever came later.
            for (;; --excess) {
                uint256 smallest;
                leastWei = type(uint256).max;
                for (uint256 left = chosen; left != 0; left &= left - 1) {
                    uint256 number = LibBit.ffs(left);
                    uint256 wei_ = entry.seatAt[uint256(SeatRole.SOLVER) << 16 | number].stakeWei;
                    if (wei_ <= leastWei) (smallest, leastWei) = (number, wei_);
                }
                if (excess <= places) return (chosen, leastWei);
                chosen &= ~(1 << smallest);
            }
        }
    }

    // Sitting ---------------------------------------------------------------------------------------------------------
    /// @dev Whether an open seat sits in pools frozen from now on: with its stake whole.
    function _seatOrNot(Task storage entry, GameTerms storage terms, uint256 seat) internal {
        Record storage record = entry.seatAt[seat];
        bool isWhole = record.stakeWei >= _required(terms, SeatRole(seat >> 16));
        _sit(entry, seat, isWhole && record.status == SeatStatus.OPEN);
    }

    function _sit(Task storage entry, uint256 seat, bool sits) private {
        RolePools storage members = entry.members[seat >> 16];
        (uint256 word, uint256 bit) = ((seat & NUMBER) / 256, 1 << ((seat & NUMBER) % 256));
        uint256 live = members.live[word];
        // Who of the solvers sits depends on all of their stakes.
        bool isChanging = (live & bit != 0) != sits;
        if (isChanging) members.live[word] = live ^ bit;
        if (isChanging || seat >> 16 == uint256(SeatRole.SOLVER)) (members.isDirty, entry.isFresh) = (true, false);
    }

    function _required(GameTerms storage terms, SeatRole role) internal view returns (uint256) {
        if (role == SeatRole.NONE) revert IRefusals.SeatUnknown(0);
        return role == SeatRole.SOLVER ? terms.amounts.solverStake : terms.amounts.auditorStake;
    }

    function _retire(TaskId task, Task storage entry, uint256 seat) internal {
        entry.seatAt[seat].status = SeatStatus.LEAVING;
        _unseat(entry, seat);
        emit SeatLeft(task, seat);
    }

    function _unseat(Task storage entry, uint256 seat) internal {
        if (seat >> 16 == uint256(SeatRole.SOLVER)) entry.openSolvers &= ~uint64(1 << (seat & NUMBER));
        _sit(entry, seat, false);
    }

    // Frozen pools ----------------------------------------------------------------------------------------------------
    /// @inheritdoc ISeats
    function poolOf(TaskId task, SeatRole role, uint256 version)
        external
        view
        returns (uint256[] memory words)
    {
        RolePools storage members = _tasks[task].members[uint256(role)];
        bool isFrozen = version != 0 && version <= members.version;
        words = new uint256[](isFrozen ? members.span : 0);
        unchecked {
            for (uint256 i = 0; i < words.length; ++i) {
                words[i] = members.frozen[version << 8 | i];
            }
        }
    }

    /// @inheritdoc ISeats
    function heldRounds(TaskId task, uint256 seat, uint256 first, uint256 last)
        public
        view
        returns (uint256 bitmap)
    {
        (uint256 role, uint256 number) = (seat >> 16, seat & NUMBER);
        for (uint256 round = first; round <= last; ++round) {
            (uint256 word, uint256 verifiers, uint256 whistleblowers) = rounds.poolsOf(task, round);
            if (role != uint256(SeatRole.SOLVER)) {
                bool isVerifier = role == uint256(SeatRole.VERIFIER);
                uint256 version = isVerifier ? verifiers : whistleblowers;
                word = _tasks[task].members[role].frozen[version << 8 | number / 256];
            }
            if (word >> (number % 256) & 1 == 1) bitmap |= 1 << (round - first);
        }
    }

    /// @inheritdoc ISeats
    function settledBy(TaskId task) external view returns (uint256 round) {
        Task storage entry = _tasks[task];
        round = type(uint32).max;
        unchecked {
            for (uint256 role = 1; role <= RANKS; ++role) {
                RolePools storage members = entry.members[role];
                for (uint256 i = 0; i < members.span; ++i) {
                    for (uint256 left = members.taken[i]; left != 0; left &= left - 1) {
                        uint256 seat = role << 16 | i << 8 | LibBit.ffs(left);
                        round = _min(round, entry.seatAt[seat].settled);
                    }
                }
            }
        }
    }

    // Enough seats ----------------------------------------------------------------------------------------------------
    /// @inheritdoc ISeats
    function isEnough(TaskId task, uint64 solvers, uint24 verifiers, uint24 whistleblowers)
        external
        view
        returns (bool)
    {
        Task storage entry = _tasks[task];
        (uint64 closed,) = closures(task);
        RolePools storage members = entry.members[uint256(SeatRole.VERIFIER)];
        uint256 count = _count(members, members.frozen, uint256(verifiers) << 8);
        members = entry.members[uint256(SeatRole.WHISTLEBLOWER)];
        uint256 lateCount = _count(members, members.frozen, uint256(whistleblowers) << 8);
        return _hasLeast(entry, LibBit.popCount(solvers & ~closed), count, lateCount);
    }

    /// @inheritdoc ISeats
    function isFunded(TaskId task) external view returns (bool) {
        Task storage entry = _tasks[task];
        uint256[4] memory counts;
        for (uint256 role = 1; role <= RANKS; ++role) {
            RolePools storage members = entry.members[role];
            counts[role] = _count(members, members.live, 0);
        }
        return _hasLeast(entry, counts[1], counts[2], counts[3]);
    }

    /// @dev Seats of a pool that are not closed.
    /// @param from where its words begin
    function _count(RolePools storage members, mapping(uint256 => uint256) storage words, uint256 from)
        private
        view
        returns (uint256 count)
    {
        unchecked {
            uint256 span = members.span;
            for (uint256 i = 0; i < span; ++i) {
                count += LibBit.popCount(words[from | i] & ~members.closed[i]);
            }
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

    /// @inheritdoc ISeats
    function closedSolvers(TaskId task) external view returns (uint64 solvers) {
        (solvers,) = closures(task);
    }

    /// @inheritdoc ISeats
    function closures(TaskId task) public view returns (uint64 solvers, bool isAny) {
        Task storage entry = _tasks[task];
        if (entry.closedSeats == 0) return (0, false);
        return (uint64(entry.members[uint256(SeatRole.SOLVER)].closed[0]), true);
    }
}
