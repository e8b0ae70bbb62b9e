// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {DisputeQueue} from "./DisputeQueue.sol";
import {
    BoundaryProof,
    ClaimRef,
    DisputeId,
    ExposureId,
    LeafProof,
    StateHeader,
    StepFacts,
    TaskId,
    TaskTerms
} from "./Types.sol";
import {IAuditBook} from "./interfaces/IAuditBook.sol";
import {IDisputeGame} from "./interfaces/IDisputeGame.sol";
import {IReferee} from "./interfaces/IReferee.sol";
import {IRoundLedger} from "./interfaces/IRoundLedger.sol";
import {IStakeVault} from "./interfaces/IStakeVault.sol";
import {ITaskRegistry} from "./interfaces/ITaskRegistry.sol";
import {Boundaries} from "./libraries/Boundaries.sol";
import {Draw} from "./libraries/Draw.sol";
import {Hashing} from "./libraries/Hashing.sol";
import {StepProofs} from "./libraries/StepProofs.sol";
import {Terms} from "./libraries/Terms.sol";

/// @title Pinpoint, then compute: disputes on one claim "from state root A, k steps, I got state root C".
/// @notice
/// ```
///         opener               claimant             opener            claimant            anybody
/// sealOpening, openDispute -> postStepRoots (respond) -> nameStep (name) -> postTrace (respond) -> prove..., demandLeaf (prove)
///      QUEUED ----turn----> ROOTS ----------------> NAME -----------> TRACE -------------> PROVE ----------------------------> CLOSED
///                             | silent                | silent          | silent             | a fault, or a demand            |
///                             v                       v                 v                    v unanswered (respond)            v a fault, until settlement
///                         CONVICTED                 CLOSED          CONVICTED            CONVICTED                         CONVICTED
/// ```
/// Only computation and silence convict: a proof is what the referee computes from the claimant's own numbers, or a comparison of them with the data
/// that the task gives. What does not bind cannot be posted, so there is nothing to prove about it.
/// @dev Step roots are kept as one hash, and of the named step the two roots that count; who needs more finds it in the events.
contract DisputeGame is DisputeQueue {
    /// @notice Demands that one challenger may make in a dispute.
    uint32 public constant MAX_DEMANDS_EACH = 8;
    /// @notice Demands that all but the opener may make in a dispute.
    /// @dev Of all challengers but the opener together: strangers cannot stretch a dispute without end, nor crowd out its opener.
    uint32 public constant MAX_DEMANDS_OTHERS = 32;

    /// @inheritdoc IDisputeGame
    IReferee public immutable referee;

    mapping(DisputeId => mapping(uint32 => StepProofs.Demand)) private _demands;
    mapping(DisputeId => mapping(address => uint32)) private _demandsBy;

    constructor(
        IStakeVault vault_,
        ITaskRegistry registry_,
        IRoundLedger ledger_,
        IAuditBook audits_,
        IReferee referee_
    ) DisputeQueue(vault_, registry_, ledger_, audits_) {
        referee = referee_;
    }

    // D1: roots ---------------------------------------------------------------------------------------------------
    /// @inheritdoc IDisputeGame
    function postStepRoots(DisputeId dispute, bytes32[] calldata roots, BoundaryProof[] calldata ends)
        external
    {
        Dispute storage d = _onClock(dispute, Stage.ROOTS);
        if (msg.sender != d.claimant) revert NotClaimant(d.claimant, msg.sender);
        TaskTerms memory terms = Terms.load(registry, d.task);
        if (roots.length != terms.segmentSteps + 1) {
            revert WrongRootCount(terms.segmentSteps + 1, roots.length);
        }
        ClaimRef memory claim = _claimOf(d);
        uint256 segments = terms.innerSteps / terms.segmentSteps;
        (bytes32 first, bytes32 last) =
            claim.bySolver ? _solverEnds(claim, segments, ends) : _auditEnds(claim, ends);
        _requireRoot(0, first, roots[0]);
        _requireRoot(terms.segmentSteps, last, roots[terms.segmentSteps]);
        (d.origin, d.stage) = (_hashOf(roots), Stage.NAME);
        d.clockBlock = uint48(block.number + terms.windows.name);
        emit StepRootsPosted(dispute, roots);
    }

    /// @dev The sender is the claimant, the solver.
    function _solverEnds(ClaimRef memory claim, uint256 segmentCount, BoundaryProof[] calldata ends)
        private
        view
        returns (bytes32 first, bytes32 last)
    {
        if (ends.length != 2) revert WrongRootCount(2, ends.length);
        (TaskId task, uint32 round) = (claim.audit.task, claim.audit.round);
        (bytes32 claimRoot,) = ledger.groundOf(task, round, claim.audit.slot);
        bytes32 domain = Hashing.domain(block.chainid, address(registry), task);
        first = Boundaries.requireOpened(
            domain, round, msg.sender, claimRoot, segmentCount, claim.segment, ends[0]
        );
        last = Boundaries.requireOpened(
            domain, round, msg.sender, claimRoot, segmentCount, claim.segment + 1, ends[1]
        );
    }

    function _auditEnds(ClaimRef memory claim, BoundaryProof[] calldata ends)
        private
        view
        returns (bytes32 first, bytes32 last)
    {
        if (ends.length != 0) revert WrongRootCount(0, ends.length);
        first = audits.startOf(claim.audit.task, claim.audit.round, claim.audit.slot, claim.audit.draw);
        return (first, audits.revealedOf(claim.audit));
    }

    function _requireRoot(uint32 index, bytes32 expected, bytes32 actual) private pure {
        if (expected != actual) revert EndpointMismatch(index, expected, actual);
    }

    function _hashOf(bytes32[] calldata roots) private pure returns (bytes32) {
        return keccak256(abi.encodePacked(roots));
    }

    // D2: name, trace ---------------------------------------------------------------------------------------------
    /// @inheritdoc IDisputeGame
    function nameStep(DisputeId dispute, uint32 step, bytes32[] calldata roots) external {
        Dispute storage d = _onClock(dispute, Stage.NAME);
        if (msg.sender != d.opener) revert NotOpener(d.opener, msg.sender);
        bytes32 actual = _hashOf(roots);
        if (actual != d.origin) revert RootsMismatch(d.origin, actual);
        uint32 count = uint32(roots.length - 1);
        if (step >= count) revert StepUnknown(step, count);
        (d.origin, d.result, d.step, d.stage) = (roots[step], roots[step + 1], step, Stage.TRACE);
        d.clockBlock = uint48(block.number + d.respond);
        emit StepNamed(dispute, step, d.clockBlock);
    }

    /// @inheritdoc IDisputeGame
    function postTrace(
        DisputeId dispute,
        StepFacts calldata facts,
        bytes32 traceRoot,
        StateHeader calldata start,
        StateHeader calldata end,
        TraceProof calldata proof
    ) external {
        Dispute storage d = _onClock(dispute, Stage.TRACE);
        if (msg.sender != d.claimant) revert NotClaimant(d.claimant, msg.sender);
        TaskTerms memory terms = Terms.load(registry, d.task);
        StepProofs.requireFacts(terms.stepRoot, facts);
        StepProofs.requireHeader(d.origin, start);
        StepProofs.requireHeader(d.result, end);
        _requireSteps(d, terms.segmentSteps, start, end);
        StepProofs.requireOutputs(facts, traceRoot, end, proof);
        (d.result, d.isTraced, d.stage) = (traceRoot, true, Stage.PROVE);
        d.clockBlock = uint48(block.number + terms.windows.prove);
        emit TracePosted(dispute, traceRoot, start, end, d.clockBlock);
    }

    /// @dev The bias corrections go by the local step, learning rate and data by the global one: both must be the claim's.
    function _requireSteps(
        Dispute storage d,
        uint32 segmentSteps,
        StateHeader calldata start,
        StateHeader calldata end
    ) private view {
        (uint32 local, uint32 global) =
            ledger.stepsOf(d.task, d.round, d.slot, d.segment * segmentSteps + d.step);
        _requireStep(start, local, global);
        _requireStep(end, local + 1, global + 1);
    }

    function _requireStep(StateHeader calldata header, uint32 local, uint32 global) private pure {
        if (header.localStep != local || header.globalStep != global) {
            revert WrongSteps(local, header.localStep, global, header.globalStep);
        }
    }

    // D3: demands -------------------------------------------------------------------------------------------------
    /// @inheritdoc IDisputeGame
    function demandLeaf(
        DisputeId dispute,
        StepFacts calldata facts,
        IReferee.NodeProof calldata node,
        uint32 place,
        uint32 leafIndex
    ) external returns (uint32 demand) {
        Dispute storage d = _onClock(dispute, Stage.PROVE);
        if (msg.sender == d.claimant) revert OwnClaim(msg.sender);
        TaskTerms memory terms = Terms.load(registry, d.task);
        StepProofs.requireFacts(terms.stepRoot, facts);
        _countDemand(dispute, d);
        demand = d.demandsMade++;
        _demands[dispute][demand] = StepProofs.demandOf(facts, node, place, leafIndex);
        if (demand == d.demandsAnswered) d.demandClock = uint48(block.number + d.respond);
        emit LeafDemanded(dispute, demand, msg.sender, node.number, place, leafIndex, d.demandClock);
        _payFee(dispute, demand, d.claimant, terms.amounts.demandFee);
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

    /// @inheritdoc IDisputeGame
    function answerDemand(
        DisputeId dispute,
        uint32 demand,
        StateHeader calldata start,
        IReferee.BufferOpening calldata opening
    ) external {
        Dispute storage d = _at(dispute, Stage.PROVE);
        if (msg.sender != d.claimant) revert NotClaimant(d.claimant, msg.sender);
        if (demand != d.demandsAnswered || demand == d.demandsMade) {
            revert DemandUnknown(demand, d.demandsAnswered, d.demandsMade);
        }
        if (block.number >= d.demandClock) revert ClockOver(d.demandClock, block.number);
        StepProofs.requireHeader(d.origin, start);
        StepProofs.requireAnswer(_demands[dispute][demand], d.result, start, opening);
        ++d.demandsAnswered;
        d.demandClock = uint48(block.number + d.respond);
        d.clockBlock = uint48(_max(d.clockBlock, block.number) + d.respond);
        emit LeafAnswered(dispute, demand, opening.leaves);
    }

    // D3: proofs --------------------------------------------------------------------------------------------------
    /// @inheritdoc IDisputeGame
    function proveOperation(
        DisputeId dispute,
        StepFacts calldata facts,
        StateHeader calldata start,
        IReferee.NodeProof calldata node,
        uint256 element,
        bytes calldata openings
    ) external {
        Dispute storage d = _provable(dispute, facts);
        StepProofs.requireHeader(d.origin, start);
        IReferee.StepContext memory context = IReferee.StepContext(facts, start, d.result);
        if (!referee.judge(context, node, element, openings)) revert NoFault(element);
        _convict(dispute, d, "operation");
    }

    /// @inheritdoc IDisputeGame
    function proveToken(
        DisputeId dispute,
        StepFacts calldata facts,
        bool isLabel,
        uint32 position,
        IReferee.BufferOpening calldata opening,
        LeafProof calldata dataset
    ) external {
        Dispute storage d = _provable(dispute, facts);
        uint256 buffer = isLabel ? StepProofs.LABELS_BUFFER : StepProofs.TOKENS_BUFFER;
        uint256 claimed = StepProofs.tracedElement(facts, d.result, buffer, position, opening);
        uint256 place = _sampleStart(d, facts, position / facts.sequenceTokens)
            + position % facts.sequenceTokens + (isLabel ? 1 : 0);
        if (claimed == StepProofs.datasetToken(facts, place, dataset)) revert NoFault(position);
        _convict(dispute, d, "data");
    }

    /// @dev Whose data: the slot's shard, whether solver or auditor claims the step.
    function _sampleStart(Dispute storage d, StepFacts calldata facts, uint256 row)
        private
        view
        returns (uint256)
    {
        (,, bytes32 beacon,,,) = registry.roundOf(d.task, d.round);
        uint256 shard = registry.shardOf(d.task, d.round, d.slot);
        uint256 innerStep = uint256(d.segment) * Terms.load(registry, d.task).segmentSteps + d.step;
        return Draw.sampleStart(beacon, shard, innerStep, row, facts.tokenCount, facts.sequenceTokens);
    }

    /// @inheritdoc IDisputeGame
    function proveScalar(
        DisputeId dispute,
        StepFacts calldata facts,
        StateHeader calldata start,
        uint32 which,
        IReferee.BufferOpening calldata opening,
        LeafProof calldata scalars
    ) external {
        Dispute storage d = _provable(dispute, facts);
        StepProofs.requireHeader(d.origin, start);
        uint32 claimed =
            StepProofs.tracedElement(facts, d.result, StepProofs.SCALARS_BUFFER, which, opening);
        if (claimed == StepProofs.scalarOf(facts, start, which, scalars)) revert NoFault(which);
        _convict(dispute, d, "data");
    }

    /// @dev Everything cheap that a proof needs: its trace is posted, its facts are the task's, its claim can still be convicted.
    function _provable(DisputeId dispute, StepFacts calldata facts) private view returns (Dispute storage d) {
        d = _disputes[dispute];
        if (!d.isTraced || d.stage == Stage.CONVICTED) revert WrongStage(Stage.PROVE, d.stage);
        StepProofs.requireFacts(Terms.load(registry, d.task).stepRoot, facts);
        _requireStanding(_claimOf(d));
    }

    // D4: clocks --------------------------------------------------------------------------------------------------
    /// @inheritdoc IDisputeGame
    function timeout(DisputeId dispute) external {
        Dispute storage d = _disputes[dispute];
        if (!_isActive(d.stage)) revert WrongStage(Stage.PROVE, d.stage);
        if (_isConvicted(_claimOf(d))) return _dismiss(dispute, d);
        uint256 clockBlock = _clockOf(d);
        if (block.number < clockBlock) revert ClockRunning(clockBlock, block.number);
        if (d.stage == Stage.ROOTS || d.stage == Stage.TRACE) _convict(dispute, d, "silent");
        else if (_hasOpenDemand(d)) _convict(dispute, d, "withheld");
        else _close(dispute, d);
    }

    function _at(DisputeId dispute, Stage expected) private view returns (Dispute storage d) {
        d = _disputes[dispute];
        if (d.stage != expected) revert WrongStage(expected, d.stage);
    }

    function _onClock(DisputeId dispute, Stage expected) private view returns (Dispute storage d) {
        d = _at(dispute, expected);
        if (block.number >= d.clockBlock) revert ClockOver(d.clockBlock, block.number);
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

    // Views -------------------------------------------------------------------------------------------------------
    /// @inheritdoc IDisputeGame
    function stageOf(DisputeId dispute)
        external
        view
        returns (Stage stage, uint256 clockBlock, address claimant, address opener)
    {
        Dispute storage d = _disputes[dispute];
        return (d.stage, _clockOf(d), d.claimant, d.opener);
    }

    /// @inheritdoc IDisputeGame
    function traceOf(DisputeId dispute)
        external
        view
        returns (uint32 step, bytes32 startRoot, bytes32 traceRoot)
    {
        Dispute storage d = _disputes[dispute];
        if (d.isTraced) (step, startRoot, traceRoot) = (d.step, d.origin, d.result);
    }

    /// @inheritdoc IDisputeGame
    function demandsOf(DisputeId dispute)
        external
        view
        returns (uint32 made, uint32 answered, uint256 clockBlock)
    {
        Dispute storage d = _disputes[dispute];
        return (d.demandsMade, d.demandsAnswered, _hasOpenDemand(d) ? d.demandClock : 0);
    }
}
