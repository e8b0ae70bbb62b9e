// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {Draw} from "../libraries/Draw.sol";
import {Statements} from "../libraries/Statements.sol";
import {EPOCH_ROUNDS, GameTerms, Phase, RING_ROUNDS} from "./GameTypes.sol";
import {RoundDraws} from "./RoundDraws.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {Frame, Frames, FrameWords, Outcome, Track} from "./libraries/Frames.sol";
import {OpenCounts} from "./libraries/OpenCounts.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Ends rounds: a majority posts the outer root, or the base root stands; a root that lost its contest falls.
/// @dev Twin of `protocol/spec/game/root_posting.py`, and of `_fall` in `contests.py`.
abstract contract RoundPosting is RoundDraws {
    using Frames for Frame;
    using FrameWords for Frame;
    using FrameWords for Outcome;
    using FrameWords for Track;
    using FrameWords for uint256;

    // Posting ---------------------------------------------------------------------------------------------------------
    /// @inheritdoc IRounds
    function post(
        TaskId task,
        uint256 round,
        uint64 merged,
        bytes32 root,
        uint64 signers,
        bytes calldata signatures
    ) external {
        (RoundRing storage s, Track memory t) = _at(task);
        Frame memory f = _waiting(s, t, round);
        GameTerms storage terms = _tasks[task].terms;
        (uint64 closed, bool isAnyClosed) = seatBook.closures(task);
        Outcome memory outcome = s.outcomes[round % RING_ROUNDS].toOutcome();
        bool isAgain = f.phaseOf() == Phase.FALLEN;
        if (!isAgain) outcome.fallen = 0;
        _requirePostable(task, f, terms, round, outcome.fallen, merged, closed);
        signers = votes.requireMajority(
            task, _mergeOf(task, s, f.pool, round, merged, root), f.pool & ~closed, signers, signatures
        );
        if (isAgain) (s.reposted[round], f.flags) = (root, f.flags | Frames.REPOSTED);
        (outcome.merged, outcome.signers) = (merged, signers);
        outcome.rootUntil = uint40((isAgain ? block.number : f.at(f.closed)) + terms.windows.dispute);
        s.outcomes[round % RING_ROUNDS] = outcome.pack();
        f.setPhase(Phase.POSTED);
        _keep(s, round, f);
        emit RootPosted(task, round, root, merged, signers);
        _openNext(task, s, t, root, closed, isAnyClosed);
    }

    /// @param fallen when its posted root fell; 0: it has not
    function _requirePostable(
        TaskId task,
        Frame memory f,
        GameTerms storage terms,
        uint256 round,
        uint256 fallen,
        uint64 merged,
        uint64 closed
    ) private view {
        Fates memory fates = _fatesOf(task, f, terms, round, closed);
        uint256 from = f.at(f.closed) + (fates.undecided == 0 ? 0 : terms.windows.auditMax);
        _requireWindow(fallen == 0 ? from : fallen, _postUntil(f, terms, fallen));
        if (merged == 0 || merged & ~fates.mergeable != 0) {
            revert IRefusals.NotMergeable(fates.mergeable, merged);
        }
    }

    /// @dev The closed round that has no root yet.
    function _waiting(RoundRing storage s, Track memory t, uint256 round) private view returns (Frame memory f) {
        if (t.live != round + 1) revert IRefusals.NotNewest(round);
        f.fill(s.frames[round % RING_ROUNDS]);
        if (!f.isClosed()) revert IRefusals.NotNewest(round);
    }

    function _postUntil(Frame memory f, GameTerms storage terms, uint256 fallen) private view returns (uint256) {
        return (fallen == 0 ? f.at(f.closed) + terms.windows.auditMax : fallen) + terms.windows.post - 1;
    }

    /// @dev What each signer has signed. Roots stand in the order of their shards.
    function _mergeOf(TaskId task, RoundRing storage s, uint256 pool, uint256 round, uint64 merged, bytes32 root)
        private
        view
        returns (Statements.MergeSignature memory)
    {
        bytes32[] memory roots = new bytes32[](LibBit.popCount(merged));
        uint256 seats = LibBit.popCount(pool);
        uint256 slot = seats - Draw.uniform(s.beacons[round % RING_ROUNDS], 0, seats);
        uint256 found;
        unchecked {
            // From the slot of shard 0 on.
            for (uint256 shard = 0; shard < seats; ++shard) {
                if (slot == seats) slot = 0;
                if (merged >> slot & 1 == 1) roots[found++] = s.claims[round % RING_ROUNDS << 6 | slot];
                ++slot;
            }
        }
        bytes32 base = s.bases[round % RING_ROUNDS];
        return Statements.MergeSignature(
            _domain(task), uint32(round), base, merged, Statements.mergedHash(roots), root
        );
    }

    /// @inheritdoc IRounds
    function stand(TaskId task, uint256 round) external {
        (RoundRing storage s, Track memory t) = _at(task);
        Frame memory f = _waiting(s, t, round);
        GameTerms storage terms = _tasks[task].terms;
        bool isAgain = f.phaseOf() == Phase.FALLEN;
        uint256 last = _postUntil(f, terms, isAgain ? s.outcomes[round % RING_ROUNDS].toOutcome().fallen : 0);
        if (block.number <= last) {
            Fates memory fates = _fatesOf(task, f, terms, round, seatBook.closedSolvers(task));
            if (fates.undecided | fates.mergeable != 0) revert IRefusals.NotLate(last, block.number);
        }
        f.setPhase(Phase.STANDING);
        _keep(s, round, f);
        emit RootStood(task, round);
        (uint64 closed, bool isAnyClosed) = seatBook.closures(task);
        _openNext(task, s, t, s.bases[round % RING_ROUNDS], closed, isAnyClosed);
    }

    // Falling ---------------------------------------------------------------------------------------------------------
    /// @inheritdoc IRounds
    function fall(TaskId task, uint256 round, bool isLast)
        external
        onlyGame
        returns (uint64 signers, uint256 firstUndone, uint256 lastUndone)
    {
        (RoundRing storage s, Track memory t) = _at(task);
        Frame memory f = _frameAt(s, round);
        f.setPhase(Phase.FALLEN);
        _keep(s, round, f);
        Outcome memory outcome = s.outcomes[round % RING_ROUNDS].toOutcome();
        (signers, outcome.fallen) = (outcome.signers, uint40(block.number));
        s.outcomes[round % RING_ROUNDS] = outcome.pack();
        (firstUndone, lastUndone) = (round + 1, t.nextRound - 1);
        for (uint256 later = firstUndone; later <= lastUndone; ++later) {
            _undo(s, later);
        }
        t.live = round + 1;
        _dropUnopened(t);
        bool isHalting = isLast && t.isHalted == 0;
        if (isHalting) t.isHalted = 1;
        s.track = t.pack();
        emit RootFell(task, round);
        if (isHalting) emit TaskHalted(task);
    }

    function _undo(RoundRing storage s, uint256 round) private {
        Frame memory f = _frameAt(s, round);
        if (f.phaseOf() == Phase.UNDONE) return;
        if (!f.isClosed()) (f.closed, f.flags) = (f.offsetOf(block.number), f.flags | Frames.SYNCED);
        f.setPhase(Phase.UNDONE);
        _keep(s, round, f);
    }

    /// @inheritdoc IRounds
    function freeEpoch(TaskId task) external {
        (RoundRing storage s, Track memory t) = _at(task);
        uint256 epoch = t.freedEpochs;
        uint256 end = (epoch + 1) * EPOCH_ROUNDS;
        bool isContested = OpenCounts.at(contests.openOf(task), epoch) != 0;
        if (t.nextRound < end || isContested || seatBook.settledBy(task) < end) {
            revert IRefusals.NotSettleable(0, end - 1);
        }
        t.freedEpochs = epoch + 1;
        s.track = t.pack();
        emit EpochFreed(task, epoch);
    }
}
