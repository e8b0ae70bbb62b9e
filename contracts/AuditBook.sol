// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {
    AuditRef,
    AuditStatus,
    BoundaryProof,
    ExposureId,
    Judgement,
    Role,
    StateHeader,
    StateLeaves,
    TaskId,
    TaskTerms
} from "./Types.sol";
import {IAuditBook} from "./interfaces/IAuditBook.sol";
import {IRandomness} from "./interfaces/IRandomness.sol";
import {IRoundLedger} from "./interfaces/IRoundLedger.sol";
import {IStakeVault} from "./interfaces/IStakeVault.sol";
import {ITaskRegistry} from "./interfaces/ITaskRegistry.sol";
import {Boundaries} from "./libraries/Boundaries.sol";
import {Clock, Deadlines, LateDeadlines} from "./libraries/Clock.sol";
import {Draw} from "./libraries/Draw.sol";
import {Hashing} from "./libraries/Hashing.sol";
import {Lanes} from "./libraries/Lanes.sol";
import {PositionalMerkle} from "./libraries/PositionalMerkle.sol";
import {Tolerance} from "./libraries/Tolerance.sol";
import {Terms} from "./libraries/Terms.sol";

/// @title What was drawn, opened, committed, revealed and compared: the blind audits of a round.
/// @notice One audit is one auditor on one segment. Both sides move in turns that are fixed by block numbers:
/// ```
///   solver   openStart            openEnd               openLeaves
///   auditor            commitReplay        reveal                   compareLeaves
///            < startEnd < replayEnd        < showEnd    < openEnd   < compareEnd
///
/// NONE --commitReplay--> COMMITTED --reveal--> REVEALED --compareLeaves--> ACCEPTS or REJECTS (computed, Tolerance)
///  |  sayUnserved: UNSERVED      |                |  equal roots: ACCEPTS at once, nothing is opened
///  |  abstain: ABSTAINED         |                +-- no leaf draw in time: REJECTS, nobody is fined
///  +-- silence: F                +-- no reveal: SLASHED    +-- leaves opened and not compared: SLASHED
/// ```
/// The auditor commits to its own result before the solver shows its own; the commitment names the auditor, so it cannot be handed around.
/// Ranks 1 and 2 of a draw are the reserves of an escalated claim, on the same segment after the first verdict; draw `segmentDraws` is the late
/// audit, after the merge. What the solver failed to open is the ledger's to judge, what the auditor failed to do is dealt with here, in
/// `enforce` and, should nobody have called that, in `settle`. An auditor answers for its own result only: nothing slashes it for the verdict.
contract AuditBook is IAuditBook {
    using Lanes for Lanes.Lane;

    uint32 private constant PHASE_PRIMARY = 0;
    uint32 private constant PHASE_RESERVES = 1;
    uint32 private constant PHASE_LATE = 2;

    /// @notice The deadlines of one phase; `replayOpens` is where commitments may start.
    struct Phase {
        uint256 replayOpens;
        uint256 startEnd;
        uint256 replayEnd;
        uint256 showEnd;
        uint256 leavesBlock;
        uint256 leavesEnd;
        uint256 openEnd;
        uint256 compareEnd;
    }

    /// @notice What all moves of one call in a round share.
    struct Context {
        TaskId task;
        uint32 round;
        TaskTerms terms;
        Deadlines deadlines;
    }

    /// @notice One audit with all that its task and its draw say of it.
    struct Frame {
        AuditRef ref;
        TaskTerms terms;
        Phase phase;
        uint32 phaseIndex;
        uint32 segment;
        address auditor;
    }

    /// @notice The claim of whoever sends, and its domain.
    struct Claim {
        uint32 slot;
        bytes32 domain;
        bytes32 root;
        uint32 startLocalStep;
    }

    /// @notice What leaf openings are checked against.
    struct LeafSet {
        uint256[] indices;
        uint256 leafCount;
    }

    /// @notice Where all money lies.
    IStakeVault public immutable vault;
    /// @notice Tasks, peers and rounds.
    ITaskRegistry public immutable registry;
    /// @notice Claims, verdicts and settlement.
    IRoundLedger public immutable ledger;
    /// @notice Disputes on single claims.
    address public immutable disputes;
    /// @notice Where the seeds of draws come from.
    IRandomness public immutable randomness;

    /// @dev Headers are in the events; what is kept of them is their hash, and whoever needs one brings it.
    mapping(bytes32 => uint256) private _lanes;
    mapping(bytes32 => bytes32) private _starts;
    mapping(bytes32 => bytes32) private _ends;
    /// @dev Of a claim's last state the weights; the rest only where moments carry over.
    mapping(bytes32 => StateHeader) private _last;
    /// @dev The commitment; once revealed the end root, or nothing where that is the solver's.
    mapping(bytes32 => bytes32) private _results;
    mapping(TaskId => mapping(uint32 => mapping(uint32 => bytes32))) private _leafSeeds;

    constructor(
        IStakeVault vault_,
        ITaskRegistry registry_,
        IRoundLedger ledger_,
        address disputes_,
        IRandomness randomness_
    ) {
        (vault, registry, ledger, disputes, randomness) = (vault_, registry_, ledger_, disputes_, randomness_);
    }

    // Step 5: start -----------------------------------------------------------------------------------------------
    /// @inheritdoc IAuditBook
    function openStart(TaskId task, uint32 round, uint32 draw, BoundaryProof calldata start) external {
        Context memory c = _contextOf(task, round);
        _openStart(c, _claimOfSender(c), draw, start);
    }

    /// @inheritdoc IAuditBook
    function openStarts(TaskId task, uint32 round, BoundaryProof[] calldata starts) external {
        Context memory c = _contextOf(task, round);
        Claim memory claim = _claimOfSender(c);
        for (uint32 draw = 0; draw < starts.length; ++draw) {
            _openStart(c, claim, draw, starts[draw]);
        }
    }

    function _openStart(Context memory c, Claim memory claim, uint32 draw, BoundaryProof calldata start)
        private
    {
        Frame memory f = _drawnFrame(c, AuditRef(c.task, c.round, claim.slot, draw, 0));
        _requireWindow(0, f.phase.startEnd);
        Lanes.Lane memory lane = _laneOf(f.ref);
        if (lane.has(Lanes.START)) revert AlreadyOpened(claim.slot, draw);
        _starts[_drawKey(f.ref)] = _requireBoundary(c, claim, f.segment, start);
        lane.set(Lanes.START);
        lane.save(_lanes);
        emit StartOpened(c.task, c.round, claim.slot, draw, start.header);
    }

    /// @dev The boundary belongs to the claim and carries the step numbers that its place demands.
    function _requireBoundary(
        Context memory c,
        Claim memory claim,
        uint32 boundary,
        BoundaryProof calldata proof
    ) private view returns (bytes32 stateRoot) {
        uint256 segments = c.terms.innerSteps / c.terms.segmentSteps;
        stateRoot = Boundaries.requireOpened(
            claim.domain, c.round, msg.sender, claim.root, segments, boundary, proof
        );
        uint32 steps = boundary * c.terms.segmentSteps;
        (uint32 local, uint32 global) = (claim.startLocalStep + steps, c.round * c.terms.innerSteps + steps);
        StateHeader calldata header = proof.header;
        if (header.localStep != local || header.globalStep != global) {
            revert WrongSteps(local, header.localStep, global, header.globalStep);
        }
    }

    // Step 6: blind replay ----------------------------------------------------------------------------------------
    /// @inheritdoc IAuditBook
    function commitReplay(AuditRef calldata ref, bytes32 commitment) external {
        _commitReplay(_contextOf(ref.task, ref.round), ref, commitment);
    }

    /// @inheritdoc IAuditBook
    function commitReplays(AuditRef[] calldata refs, bytes32[] calldata commitments) external {
        _requireCount(refs.length, commitments.length);
        Context memory c;
        for (uint256 i = 0; i < refs.length; ++i) {
            c = _contextFor(c, refs[i]);
            _commitReplay(c, refs[i], commitments[i]);
        }
    }

    function _commitReplay(Context memory c, AuditRef calldata ref, bytes32 commitment) private {
        _takeUp(c, ref, AuditStatus.COMMITTED);
        _results[_auditKey(ref)] = commitment;
        emit ReplayCommitted(ref.task, ref.round, ref.slot, ref.draw, ref.rank, msg.sender, commitment);
        vault.expose(Hashing.auditExposure(ref), msg.sender, c.terms.amounts.auditStake);
    }

    /// @inheritdoc IAuditBook
    function sayUnserved(AuditRef calldata ref) external {
        _takeUp(_contextOf(ref.task, ref.round), ref, AuditStatus.UNSERVED);
        emit Unserved(ref.task, ref.round, ref.slot, ref.draw, ref.rank, msg.sender);
    }

    /// @inheritdoc IAuditBook
    function abstain(AuditRef calldata ref) external {
        _takeUp(_contextOf(ref.task, ref.round), ref, AuditStatus.ABSTAINED);
        emit Abstained(ref.task, ref.round, ref.slot, ref.draw, ref.rank, msg.sender);
    }

    /// @dev The drawn auditor's one word on its audit.
    function _takeUp(Context memory c, AuditRef calldata ref, AuditStatus status) private {
        (Frame memory f, Lanes.Lane memory lane) = _auditorFrame(c, ref, AuditStatus.NONE);
        _requireWindow(f.phase.replayOpens, f.phase.replayEnd);
        if (!lane.has(Lanes.START)) revert StartNotOpened(ref.slot, ref.draw);
        bool called =
            f.phaseIndex != PHASE_RESERVES || ledger.isEscalated(ref.task, ref.round, ref.slot, ref.draw);
        if (!called) revert NotEscalated(ref.slot, ref.draw);
        lane.setStatus(ref.rank, status);
        lane.save(_lanes);
    }

    // Step 7: show ------------------------------------------------------------------------------------------------
    /// @inheritdoc IAuditBook
    function openEnd(
        TaskId task,
        uint32 round,
        uint32 draw,
        BoundaryProof calldata end,
        BoundaryProof calldata last
    ) external {
        Context memory c = _contextOf(task, round);
        Claim memory claim = _claimOfSender(c);
        _openEnd(c, claim, draw, end, last.header);
        _keepLast(c, claim, last);
    }

    /// @inheritdoc IAuditBook
    function openEnds(TaskId task, uint32 round, BoundaryProof[] calldata ends, BoundaryProof calldata last)
        external
    {
        Context memory c = _contextOf(task, round);
        Claim memory claim = _claimOfSender(c);
        for (uint32 draw = 0; draw < ends.length; ++draw) {
            _openEnd(c, claim, draw, ends[draw], last.header);
        }
        _keepLast(c, claim, last);
    }

    function _openEnd(
        Context memory c,
        Claim memory claim,
        uint32 draw,
        BoundaryProof calldata end,
        StateHeader calldata last
    ) private {
        Frame memory f = _drawnFrame(c, AuditRef(c.task, c.round, claim.slot, draw, 0));
        _requireWindow(f.phase.replayEnd, f.phase.showEnd);
        Lanes.Lane memory lane = _laneOf(f.ref);
        if (lane.has(Lanes.END)) revert AlreadyOpened(claim.slot, draw);
        if (!lane.has(Lanes.START)) revert StartNotOpened(claim.slot, draw);
        bytes32 root = _requireBoundary(c, claim, f.segment + 1, end);
        _ends[_drawKey(f.ref)] = root;
        lane.set(Lanes.END);
        emit EndOpened(c.task, c.round, claim.slot, draw, end.header, last);
        if (lane.statusOf(0) == AuditStatus.REVEALED) _acceptEqual(f.ref, lane, root, _results[_auditKey(f.ref)]);
        lane.save(_lanes);
    }

    function _keepLast(Context memory c, Claim memory claim, BoundaryProof calldata last) private {
        _requireBoundary(c, claim, c.terms.innerSteps / c.terms.segmentSteps, last);
        bytes32 key = _slotKey(c.task, c.round, claim.slot);
        if (c.terms.carryMoments == 1) _last[key] = last.header;
        else _last[key].weightsRoot = last.header.weightsRoot;
    }

    /// @inheritdoc IAuditBook
    function reveal(AuditRef calldata ref, StateHeader calldata end, bytes32 salt) external {
        _reveal(_contextOf(ref.task, ref.round), ref, end, salt);
    }

    /// @inheritdoc IAuditBook
    function reveals(AuditRef[] calldata refs, StateHeader[] calldata ends, bytes32[] calldata salts)
        external
    {
        _requireCount(refs.length, ends.length);
        _requireCount(refs.length, salts.length);
        Context memory c;
        for (uint256 i = 0; i < refs.length; ++i) {
            c = _contextFor(c, refs[i]);
            _reveal(c, refs[i], ends[i], salts[i]);
        }
    }

    function _reveal(Context memory c, AuditRef calldata ref, StateHeader calldata end, bytes32 salt)
        private
    {
        (Frame memory f, Lanes.Lane memory lane) = _auditorFrame(c, ref, AuditStatus.COMMITTED);
        _requireWindow(f.phase.replayEnd, f.phase.showEnd);
        bytes32 root = Hashing.stateRoot(end);
        bytes32 key = _auditKey(ref);
        bytes32 actual = Hashing.auditCommitment(_domainOf(ref.task), ref, msg.sender, root, salt);
        if (actual != _results[key]) revert CommitmentMismatch(_results[key], actual);
        _results[key] = root;
        lane.setStatus(ref.rank, AuditStatus.REVEALED);
        emit Revealed(ref.task, ref.round, ref.slot, ref.draw, ref.rank, msg.sender, end);
        if (lane.has(Lanes.END)) _acceptEqual(ref, lane, _ends[_drawKey(ref)], root);
        lane.save(_lanes);
    }

    function _requireCount(uint256 expected, uint256 actual) private pure {
        if (actual != expected) revert WrongCount(expected, actual);
    }

    /// @dev Called by whichever of the two comes second. An equal result is the solver's, and is kept once.
    function _acceptEqual(AuditRef memory ref, Lanes.Lane memory lane, bytes32 claimed, bytes32 replayed)
        private
    {
        if (claimed != replayed) return;
        delete _results[_auditKey(ref)];
        _judged(ref, lane, Judgement.ACCEPT);
    }

    function _judged(AuditRef memory ref, Lanes.Lane memory lane, Judgement worst) private {
        AuditStatus status = worst == Judgement.ACCEPT ? AuditStatus.ACCEPTS : AuditStatus.REJECTS;
        lane.setStatus(ref.rank, status);
        emit AuditJudged(ref.task, ref.round, ref.slot, ref.draw, ref.rank, status, worst);
    }

    // Step 8: leaves ----------------------------------------------------------------------------------------------
    /// @inheritdoc IAuditBook
    function sealLeaves(TaskId task, uint32 round, uint32 phase, bytes calldata proof) external {
        if (phase > PHASE_LATE) revert WrongPhase(0, phase);
        bytes32 sealed_ = _leafSeeds[task][round][phase];
        if (sealed_ != 0) revert AlreadySealed(sealed_);
        Phase memory p = _phaseOf(_contextOf(task, round), phase);
        _requireWindow(p.leavesBlock + 1, p.leavesEnd);
        bytes32 value = randomness.read(p.leavesBlock, proof);
        bytes32 seed = Hashing.leafSeed(_domainOf(task), round, phase, value);
        _leafSeeds[task][round][phase] = seed;
        emit LeavesSealed(task, round, phase, seed);
    }

    /// @inheritdoc IAuditBook
    function openLeaves(
        TaskId task,
        uint32 round,
        uint32 draw,
        uint32 phase,
        StateHeader calldata end,
        StateLeaves[] calldata leaves
    ) external {
        Context memory c = _contextOf(task, round);
        Frame memory f = _drawnFrame(c, AuditRef(task, round, _slotOfSender(task, round), draw, 0));
        if (phase > PHASE_LATE || (phase == PHASE_LATE) != (f.phaseIndex == PHASE_LATE)) {
            revert WrongPhase(draw, phase);
        }
        (f.phaseIndex, f.phase) = (phase, _phaseOf(c, phase));
        _requireWindow(f.phase.leavesBlock, f.phase.openEnd);
        Lanes.Lane memory lane = _laneOf(f.ref);
        if (!lane.has(Lanes.END)) revert EndNotOpened(f.ref.slot, draw);
        if (lane.hasLeaves(phase)) revert AlreadyOpened(f.ref.slot, draw);
        LeafSet memory set = _drawnLeaves(f);
        if (leaves.length != set.indices.length) revert WrongLeafCount(set.indices.length, leaves.length);
        _requireHeader(_ends[_drawKey(f.ref)], end);
        _requireLeaves(end, set, leaves);
        lane.setLeaves(phase);
        lane.save(_lanes);
        emit LeavesOpened(task, round, f.ref.slot, draw, phase, leaves);
    }

    function _requireHeader(bytes32 expected, StateHeader calldata header) private pure {
        bytes32 actual = Hashing.stateRoot(header);
        if (actual != expected) revert HeaderMismatch(expected, actual);
    }

    /// @dev Without a sealed draw there is nothing to open; the window's end then decides.
    function _drawnLeaves(Frame memory f) private view returns (LeafSet memory set) {
        bytes32 seed = _leafSeeds[f.ref.task][f.ref.round][f.phaseIndex];
        if (seed == 0) revert LeavesNotOpened(f.ref.slot, f.ref.draw, f.phaseIndex);
        set.leafCount = PositionalMerkle.tensorLeafCount(f.terms.parameterCount);
        set.indices = Draw.leaves(seed, f.ref.slot, f.ref.draw, f.terms.leafDraws, set.leafCount);
    }

    function _requireLeaves(StateHeader calldata header, LeafSet memory set, StateLeaves[] calldata leaves)
        private
        pure
    {
        for (uint256 i = 0; i < leaves.length; ++i) {
            uint256 index = set.indices[i];
            StateLeaves calldata leaf = leaves[i];
            _requireLeaf(header.weightsRoot, leaf.weights.data, index, set.leafCount, leaf.weights.path);
            _requireLeaf(
                header.firstMomentRoot, leaf.firstMoment.data, index, set.leafCount, leaf.firstMoment.path
            );
            _requireLeaf(
                header.secondMomentRoot, leaf.secondMoment.data, index, set.leafCount, leaf.secondMoment.path
            );
        }
    }

    function _requireLeaf(
        bytes32 root,
        bytes calldata data,
        uint256 index,
        uint256 count,
        bytes32[] calldata path
    ) private pure {
        if (!PositionalMerkle.verifyData(root, data, index, count, path)) {
            revert LeafMismatch(root, index);
        }
    }

    /// @inheritdoc IAuditBook
    function compareLeaves(
        AuditRef calldata ref,
        StateHeader[2] calldata ends,
        StateLeaves[] calldata claimed,
        StateLeaves[] calldata replayed,
        uint32[] calldata extraIndex,
        uint256 learningRateSum,
        bytes32[] calldata schedulePath
    ) external {
        (Frame memory f, Lanes.Lane memory lane) =
            _auditorFrame(_contextOf(ref.task, ref.round), ref, AuditStatus.REVEALED);
        _requireWindow(f.phase.leavesBlock, f.phase.compareEnd);
        if (!lane.hasLeaves(f.phaseIndex)) revert LeavesNotOpened(ref.slot, ref.draw, f.phaseIndex);
        LeafSet memory set = _withExtra(_drawnLeaves(f), extraIndex);
        _requirePairs(set.indices.length, claimed.length, replayed.length);
        _requireHeader(_ends[_drawKey(ref)], ends[0]);
        _requireLeaves(ends[0], set, claimed);
        _requireHeader(_results[_auditKey(ref)], ends[1]);
        _requireLeaves(ends[1], set, replayed);
        _requireSchedule(f, learningRateSum, schedulePath);
        Tolerance.Rule memory rule = Tolerance.Rule(f.terms.accept, f.terms.reject, learningRateSum);
        _judged(ref, lane, _compare(claimed, replayed, rule));
        lane.save(_lanes);
    }

    /// @dev The drawn indices, and at most one of the auditor's choice behind them.
    function _withExtra(LeafSet memory set, uint32[] calldata extra)
        private
        pure
        returns (LeafSet memory all)
    {
        if (extra.length == 0) return set;
        if (extra.length > 1) revert WrongLeafCount(1, extra.length);
        uint256 drawn = set.indices.length;
        (all.leafCount, all.indices) = (set.leafCount, new uint256[](drawn + 1));
        for (uint256 i = 0; i < drawn; ++i) {
            all.indices[i] = set.indices[i];
        }
        all.indices[drawn] = extra[0];
    }

    function _requirePairs(uint256 expected, uint256 claimed, uint256 replayed) private pure {
        if (claimed != expected) revert WrongLeafCount(expected, claimed);
        if (replayed != expected) revert WrongLeafCount(expected, replayed);
    }

    function _requireSchedule(Frame memory f, uint256 learningRateSum, bytes32[] calldata path) private pure {
        uint256 segments = f.terms.innerSteps / f.terms.segmentSteps;
        uint256 index = f.ref.round * segments + f.segment;
        bytes32 leaf = Hashing.scheduleLeaf(index, learningRateSum);
        if (!PositionalMerkle.verify(f.terms.scheduleRoot, leaf, index, f.terms.rounds * segments, path)) {
            revert ScheduleMismatch(f.terms.scheduleRoot, index);
        }
    }

    function _compare(
        StateLeaves[] calldata claimed,
        StateLeaves[] calldata replayed,
        Tolerance.Rule memory rule
    ) private pure returns (Judgement worst) {
        for (uint256 i = 0; i < claimed.length && worst != Judgement.REJECT; ++i) {
            Judgement found = Tolerance.judgeLeaf(_leafOf(claimed[i]), _leafOf(replayed[i]), rule);
            if (found > worst) worst = found;
        }
    }

    function _leafOf(StateLeaves calldata leaf) private pure returns (Tolerance.Leaf memory) {
        return Tolerance.Leaf(leaf.weights.data, leaf.firstMoment.data, leaf.secondMoment.data);
    }

    // Modules only ------------------------------------------------------------------------------------------------
    /// @inheritdoc IAuditBook
    function enforce(AuditRef calldata ref) external returns (AuditStatus) {
        if (msg.sender != address(ledger)) revert NotModule(msg.sender);
        Lanes.Lane memory lane = _laneOf(ref);
        if (lane.statusOf(ref.rank) == AuditStatus.NONE) _fineSilence(ref, lane);
        else _endSilence(ref, lane);
        return lane.statusOf(ref.rank);
    }

    /// @dev Nothing was due where the solver did not open the start.
    function _fineSilence(AuditRef calldata ref, Lanes.Lane memory lane) private {
        if (!lane.has(Lanes.START) || lane.isFined(ref.rank)) return;
        Frame memory f = _frame(_contextOf(ref.task, ref.round), ref);
        if (f.auditor == address(0) || block.number < f.phase.replayEnd) return;
        lane.setFined(ref.rank);
        lane.save(_lanes);
        ExposureId exposure = Hashing.enrolmentExposure(ref.task, ref.round, f.auditor);
        vault.burnFee(exposure, f.terms.amounts.noShowFee, "no replay");
    }

    /// @dev Slashes what was committed and not revealed, or opened and not compared.
    function _endSilence(AuditRef memory ref, Lanes.Lane memory lane) private {
        AuditStatus status = lane.statusOf(ref.rank);
        if (status != AuditStatus.COMMITTED && status != AuditStatus.REVEALED) return;
        Context memory c = _contextOf(ref.task, ref.round);
        uint32 phaseIndex = _phaseIndex(ref, c.terms);
        Phase memory phase = _phaseOf(c, phaseIndex);
        if (status == AuditStatus.COMMITTED) {
            if (block.number >= phase.showEnd) _slash(ref, lane, c.terms, address(0), "unrevealed");
            return;
        }
        bool drawn = _leafSeeds[ref.task][ref.round][phaseIndex] != 0;
        if (!drawn && lane.has(Lanes.END) && block.number >= phase.leavesEnd) {
            _judged(ref, lane, Judgement.GREY);
            lane.save(_lanes);
        } else if (lane.hasLeaves(phaseIndex) && block.number >= phase.compareEnd) {
            _slash(ref, lane, c.terms, address(0), "uncompared");
        }
    }

    /// @inheritdoc IAuditBook
    function settle(TaskId task, uint32 round, uint32 slot) external {
        if (msg.sender != address(ledger)) revert NotModule(msg.sender);
        TaskTerms memory terms = Terms.load(registry, task);
        for (uint32 draw = 0; draw <= terms.segmentDraws; ++draw) {
            Lanes.Lane memory lane = Lanes.load(_lanes, _slotKey(task, round, slot), draw);
            for (uint32 rank = 0; rank < Draw.AUDITORS_PER_DRAW; ++rank) {
                if (lane.statusOf(rank) != AuditStatus.NONE) {
                    _settle(AuditRef(task, round, slot, draw, rank), lane, terms);
                }
            }
        }
    }

    /// @dev The exposure knows whose it is.
    function _settle(AuditRef memory ref, Lanes.Lane memory lane, TaskTerms memory terms) private {
        _endSilence(ref, lane);
        if (!_isRevealed(lane.statusOf(ref.rank))) return;
        address auditor = vault.release(Hashing.auditExposure(ref));
        bool late = ref.draw == terms.segmentDraws;
        vault.pay(ref.task, auditor, late ? terms.amounts.latePay : terms.amounts.auditPay, "audit");
    }

    function _isRevealed(AuditStatus status) private pure returns (bool) {
        return
            status == AuditStatus.REVEALED || status == AuditStatus.ACCEPTS || status == AuditStatus.REJECTS;
    }

    /// @inheritdoc IAuditBook
    function convictAuditor(AuditRef calldata ref, address finder, bytes32 reason) external {
        if (msg.sender != disputes) revert NotModule(msg.sender);
        Lanes.Lane memory lane = _laneOf(ref);
        AuditStatus status = lane.statusOf(ref.rank);
        if (!_isRevealed(status)) revert WrongAuditStatus(AuditStatus.REVEALED, status);
        _slash(ref, lane, Terms.load(registry, ref.task), finder, reason);
    }

    function _slash(
        AuditRef memory ref,
        Lanes.Lane memory lane,
        TaskTerms memory terms,
        address finder,
        bytes32 reason
    ) private {
        lane.setStatus(ref.rank, AuditStatus.SLASHED);
        lane.save(_lanes);
        ExposureId exposure = Hashing.auditExposure(ref);
        (address auditor,) = vault.exposureOf(exposure);
        emit AuditorConvicted(ref.task, ref.round, ref.slot, ref.draw, ref.rank, auditor, reason);
        vault.slash(
            exposure, finder, terms.amounts.finderCap, terms.submitter, terms.amounts.auditPay, reason
        );
    }

    // Frames and windows ------------------------------------------------------------------------------------------
    function _contextOf(TaskId task, uint32 round) private view returns (Context memory c) {
        (c.task, c.round, c.terms) = (task, round, Terms.load(registry, task));
        (, uint256 startBlock,,,,) = registry.roundOf(task, round);
        c.deadlines = Clock.compute(startBlock, c.terms.windows);
    }

    /// @dev The last one where it is of the same round.
    function _contextFor(Context memory c, AuditRef calldata ref) private view returns (Context memory) {
        bool same = TaskId.unwrap(c.task) == TaskId.unwrap(ref.task) && c.round == ref.round;
        return same ? c : _contextOf(ref.task, ref.round);
    }

    function _domainOf(TaskId task) private view returns (bytes32) {
        return Hashing.domain(block.chainid, address(registry), task);
    }

    function _slotOfSender(TaskId task, uint32 round) private view returns (uint32) {
        uint32 index = registry.indexOf(task, round, Role.SOLVER, msg.sender);
        if (index == 0) revert NotSolver(address(0), msg.sender);
        return index - 1;
    }

    function _claimOfSender(Context memory c) private view returns (Claim memory claim) {
        (claim.slot, claim.domain) = (_slotOfSender(c.task, c.round), _domainOf(c.task));
        (claim.root, claim.startLocalStep) = ledger.groundOf(c.task, c.round, claim.slot);
    }

    function _auditorFrame(Context memory c, AuditRef memory ref, AuditStatus expected)
        private
        view
        returns (Frame memory f, Lanes.Lane memory lane)
    {
        f = _drawnFrame(c, ref);
        if (f.auditor != msg.sender) revert NotAuditor(f.auditor, msg.sender);
        lane = _laneOf(ref);
        AuditStatus actual = lane.statusOf(ref.rank);
        if (actual != expected) revert WrongAuditStatus(expected, actual);
    }

    function _drawnFrame(Context memory c, AuditRef memory ref) private view returns (Frame memory f) {
        f = _frame(c, ref);
        if (f.auditor == address(0)) revert NotDrawn(ref.slot, ref.draw, ref.rank);
    }

    function _frame(Context memory c, AuditRef memory ref) private view returns (Frame memory f) {
        (f.ref, f.terms) = (ref, c.terms);
        (f.segment, f.auditor) = ledger.drawnOf(ref);
        f.phaseIndex = _phaseIndex(ref, f.terms);
        f.phase = _phaseOf(c, f.phaseIndex);
    }

    function _phaseIndex(AuditRef memory ref, TaskTerms memory terms) private pure returns (uint32) {
        if (ref.draw == terms.segmentDraws) return PHASE_LATE;
        return ref.rank == 0 ? PHASE_PRIMARY : PHASE_RESERVES;
    }

    function _phaseOf(Context memory c, uint32 index) private view returns (Phase memory) {
        if (index == PHASE_LATE) return _latePhase(ledger.mergedBlockOf(c.task, c.round), c.terms);
        return index == PHASE_PRIMARY ? _primaryPhase(c.deadlines) : _reservePhase(c.deadlines);
    }

    function _primaryPhase(Deadlines memory d) private pure returns (Phase memory p) {
        (p.replayOpens, p.startEnd, p.replayEnd, p.showEnd) =
        (d.drawBlock, d.startEnd, d.replayEnd, d.showEnd);
        (p.leavesBlock, p.leavesEnd, p.openEnd, p.compareEnd) =
        (d.leavesBlock, d.leavesEnd, d.openEnd, d.compareEnd);
    }

    function _reservePhase(Deadlines memory d) private pure returns (Phase memory p) {
        (p.replayOpens, p.startEnd) = (d.compareEnd, d.startEnd);
        (p.replayEnd, p.showEnd) = (d.reserveReplayEnd, d.reserveShowEnd);
        (p.leavesBlock, p.leavesEnd) = (d.reserveLeavesBlock, d.reserveLeavesEnd);
        (p.openEnd, p.compareEnd) = (d.reserveOpenEnd, d.reserveCompareEnd);
    }

    /// @dev Before the merge is known every late window is empty: it closes at block 0.
    function _latePhase(uint256 mergedBlock, TaskTerms memory terms) private pure returns (Phase memory p) {
        if (mergedBlock == 0) return p;
        LateDeadlines memory d = Clock.computeLate(mergedBlock, terms.windows);
        (p.replayOpens, p.startEnd, p.replayEnd, p.showEnd) =
        (d.lateBlock, d.startEnd, d.replayEnd, d.showEnd);
        (p.leavesBlock, p.leavesEnd, p.openEnd, p.compareEnd) =
        (d.leavesBlock, d.leavesEnd, d.openEnd, d.compareEnd);
    }

    function _requireWindow(uint256 opens, uint256 closes) private view {
        if (block.number < opens || block.number >= closes) {
            revert OutsideWindow(opens, closes, block.number);
        }
    }

    // Keys --------------------------------------------------------------------------------------------------------
    function _auditKey(AuditRef memory ref) private pure returns (bytes32) {
        return keccak256(abi.encode(ref));
    }

    function _drawKey(AuditRef memory ref) private pure returns (bytes32) {
        return keccak256(abi.encode(ref.task, ref.round, ref.slot, ref.draw));
    }

    function _slotKey(TaskId task, uint32 round, uint32 slot) private pure returns (bytes32) {
        return keccak256(abi.encode(task, round, slot));
    }

    function _laneOf(AuditRef memory ref) private view returns (Lanes.Lane memory) {
        return Lanes.load(_lanes, _slotKey(ref.task, ref.round, ref.slot), ref.draw);
    }

    // Views -------------------------------------------------------------------------------------------------------
    /// @inheritdoc IAuditBook
    function statusOf(AuditRef calldata ref) external view returns (AuditStatus) {
        return _laneOf(ref).statusOf(ref.rank);
    }

    /// @inheritdoc IAuditBook
    function openedOf(TaskId task, uint32 round, uint32 slot, uint32 draw, uint32 phase)
        external
        view
        returns (bool start, bool end, bool leaves)
    {
        Lanes.Lane memory lane = Lanes.load(_lanes, _slotKey(task, round, slot), draw);
        return (lane.has(Lanes.START), lane.has(Lanes.END), lane.hasLeaves(phase));
    }

    /// @inheritdoc IAuditBook
    function summaryOf(TaskId task, uint32 round, uint32 slot, uint32 draws)
        external
        view
        returns (bool starts, bool ends, bool accepts)
    {
        (starts, ends, accepts) = (true, true, true);
        for (uint32 draw = 0; draw < draws; ++draw) {
            Lanes.Lane memory lane = Lanes.load(_lanes, _slotKey(task, round, slot), draw);
            starts = starts && lane.has(Lanes.START);
            ends = ends && lane.has(Lanes.END);
            accepts = accepts && lane.statusOf(0) == AuditStatus.ACCEPTS;
        }
    }

    /// @inheritdoc IAuditBook
    function startOf(TaskId task, uint32 round, uint32 slot, uint32 draw) external view returns (bytes32) {
        return _starts[_drawKey(AuditRef(task, round, slot, draw, 0))];
    }

    /// @inheritdoc IAuditBook
    function lastOf(TaskId task, uint32 round, uint32 slot) external view returns (StateHeader memory) {
        return _last[_slotKey(task, round, slot)];
    }

    /// @inheritdoc IAuditBook
    function revealedOf(AuditRef calldata ref) external view returns (bytes32) {
        if (!_isRevealed(_laneOf(ref).statusOf(ref.rank))) return 0;
        bytes32 own = _results[_auditKey(ref)];
        return own == 0 ? _ends[_drawKey(ref)] : own;
    }

    /// @inheritdoc IAuditBook
    function leafSeedOf(TaskId task, uint32 round, uint32 phase) external view returns (bytes32) {
        return _leafSeeds[task][round][phase];
    }
}
