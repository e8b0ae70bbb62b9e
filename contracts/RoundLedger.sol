// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {
    AuditRef,
    AuditStatus,
    BoundaryProof,
    ClaimStatus,
    ExposureId,
    Role,
    RoundStatus,
    StateHeader,
    TaskId
} from "./Types.sol";
import {IAuditBook} from "./interfaces/IAuditBook.sol";
import {IDisputeGame} from "./interfaces/IDisputeGame.sol";
import {IRandomness} from "./interfaces/IRandomness.sol";
import {IRoundLedger} from "./interfaces/IRoundLedger.sol";
import {IStakeVault} from "./interfaces/IStakeVault.sol";
import {ITaskRegistry} from "./interfaces/ITaskRegistry.sol";
import {Frames, RoundFrame, RoundReader} from "./RoundReader.sol";
import {Boundaries} from "./libraries/Boundaries.sol";
import {Hashing} from "./libraries/Hashing.sol";
import {Checkpoints} from "@openzeppelin/contracts/utils/structs/Checkpoints.sol";

/// @title The life of a solver's claim and of the round's outer root, as one state machine driven by block numbers.
/// @notice
/// ```
///            commit                       judge at showEnd: every primary ACCEPTS
/// NONE ----------------> COMMITTED ---------------------------------------------------------> ACCEPTED
///  | judge at trainEnd    |  |  | judge at compareEnd: some primary does not      2 of 3 in      ^
///  v                      |  |  +-----------------------------------> ESCALATED -- each draw ----+
/// DROPPED (F)             |  |                                            | judge at reserveCompareEnd
///                         |  +--> VOID <----------------------------------+
///                         |       no draw: no fault; start, end or leaves not opened: F; fewer than 2 of 3: no F, and where nobody
///                         v       REJECTS the pay is burned; 2 of 3 UNSERVED: F of the solver and of each who said so
///                      CONVICTED  from any stage but NONE and DROPPED, by a dispute or a wrong pseudo-gradient: the stake
/// ```
/// All claims final: somebody posts the outer root over the accepted ones with a bond, and the merge window runs; with none accepted the
/// old root is merged by the last verdict itself. A claim that is convicted before the post leaves the set; later it only loses stake and pay.
/// Late audits change no verdict; a solver that is silent in its own forfeits its pay. `settleClaim` pays and releases everything of one claim
/// at once; it judges first whatever nobody judged, so a round ends though everybody was silent, and no loop in it depends on what a
/// participant did. Majorities decide merging and pay only; they never slash.
/// @dev Statuses move in `_setStatus` alone. Verdicts are computed from what AuditBook holds at the deadline.
contract RoundLedger is IRoundLedger {
    using Checkpoints for Checkpoints.Trace224;

    /// @dev Draw.AUDITORS_PER_DRAW: primary and two reserves.
    uint32 private constant RANKS = 3;
    uint32 private constant PHASE_PRIMARY = 0;
    uint32 private constant PHASE_LATE = 2;
    uint256 private constant MAJORITY = 2;
    /// @dev Of the fees that silent auditors burned their solver gets at most one part in two: its own auditors cost it more than it gets.
    uint256 private constant SILENCE_DIVISOR = 2;
    /// @dev Why a draw without a majority voids its claim: nobody but ACCEPTS spoke, nobody rejects, somebody rejects.
    bytes32 private constant SILENT = "silent";
    bytes32 private constant UNDECIDED = "undecided";
    bytes32 private constant REJECTED = "rejected";
    /// @dev The weight of what the solver failed to do.
    uint256 private constant FAULT = 4;

    /// @param acceptedBlock 0: never accepted; stays when the claim is convicted, so that its late audit stays drawn
    /// @param excluded convicted before the outer root was posted
    /// @param escalatedDraws bit j: the reserves of draw j were called
    /// @param calledLate they had less than half of their replay window left
    /// @param payBurned VOID though nobody rejects: the pay does not go back to the submitter
    /// @param silencePayWei what of it the solver gets, since its auditors said nothing and burned at least twice that
    struct Claim {
        bytes32 claimRoot;
        bytes32 deltaRoot;
        ClaimStatus status;
        bool settled;
        bool excluded;
        bool forfeited;
        bool calledLate;
        bool payBurned;
        uint32 startLocalStep;
        uint32 escalatedDraws;
        uint64 acceptedBlock;
        uint256 silencePayWei;
    }

    /// @param judged claims with a final status
    /// @param accepted claims in the included set
    /// @param postedBlock start of the merge window; moves when a rival root takes over
    /// @param mergedBlock of the first post; late audits count from it
    struct Round {
        bytes32 drawSeed;
        bytes32 lateSeed;
        bytes32 weightsRoot;
        bytes32 momentumRoot;
        address poster;
        uint32 judged;
        uint32 accepted;
        uint32 settled;
        uint64 postedBlock;
        uint64 mergedBlock;
        bool contested;
        bool mergeSettled;
        mapping(uint32 => Claim) claims;
    }

    /// @notice Counts over all rounds of a task: claims that are settled, and posted outer roots whose bond and pay are not.
    struct Progress {
        uint128 settledClaims;
        uint128 openMerges;
    }

    /// @notice What a solver's last accepted claim ended with.
    struct Carried {
        bytes32 firstMomentRoot;
        bytes32 secondMomentRoot;
        uint32 localStep;
    }

    /// @notice What the primaries of one claim came to; bit j of `escalated`: that of draw j does not accept.
    struct Tally {
        uint32 escalated;
        bool leavesMissing;
    }

    /// @notice Where all money lies.
    IStakeVault public immutable vault;
    /// @notice Tasks, peers and rounds.
    ITaskRegistry public immutable registry;
    /// @notice The blind audits.
    IAuditBook public immutable audits;
    /// @notice Disputes on single claims.
    IDisputeGame public immutable disputes;
    /// @notice Contests of outer roots.
    address public immutable contest;
    /// @notice Where the seeds of draws come from.
    IRandomness public immutable randomness;
    RoundReader private immutable _reader;

    mapping(TaskId => mapping(uint32 => Round)) private _rounds;
    mapping(TaskId => mapping(address => Carried)) private _carried;
    mapping(TaskId => Progress) private _progress;
    /// @dev At key r stands r + 1 when round r was merged: the round before another is found in O(log), however many were EMPTY.
    mapping(TaskId => Checkpoints.Trace224) private _merged;

    constructor(
        IStakeVault vault_,
        ITaskRegistry registry_,
        IAuditBook audits_,
        IDisputeGame disputes_,
        address contest_,
        IRandomness randomness_
    ) {
        (vault, registry, audits, disputes, contest) = (vault_, registry_, audits_, disputes_, contest_);
        randomness = randomness_;
        _reader = new RoundReader(registry_);
    }

    // Step 3: commit ----------------------------------------------------------------------------------------------
    /// @inheritdoc IRoundLedger
    function commit(
        TaskId task,
        uint32 round,
        bytes32 claimRoot,
        bytes32 deltaRoot,
        BoundaryProof calldata start
    ) external {
        RoundFrame memory f = _trainedFrame(task, round);
        _requireWindow(f.trainOpens, f.trainEnd);
        uint32 slot = _slotOf(task, round, msg.sender);
        Claim storage claim = _rounds[task][round].claims[slot];
        if (claim.status != ClaimStatus.NONE) revert AlreadyCommitted(slot);
        StateHeader memory expected = _expectedStart(f, msg.sender);
        _requireStart(expected, start.header);
        (claim.claimRoot, claim.deltaRoot, claim.startLocalStep) = (claimRoot, deltaRoot, expected.localStep);
        claim.status = ClaimStatus.COMMITTED;
        Boundaries.requireOpened(_domainOf(task), round, msg.sender, claimRoot, f.segmentCount, 0, start);
        emit Committed(task, round, slot, msg.sender, claimRoot, deltaRoot);
    }

    function _domainOf(TaskId task) private view returns (bytes32) {
        return Hashing.domain(block.chainid, address(registry), task);
    }

    function _slotOf(TaskId task, uint32 round, address solver) private view returns (uint32) {
        uint32 index = registry.indexOf(task, round, Role.SOLVER, solver);
        if (index == 0) revert NotEnrolled(solver);
        return index - 1;
    }

    function _requireStart(StateHeader memory expected, StateHeader calldata actual) private pure {
        (bytes32 expectedRoot, bytes32 actualRoot) = (Hashing.stateRoot(expected), Hashing.stateRoot(actual));
        if (expectedRoot != actualRoot) revert WrongStart(expectedRoot, actualRoot);
    }

    function _expectedStart(RoundFrame memory f, address solver)
        private
        view
        returns (StateHeader memory start)
    {
        (start.weightsRoot,) = _globalOf(f);
        start.globalStep = f.round * f.innerSteps;
        Carried storage carried = _carried[f.task][solver];
        if (f.carryMoments && carried.firstMomentRoot != 0) {
            (start.firstMomentRoot, start.secondMomentRoot) =
            (carried.firstMomentRoot, carried.secondMomentRoot);
            start.localStep = carried.localStep;
        } else {
            (start.firstMomentRoot, start.secondMomentRoot) = (f.zeroRoot, f.zeroRoot);
        }
    }

    // Steps 4 and 12: draws ---------------------------------------------------------------------------------------
    /// @inheritdoc IRoundLedger
    function sealDraw(TaskId task, uint32 round, bytes calldata proof) external {
        RoundFrame memory f = _trainedFrame(task, round);
        Round storage entry = _rounds[task][round];
        if (entry.drawSeed != 0) revert AlreadySealed(entry.drawSeed);
        bytes32 value = _randomness(f.drawBlock, f.drawEnd, proof);
        entry.drawSeed = Hashing.drawSeed(registry.domainOf(task), round, value);
        emit DrawSealed(task, round, entry.drawSeed);
    }

    /// @inheritdoc IRoundLedger
    function sealLate(TaskId task, uint32 round, bytes calldata proof) external {
        RoundFrame memory f = _trainedFrame(task, round);
        Round storage entry = _rounds[task][round];
        if (entry.lateSeed != 0) revert AlreadySealed(entry.lateSeed);
        uint256 merged = _mergedBlock(f, entry);
        if (merged == 0) revert NotMerged(f.mergeBy, block.number);
        bytes32 value = _randomness(merged + f.delay, merged + f.seal, proof);
        entry.lateSeed = Hashing.lateSeed(registry.domainOf(task), round, value);
        emit LateSealed(task, round, entry.lateSeed);
    }

    /// @dev Only between the block and the end of the window: a missed window is never a free second draw.
    function _randomness(uint256 ofBlock, uint256 closes, bytes calldata proof)
        private
        view
        returns (bytes32)
    {
        _requireWindow(ofBlock + 1, closes);
        return randomness.read(ofBlock, proof);
    }

    // Steps 9 and 10: verdicts ------------------------------------------------------------------------------------
    /// @inheritdoc IRoundLedger
    function judge(TaskId task, uint32 round, uint32 slot) external {
        RoundFrame memory f = _trainedFrame(task, round);
        ClaimStatus before = _rounds[task][round].claims[slot].status;
        if (_judge(f, slot) == before) revert NothingDue(slot, before);
    }

    /// @inheritdoc IRoundLedger
    function judgeClaims(TaskId task, uint32 round, uint32 from, uint32 to) external {
        RoundFrame memory f = _trainedFrame(task, round);
        for (uint32 slot = from; slot < to && slot < f.solvers; ++slot) {
            _judge(f, slot);
        }
    }

    /// @dev Through as many stages as are due; each looks at the clock itself.
    function _judge(RoundFrame memory f, uint32 slot) private returns (ClaimStatus) {
        if (slot >= f.solvers) revert SlotUnknown(slot, f.solvers);
        Claim storage claim = _rounds[f.task][f.round].claims[slot];
        if (claim.status == ClaimStatus.NONE && block.number >= f.trainEnd) {
            _fail(f, slot, ClaimStatus.DROPPED, "uncommitted", true);
        }
        if (claim.status == ClaimStatus.COMMITTED) _judgePrimaries(f, slot);
        if (claim.status == ClaimStatus.ESCALATED && block.number >= f.reserveCompareEnd) {
            _judgeReserves(f, slot, claim);
        }
        return claim.status;
    }

    function _judgePrimaries(RoundFrame memory f, uint32 slot) private {
        if (_rounds[f.task][f.round].drawSeed == 0) {
            if (block.number >= f.drawEnd) _fail(f, slot, ClaimStatus.VOID, "undrawn", false);
            return;
        }
        if (block.number < f.startEnd) return;
        (bool starts, bool ends, bool accepts) = audits.summaryOf(f.task, f.round, slot, f.segmentDraws);
        if (!starts) return _fail(f, slot, ClaimStatus.VOID, "start", true);
        if (block.number < f.showEnd) return;
        if (accepts) return _accept(f, slot);
        Tally memory tally = _tallyPrimaries(f, slot);
        if (!ends) return _fail(f, slot, ClaimStatus.VOID, "end", true);
        if (block.number < f.openEnd) return;
        if (tally.leavesMissing) return _fail(f, slot, ClaimStatus.VOID, "leaves", true);
        if (block.number >= f.compareEnd) _escalate(f, slot, tally.escalated);
    }

    /// @dev Leaves are due where the auditor's result is there, differs and waits: enforce gives REJECTS when no leaves were drawn.
    function _tallyPrimaries(RoundFrame memory f, uint32 slot) private returns (Tally memory tally) {
        for (uint32 draw = 0; draw < f.segmentDraws; ++draw) {
            AuditStatus status = audits.enforce(AuditRef(f.task, f.round, slot, draw, 0));
            if (status != AuditStatus.ACCEPTS) tally.escalated |= uint32(1 << draw);
            if (status != AuditStatus.REVEALED) continue;
            (,, bool leaves) = audits.openedOf(f.task, f.round, slot, draw, PHASE_PRIMARY);
            if (!leaves) tally.leavesMissing = true;
        }
    }

    function _escalate(RoundFrame memory f, uint32 slot, uint32 draws) private {
        Claim storage claim = _rounds[f.task][f.round].claims[slot];
        (claim.escalatedDraws, claim.calledLate) = (draws, block.number >= f.callEnd);
        _setStatus(f, slot, ClaimStatus.ESCALATED, "primary");
    }

    /// @dev All draws are looked at before the verdict, so that every silent reserve is dealt with.
    function _judgeReserves(RoundFrame memory f, uint32 slot, Claim storage claim) private {
        uint256 burnedWei = vault.burnPending();
        bytes32 reason;
        for (uint32 draw = 0; draw < f.segmentDraws; ++draw) {
            if ((claim.escalatedDraws >> draw) & 1 == 0) continue;
            bytes32 found = _judgeDraw(f, slot, draw, claim.calledLate);
            if (_weightOf(found) > _weightOf(reason)) reason = found;
        }
        if (reason == 0) return _accept(f, slot);
        claim.payBurned = reason == SILENT || reason == UNDECIDED;
        if (reason == SILENT) {
            uint256 shareWei = (vault.burnPending() - burnedWei) / SILENCE_DIVISOR;
            claim.silencePayWei = shareWei < f.solverPay ? shareWei : f.solverPay;
        }
        _fail(f, slot, ClaimStatus.VOID, reason, _weightOf(reason) == FAULT);
    }

    /// @dev The heaviest reason of its draws is that of the claim.
    function _weightOf(bytes32 reason) private pure returns (uint256) {
        if (reason == 0) return 0;
        if (reason == SILENT) return 1;
        if (reason == UNDECIDED) return 2;
        return reason == REJECTED ? 3 : FAULT;
    }

    /// @return reason why the draw voids the claim; 0 when two of its three auditors accept
    function _judgeDraw(RoundFrame memory f, uint32 slot, uint32 draw, bool calledLate)
        private
        returns (bytes32 reason)
    {
        AuditStatus[RANKS] memory found;
        for (uint32 rank = 0; rank < RANKS; ++rank) {
            found[rank] = _enforce(AuditRef(f.task, f.round, slot, draw, rank), calledLate);
        }
        if (_count(found, AuditStatus.REVEALED) > 0) return "leaves";
        if (_count(found, AuditStatus.ACCEPTS) >= MAJORITY) return 0;
        if (_count(found, AuditStatus.UNSERVED) < MAJORITY) return _reasonOf(found);
        for (uint32 rank = 0; rank < RANKS; ++rank) {
            if (found[rank] == AuditStatus.UNSERVED) {
                _burnUnservedFee(f, AuditRef(f.task, f.round, slot, draw, rank));
            }
        }
        return "unserved";
    }

    /// @dev A draw without a majority. One UNSERVED says no more than an abstention: it costs nothing either.
    function _reasonOf(AuditStatus[RANKS] memory found) private pure returns (bytes32) {
        if (_count(found, AuditStatus.REJECTS) > 0) return REJECTED;
        uint256 others = RANKS - _count(found, AuditStatus.NONE) - _count(found, AuditStatus.ACCEPTS);
        return others == 0 ? SILENT : UNDECIDED;
    }

    /// @dev Whoever was called late may say nothing at no cost; for what it committed it answers as always.
    function _enforce(AuditRef memory ref, bool calledLate) private returns (AuditStatus) {
        if (calledLate && audits.statusOf(ref) == AuditStatus.NONE) return AuditStatus.NONE;
        return audits.enforce(ref);
    }

    function _count(AuditStatus[RANKS] memory found, AuditStatus wanted)
        private
        pure
        returns (uint256 count)
    {
        for (uint256 rank = 0; rank < RANKS; ++rank) {
            if (found[rank] == wanted) ++count;
        }
    }

    function _burnUnservedFee(RoundFrame memory f, AuditRef memory ref) private {
        (, address auditor) = _drawnOf(ref);
        vault.burnFee(Hashing.enrolmentExposure(f.task, f.round, auditor), f.noShowFee, "unserved");
    }

    /// @dev The solver's exposure stands until the claim is settled or convicted, and neither is judged any more.
    function _fail(RoundFrame memory f, uint32 slot, ClaimStatus status, bytes32 reason, bool fee) private {
        _setStatus(f, slot, status, reason);
        if (fee) _burnSolverFee(f, slot, reason);
        _mergeEmptySet(f);
    }

    function _burnSolverFee(RoundFrame memory f, uint32 slot, bytes32 reason) private {
        vault.burnFee(_solverExposure(f, slot), f.noShowFee, reason);
    }

    function _accept(RoundFrame memory f, uint32 slot) private {
        Round storage entry = _rounds[f.task][f.round];
        _setStatus(f, slot, ClaimStatus.ACCEPTED, "accepted");
        entry.claims[slot].acceptedBlock = uint64(block.number);
        ++entry.accepted;
        if (!f.carryMoments) return;
        StateHeader memory last = audits.lastOf(f.task, f.round, slot);
        _carried[f.task][_solverAt(f, slot)] =
            Carried(last.firstMomentRoot, last.secondMomentRoot, last.localStep);
    }

    function _setStatus(RoundFrame memory f, uint32 slot, ClaimStatus status, bytes32 reason) private {
        Round storage entry = _rounds[f.task][f.round];
        Claim storage claim = entry.claims[slot];
        if (!_isFinal(claim.status) && _isFinal(status)) ++entry.judged;
        claim.status = status;
        emit ClaimJudged(f.task, f.round, slot, status, reason);
    }

    function _isFinal(ClaimStatus status) private pure returns (bool) {
        return
            status != ClaimStatus.NONE && status != ClaimStatus.COMMITTED && status != ClaimStatus.ESCALATED;
    }

    // Step 11: merge ----------------------------------------------------------------------------------------------
    /// @inheritdoc IRoundLedger
    function postOuter(TaskId task, uint32 round, uint32 included, bytes32 weightsRoot, bytes32 momentumRoot)
        external
    {
        RoundFrame memory f = _trainedFrame(task, round);
        Round storage entry = _rounds[task][round];
        if (entry.postedBlock != 0) revert AlreadyMerged(entry.poster, entry.postedBlock);
        if (entry.judged != f.solvers) revert NotJudged(entry.judged, f.solvers);
        if (included != entry.accepted) revert OtherSet(included, entry.accepted);
        _post(f, entry, msg.sender, weightsRoot, momentumRoot);
        ++_progress[task].openMerges;
        ExposureId bond = Hashing.outerExposure(task, round, msg.sender, weightsRoot, momentumRoot);
        vault.expose(bond, msg.sender, f.mergeBond);
    }

    function _mergeEmptySet(RoundFrame memory f) private {
        Round storage entry = _rounds[f.task][f.round];
        if (entry.postedBlock != 0 || entry.judged != f.solvers || entry.accepted != 0) return;
        (bytes32 weightsRoot, bytes32 momentumRoot) = _globalOf(f);
        _post(f, entry, address(0), weightsRoot, momentumRoot);
    }

    function _post(
        RoundFrame memory f,
        Round storage entry,
        address poster,
        bytes32 weightsRoot,
        bytes32 momentumRoot
    ) private {
        entry.mergedBlock = uint64(block.number);
        _merged[f.task].push(f.round, f.round + 1);
        _setOuter(f, entry, poster, weightsRoot, momentumRoot);
    }

    function _setOuter(
        RoundFrame memory f,
        Round storage entry,
        address poster,
        bytes32 weightsRoot,
        bytes32 momentumRoot
    ) private {
        (entry.poster, entry.weightsRoot, entry.momentumRoot) = (poster, weightsRoot, momentumRoot);
        entry.postedBlock = uint64(block.number);
        emit OuterPosted(f.task, f.round, poster, weightsRoot, momentumRoot, entry.accepted);
        emit RoundMerged(f.task, f.round, block.number + f.merge, weightsRoot, momentumRoot);
    }

    /// @inheritdoc IRoundLedger
    /// @dev The poster fetches its own: nothing else waits for it, so a long contest delays nobody.
    function settleMerge(TaskId task, uint32 round) external {
        RoundFrame memory f = _trainedFrame(task, round);
        Round storage entry = _rounds[task][round];
        if (!_isMerged(f, entry)) revert NotMerged(entry.postedBlock + f.merge, block.number);
        if (entry.mergeSettled || entry.poster == address(0)) {
            revert AlreadyMerged(entry.poster, entry.postedBlock);
        }
        entry.mergeSettled = true;
        --_progress[task].openMerges;
        vault.release(Hashing.outerExposure(task, round, entry.poster, entry.weightsRoot, entry.momentumRoot));
        vault.pay(task, entry.poster, f.mergePay, "merge");
        emit MergeSettled(task, round, entry.poster);
    }

    // Step 13: settlement -----------------------------------------------------------------------------------------
    /// @inheritdoc IRoundLedger
    function settleClaim(TaskId task, uint32 round, uint32 slot) external {
        RoundFrame memory f = _frame(task, round);
        if (slot >= f.solvers) revert SlotUnknown(slot, f.solvers);
        if (_rounds[task][round].claims[slot].settled) revert AlreadySettled(slot);
        _requireSettling(f);
        if (_isDisputed(f, slot)) revert DisputeOpen(slot);
        _settleClaim(f, slot);
    }

    /// @inheritdoc IRoundLedger
    /// @dev What is settled or disputed is left out, so that nobody can make a page revert.
    function settleClaims(TaskId task, uint32 round, uint32 from, uint32 to) external {
        RoundFrame memory f = _frame(task, round);
        _requireSettling(f);
        for (uint32 slot = from; slot < to && slot < f.solvers; ++slot) {
            bool settled = _rounds[task][round].claims[slot].settled;
            if (!settled && !_isDisputed(f, slot)) _settleClaim(f, slot);
        }
    }

    function _requireSettling(RoundFrame memory f) private view {
        if (f.status == RoundStatus.EMPTY) return;
        if (!_isTrained(f.status)) revert RoundNotTrained(f.status);
        uint256 opens = _settleBlock(f, _rounds[f.task][f.round]);
        if (block.number < opens) revert OutsideWindow(opens, type(uint256).max, block.number);
    }

    function _isDisputed(RoundFrame memory f, uint32 slot) private view returns (bool) {
        if (f.status == RoundStatus.EMPTY) return false;
        return disputes.openCount(TaskId.unwrap(f.task), f.round, slot) != 0;
    }

    function _settleClaim(RoundFrame memory f, uint32 slot) private {
        Round storage entry = _rounds[f.task][f.round];
        Claim storage claim = entry.claims[slot];
        if (f.status != RoundStatus.EMPTY) _finishClaim(f, entry, slot);
        (claim.settled, entry.settled) = (true, entry.settled + 1);
        ++_progress[f.task].settledClaims;
        emit ClaimSettled(f.task, f.round, slot, claim.status);
        _payAndRelease(f, claim, slot);
    }

    /// @dev Brings the claim to its last verdict and deals with its late audit; nothing moves after this.
    function _finishClaim(RoundFrame memory f, Round storage entry, uint32 slot) private {
        _judge(f, slot);
        if (entry.lateSeed != 0) _judgeLate(f, entry.claims[slot], slot);
    }

    /// @dev REVEALED at the end: the late auditor waits for a solver that did not open its end or its leaves.
    function _judgeLate(RoundFrame memory f, Claim storage claim, uint32 slot) private {
        AuditRef memory ref = AuditRef(f.task, f.round, slot, f.segmentDraws, 0);
        (, address auditor) = _drawnOf(ref);
        if (auditor == address(0)) return;
        (bool start, bool end,) = audits.openedOf(f.task, f.round, slot, ref.draw, PHASE_LATE);
        bool waiting = audits.enforce(ref) == AuditStatus.REVEALED;
        if (claim.status == ClaimStatus.CONVICTED || (start && end && !waiting)) return;
        bytes32 reason = !start ? bytes32("start") : !end ? bytes32("end") : bytes32("leaves");
        claim.forfeited = true;
        emit PayForfeited(f.task, f.round, slot, reason);
        _burnSolverFee(f, slot, reason);
    }

    /// @dev A convicted solver's exposure is gone already. The escrow covers every pay of every round.
    function _payAndRelease(RoundFrame memory f, Claim storage claim, uint32 slot) private {
        if (claim.claimRoot != 0) audits.settle(f.task, f.round, slot);
        if (claim.status == ClaimStatus.CONVICTED) return;
        address solver = vault.release(_solverExposure(f, slot));
        if (claim.payBurned) return _burnPay(f, claim.silencePayWei, solver);
        if (claim.status != ClaimStatus.ACCEPTED || claim.forfeited) return;
        vault.pay(f.task, solver, f.solverPay, "solver");
    }

    /// @dev A claim that nobody rejects is paid for though too few accept it, so that no submitter saves by auditors of its own.
    function _burnPay(RoundFrame memory f, uint256 solverWei, address solver) private {
        if (solverWei > 0) vault.pay(f.task, solver, solverWei, SILENT);
        vault.burnEscrow(f.task, f.solverPay - solverWei, "void");
    }

    /// @inheritdoc IRoundLedger
    /// @dev Waits for all claims: a fee that is still to be burned must find its exposure.
    function settleEnrolments(TaskId task, uint32 round, uint32 from, uint32 to) external {
        RoundFrame memory f = _frame(task, round);
        uint32 settled = _rounds[task][round].settled;
        if (f.status != RoundStatus.EMPTY && !_isTrained(f.status)) revert RoundNotTrained(f.status);
        if (f.status != RoundStatus.EMPTY && settled != f.solvers) {
            revert RoundNotSettled(settled, f.solvers);
        }
        for (uint32 i = from; i < to && i < f.verifiers + f.whistleblowers; ++i) {
            bool verifies = i < f.verifiers;
            address account = registry.enrolledAt(
                task, round, verifies ? Role.VERIFIER : Role.WHISTLEBLOWER, verifies ? i : i - f.verifiers
            );
            _releaseEnrolment(task, round, account);
        }
    }

    function _releaseEnrolment(TaskId task, uint32 round, address account) private {
        ExposureId exposure = Hashing.enrolmentExposure(task, round, account);
        (address owner,) = vault.exposureOf(exposure);
        if (owner == address(0)) return;
        vault.release(exposure);
        emit EnrolmentSettled(task, round, account);
    }

    // Modules only ------------------------------------------------------------------------------------------------
    /// @inheritdoc IRoundLedger
    function convictSolver(TaskId task, uint32 round, uint32 slot, address finder, bytes32 reason) external {
        if (msg.sender != address(disputes) && msg.sender != contest) revert NotModule(msg.sender);
        RoundFrame memory f = _trainedFrame(task, round);
        Round storage entry = _rounds[task][round];
        Claim storage claim = entry.claims[slot];
        if (claim.settled) revert AlreadySettled(slot);
        if (!_isConvictable(claim.status)) revert WrongClaimStatus(slot, claim.status);
        if (entry.postedBlock == 0) _exclude(entry, claim);
        _setStatus(f, slot, ClaimStatus.CONVICTED, reason);
        _mergeEmptySet(f);
        vault.slash(_solverExposure(f, slot), finder, f.finderCap, f.submitter, f.solverPay, reason);
    }

    function _isConvictable(ClaimStatus status) private pure returns (bool) {
        return status != ClaimStatus.NONE && status != ClaimStatus.DROPPED && status != ClaimStatus.CONVICTED;
    }

    function _exclude(Round storage entry, Claim storage claim) private {
        claim.excluded = true;
        if (claim.status == ClaimStatus.ACCEPTED) --entry.accepted;
    }

    /// @inheritdoc IRoundLedger
    function replaceOuter(
        TaskId task,
        uint32 round,
        address poster,
        bytes32 weightsRoot,
        bytes32 momentumRoot
    ) external {
        Round storage entry = _requireContest(task, round);
        entry.contested = false;
        _setOuter(_frame(task, round), entry, poster, weightsRoot, momentumRoot);
    }

    /// @inheritdoc IRoundLedger
    function setContested(TaskId task, uint32 round, bool contested) external {
        _requireContest(task, round).contested = contested;
    }

    /// @dev A root that stands is final, and so is one that nobody posted.
    function _requireContest(TaskId task, uint32 round) private view returns (Round storage entry) {
        if (msg.sender != contest) revert NotModule(msg.sender);
        entry = _rounds[task][round];
        if (entry.poster == address(0) || isMerged(task, round)) {
            revert AlreadyMerged(entry.poster, entry.postedBlock);
        }
    }

    // The round's frame -------------------------------------------------------------------------------------------
    function _frame(TaskId task, uint32 round) private view returns (RoundFrame memory) {
        return Frames.load(_reader, task, round);
    }

    function _trainedFrame(TaskId task, uint32 round) private view returns (RoundFrame memory f) {
        f = _frame(task, round);
        if (!_isTrained(f.status)) revert RoundNotTrained(f.status);
    }

    function _isTrained(RoundStatus status) private pure returns (bool) {
        return status == RoundStatus.TRAINING || status == RoundStatus.MERGED;
    }

    function _requireWindow(uint256 opens, uint256 closes) private view {
        if (block.number < opens || block.number >= closes) {
            revert OutsideWindow(opens, closes, block.number);
        }
    }

    function _solverAt(RoundFrame memory f, uint32 slot) private view returns (address) {
        return registry.enrolledAt(f.task, f.round, Role.SOLVER, slot);
    }

    function _solverExposure(RoundFrame memory f, uint32 slot) private view returns (ExposureId) {
        return Hashing.enrolmentExposure(f.task, f.round, _solverAt(f, slot));
    }

    function _mergedBlock(RoundFrame memory f, Round storage entry) private view returns (uint256) {
        (uint256 posted, uint256 mergeBy) = (entry.mergedBlock, f.mergeBy);
        if (posted == 0) return block.number < mergeBy ? 0 : mergeBy;
        return posted < mergeBy ? posted : mergeBy;
    }

    function _settleBlock(RoundFrame memory f, Round storage entry) private view returns (uint256) {
        uint256 merged = _mergedBlock(f, entry);
        return (merged == 0 ? f.mergeBy : merged) + f.lateSpan;
    }

    function _isMerged(RoundFrame memory f, Round storage entry) private view returns (bool) {
        return entry.postedBlock != 0 && !entry.contested && block.number >= entry.postedBlock + f.merge;
    }

    function _drawnOf(AuditRef memory ref) private view returns (uint32, address) {
        Round storage entry = _rounds[ref.task][ref.round];
        return _reader.drawnOf(ref, entry.drawSeed, _lateSeedOf(ref, entry));
    }

    /// @dev A claim that was accepted after the late clock started has no late audit: nobody could answer it in time.
    function _lateSeedOf(AuditRef memory ref, Round storage entry) private view returns (bytes32) {
        uint256 acceptedBlock = entry.claims[ref.slot].acceptedBlock;
        if (entry.lateSeed == 0 || acceptedBlock == 0) return 0;
        return acceptedBlock <= _mergedBlock(_frame(ref.task, ref.round), entry) ? entry.lateSeed : bytes32(0);
    }

    // Views -------------------------------------------------------------------------------------------------------
    /// @inheritdoc IRoundLedger
    function claimOf(TaskId task, uint32 round, uint32 slot)
        external
        view
        returns (address solver, ClaimStatus status, bool settled, bytes32 claimRoot, bytes32 deltaRoot)
    {
        Claim storage claim = _rounds[task][round].claims[slot];
        solver = registry.enrolledAt(task, round, Role.SOLVER, slot);
        return (solver, claim.status, claim.settled, claim.claimRoot, claim.deltaRoot);
    }

    /// @inheritdoc IRoundLedger
    function groundOf(TaskId task, uint32 round, uint32 slot)
        external
        view
        returns (bytes32 claimRoot, uint32 startLocalStep)
    {
        Claim storage claim = _rounds[task][round].claims[slot];
        return (claim.claimRoot, claim.startLocalStep);
    }

    /// @inheritdoc IRoundLedger
    function drawSeedOf(TaskId task, uint32 round)
        external
        view
        returns (bytes32 drawSeed, bytes32 lateSeed)
    {
        return (_rounds[task][round].drawSeed, _rounds[task][round].lateSeed);
    }

    /// @inheritdoc IRoundLedger
    function drawnOf(AuditRef calldata ref) external view returns (uint32 segment, address auditor) {
        return _drawnOf(ref);
    }

    /// @inheritdoc IRoundLedger
    function outerOf(TaskId task, uint32 round)
        external
        view
        returns (
            address poster,
            bytes32 weightsRoot,
            bytes32 momentumRoot,
            uint256 postedBlock,
            bool contested
        )
    {
        Round storage entry = _rounds[task][round];
        return (entry.poster, entry.weightsRoot, entry.momentumRoot, entry.postedBlock, entry.contested);
    }

    /// @inheritdoc IRoundLedger
    function isMerged(TaskId task, uint32 round) public view returns (bool) {
        return _isMerged(_frame(task, round), _rounds[task][round]);
    }

    /// @inheritdoc IRoundLedger
    function globalOf(TaskId task, uint32 round)
        external
        view
        returns (bytes32 weightsRoot, bytes32 momentumRoot)
    {
        return _globalOf(_frame(task, round));
    }

    function _globalOf(RoundFrame memory f) private view returns (bytes32, bytes32) {
        uint256 found = f.round == 0 ? 0 : _merged[f.task].upperLookup(f.round - 1);
        if (found == 0) return (f.initialWeightsRoot, f.zeroRoot);
        Round storage entry = _rounds[f.task][uint32(found - 1)];
        return (entry.weightsRoot, entry.momentumRoot);
    }

    /// @inheritdoc IRoundLedger
    function expectedStart(TaskId task, uint32 round, address solver)
        external
        view
        returns (StateHeader memory)
    {
        return _expectedStart(_frame(task, round), solver);
    }

    /// @inheritdoc IRoundLedger
    /// @dev Shards are a rotation of the slots, so the slot of shard x is x minus the shard of slot 0.
    function includedOf(TaskId task, uint32 round) external view returns (uint32[] memory slots) {
        Round storage entry = _rounds[task][round];
        (,,, uint32 solvers,,) = registry.roundOf(task, round);
        slots = new uint32[](entry.accepted);
        uint32 offset = entry.accepted == 0 ? 0 : registry.shardOf(task, round, 0);
        uint256 found = 0;
        for (uint32 shard = 0; shard < solvers && found < slots.length; ++shard) {
            uint32 slot = (shard + solvers - offset) % solvers;
            Claim storage claim = entry.claims[slot];
            if (claim.acceptedBlock != 0 && !claim.excluded) slots[found++] = slot;
        }
    }

    /// @inheritdoc IRoundLedger
    function isEscalated(TaskId task, uint32 round, uint32 slot, uint32 draw) external view returns (bool) {
        return (_rounds[task][round].claims[slot].escalatedDraws >> draw) & 1 == 1;
    }

    /// @inheritdoc IRoundLedger
    function mergedBlockOf(TaskId task, uint32 round) external view returns (uint256) {
        return _mergedBlock(_frame(task, round), _rounds[task][round]);
    }

    /// @inheritdoc IRoundLedger
    function settleBlockOf(TaskId task, uint32 round) external view returns (uint256) {
        return _settleBlock(_frame(task, round), _rounds[task][round]);
    }

    /// @inheritdoc IRoundLedger
    function progressOf(TaskId task) external view returns (uint256 settledClaims, uint256 openMerges) {
        return (_progress[task].settledClaims, _progress[task].openMerges);
    }

    /// @inheritdoc IRoundLedger
    function stepsOf(TaskId task, uint32 round, uint32 slot, uint32 innerStep)
        external
        view
        returns (uint32 localStep, uint32 globalStep)
    {
        localStep = _rounds[task][round].claims[slot].startLocalStep + innerStep;
        (uint32 innerSteps,) = _reader.sizesOf(task);
        globalStep = round * innerSteps + innerStep;
    }

    /// @inheritdoc IRoundLedger
    function verifyBoundary(
        TaskId task,
        uint32 round,
        uint32 slot,
        uint32 boundary,
        BoundaryProof calldata proof
    ) external view {
        (, uint32 segmentCount) = _reader.sizesOf(task);
        address solver = registry.enrolledAt(task, round, Role.SOLVER, slot);
        bytes32 claimRoot = _rounds[task][round].claims[slot].claimRoot;
        Boundaries.requireOpened(_domainOf(task), round, solver, claimRoot, segmentCount, boundary, proof);
    }
}
