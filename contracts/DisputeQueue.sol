// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {AuditRef, AuditStatus, ClaimRef, ClaimStatus, DisputeId, TaskId, TaskTerms} from "./Types.sol";
import {IAuditBook} from "./interfaces/IAuditBook.sol";
import {IDisputeGame} from "./interfaces/IDisputeGame.sol";
import {IRoundLedger} from "./interfaces/IRoundLedger.sol";
import {IStakeVault} from "./interfaces/IStakeVault.sol";
import {ITaskRegistry} from "./interfaces/ITaskRegistry.sol";
import {Hashing} from "./libraries/Hashing.sol";
import {Terms} from "./libraries/Terms.sol";
import {DoubleEndedQueue} from "@openzeppelin/contracts/utils/structs/DoubleEndedQueue.sol";

/// @title The beginning and the end of every dispute: seals, openings, a claimant's queue, bonds and convictions.
/// @notice The bond returns with a conviction, whoever proved it; a dispute that ends without one costs it: half to the claimant for its work, half
/// burned, so that nobody gains by disputing himself. A claimant has one dispute at its turn in each task and every clock of it starts at that turn, so
/// a flood of disputes costs its opener doubling bonds and the claimant no sleep. Disputes open before the round's disputeEnd only, their number is
/// bounded by the bonds, each ends by its clocks, and settlement waits for them.
/// @dev The active dispute is the queue's front. Every end is O(1): it pops the front and starts the next one's clock, nothing else.
abstract contract DisputeQueue is IDisputeGame {
    using DoubleEndedQueue for DoubleEndedQueue.Bytes32Deque;

    /// @notice Disputes that may wait for one claimant in a task.
    /// @dev The bond has doubled 32 times by then: no stake reaches it, and the shift cannot overflow.
    uint256 public constant MAX_QUEUE = 32;

    /// @dev Six words. In the order of a round's play: who, by when, what about, and what was shown.
    /// @param isTraced whether the trace of the named step is posted
    /// @param respond the task's window, which most moves need and no other term
    /// @param clockBlock end of the stage's clock (a demand has its own); while the stage is NONE, the block of the seal
    /// @param demandClock by when the oldest open demand must be answered
    /// @param ahead disputes in the queue before this one when it was opened: the bond has doubled as often
    /// @param otherDemands demands of anybody but the opener
    /// @param origin hash of the step roots; once a step is named, the root of the state before it
    /// @param result once a step is named, the root of the state after it; once its trace is posted, the root of that
    struct Dispute {
        Stage stage;
        bool isTraced;
        bool bySolver;
        uint24 respond;
        address claimant;
        uint48 clockBlock;
        address opener;
        uint48 demandClock;
        uint32 step;
        uint8 ahead;
        uint32 round;
        uint32 slot;
        uint32 draw;
        uint32 rank;
        uint32 segment;
        uint32 demandsMade;
        uint32 demandsAnswered;
        uint32 otherDemands;
        TaskId task;
        bytes32 origin;
        bytes32 result;
    }

    /// @notice Where all money lies.
    IStakeVault public immutable vault;
    /// @notice Tasks, peers and rounds.
    ITaskRegistry public immutable registry;
    /// @notice Claims, verdicts and settlement.
    IRoundLedger public immutable ledger;
    /// @notice The blind audits.
    IAuditBook public immutable audits;

    mapping(DisputeId => Dispute) internal _disputes;
    mapping(bytes32 => DoubleEndedQueue.Bytes32Deque) private _queues;
    mapping(bytes32 => uint256) private _openCounts;

    constructor(IStakeVault vault_, ITaskRegistry registry_, IRoundLedger ledger_, IAuditBook audits_) {
        (vault, registry, ledger, audits) = (vault_, registry_, ledger_, audits_);
    }

    // Openings ----------------------------------------------------------------------------------------------------
    /// @inheritdoc IDisputeGame
    /// @dev The first seal counts: whoever copies a hash can only make it older.
    function sealOpening(bytes32 sealHash) external {
        Dispute storage d = _disputes[DisputeId.wrap(sealHash)];
        if (d.stage == Stage.NONE && d.clockBlock == 0) d.clockBlock = uint48(block.number);
        emit OpeningSealed(msg.sender, sealHash);
    }

    /// @inheritdoc IDisputeGame
    function openDispute(ClaimRef calldata claim, bytes32 salt) external returns (DisputeId dispute) {
        dispute = DisputeId.wrap(sha256(abi.encode(claim, msg.sender, salt)));
        _requireSealed(dispute);
        _requireOpenWindow(claim);
        TaskTerms memory terms = Terms.load(registry, claim.audit.task);
        address claimant = _requireDisputable(claim, terms);
        if (claimant == msg.sender) revert OwnClaim(msg.sender);
        _enqueue(dispute, claim, claimant, terms);
    }

    function _requireSealed(DisputeId dispute) private view {
        Dispute storage d = _disputes[dispute];
        if (d.stage != Stage.NONE) revert DisputeExists(dispute);
        if (d.clockBlock == 0) revert NotSealed(DisputeId.unwrap(dispute));
        if (block.number <= d.clockBlock) revert SealTooYoung(d.clockBlock, block.number);
    }

    function _requireOpenWindow(ClaimRef calldata claim) private view {
        uint256 closes = ledger.settleBlockOf(claim.audit.task, claim.audit.round);
        if (block.number >= closes) revert DisputeWindowClosed(closes, block.number);
    }

    /// @dev A solver's claim from its commitment on, an auditor's once it is revealed; not what is slashed already.
    function _requireDisputable(ClaimRef calldata claim, TaskTerms memory terms)
        private
        view
        returns (address claimant)
    {
        if (!claim.bySolver) return _requireRevealed(claim);
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

    function _enqueue(DisputeId id, ClaimRef calldata claim, address claimant, TaskTerms memory terms)
        private
    {
        DoubleEndedQueue.Bytes32Deque storage queue = _queues[_queueKey(claim.audit.task, claimant)];
        uint256 ahead = queue.length();
        if (ahead >= MAX_QUEUE) revert QueueFull(MAX_QUEUE);
        uint256 bondWei = uint256(terms.amounts.disputeBond) << ahead;
        Dispute storage d = _disputes[id];
        (d.stage, d.claimant, d.opener, d.clockBlock) = (Stage.QUEUED, claimant, msg.sender, 0);
        (d.respond, d.ahead) = (uint24(terms.windows.respond), uint8(ahead));
        _keepClaim(d, claim);
        queue.pushBack(DisputeId.unwrap(id));
        ++_openCounts[_slotKey(TaskId.unwrap(claim.audit.task), claim.audit.round, claim.audit.slot)];
        emit DisputeOpened(id, claim, claimant, msg.sender, bondWei);
        if (ahead == 0) _activate(id);
        vault.expose(Hashing.disputeExposure(id), msg.sender, bondWei);
    }

    function _activate(DisputeId id) private {
        Dispute storage d = _disputes[id];
        (d.stage, d.clockBlock) = (Stage.ROOTS, uint48(block.number + d.respond));
        emit DisputeActivated(id, d.clockBlock);
    }

    // Ends -------------------------------------------------------------------------------------------------------
    /// @dev A proof comes too late for a claim that is settled or slashed already.
    function _requireStanding(ClaimRef memory claim) internal view {
        (, ClaimStatus status, bool settled,,) =
            ledger.claimOf(claim.audit.task, claim.audit.round, claim.audit.slot);
        if (settled || _isConvicted(claim, status)) revert ClaimNotDisputable(uint8(status));
    }

    function _isConvicted(ClaimRef memory claim) internal view returns (bool) {
        (, ClaimStatus status,,,) = ledger.claimOf(claim.audit.task, claim.audit.round, claim.audit.slot);
        return _isConvicted(claim, status);
    }

    function _isConvicted(ClaimRef memory claim, ClaimStatus solverStatus) private view returns (bool) {
        if (claim.bySolver) return solverStatus == ClaimStatus.CONVICTED;
        return audits.statusOf(claim.audit) == AuditStatus.SLASHED;
    }

    /// @dev The claim fell otherwise before this dispute could end: no fault of its opener.
    function _dismiss(DisputeId id, Dispute storage d) internal {
        d.stage = Stage.CLOSED;
        emit DisputeClosed(id);
        vault.release(Hashing.disputeExposure(id));
        _next(_claimOf(d), d.claimant);
    }

    function _close(DisputeId id, Dispute storage d) internal {
        d.stage = Stage.CLOSED;
        emit DisputeClosed(id);
        uint256 bondWei = uint256(Terms.load(registry, d.task).amounts.disputeBond) << d.ahead;
        vault.forfeit(Hashing.disputeExposure(id), d.claimant, bondWei / 2, "closed");
        _next(_claimOf(d), d.claimant);
    }

    /// @dev While the dispute is active its opener is the finder: a proof that is copied and sent first redirects nothing.
    function _convict(DisputeId id, Dispute storage d, bytes32 reason) internal {
        bool active = _isActive(d.stage);
        address finder = active ? d.opener : msg.sender;
        ClaimRef memory claim = _claimOf(d);
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
        if (!queue.empty()) _activate(DisputeId.wrap(queue.front()));
    }

    function _isActive(Stage stage) internal pure returns (bool) {
        return stage == Stage.ROOTS || stage == Stage.NAME || stage == Stage.TRACE || stage == Stage.PROVE;
    }

    // The claim, packed --------------------------------------------------------------------------------------------
    function _keepClaim(Dispute storage d, ClaimRef calldata claim) private {
        (d.task, d.round, d.slot) = (claim.audit.task, claim.audit.round, claim.audit.slot);
        (d.draw, d.rank) = (claim.audit.draw, claim.audit.rank);
        (d.segment, d.bySolver) = (claim.segment, claim.bySolver);
    }

    function _claimOf(Dispute storage d) internal view returns (ClaimRef memory) {
        return ClaimRef(AuditRef(d.task, d.round, d.slot, d.draw, d.rank), d.segment, d.bySolver);
    }

    function _queueKey(TaskId task, address claimant) private pure returns (bytes32) {
        return keccak256(abi.encode(task, claimant));
    }

    function _slotKey(bytes32 task, uint32 round, uint32 slot) private pure returns (bytes32) {
        return keccak256(abi.encode(task, round, slot));
    }

    // Views -------------------------------------------------------------------------------------------------------
    /// @inheritdoc IDisputeGame
    function openCount(bytes32 task, uint32 round, uint32 slot) external view returns (uint256) {
        return _openCounts[_slotKey(task, round, slot)];
    }

    /// @inheritdoc IDisputeGame
    function claimOf(DisputeId dispute) external view returns (ClaimRef memory) {
        return _claimOf(_disputes[dispute]);
    }

    /// @inheritdoc IDisputeGame
    function activeOf(bytes32 task, address claimant)
        external
        view
        returns (DisputeId dispute, uint256 queued)
    {
        DoubleEndedQueue.Bytes32Deque storage queue = _queues[_queueKey(TaskId.wrap(task), claimant)];
        queued = queue.length();
        if (queued != 0) dispute = DisputeId.wrap(queue.front());
    }
}
