// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BoundaryProof, EXACT_FORMAT, StateHeader, TaskId} from "../Types.sol";
import {Hashing} from "../libraries/Hashing.sol";
import {Statements} from "../libraries/Statements.sol";
import {DisputeTurns} from "./DisputeTurns.sol";
import {GameTerms, NO_DRAW, StatementRef} from "./GameTypes.sol";
import {SignedVote} from "./StatementTypes.sol";
import {IDisputes} from "./interfaces/IDisputes.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {Ballots} from "./libraries/Ballots.sol";

/// @title Opens a dispute of a claim or a vote, and narrows it down to one step.
/// @notice What does not bind cannot be posted, so there is nothing to prove about it: who cannot bind is silent.
abstract contract DisputeOpening is DisputeTurns, IDisputes {
    // Opening (11.3)
    /// @inheritdoc IDisputes
    function disputeClaim(
        TaskId task,
        uint256 round,
        uint256 slot,
        uint256 segment,
        uint256 bondLimitWei,
        bytes32 salt
    ) external returns (bytes32) {
        game.sync(task);
        Statement memory statement = _readClaim(task, round, slot);
        if (segment >= statement.claim.segments) revert IRefusals.StatementUnknown(round, slot);
        return _openDispute(task, statement, segment, 0, bondLimitWei, salt);
    }

    /// @inheritdoc IDisputes
    /// @dev Who was not served, or abstains, claims no state. The round of a vote is drawn (`_readBareVote`), so closed: it needs no `sync`.
    function disputeVote(TaskId task, SignedVote calldata signed, uint256 bondLimitWei, bytes32 salt)
        external
        returns (bytes32)
    {
        (Statement memory statement,) = _readBareVote(task, signed);
        if (signed.vote.word >= Statements.Word.UNSERVED) {
            revert IRefusals.StatementUnknown(statement.ref.round, statement.ref.slot);
        }
        address solver = _tasks[task].seatAt[statement.claim.seat].account;
        bytes32 said = _tasks[task].terms.format == EXACT_FORMAT ? _saidBy(signed.vote) : bytes32(0);
        bytes32 opening = _openingOf(signed.vote.startLeaf, signed.vote.seal, solver, said);
        return _openDispute(task, statement, signed.vote.segment, opening, bondLimitWei, salt);
    }

    function _openDispute(
        TaskId task,
        Statement memory statement,
        uint256 segment,
        bytes32 opening,
        uint256 bondLimitWei,
        bytes32 salt
    ) private returns (bytes32 id) {
        _requireAccused(statement);
        _requireWindow(0, _statementUntil(task, statement));
        _requireDecided(task, statement);
        id = keccak256(abi.encode(task, msg.sender, salt));
        Dispute storage dispute = _disputes[task][id];
        if (dispute.stage != Stage.NONE) revert DisputeExists(id);
        (dispute.stage, dispute.seat, dispute.opener) = (Stage.ROOTS, uint24(statement.seat), msg.sender);
        dispute.clockBlock = uint40(block.number + _tasks[task].terms.windows.respond);
        _keepStatement(dispute, statement.ref, segment);
        if (opening != 0) dispute.opening = opening;
        (uint256 number, uint256 bondWei) = _openQuestion(task, statement.seat, statement.ref.round, bondLimitWei);
        dispute.number = uint24(number);
        emit DisputeOpened(task, id, statement.seat, statement.ref, segment, msg.sender, bondWei, dispute.clockBlock);
    }

    /// @dev Nobody is disputed about a claim that votes may still decide, nor about a vote while other votes of its draw count: a reserve could copy what the
    /// accused auditor has to show.
    function _requireDecided(TaskId task, Statement memory statement) private view {
        GameTerms storage terms = _tasks[task].terms;
        StatementRef memory ref = statement.ref;
        Round storage round = _roundAt(task, ref.round);
        uint256 votesFor = 2 * uint256(terms.windows.auditMax);
        uint256 open = _openClaims(round, terms, _convictedSolvers(_tasks[task]), votesFor);
        bool isDecided = open >> ref.slot & 1 == 0;
        if (isDecided && ref.draw != NO_DRAW && block.number <= statement.from + votesFor) {
            (bool isAccepted, bool isFailed) = Ballots.statusOf(Ballots.ofIn(round.claims[ref.slot].votes, ref.draw));
            isDecided = isAccepted || isFailed;
        }
        if (!isDecided) revert IRefusals.ClaimUndecided(ref.round, ref.slot);
    }

    /// @dev The solver's account too: until the window ends it cannot have settled the round, but later its seat's number may be another's.
    function _openingOf(bytes32 startLeaf, bytes32 seal, address solver, bytes32 said)
        private
        pure
        returns (bytes32)
    {
        return keccak256(abi.encode(startLeaf, seal, solver, said));
    }

    /// @dev What a word says of both ends in an exact task: an ACCEPT that they are one state, a REJECT_STATE that they are two. 0: nothing.
    function _saidBy(Statements.Vote memory vote) private pure returns (bytes32) {
        bool isAccept = vote.word == Statements.Word.ACCEPT;
        if (!isAccept && vote.word != Statements.Word.REJECT_STATE) return 0;
        return _saidOf(isAccept, vote.endLeaf);
    }

    function _saidOf(bool isSame, bytes32 endLeaf) private pure returns (bytes32) {
        return keccak256(abi.encode(isSame, endLeaf));
    }

    // Roots (11.3)
    /// @inheritdoc IDisputes
    function postClaimRoots(
        TaskId task,
        bytes32 id,
        bytes32[] calldata roots,
        BoundaryProof calldata start,
        BoundaryProof calldata end_
    ) external {
        (Dispute storage dispute,) = _claimantsTurn(task, id, Stage.ROOTS);
        if (dispute.draw != CLAIM) revert IRefusals.StatementUnknown(dispute.round, dispute.slot);
        GameTerms storage terms = _termsOfRoots(task, roots);
        Claim memory claim = _claimOf(task, dispute.round, dispute.slot);
        _requireBound("start", _openBoundary(claim, dispute.segment, start), roots[0]);
        _requireBound("end", _openBoundary(claim, dispute.segment + 1, end_), roots[roots.length - 1]);
        _requirePlaced(dispute, terms, start.header);
        _keepRoots(task, id, dispute, roots, start.header, terms.windows.respond);
    }

    /// @inheritdoc IDisputes
    /// @dev The start is under the claim's root, or its auditor could choose one from which nothing moves. An honest auditor was shown its path before it
    /// sealed. The solver may have settled the round meanwhile: its account is the one that stood at the opening. In an exact task the end bears the word
    /// out: all steps of an honest replay are right, whatever its auditor says of the claim.
    function postVoteRoots(
        TaskId task,
        bytes32 id,
        bytes32[] calldata roots,
        address solver,
        BoundaryProof calldata start,
        BoundaryProof calldata end_,
        bytes32 sealSalt
    ) external {
        (Dispute storage dispute, address auditor) = _claimantsTurn(task, id, Stage.ROOTS);
        if (dispute.draw == CLAIM) revert IRefusals.StatementUnknown(dispute.round, dispute.slot);
        GameTerms storage terms = _termsOfRoots(task, roots);
        Claim memory claim = _bareClaimOf(task, dispute.round, dispute.slot);
        claim.account = solver;
        _requireBound("start", _openBoundary(claim, dispute.segment, start), roots[0]);
        _requirePlaced(dispute, terms, start.header);
        Statements.Vote memory vote;
        (vote.domain, vote.round, vote.slot) = (claim.domain, dispute.round, dispute.slot);
        (vote.draw, vote.rank) = (dispute.draw, dispute.rank);
        vote.startLeaf = Hashing.boundaryLeaf(vote.domain, dispute.round, solver, dispute.segment, start.salt, roots[0]);
        bytes32 seal = Statements.sealOf(vote, auditor, roots[roots.length - 1], sealSalt);
        // `opening` was kept with 0 where the word says nothing of the two ends: so 0 is tried first. Else they must bear the word out.
        bool isSaid = terms.format == EXACT_FORMAT && dispute.opening != _openingOf(vote.startLeaf, seal, solver, 0);
        bytes32 said = isSaid ? _saidIn(claim, dispute.segment, end_, roots[roots.length - 1]) : bytes32(0);
        _requireBound("vote", dispute.opening, _openingOf(vote.startLeaf, seal, solver, said));
        _keepRoots(task, id, dispute, roots, start.header, terms.windows.respond);
    }

    /// @dev What can be said of the claim's end and an own one.
    function _saidIn(Claim memory claim, uint256 segment, BoundaryProof calldata end_, bytes32 own)
        private
        pure
        returns (bytes32)
    {
        bytes32 root = _openBoundary(claim, segment + 1, end_);
        bytes32 leaf = Hashing.boundaryLeaf(
            claim.domain, claim.round, claim.account, uint32(segment + 1), end_.salt, root
        );
        return _saidOf(root == own, leaf);
    }

    /// @dev The terms, if there is a root for each state of a segment.
    function _termsOfRoots(TaskId task, bytes32[] calldata roots) private view returns (GameTerms storage terms) {
        terms = _tasks[task].terms;
        _requireBound("count", terms.segmentSteps + 1, roots.length);
    }

    /// @dev For step numbers of another place no data are assigned and no learning rate is given: what follows could not be proven wrong. More local steps
    /// than global ones are none of any place.
    function _requirePlaced(Dispute storage dispute, GameTerms storage terms, StateHeader calldata start)
        private
        view
    {
        uint256 global = uint256(dispute.round) * terms.innerSteps + uint256(dispute.segment) * terms.segmentSteps;
        _requireSteps(start, start.localStep < global ? start.localStep : global, global);
    }

    function _keepRoots(
        TaskId task,
        bytes32 id,
        Dispute storage dispute,
        bytes32[] calldata roots,
        StateHeader calldata start,
        uint256 respond
    ) private {
        dispute.rootsHash = _hashOf(roots);
        (dispute.localStep, dispute.globalStep) = (start.localStep, start.globalStep);
        emit StepRootsPosted(task, id, roots, _turnTo(dispute, Stage.NAME, respond));
    }

    /// @inheritdoc IDisputes
    function nameStep(TaskId task, bytes32 id, uint256 step, bytes32[] calldata roots) external {
        Dispute storage dispute = _openersTurn(task, id, Stage.NAME);
        _requireBound("roots", dispute.rootsHash, _hashOf(roots));
        _requireBelow("step", roots.length - 1, step);
        (dispute.startRoot, dispute.endRoot, dispute.step) = (roots[step], roots[step + 1], uint8(step));
        emit StepNamed(task, id, step, _turnTo(dispute, Stage.TRACE, _tasks[task].terms.windows.respond));
    }
}
