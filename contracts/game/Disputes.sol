// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BoundaryProof, LeafProof, StateHeader, StepFacts, TaskId} from "../Types.sol";
import {IReferee} from "../interfaces/IReferee.sol";
import {Draw} from "../libraries/Draw.sol";
import {Hashing} from "../libraries/Hashing.sol";
import {Statements} from "../libraries/Statements.sol";
import {StepProofs} from "../libraries/StepProofs.sol";
import {Audit, GameTerms, NO_DRAW, Proof, Seat, SeatStatus, StatementRef} from "./GameTypes.sol";
import {Modules} from "./Module.sol";
import {QuestionModule} from "./QuestionModule.sol";
import {StatementModule} from "./StatementModule.sol";
import {SignedVote} from "./StatementTypes.sol";
import {IDisputes} from "./interfaces/IDisputes.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {RoundViews} from "./libraries/RoundViews.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title DISPUTE. Seen from outside it is `protocol/spec/game/disputes.py`; inside only computation and silence convict.
/// @notice What does not bind cannot be posted, so there is nothing to prove about it: who cannot bind is silent.
/// @dev Every move of the claimant is bounded: k + 1 words, then three paths, then eight leaves in as many calls as it likes; of another's bytes it
/// repeats none. Step roots are kept as one hash, and of the named step the two roots that count; who needs more finds it in the events.
contract Disputes is QuestionModule, IDisputes {
    /// @dev Leaves that the opener may demand.
    uint256 private constant LEAVES_MAX = 8;
    /// @dev In place of a draw: the statement is the claim.
    uint8 private constant CLAIM = type(uint8).max;

    /// @dev Four words, two of them written at the opening of a claim's dispute, three at that of a vote's.
    /// @param number k: the bond is k times the task's
    /// @param localStep of the segment's start; so globalStep
    /// @param shown how many of the demanded leaves
    /// @param origin of a vote, what must be opened; then the hash of the step roots; once a step is named, the root of the state before it
    /// @param result once a step is named, the root of the state after it; once its trace is posted, the root of that
    struct Dispute {
        Stage stage;
        uint8 step;
        uint8 demanded;
        uint8 shown;
        uint24 seat;
        uint40 clockBlock;
        address opener;
        uint16 round;
        uint8 slot;
        uint8 draw;
        uint8 rank;
        uint16 segment;
        uint24 number;
        uint32 localStep;
        uint32 globalStep;
        bytes32 origin;
        bytes32 result;
    }

    /// @inheritdoc IDisputes
    IReferee public immutable referee;
    mapping(TaskId => mapping(bytes32 => Dispute)) private _disputes;
    mapping(bytes32 => StepProofs.Demand[LEAVES_MAX]) private _demands;

    constructor(Modules memory modules, IReferee referee_) QuestionModule(modules) {
        referee = referee_;
    }

    // Opening ---------------------------------------------------------------------------------------------------------
    /// @inheritdoc IDisputes
    function disputeClaim(
        TaskId task,
        uint256 round,
        uint256 slot,
        uint256 segment,
        uint256 bondLimitWei,
        bytes32 salt
    ) external returns (bytes32) {
        rounds.sync(task);
        Statement memory s = _readClaim(task, round, slot);
        if (segment >= s.claim.segments) revert IRefusals.StatementUnknown(round, slot);
        return _openDispute(task, s, segment, 0, bondLimitWei, salt);
    }

    /// @inheritdoc IDisputes
    /// @dev Who was not served, or abstains, claims no state.
    function disputeVote(TaskId task, SignedVote calldata signed, uint256 bondLimitWei, bytes32 salt)
        external
        returns (bytes32)
    {
        Audit memory audit = _auditOf(task, signed);
        (Statement memory s,) = _readBareVote(task, signed, audit);
        if (signed.vote.word >= Statements.Word.UNSERVED) {
            revert IRefusals.StatementUnknown(s.ref.round, s.ref.slot);
        }
        address solver = _seatAt(task, s.claim.seat).account;
        bytes32 origin = _originOf(signed.vote.startLeaf, signed.vote.seal, solver);
        return _openDispute(task, s, signed.vote.segment, origin, bondLimitWei, salt);
    }

    function _openDispute(
        TaskId task,
        Statement memory s,
        uint256 segment,
        bytes32 origin,
        uint256 bondLimitWei,
        bytes32 salt
    ) private returns (bytes32 id) {
        _requireAccused(s);
        _requireWindow(0, _statementUntil(s));
        _requireDecided(task, s);
        id = keccak256(abi.encode(task, msg.sender, salt));
        Dispute storage d = _disputes[task][id];
        if (d.stage != Stage.NONE) revert DisputeExists(id);
        (d.stage, d.seat, d.opener) = (Stage.ROOTS, uint24(s.seat), msg.sender);
        d.clockBlock = uint40(block.number + s.audit.respond);
        _keepStatement(d, s.ref, segment);
        if (origin != 0) d.origin = origin;
        (uint256 number, uint256 bondWei) = _openQuestion(task, s.seat, s.ref.round, bondLimitWei);
        d.number = uint24(number);
        emit DisputeOpened(task, id, s.seat, s.ref, segment, msg.sender, bondWei, d.clockBlock);
    }

    /// @dev Two auditMax after the close every claim is decided: then nobody needs to be asked.
    function _requireDecided(TaskId task, Statement memory s) private view {
        uint256 closed = s.audit.closed;
        unchecked {
            // A window has 23 bits.
            if (closed != 0 && block.number > closed + 2 * s.audit.auditMax) return;
        }
        if (rounds.fatesOf(task, s.ref.round).open >> s.ref.slot & 1 == 1) {
            revert IRefusals.ClaimUndecided(s.ref.round, s.ref.slot);
        }
    }

    /// @dev The solver's account too: until the window ends it cannot have settled the round, but later its seat's number may be another's.
    function _originOf(bytes32 startLeaf, bytes32 seal, address solver) private pure returns (bytes32) {
        return keccak256(abi.encode(startLeaf, seal, solver));
    }

    // Roots -----------------------------------------------------------------------------------------------------------
    /// @inheritdoc IDisputes
    function postClaimRoots(
        TaskId task,
        bytes32 id,
        bytes32[] calldata roots,
        BoundaryProof calldata start,
        BoundaryProof calldata end_
    ) external {
        (Dispute storage d,) = _claimantsTurn(task, id, Stage.ROOTS);
        if (d.draw != CLAIM) revert IRefusals.StatementUnknown(d.round, d.slot);
        GameTerms memory terms = _termsOfRoots(task, roots);
        Claim memory claim = _claimOf(task, d.round, d.slot);
        _requireBound("start", _openBoundary(claim, d.segment, start), roots[0]);
        _requireBound("end", _openBoundary(claim, d.segment + 1, end_), roots[roots.length - 1]);
        uint256 globalStep = uint256(d.round) * terms.innerSteps + uint256(d.segment) * terms.segmentSteps;
        _requireSteps(start.header, start.header.localStep, globalStep);
        _keepRoots(task, id, d, roots, start.header, terms.windows.respond);
    }

    /// @inheritdoc IDisputes
    /// @dev The start is another's state, so its step numbers are taken as they come: an auditor must be able to show what it was given.
    function postVoteRoots(
        TaskId task,
        bytes32 id,
        bytes32[] calldata roots,
        address solver,
        StateHeader calldata start,
        bytes32 boundarySalt,
        bytes32 sealSalt
    ) external {
        (Dispute storage d, address auditor) = _claimantsTurn(task, id, Stage.ROOTS);
        if (d.draw == CLAIM) revert IRefusals.StatementUnknown(d.round, d.slot);
        GameTerms memory terms = _termsOfRoots(task, roots);
        _requireBound("start", Hashing.stateRoot(start), roots[0]);
        Statements.Vote memory vote;
        (vote.domain, vote.round, vote.slot) = (_domain(task), d.round, d.slot);
        (vote.draw, vote.rank) = (d.draw, d.rank);
        vote.startLeaf = Hashing.boundaryLeaf(vote.domain, d.round, solver, d.segment, boundarySalt, roots[0]);
        bytes32 seal = Statements.sealOf(vote, auditor, roots[roots.length - 1], sealSalt);
        _requireBound("vote", d.origin, _originOf(vote.startLeaf, seal, solver));
        _keepRoots(task, id, d, roots, start, terms.windows.respond);
    }

    /// @dev The terms, if there is a root for each state of a segment.
    function _termsOfRoots(TaskId task, bytes32[] calldata roots) private view returns (GameTerms memory terms) {
        terms = _terms(task);
        _requireBound("count", terms.segmentSteps + 1, roots.length);
    }

    function _keepRoots(
        TaskId task,
        bytes32 id,
        Dispute storage d,
        bytes32[] calldata roots,
        StateHeader calldata start,
        uint256 respond
    ) private {
        d.origin = _hashOf(roots);
        (d.localStep, d.globalStep) = (start.localStep, start.globalStep);
        emit StepRootsPosted(task, id, roots, _turnTo(d, Stage.NAME, respond));
    }

    // Step and trace ------------------------------------------------------------------------------------------------
    /// @inheritdoc IDisputes
    function nameStep(TaskId task, bytes32 id, uint256 step, bytes32[] calldata roots) external {
        Dispute storage d = _openersTurn(task, id, Stage.NAME);
        _requireBound("roots", d.origin, _hashOf(roots));
        _requireBelow("step", roots.length - 1, step);
        (d.origin, d.result, d.step) = (roots[step], roots[step + 1], uint8(step));
        emit StepNamed(task, id, step, _turnTo(d, Stage.TRACE, _terms(task).windows.respond));
    }

    /// @inheritdoc IDisputes
    function postTrace(
        TaskId task,
        bytes32 id,
        StepFacts calldata facts,
        bytes32 traceRoot,
        StateHeader calldata start,
        StateHeader calldata end_,
        TraceProof calldata proof
    ) external {
        (Dispute storage d,) = _claimantsTurn(task, id, Stage.TRACE);
        GameTerms memory terms = _terms(task);
        StepProofs.requireFacts(terms.stepRoot, facts);
        StepProofs.requireHeader(d.origin, start);
        StepProofs.requireHeader(d.result, end_);
        (uint256 local, uint256 global) = (uint256(d.localStep) + d.step, uint256(d.globalStep) + d.step);
        _requireSteps(start, local, global);
        _requireSteps(end_, local + 1, global + 1);
        StepProofs.requireOutputs(facts, traceRoot, end_, proof);
        d.result = traceRoot;
        uint256 clock = _turnTo(d, Stage.PROVE, terms.windows.respond);
        emit TracePosted(task, id, traceRoot, start, end_, clock);
    }

    /// @dev The bias corrections go by the local step, learning rate and data by the global one.
    function _requireSteps(StateHeader calldata header, uint256 local, uint256 global) private pure {
        if (header.localStep != local || header.globalStep != global) {
            revert WrongSteps(local, header.localStep, global, header.globalStep);
        }
    }

    // Leaves ----------------------------------------------------------------------------------------------------------
    /// @inheritdoc IDisputes
    function demandLeaves(TaskId task, bytes32 id, StepFacts calldata facts, LeafDemand[] calldata list)
        external
    {
        Dispute storage d = _openersTurn(task, id, Stage.PROVE);
        GameTerms memory terms = _terms(task);
        StepProofs.requireFacts(terms.stepRoot, facts);
        if (list.length == 0) revert NothingDemanded();
        _requireBelow("leaves", LEAVES_MAX + 1, list.length);
        for (uint256 i = 0; i < list.length; ++i) {
            LeafDemand calldata one = list[i];
            _demands[id][i] = StepProofs.demandOf(facts, one.node, one.place, one.leafIndex);
            emit LeafDemanded(task, id, i, one.node.number, one.place, one.leafIndex);
        }
        d.demanded = uint8(list.length);
        emit LeavesDue(task, id, _turnTo(d, Stage.LEAVES, terms.windows.respond));
    }

    /// @inheritdoc IDisputes
    function showLeaves(
        TaskId task,
        bytes32 id,
        StateHeader calldata start,
        IReferee.BufferOpening[] calldata openings
    ) external {
        (Dispute storage d,) = _claimantsTurn(task, id, Stage.LEAVES);
        StepProofs.requireHeader(d.origin, start);
        uint256 shown = d.shown;
        _requireBelow("leaves", d.demanded + 1, shown + openings.length);
        for (uint256 i = 0; i < openings.length; ++i) {
            StepProofs.requireAnswer(_demands[id][shown], d.result, start, openings[i]);
            emit LeafShown(task, id, shown++, openings[i].leaves);
        }
        d.shown = uint8(shown);
        if (shown == d.demanded) _turnTo(d, Stage.LAST, _terms(task).windows.respond);
    }

    // Proofs ----------------------------------------------------------------------------------------------------------
    /// @inheritdoc IDisputes
    function proveOperation(
        TaskId task,
        bytes32 id,
        StepFacts calldata facts,
        StateHeader calldata start,
        IReferee.NodeProof calldata node,
        uint256 element,
        bytes calldata openings
    ) external {
        (Dispute storage d,) = _provable(task, id, facts, start);
        IReferee.StepContext memory context = IReferee.StepContext(facts, start, d.result);
        if (!referee.judge(context, node, element, openings)) revert NoFault(element);
        _convict(task, id, d);
    }

    /// @inheritdoc IDisputes
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
        (Dispute storage d, GameTerms memory terms) = _provable(task, id, facts, start);
        unchecked {
            _requireBelow("datum", 3, buffer - StepProofs.TOKENS_BUFFER);
        }
        uint256 claimed = StepProofs.tracedElement(facts, d.result, buffer, position, opening);
        uint256 right;
        if (buffer == StepProofs.SCALARS_BUFFER) {
            right = StepProofs.scalarOf(facts, start, uint32(position), datum);
        } else {
            uint256 innerStep = uint256(d.segment) * terms.segmentSteps + d.step;
            uint256 place = _sampleStart(task, d, facts, innerStep, position / facts.sequenceTokens);
            place += position % facts.sequenceTokens + buffer - StepProofs.TOKENS_BUFFER;
            right = StepProofs.datasetToken(facts, place, datum);
        }
        if (claimed == right) revert NoFault(position);
        _convict(task, id, d);
    }

    /// @dev Whose data: the slot's shard, whether solver or auditor claims the step.
    function _sampleStart(
        TaskId task,
        Dispute storage d,
        StepFacts calldata facts,
        uint256 innerStep,
        uint256 row
    ) private view returns (uint256) {
        bytes32 beacon = rounds.beaconOf(task, d.round);
        uint256 seats = LibBit.popCount(RoundViews.load(rounds, task, d.round).pool);
        uint256 shard = Draw.shard(beacon, d.slot, seats);
        return Draw.sampleStart(beacon, shard, innerStep, row, facts.tokenCount, facts.sequenceTokens);
    }

    /// @dev A trace is posted, and the dispute not over.
    function _provable(TaskId task, bytes32 id, StepFacts calldata facts, StateHeader calldata start)
        private
        view
        returns (Dispute storage d, GameTerms memory terms)
    {
        Stage stage = _running(task, id).stage;
        if (stage < Stage.PROVE) revert IRefusals.WrongTurn(uint256(stage), uint256(Stage.PROVE));
        d = _openersTurn(task, id, stage);
        terms = _terms(task);
        StepProofs.requireFacts(terms.stepRoot, facts);
        StepProofs.requireHeader(d.origin, start);
    }

    // The end ---------------------------------------------------------------------------------------------------------
    /// @inheritdoc IDisputes
    function end(TaskId task, bytes32 id) external {
        Dispute storage d = _running(task, id);
        Seat memory record = _seatAt(task, d.seat);
        if (record.status == SeatStatus.CLOSED) return _close(task, id, d, Stage.MOOT, address(0));
        if (block.number <= d.clockBlock) revert IRefusals.NotLate(d.clockBlock, block.number);
        Stage stage = d.stage;
        if (stage == Stage.ROOTS || stage == Stage.TRACE || stage == Stage.LEAVES) _convict(task, id, d);
        else _close(task, id, d, Stage.CLEARED, record.account);
    }

    function _convict(TaskId task, bytes32 id, Dispute storage d) private {
        _close(task, id, d, Stage.CONVICTED, address(0));
        settlement.punish(task, d.seat, d.opener, Proof.DISPUTED, _refOf(d));
    }

    /// @param claimant gets half of the bond where the dispute is CLEARED; else it goes back
    function _close(TaskId task, bytes32 id, Dispute storage d, Stage outcome, address claimant) private {
        d.stage = outcome;
        emit DisputeEnded(task, id, outcome);
        if (outcome == Stage.CLEARED) _forfeitBond(task, d.seat, d.round, d.number, claimant);
        else _returnBond(task, d.seat, d.round, d.number, d.opener);
    }

    // Turns -----------------------------------------------------------------------------------------------------------
    function _running(TaskId task, bytes32 id) private view returns (Dispute storage d) {
        d = _disputes[task][id];
        if (d.stage == Stage.NONE || d.stage > Stage.LAST) revert IRefusals.NothingOpen(id);
    }

    /// @return d the dispute
    /// @return account of the accused seat
    function _onTurn(TaskId task, bytes32 id, Stage expected)
        private
        view
        returns (Dispute storage d, address account)
    {
        d = _running(task, id);
        if (d.stage != expected) revert IRefusals.WrongTurn(uint256(d.stage), uint256(expected));
        Seat memory record = _seatAt(task, d.seat);
        if (record.status == SeatStatus.CLOSED) revert IRefusals.SeatClosed(d.seat);
        _requireWindow(0, d.clockBlock);
        account = record.account;
    }

    function _claimantsTurn(TaskId task, bytes32 id, Stage expected)
        private
        view
        returns (Dispute storage d, address account)
    {
        (d, account) = _onTurn(task, id, expected);
        if (msg.sender != account) revert IRefusals.NotHolder(account, msg.sender);
    }

    function _openersTurn(TaskId task, bytes32 id, Stage expected) private view returns (Dispute storage d) {
        (d,) = _onTurn(task, id, expected);
        if (msg.sender != d.opener) revert NotOpener(d.opener, msg.sender);
    }

    function _turnTo(Dispute storage d, Stage stage, uint256 respond) private returns (uint256 clock) {
        clock = block.number + respond;
        (d.stage, d.clockBlock) = (stage, uint40(clock));
    }

    function _requireBound(bytes32 what, bytes32 expected, bytes32 actual) private pure {
        _requireBound(what, uint256(expected), uint256(actual));
    }

    function _requireBound(bytes32 what, uint256 expected, uint256 actual) private pure {
        if (expected != actual) revert NotBound(what, expected, actual);
    }

    function _requireBelow(bytes32 what, uint256 end_, uint256 actual) private pure {
        if (actual >= end_) revert NotBelow(what, end_, actual);
    }

    function _hashOf(bytes32[] calldata roots) private pure returns (bytes32) {
        return keccak256(abi.encodePacked(roots));
    }

    // The statement, packed -------------------------------------------------------------------------------------------
    /// @dev Rounds are at most 65,535 and slots 64; a draw is at most 20, a rank at most 2, a segment below 65,536.
    function _keepStatement(Dispute storage d, StatementRef memory ref, uint256 segment) private {
        (d.round, d.slot, d.rank) = (uint16(ref.round), uint8(ref.slot), uint8(ref.rank));
        (d.draw, d.segment) = (ref.draw == NO_DRAW ? CLAIM : uint8(ref.draw), uint16(segment));
    }

    function _refOf(Dispute storage d) private view returns (StatementRef memory) {
        return StatementRef(d.round, d.slot, d.draw == CLAIM ? NO_DRAW : d.draw, d.rank);
    }

    /// @inheritdoc IDisputes
    function disputeOf(TaskId task, bytes32 id)
        external
        view
        returns (Stage stage, uint256 clockBlock, uint256 step, bytes32 origin, bytes32 result, uint256 shown)
    {
        Dispute storage d = _disputes[task][id];
        return (d.stage, d.clockBlock, d.step, d.origin, d.result, d.shown);
    }
}
