// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {
    AuditRef,
    AuditStatus,
    BoundaryProof,
    ClaimRef,
    ClaimStatus,
    DisputeId,
    LeafProof,
    StateHeader,
    StepFacts,
    TaskId
} from "../../contracts/Types.sol";
import {IDisputeGame} from "../../contracts/interfaces/IDisputeGame.sol";
import {IStepProofs} from "../../contracts/interfaces/IStepProofs.sol";
import {IReferee} from "../../contracts/interfaces/IReferee.sol";
import {IRoundLedger} from "../../contracts/interfaces/IRoundLedger.sol";
import {IStakeVault} from "../../contracts/interfaces/IStakeVault.sol";
import {Hashing} from "../../contracts/libraries/Hashing.sol";
import {StepWorld} from "./StepWorld.sol";
import {Trees} from "./Trees.sol";

/// @title Disputes: every move, every clock with the party silent, and who pays for what.
contract DisputeGameTest is StepWorld {
    bytes32 private constant SALT = "opening salt";
    uint256 private constant BOND = 40;
    /// @dev The referee of these tests looks at nothing but whether they are the expected ones.
    bytes private constant OPENINGS = "openings";
    uint32 private constant MIDDLE = 1;
    /// @dev A node's output, and its first operand.
    uint32 private constant OUTPUT = 0;
    uint32 private constant FIRST = 1;
    uint32 private constant SECOND = 2;
    /// @dev What a cheat adds to the local step of its middle step state.
    uint32 private _shift;
    /// @dev What the claimant posts of the named step.
    Trace private _trace;
    bytes private _error;

    struct Trace {
        StepFacts facts;
        bytes32 root;
        StateHeader start;
        StateHeader end;
        IStepProofs.TraceProof proof;
    }

    // D1: open ----------------------------------------------------------------------------------------------------
    function test_openDispute_notSealed_reverts() public {
        playToDraw();
        ClaimRef memory claim = solverClaim(0);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.NotSealed.selector, _sealOf(claim, stranger)));
        vm.prank(stranger);
        disputes.openDispute(claim, SALT);
    }

    function test_openDispute_sameBlock_reverts() public {
        playToDraw();
        ClaimRef memory claim = solverClaim(0);
        disputes.sealOpening(_sealOf(claim, stranger));
        expectError(IDisputeGame.SealTooYoung.selector);
        vm.prank(stranger);
        disputes.openDispute(claim, SALT);
    }

    /// @dev Whoever sees the opening in the pool has no seal of its own.
    function test_openDispute_frontRun_reverts() public {
        playToDraw();
        ClaimRef memory claim = solverClaim(0);
        disputes.sealOpening(_sealOf(claim, stranger));
        rollTo(vm.getBlockNumber() + 1);
        vm.expectRevert(
            abi.encodeWithSelector(IDisputeGame.NotSealed.selector, _sealOf(claim, whistleblowers[0]))
        );
        vm.prank(whistleblowers[0]);
        disputes.openDispute(claim, SALT);
    }

    /// @dev Sealing the same hash again does not make it younger.
    function test_sealOpening_again_keepsAge_succeeds() public {
        playToDraw();
        ClaimRef memory claim = solverClaim(0);
        disputes.sealOpening(_sealOf(claim, stranger));
        rollTo(vm.getBlockNumber() + 1);
        disputes.sealOpening(_sealOf(claim, stranger));
        vm.prank(stranger);
        disputes.openDispute(claim, SALT);
    }

    function test_openDispute_twice_reverts() public {
        playToDraw();
        DisputeId id = open(stranger, solverClaim(0), SALT);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.DisputeExists.selector, id));
        vm.prank(stranger);
        disputes.openDispute(solverClaim(0), SALT);
    }

    function test_openDispute_ownClaim_reverts() public {
        playToDraw();
        _sealAndExpect(solvers[0], solverClaim(0), IDisputeGame.OwnClaim.selector);
    }

    function test_openDispute_uncommitted_reverts() public {
        playToTrain(1);
        _sealAndExpect(stranger, solverClaim(0), IDisputeGame.ClaimNotDisputable.selector);
        rollTo(deadlines().trainEnd);
        ledger.judge(task, round, 0);
        _sealAndExpect(stranger, solverClaim(0), IDisputeGame.ClaimNotDisputable.selector);
    }

    function test_openDispute_unknownSegment_reverts() public {
        playToDraw();
        _sealAndExpect(stranger, solverClaim(2), IDisputeGame.ClaimNotDisputable.selector);
    }

    /// @dev A solver's claim has one name: no second dispute on it under another draw or rank.
    function test_openDispute_aliasOfSolverClaim_reverts() public {
        playToDraw();
        ClaimRef memory claim = solverClaim(0);
        claim.audit.rank = 1;
        _sealAndExpect(stranger, claim, IDisputeGame.ClaimNotDisputable.selector);
    }

    function test_openDispute_auditNotRevealed_reverts() public {
        playToStart();
        commitReplay(refOf(0, 0, 0), endState(refOf(0, 0, 0)));
        _sealAndExpect(stranger, auditClaim(), IDisputeGame.ClaimNotDisputable.selector);
    }

    function test_openDispute_otherSegmentOfAudit_reverts() public {
        playToShow(FAR);
        ClaimRef memory claim = auditClaim();
        claim.segment = 1 - claim.segment;
        _sealAndExpect(stranger, claim, IDisputeGame.ClaimNotDisputable.selector);
    }

    function test_openDispute_windowClosed_reverts() public {
        playToMerged();
        rollTo(ledger.settleBlockOf(task, round) - 1);
        _sealAndExpect(stranger, solverClaim(0), IDisputeGame.DisputeWindowClosed.selector);
    }

    function test_openDispute_tooLittleStake_reverts() public {
        playToDraw();
        address poor = actor("poor");
        _sealAndExpect(poor, solverClaim(0), IStakeVault.TooLittleStake.selector);
    }

    function test_openDispute_voidClaim_succeeds() public {
        playToDraw();
        rollTo(deadlines().startEnd);
        ledger.judge(task, round, 0);
        assertStatus(0, ClaimStatus.VOID);
        DisputeId id = open(stranger, solverClaim(0), SALT);
        rollTo(_clockOf(id));
        disputes.timeout(id);
        assertStatus(0, ClaimStatus.CONVICTED);
    }

    // D1: roots ---------------------------------------------------------------------------------------------------
    function test_postStepRoots_notClaimant_reverts() public {
        DisputeId id = _openOnSolver();
        bytes32[] memory roots = stepRoots();
        BoundaryProof[] memory ends = boundaryEnds();
        expectError(IDisputeGame.NotClaimant.selector);
        vm.prank(stranger);
        disputes.postStepRoots(id, roots, ends);
    }

    function test_postStepRoots_wrongCount_reverts() public {
        DisputeId id = _openOnSolver();
        BoundaryProof[] memory ends = boundaryEnds();
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongRootCount.selector, 3, 2));
        vm.prank(solvers[0]);
        disputes.postStepRoots(id, new bytes32[](2), ends);
    }

    function test_postStepRoots_solverWithoutBoundaries_reverts() public {
        DisputeId id = _openOnSolver();
        bytes32[] memory roots = stepRoots();
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongRootCount.selector, 2, 0));
        vm.prank(solvers[0]);
        disputes.postStepRoots(id, roots, new BoundaryProof[](0));
    }

    function test_postStepRoots_otherEndpoint_reverts() public {
        DisputeId id = _openOnSolver();
        BoundaryProof[] memory ends = boundaryEnds();
        for (uint32 end = 0; end < 2; ++end) {
            bytes32[] memory roots = stepRoots();
            bytes32 expected = roots[2 * end];
            roots[2 * end] = "elsewhere";
            vm.expectRevert(
                abi.encodeWithSelector(
                    IDisputeGame.EndpointMismatch.selector, 2 * end, expected, roots[2 * end]
                )
            );
            vm.prank(solvers[0]);
            disputes.postStepRoots(id, roots, ends);
        }
    }

    function test_postStepRoots_otherBoundaries_reverts() public {
        DisputeId id = _openOnSolver();
        bytes32[] memory roots = stepRoots();
        BoundaryProof[] memory ends = boundaryEnds();
        ends[1] = boundaryProof(0, 2);
        expectError(IRoundLedger.BoundaryMismatch.selector);
        vm.prank(solvers[0]);
        disputes.postStepRoots(id, roots, ends);
    }

    function test_postStepRoots_tooLate_reverts() public {
        DisputeId id = _openOnSolver();
        rollTo(_clockOf(id));
        bytes32[] memory roots = stepRoots();
        BoundaryProof[] memory ends = boundaryEnds();
        expectError(IDisputeGame.ClockOver.selector);
        vm.prank(solvers[0]);
        disputes.postStepRoots(id, roots, ends);
    }

    function test_postStepRoots_twice_reverts() public {
        DisputeId id = _playToName();
        bytes32[] memory roots = stepRoots();
        BoundaryProof[] memory ends = boundaryEnds();
        expectError(IDisputeGame.WrongStage.selector);
        vm.prank(solvers[0]);
        disputes.postStepRoots(id, roots, ends);
    }

    // Clocks, with the party silent -------------------------------------------------------------------------------
    function test_timeout_clockRunning_reverts() public {
        DisputeId id = _openOnSolver();
        rollTo(_clockOf(id) - 1);
        expectError(IDisputeGame.ClockRunning.selector);
        disputes.timeout(id);
    }

    function test_timeout_claimantSilent_convicts_succeeds() public {
        DisputeId id = _openOnSolver();
        assertEq(vault.lockedOf(stranger), BOND, "bond");
        rollTo(_clockOf(id));
        disputes.timeout(id);
        assertStage(id, IDisputeGame.Stage.CONVICTED);
        assertStatus(0, ClaimStatus.CONVICTED);
        assertEq(lossOf(solvers[0]), 1000, "the whole stake");
        assertEq(vault.creditOf(stranger), 250, "the opener is the finder");
        assertWhole(stranger);
        settleAll();
        assertAllFree();
    }

    function test_timeout_openerSilent_closes_succeeds() public {
        DisputeId id = _playToName();
        rollTo(_clockOf(id));
        disputes.timeout(id);
        _assertClosed(id);
    }

    function test_timeout_noTrace_convicts_succeeds() public {
        DisputeId id = _playToTrace();
        assertEq(_clockOf(id), vm.getBlockNumber() + terms.windows.respond, "time to recompute the step");
        rollTo(_clockOf(id));
        disputes.timeout(id);
        assertStage(id, IDisputeGame.Stage.CONVICTED);
        assertEq(lossOf(solvers[0]), 1000, "silent");
        assertWhole(stranger);
    }

    function test_timeout_demandUnanswered_convicts_succeeds() public {
        DisputeId id = _playToProve();
        demand(id, stranger, 0, OUTPUT, 0);
        rollTo(_clockOf(id));
        disputes.timeout(id);
        assertStage(id, IDisputeGame.Stage.CONVICTED);
        assertEq(lossOf(solvers[0]), 1000, "withheld");
        assertEq(lossOf(stranger), 3, "only the prepaid demand");
    }

    function test_timeout_proveOver_closes_succeeds() public {
        DisputeId id = _playToProve();
        rollTo(_clockOf(id));
        disputes.timeout(id);
        _assertClosed(id);
    }

    function test_timeout_queued_reverts() public {
        _openOnSolver();
        DisputeId second = open(whistleblowers[0], solverClaim(1), SALT);
        expectError(IDisputeGame.WrongStage.selector);
        disputes.timeout(second);
    }

    function test_timeout_ended_reverts() public {
        DisputeId id = _openOnSolver();
        rollTo(_clockOf(id));
        disputes.timeout(id);
        expectError(IDisputeGame.WrongStage.selector);
        disputes.timeout(id);
    }

    /// @dev The prove clock is over, but an open demand still has its own.
    function test_timeout_demandStillOpen_reverts() public {
        DisputeId id = _playToProve();
        rollTo(_clockOf(id) - 1);
        demand(id, stranger, 0, OUTPUT, 0);
        rollTo(vm.getBlockNumber() + 1);
        expectError(IDisputeGame.ClockRunning.selector);
        disputes.timeout(id);
    }

    // D2 ----------------------------------------------------------------------------------------------------------
    function test_nameStep_notOpener_reverts() public {
        DisputeId id = _playToName();
        bytes32[] memory roots = stepRoots();
        expectError(IDisputeGame.NotOpener.selector);
        vm.prank(whistleblowers[0]);
        disputes.nameStep(id, 0, roots);
    }

    function test_nameStep_unknownStep_reverts() public {
        DisputeId id = _playToName();
        bytes32[] memory roots = stepRoots();
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.StepUnknown.selector, 2, 2));
        vm.prank(stranger);
        disputes.nameStep(id, 2, roots);
    }

    function test_nameStep_otherRoots_reverts() public {
        DisputeId id = _playToName();
        bytes32[] memory roots = stepRoots();
        roots[MIDDLE] = "mine";
        expectError(IDisputeGame.RootsMismatch.selector);
        vm.prank(stranger);
        disputes.nameStep(id, 0, roots);
    }

    function test_nameStep_tooLate_reverts() public {
        DisputeId id = _playToName();
        rollTo(_clockOf(id));
        bytes32[] memory roots = stepRoots();
        expectError(IDisputeGame.ClockOver.selector);
        vm.prank(stranger);
        disputes.nameStep(id, 0, roots);
    }

    // D2: the trace -----------------------------------------------------------------------------------------------
    function test_postTrace_opensProofs_succeeds() public {
        DisputeId id = _playToTrace();
        (,, bytes32 none) = disputes.traceOf(id);
        assertEq(none, 0, "no trace yet");
        postTrace(id, solvers[0]);
        assertStage(id, IDisputeGame.Stage.PROVE);
        assertEq(_clockOf(id), vm.getBlockNumber() + terms.windows.prove, "prove");
        (uint32 step, bytes32 startRoot, bytes32 traceRoot) = disputes.traceOf(id);
        assertEq(step, STEP, "step");
        assertEq(startRoot, stepRoots()[STEP], "start");
        assertEq(traceRoot, Trees.root(traceRoots()), "trace");
    }

    function test_postTrace_notClaimant_reverts() public {
        DisputeId id = _playToTrace();
        _tryTrace(id, stranger, IDisputeGame.NotClaimant.selector);
    }

    function test_postTrace_tooLate_reverts() public {
        DisputeId id = _playToTrace();
        rollTo(_clockOf(id));
        _tryTrace(id, solvers[0], IDisputeGame.ClockOver.selector);
    }

    function test_postTrace_twice_reverts() public {
        DisputeId id = _playToProve();
        _tryTrace(id, solvers[0], IDisputeGame.WrongStage.selector);
    }

    function test_postTrace_unnamed_reverts() public {
        DisputeId id = _playToName();
        _makeTrace(STEP);
        _tryTrace(id, solvers[0], IDisputeGame.WrongStage.selector);
    }

    function test_postTrace_otherFacts_reverts() public {
        DisputeId id = _playToTrace();
        _trace.facts.programNodes += 1;
        _tryTrace(id, solvers[0], IStepProofs.FactsMismatch.selector);
    }

    function test_postTrace_otherStates_reverts() public {
        DisputeId id = _playToTrace();
        _trace.start.globalStep += 1;
        _tryTrace(id, solvers[0], IStepProofs.HeaderMismatch.selector);
        _trace.start.globalStep -= 1;
        _trace.end.weightsRoot = "other";
        _tryTrace(id, solvers[0], IStepProofs.HeaderMismatch.selector);
    }

    function test_postTrace_otherHead_reverts() public {
        DisputeId id = _playToTrace();
        bytes memory head = _trace.proof.head;
        // Another buffer for the new weights; then a shorter head.
        head[42] = 0x07;
        _trace.proof.head = head;
        _tryTrace(id, solvers[0], IStepProofs.HeadMismatch.selector);
        _trace.proof.head = "";
        _tryTrace(id, solvers[0], IStepProofs.HeadMismatch.selector);
    }

    /// @dev A trace that does not end in the claimed state cannot be posted.
    function test_postTrace_otherOutput_reverts() public {
        DisputeId id = _playToTrace();
        for (uint8 tensor = 0; tensor < 3; ++tensor) {
            bytes32[] memory roots = traceRoots();
            roots[NEW_WEIGHTS + tensor] = "what was really computed";
            _trace.root = Trees.root(roots);
            _trace.proof.weightsPath = Trees.path(roots, 8);
            _trace.proof.firstMomentPath = Trees.path(roots, 9);
            _trace.proof.secondMomentPath = Trees.path(roots, 10);
            vm.expectRevert(
                abi.encodeWithSelector(IStepProofs.OutputMismatch.selector, tensor, NEW_WEIGHTS + tensor)
            );
            _sendTrace(id, solvers[0]);
        }
    }

    /// @dev A state whose step numbers are not the claim's has no trace, at either end of the step: silence convicts.
    function test_postTrace_wrongSteps_reverts() public {
        _shift = 5;
        DisputeId id = _playToTrace();
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongSteps.selector, 1, 6, 1, 1));
        _sendTrace(id, solvers[0]);
        rollTo(_clockOf(id));
        disputes.timeout(id);
        assertStatus(0, ClaimStatus.CONVICTED);
    }

    function test_postTrace_wrongStepsAfter_reverts() public {
        _shift = 5;
        DisputeId id = _playToName();
        nameStep(id, 0);
        _makeTrace(0);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongSteps.selector, 1, 6, 1, 1));
        _sendTrace(id, solvers[0]);
    }

    // D3: demands -------------------------------------------------------------------------------------------------
    function test_answerDemand_extendsProve_succeeds() public {
        DisputeId id = _playToProve();
        uint256 proveEnd = _clockOf(id);
        demand(id, stranger, 0, OUTPUT, 1);
        answer(id, 0, TENSOR, 1);
        assertEq(_clockOf(id), proveEnd + terms.windows.respond, "one respond longer");
        assertEq(vault.creditOf(solvers[0]), 3, "prepaid");
        rollTo(_clockOf(id));
        disputes.timeout(id);
        assertStage(id, IDisputeGame.Stage.CLOSED);
    }

    /// @dev Whoever has the last word leaves the other at least one `respond`.
    function test_answerDemand_lateAnswer_leavesTime_succeeds() public {
        DisputeId id = _playToProve();
        rollTo(_clockOf(id) - 1);
        demand(id, stranger, 0, OUTPUT, 0);
        rollTo(_clockOf(id) - 1);
        answer(id, 0, TENSOR, 0);
        assertEq(_clockOf(id), vm.getBlockNumber() + terms.windows.respond, "time to look at it");
    }

    /// @dev Inputs of the step as well as what it computed: state, data, and a place behind a constant's root.
    function test_answerDemand_everyKindOfBuffer_succeeds() public {
        DisputeId id = _playToProve();
        demand(id, stranger, 0, FIRST, 1);
        demand(id, stranger, 1, FIRST, 1);
        demand(id, stranger, 2, SECOND, 0);
        demand(id, stranger, 2, OUTPUT, 0);
        answer(id, 0, 0, 1);
        answer(id, 1, TOKENS, 1);
        answer(id, 2, 2, 0);
        answer(id, 3, 11, 0);
    }

    function test_answerDemand_inTurn_succeeds() public {
        DisputeId id = _playToProve();
        demand(id, stranger, 0, OUTPUT, 0);
        demand(id, whistleblowers[0], 0, OUTPUT, 2);
        _tryAnswer(id, 1, TENSOR, 2, IDisputeGame.DemandUnknown.selector);
        uint256 clock = _clockOf(id);
        rollTo(clock - 1);
        answer(id, 0, TENSOR, 0);
        assertEq(_clockOf(id), clock - 1 + terms.windows.respond, "the second one's clock starts at its turn");
        answer(id, 1, TENSOR, 2);
        (uint32 made, uint32 answered, uint256 open_) = disputes.demandsOf(id);
        assertEq(made, answered, "all answered");
        assertEq(open_, 0, "no clock");
        _tryAnswer(id, 2, TENSOR, 0, IDisputeGame.DemandUnknown.selector);
    }

    function test_answerDemand_tooLate_reverts() public {
        DisputeId id = _playToProve();
        demand(id, stranger, 0, OUTPUT, 0);
        rollTo(_clockOf(id));
        _tryAnswer(id, 0, TENSOR, 0, IDisputeGame.ClockOver.selector);
    }

    function test_answerDemand_otherLeaf_reverts() public {
        DisputeId id = _playToProve();
        demand(id, stranger, 0, OUTPUT, 0);
        _tryAnswer(id, 0, TENSOR, 1, IStepProofs.LeafMismatch.selector);
    }

    function test_answerDemand_otherBuffer_reverts() public {
        DisputeId id = _playToProve();
        demand(id, stranger, 0, OUTPUT, 0);
        _tryAnswer(id, 0, TOKENS, 0, IReferee.BufferMismatch.selector);
    }

    function test_answerDemand_otherLength_reverts() public {
        DisputeId id = _playToProve();
        demand(id, stranger, 0, FIRST, 0);
        _tryAnswer(id, 0, TENSOR, 0, IReferee.WrongLeafBytes.selector);
    }

    function test_answerDemand_otherState_reverts() public {
        DisputeId id = _playToProve();
        demand(id, stranger, 0, FIRST, 0);
        IReferee.BufferOpening memory opening = openBuffer(0, 0);
        StateHeader memory after_ = headerOf(stepState(2));
        expectError(IStepProofs.HeaderMismatch.selector);
        vm.prank(solvers[0]);
        disputes.answerDemand(id, 0, after_, opening);
    }

    function test_answerDemand_notClaimant_reverts() public {
        DisputeId id = _playToProve();
        demand(id, stranger, 0, OUTPUT, 0);
        IReferee.BufferOpening memory opening = openBuffer(TENSOR, 0);
        StateHeader memory start = headerOf(stepState(1));
        expectError(IDisputeGame.NotClaimant.selector);
        vm.prank(stranger);
        disputes.answerDemand(id, 0, start, opening);
    }

    function test_demandLeaf_ninth_reverts() public {
        DisputeId id = _playToProve();
        for (uint256 i = 0; i < disputes.MAX_DEMANDS_EACH(); ++i) {
            demand(id, stranger, 0, OUTPUT, 0);
        }
        refuseNext(abi.encodeWithSelector(IDisputeGame.TooManyDemands.selector, stranger, 8));
        demand(id, stranger, 0, OUTPUT, 0);
    }

    /// @dev Strangers cannot stretch a dispute without end, nor use up the opener's own demands.
    function test_demandLeaf_crowd_reverts() public {
        DisputeId id = _playToProve();
        for (uint256 i = 0; i < disputes.MAX_DEMANDS_OTHERS(); ++i) {
            demand(id, verifiers[i / 8], 0, OUTPUT, 0);
        }
        refuseNext(abi.encodePacked(IDisputeGame.TooManyDemands.selector));
        demand(id, whistleblowers[0], 0, OUTPUT, 0);
        demand(id, stranger, 0, OUTPUT, 0);
    }

    function test_demandLeaf_byClaimant_reverts() public {
        DisputeId id = _playToProve();
        refuseNext(abi.encodePacked(IDisputeGame.OwnClaim.selector));
        demand(id, solvers[0], 0, OUTPUT, 0);
    }

    function test_demandLeaf_unknown_reverts() public {
        DisputeId id = _playToProve();
        refuseNext(abi.encodeWithSelector(IStepProofs.PlaceUnknown.selector, 3, 2));
        demand(id, stranger, 0, 3, 0);
        refuseNext(abi.encodeWithSelector(IStepProofs.ConstantDemanded.selector, 6));
        demand(id, stranger, 0, SECOND, 0);
        refuseNext(abi.encodeWithSelector(IStepProofs.LeafUnknown.selector, 3, 3));
        demand(id, stranger, 0, OUTPUT, 3);
        refuseNext(abi.encodeWithSelector(IStepProofs.LeafUnknown.selector, 2, 2));
        demand(id, stranger, 0, FIRST, 2);
    }

    function test_demandLeaf_otherNode_reverts() public {
        DisputeId id = _playToProve();
        IReferee.NodeProof memory node = proveNode(1);
        node.number = 0;
        StepFacts memory facts = stepFacts();
        expectError(IReferee.NodeMismatch.selector);
        vm.prank(stranger);
        disputes.demandLeaf(id, facts, node, OUTPUT, 0);
    }

    function test_demandLeaf_otherFacts_reverts() public {
        DisputeId id = _playToProve();
        IReferee.NodeProof memory node = proveNode(0);
        StepFacts memory facts = stepFacts();
        facts.programBuffers = 1;
        expectError(IStepProofs.FactsMismatch.selector);
        vm.prank(stranger);
        disputes.demandLeaf(id, facts, node, OUTPUT, 0);
    }

    function test_demandLeaf_untraced_reverts() public {
        DisputeId id = _playToTrace();
        refuseNext(abi.encodePacked(IDisputeGame.WrongStage.selector));
        demand(id, stranger, 0, OUTPUT, 0);
    }

    function test_demandLeaf_proveOver_reverts() public {
        DisputeId id = _playToProve();
        rollTo(_clockOf(id));
        refuseNext(abi.encodePacked(IDisputeGame.ClockOver.selector));
        demand(id, stranger, 0, OUTPUT, 0);
    }

    // D3: operations ----------------------------------------------------------------------------------------------
    function test_proveOperation_withinBound_reverts() public {
        DisputeId id = _playToProve();
        _expectFault(7);
        refuseNext(abi.encodeWithSelector(IDisputeGame.NoFault.selector, 8));
        _proveOperation(id, stranger, 8);
    }

    function test_proveOperation_otherState_reverts() public {
        DisputeId id = _playToProve();
        (StepFacts memory facts, StateHeader memory end) = (stepFacts(), headerOf(stepState(2)));
        IReferee.NodeProof memory node = proveNode(0);
        expectError(IStepProofs.HeaderMismatch.selector);
        disputes.proveOperation(id, facts, end, node, 7, OPENINGS);
    }

    function test_proveOperation_otherFacts_reverts() public {
        DisputeId id = _playToProve();
        _expectFault(7);
        _trace.facts.numericFormat = 2;
        refuseNext(abi.encodePacked(IStepProofs.FactsMismatch.selector));
        _proveOperation(id, stranger, 7);
    }

    /// @dev A copied proof redirects nothing while the dispute is active.
    function test_proveOperation_frontRun_paysOpener_succeeds() public {
        DisputeId id = _playToProve();
        _expectFault(7);
        _proveOperation(id, whistleblowers[0], 7);
        assertStage(id, IDisputeGame.Stage.CONVICTED);
        assertEq(vault.creditOf(stranger), 250, "opener");
        assertEq(vault.creditOf(whistleblowers[0]), 0, "not the copier");
        assertWhole(stranger);
        assertEq(disputes.openCount(_task(), round, 0), 0, "none open");
    }

    /// @dev Closed is not acquitted.
    function test_proveOperation_afterClose_succeeds() public {
        DisputeId id = _playToProve();
        rollTo(_clockOf(id));
        disputes.timeout(id);
        _expectFault(7);
        _proveOperation(id, whistleblowers[0], 7);
        assertStatus(0, ClaimStatus.CONVICTED);
        assertEq(vault.creditOf(whistleblowers[0]), 250, "now the prover is the finder");
        refuseNext(abi.encodePacked(IDisputeGame.WrongStage.selector));
        _proveOperation(id, whistleblowers[0], 7);
        settleAll();
        assertAllFree();
    }

    function test_proveOperation_afterSettlement_reverts() public {
        DisputeId id = _playToProve();
        rollTo(_clockOf(id));
        disputes.timeout(id);
        settleAll();
        _expectFault(7);
        refuseNext(abi.encodePacked(IDisputeGame.ClaimNotDisputable.selector));
        _proveOperation(id, stranger, 7);
    }

    function test_proveOperation_convictedOtherwise_reverts() public {
        DisputeId id = _playToProve();
        vm.prank(address(contest));
        ledger.convictSolver(task, round, 0, address(0), "test");
        _expectFault(7);
        refuseNext(abi.encodePacked(IDisputeGame.ClaimNotDisputable.selector));
        _proveOperation(id, stranger, 7);
    }

    /// @dev Before the trace there is nothing to prove on; nor where the opener named no step and the dispute was closed.
    function test_proveOperation_untraced_reverts() public {
        DisputeId id = _playToName();
        _makeTrace(STEP);
        _expectFault(7);
        refuseNext(abi.encodePacked(IDisputeGame.WrongStage.selector));
        _proveOperation(id, stranger, 7);
        rollTo(_clockOf(id));
        disputes.timeout(id);
        refuseNext(abi.encodePacked(IDisputeGame.WrongStage.selector));
        _proveOperation(id, stranger, 7);
    }

    // D3: data ----------------------------------------------------------------------------------------------------
    function test_proveToken_rightToken_reverts() public {
        DisputeId id = _playToProve();
        for (uint32 i = 0; i < 2; ++i) {
            refuseNext(abi.encodeWithSelector(IDisputeGame.NoFault.selector, 3));
            _proveToken(id, i == 1, 3, 0);
            refuseNext(abi.encodeWithSelector(IDisputeGame.NoFault.selector, POSITIONS - 1));
            _proveToken(id, i == 1, POSITIONS - 1, 0);
        }
    }

    /// @dev In the second row and the second leaf.
    function test_proveToken_wrongToken_convicts_succeeds() public {
        (_lieBuffer, _lieElement, _lie) = (TOKENS, 130, 1);
        DisputeId id = _playToProve();
        _proveToken(id, false, 130, 0);
        assertStatus(0, ClaimStatus.CONVICTED);
        assertEq(vault.creditOf(stranger), 250, "the opener is the finder");
    }

    function test_proveToken_wrongLabel_convicts_succeeds() public {
        (_lieBuffer, _lieElement, _lie) = (LABELS, 0, 1 << 16);
        DisputeId id = _playToProve();
        _proveToken(id, true, 0, 0);
        assertStatus(0, ClaimStatus.CONVICTED);
    }

    /// @dev Another place of the dataset proves nothing.
    function test_proveToken_otherLeaf_reverts() public {
        DisputeId id = _playToProve();
        refuseNext(abi.encodePacked(IStepProofs.LeafMismatch.selector));
        _proveToken(id, false, 0, 600);
    }

    function test_proveToken_otherTrace_reverts() public {
        DisputeId id = _playToProve();
        (_lieBuffer, _lieElement, _lie) = (TOKENS, 3, 1);
        refuseNext(abi.encodePacked(IReferee.BufferMismatch.selector));
        _proveToken(id, false, 3, 0);
    }

    /// @dev A label in place of a token, each proven under the trace.
    function test_proveToken_otherBuffer_reverts() public {
        DisputeId id = _playToProve();
        StepFacts memory facts = stepFacts();
        IReferee.BufferOpening memory opening = openBuffer(LABELS, 0);
        LeafProof memory leaf = proveToken(rowStart(0));
        expectError(IReferee.BufferMismatch.selector);
        disputes.proveToken(id, facts, false, 0, opening, leaf);
    }

    /// @dev The buffer is the trace's, its leaf is not.
    function test_proveToken_forgedLeaf_reverts() public {
        DisputeId id = _playToProve();
        StepFacts memory facts = stepFacts();
        IReferee.BufferOpening memory opening = openBuffer(TOKENS, 0);
        opening.leaves[0] ^= 0x01;
        LeafProof memory leaf = proveToken(rowStart(0));
        vm.expectRevert(abi.encodeWithSelector(IStepProofs.LeafMismatch.selector, opening.root, 0));
        disputes.proveToken(id, facts, false, 0, opening, leaf);
    }

    function test_proveToken_unknownPosition_reverts() public {
        DisputeId id = _playToProve();
        StepFacts memory facts = stepFacts();
        IReferee.BufferOpening memory opening = openBuffer(TOKENS, 1);
        LeafProof memory leaf = proveToken(0);
        vm.expectRevert(abi.encodeWithSelector(IStepProofs.LeafUnknown.selector, POSITIONS, POSITIONS));
        disputes.proveToken(id, facts, false, POSITIONS, opening, leaf);
        opening.leaves = "abc";
        expectError(IReferee.WrongLeafBytes.selector);
        disputes.proveToken(id, facts, false, 0, opening, leaf);
    }

    function test_proveToken_untraced_reverts() public {
        DisputeId id = _playToTrace();
        refuseNext(abi.encodePacked(IDisputeGame.WrongStage.selector));
        _proveToken(id, false, 0, 0);
    }

    function test_proveScalar_rightScalars_reverts() public {
        DisputeId id = _playToProve();
        for (uint32 which = 0; which < 3; ++which) {
            refuseNext(abi.encodeWithSelector(IDisputeGame.NoFault.selector, which));
            _proveScalar(id, which, STEP);
        }
    }

    function test_proveScalar_wrongScalar_convicts_succeeds() public {
        (_lieBuffer, _lieElement, _lie) = (SCALARS, 2, 1);
        DisputeId id = _playToProve();
        _proveScalar(id, 2, STEP);
        assertStatus(0, ClaimStatus.CONVICTED);
    }

    function test_proveScalar_otherStep_reverts() public {
        DisputeId id = _playToProve();
        refuseNext(abi.encodePacked(IStepProofs.LeafMismatch.selector));
        _proveScalar(id, 0, STEP + 1);
    }

    /// @dev The learning rate goes by all steps of the run, the bias corrections by those since the moments were zero.
    function test_proveScalar_rightScalarsOfALaterRound_reverts() public {
        _playToSecondRound();
        DisputeId id = _playToProve();
        for (uint32 which = 0; which < 3; ++which) {
            refuseNext(abi.encodeWithSelector(IDisputeGame.NoFault.selector, which));
            _proveScalar(id, which, which == 0 ? terms.innerSteps + STEP : STEP);
        }
    }

    /// @dev The bias corrections go by the start's own local step: another start would make right ones wrong.
    function test_proveScalar_otherStart_reverts() public {
        DisputeId id = _playToProve();
        (StepFacts memory facts, StateHeader memory other) = (stepFacts(), _trace.start);
        other.localStep += 1;
        IReferee.BufferOpening memory opening = openBuffer(SCALARS, 0);
        LeafProof memory leaf = proveScalarLeaf(other.localStep);
        expectError(IStepProofs.HeaderMismatch.selector);
        disputes.proveScalar(id, facts, other, 1, opening, leaf);
    }

    function test_proveScalar_unknown_reverts() public {
        DisputeId id = _playToProve();
        refuseNext(abi.encodeWithSelector(IStepProofs.LeafUnknown.selector, 3, 3));
        _proveScalar(id, 3, STEP);
    }

    // Audits' claims ----------------------------------------------------------------------------------------------
    function test_timeout_auditorSilent_convicts_succeeds() public {
        playToLeaves(FAR);
        openLeaves(refOf(0, 0, 0), 0);
        compareLeaves(refOf(0, 0, 0), moved(endState(refOf(0, 0, 0)), FAR));
        DisputeId id = open(stranger, auditClaim(), SALT);
        rollTo(_clockOf(id));
        disputes.timeout(id);
        assertAudit(refOf(0, 0, 0), AuditStatus.SLASHED);
        assertEq(lossOf(auditorOf(refOf(0, 0, 0))), 200, "its audit stake");
        assertEq(vault.creditOf(stranger), 50, "finder: a quarter");
        settleAll();
        assertEq(lossOf(solvers[0]), 0, "the solver answers for its own claim only");
        assertAllFree();
    }

    function test_postStepRoots_auditor_succeeds() public {
        DisputeId id = _openOnAudit();
        AuditRef memory ref = refOf(0, 0, 0);
        bytes32[] memory roots = _auditRoots(ref);
        vm.prank(auditorOf(ref));
        disputes.postStepRoots(id, roots, new BoundaryProof[](0));
        assertStage(id, IDisputeGame.Stage.NAME);
    }

    /// @dev An auditor answers for its own trace, on the data of the audited solver.
    function test_postTrace_auditor_succeeds() public {
        DisputeId id = _openOnAudit();
        AuditRef memory ref = refOf(0, 0, 0);
        bytes32[] memory roots = _auditRoots(ref);
        vm.prank(auditorOf(ref));
        disputes.postStepRoots(id, roots, new BoundaryProof[](0));
        vm.prank(stranger);
        disputes.nameStep(id, 0, roots);
        uint32 first = segmentOf(ref) * 2;
        _makeTrace(headerOf(stateAt(0, first)), headerOf(stateAt(0, first + 1)));
        _tryTrace(id, solvers[0], IDisputeGame.NotClaimant.selector);
        postTrace(id, auditorOf(ref));
        assertStage(id, IDisputeGame.Stage.PROVE);
        demand(id, stranger, 0, OUTPUT, 0);
        rollTo(_clockOf(id));
        disputes.timeout(id);
        assertAudit(ref, AuditStatus.SLASHED);
    }

    function test_postStepRoots_auditorWithBoundaries_reverts() public {
        DisputeId id = _openOnAudit();
        bytes32[] memory roots = _auditRoots(refOf(0, 0, 0));
        BoundaryProof[] memory ends = boundaryEnds();
        address auditor = auditorOf(refOf(0, 0, 0));
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongRootCount.selector, 0, 2));
        vm.prank(auditor);
        disputes.postStepRoots(id, roots, ends);
    }

    // The queue ---------------------------------------------------------------------------------------------------
    function test_openDispute_queue_bondDoubles_succeeds() public {
        DisputeId first = _openOnSolver();
        DisputeId second = open(whistleblowers[0], solverClaim(1), SALT);
        DisputeId third = open(whistleblowers[0], solverClaim(1), "again");
        assertStage(second, IDisputeGame.Stage.QUEUED);
        assertEq(_clockOf(second), 0, "no clock before its turn");
        assertEq(vault.lockedOf(whistleblowers[0]), 100 + 2 * BOND + 4 * BOND, "doubled along the queue");
        assertEq(disputes.openCount(_task(), round, 0), 3, "all wait");
        (DisputeId active, uint256 queued) = disputes.activeOf(_task(), solvers[0]);
        assertEq(DisputeId.unwrap(active), DisputeId.unwrap(first), "one at its turn");
        assertEq(queued, 3, "three in the queue");
        assertStage(third, IDisputeGame.Stage.QUEUED);
    }

    /// @dev The last of them stakes 2^31 bonds: a queue is full when nobody can pay for it any more.
    function test_openDispute_fullQueue_reverts() public {
        playToDraw();
        uint256 most = disputes.MAX_QUEUE();
        (address rich, uint256 staked) = (actor("rich"), BOND << most);
        token.mint(rich, staked);
        vm.startPrank(rich);
        token.approve(address(vault), staked);
        vault.deposit(staked);
        vm.stopPrank();
        ClaimRef memory claim = solverClaim(0);
        for (uint256 i = 0; i <= most; ++i) {
            disputes.sealOpening(sha256(abi.encode(claim, rich, bytes32(i))));
        }
        rollTo(vm.getBlockNumber() + 1);
        vm.startPrank(rich);
        for (uint256 i = 0; i < most; ++i) {
            disputes.openDispute(claim, bytes32(i));
        }
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.QueueFull.selector, most));
        disputes.openDispute(claim, bytes32(most));
        vm.stopPrank();
    }

    function test_timeout_close_startsNextClock_succeeds() public {
        DisputeId first = _playToName();
        DisputeId second = open(whistleblowers[0], solverClaim(1), SALT);
        rollTo(_clockOf(first));
        disputes.timeout(first);
        assertStage(second, IDisputeGame.Stage.ROOTS);
        assertEq(_clockOf(second), vm.getBlockNumber() + terms.windows.respond, "its own full clock");
        assertEq(disputes.openCount(_task(), round, 0), 1, "one left");
    }

    function test_timeout_closeOfAQueuedOne_takesHalfOfItsOwnBond_succeeds() public {
        DisputeId first = _playToName();
        DisputeId second = open(whistleblowers[0], solverClaim(0), "again");
        rollTo(_clockOf(first));
        disputes.timeout(first);
        assertEq(vault.creditOf(solvers[0]), BOND / 2, "of the first");
        bytes32[] memory roots = stepRoots();
        BoundaryProof[] memory ends = boundaryEnds();
        vm.prank(solvers[0]);
        disputes.postStepRoots(second, roots, ends);
        rollTo(_clockOf(second));
        disputes.timeout(second);
        assertEq(vault.creditOf(solvers[0]), BOND / 2 + BOND, "of the second, which was twice as much");
    }

    /// @dev The claim fell to the first: the second opener was right too and gets its bond back.
    function test_timeout_claimConvictedMeanwhile_returnsBond_succeeds() public {
        DisputeId first = _openOnSolver();
        DisputeId second = open(whistleblowers[0], solverClaim(1), SALT);
        rollTo(_clockOf(first));
        disputes.timeout(first);
        disputes.timeout(second);
        assertStage(second, IDisputeGame.Stage.CLOSED);
        assertEq(lossOf(whistleblowers[0]), 0, "no fault of its");
        assertEq(lossOf(solvers[0]), 1000, "slashed once");
        settleAll();
        assertAllFree();
    }

    function test_timeout_conviction_nextOnOtherClaimProceeds_succeeds() public {
        _playToSecondRound();
        playToTrain(1);
        commit(0);
        ClaimRef memory old = solverClaim(0);
        old.audit.round = 0;
        DisputeId first = open(stranger, old, SALT);
        DisputeId second = open(whistleblowers[0], solverClaim(0), SALT);
        rollTo(_clockOf(first));
        disputes.timeout(first);
        assertStage(second, IDisputeGame.Stage.ROOTS);
        assertStatus(0, ClaimStatus.COMMITTED);
        expectError(IDisputeGame.ClockRunning.selector);
        disputes.timeout(second);
        assertEq(disputes.openCount(_task(), 0, 0), 0, "the old round can settle");
    }

    // Settlement waits --------------------------------------------------------------------------------------------
    function test_settleClaim_disputeOpen_reverts() public {
        playToMerged();
        rollTo(ledger.settleBlockOf(task, round) - 2);
        DisputeId id = open(whistleblowers[0], solverClaim(0), SALT);
        rollTo(ledger.settleBlockOf(task, round));
        vm.expectRevert(abi.encodeWithSelector(IRoundLedger.DisputeOpen.selector, 0));
        ledger.settleClaim(task, round, 0);
        rollTo(_clockOf(id));
        disputes.timeout(id);
        settleAll();
        assertEq(vault.creditOf(solvers[0]), 0, "convicted: no pay");
        assertAllFree();
    }

    // Helpers -----------------------------------------------------------------------------------------------------
    function _task() private view returns (bytes32) {
        return TaskId.unwrap(task);
    }

    function solverClaim(uint32 segment) private view returns (ClaimRef memory) {
        return ClaimRef(refOf(0, 0, 0), segment, true);
    }

    function auditClaim() private view returns (ClaimRef memory) {
        return ClaimRef(refOf(0, 0, 0), segmentOf(refOf(0, 0, 0)), false);
    }

    function _sealOf(ClaimRef memory claim, address opener) private pure returns (bytes32) {
        return sha256(abi.encode(claim, opener, SALT));
    }

    function open(address opener, ClaimRef memory claim, bytes32 salt) private returns (DisputeId) {
        disputes.sealOpening(sha256(abi.encode(claim, opener, salt)));
        rollTo(vm.getBlockNumber() + 1);
        vm.prank(opener);
        return disputes.openDispute(claim, salt);
    }

    function _sealAndExpect(address opener, ClaimRef memory claim, bytes4 selector) private {
        disputes.sealOpening(_sealOf(claim, opener));
        rollTo(vm.getBlockNumber() + 1);
        expectError(selector);
        vm.prank(opener);
        disputes.openDispute(claim, SALT);
    }

    /// @dev The solver's first segment, step by step.
    function stepState(uint32 step) private view returns (State memory s) {
        s = stateAt(0, step);
        if (step == MIDDLE) s.localStep += _shift;
    }

    function stepRoots() private view returns (bytes32[] memory roots) {
        roots = new bytes32[](3);
        for (uint32 i = 0; i < 3; ++i) {
            roots[i] = Hashing.stateRoot(headerOf(stepState(i)));
        }
    }

    function boundaryEnds() private view returns (BoundaryProof[] memory ends) {
        ends = new BoundaryProof[](2);
        (ends[0], ends[1]) = (boundaryProof(0, 0), boundaryProof(0, 1));
    }

    function _playToSecondRound() private {
        playToAccepted();
        postOuter(terms.initialWeightsRoot, terms.zeroRoot);
        rollTo(vm.getBlockNumber() + terms.windows.merge);
        registry.advance(task);
        (round, starts[0].globalStep) = (1, terms.innerSteps);
    }

    function _openOnSolver() private returns (DisputeId) {
        playToDraw();
        return open(stranger, solverClaim(0), SALT);
    }

    function _openOnAudit() private returns (DisputeId) {
        playToShow(FAR);
        return open(stranger, auditClaim(), SALT);
    }

    function _auditRoots(AuditRef memory ref) private view returns (bytes32[] memory roots) {
        roots = new bytes32[](3);
        for (uint32 i = 0; i < 3; ++i) {
            State memory s = stateAt(0, segmentOf(ref) * 2 + i);
            roots[i] = Hashing.stateRoot(headerOf(i == 2 ? moved(s, FAR) : s));
        }
    }

    function _playToName() private returns (DisputeId id) {
        id = _openOnSolver();
        bytes32[] memory roots = stepRoots();
        BoundaryProof[] memory ends = boundaryEnds();
        vm.prank(solvers[0]);
        disputes.postStepRoots(id, roots, ends);
    }

    function nameStep(DisputeId id, uint32 step) private {
        bytes32[] memory roots = stepRoots();
        vm.prank(stranger);
        disputes.nameStep(id, step, roots);
    }

    function _playToTrace() private returns (DisputeId id) {
        id = _playToName();
        nameStep(id, STEP);
        _makeTrace(STEP);
    }

    function _playToProve() private returns (DisputeId id) {
        id = _playToTrace();
        postTrace(id, solvers[0]);
    }

    // The trace ---------------------------------------------------------------------------------------------------
    function headersAround() internal view override returns (StateHeader memory start, StateHeader memory end) {
        return (_trace.start, _trace.end);
    }

    /// @dev Of step `step` of the solver's first segment.
    function _makeTrace(uint32 step) private {
        _makeTrace(headerOf(stepState(step)), headerOf(stepState(step + 1)));
    }

    function _makeTrace(StateHeader memory start, StateHeader memory end) private {
        (_trace.facts, _trace.start, _trace.end) = (stepFacts(), start, end);
        (_trace.root, _trace.proof) = (Trees.root(traceRoots()), proveTrace());
    }

    function _sendTrace(DisputeId id, address sender) private {
        Trace memory t = _trace;
        vm.prank(sender);
        disputes.postTrace(id, t.facts, t.root, t.start, t.end, t.proof);
    }

    function postTrace(DisputeId id, address claimant) private {
        _sendTrace(id, claimant);
    }

    function _tryTrace(DisputeId id, address sender, bytes4 selector) private {
        expectError(selector);
        _sendTrace(id, sender);
    }

    // Demands and proofs ------------------------------------------------------------------------------------------
    /// @dev What the next demand or proof is refused with; those helpers hash before they call.
    function refuseNext(bytes memory error) private {
        _error = error;
    }

    function _expect() private {
        bytes memory error = _error;
        delete _error;
        if (error.length == 4) expectError(bytes4(error));
        else if (error.length > 4) vm.expectRevert(error);
    }

    function demand(DisputeId id, address challenger, uint32 number, uint32 place, uint32 leaf) private {
        StepFacts memory facts = stepFacts();
        IReferee.NodeProof memory node = proveNode(number);
        _expect();
        vm.prank(challenger);
        disputes.demandLeaf(id, facts, node, place, leaf);
    }

    function answer(DisputeId id, uint32 number, uint32 buffer, uint32 leaf) private {
        IReferee.BufferOpening memory opening = openBuffer(buffer, leaf);
        StateHeader memory start = _trace.start;
        _expect();
        vm.prank(solvers[0]);
        disputes.answerDemand(id, number, start, opening);
    }

    function _tryAnswer(DisputeId id, uint32 number, uint32 buffer, uint32 leaf, bytes4 selector) private {
        refuseNext(abi.encodePacked(selector));
        answer(id, number, buffer, leaf);
    }

    /// @dev The referee finds this element of node 0 beyond its bound, on this trace and nothing else.
    function _expectFault(uint256 element) private {
        IReferee.StepContext memory context = IReferee.StepContext(_trace.facts, _trace.start, _trace.root);
        referee.expectFault(context, proveNode(0), element, OPENINGS);
    }

    function _proveOperation(DisputeId id, address prover, uint256 element) private {
        (StepFacts memory facts, StateHeader memory start) = (_trace.facts, _trace.start);
        IReferee.NodeProof memory node = proveNode(0);
        _expect();
        vm.prank(prover);
        disputes.proveOperation(id, facts, start, node, element, OPENINGS);
    }

    /// @dev `shift`: tokens by which the shown leaf of the dataset is off the right place.
    function _proveToken(DisputeId id, bool isLabel, uint32 position, uint256 shift) private {
        StepFacts memory facts = stepFacts();
        IReferee.BufferOpening memory opening = openBuffer(isLabel ? LABELS : TOKENS, position / 128);
        uint256 index = rowStart(position / ROW_TOKENS) + position % ROW_TOKENS + (isLabel ? 1 : 0);
        LeafProof memory leaf = proveToken((index + shift) % DATASET_TOKENS);
        _expect();
        vm.prank(whistleblowers[0]);
        disputes.proveToken(id, facts, isLabel, position, opening, leaf);
    }

    function _proveScalar(DisputeId id, uint32 which, uint32 step) private {
        (StepFacts memory facts, StateHeader memory start) = (stepFacts(), _trace.start);
        IReferee.BufferOpening memory opening = openBuffer(SCALARS, 0);
        LeafProof memory leaf = proveScalarLeaf(step);
        _expect();
        vm.prank(whistleblowers[0]);
        disputes.proveScalar(id, facts, start, which, opening, leaf);
    }

    function _clockOf(DisputeId id) private view returns (uint256 clock) {
        (, clock,,) = disputes.stageOf(id);
    }

    function assertStage(DisputeId id, IDisputeGame.Stage expected) private view {
        (IDisputeGame.Stage stage,,,) = disputes.stageOf(id);
        assertEq(uint256(stage), uint256(expected), "stage");
    }

    /// @dev Half of the bond to the claimant, half burned; the claim stands.
    function _assertClosed(DisputeId id) private {
        assertStage(id, IDisputeGame.Stage.CLOSED);
        assertStatus(0, ClaimStatus.COMMITTED);
        assertEq(lossOf(stranger), BOND, "the bond");
        assertEq(vault.creditOf(solvers[0]), BOND / 2, "half to the claimant");
        assertEq(vault.burnPending(), BOND / 2, "half burned");
        assertEq(disputes.openCount(_task(), round, 0), 0, "settlement waits no more");
    }
}
