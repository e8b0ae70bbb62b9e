// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {LeafProof, StateHeader, StepFacts, TaskId} from "../Types.sol";
import {IReferee} from "../interfaces/IReferee.sol";
import {Draw} from "../libraries/Draw.sol";
import {StepProofs} from "../libraries/StepProofs.sol";
import {DisputeTurns} from "./DisputeTurns.sol";
import {DEMANDED_LEAVES_MAX} from "./GameStorage.sol";
import {GameTerms} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {IDisputes} from "./interfaces/IDisputes.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {ISteps} from "./interfaces/ISteps.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Decides disputes: the trace of the named step, the leaves that are demanded, and proofs of one wrong number.
/// @notice Seen from outside it is `protocol/spec/game/disputes.py`; inside only computation and silence convict.
/// @dev Every move of the claimant is bounded: a head and four paths, then eight leaves in as many calls as it likes; of another's bytes it repeats none.
/// What a dispute is, and how it comes to a step, is in `Disputes`.
contract Steps is DisputeTurns, ISteps {
    /// @inheritdoc ISteps
    IReferee public immutable referee;

    constructor(Modules memory modules, IReferee referee_) Module(modules) {
        referee = referee_;
    }

    // The trace of a step (11.3)
    /// @inheritdoc ISteps
    function postTrace(
        TaskId task,
        bytes32 id,
        StepFacts calldata facts,
        bytes32 traceRoot,
        StateHeader calldata start,
        StateHeader calldata end,
        TraceProof calldata proof
    ) external {
        (Dispute storage dispute,) = _claimantsTurn(task, id, IDisputes.Stage.TRACE);
        GameTerms storage terms = _tasks[task].terms;
        StepProofs.requireFacts(terms.stepRoot, facts);
        StepProofs.requireHeader(dispute.startRoot, start);
        StepProofs.requireHeader(dispute.endRoot, end);
        (uint256 local, uint256 global) = (uint256(dispute.localStep) + dispute.step, uint256(dispute.globalStep) + dispute.step);
        _requireSteps(start, local, global);
        _requireSteps(end, local + 1, global + 1);
        StepProofs.requireOutputs(facts, traceRoot, end, proof);
        dispute.traceRoot = traceRoot;
        uint256 clock = _turnTo(dispute, IDisputes.Stage.PROVE, terms.windows.respond);
        emit TracePosted(task, id, traceRoot, start, end, clock);
    }

    // Leaves (11.3)
    /// @inheritdoc ISteps
    function demandLeaves(TaskId task, bytes32 id, StepFacts calldata facts, LeafDemand[] calldata list)
        external
    {
        Dispute storage dispute = _openersTurn(task, id, IDisputes.Stage.PROVE);
        GameTerms storage terms = _tasks[task].terms;
        StepProofs.requireFacts(terms.stepRoot, facts);
        if (list.length == 0) revert NothingDemanded();
        _requireBelow("leaves", DEMANDED_LEAVES_MAX + 1, list.length);
        for (uint256 i = 0; i < list.length; ++i) {
            LeafDemand calldata one = list[i];
            _demands[id][i] = StepProofs.demandOf(facts, one.node, one.place, one.leafIndex);
            emit LeafDemanded(task, id, i, one.node.number, one.place, one.leafIndex);
        }
        dispute.demanded = uint8(list.length);
        emit LeavesDue(task, id, _turnTo(dispute, IDisputes.Stage.LEAVES, terms.windows.respond));
    }

    /// @inheritdoc ISteps
    function showLeaves(
        TaskId task,
        bytes32 id,
        StateHeader calldata start,
        IReferee.BufferOpening[] calldata openings
    ) external {
        (Dispute storage dispute,) = _claimantsTurn(task, id, IDisputes.Stage.LEAVES);
        StepProofs.requireHeader(dispute.startRoot, start);
        uint256 shown = dispute.shown;
        _requireBelow("leaves", dispute.demanded + 1, shown + openings.length);
        for (uint256 i = 0; i < openings.length; ++i) {
            StepProofs.requireAnswer(_demands[id][shown], dispute.traceRoot, start, openings[i]);
            emit LeafShown(task, id, shown++, openings[i].leaves);
        }
        dispute.shown = uint8(shown);
        if (shown == dispute.demanded) _turnTo(dispute, IDisputes.Stage.LAST, _tasks[task].terms.windows.respond);
    }

    // Proofs (10, 11.3)
    /// @inheritdoc ISteps
    function proveOperation(
        TaskId task,
        bytes32 id,
        StepFacts calldata facts,
        StateHeader calldata start,
        IReferee.NodeProof calldata node,
        uint256 element,
        bytes calldata openings
    ) external {
        (Dispute storage dispute,) = _provable(task, id, facts, start);
        IReferee.StepContext memory context = IReferee.StepContext(facts, start, dispute.traceRoot);
        if (!referee.judge(context, node, element, openings)) revert NoFault(element);
        _convict(task, id, dispute);
    }

    /// @inheritdoc ISteps
    function proveDatum(
        TaskId task,
        bytes32 id,
        StepFacts calldata facts,
        StateHeader calldata start,
        uint256 buffer,
        uint256 position,
        IReferee.BufferOpening calldata opening,
        LeafProof calldata datum
    ) external {
        (Dispute storage dispute, GameTerms storage terms) = _provable(task, id, facts, start);
        unchecked {
            // Tokens, labels, scalars. A buffer before them wraps to a huge number.
            _requireBelow("datum", 3, buffer - StepProofs.TOKENS_BUFFER);
        }
        uint256 claimed = StepProofs.tracedElement(facts, dispute.traceRoot, buffer, position, opening);
        uint256 right;
        if (buffer == StepProofs.SCALARS_BUFFER) {
            right = StepProofs.scalarOf(facts, start, uint32(position), datum);
        } else {
            uint256 innerStep = uint256(dispute.segment) * terms.segmentSteps + dispute.step;
            uint256 place = _sampleStart(task, dispute, facts, innerStep, position / facts.sequenceTokens);
            // A label is the token one further.
            place += position % facts.sequenceTokens + buffer - StepProofs.TOKENS_BUFFER;
            right = StepProofs.datasetToken(facts, place, datum);
        }
        if (claimed == right) revert NoFault(position);
        _convict(task, id, dispute);
    }

    /// @dev Whose data: the slot's shard, whether solver or auditor claims the step.
    function _sampleStart(
        TaskId task,
        Dispute storage dispute,
        StepFacts calldata facts,
        uint256 innerStep,
        uint256 row
    ) private view returns (uint256) {
        Round storage round = _roundAt(task, dispute.round);
        (bytes32 beacon, uint256 seats) = (round.beacon, LibBit.popCount(round.pool));
        uint256 shard = Draw.shard(beacon, dispute.slot, seats);
        return Draw.sampleStart(beacon, shard, innerStep, row, facts.tokenCount, facts.sequenceTokens);
    }

    /// @dev Refuses unless a trace is posted and the sender is the opener of a dispute that is not over. The opener may prove in each turn from PROVE on,
    /// also in the claimant's, until the clock of that turn.
    function _provable(TaskId task, bytes32 id, StepFacts calldata facts, StateHeader calldata start)
        private
        view
        returns (Dispute storage dispute, GameTerms storage terms)
    {
        IDisputes.Stage stage = _running(task, id).stage;
        if (stage < IDisputes.Stage.PROVE) revert IRefusals.WrongTurn(uint256(stage), uint256(IDisputes.Stage.PROVE));
        dispute = _openersTurn(task, id, stage);
        terms = _tasks[task].terms;
        StepProofs.requireFacts(terms.stepRoot, facts);
        StepProofs.requireHeader(dispute.startRoot, start);
    }
}
