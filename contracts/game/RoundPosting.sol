// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {Draw} from "../libraries/Draw.sol";
import {Statements} from "../libraries/Statements.sol";
import {EPOCH_ROUNDS, GameTerms, Phase, SeatRole} from "./GameTypes.sol";
import {RoundDraws} from "./RoundDraws.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {OpenCounts} from "./libraries/OpenCounts.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Ends rounds: a majority posts the outer root, or the base root stands; a root falls whose contest ended in FALLS.
/// @dev Twin of `protocol/spec/game/root_posting.py`, and of `_fall` in `contests.py`.
abstract contract RoundPosting is RoundDraws {
    using OpenCounts for uint16[9];

    uint256 private constant SIGNATURE_BYTES = 64;

    // Posting (7.8)
    /// @inheritdoc IRounds
    function post(
        TaskId task,
        uint256 round,
        uint64 merged,
        bytes32 root,
        uint64 signers,
        bytes calldata signatures
    ) external {
        RoundLine storage line = _syncedLine(task);
        Round storage here = _waiting(task, line, round);
        GameTerms storage terms = _tasks[task].terms;
        bool isAgain = here.phase == Phase.FALLEN;
        // What the round 128 before has left: `_requirePostable` and `_rootOf` read it.
        if (!isAgain) here.fallen = 0;
        uint64 convictedSolvers = _convictedSolvers(_tasks[task]);
        _requirePostable(here, terms, merged, convictedSolvers, _postUntil(line, here, terms));
        bytes32 merge = Statements.hash(_mergeOf(task, here, round, merged, root));
        signers = _requireMajority(task, merge, here.pool & ~convictedSolvers, signers, signatures);
        if (isAgain) line.reposted[round] = root;
        (here.merged, here.signers) = (merged, signers);
        here.rootUntil = uint40((isAgain ? block.number : here.closing) + terms.windows.dispute);
        here.phase = Phase.POSTED;
        emit RootPosted(task, round, root, merged, signers);
        _openNext(task, line, root);
    }

    /// @param last the last block that takes a root
    function _requirePostable(
        Round storage round,
        GameTerms storage terms,
        uint64 merged,
        uint64 convictedSolvers,
        uint256 last
    ) private view {
        ClaimStatuses memory statuses = _statusesOf(round, terms, convictedSolvers);
        uint256 from = round.fallen;
        if (from == 0) from = round.closing + (statuses.undecided == 0 ? 0 : terms.windows.auditMax);
        _requireWindow(from, last);
        if (merged == 0 || merged & ~statuses.mergeable != 0) {
            revert IRefusals.NotMergeable(statuses.mergeable, merged);
        }
    }

    /// @dev The closed round that has no root yet.
    function _waiting(TaskId task, RoundLine storage line, uint256 number) private view returns (Round storage round) {
        round = _roundAt(task, number);
        if (line.live != number + 1 || !round.isClosed) revert IRefusals.NotNewest(number);
    }

    /// @dev The last block that takes a root, or a new one once it has fallen. Who has signed when a solver is convicted has to merge and sign again, without
    /// its claim: there is `post` for that too, until auditMax later at most.
    function _postUntil(RoundLine storage line, Round storage round, GameTerms storage terms)
        private
        view
        returns (uint256)
    {
        (uint256 auditMax, uint256 post_) = (terms.windows.auditMax, terms.windows.post);
        uint256 from = round.phase == Phase.FALLEN ? round.fallen : round.closing + auditMax;
        return _min(_max(from, line.convictedBlock), from + auditMax) + post_ - 1;
    }

    /// @dev What each signer has signed. Roots stand in the order of their shards.
    function _mergeOf(TaskId task, Round storage here, uint256 round, uint64 merged, bytes32 root)
        private
        view
        returns (Statements.MergeSignature memory)
    {
        bytes32[] memory roots = new bytes32[](LibBit.popCount(merged));
        uint256 seats = LibBit.popCount(here.pool);
        uint256 slot = seats - Draw.uniform(here.beacon, 0, seats);
        uint256 found;
        // From the slot of shard 0 on.
        for (uint256 shard = 0; shard < seats; ++shard) {
            if (slot == seats) slot = 0;
            if (merged >> slot & 1 == 1) roots[found++] = here.claims[slot].root;
            ++slot;
        }
        return Statements.MergeSignature(
            _domain(task), uint32(round), here.base, merged, Statements.mergedHash(roots), root
        );
    }

    /// @dev Signatures that are not good, and those of CONVICTED seats, do not count.
    /// @param seats numbers of the round's solver seats that are not CONVICTED
    /// @param signers numbers of seats
    /// @param signatures 64 bytes each, in ascending order of seat numbers
    /// @return good numbers of those whose signature is good: more than half of the seats
    function _requireMajority(
        TaskId task,
        bytes32 merge,
        uint64 seats,
        uint64 signers,
        bytes calldata signatures
    ) private view returns (uint64 good) {
        bytes32 digest = _digest(merge);
        for (uint256 left = signers; left != 0 && signatures.length >= SIGNATURE_BYTES; left &= left - 1) {
            (bytes32 r, bytes32 vs) = (bytes32(signatures), bytes32(signatures[32:]));
            address signer = Statements.signer(digest, r, vs);
            uint256 number = LibBit.ffs(left);
            address holder = _tasks[task].seatAt[_seatId(SeatRole.SOLVER, number)].account;
            if (signer != address(0) && signer == holder) good |= uint64(1 << number);
            signatures = signatures[SIGNATURE_BYTES:];
        }
        good &= seats;
        if (2 * LibBit.popCount(good) <= LibBit.popCount(seats)) revert IRefusals.NoMajority(seats, good);
    }

    /// @inheritdoc IRounds
    function stand(TaskId task, uint256 round) external {
        RoundLine storage line = _syncedLine(task);
        Round storage here = _waiting(task, line, round);
        GameTerms storage terms = _tasks[task].terms;
        uint256 last = _postUntil(line, here, terms);
        if (block.number <= last) {
            ClaimStatuses memory statuses = _statusesOf(here, terms, _convictedSolvers(_tasks[task]));
            if (statuses.undecided | statuses.mergeable != 0) revert IRefusals.NotLate(last, block.number);
        }
        here.phase = Phase.STANDING;
        emit RootStood(task, round);
        _openNext(task, line, here.base);
    }

    // Falling (7.11, 12.3)
    /// @inheritdoc IRounds
    function fall(TaskId task, uint256 round, uint256 number)
        external
        onlyGame
        returns (uint64 signers, uint256 firstUndone, uint256 lastUndone)
    {
        RoundLine storage line = _syncedLine(task);
        Round storage here = _roundAt(task, round);
        (here.phase, here.fallen) = (Phase.FALLEN, uint40(block.number));
        (firstUndone, lastUndone) = (round + 1, line.nextRound - 1);
        for (uint256 later = firstUndone; later <= lastUndone; ++later) {
            _undo(_roundAt(task, later), uint24(number));
        }
        line.live = uint16(round + 1);
        // So the task pauses once this round has a root again, or stands. The next round has the number after the last undone one.
        _dropUnopened(line);
        emit RootFell(task, round);
        return (here.signers, firstUndone, lastUndone);
    }

    function _undo(Round storage round, uint24 number) private {
        if (round.phase == Phase.UNDONE) return;
        if (!round.isClosed) (round.closing, round.isClosed) = (uint40(block.number), true);
        (round.phase, round.undoneBy) = (Phase.UNDONE, number);
    }

    /// @inheritdoc IRounds
    function freeEpoch(TaskId task) external {
        RoundLine storage line = _syncedLine(task);
        uint256 epoch = line.freedEpochs;
        uint256 end = (epoch + 1) * EPOCH_ROUNDS;
        bool isOpen = _contestsOpen[task].isAnyIn(epoch, epoch) || _isQuestioned(task, epoch);
        if (line.nextRound < end || isOpen || !_isSettled(task, epoch)) {
            revert IRefusals.NotSettleable(0, end - 1);
        }
        line.freedEpochs = uint16(epoch + 1);
        emit EpochFreed(task, epoch);
    }

    function _isQuestioned(TaskId task, uint256 epoch) private view returns (bool) {
        for (uint256 i = 0; i < EPOCH_ROUNDS; ++i) {
            if (_roundAt(task, epoch * EPOCH_ROUNDS + i).questions != 0) return true;
        }
        return false;
    }
}
