// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {AuditDraw} from "../libraries/AuditDraw.sol";
import {Draw} from "../libraries/Draw.sol";
import {Statements} from "../libraries/Statements.sol";
import {EPOCH_ROUNDS, GameTerms, GameWindows, Phase, RING_ROUNDS, RoundView, SeatRole} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {Frame, Frames, Outcome, Plan, Roster} from "./libraries/Frames.sol";
import {OpenCounts} from "./libraries/OpenCounts.sol";
import {Slots} from "./libraries/Slots.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Rounds from START to POST. Twin of `protocol/spec/game/rounds.py`, `posting.py` and `timing.py`.
/// @dev Rounds are kept in a ring: storage that is written again costs a quarter of new storage. A round opens only where the one 128 before it is
/// settled (`freeEpoch`).
contract Rounds is Module, IRounds {
    using Frames for Frame;

    uint256 private constant CLOSING = 1 << 31;
    uint256 private constant RING_EPOCHS = RING_ROUNDS / EPOCH_ROUNDS;

    /// @dev Keys are round % 128; of claims and segments (round % 128) << 6 | slot. `reposted` has whole rounds as keys: a root that was posted again.
    struct State {
        Line line;
        Plan plan;
        bytes32 root;
        mapping(uint256 => Frame) frames;
        mapping(uint256 => Roster) rosters;
        mapping(uint256 => Outcome) outcomes;
        mapping(uint256 => bytes32) bases;
        mapping(uint256 => bytes32) beacons;
        mapping(uint256 => bytes32) seeds;
        mapping(uint256 => bytes32) claims;
        mapping(uint256 => uint256) segments;
        mapping(uint256 => bytes32) reposted;
        bytes32[] closingSeeds;
    }

    uint256 private immutable _sealBlocks;
    mapping(TaskId => State) private _states;

    constructor(Modules memory modules, uint256 sealBlocks) Module(modules) {
        _sealBlocks = sealBlocks;
    }

    // Closing ---------------------------------------------------------------------------------------------------------
    /// @inheritdoc IRounds
    function begin(TaskId task, bytes32 root) external only(address(tasks)) {
        State storage s = _states[task];
        (s.root, s.line.standsSince) = (root, uint40(block.number));
        s.plan = _planOf(_terms(task));
    }

    function _planOf(GameTerms memory terms) private pure returns (Plan memory plan) {
        GameWindows memory w = terms.windows;
        (plan.delay, plan.drawGrid) = (uint24(w.delay), uint24(w.drawGrid));
        (plan.trainMin, plan.trainMax) = (uint24(w.trainMin), uint24(w.trainMax));
        (plan.auditMax, plan.post) = (uint24(w.auditMax), uint24(w.post));
        (plan.dispute, plan.ask) = (uint24(w.dispute), uint24(w.ask));
        uint256 segments = terms.innerSteps / terms.segmentSteps;
        (plan.segments, plan.rounds) = (uint16(segments), uint16(terms.rounds));
        plan.leastSegments = uint8(_min(segments, 3 * uint256(terms.draws) - 2));
        plan.hasLate = terms.lateChance != 0;
    }

    /// @inheritdoc IRounds
    function sync(TaskId task) external {
        State storage s = _states[task];
        if (s.line.live != 0) _sync(task, s, s.plan);
    }

    /// @dev What the closing block still changed counts, what a later block changes does not.
    function _sync(TaskId task, State storage s, Plan memory plan) private {
        uint256 live = s.line.live;
        if (live == 0) return;
        uint256 round = live - 1;
        Frame memory f = s.frames[round % RING_ROUNDS];
        uint256 closing = f.closingBlock(plan, _sealBlocks);
        if (f.isClosed() || block.number <= closing) return;
        bool isExcused = f.trained == 0 || contests.openOf(task) != 0;
        f.closed = f.offsetOf(closing);
        f.flags |= Frames.SYNCED | (isExcused ? Frames.EXCUSED : 0);
        s.frames[round % RING_ROUNDS] = f;
        emit RoundClosed(task, round, closing, isExcused);
        if (s.line.frozenTo == round + 2) _freeze(task, s, round + 2, round + 3, plan.rounds);
    }

    /// @dev The pools as they are now, for the rounds `from` .. `to` - 1 as far as the task and the ring have room.
    function _freeze(TaskId task, State storage s, uint256 from, uint256 to, uint256 rounds_) private {
        to = _min(to, rounds_);
        if (from >= to || !_isFree(s, from)) return;
        Roster memory roster;
        (roster.pool, roster.verifiers, roster.whistleblowers) = tasks.freezePools(task);
        for (; from < to && _isFree(s, from); ++from) {
            s.rosters[from % RING_ROUNDS] = roster;
            s.line.frozenTo = uint32(from + 1);
        }
    }

    function _isFree(State storage s, uint256 round) private view returns (bool) {
        return round / EPOCH_ROUNDS < RING_EPOCHS + s.line.freedEpochs;
    }

    // Starting --------------------------------------------------------------------------------------------------------
    /// @inheritdoc IRounds
    function start(TaskId task) external {
        (State storage s, Plan memory plan) = _at(task);
        uint256 next = s.line.nextRound;
        if (s.line.isHalted) revert IRefusals.TaskHalted(TaskId.unwrap(task));
        if (next >= plan.rounds) revert IRefusals.TaskOver(TaskId.unwrap(task));
        if (s.line.live != 0) revert IRefusals.NotStanding(s.line.live - 1);
        if (_isStartAlive(s)) revert IRefusals.StartPending(s.line.startBlock + _sealBlocks);
        if (!_isFree(s, next)) revert IRefusals.RingFull(next);
        if (!tasks.isFunded(task)) revert IRefusals.PoolTooSmall(TaskId.unwrap(task));
        _freeze(task, s, next, next + 2, plan.rounds);
        uint256 beaconBlock = AuditDraw.gridBlock(block.number + plan.delay, plan.drawGrid);
        s.line.startBlock = uint40(beaconBlock);
        emit StartAsked(task, next, beaconBlock);
    }

    function _isStartAlive(State storage s) private view returns (bool) {
        uint256 startBlock = s.line.startBlock;
        return startBlock != 0 && !s.line.isHalted && block.number <= startBlock + _sealBlocks;
    }

    /// @inheritdoc IRounds
    function sealStart(TaskId task, bytes calldata proof) external {
        (State storage s,) = _at(task);
        uint256 startBlock = s.line.startBlock;
        if (startBlock == 0) revert IRefusals.NothingToSeal(s.line.nextRound);
        if (s.line.isHalted) revert IRefusals.TaskHalted(TaskId.unwrap(task));
        _requireWindow(startBlock + 1, startBlock + _sealBlocks);
        if (!_isEnough(task, s)) revert IRefusals.PoolTooSmall(TaskId.unwrap(task));
        bytes32 value = randomness.read(startBlock, proof);
        emit StartSealed(task, value);
        s.line.dealtTo = s.line.nextRound;
        _deal(task, s, value, type(uint32).max);
        _open(task, s);
    }

    function _isEnough(TaskId task, State storage s) private view returns (bool) {
        Roster memory roster = s.rosters[s.line.nextRound % RING_ROUNDS];
        return tasks.isEnough(task, roster.pool, roster.verifiers, roster.whistleblowers);
    }

    /// @dev Beacons for frozen rounds up to and with `last` that have neither a beacon nor begun.
    function _deal(TaskId task, State storage s, bytes32 value, uint256 last) private {
        uint256 round = _max(s.line.dealtTo, s.line.nextRound);
        uint256 to = _min(last + 1, s.line.frozenTo);
        if (round >= to) return;
        bytes32 domain = _domain(task);
        for (; round < to; ++round) {
            s.beacons[round % RING_ROUNDS] = AuditDraw.roundBeacon(domain, uint32(round), value);
        }
        s.line.dealtTo = uint32(to);
    }

    function _open(TaskId task, State storage s) private {
        Line memory line = s.line;
        uint256 round = line.nextRound;
        uint256 seats = s.rosters[round % RING_ROUNDS].pool & ~tasks.closedSolvers(task);
        Frame memory f;
        (f.opened, f.counted) = (uint40(block.number), uint8(LibBit.popCount(seats)));
        if (round < line.dealtTo) f.trained = 1;
        f.setPhase(Phase.RUNNING);
        s.frames[round % RING_ROUNDS] = f;
        (s.bases[round % RING_ROUNDS], line.startBlock) = (s.root, 0);
        line.nextRound = line.live = uint32(round + 1);
        s.line = line;
        emit RoundOpened(task, round, s.root);
    }

    /// @dev After a round got its root: the next one opens, or the task stands still until it is started.
    function _openNext(TaskId task, State storage s) private {
        Line memory line = s.line;
        if (line.nextRound < line.frozenTo && !line.isHalted && _isEnough(task, s)) {
            _open(task, s);
            return;
        }
        (line.live, line.standsSince) = (0, uint40(block.number));
        _dropUnopened(line);
        s.line = line;
        emit TaskStood(task);
    }

    /// @dev Pools and beacons of rounds that were not opened are of no use any more.
    function _dropUnopened(Line memory line) private pure {
        (line.frozenTo, line.dealtTo, line.startBlock) = (line.nextRound, line.nextRound, 0);
    }

    /// @inheritdoc IRounds
    function halt(TaskId task) external {
        (State storage s,) = _at(task);
        address submitter = _terms(task).submitter;
        if (msg.sender != submitter) revert IRefusals.NotSubmitter(submitter, msg.sender);
        if (s.line.isHalted) revert IRefusals.TaskHalted(TaskId.unwrap(task));
        s.line.isHalted = true;
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
        (State storage s, Plan memory plan) = _at(task);
        Frame memory f = _frameOf(s, round);
        if (f.phaseOf() != Phase.RUNNING) revert IRefusals.RoundUndone(round);
        if (f.trained == 0) revert IRefusals.WrongBeacon(0, beacon);
        _requireWindow(f.opened, f.closingBlock(plan, _sealBlocks));
        uint256 slot = _slotOf(task, s, round);
        if (f.committed >> slot & 1 == 1) revert IRefusals.AlreadyCommitted(slot);
        _requireGround(s, round, baseRoot, beacon);
        uint256 most = plan.segments;
        if (segments < plan.leastSegments || segments > most) {
            revert IRefusals.WrongSegments(plan.leastSegments, most, segments);
        }
        uint256 key = round % RING_ROUNDS << 6 | slot;
        if (segments != most) (f.short, s.segments[key]) = (f.short | uint64(1 << slot), segments);
        _count(f, slot);
        s.claims[key] = claimRoot;
        s.frames[round % RING_ROUNDS] = f;
        emit ClaimTaken(task, round, slot, claimRoot, segments);
    }

    function _requireGround(State storage s, uint256 round, bytes32 baseRoot, bytes32 beacon) private view {
        bytes32 expected = s.bases[round % RING_ROUNDS];
        if (baseRoot != expected) revert IRefusals.WrongBase(expected, baseRoot);
        expected = s.beacons[round % RING_ROUNDS];
        if (beacon != expected) revert IRefusals.WrongBeacon(expected, beacon);
    }

    function _slotOf(TaskId task, State storage s, uint256 round) private view returns (uint256) {
        (uint256 seat, bool isClosed) = tasks.solverOf(task, msg.sender);
        (uint256 pool, uint256 number) = (s.rosters[round % RING_ROUNDS].pool, seat & type(uint16).max);
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

    // Drawing ---------------------------------------------------------------------------------------------------------
    /// @inheritdoc IRounds
    function sealRound(TaskId task, uint256 round, bytes calldata proof) external {
        (State storage s, Plan memory plan) = _at(task);
        Frame memory f = _frameOf(s, round);
        if (f.trained != 0 || f.phaseOf() != Phase.RUNNING) revert IRefusals.NothingToSeal(round);
        uint256 beaconBlock = f.beaconBlock(plan);
        _requireWindow(beaconBlock + 1, beaconBlock + _sealBlocks);
        bytes32 value = randomness.read(beaconBlock, proof);
        f.trained = f.offsetOf(block.number);
        s.frames[round % RING_ROUNDS] = f;
        s.beacons[round % RING_ROUNDS] = AuditDraw.roundBeacon(_domain(task), uint32(round), value);
        emit RoundDealt(task, round, value);
    }

    /// @inheritdoc IRounds
    function sealAudits(TaskId task, uint256 round, bytes calldata proof) external {
        (State storage s, Plan memory plan) = _at(task);
        Frame memory f = _frameOf(s, round);
        if (!f.isClosed() || f.has(Frames.SEALED) || f.phaseOf() == Phase.UNDONE) {
            revert IRefusals.NothingToSeal(round);
        }
        uint256 closed = f.at(f.closed);
        bytes32 value = _readDraw(closed, plan, proof);
        f.flags |= Frames.SEALED;
        s.frames[round % RING_ROUNDS] = f;
        s.seeds[round % RING_ROUNDS] = AuditDraw.roundSeed(_domain(task), uint32(round), value);
        emit AuditsDrawn(task, round, value);
        if (plan.hasLate) _drawLate(task, s, round, plan.dispute, closed, uint32(round));
        _deal(task, s, value, round + 2);
    }

    function _readDraw(uint256 fromBlock, Plan memory plan, bytes calldata proof)
        private
        view
        returns (bytes32)
    {
        (uint256 first, uint256 last) = Frames.drawWindow(fromBlock, plan, _sealBlocks);
        _requireWindow(first, last);
        return randomness.read(first - 1, proof);
    }

    /// @dev Late audits of rounds before `round` that have none and have not settled. Each such draw takes all of them, so the first one that was drawn
    /// already ends the search.
    function _drawLate(
        TaskId task,
        State storage s,
        uint256 round,
        uint256 disputeBlocks,
        uint256 fromBlock,
        uint32 by
    ) private {
        uint256 oldest = uint256(s.line.freedEpochs) * EPOCH_ROUNDS;
        while (round > oldest) {
            (bool isLast, bool isMissing) = _isMissing(s, --round, disputeBlocks);
            if (isLast) return;
            if (!isMissing) continue;
            Fates memory fates = _fatesOf(task, s, round);
            Roster storage roster = s.rosters[round % RING_ROUNDS];
            (roster.lateFrom, roster.lateBy) = (uint40(fromBlock), by);
            roster.lateSlots = fates.accepted | fates.open;
        }
    }

    /// @return isLast no round before it can be missing its late audits
    function _isMissing(State storage s, uint256 round, uint256 disputeBlocks)
        private
        view
        returns (bool isLast, bool isMissing)
    {
        Frame memory f = s.frames[round % RING_ROUNDS];
        if (!f.isClosed()) return (false, false);
        isLast = s.rosters[round % RING_ROUNDS].lateFrom != 0 || block.number > f.at(f.closed) + disputeBlocks;
        isMissing = !isLast && f.committed != 0 && f.phaseOf() != Phase.UNDONE;
    }

    /// @inheritdoc IRounds
    function sealClosing(TaskId task, bytes calldata proof) external {
        (State storage s, Plan memory plan) = _at(task);
        uint256 fromBlock = _closingFrom(s, plan);
        if (fromBlock == 0) revert IRefusals.NothingToSeal(s.line.nextRound);
        bytes32 value = _readDraw(fromBlock, plan, proof);
        bytes32 seed = AuditDraw.roundSeed(_domain(task), s.line.nextRound, value);
        emit ClosingDrawn(task, fromBlock, value);
        uint32 by = uint32(CLOSING | s.closingSeeds.length);
        s.closingSeeds.push(seed);
        _drawLate(task, s, s.line.nextRound, plan.dispute, fromBlock, by);
    }

    /// @dev From the last missing round's close + auditMax, at the earliest when the task came to stand still; 0 where no closing seed is due.
    function _closingFrom(State storage s, Plan memory plan) private view returns (uint256 fromBlock) {
        if (!plan.hasLate || s.line.live != 0 || _isStartAlive(s)) return 0;
        uint256 oldest = uint256(s.line.freedEpochs) * EPOCH_ROUNDS;
        for (uint256 round = s.line.nextRound; round > oldest;) {
            (bool isLast, bool isMissing) = _isMissing(s, --round, plan.dispute);
            if (isLast) break;
            Frame memory f = s.frames[round % RING_ROUNDS];
            if (isMissing) fromBlock = _max(fromBlock, f.at(f.closed) + plan.auditMax);
        }
        if (fromBlock != 0) fromBlock = _max(fromBlock, s.line.standsSince);
    }

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
        (State storage s, Plan memory plan) = _at(task);
        Frame memory f = _waiting(s, round);
        Fates memory fates = _fatesOf(task, s, round);
        _requireWindow(_postFrom(s, f, round, fates, plan), _postUntil(s, f, round, plan));
        if (merged == 0 || merged & ~fates.mergeable != 0) {
            revert IRefusals.NotMergeable(fates.mergeable, merged);
        }
        signers = votes.requireMajority(
            task,
            _mergeOf(task, s, round, merged, root),
            s.rosters[round % RING_ROUNDS].pool & ~tasks.closedSolvers(task),
            signers,
            signatures
        );
        bool isAgain = f.phaseOf() == Phase.FALLEN;
        if (isAgain) s.reposted[round] = root;
        uint256 from = isAgain ? block.number : f.at(f.closed);
        uint40 fallen = isAgain ? s.outcomes[round % RING_ROUNDS].fallen : 0;
        s.outcomes[round % RING_ROUNDS] =
            Outcome(merged, signers, uint40(from + plan.dispute), fallen);
        f.setPhase(Phase.POSTED);
        (s.frames[round % RING_ROUNDS], s.root) = (f, root);
        emit RootPosted(task, round, root, merged, signers);
        _openNext(task, s);
    }

    /// @dev The closed round that has no root yet.
    function _waiting(State storage s, uint256 round) private view returns (Frame memory f) {
        if (s.line.live != round + 1) revert IRefusals.NotNewest(round);
        f = s.frames[round % RING_ROUNDS];
        if (!f.isClosed()) revert IRefusals.NotNewest(round);
    }

    function _postFrom(
        State storage s,
        Frame memory f,
        uint256 round,
        Fates memory fates,
        Plan memory plan
    ) private view returns (uint256) {
        if (f.phaseOf() == Phase.FALLEN) return s.outcomes[round % RING_ROUNDS].fallen;
        return f.at(f.closed) + (fates.undecided == 0 ? 0 : plan.auditMax);
    }

    function _postUntil(State storage s, Frame memory f, uint256 round, Plan memory plan)
        private
        view
        returns (uint256)
    {
        if (f.phaseOf() == Phase.FALLEN) return s.outcomes[round % RING_ROUNDS].fallen + plan.post - 1;
        return f.at(f.closed) + plan.auditMax + plan.post - 1;
    }

    /// @dev What each signer has signed. Roots stand in the order of their shards.
    function _mergeOf(TaskId task, State storage s, uint256 round, uint64 merged, bytes32 root)
        private
        view
        returns (Statements.MergeSignature memory)
    {
        bytes32[] memory roots = new bytes32[](LibBit.popCount(merged));
        uint256 seats = LibBit.popCount(s.rosters[round % RING_ROUNDS].pool);
        uint256 offset = Draw.uniform(s.beacons[round % RING_ROUNDS], 0, seats);
        uint256 found;
        for (uint256 shard = 0; shard < seats; ++shard) {
            uint256 slot = (shard + seats - offset) % seats;
            if (merged >> slot & 1 == 1) roots[found++] = s.claims[round % RING_ROUNDS << 6 | slot];
        }
        bytes32 base = s.bases[round % RING_ROUNDS];
        return Statements.MergeSignature(
            _domain(task), uint32(round), base, Statements.mergedHash(roots), root
        );
    }

    /// @inheritdoc IRounds
    function stand(TaskId task, uint256 round) external {
        (State storage s, Plan memory plan) = _at(task);
        Frame memory f = _waiting(s, round);
        uint256 last = _postUntil(s, f, round, plan);
        if (block.number <= last) {
            Fates memory fates = _fatesOf(task, s, round);
            if (fates.undecided | fates.mergeable != 0) revert IRefusals.NotLate(last, block.number);
        }
        f.setPhase(Phase.STANDING);
        s.frames[round % RING_ROUNDS] = f;
        emit RootStood(task, round);
        _openNext(task, s);
    }

    // Falling ---------------------------------------------------------------------------------------------------------
    /// @inheritdoc IRounds
    function fall(TaskId task, uint256 round)
        external
        only(address(settlement))
        returns (uint64 signers, uint256 firstUndone, uint256 lastUndone)
    {
        (State storage s,) = _at(task);
        Line memory line = s.line;
        Frame memory f = s.frames[round % RING_ROUNDS];
        f.setPhase(Phase.FALLEN);
        s.frames[round % RING_ROUNDS] = f;
        Outcome storage outcome = s.outcomes[round % RING_ROUNDS];
        (signers, outcome.fallen) = (outcome.signers, uint40(block.number));
        (firstUndone, lastUndone) = (round + 1, line.nextRound - 1);
        for (uint256 later = firstUndone; later <= lastUndone; ++later) {
            _undo(s, later);
        }
        line.live = uint32(round + 1);
        _dropUnopened(line);
        (s.line, s.root) = (line, s.bases[round % RING_ROUNDS]);
        emit RootFell(task, round);
    }

    function _undo(State storage s, uint256 round) private {
        Frame memory f = s.frames[round % RING_ROUNDS];
        if (f.phaseOf() == Phase.UNDONE) return;
        if (!f.isClosed()) (f.closed, f.flags) = (f.offsetOf(block.number), f.flags | Frames.SYNCED);
        f.setPhase(Phase.UNDONE);
        s.frames[round % RING_ROUNDS] = f;
    }

    /// @inheritdoc IRounds
    function freeEpoch(TaskId task) external {
        (State storage s,) = _at(task);
        uint256 epoch = s.line.freedEpochs;
        uint256 end = (epoch + 1) * EPOCH_ROUNDS;
        bool isContested = OpenCounts.at(contests.openOf(task), epoch) != 0;
        if (s.line.nextRound < end || isContested || tasks.settledBy(task) < end) {
            revert IRefusals.NotSettleable(0, end - 1);
        }
        s.line.freedEpochs = uint16(epoch + 1);
        emit EpochFreed(task, epoch);
    }

    // Views -----------------------------------------------------------------------------------------------------------
    /// @dev The task's rounds, the clock taken into account.
    function _at(TaskId task) private returns (State storage s, Plan memory plan) {
        (s, plan) = (_states[task], _states[task].plan);
        if (plan.rounds == 0) revert IRefusals.TaskUnknown(TaskId.unwrap(task));
        _sync(task, s, plan);
    }

    function _frameOf(State storage s, uint256 round) private view returns (Frame memory) {
        bool isKept = round / EPOCH_ROUNDS >= s.line.freedEpochs;
        if (round >= s.line.nextRound || !isKept) revert IRefusals.RoundUnknown(round);
        return s.frames[round % RING_ROUNDS];
    }

    /// @inheritdoc IRounds
    function roundOf(TaskId task, uint256 round) external view returns (RoundView memory view_) {
        State storage s = _states[task];
        Frame memory f = _frameOf(s, round);
        Roster memory roster = s.rosters[round % RING_ROUNDS];
        (view_.phase, view_.committed, view_.opened) = (f.phaseOf(), f.committed, f.opened);
        (view_.isSealed, view_.isExcused) = (f.has(Frames.SEALED), f.has(Frames.EXCUSED));
        if (f.isClosed()) view_.closed = f.at(f.closed);
        (view_.pool, view_.verifiers, view_.whistleblowers) =
            (roster.pool, roster.verifiers, roster.whistleblowers);
        view_.base = s.bases[round % RING_ROUNDS];
        if (view_.isSealed) view_.seed = s.seeds[round % RING_ROUNDS];
        _viewLate(s, roster, view_);
        if (view_.phase == Phase.POSTED) _viewOutcome(s, round, view_);
    }

    function _viewLate(State storage s, Roster memory roster, RoundView memory view_) private view {
        (view_.lateFrom, view_.lateSlots) = (roster.lateFrom, roster.lateSlots);
        if (roster.lateFrom == 0) return;
        view_.lateSeed = roster.lateBy >= CLOSING
            ? s.closingSeeds[roster.lateBy - CLOSING]
            : s.seeds[roster.lateBy % RING_ROUNDS];
    }

    function _viewOutcome(State storage s, uint256 round, RoundView memory view_) private view {
        Outcome memory outcome = s.outcomes[round % RING_ROUNDS];
        (view_.merged, view_.signers, view_.rootUntil) = (outcome.merged, outcome.signers, outcome.rootUntil);
        if (outcome.fallen != 0) view_.root = s.reposted[round];
        else view_.root = round + 1 < s.line.nextRound ? s.bases[(round + 1) % RING_ROUNDS] : s.root;
    }

    /// @inheritdoc IRounds
    function fatesOf(TaskId task, uint256 round) external view returns (Fates memory) {
        _frameOf(_states[task], round);
        return _fatesOf(task, _states[task], round);
    }

    /// @dev Claims of closed seats that were not accepted are void, and all claims of a round whose draw was missed.
    function _fatesOf(TaskId task, State storage s, uint256 round) private view returns (Fates memory fates) {
        (Frame memory f, Plan memory plan) = (s.frames[round % RING_ROUNDS], s.plan);
        uint256 refused;
        (fates.accepted, refused, fates.convicted) = votes.resultOf(task, round);
        if (_isUnsealed(f, plan)) {
            fates.accepted = 0;
            return fates;
        }
        uint256 closed = Slots.slotsOf(s.rosters[round % RING_ROUNDS].pool, tasks.closedSolvers(task));
        closed |= fates.accepted | refused | fates.convicted;
        fates.accepted &= ~fates.convicted;
        fates.mergeable = fates.accepted & ~uint64(refused);
        uint256 over = f.isClosed() ? block.number - f.at(f.closed) : 0;
        if (over <= 2 * uint256(plan.auditMax)) fates.open = f.committed & ~uint64(closed);
        if (over <= plan.auditMax) fates.undecided = fates.open;
    }

    function _isUnsealed(Frame memory f, Plan memory plan) private view returns (bool) {
        if (f.has(Frames.SEALED) || !f.isClosed()) return false;
        (, uint256 last) = Frames.drawWindow(f.at(f.closed), plan, _sealBlocks);
        return block.number > last;
    }

    /// @inheritdoc IRounds
    function claimsOf(TaskId task, uint256 round)
        external
        view
        returns (bytes32[] memory roots, uint256[] memory segments)
    {
        State storage s = _states[task];
        Frame memory f = _frameOf(s, round);
        uint256 slots = LibBit.popCount(s.rosters[round % RING_ROUNDS].pool);
        (roots, segments) = (new bytes32[](slots), new uint256[](slots));
        for (uint256 left = f.committed; left != 0; left &= left - 1) {
            uint256 slot = LibBit.ffs(left);
            roots[slot] = s.claims[round % RING_ROUNDS << 6 | slot];
            segments[slot] = _segmentsOf(s, f, round, slot);
        }
    }

    /// @inheritdoc IRounds
    function claimOf(TaskId task, uint256 round, uint256 slot)
        external
        view
        returns (uint256 seat, bytes32 root, uint256 segments)
    {
        State storage s = _states[task];
        Frame memory f = _frameOf(s, round);
        if (slot >= 64 || f.committed >> slot & 1 == 0) return (0, 0, 0);
        uint256 number = Slots.numberAt(s.rosters[round % RING_ROUNDS].pool, slot);
        (seat, root) = (uint256(SeatRole.SOLVER) << 16 | number, s.claims[round % RING_ROUNDS << 6 | slot]);
        segments = _segmentsOf(s, f, round, slot);
    }

    function _segmentsOf(
        State storage s,
        Frame memory f,
        uint256 round,
        uint256 slot
    ) private view returns (uint256) {
        if (f.short >> slot & 1 == 1) return s.segments[round % RING_ROUNDS << 6 | slot];
        return s.plan.segments;
    }

    /// @inheritdoc IRounds
    function beaconOf(TaskId task, uint256 round) external view returns (bytes32) {
        State storage s = _states[task];
        bool isOpen = round < s.line.nextRound && _frameOf(s, round).trained != 0;
        bool isDealt = isOpen || round >= s.line.nextRound && round < s.line.dealtTo;
        return isDealt ? s.beacons[round % RING_ROUNDS] : bytes32(0);
    }

    /// @inheritdoc IRounds
    function lineOf(TaskId task) external view returns (Line memory, bytes32 root) {
        return (_states[task].line, _states[task].root);
    }

    /// @inheritdoc IRounds
    function nextRound(TaskId task) external view returns (uint256) {
        return _states[task].line.nextRound;
    }

    /// @inheritdoc IRounds
    function isOver(TaskId task) external view returns (bool) {
        State storage s = _states[task];
        Plan memory plan = s.plan;
        if (s.line.live != 0) return false;
        if (s.line.isHalted || s.line.nextRound >= plan.rounds) return true;
        return !_isStartAlive(s) && block.number >= uint256(s.line.standsSince) + plan.dispute;
    }

    /// @inheritdoc IRounds
    /// @dev Pools of rounds that were not opened count while they may be: a start that has lapsed holds nobody.
    function heldTo(TaskId task) external view returns (uint256) {
        State storage s = _states[task];
        bool mayOpen = s.line.live != 0 || _isStartAlive(s);
        return mayOpen ? _max(s.line.frozenTo, s.line.nextRound) : s.line.nextRound;
    }

    /// @inheritdoc IRounds
    function rosterOf(TaskId task, uint256 round) external view returns (Roster memory) {
        return _states[task].rosters[round % RING_ROUNDS];
    }

    /// @inheritdoc IRounds
    function factsOf(TaskId task, uint256 first, uint256 last) external view returns (Facts[] memory facts) {
        State storage s = _states[task];
        Plan memory plan = s.plan;
        facts = new Facts[](last + 1 - first);
        for (uint256 round = first; round <= last; ++round) {
            Facts memory fact = facts[round - first];
            Frame memory f = _frameOf(s, round);
            (fact.isUndone, fact.isShort) = (f.phaseOf() == Phase.UNDONE, f.short != 0);
            Roster memory roster = s.rosters[round % RING_ROUNDS];
            (fact.pool, fact.committed) = (roster.pool, f.committed);
            (fact.verifiers, fact.whistleblowers) = (roster.verifiers, roster.whistleblowers);
            bool isOwed = f.isClosed() && !f.has(Frames.EXCUSED) && !fact.isUndone;
            if (isOwed) fact.missing = uint64(Slots.all(fact.pool)) & ~f.committed;
            bool isPosted = f.phaseOf() == Phase.POSTED;
            uint256 rootUntil = isPosted ? s.outcomes[round % RING_ROUNDS].rootUntil : 0;
            fact.dutyUntil = f.dutyUntil(plan, rootUntil, roster.lateFrom);
        }
    }

    /// @inheritdoc IRounds
    function requireJoinable(TaskId task) external view {
        Line memory line = _states[task].line;
        if (line.isHalted) revert IRefusals.TaskHalted(TaskId.unwrap(task));
        if (line.nextRound >= _states[task].plan.rounds) revert IRefusals.TaskOver(TaskId.unwrap(task));
    }
}
