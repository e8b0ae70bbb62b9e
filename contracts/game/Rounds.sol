// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {AuditDraw} from "../libraries/AuditDraw.sol";
import {Draw} from "../libraries/Draw.sol";
import {Statements} from "../libraries/Statements.sol";
import {
    Audit,
    AUDIT_WORDS,
    EPOCH_ROUNDS,
    EXACT_FORMAT,
    GameTerms,
    GameWindows,
    Phase,
    RING_ROUNDS,
    RoundView,
    SeatRole
} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {Frame, Frames, FrameWords, Outcome, Plan, Roster, Track} from "./libraries/Frames.sol";
import {OpenCounts} from "./libraries/OpenCounts.sol";
import {Slots} from "./libraries/Slots.sol";
import {StructLists} from "./libraries/StructLists.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Rounds from START to POST. Twin of `protocol/spec/game/rounds.py`, `posting.py` and `timing.py`.
/// @dev Rounds are kept in a ring: storage that is written again costs a quarter of new storage. A round opens only where the one 128 before it is
/// settled (`freeEpoch`).
contract Rounds is Module, IRounds {
    using Frames for Frame;
    using FrameWords for Frame;
    using FrameWords for Outcome;
    using FrameWords for Plan;
    using FrameWords for Roster;
    using FrameWords for Track;
    using FrameWords for uint256;

    uint256 private constant CLOSING = 1 << 31;
    uint256 private constant RING_EPOCHS = RING_ROUNDS / EPOCH_ROUNDS;

    /// @dev Words of `FrameWords`. root: what the next round starts from, while none is open; else it is the base of the live round. Keys are round % 128;
    /// of claims and segments (round % 128) << 6 | slot. `shorts`: slots of short claims, of meaning where the frame says SHORT. `reposted` has whole
    /// rounds as keys: a root that was posted again.
    struct State {
        uint256 track;
        uint256 plan;
        bytes32 root;
        mapping(uint256 => uint256) frames;
        mapping(uint256 => uint256) rosters;
        mapping(uint256 => uint256) outcomes;
        mapping(uint256 => bytes32) bases;
        mapping(uint256 => bytes32) beacons;
        mapping(uint256 => bytes32) seeds;
        mapping(uint256 => bytes32) claims;
        mapping(uint256 => uint256) segments;
        mapping(uint256 => uint256) shorts;
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
        GameTerms memory terms = _terms(task);
        Track memory t;
        uint256 segments = terms.innerSteps / terms.segmentSteps;
        (t.segments, t.leastSegments) = (segments, _min(segments, 3 * uint256(terms.draws) - 2));
        (t.trainMin, t.trainMax) = (terms.windows.trainMin, terms.windows.trainMax);
        t.standsSince = block.number;
        (s.root, s.track, s.plan) = (root, t.pack(), _planOf(terms).pack());
    }

    function _planOf(GameTerms memory terms) private pure returns (Plan memory plan) {
        GameWindows memory w = terms.windows;
        (plan.delay, plan.drawGrid, plan.auditMax, plan.post) = (w.delay, w.drawGrid, w.auditMax, w.post);
        (plan.dispute, plan.ask, plan.respond) = (w.dispute, w.ask, w.respond);
        (plan.lateChance, plan.rounds) = (terms.lateChance, terms.rounds);
        (plan.draws, plan.format, plan.parameterCount) = (terms.draws, terms.format, terms.parameterCount);
    }

    /// @inheritdoc IRounds
    function sync(TaskId task) external {
        State storage s = _states[task];
        _sync(task, s, s.track.toTrack());
    }

    /// @dev What the closing block still changed counts, what a later block changes does not.
    function _sync(TaskId task, State storage s, Track memory t) private {
        if (t.live == 0) return;
        uint256 round = t.live - 1;
        uint256 word = s.frames[round % RING_ROUNDS];
        if (word.hasFlag(Frames.SYNCED)) return;
        Frame memory f = word.toFrame();
        uint256 closing = _closingOf(s, f, t);
        if (block.number <= closing) return;
        f.closed = f.offsetOf(closing);
        f.flags |= Frames.SYNCED;
        _keep(s, round, f);
        emit RoundClosed(task, round, closing);
        if (t.frozenTo == round + 2) _freeze(task, s, t, round + 2, round + 3);
    }

    /// @dev The closing block, as far as the commitments so far decide it.
    function _closingOf(State storage s, Frame memory f, Track memory t) private view returns (uint256) {
        if (f.trained != 0 || f.closed != 0) return f.closingBlock(t);
        return f.beaconBlock(s.plan.toPlan()) + _sealBlocks;
    }

    /// @dev The pools as they are now, for the rounds `from` .. `to` - 1 as far as the task and the ring have room.
    function _freeze(TaskId task, State storage s, Track memory t, uint256 from, uint256 to) private {
        to = _min(to, s.plan.roundsIn());
        if (from >= to || !_isFree(t, from)) return;
        Roster memory roster;
        (roster.pool, roster.verifiers, roster.whistleblowers, roster.isEnough) = tasks.freezePools(task);
        for (; from < to && _isFree(t, from); ++from) {
            s.rosters[from % RING_ROUNDS] = roster.pack();
            t.frozenTo = from + 1;
        }
        s.track = t.pack();
    }

    function _isFree(Track memory t, uint256 round) private pure returns (bool) {
        return round / EPOCH_ROUNDS < RING_EPOCHS + t.freedEpochs;
    }

    // Starting --------------------------------------------------------------------------------------------------------
    /// @inheritdoc IRounds
    function start(TaskId task) external {
        (State storage s, Track memory t) = _at(task);
        Plan memory plan = s.plan.toPlan();
        uint256 next = t.nextRound;
        if (t.isHalted != 0) revert IRefusals.TaskHalted(TaskId.unwrap(task));
        if (next >= plan.rounds) revert IRefusals.TaskOver(TaskId.unwrap(task));
        if (t.live != 0) revert IRefusals.NotStanding(t.live - 1);
        if (_isStartAlive(t)) revert IRefusals.StartPending(t.startBlock + _sealBlocks);
        if (!_isFree(t, next)) revert IRefusals.RingFull(next);
        if (!tasks.isFunded(task)) revert IRefusals.PoolTooSmall(TaskId.unwrap(task));
        t.startBlock = AuditDraw.gridBlock(block.number + plan.delay, plan.drawGrid);
        _freeze(task, s, t, next, next + 2);
        emit StartAsked(task, next, t.startBlock);
    }

    function _isStartAlive(Track memory t) private view returns (bool) {
        return t.startBlock != 0 && t.isHalted == 0 && block.number <= t.startBlock + _sealBlocks;
    }

    /// @inheritdoc IRounds
    function sealStart(TaskId task, bytes calldata proof) external {
        (State storage s, Track memory t) = _at(task);
        uint256 startBlock = t.startBlock;
        if (startBlock == 0) revert IRefusals.NothingToSeal(t.nextRound);
        if (t.isHalted != 0) revert IRefusals.TaskHalted(TaskId.unwrap(task));
        _requireWindow(startBlock + 1, startBlock + _sealBlocks);
        (uint64 closed, bool isAnyClosed) = tasks.closures(task);
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
        return tasks.isEnough(task, roster.pool, roster.verifiers, roster.whistleblowers);
    }

    /// @dev Beacons for frozen rounds up to and with `last` that have neither a beacon nor begun. The caller keeps the track.
    function _deal(TaskId task, State storage s, Track memory t, bytes32 value, uint256 last) private {
        uint256 round = _max(t.dealtTo, t.nextRound);
        uint256 to = _min(last + 1, t.frozenTo);
        if (round >= to) return;
        bytes32 domain = _domain(task);
        for (; round < to; ++round) {
            s.beacons[round % RING_ROUNDS] = AuditDraw.roundBeacon(domain, uint32(round), value);
        }
        t.dealtTo = to;
    }

    function _open(TaskId task, State storage s, Track memory t, uint64 pool, bytes32 base, uint64 closed)
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
        State storage s,
        Track memory t,
        bytes32 root,
        uint64 closed,
        bool isAnyClosed
    ) private {
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
    function _dropUnopened(Track memory t) private pure {
        (t.frozenTo, t.dealtTo, t.startBlock) = (t.nextRound, t.nextRound, 0);
    }

    /// @inheritdoc IRounds
    function halt(TaskId task) external {
        (State storage s, Track memory t) = _at(task);
        address submitter = _terms(task).submitter;
        if (msg.sender != submitter) revert IRefusals.NotSubmitter(submitter, msg.sender);
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
        (State storage s, Track memory t) = _at(task);
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

    function _keepShort(State storage s, Frame memory f, uint256 round, uint256 slot, uint256 segments)
        private
    {
        uint256 shorts = f.has(Frames.SHORT) ? s.shorts[round % RING_ROUNDS] : 0;
        s.shorts[round % RING_ROUNDS] = shorts | 1 << slot;
        s.segments[round % RING_ROUNDS << 6 | slot] = segments;
        f.flags |= Frames.SHORT;
    }

    function _requireGround(State storage s, uint256 round, bytes32 baseRoot, bytes32 beacon) private view {
        bytes32 expected = s.bases[round % RING_ROUNDS];
        if (baseRoot != expected) revert IRefusals.WrongBase(expected, baseRoot);
        expected = s.beacons[round % RING_ROUNDS];
        if (beacon != expected) revert IRefusals.WrongBeacon(expected, beacon);
    }

    function _slotOf(TaskId task, uint256 pool) private view returns (uint256) {
        (uint256 seat, bool isClosed) = tasks.seatOfSolver(task, msg.sender);
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

    // Drawing ---------------------------------------------------------------------------------------------------------
    /// @inheritdoc IRounds
    function sealRound(TaskId task, uint256 round, bytes calldata proof) external {
        (State storage s, Track memory t) = _at(task);
        Frame memory f = _frameOf(s, t, round);
        if (f.trained != 0 || f.phaseOf() != Phase.RUNNING) revert IRefusals.NothingToSeal(round);
        uint256 beaconBlock = f.beaconBlock(s.plan.toPlan());
        _requireWindow(beaconBlock + 1, beaconBlock + _sealBlocks);
        bytes32 value = randomness.read(beaconBlock, proof);
        f.trained = f.offsetOf(block.number);
        _keep(s, round, f);
        s.beacons[round % RING_ROUNDS] = AuditDraw.roundBeacon(_domain(task), uint32(round), value);
        emit RoundDealt(task, round, value);
    }

    /// @inheritdoc IRounds
    function sealAudits(TaskId task, uint256 round, bytes calldata proof) external {
        (State storage s, Track memory t) = _at(task);
        Plan memory plan = s.plan.toPlan();
        Frame memory f = _frameOf(s, t, round);
        if (!f.isClosed() || f.has(Frames.SEALED) || f.phaseOf() == Phase.UNDONE) {
            revert IRefusals.NothingToSeal(round);
        }
        uint256 closed = f.at(f.closed);
        bytes32 value = _readDraw(closed, plan, proof);
        f.flags |= Frames.SEALED;
        _keep(s, round, f);
        s.seeds[round % RING_ROUNDS] = AuditDraw.roundSeed(_domain(task), uint32(round), value);
        emit AuditsDrawn(task, round, value);
        if (plan.lateChance != 0) _drawLate(task, s, t, plan, round, closed, uint32(round));
        _deal(task, s, t, value, round + 2);
        s.track = t.pack();
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
        Track memory t,
        Plan memory plan,
        uint256 round,
        uint256 fromBlock,
        uint32 by
    ) private {
        uint256 oldest = t.freedEpochs * EPOCH_ROUNDS;
        while (round > oldest) {
            Frame memory f = _frameAt(s, --round);
            (bool isLast, bool isMissing) = _isMissing(s, f, round, plan.dispute);
            if (isLast) return;
            if (!isMissing) continue;
            Fates memory fates = _fatesOf(task, f, plan, round, tasks.closedSolvers(task));
            Roster memory roster = _rosterAt(s, round);
            (roster.lateFrom, roster.lateBy) = (uint40(fromBlock), by);
            roster.lateSlots = fates.accepted | fates.open;
            s.rosters[round % RING_ROUNDS] = roster.pack();
        }
    }

    /// @return isLast no round before it can be missing its late audits
    function _isMissing(State storage s, Frame memory f, uint256 round, uint256 disputeBlocks)
        private
        view
        returns (bool isLast, bool isMissing)
    {
        if (!f.isClosed()) return (false, false);
        isLast = _rosterAt(s, round).lateFrom != 0 || block.number > f.at(f.closed) + disputeBlocks;
        isMissing = !isLast && f.committed != 0 && f.phaseOf() != Phase.UNDONE;
    }

    /// @inheritdoc IRounds
    function sealClosing(TaskId task, bytes calldata proof) external {
        (State storage s, Track memory t) = _at(task);
        Plan memory plan = s.plan.toPlan();
        uint256 fromBlock = _closingFrom(s, t, plan);
        if (fromBlock == 0) revert IRefusals.NothingToSeal(t.nextRound);
        bytes32 value = _readDraw(fromBlock, plan, proof);
        bytes32 seed = AuditDraw.roundSeed(_domain(task), uint32(t.nextRound), value);
        emit ClosingDrawn(task, fromBlock, value);
        uint32 by = uint32(CLOSING | s.closingSeeds.length);
        s.closingSeeds.push(seed);
        _drawLate(task, s, t, plan, t.nextRound, fromBlock, by);
    }

    /// @dev From the last missing round's close + auditMax, at the earliest when the task came to stand still; 0 where no closing seed is due.
    function _closingFrom(State storage s, Track memory t, Plan memory plan)
        private
        view
        returns (uint256 fromBlock)
    {
        if (plan.lateChance == 0 || t.live != 0 || _isStartAlive(t)) return 0;
        uint256 oldest = t.freedEpochs * EPOCH_ROUNDS;
        for (uint256 round = t.nextRound; round > oldest;) {
            Frame memory f = _frameAt(s, --round);
            (bool isLast, bool isMissing) = _isMissing(s, f, round, plan.dispute);
            if (isLast) break;
            if (isMissing) fromBlock = _max(fromBlock, f.at(f.closed) + plan.auditMax);
        }
        if (fromBlock != 0) fromBlock = _max(fromBlock, t.standsSince);
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
        (State storage s, Track memory t) = _at(task);
        Frame memory f = _waiting(s, t, round);
        Plan memory plan = s.plan.toPlan();
        (uint64 closed, bool isAnyClosed) = tasks.closures(task);
        Outcome memory outcome = s.outcomes[round % RING_ROUNDS].toOutcome();
        bool isAgain = f.phaseOf() == Phase.FALLEN;
        if (!isAgain) outcome.fallen = 0;
        _requirePostable(task, f, plan, round, outcome.fallen, merged, closed);
        signers = votes.requireMajority(
            task, _mergeOf(task, s, f.pool, round, merged, root), f.pool & ~closed, signers, signatures
        );
        if (isAgain) (s.reposted[round], f.flags) = (root, f.flags | Frames.REPOSTED);
        (outcome.merged, outcome.signers) = (merged, signers);
        outcome.rootUntil = uint40((isAgain ? block.number : f.at(f.closed)) + plan.dispute);
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
        Plan memory plan,
        uint256 round,
        uint256 fallen,
        uint64 merged,
        uint64 closed
    ) private view {
        Fates memory fates = _fatesOf(task, f, plan, round, closed);
        uint256 from = f.at(f.closed) + (fates.undecided == 0 ? 0 : plan.auditMax);
        _requireWindow(fallen == 0 ? from : fallen, _postUntil(f, plan, fallen));
        if (merged == 0 || merged & ~fates.mergeable != 0) {
            revert IRefusals.NotMergeable(fates.mergeable, merged);
        }
    }

    /// @dev The closed round that has no root yet.
    function _waiting(State storage s, Track memory t, uint256 round) private view returns (Frame memory f) {
        if (t.live != round + 1) revert IRefusals.NotNewest(round);
        f.fill(s.frames[round % RING_ROUNDS]);
        if (!f.isClosed()) revert IRefusals.NotNewest(round);
    }

    function _postUntil(Frame memory f, Plan memory plan, uint256 fallen) private pure returns (uint256) {
        return (fallen == 0 ? f.at(f.closed) + plan.auditMax : fallen) + plan.post - 1;
    }

    /// @dev What each signer has signed. Roots stand in the order of their shards.
    function _mergeOf(TaskId task, State storage s, uint256 pool, uint256 round, uint64 merged, bytes32 root)
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
        (State storage s, Track memory t) = _at(task);
        Frame memory f = _waiting(s, t, round);
        Plan memory plan = s.plan.toPlan();
        bool isAgain = f.phaseOf() == Phase.FALLEN;
        uint256 last = _postUntil(f, plan, isAgain ? s.outcomes[round % RING_ROUNDS].toOutcome().fallen : 0);
        if (block.number <= last) {
            Fates memory fates = _fatesOf(task, f, plan, round, tasks.closedSolvers(task));
            if (fates.undecided | fates.mergeable != 0) revert IRefusals.NotLate(last, block.number);
        }
        f.setPhase(Phase.STANDING);
        _keep(s, round, f);
        emit RootStood(task, round);
        (uint64 closed, bool isAnyClosed) = tasks.closures(task);
        _openNext(task, s, t, s.bases[round % RING_ROUNDS], closed, isAnyClosed);
    }

    // Falling ---------------------------------------------------------------------------------------------------------
    /// @inheritdoc IRounds
    function fall(TaskId task, uint256 round, bool isLast)
        external
        only(address(settlement))
        returns (uint64 signers, uint256 firstUndone, uint256 lastUndone)
    {
        (State storage s, Track memory t) = _at(task);
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

    function _undo(State storage s, uint256 round) private {
        Frame memory f = _frameAt(s, round);
        if (f.phaseOf() == Phase.UNDONE) return;
        if (!f.isClosed()) (f.closed, f.flags) = (f.offsetOf(block.number), f.flags | Frames.SYNCED);
        f.setPhase(Phase.UNDONE);
        _keep(s, round, f);
    }

    /// @inheritdoc IRounds
    function freeEpoch(TaskId task) external {
        (State storage s, Track memory t) = _at(task);
        uint256 epoch = t.freedEpochs;
        uint256 end = (epoch + 1) * EPOCH_ROUNDS;
        bool isContested = OpenCounts.at(contests.openOf(task), epoch) != 0;
        if (t.nextRound < end || isContested || tasks.settledBy(task) < end) {
            revert IRefusals.NotSettleable(0, end - 1);
        }
        t.freedEpochs = epoch + 1;
        s.track = t.pack();
        emit EpochFreed(task, epoch);
    }

    // Views -----------------------------------------------------------------------------------------------------------
    /// @dev The task's rounds, the clock taken into account. Who changes the track keeps it.
    function _at(TaskId task) private returns (State storage s, Track memory t) {
        s = _states[task];
        t.fill(s.track);
        if (t.segments == 0) revert IRefusals.TaskUnknown(TaskId.unwrap(task));
        _sync(task, s, t);
    }

    function _frameAt(State storage s, uint256 round) private view returns (Frame memory f) {
        f.fill(s.frames[round % RING_ROUNDS]);
    }

    function _keep(State storage s, uint256 round, Frame memory f) private {
        s.frames[round % RING_ROUNDS] = f.pack();
    }

    function _rosterAt(State storage s, uint256 round) private view returns (Roster memory roster) {
        roster.fill(s.rosters[round % RING_ROUNDS]);
    }

    function _frameOf(State storage s, Track memory t, uint256 round) private view returns (Frame memory f) {
        _requireKept(t, round);
        f.fill(s.frames[round % RING_ROUNDS]);
    }

    function _requireKept(Track memory t, uint256 round) private pure {
        bool isKept = round / EPOCH_ROUNDS >= t.freedEpochs;
        if (round >= t.nextRound || !isKept) revert IRefusals.RoundUnknown(round);
    }

    /// @dev A round as it is looked at: the clock is not.
    function _look(TaskId task, uint256 round)
        private
        view
        returns (State storage s, Track memory t, Frame memory f)
    {
        s = _states[task];
        t.fill(s.track);
        _requireKept(t, round);
        f.fill(s.frames[round % RING_ROUNDS]);
    }

    /// @inheritdoc IRounds
    function roundOf(TaskId task, uint256 round) external view returns (RoundView memory view_) {
        (State storage s, Track memory t, Frame memory f) = _look(task, round);
        Roster memory roster = _rosterAt(s, round);
        (view_.phase, view_.committed, view_.opened) = (f.phaseOf(), f.committed, f.opened);
        view_.isSealed = f.has(Frames.SEALED);
        if (f.isClosed()) view_.closed = f.at(f.closed);
        (view_.pool, view_.verifiers, view_.whistleblowers) =
            (f.pool, roster.verifiers, roster.whistleblowers);
        view_.base = s.bases[round % RING_ROUNDS];
        if (view_.isSealed) view_.seed = s.seeds[round % RING_ROUNDS];
        (view_.lateFrom, view_.lateSlots) = (roster.lateFrom, roster.lateSlots);
        view_.lateSeed = _lateSeed(s, roster);
        if (view_.phase == Phase.POSTED) _viewOutcome(s, t, round, view_);
    }

    function _lateSeed(State storage s, Roster memory roster) private view returns (bytes32) {
        if (roster.lateFrom == 0) return 0;
        if (roster.lateBy >= CLOSING) return s.closingSeeds[roster.lateBy - CLOSING];
        return s.seeds[roster.lateBy % RING_ROUNDS];
    }

    function _viewOutcome(State storage s, Track memory t, uint256 round, RoundView memory view_)
        private
        view
    {
        Outcome memory outcome = s.outcomes[round % RING_ROUNDS].toOutcome();
        (view_.merged, view_.signers, view_.rootUntil) = (outcome.merged, outcome.signers, outcome.rootUntil);
        if (outcome.fallen != 0) view_.root = s.reposted[round];
        else view_.root = round + 1 < t.nextRound ? s.bases[(round + 1) % RING_ROUNDS] : s.root;
    }

    /// @inheritdoc IRounds
    /// @dev Written as it is encoded: an array of the words of `Audit`, then root and segments of each slot.
    function auditOf(TaskId task, uint256 round, uint256 slots, bool isWhole)
        external
        view
        returns (uint256[] memory)
    {
        (State storage s, Track memory t, Frame memory f) = _look(task, round);
        uint256 count = LibBit.popCount(f.pool);
        uint256 place;
        Audit memory audit;
        assembly ("memory-safe") {
            // The struct is what was allocated last.
            place := add(audit, shl(5, AUDIT_WORDS))
            mstore(0x40, add(place, shl(6, count)))
            calldatacopy(place, calldatasize(), shl(6, count))
        }
        _fillAudit(audit, s, f, round);
        if (isWhole) _fillAuditors(audit, s, round);
        for (slots &= f.committed; slots != 0; slots &= slots - 1) {
            uint256 slot = LibBit.ffs(slots);
            bytes32 root = s.claims[round % RING_ROUNDS << 6 | slot];
            uint256 segments = _segmentsOf(s, t, f, round, slot);
            assembly ("memory-safe") {
                mstore(add(place, shl(6, slot)), root)
                mstore(add(add(place, shl(6, slot)), 32), segments)
            }
        }
        uint256 words = AUDIT_WORDS + 2 * count;
        assembly ("memory-safe") {
            // The head of an array, over what lies before the struct, is of no use any more.
            let encoded := sub(audit, 64)
            mstore(encoded, 32)
            mstore(add(encoded, 32), words)
            return(encoded, add(shl(5, words), 64))
        }
    }

    function _fillAudit(Audit memory a, State storage s, Frame memory f, uint256 round) private view {
        Plan memory plan = s.plan.toPlan();
        (a.isUndone, a.isSealed) = (f.phaseOf() == Phase.UNDONE, f.has(Frames.SEALED));
        if (f.isClosed()) a.closed = f.at(f.closed);
        a.pool = f.pool;
        a.base = s.bases[round % RING_ROUNDS];
        if (a.isSealed) a.seed = s.seeds[round % RING_ROUNDS];
        (a.draws, a.lateChance, a.auditMax) = (plan.draws, plan.lateChance, plan.auditMax);
        (a.dispute, a.ask, a.respond) = (plan.dispute, plan.ask, plan.respond);
        (a.isExact, a.parameterCount) = (plan.format == EXACT_FORMAT, plan.parameterCount);
    }

    function _fillAuditors(Audit memory a, State storage s, uint256 round) private view {
        Roster memory roster = _rosterAt(s, round);
        (a.lateFrom, a.lateSlots, a.lateSeed) = (roster.lateFrom, roster.lateSlots, _lateSeed(s, roster));
        (a.verifiers, a.whistleblowers) = (roster.verifiers, roster.whistleblowers);
    }

    /// @inheritdoc IRounds
    function fatesOf(TaskId task, uint256 round) external view returns (Fates memory) {
        (State storage s,, Frame memory f) = _look(task, round);
        return _fatesOf(task, f, s.plan.toPlan(), round, tasks.closedSolvers(task));
    }

    /// @dev Claims of closed seats that were not accepted are void, and all claims of a round whose draw was missed.
    /// @param closedSeats numbers of closed solver seats
    function _fatesOf(TaskId task, Frame memory f, Plan memory plan, uint256 round, uint256 closedSeats)
        private
        view
        returns (Fates memory fates)
    {
        uint256 refused;
        (fates.accepted, refused, fates.convicted) = votes.resultOf(task, round);
        if (_isUnsealed(f, plan)) {
            fates.accepted = 0;
            return fates;
        }
        uint256 closed = Slots.slotsOf(f.pool, closedSeats) | fates.accepted | refused | fates.convicted;
        fates.accepted &= ~fates.convicted;
        fates.mergeable = fates.accepted & ~uint64(refused);
        uint256 over = f.isClosed() ? block.number - f.at(f.closed) : 0;
        if (over <= 2 * plan.auditMax) fates.open = f.committed & ~uint64(closed);
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
        (State storage s, Track memory t, Frame memory f) = _look(task, round);
        uint256 slots = LibBit.popCount(f.pool);
        (roots, segments) = (new bytes32[](slots), new uint256[](slots));
        for (uint256 left = f.committed; left != 0; left &= left - 1) {
            uint256 slot = LibBit.ffs(left);
            roots[slot] = s.claims[round % RING_ROUNDS << 6 | slot];
            segments[slot] = _segmentsOf(s, t, f, round, slot);
        }
    }

    /// @inheritdoc IRounds
    function claimOf(TaskId task, uint256 round, uint256 slot)
        external
        view
        returns (uint256 seat, bytes32 root, uint256 segments)
    {
        (State storage s, Track memory t, Frame memory f) = _look(task, round);
        if (f.committed >> slot & 1 == 0) return (0, 0, 0);
        uint256 number = Slots.numberAt(f.pool, slot);
        (seat, root) = (uint256(SeatRole.SOLVER) << 16 | number, s.claims[round % RING_ROUNDS << 6 | slot]);
        segments = _segmentsOf(s, t, f, round, slot);
    }

    function _segmentsOf(State storage s, Track memory t, Frame memory f, uint256 round, uint256 slot)
        private
        view
        returns (uint256)
    {
        if (!f.has(Frames.SHORT) || s.shorts[round % RING_ROUNDS] >> slot & 1 == 0) return t.segments;
        return s.segments[round % RING_ROUNDS << 6 | slot];
    }

    /// @inheritdoc IRounds
    function beaconOf(TaskId task, uint256 round) external view returns (bytes32) {
        State storage s = _states[task];
        Track memory t = s.track.toTrack();
        bool isOpen = round < t.nextRound && _frameOf(s, t, round).trained != 0;
        bool isDealt = isOpen || round >= t.nextRound && round < t.dealtTo;
        return isDealt ? s.beacons[round % RING_ROUNDS] : bytes32(0);
    }

    /// @inheritdoc IRounds
    function lineOf(TaskId task) external view returns (Line memory line, bytes32 root) {
        State storage s = _states[task];
        Track memory t = s.track.toTrack();
        (line.nextRound, line.live) = (uint32(t.nextRound), uint32(t.live));
        (line.frozenTo, line.dealtTo) = (uint32(t.frozenTo), uint32(t.dealtTo));
        (line.standsSince, line.startBlock) = (uint40(t.standsSince), uint40(t.startBlock));
        (line.freedEpochs, line.isHalted) = (uint16(t.freedEpochs), t.isHalted != 0);
        root = t.live == 0 ? s.root : s.bases[(t.live - 1) % RING_ROUNDS];
    }

    /// @inheritdoc IRounds
    function nextRound(TaskId task) external view returns (uint256) {
        return _states[task].track.toTrack().nextRound;
    }

    /// @inheritdoc IRounds
    function isOver(TaskId task) external view returns (bool) {
        State storage s = _states[task];
        return _isOver(s.track.toTrack(), s.plan.toPlan());
    }

    function _isOver(Track memory t, Plan memory plan) private view returns (bool) {
        if (t.live != 0) return false;
        if (t.isHalted != 0 || t.nextRound >= plan.rounds) return true;
        return !_isStartAlive(t) && block.number >= t.standsSince + plan.dispute;
    }

    /// @inheritdoc IRounds
    /// @dev Pools of rounds that were not opened count while they may be: a start that has lapsed holds nobody.
    function heldTo(TaskId task) external view returns (uint256) {
        Track memory t = _states[task].track.toTrack();
        bool mayOpen = t.live != 0 || _isStartAlive(t);
        return mayOpen ? _max(t.frozenTo, t.nextRound) : t.nextRound;
    }

    /// @inheritdoc IRounds
    function rosterOf(TaskId task, uint256 round) external view returns (Roster memory) {
        return _rosterAt(_states[task], round);
    }

    /// @inheritdoc IRounds
    function poolsOf(TaskId task, uint256 round)
        external
        view
        returns (uint256 solvers, uint256 verifiers, uint256 whistleblowers)
    {
        Roster memory roster = _rosterAt(_states[task], round);
        return (roster.pool, roster.verifiers, roster.whistleblowers);
    }

    /// @inheritdoc IRounds
    /// @dev Written as it is encoded.
    function factsOf(TaskId task, uint256 first, uint256 last) external view returns (Facts[] memory facts) {
        State storage s = _states[task];
        (Track memory t, Plan memory plan) = (s.track.toTrack(), s.plan.toPlan());
        facts = new Facts[](last + 1 - first);
        for (uint256 round = first; round <= last; ++round) {
            Facts memory fact = facts[round - first];
            Frame memory f = _frameOf(s, t, round);
            (fact.isUndone, fact.isShort) = (f.phaseOf() == Phase.UNDONE, f.has(Frames.SHORT));
            Roster memory roster = _rosterAt(s, round);
            (fact.pool, fact.committed) = (f.pool, f.committed);
            (fact.verifiers, fact.whistleblowers) = (roster.verifiers, roster.whistleblowers);
            // Without a beacon nobody could commit.
            bool isOwed = f.isClosed() && f.trained != 0 && !fact.isUndone;
            if (isOwed) fact.missing = uint64(Slots.all(fact.pool)) & ~f.committed;
            // Of a root that was posted once the window ends with that of disputes.
            bool isAgain = f.phaseOf() == Phase.POSTED && f.has(Frames.REPOSTED);
            uint256 rootUntil = isAgain ? s.outcomes[round % RING_ROUNDS].toOutcome().rootUntil : 0;
            fact.dutyUntil = f.dutyUntil(plan, rootUntil, roster.lateFrom);
        }
        StructLists.send(facts);
    }

    /// @inheritdoc IRounds
    function requireJoinable(TaskId task) external view {
        State storage s = _states[task];
        (Track memory t, Plan memory plan) = (s.track.toTrack(), s.plan.toPlan());
        if (t.isHalted != 0) revert IRefusals.TaskHalted(TaskId.unwrap(task));
        bool isLast = t.nextRound >= plan.rounds;
        if (isLast || _isOver(t, plan)) revert IRefusals.TaskOver(TaskId.unwrap(task));
    }
}
