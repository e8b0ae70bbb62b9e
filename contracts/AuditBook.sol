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
import {Clock, Deadlines, LateDeadlines} from "./libraries/Clock.sol";
import {Draw} from "./libraries/Draw.sol";
import {Hashing} from "./libraries/Hashing.sol";
import {PositionalMerkle} from "./libraries/PositionalMerkle.sol";
import {Tolerance} from "./libraries/Tolerance.sol";

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
    uint32 private constant PHASE_PRIMARY = 0;
    uint32 private constant PHASE_RESERVES = 1;
    uint32 private constant PHASE_LATE = 2;

    /// @notice The solver's side of one draw. `leafPhases` bit p: its leaves of phase p are opened.
    struct Opening {
        bool start;
        bool end;
        uint8 leafPhases;
        StateHeader startState;
        StateHeader endState;
    }

    struct Audit {
        address auditor;
        AuditStatus status;
        bool fined;
        bytes32 commitment;
        StateHeader end;
    }

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

    /// @notice One audit with all that its task and its draw say of it.
    struct Frame {
        AuditRef ref;
        TaskTerms terms;
        Phase phase;
        uint32 phaseIndex;
        uint32 segment;
        address auditor;
    }

    /// @notice What leaf openings are checked against.
    struct LeafSet {
        uint256[] indices;
        uint256 leafCount;
    }

    IStakeVault public immutable vault;
    ITaskRegistry public immutable registry;
    IRoundLedger public immutable ledger;
    address public immutable disputes;
    IRandomness public immutable randomness;

    mapping(bytes32 => Opening) private _openings;
    mapping(bytes32 => StateHeader) private _last;
    mapping(bytes32 => Audit) private _audits;
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
    function openStart(TaskId task, uint32 round, uint32 draw, BoundaryProof calldata start) external {
        Frame memory f = _solverFrame(task, round, draw);
        _requireWindow(0, f.phase.startEnd);
        Opening storage opening = _openings[_drawKey(f.ref)];
        if (opening.start) revert AlreadyOpened(f.ref.slot, draw);
        _requireBoundary(f, f.segment, start);
        (opening.start, opening.startState) = (true, start.header);
        emit StartOpened(task, round, f.ref.slot, draw, start.header);
    }

    /// @dev The boundary belongs to the claim and carries the step numbers that its place demands.
    function _requireBoundary(Frame memory f, uint32 boundary, BoundaryProof calldata proof) private view {
        AuditRef memory ref = f.ref;
        ledger.verifyBoundary(ref.task, ref.round, ref.slot, boundary, proof);
        (uint32 local, uint32 global) =
            ledger.stepsOf(ref.task, ref.round, ref.slot, boundary * f.terms.segmentSteps);
        StateHeader calldata header = proof.header;
        if (header.localStep != local || header.globalStep != global) {
            revert WrongSteps(local, header.localStep, global, header.globalStep);
        }
    }

    // Step 6: blind replay ----------------------------------------------------------------------------------------
    function commitReplay(AuditRef calldata ref, bytes32 commitment) external {
        (Frame memory f, Audit storage audit) = _takeUp(ref, AuditStatus.COMMITTED);
        audit.commitment = commitment;
        emit ReplayCommitted(ref.task, ref.round, ref.slot, ref.draw, ref.rank, msg.sender, commitment);
        vault.expose(Hashing.auditExposure(ref), msg.sender, f.terms.amounts.auditStake);
    }

    function sayUnserved(AuditRef calldata ref) external {
        _takeUp(ref, AuditStatus.UNSERVED);
        emit Unserved(ref.task, ref.round, ref.slot, ref.draw, ref.rank, msg.sender);
    }

    function abstain(AuditRef calldata ref) external {
        _takeUp(ref, AuditStatus.ABSTAINED);
        emit Abstained(ref.task, ref.round, ref.slot, ref.draw, ref.rank, msg.sender);
    }

    /// @dev The drawn auditor's one word on its audit.
    function _takeUp(AuditRef calldata ref, AuditStatus status)
        private
        returns (Frame memory f, Audit storage audit)
    {
        (f, audit) = _auditorFrame(ref, AuditStatus.NONE);
        _requireWindow(f.phase.replayOpens, f.phase.replayEnd);
        if (!_openings[_drawKey(ref)].start) revert StartNotOpened(ref.slot, ref.draw);
        bool called =
            f.phaseIndex != PHASE_RESERVES || ledger.isEscalated(ref.task, ref.round, ref.slot, ref.draw);
        if (!called) revert NotEscalated(ref.slot, ref.draw);
        (audit.auditor, audit.status) = (msg.sender, status);
    }

    // Step 7: show ------------------------------------------------------------------------------------------------
    function openEnd(
        TaskId task,
        uint32 round,
        uint32 draw,
        BoundaryProof calldata end,
        BoundaryProof calldata last
    ) external {
        Frame memory f = _solverFrame(task, round, draw);
        _requireWindow(f.phase.replayEnd, f.phase.showEnd);
        Opening storage opening = _openings[_drawKey(f.ref)];
        if (opening.end) revert AlreadyOpened(f.ref.slot, draw);
        if (!opening.start) revert StartNotOpened(f.ref.slot, draw);
        _requireBoundary(f, f.segment + 1, end);
        _requireBoundary(f, f.terms.innerSteps / f.terms.segmentSteps, last);
        (opening.end, opening.endState) = (true, end.header);
        _last[_slotKey(task, round, f.ref.slot)] = last.header;
        emit EndOpened(task, round, f.ref.slot, draw, end.header, last.header);
        Audit storage audit = _audits[_auditKey(f.ref)];
        if (audit.status == AuditStatus.REVEALED) _acceptEqual(f.ref, audit, opening);
    }

    function reveal(AuditRef calldata ref, StateHeader calldata end, bytes32 salt) external {
        (Frame memory f, Audit storage audit) = _auditorFrame(ref, AuditStatus.COMMITTED);
        _requireWindow(f.phase.replayEnd, f.phase.showEnd);
        bytes32 domain = registry.domainOf(ref.task);
        bytes32 actual = Hashing.auditCommitment(domain, ref, msg.sender, Hashing.stateRoot(end), salt);
        if (actual != audit.commitment) revert CommitmentMismatch(audit.commitment, actual);
        (audit.status, audit.end) = (AuditStatus.REVEALED, end);
        emit Revealed(ref.task, ref.round, ref.slot, ref.draw, ref.rank, msg.sender, end);
        Opening storage opening = _openings[_drawKey(ref)];
        if (opening.end) _acceptEqual(ref, audit, opening);
    }

    /// @dev Called by whichever of the two comes second.
    function _acceptEqual(AuditRef memory ref, Audit storage audit, Opening storage opening) private {
        if (Hashing.stateRoot(audit.end) == Hashing.stateRoot(opening.endState)) {
            _judged(ref, audit, Judgement.ACCEPT);
        }
    }

    function _judged(AuditRef memory ref, Audit storage audit, Judgement worst) private {
        audit.status = worst == Judgement.ACCEPT ? AuditStatus.ACCEPTS : AuditStatus.REJECTS;
        emit AuditJudged(ref.task, ref.round, ref.slot, ref.draw, ref.rank, audit.status, worst);
    }

    // Step 8: leaves ----------------------------------------------------------------------------------------------
    function sealLeaves(TaskId task, uint32 round, uint32 phase, bytes calldata proof) external {
        if (phase > PHASE_LATE) revert WrongPhase(0, phase);
        if (_leafSeeds[task][round][phase] != 0) revert AlreadySealed();
        Phase memory p = _phaseOf(task, round, phase, registry.termsOf(task));
        _requireWindow(p.leavesBlock + 1, p.leavesEnd);
        bytes32 value = randomness.read(p.leavesBlock, proof);
        bytes32 seed = Hashing.leafSeed(registry.domainOf(task), round, phase, value);
        _leafSeeds[task][round][phase] = seed;
        emit LeavesSealed(task, round, phase, seed);
    }

    function openLeaves(TaskId task, uint32 round, uint32 draw, uint32 phase, StateLeaves[] calldata leaves)
        external
    {
        Frame memory f = _solverFrame(task, round, draw);
        if (phase > PHASE_LATE || (phase == PHASE_LATE) != (f.phaseIndex == PHASE_LATE)) {
            revert WrongPhase(draw, phase);
        }
        (f.phaseIndex, f.phase) = (phase, _phaseOf(task, round, phase, f.terms));
        _requireWindow(f.phase.leavesBlock, f.phase.openEnd);
        Opening storage opening = _openings[_drawKey(f.ref)];
        if (!opening.end) revert EndNotOpened(f.ref.slot, draw);
        if (_hasPhase(opening, phase)) revert AlreadyOpened(f.ref.slot, draw);
        LeafSet memory set = _drawnLeaves(f);
        if (leaves.length != set.indices.length) revert WrongLeafCount(set.indices.length, leaves.length);
        _requireLeaves(opening.endState, set, leaves);
        opening.leafPhases |= uint8(1 << phase);
        emit LeavesOpened(task, round, f.ref.slot, draw, phase, leaves);
    }

    function _hasPhase(Opening storage opening, uint32 phase) private view returns (bool) {
        return (opening.leafPhases >> phase) & 1 == 1;
    }

    /// @dev Without a sealed draw there is nothing to open; the window's end then decides.
    function _drawnLeaves(Frame memory f) private view returns (LeafSet memory set) {
        bytes32 seed = _leafSeeds[f.ref.task][f.ref.round][f.phaseIndex];
        if (seed == 0) revert LeavesNotOpened(f.ref.slot, f.ref.draw, f.phaseIndex);
        set.leafCount = PositionalMerkle.tensorLeafCount(f.terms.parameterCount);
        set.indices = Draw.leaves(seed, f.ref.slot, f.ref.draw, f.terms.leafDraws, set.leafCount);
    }

    function _requireLeaves(StateHeader memory header, LeafSet memory set, StateLeaves[] calldata leaves)
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

    function compareLeaves(
        AuditRef calldata ref,
        StateLeaves[] calldata claimed,
        StateLeaves[] calldata replayed,
        uint32[] calldata extraIndex,
        uint256 learningRateSum,
        bytes32[] calldata schedulePath
    ) external {
        (Frame memory f, Audit storage audit) = _auditorFrame(ref, AuditStatus.REVEALED);
        _requireWindow(f.phase.leavesBlock, f.phase.compareEnd);
        Opening storage opening = _openings[_drawKey(ref)];
        if (!_hasPhase(opening, f.phaseIndex)) revert LeavesNotOpened(ref.slot, ref.draw, f.phaseIndex);
        LeafSet memory set = _withExtra(_drawnLeaves(f), extraIndex);
        _requirePairs(set.indices.length, claimed.length, replayed.length);
        _requireLeaves(opening.endState, set, claimed);
        _requireLeaves(audit.end, set, replayed);
        _requireSchedule(f, learningRateSum, schedulePath);
        _judged(
            ref,
            audit,
            _compare(claimed, replayed, Tolerance.Rule(f.terms.accept, f.terms.reject, learningRateSum))
        );
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
    function enforce(AuditRef calldata ref) external returns (AuditStatus) {
        if (msg.sender != address(ledger)) revert NotModule(msg.sender);
        Audit storage audit = _audits[_auditKey(ref)];
        if (audit.status == AuditStatus.NONE) _fineSilence(ref, audit);
        else _endSilence(ref, audit);
        return audit.status;
    }

    /// @dev Nothing was due where the solver did not open the start.
    function _fineSilence(AuditRef calldata ref, Audit storage audit) private {
        if (audit.fined || !_openings[_drawKey(ref)].start) return;
        Frame memory f = _frame(ref);
        if (f.auditor == address(0) || block.number < f.phase.replayEnd) return;
        audit.fined = true;
        ExposureId exposure = Hashing.enrolmentExposure(ref.task, ref.round, f.auditor);
        vault.burnFee(exposure, f.terms.amounts.noShowFee, "no replay");
    }

    /// @dev Slashes what was committed and not revealed, or opened and not compared.
    function _endSilence(AuditRef calldata ref, Audit storage audit) private {
        if (audit.status != AuditStatus.COMMITTED && audit.status != AuditStatus.REVEALED) return;
        TaskTerms memory terms = registry.termsOf(ref.task);
        uint32 phaseIndex = _phaseIndex(ref, terms);
        Phase memory phase = _phaseOf(ref.task, ref.round, phaseIndex, terms);
        if (audit.status == AuditStatus.COMMITTED) {
            if (block.number >= phase.showEnd) _slash(ref, audit, terms, address(0), "unrevealed");
            return;
        }
        bool drawn = _leafSeeds[ref.task][ref.round][phaseIndex] != 0;
        Opening storage opening = _openings[_drawKey(ref)];
        if (!drawn && opening.end && block.number >= phase.leavesEnd) {
            _judged(ref, audit, Judgement.GREY);
        } else if (_hasPhase(opening, phaseIndex) && block.number >= phase.compareEnd) {
            _slash(ref, audit, terms, address(0), "uncompared");
        }
    }

    function settle(AuditRef calldata ref) external {
        if (msg.sender != address(ledger)) revert NotModule(msg.sender);
        Audit storage audit = _audits[_auditKey(ref)];
        _endSilence(ref, audit);
        if (!_isRevealed(audit.status)) return;
        TaskTerms memory terms = registry.termsOf(ref.task);
        bool late = _phaseIndex(ref, terms) == PHASE_LATE;
        vault.release(Hashing.auditExposure(ref));
        vault.pay(ref.task, audit.auditor, late ? terms.amounts.latePay : terms.amounts.auditPay, "audit");
    }

    function _isRevealed(AuditStatus status) private pure returns (bool) {
        return
            status == AuditStatus.REVEALED || status == AuditStatus.ACCEPTS || status == AuditStatus.REJECTS;
    }

    function convictAuditor(AuditRef calldata ref, address finder, bytes32 reason) external {
        if (msg.sender != disputes) revert NotModule(msg.sender);
        Audit storage audit = _audits[_auditKey(ref)];
        if (!_isRevealed(audit.status)) revert WrongAuditStatus(AuditStatus.REVEALED, audit.status);
        _slash(ref, audit, registry.termsOf(ref.task), finder, reason);
    }

    function _slash(
        AuditRef calldata ref,
        Audit storage audit,
        TaskTerms memory terms,
        address finder,
        bytes32 reason
    ) private {
        audit.status = AuditStatus.SLASHED;
        emit AuditorConvicted(ref.task, ref.round, ref.slot, ref.draw, ref.rank, audit.auditor, reason);
        ExposureId exposure = Hashing.auditExposure(ref);
        vault.slash(
            exposure, finder, terms.amounts.finderCap, terms.submitter, terms.amounts.auditPay, reason
        );
    }

    // Frames and windows ------------------------------------------------------------------------------------------
    function _solverFrame(TaskId task, uint32 round, uint32 draw) private view returns (Frame memory) {
        uint32 index = registry.indexOf(task, round, Role.SOLVER, msg.sender);
        if (index == 0) revert NotSolver(address(0), msg.sender);
        return _drawnFrame(AuditRef(task, round, index - 1, draw, 0));
    }

    function _auditorFrame(AuditRef memory ref, AuditStatus expected)
        private
        view
        returns (Frame memory f, Audit storage audit)
    {
        f = _drawnFrame(ref);
        if (f.auditor != msg.sender) revert NotAuditor(f.auditor, msg.sender);
        audit = _audits[_auditKey(ref)];
        if (audit.status != expected) revert WrongAuditStatus(expected, audit.status);
    }

    function _drawnFrame(AuditRef memory ref) private view returns (Frame memory f) {
        f = _frame(ref);
        if (f.auditor == address(0)) revert NotDrawn(ref.slot, ref.draw, ref.rank);
    }

    function _frame(AuditRef memory ref) private view returns (Frame memory f) {
        (f.ref, f.terms) = (ref, registry.termsOf(ref.task));
        (f.segment, f.auditor) = ledger.drawnOf(ref);
        f.phaseIndex = _phaseIndex(ref, f.terms);
        f.phase = _phaseOf(ref.task, ref.round, f.phaseIndex, f.terms);
    }

    function _phaseIndex(AuditRef memory ref, TaskTerms memory terms) private pure returns (uint32) {
        if (ref.draw == terms.segmentDraws) return PHASE_LATE;
        return ref.rank == 0 ? PHASE_PRIMARY : PHASE_RESERVES;
    }

    function _phaseOf(TaskId task, uint32 round, uint32 index, TaskTerms memory terms)
        private
        view
        returns (Phase memory)
    {
        if (index == PHASE_LATE) return _latePhase(ledger.mergedBlockOf(task, round), terms);
        (, uint256 startBlock,,,,) = registry.roundOf(task, round);
        Deadlines memory d = Clock.compute(startBlock, terms.windows);
        return index == PHASE_PRIMARY ? _primaryPhase(d) : _reservePhase(d);
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

    // Views -------------------------------------------------------------------------------------------------------
    function statusOf(AuditRef calldata ref) external view returns (AuditStatus) {
        return _audits[_auditKey(ref)].status;
    }

    function openedOf(TaskId task, uint32 round, uint32 slot, uint32 draw, uint32 phase)
        external
        view
        returns (bool start, bool end, bool leaves)
    {
        Opening storage opening = _openings[_drawKey(AuditRef(task, round, slot, draw, 0))];
        return (opening.start, opening.end, _hasPhase(opening, phase));
    }

    function startOf(TaskId task, uint32 round, uint32 slot, uint32 draw)
        external
        view
        returns (StateHeader memory)
    {
        return _openings[_drawKey(AuditRef(task, round, slot, draw, 0))].startState;
    }

    function endOf(TaskId task, uint32 round, uint32 slot, uint32 draw)
        external
        view
        returns (StateHeader memory end, StateHeader memory last)
    {
        end = _openings[_drawKey(AuditRef(task, round, slot, draw, 0))].endState;
        last = _last[_slotKey(task, round, slot)];
    }

    function revealedOf(AuditRef calldata ref) external view returns (StateHeader memory) {
        return _audits[_auditKey(ref)].end;
    }

    function leafSeedOf(TaskId task, uint32 round, uint32 phase) external view returns (bytes32) {
        return _leafSeeds[task][round][phase];
    }
}
