// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {
    AuditStatus,
    BoundaryProof,
    ClaimRef,
    ClaimStatus,
    DisputeId,
    ExposureId,
    LeafProof,
    StateHeader,
    TaskId,
    TaskTerms
} from "./Types.sol";
import {IAuditBook} from "./interfaces/IAuditBook.sol";
import {IDisputeGame} from "./interfaces/IDisputeGame.sol";
import {IRoundLedger} from "./interfaces/IRoundLedger.sol";
import {IStakeVault} from "./interfaces/IStakeVault.sol";
import {ITaskRegistry} from "./interfaces/ITaskRegistry.sol";
import {Hashing} from "./libraries/Hashing.sol";
import {PositionalMerkle} from "./libraries/PositionalMerkle.sol";
import {DoubleEndedQueue} from "@openzeppelin/contracts/utils/structs/DoubleEndedQueue.sol";

/// @title Pinpoint, then compute: disputes on one claim "from state root A, k steps, I got state root C".
/// @notice
/// ```
///             opener            claimant              opener           anybody
/// sealOpening, openDispute -> postStepRoots (respond) -> nameStep (name) -> demandLeaf, proveBinding (prove)
///      QUEUED ----turn----> ROOTS -----------------> NAME ---------> PROVE --------------------> CLOSED
///                             | silent                 | silent        | demand unanswered          |
///                             v                        v               v (respond), or binding      v binding, until settlement
///                         CONVICTED                  CLOSED        CONVICTED                    CONVICTED
/// ```
/// Only computation and silence convict. The bond returns with a conviction, whoever proved it; a dispute that ends without one costs it: half
/// to the claimant for its work, half burned, so that nobody gains by disputing himself. A claimant has one dispute at its turn in each task and
/// every clock of it starts at that turn, so a flood of disputes costs its opener doubling bonds and the claimant no sleep. Disputes open before the
/// round's disputeEnd only, their number is bounded by the bonds, each ends by its clocks, and settlement waits for them.
/// @dev The active dispute is the queue's front. Every end is O(1): it pops the front and starts the next one's clock, nothing else.
contract DisputeGame is IDisputeGame {
    using DoubleEndedQueue for DoubleEndedQueue.Bytes32Deque;

    uint32 public constant MAX_DEMANDS_EACH = 8;
    /// @dev Of all challengers but the opener together: strangers cannot stretch a dispute without end, nor crowd out its opener.
    uint32 public constant MAX_DEMANDS_OTHERS = 32;
    /// @dev The bond has doubled 32 times by then: no stake reaches it, and the shift cannot overflow.
    uint256 public constant MAX_QUEUE = 32;
    uint8 private constant TENSORS = 3;

    /// @param clockBlock end of the stage's clock; a demand has its own
    /// @param demandClock by when the oldest open demand must be answered
    /// @param otherDemands demands of anybody but the opener
    struct Dispute {
        Stage stage;
        address claimant;
        address opener;
        uint64 clockBlock;
        uint64 demandClock;
        uint32 step;
        uint32 demandsMade;
        uint32 demandsAnswered;
        uint32 otherDemands;
        uint256 bondWei;
        ClaimRef claim;
        bytes32[] roots;
    }

    struct Demand {
        uint32 stateIndex;
        uint32 leafIndex;
        uint8 tensor;
    }

    IStakeVault public immutable vault;
    ITaskRegistry public immutable registry;
    IRoundLedger public immutable ledger;
    IAuditBook public immutable audits;

    mapping(bytes32 => uint256) private _sealedBlock;
    mapping(DisputeId => Dispute) private _disputes;
    mapping(DisputeId => mapping(uint32 => Demand)) private _demands;
    mapping(DisputeId => mapping(address => uint32)) private _demandsBy;
    mapping(bytes32 => DoubleEndedQueue.Bytes32Deque) private _queues;
    mapping(bytes32 => uint256) private _openCounts;

    constructor(IStakeVault vault_, ITaskRegistry registry_, IRoundLedger ledger_, IAuditBook audits_) {
        (vault, registry, ledger, audits) = (vault_, registry_, ledger_, audits_);
    }

    // D1: open ----------------------------------------------------------------------------------------------------
    /// @dev The first seal counts: whoever copies a hash can only make it older.
    function sealOpening(bytes32 sealHash) external {
        if (_sealedBlock[sealHash] == 0) _sealedBlock[sealHash] = block.number;
        emit OpeningSealed(msg.sender, sealHash);
    }

    function openDispute(ClaimRef calldata claim, bytes32 salt) external returns (DisputeId dispute) {
        bytes32 sealHash = sha256(abi.encode(claim, msg.sender, salt));
        dispute = DisputeId.wrap(sealHash);
        _requireSealed(sealHash);
        if (_disputes[dispute].stage != Stage.NONE) revert DisputeExists(dispute);
        _requireOpenWindow(claim);
        address claimant = _requireDisputable(claim);
        if (claimant == msg.sender) revert OwnClaim(msg.sender);
        _enqueue(dispute, claim, claimant);
    }

    function _requireSealed(bytes32 sealHash) private view {
        uint256 sealedBlock = _sealedBlock[sealHash];
        if (sealedBlock == 0) revert NotSealed(sealHash);
        if (block.number <= sealedBlock) revert SealTooYoung(sealedBlock, block.number);
    }

    function _requireOpenWindow(ClaimRef calldata claim) private view {
        uint256 closes = ledger.settleBlockOf(claim.audit.task, claim.audit.round);
        if (block.number >= closes) revert DisputeWindowClosed(closes, block.number);
    }

    /// @dev A solver's claim from its commitment on, an auditor's once it is revealed; not what is slashed already.
    function _requireDisputable(ClaimRef calldata claim) private view returns (address claimant) {
        if (!claim.bySolver) return _requireRevealed(claim);
        TaskTerms memory terms = registry.termsOf(claim.audit.task);
        ClaimStatus status;
        (claimant, status,,,) = ledger.claimOf(claim.audit.task, claim.audit.round, claim.audit.slot);
        bool claimed =
            status != ClaimStatus.NONE && status != ClaimStatus.DROPPED && status != ClaimStatus.CONVICTED;
        // A solver's claim is named by its slot and segment alone: two names for one claim would be two disputes on one fault.
        bool named = claim.audit.draw == 0 && claim.audit.rank == 0;
        if (!claimed || !named || claim.segment >= terms.innerSteps / terms.segmentSteps) {
            revert ClaimNotDisputable(uint8(status));
        }
    }

    function _requireRevealed(ClaimRef calldata claim) private view returns (address claimant) {
        AuditStatus status = audits.statusOf(claim.audit);
        bool revealed =
            status == AuditStatus.REVEALED || status == AuditStatus.ACCEPTS || status == AuditStatus.REJECTS;
        uint32 segment;
        (segment, claimant) = ledger.drawnOf(claim.audit);
        if (!revealed || claim.segment != segment) revert ClaimNotDisputable(uint8(status));
    }

    function _enqueue(DisputeId id, ClaimRef calldata claim, address claimant) private {
        TaskTerms memory terms = registry.termsOf(claim.audit.task);
        DoubleEndedQueue.Bytes32Deque storage queue = _queues[_queueKey(claim.audit.task, claimant)];
        uint256 ahead = queue.length();
        if (ahead >= MAX_QUEUE) revert QueueFull(MAX_QUEUE);
        Dispute storage d = _disputes[id];
        (d.stage, d.claim, d.claimant, d.opener) = (Stage.QUEUED, claim, claimant, msg.sender);
        d.bondWei = uint256(terms.amounts.disputeBond) << ahead;
        queue.pushBack(DisputeId.unwrap(id));
        ++_openCounts[_slotKey(TaskId.unwrap(claim.audit.task), claim.audit.round, claim.audit.slot)];
        emit DisputeOpened(id, claim, claimant, msg.sender, d.bondWei);
        if (ahead == 0) _activate(id, terms.windows.respond);
        vault.expose(Hashing.disputeExposure(id), msg.sender, d.bondWei);
    }

    function _activate(DisputeId id, uint32 respond) private {
        Dispute storage d = _disputes[id];
        (d.stage, d.clockBlock) = (Stage.ROOTS, uint64(block.number + respond));
        emit DisputeActivated(id, d.clockBlock);
    }

    function postStepRoots(DisputeId dispute, bytes32[] calldata roots, BoundaryProof[] calldata ends)
        external
    {
        Dispute storage d = _onClock(dispute, Stage.ROOTS);
        if (msg.sender != d.claimant) revert NotClaimant(d.claimant, msg.sender);
        TaskTerms memory terms = registry.termsOf(d.claim.audit.task);
        if (roots.length != terms.segmentSteps + 1) {
            revert WrongRootCount(terms.segmentSteps + 1, roots.length);
        }
        (bytes32 first, bytes32 last) =
            d.claim.bySolver ? _solverEnds(d.claim, ends) : _auditEnds(d.claim, ends);
        _requireRoot(0, first, roots[0]);
        _requireRoot(terms.segmentSteps, last, roots[terms.segmentSteps]);
        (d.roots, d.stage, d.clockBlock) = (roots, Stage.NAME, uint64(block.number + terms.windows.name));
        emit StepRootsPosted(dispute, roots);
    }

    function _solverEnds(ClaimRef memory claim, BoundaryProof[] calldata ends)
        private
        view
        returns (bytes32 first, bytes32 last)
    {
        if (ends.length != 2) revert WrongRootCount(2, ends.length);
        (TaskId task, uint32 round, uint32 slot) = (claim.audit.task, claim.audit.round, claim.audit.slot);
        ledger.verifyBoundary(task, round, slot, claim.segment, ends[0]);
        ledger.verifyBoundary(task, round, slot, claim.segment + 1, ends[1]);
        return (Hashing.stateRoot(ends[0].header), Hashing.stateRoot(ends[1].header));
    }

    function _auditEnds(ClaimRef memory claim, BoundaryProof[] calldata ends)
        private
        view
        returns (bytes32 first, bytes32 last)
    {
        if (ends.length != 0) revert WrongRootCount(0, ends.length);
        StateHeader memory start =
            audits.startOf(claim.audit.task, claim.audit.round, claim.audit.slot, claim.audit.draw);
        return (Hashing.stateRoot(start), Hashing.stateRoot(audits.revealedOf(claim.audit)));
    }

    function _requireRoot(uint32 index, bytes32 expected, bytes32 actual) private pure {
        if (expected != actual) revert EndpointMismatch(index, expected, actual);
    }

    // D2: name ----------------------------------------------------------------------------------------------------
    function nameStep(DisputeId dispute, uint32 step) external {
        Dispute storage d = _onClock(dispute, Stage.NAME);
        if (msg.sender != d.opener) revert NotOpener(d.opener, msg.sender);
        TaskTerms memory terms = registry.termsOf(d.claim.audit.task);
        if (step >= terms.segmentSteps) revert StepUnknown(step, terms.segmentSteps);
        (d.step, d.stage, d.clockBlock) = (step, Stage.PROVE, uint64(block.number + terms.windows.prove));
        emit StepNamed(dispute, step, d.clockBlock);
    }

    // D3: demand and prove ----------------------------------------------------------------------------------------
    function demandLeaf(DisputeId dispute, uint32 stateIndex, uint8 tensor, uint32 leafIndex)
        external
        returns (uint32 demand)
    {
        Dispute storage d = _onClock(dispute, Stage.PROVE);
        TaskTerms memory terms = registry.termsOf(d.claim.audit.task);
        _requireLeafExists(d, terms, stateIndex, tensor, leafIndex);
        _countDemand(dispute, d);
        demand = d.demandsMade++;
        _demands[dispute][demand] = Demand(stateIndex, leafIndex, tensor);
        if (demand == d.demandsAnswered) d.demandClock = uint64(block.number + terms.windows.respond);
        emit LeafDemanded(dispute, demand, msg.sender, stateIndex, tensor, leafIndex, d.demandClock);
        _payFee(dispute, demand, d.claimant, terms.amounts.demandFee);
    }

    function _requireLeafExists(
        Dispute storage d,
        TaskTerms memory terms,
        uint32 stateIndex,
        uint8 tensor,
        uint32 leafIndex
    ) private view {
        if (msg.sender == d.claimant) revert OwnClaim(msg.sender);
        if (stateIndex >= d.roots.length) revert StepUnknown(stateIndex, uint32(d.roots.length));
        uint256 leafCount = PositionalMerkle.tensorLeafCount(terms.parameterCount);
        if (tensor >= TENSORS || leafIndex >= leafCount) revert LeafUnknown(tensor, leafIndex, leafCount);
    }

    function _countDemand(DisputeId dispute, Dispute storage d) private {
        uint32 made = _demandsBy[dispute][msg.sender]++;
        if (made >= MAX_DEMANDS_EACH) revert TooManyDemands(msg.sender, MAX_DEMANDS_EACH);
        if (msg.sender == d.opener) return;
        if (d.otherDemands++ >= MAX_DEMANDS_OTHERS) revert TooManyDemands(msg.sender, MAX_DEMANDS_OTHERS);
    }

    /// @dev Exposed and given away in one breath: the fee is free stake of the challenger before and a credit of the claimant after.
    function _payFee(DisputeId dispute, uint32 demand, address claimant, uint256 feeWei) private {
        ExposureId exposure = Hashing.demandExposure(dispute, demand);
        vault.expose(exposure, msg.sender, feeWei);
        vault.forfeit(exposure, claimant, feeWei, "demand");
    }

    function answerDemand(
        DisputeId dispute,
        uint32 demand,
        StateHeader calldata header,
        LeafProof calldata leaf
    ) external {
        Dispute storage d = _at(dispute, Stage.PROVE);
        if (msg.sender != d.claimant) revert NotClaimant(d.claimant, msg.sender);
        if (demand != d.demandsAnswered || demand == d.demandsMade) revert DemandUnknown(demand);
        if (block.number >= d.demandClock) revert ClockOver(d.demandClock, block.number);
        TaskTerms memory terms = registry.termsOf(d.claim.audit.task);
        _requireAnswer(_demands[dispute][demand], d.roots, terms, header, leaf);
        ++d.demandsAnswered;
        d.demandClock = uint64(block.number + terms.windows.respond);
        d.clockBlock = uint64(_max(d.clockBlock, block.number) + terms.windows.respond);
        emit LeafAnswered(dispute, demand, header, leaf.data);
    }

    function _requireAnswer(
        Demand memory demand,
        bytes32[] storage roots,
        TaskTerms memory terms,
        StateHeader calldata header,
        LeafProof calldata leaf
    ) private view {
        _requireHeader(roots[demand.stateIndex], header);
        bytes32 root = _tensorRoot(header, demand.tensor);
        uint256 count = PositionalMerkle.tensorLeafCount(terms.parameterCount);
        bool whole = leaf.data.length == PositionalMerkle.LEAF_BYTES;
        if (!whole || !PositionalMerkle.verifyData(root, leaf.data, demand.leafIndex, count, leaf.path)) {
            revert LeafMismatch(root, demand.leafIndex);
        }
    }

    function _requireHeader(bytes32 expected, StateHeader calldata header) private pure {
        bytes32 actual = Hashing.stateRoot(header);
        if (actual != expected) revert HeaderMismatch(expected, actual);
    }

    function _tensorRoot(StateHeader calldata header, uint8 tensor) private pure returns (bytes32) {
        if (tensor == 0) return header.weightsRoot;
        return tensor == 1 ? header.firstMomentRoot : header.secondMomentRoot;
    }

    function proveBinding(DisputeId dispute, uint32 stateIndex, StateHeader calldata header) external {
        Dispute storage d = _disputes[dispute];
        if (d.stage != Stage.NAME && d.stage != Stage.PROVE && d.stage != Stage.CLOSED) {
            revert WrongStage(Stage.PROVE, d.stage);
        }
        if (stateIndex >= d.roots.length) revert StepUnknown(stateIndex, uint32(d.roots.length));
        _requireHeader(d.roots[stateIndex], header);
        (uint32 local, uint32 global) = _expectedSteps(d.claim, stateIndex);
        if (header.localStep == local && header.globalStep == global) revert NoFault(local, global);
        _requireStanding(d.claim);
        _convict(dispute, d, "binding");
    }

    function _expectedSteps(ClaimRef memory claim, uint32 stateIndex) private view returns (uint32, uint32) {
        uint32 innerStep = claim.segment * registry.termsOf(claim.audit.task).segmentSteps + stateIndex;
        return ledger.stepsOf(claim.audit.task, claim.audit.round, claim.audit.slot, innerStep);
    }

    /// @dev A proof comes too late for a claim that is settled or slashed already.
    function _requireStanding(ClaimRef memory claim) private view {
        (, ClaimStatus status, bool settled,,) =
            ledger.claimOf(claim.audit.task, claim.audit.round, claim.audit.slot);
        if (settled || _isConvicted(claim)) revert ClaimNotDisputable(uint8(status));
    }

    function _isConvicted(ClaimRef memory claim) private view returns (bool) {
        if (!claim.bySolver) return audits.statusOf(claim.audit) == AuditStatus.SLASHED;
        (, ClaimStatus status,,,) = ledger.claimOf(claim.audit.task, claim.audit.round, claim.audit.slot);
        return status == ClaimStatus.CONVICTED;
    }

    // D4 and all other ends ---------------------------------------------------------------------------------------
    function timeout(DisputeId dispute) external {
        Dispute storage d = _disputes[dispute];
        if (!_isActive(d.stage)) revert WrongStage(Stage.PROVE, d.stage);
        if (_isConvicted(d.claim)) return _dismiss(dispute, d);
        uint256 clockBlock = _clockOf(d);
        if (block.number < clockBlock) revert ClockRunning(clockBlock, block.number);
        if (d.stage == Stage.ROOTS) _convict(dispute, d, "silent");
        else if (_hasOpenDemand(d)) _convict(dispute, d, "withheld");
        else _close(dispute, d);
    }

    /// @dev The claim fell otherwise before this dispute could end: no fault of its opener.
    function _dismiss(DisputeId id, Dispute storage d) private {
        d.stage = Stage.CLOSED;
        emit DisputeClosed(id);
        vault.release(Hashing.disputeExposure(id));
        _next(d.claim, d.claimant);
    }

    function _close(DisputeId id, Dispute storage d) private {
        d.stage = Stage.CLOSED;
        emit DisputeClosed(id);
        vault.forfeit(Hashing.disputeExposure(id), d.claimant, d.bondWei / 2, "closed");
        _next(d.claim, d.claimant);
    }

    /// @dev While the dispute is active its opener is the finder: a proof that is copied and sent first redirects nothing.
    function _convict(DisputeId id, Dispute storage d, bytes32 reason) private {
        bool active = _isActive(d.stage);
        address finder = active ? d.opener : msg.sender;
        ClaimRef memory claim = d.claim;
        d.stage = Stage.CONVICTED;
        emit DisputeConvicted(id, d.claimant, finder, reason);
        if (claim.bySolver) {
            ledger.convictSolver(claim.audit.task, claim.audit.round, claim.audit.slot, finder, reason);
        } else {
            audits.convictAuditor(claim.audit, finder, reason);
        }
        if (!active) return;
        vault.release(Hashing.disputeExposure(id));
        _next(claim, d.claimant);
    }

    /// @dev The active dispute, the front of its queue, has ended.
    function _next(ClaimRef memory claim, address claimant) private {
        TaskId task = claim.audit.task;
        --_openCounts[_slotKey(TaskId.unwrap(task), claim.audit.round, claim.audit.slot)];
        DoubleEndedQueue.Bytes32Deque storage queue = _queues[_queueKey(task, claimant)];
        queue.popFront();
        if (!queue.empty()) _activate(DisputeId.wrap(queue.front()), registry.termsOf(task).windows.respond);
    }

    // Stages and clocks -------------------------------------------------------------------------------------------
    function _at(DisputeId dispute, Stage expected) private view returns (Dispute storage d) {
        d = _disputes[dispute];
        if (d.stage != expected) revert WrongStage(expected, d.stage);
    }

    function _onClock(DisputeId dispute, Stage expected) private view returns (Dispute storage d) {
        d = _at(dispute, expected);
        if (block.number >= d.clockBlock) revert ClockOver(d.clockBlock, block.number);
    }

    function _isActive(Stage stage) private pure returns (bool) {
        return stage == Stage.ROOTS || stage == Stage.NAME || stage == Stage.PROVE;
    }

    function _hasOpenDemand(Dispute storage d) private view returns (bool) {
        return d.demandsAnswered < d.demandsMade;
    }

    /// @dev An open demand comes first: it is answered or convicts, whatever is left of the stage's clock.
    function _clockOf(Dispute storage d) private view returns (uint256) {
        return _hasOpenDemand(d) ? d.demandClock : d.clockBlock;
    }

    function _max(uint256 a, uint256 b) private pure returns (uint256) {
        return a > b ? a : b;
    }

    function _queueKey(TaskId task, address claimant) private pure returns (bytes32) {
        return keccak256(abi.encode(task, claimant));
    }

    function _slotKey(bytes32 task, uint32 round, uint32 slot) private pure returns (bytes32) {
        return keccak256(abi.encode(task, round, slot));
    }

    // Views -------------------------------------------------------------------------------------------------------
    function stageOf(DisputeId dispute)
        external
        view
        returns (Stage stage, uint256 clockBlock, address claimant, address opener)
    {
        Dispute storage d = _disputes[dispute];
        return (d.stage, _clockOf(d), d.claimant, d.opener);
    }

    function openCount(bytes32 task, uint32 round, uint32 slot) external view returns (uint256) {
        return _openCounts[_slotKey(task, round, slot)];
    }

    function rootsOf(DisputeId dispute) external view returns (bytes32[] memory) {
        return _disputes[dispute].roots;
    }

    function claimOf(DisputeId dispute) external view returns (ClaimRef memory) {
        return _disputes[dispute].claim;
    }

    function activeOf(bytes32 task, address claimant)
        external
        view
        returns (DisputeId dispute, uint256 queued)
    {
        DoubleEndedQueue.Bytes32Deque storage queue = _queues[_queueKey(TaskId.wrap(task), claimant)];
        queued = queue.length();
        if (queued != 0) dispute = DisputeId.wrap(queue.front());
    }

    function demandsOf(DisputeId dispute)
        external
        view
        returns (uint32 made, uint32 answered, uint256 clockBlock)
    {
        Dispute storage d = _disputes[dispute];
        return (d.demandsMade, d.demandsAnswered, _hasOpenDemand(d) ? d.demandClock : 0);
    }
}
