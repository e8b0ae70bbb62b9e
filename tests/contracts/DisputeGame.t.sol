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
    TaskId
} from "../../contracts/Types.sol";
import {IDisputeGame} from "../../contracts/interfaces/IDisputeGame.sol";
import {IRoundLedger} from "../../contracts/interfaces/IRoundLedger.sol";
import {IStakeVault} from "../../contracts/interfaces/IStakeVault.sol";
import {Hashing} from "../../contracts/libraries/Hashing.sol";
import {World} from "./World.sol";

/// @title Disputes: every move, every clock with the party silent, and who pays for what.
contract DisputeGameTest is World {
    bytes32 private constant SALT = "opening salt";
    uint256 private constant BOND = 40;
    uint32 private constant MIDDLE = 1;
    /// @dev What a cheat adds to the local step of its middle step state.
    uint32 private _lie;

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

    function test_postStepRoots_otherEndpoint_reverts() public {
        DisputeId id = _openOnSolver();
        bytes32[] memory roots = stepRoots();
        roots[2] = "elsewhere";
        BoundaryProof[] memory ends = boundaryEnds();
        expectError(IDisputeGame.EndpointMismatch.selector);
        vm.prank(solvers[0]);
        disputes.postStepRoots(id, roots, ends);
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

    function test_timeout_demandUnanswered_convicts_succeeds() public {
        DisputeId id = _playToProve();
        demand(id, stranger, MIDDLE, 0, 0);
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
        demand(id, stranger, MIDDLE, 0, 0);
        rollTo(vm.getBlockNumber() + 1);
        expectError(IDisputeGame.ClockRunning.selector);
        disputes.timeout(id);
    }

    // D2 ----------------------------------------------------------------------------------------------------------
    function test_nameStep_notOpener_reverts() public {
        DisputeId id = _playToName();
        expectError(IDisputeGame.NotOpener.selector);
        vm.prank(whistleblowers[0]);
        disputes.nameStep(id, 0);
    }

    function test_nameStep_unknownStep_reverts() public {
        DisputeId id = _playToName();
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.StepUnknown.selector, 2, 2));
        vm.prank(stranger);
        disputes.nameStep(id, 2);
    }

    // D3: demands -------------------------------------------------------------------------------------------------
    function test_answerDemand_extendsProve_succeeds() public {
        DisputeId id = _playToProve();
        uint256 proveEnd = _clockOf(id);
        demand(id, stranger, MIDDLE, 1, 1);
        answer(id, 0, MIDDLE, 1);
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
        demand(id, stranger, MIDDLE, 0, 0);
        rollTo(_clockOf(id) - 1);
        answer(id, 0, MIDDLE, 0);
        assertEq(_clockOf(id), vm.getBlockNumber() + terms.windows.respond, "time to look at it");
    }

    function test_answerDemand_inTurn_succeeds() public {
        DisputeId id = _playToProve();
        demand(id, stranger, MIDDLE, 0, 0);
        demand(id, whistleblowers[0], MIDDLE, 2, 1);
        _tryAnswer(id, 1, MIDDLE, 2, IDisputeGame.DemandUnknown.selector);
        uint256 clock = _clockOf(id);
        rollTo(clock - 1);
        answer(id, 0, MIDDLE, 0);
        assertEq(_clockOf(id), clock - 1 + terms.windows.respond, "the second one's clock starts at its turn");
        answer(id, 1, MIDDLE, 2);
        (uint32 made, uint32 answered, uint256 open_) = disputes.demandsOf(id);
        assertEq(made, answered, "all answered");
        assertEq(open_, 0, "no clock");
        _tryAnswer(id, 2, MIDDLE, 0, IDisputeGame.DemandUnknown.selector);
    }

    function test_answerDemand_otherTensor_reverts() public {
        DisputeId id = _playToProve();
        demand(id, stranger, MIDDLE, 0, 0);
        _tryAnswer(id, 0, MIDDLE, 1, IDisputeGame.LeafMismatch.selector);
    }

    function test_answerDemand_otherState_reverts() public {
        DisputeId id = _playToProve();
        demand(id, stranger, MIDDLE, 0, 0);
        _tryAnswer(id, 0, 2, 0, IDisputeGame.HeaderMismatch.selector);
    }

    function test_demandLeaf_ninth_reverts() public {
        DisputeId id = _playToProve();
        for (uint256 i = 0; i < disputes.MAX_DEMANDS_EACH(); ++i) {
            demand(id, stranger, MIDDLE, 0, 0);
        }
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.TooManyDemands.selector, stranger, 8));
        vm.prank(stranger);
        disputes.demandLeaf(id, MIDDLE, 0, 0);
    }

    /// @dev Strangers cannot stretch a dispute without end, nor use up the opener's own demands.
    function test_demandLeaf_crowd_reverts() public {
        DisputeId id = _playToProve();
        for (uint256 i = 0; i < disputes.MAX_DEMANDS_OTHERS(); ++i) {
            demand(id, verifiers[i / 8], MIDDLE, 0, 0);
        }
        expectError(IDisputeGame.TooManyDemands.selector);
        vm.prank(whistleblowers[0]);
        disputes.demandLeaf(id, MIDDLE, 0, 0);
        demand(id, stranger, MIDDLE, 0, 0);
    }

    function test_demandLeaf_byClaimant_reverts() public {
        DisputeId id = _playToProve();
        expectError(IDisputeGame.OwnClaim.selector);
        vm.prank(solvers[0]);
        disputes.demandLeaf(id, MIDDLE, 0, 0);
    }

    function test_demandLeaf_unknown_reverts() public {
        DisputeId id = _playToProve();
        uint32[3][3] memory unknown = [[uint32(3), 0, 0], [uint32(0), 3, 0], [uint32(0), 0, 2]];
        for (uint256 i = 0; i < 3; ++i) {
            vm.expectRevert();
            vm.prank(stranger);
            disputes.demandLeaf(id, unknown[i][0], uint8(unknown[i][1]), unknown[i][2]);
        }
    }

    function test_demandLeaf_proveOver_reverts() public {
        DisputeId id = _playToProve();
        rollTo(_clockOf(id));
        expectError(IDisputeGame.ClockOver.selector);
        vm.prank(stranger);
        disputes.demandLeaf(id, MIDDLE, 0, 0);
    }

    // D3: binding -------------------------------------------------------------------------------------------------
    function test_proveBinding_honestState_reverts() public {
        DisputeId id = _playToProve();
        for (uint32 i = 0; i < 3; ++i) {
            StateHeader memory header = headerOf(stepState(i));
            expectError(IDisputeGame.NoFault.selector);
            disputes.proveBinding(id, i, header);
        }
    }

    function test_proveBinding_otherHeader_reverts() public {
        DisputeId id = _playToProve();
        StateHeader memory header = headerOf(stepState(0));
        expectError(IDisputeGame.HeaderMismatch.selector);
        disputes.proveBinding(id, MIDDLE, header);
    }

    /// @dev A copied proof redirects nothing while the dispute is active.
    function test_proveBinding_frontRun_paysOpener_succeeds() public {
        _lie = 5;
        DisputeId id = _playToName();
        StateHeader memory header = headerOf(stepState(MIDDLE));
        vm.prank(whistleblowers[0]);
        disputes.proveBinding(id, MIDDLE, header);
        assertStage(id, IDisputeGame.Stage.CONVICTED);
        assertEq(vault.creditOf(stranger), 250, "opener");
        assertEq(vault.creditOf(whistleblowers[0]), 0, "not the copier");
        assertWhole(stranger);
        assertEq(disputes.openCount(_task(), round, 0), 0, "none open");
    }

    /// @dev Closed is not acquitted.
    function test_proveBinding_afterClose_succeeds() public {
        _lie = 5;
        DisputeId id = _playToProve();
        rollTo(_clockOf(id));
        disputes.timeout(id);
        StateHeader memory header = headerOf(stepState(MIDDLE));
        vm.prank(whistleblowers[0]);
        disputes.proveBinding(id, MIDDLE, header);
        assertStatus(0, ClaimStatus.CONVICTED);
        assertEq(vault.creditOf(whistleblowers[0]), 250, "now the prover is the finder");
        expectError(IDisputeGame.WrongStage.selector);
        disputes.proveBinding(id, MIDDLE, header);
        settleAll();
        assertAllFree();
    }

    function test_proveBinding_afterSettlement_reverts() public {
        _lie = 5;
        DisputeId id = _playToProve();
        rollTo(_clockOf(id));
        disputes.timeout(id);
        settleAll();
        StateHeader memory header = headerOf(stepState(MIDDLE));
        expectError(IDisputeGame.ClaimNotDisputable.selector);
        disputes.proveBinding(id, MIDDLE, header);
    }

    function test_proveBinding_convictedOtherwise_reverts() public {
        _lie = 5;
        DisputeId id = _playToProve();
        vm.prank(address(contest));
        ledger.convictSolver(task, round, 0, address(0), "test");
        StateHeader memory header = headerOf(stepState(MIDDLE));
        expectError(IDisputeGame.ClaimNotDisputable.selector);
        disputes.proveBinding(id, MIDDLE, header);
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
        assertEq(disputes.rootsOf(id)[2], roots[2], "kept");
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
        assertEq(vault.lockedOf(whistleblowers[0]), 100 + 2 * BOND + 4 * BOND, "doubled along the queue");
        assertEq(disputes.openCount(_task(), round, 0), 3, "all wait");
        (DisputeId active, uint256 queued) = disputes.activeOf(_task(), solvers[0]);
        assertEq(DisputeId.unwrap(active), DisputeId.unwrap(first), "one at its turn");
        assertEq(queued, 3, "three in the queue");
        assertStage(third, IDisputeGame.Stage.QUEUED);
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
        playToAccepted();
        vm.prank(stranger);
        ledger.postOuter(task, 0, terms.initialWeightsRoot, terms.zeroRoot);
        rollTo(vm.getBlockNumber() + terms.windows.merge);
        registry.advance(task);
        (round, starts[0].globalStep) = (1, 4);
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
        if (step == MIDDLE) s.localStep += _lie;
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

    function _playToProve() private returns (DisputeId id) {
        id = _playToName();
        vm.prank(stranger);
        disputes.nameStep(id, MIDDLE);
    }

    function demand(DisputeId id, address challenger, uint32 state, uint8 tensor, uint32 leaf) private {
        vm.prank(challenger);
        disputes.demandLeaf(id, state, tensor, leaf);
    }

    function _answerOf(uint32 state, uint8 tensor)
        private
        view
        returns (StateHeader memory header, LeafProof memory leaf)
    {
        State memory s = stepState(state);
        header = headerOf(s);
        leaf = leafProof(tensor == 0 ? s.weight : tensor == 1 ? s.firstMoment : s.secondMoment);
    }

    function answer(DisputeId id, uint32 number, uint32 state, uint8 tensor) private {
        (StateHeader memory header, LeafProof memory leaf) = _answerOf(state, tensor);
        vm.prank(solvers[0]);
        disputes.answerDemand(id, number, header, leaf);
    }

    function _tryAnswer(DisputeId id, uint32 number, uint32 state, uint8 tensor, bytes4 selector) private {
        (StateHeader memory header, LeafProof memory leaf) = _answerOf(state, tensor);
        expectError(selector);
        vm.prank(solvers[0]);
        disputes.answerDemand(id, number, header, leaf);
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
