// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {
    AuditRef,
    AuditStatus,
    BoundaryProof,
    ClaimStatus,
    RoundStatus,
    StateHeader,
    TaskTerms
} from "../../contracts/Types.sol";
import {IAuditBook} from "../../contracts/interfaces/IAuditBook.sol";
import {IRoundLedger} from "../../contracts/interfaces/IRoundLedger.sol";
import {ITaskRegistry} from "../../contracts/interfaces/ITaskRegistry.sol";
import {Trees} from "./Trees.sol";
import {World} from "./World.sol";

/// @title Claims, verdicts, merging and settlement; every time-out that judges a claim, with the party silent.
contract RoundLedgerTest is World {
    uint256 private constant FEE = 10;
    uint8 private constant SILENT = 0;
    uint8 private constant UNSERVED = 1;
    uint8 private constant ABSTAINS = 2;
    uint8 private constant ACCEPTS = 3;

    // Commit ------------------------------------------------------------------------------------------------------
    function test_commit_twice_reverts() public {
        playToTrain(1);
        commit(0);
        bytes32 root = Trees.root(claimLeaves(0));
        BoundaryProof memory start = boundaryProof(0, 0);
        vm.expectRevert(abi.encodeWithSelector(IRoundLedger.AlreadyCommitted.selector, 0));
        vm.prank(solvers[0]);
        ledger.commit(task, round, root, "delta", start);
    }

    function test_commit_otherStart_reverts() public {
        playToTrain(1);
        starts[0].weight += 1;
        bytes32 root = Trees.root(claimLeaves(0));
        BoundaryProof memory start = boundaryProof(0, 0);
        expectError(IRoundLedger.WrongStart.selector);
        vm.prank(solvers[0]);
        ledger.commit(task, round, root, "delta", start);
    }

    function test_commit_boundaryOfAnother_reverts() public {
        playToTrain(2);
        bytes32 root = Trees.root(claimLeaves(1));
        BoundaryProof memory start = boundaryProof(1, 0);
        vm.expectRevert(abi.encodeWithSelector(IRoundLedger.BoundaryMismatch.selector, root, 0));
        vm.prank(solvers[0]);
        ledger.commit(task, round, root, "delta", start);
    }

    function test_commit_tooLate_reverts() public {
        playToTrain(1);
        rollTo(deadlines().trainEnd);
        bytes32 root = Trees.root(claimLeaves(0));
        BoundaryProof memory start = boundaryProof(0, 0);
        expectError(IRoundLedger.OutsideWindow.selector);
        vm.prank(solvers[0]);
        ledger.commit(task, round, root, "delta", start);
    }

    function test_commit_notEnrolled_reverts() public {
        playToTrain(1);
        bytes32 root = Trees.root(claimLeaves(0));
        BoundaryProof memory start = boundaryProof(0, 0);
        vm.expectRevert(abi.encodeWithSelector(IRoundLedger.NotEnrolled.selector, stranger));
        vm.prank(stranger);
        ledger.commit(task, round, root, "delta", start);
    }

    // The whole round ---------------------------------------------------------------------------------------------
    function test_settleClaim_honestRound_succeeds() public {
        playToLate();
        AuditRef memory late = lateRef(0);
        assertEq(segmentOf(late), 1 - segmentOf(refOf(0, 0, 0)), "the undrawn segment");
        openStart(late);
        commitReplay(late, endState(late));
        rollTo(lateDeadlines().replayEnd);
        openEnd(late);
        reveal(late, endState(late));
        settleAll();
        assertEq(vault.creditOf(solvers[0]), 50, "solver pay");
        assertEq(vault.creditOf(stranger), 11, "merge pay");
        assertEq(vault.creditOf(auditorOf(refOf(0, 0, 0))), 5, "audit pay");
        assertEq(vault.creditOf(whistleblowers[0]), 7, "late pay");
        assertEq(vault.burnPending(), 0, "nothing burned");
        assertAllFree();
    }

    /// @dev Nobody knows an auditor before the draw is sealed.
    function test_drawnOf_unsealedOrUnknown_isNobody() public {
        playToTrain(1);
        commit(0);
        assertEq(auditorOf(refOf(0, 0, 0)), address(0), "before the draw");
        sealDraw();
        assertTrue(auditorOf(refOf(0, 0, 0)) != address(0), "drawn");
        assertEq(auditorOf(refOf(1, 0, 0)), address(0), "no such slot");
    }

    function test_judge_beforeShowEnd_reverts() public {
        playToShow(0);
        vm.expectRevert(abi.encodeWithSelector(IRoundLedger.NothingDue.selector, 0, ClaimStatus.COMMITTED));
        ledger.judge(task, round, 0);
    }

    function test_judge_unknownSlot_reverts() public {
        playToTrain(1);
        vm.expectRevert(abi.encodeWithSelector(IRoundLedger.SlotUnknown.selector, 1, 1));
        ledger.judge(task, round, 1);
    }

    function test_judge_nearResult_succeeds() public {
        playToLeaves(NEAR);
        openLeaves(refOf(0, 0, 0), 0);
        compareLeaves(refOf(0, 0, 0), moved(endState(refOf(0, 0, 0)), NEAR));
        rollTo(deadlines().openEnd);
        ledger.judge(task, round, 0);
        assertStatus(0, ClaimStatus.ACCEPTED);
    }

    function test_judge_leavesOpenedAndComparisonStillDue_reverts() public {
        playToLeaves(NEAR);
        openLeaves(refOf(0, 0, 0), 0);
        rollTo(deadlines().openEnd);
        expectError(IRoundLedger.NothingDue.selector);
        ledger.judge(task, round, 0);
    }

    // Time-outs up to the first verdict ---------------------------------------------------------------------------
    function test_settleClaim_beaconUnsealed_succeeds() public {
        enrolAll(1);
        rollTo(deadlines().beaconEnd);
        ledger.settleClaim(task, round, 0);
        ledger.settleEnrolments(task, round, 0, 100);
        assertWhole(solvers[0]);
        assertAllFree();
        // It was EMPTY before anybody said so, but who follows the events must hear of it.
        vm.expectEmit(true, true, true, true, address(registry));
        emit ITaskRegistry.RoundEmpty(task, round);
        registry.advance(task);
        (bytes32 weights,) = ledger.globalOf(task, 1);
        assertEq(weights, terms.initialWeightsRoot, "an EMPTY round changes nothing");
    }

    /// @dev Nothing is judged in an EMPTY round, so this check stands alone and says what is wrong.
    function test_settleClaim_emptyRoundUnknownSlot_reverts() public {
        enrolAll(1);
        rollTo(deadlines().beaconEnd);
        vm.expectRevert(abi.encodeWithSelector(IRoundLedger.SlotUnknown.selector, 1, 1));
        ledger.settleClaim(task, round, 1);
    }

    function test_settleClaim_enrolling_reverts() public {
        enrolAll(1);
        vm.expectRevert(abi.encodeWithSelector(IRoundLedger.RoundNotTrained.selector, RoundStatus.ENROLLING));
        ledger.settleClaim(task, round, 0);
        vm.expectRevert(abi.encodeWithSelector(IRoundLedger.RoundNotTrained.selector, RoundStatus.ENROLLING));
        ledger.settleEnrolments(task, round, 0, 100);
    }

    /// @dev Before a round trains nothing of it moves, whoever calls.
    function test_everyMove_enrolling_reverts() public {
        enrolAll(1);
        BoundaryProof memory start = boundaryProof(0, 0);
        bytes memory refusal =
            abi.encodeWithSelector(IRoundLedger.RoundNotTrained.selector, RoundStatus.ENROLLING);
        vm.expectRevert(refusal);
        vm.prank(solvers[0]);
        ledger.commit(task, round, "claim", "delta", start);
        vm.expectRevert(refusal);
        ledger.sealDraw(task, round, "");
        vm.expectRevert(refusal);
        ledger.sealLate(task, round, "");
        vm.expectRevert(refusal);
        ledger.judge(task, round, 0);
        vm.expectRevert(refusal);
        ledger.judgeClaims(task, round, 0, 1);
        vm.expectRevert(refusal);
        ledger.postOuter(task, round, 0, "weights", "momentum");
        vm.expectRevert(refusal);
        ledger.settleMerge(task, round);
        vm.expectRevert(refusal);
        vm.prank(address(disputes));
        ledger.convictSolver(task, round, 0, stranger, "test");
    }

    /// @dev What disputes and pages read of a claim without a state of their own.
    function test_verifyBoundary_onlyTheClaimsOwn_succeeds() public {
        playToTrain(1);
        commit(0);
        for (uint32 boundary = 0; boundary <= segmentCount(); ++boundary) {
            ledger.verifyBoundary(task, round, 0, boundary, boundaryProof(0, boundary));
        }
        BoundaryProof memory proof = boundaryProof(0, 1);
        bytes memory refusal =
            abi.encodeWithSelector(IRoundLedger.BoundaryMismatch.selector, Trees.root(claimLeaves(0)), 2);
        vm.expectRevert(refusal);
        ledger.verifyBoundary(task, round, 0, 2, proof);
        proof = boundaryProof(0, 2);
        proof.header.localStep += 1;
        vm.expectRevert(refusal);
        ledger.verifyBoundary(task, round, 0, 2, proof);
    }

    function test_sealDraw_twice_reverts() public {
        playToDraw();
        expectError(IRoundLedger.AlreadySealed.selector);
        ledger.sealDraw(task, round, "");
    }

    function test_judge_noCommitment_succeeds() public {
        playToTrain(1);
        rollTo(deadlines().trainEnd);
        ledger.judge(task, round, 0);
        assertStatus(0, ClaimStatus.DROPPED);
        _assertSolverEnds(FEE);
    }

    function test_judge_drawUnsealed_succeeds() public {
        playToTrain(1);
        commit(0);
        rollTo(deadlines().drawEnd);
        expectError(IRoundLedger.OutsideWindow.selector);
        ledger.sealDraw(task, round, "");
        _assertVoid(0);
    }

    function test_judge_startMissing_succeeds() public {
        playToDraw();
        rollTo(deadlines().startEnd);
        _assertVoid(FEE);
        assertWhole(auditorOf(refOf(0, 0, 0)));
    }

    function test_judge_startMissingInOneOfTwoDraws_succeeds() public {
        _playTwoDraws();
        openStart(refOf(0, 1, 0));
        rollTo(deadlines().startEnd);
        _assertVoid(FEE);
    }

    function test_judge_endMissing_succeeds() public {
        playToStart();
        AuditRef memory ref = refOf(0, 0, 0);
        playToReplay(endState(ref));
        reveal(ref, endState(ref));
        rollTo(deadlines().showEnd);
        _assertVoid(FEE);
        assertEq(vault.creditOf(auditorOf(ref)), 5, "the auditor did its work");
        assertWhole(auditorOf(ref));
    }

    function test_judge_leavesNotOpened_succeeds() public {
        playToLeaves(NEAR);
        rollTo(deadlines().openEnd);
        _assertVoid(FEE);
        assertWhole(auditorOf(refOf(0, 0, 0)));
    }

    /// @dev The solver waits for nobody: an unsealed leaf draw costs it no fee, only the first verdict.
    function test_judge_leafDrawUnsealed_succeeds() public {
        playToShow(NEAR);
        rollTo(deadlines().compareEnd);
        ledger.judge(task, round, 0);
        assertStatus(0, ClaimStatus.ESCALATED);
        assertAudit(refOf(0, 0, 0), AuditStatus.REJECTS);
        assertEq(lossOf(solvers[0]) + lossOf(auditorOf(refOf(0, 0, 0))), 0, "nobody is fined");
    }

    function test_judge_noComparison_succeeds() public {
        playToLeaves(NEAR);
        openLeaves(refOf(0, 0, 0), 0);
        rollTo(deadlines().compareEnd);
        ledger.judge(task, round, 0);
        assertStatus(0, ClaimStatus.ESCALATED);
        assertAudit(refOf(0, 0, 0), AuditStatus.SLASHED);
        assertEq(lossOf(auditorOf(refOf(0, 0, 0))), 200, "audit stake");
    }

    function test_judge_noReplay_succeeds() public {
        playToStart();
        AuditRef memory ref = refOf(0, 0, 0);
        rollTo(deadlines().replayEnd);
        openEnd(ref);
        rollTo(deadlines().compareEnd);
        ledger.judge(task, round, 0);
        assertStatus(0, ClaimStatus.ESCALATED);
        assertEq(lossOf(auditorOf(ref)), FEE, "F once");
        // Its fine stands where a fourth auditor's status would.
        assertAudit(refOf(0, 0, 3), AuditStatus.NONE);
        _playReservesAccept();
        assertStatus(0, ClaimStatus.ACCEPTED);
        settleAll();
        assertEq(lossOf(auditorOf(ref)), FEE, "and not again");
        assertAllFree();
    }

    function test_judge_noReveal_succeeds() public {
        playToStart();
        AuditRef memory ref = refOf(0, 0, 0);
        playToReplay(endState(ref));
        openEnd(ref);
        rollTo(deadlines().compareEnd);
        ledger.judge(task, round, 0);
        assertAudit(ref, AuditStatus.SLASHED);
        assertEq(lossOf(auditorOf(ref)), 200, "audit stake");
        _playReservesAccept();
        assertStatus(0, ClaimStatus.ACCEPTED);
        settleAll();
        assertEq(lossOf(solvers[0]), 0, "one verifier voids nobody");
        assertAllFree();
    }

    function test_judge_abstained_succeeds() public {
        playToStart();
        abstain(refOf(0, 0, 0));
        rollTo(deadlines().replayEnd);
        openEnd(refOf(0, 0, 0));
        rollTo(deadlines().compareEnd);
        ledger.judge(task, round, 0);
        assertStatus(0, ClaimStatus.ESCALATED);
        assertEq(lossOf(auditorOf(refOf(0, 0, 0))), 0, "abstaining is a verdict");
    }

    // Escalation --------------------------------------------------------------------------------------------------
    function test_judge_reservesAccept_succeeds() public {
        playToEscalated();
        _playReservesAccept();
        assertStatus(0, ClaimStatus.ACCEPTED);
    }

    function test_judge_reservesReject_succeeds() public {
        playToEscalated();
        _playReservesCommit(FAR, FAR);
        openLeaves(refOf(0, 0, 1), 1);
        compareLeaves(refOf(0, 0, 1), moved(endState(refOf(0, 0, 1)), FAR));
        compareLeaves(refOf(0, 0, 2), moved(endState(refOf(0, 0, 2)), FAR));
        rollTo(deadlines().reserveCompareEnd);
        _assertVoid(0);
        assertEq(vault.creditOf(auditorOf(refOf(0, 0, 2))), 5, "a reserve is paid as well");
    }

    function test_judge_onlyOneReserveAccepts_succeeds() public {
        playToEscalated();
        _playReservesCommit(NEAR, FAR);
        openLeaves(refOf(0, 0, 1), 1);
        compareLeaves(refOf(0, 0, 1), moved(endState(refOf(0, 0, 1)), NEAR));
        compareLeaves(refOf(0, 0, 2), moved(endState(refOf(0, 0, 2)), FAR));
        rollTo(deadlines().reserveCompareEnd);
        _assertVoid(0);
    }

    function test_judge_reserveLeavesNotOpened_succeeds() public {
        playToEscalated();
        _playReservesCommit(NEAR, 0);
        rollTo(deadlines().reserveCompareEnd);
        _assertVoid(FEE);
        assertWhole(auditorOf(refOf(0, 0, 1)));
    }

    function test_judge_reserveLeafDrawUnsealed_succeeds() public {
        playToEscalated();
        playReserve(1, NEAR);
        playReserve(2, NEAR);
        rollTo(deadlines().reserveReplayEnd);
        reveal(refOf(0, 0, 1), moved(endState(refOf(0, 0, 1)), NEAR));
        reveal(refOf(0, 0, 2), moved(endState(refOf(0, 0, 2)), NEAR));
        rollTo(deadlines().reserveCompareEnd);
        _assertVoid(0);
    }

    function test_judge_reservesSilent_succeeds() public {
        playToEscalated();
        rollTo(deadlines().reserveCompareEnd);
        _assertVoid(0);
        assertEq(lossOf(auditorOf(refOf(0, 0, 1))), FEE, "first reserve");
        assertEq(lossOf(auditorOf(refOf(0, 0, 2))), FEE, "second reserve");
    }

    function test_judge_reserveDoesNotReveal_succeeds() public {
        playToEscalated();
        playReserve(1, 0);
        rollTo(deadlines().reserveCompareEnd);
        _assertVoid(0);
        assertEq(lossOf(auditorOf(refOf(0, 0, 1))), 200, "audit stake");
        assertEq(lossOf(auditorOf(refOf(0, 0, 2))), FEE, "F");
    }

    function test_judge_unservedByTwoOfThree_succeeds() public {
        playToStart();
        sayUnserved(refOf(0, 0, 0));
        rollTo(deadlines().replayEnd);
        openEnd(refOf(0, 0, 0));
        rollTo(deadlines().compareEnd);
        ledger.judge(task, round, 0);
        sayUnserved(refOf(0, 0, 1));
        playReserve(2, 0);
        rollTo(deadlines().reserveReplayEnd);
        reveal(refOf(0, 0, 2), endState(refOf(0, 0, 2)));
        rollTo(deadlines().reserveCompareEnd);
        _assertVoid(FEE);
        assertEq(lossOf(auditorOf(refOf(0, 0, 0))), FEE, "said so");
        assertEq(lossOf(auditorOf(refOf(0, 0, 1))), FEE, "said so");
        assertWhole(auditorOf(refOf(0, 0, 2)));
    }

    function test_judge_unservedByOne_succeeds() public {
        playToStart();
        sayUnserved(refOf(0, 0, 0));
        rollTo(deadlines().replayEnd);
        openEnd(refOf(0, 0, 0));
        rollTo(deadlines().compareEnd);
        ledger.judge(task, round, 0);
        _playReservesAccept();
        assertStatus(0, ClaimStatus.ACCEPTED);
        assertEq(lossOf(auditorOf(refOf(0, 0, 0))), 0, "no fee for a lone voice");
    }

    /// @dev Nobody called the reserves while they could still commit.
    function test_judge_throughAllStagesAtOnce_succeeds() public {
        playToShow(NEAR);
        rollTo(deadlines().reserveCompareEnd);
        _assertVoid(0);
        assertEq(vault.burnPending(), 0, "nobody is fined");
    }

    function _escalateAt(uint256 blockNumber) private {
        playToShow(NEAR);
        rollTo(blockNumber);
        ledger.judge(task, round, 0);
        assertStatus(0, ClaimStatus.ESCALATED);
    }

    function test_judge_calledWithHalfTheWindowLeft_reservesSilent_succeeds() public {
        _escalateAt(_callEnd() - 1);
        rollTo(deadlines().reserveCompareEnd);
        _assertVoid(0);
        assertEq(vault.burnPending(), 2 * FEE, "both reserves");
    }

    function test_judge_calledLate_reservesSilent_succeeds() public {
        _escalateAt(_callEnd());
        rollTo(deadlines().reserveCompareEnd);
        _assertVoid(0);
        assertEq(vault.burnPending(), 0, "too late for them");
    }

    function test_judge_calledLate_reserveDoesNotReveal_succeeds() public {
        _escalateAt(_callEnd());
        playReserve(1, 0);
        rollTo(deadlines().reserveCompareEnd);
        _assertVoid(0);
        assertEq(lossOf(auditorOf(refOf(0, 0, 1))), 200, "it committed");
        assertWhole(auditorOf(refOf(0, 0, 2)));
    }

    function test_judge_calledLate_reservesAccept_succeeds() public {
        _escalateAt(_callEnd());
        _playReservesAccept();
        assertStatus(0, ClaimStatus.ACCEPTED);
    }

    function _callEnd() private view returns (uint256) {
        return deadlines().compareEnd + terms.windows.replay / 2;
    }

    // Too few accept, and nobody rejects --------------------------------------------------------------------------
    function test_judge_everyAuditorSilent_paysHalfOfTheirFees_succeeds() public {
        playToDraw();
        _playWords([SILENT, SILENT, SILENT]);
        _assertVoidFor("silent", FEE, 50 - FEE);
        assertEq(vault.burnPending(), 3 * FEE + 50 - FEE, "three fees, and the rest of the pay");
    }

    function test_judge_everyAuditorSilent_paysNoMoreThanTheSolversPay_succeeds() public {
        _useFee(60);
        playToDraw();
        _playWords([SILENT, SILENT, SILENT]);
        _assertVoidFor("silent", 50, 0);
        assertEq(vault.burnPending(), 180, "three fees");
    }

    function test_judge_oneAcceptsAndTwoSilent_paysHalfOfTheReservesFee_succeeds() public {
        playToDraw();
        _playWords([SILENT, ACCEPTS, SILENT]);
        _assertVoidFor("silent", FEE / 2, 50 - FEE / 2);
    }

    /// @dev Three verifiers with 100 at stake audit two claims and burn 60 for each silence, as far as it goes: what is paid is
    /// half of what was burned, not of what was due.
    function test_judge_everyAuditorSilentTwice_paysHalfOfWhatBurned_succeeds() public {
        _useFee(60);
        _playTwoSilentClaims();
        uint256 lostWei = 0;
        for (uint256 i = 0; i < 3; ++i) {
            assertTrue(lossOf(verifiers[i]) <= 100, "no more than it staked");
            lostWei += lossOf(verifiers[i]);
        }
        uint256 paidWei = vault.creditOf(solvers[0]) + vault.creditOf(solvers[1]);
        assertTrue(paidWei > 0 && 2 * paidWei <= lostWei, "whoever owns them all loses");
        assertTrue(paidWei < 100, "not twice the whole pay");
    }

    function _playTwoSilentClaims() private {
        while (verifiers.length > 3) {
            verifiers.pop();
        }
        playToTrain(2);
        commit(0);
        commit(1);
        sealDraw();
        openStart(refOf(0, 0, 0));
        openStart(refOf(1, 0, 0));
        rollTo(deadlines().replayEnd);
        openEnd(refOf(0, 0, 0));
        openEnd(refOf(1, 0, 0));
        rollTo(deadlines().compareEnd);
        ledger.judgeClaims(task, round, 0, 2);
        rollTo(deadlines().reserveCompareEnd);
        ledger.judgeClaims(task, round, 0, 2);
        settleAll();
    }

    function test_judge_allAbstain_burnsThePay_succeeds() public {
        playToDraw();
        _playWords([ABSTAINS, ABSTAINS, ABSTAINS]);
        _assertVoidFor("undecided", 0, 50);
        assertEq(vault.burnPending(), 50, "the pay");
    }

    function test_judge_twoAbstainAndOneAccepts_burnsThePay_succeeds() public {
        playToDraw();
        _playWords([ABSTAINS, ACCEPTS, ABSTAINS]);
        _assertVoidFor("undecided", 0, 50);
    }

    /// @dev A lone UNSERVED costs nothing, so that it may save nothing.
    function test_judge_oneUnservedAndTwoAbstain_burnsThePay_succeeds() public {
        playToDraw();
        _playWords([UNSERVED, ABSTAINS, ABSTAINS]);
        _assertVoidFor("undecided", 0, 50);
    }

    function test_judge_oneAbstainsAndTwoSilent_paysNobody_succeeds() public {
        playToDraw();
        _playWords([ABSTAINS, SILENT, SILENT]);
        _assertVoidFor("undecided", 0, 50);
        assertEq(vault.burnPending(), 2 * FEE + 50, "fees and pay");
    }

    function test_judge_reserveDoesNotRevealAndTwoSilent_paysNobody_succeeds() public {
        playToStart();
        rollTo(deadlines().replayEnd);
        openEnd(refOf(0, 0, 0));
        rollTo(deadlines().compareEnd);
        ledger.judge(task, round, 0);
        playReserve(1, 0);
        rollTo(deadlines().reserveCompareEnd);
        ledger.judge(task, round, 0);
        settleAll();
        assertEq(vault.creditOf(solvers[0]), 0, "no pay of a slash");
    }

    function test_judge_twoUnserved_payGoesBack_succeeds() public {
        playToDraw();
        _playWords([UNSERVED, UNSERVED, ABSTAINS]);
        ledger.judge(task, round, 0);
        settleAll();
        assertEq(lossOf(solvers[0]), FEE, "F");
        assertEq(vault.escrowOf(task), registry.escrowFor(terms), "the submitter owes nothing");
    }

    function test_judge_oneRejectsAndTwoSilent_payGoesBack_succeeds() public {
        playToEscalated();
        rollTo(deadlines().reserveCompareEnd);
        _assertVoidFor("rejected", 0, 0);
    }

    function test_judge_calledLate_everyAuditorSilent_burnsThePay_succeeds() public {
        playToStart();
        rollTo(deadlines().replayEnd);
        openEnd(refOf(0, 0, 0));
        rollTo(_callEnd());
        ledger.judge(task, round, 0);
        rollTo(deadlines().reserveCompareEnd);
        _assertVoidFor("silent", 0, 50);
        assertEq(vault.burnPending(), FEE + 50, "of the primary, and the pay");
    }

    function test_convictSolver_afterSilence_neitherPaysNorBurnsThePay_succeeds() public {
        playToDraw();
        _playWords([SILENT, SILENT, SILENT]);
        ledger.judge(task, round, 0);
        _convict(0);
        settleAll();
        assertEq(vault.creditOf(solvers[0]), 0, "no pay");
        assertEq(vault.escrowOf(task), registry.escrowFor(terms), "the submitter owes nothing");
    }

    function test_settleClaim_voidAfterTaskClosed_releases_succeeds() public {
        playToDraw();
        _playWords([SILENT, SILENT, SILENT]);
        ledger.judge(task, round, 0);
        rollTo(registry.expiryBlock(task));
        registry.closeTask(task);
        settleAll();
        assertEq(vault.creditOf(solvers[0]), 0, "the escrow is gone");
        assertEq(vault.burnPending(), 3 * FEE, "the fees");
        assertAllFree();
    }

    /// @dev Of two draws the graver reason is the claim's, whichever comes first.
    function test_judge_twoDraws_graverReasonDecides_succeeds() public {
        _assertTwoDraws([SILENT, SILENT], "silent");
        _assertTwoDraws([SILENT, ABSTAINS], "undecided");
        _assertTwoDraws([ABSTAINS, SILENT], "undecided");
        _assertTwoDraws([UNSERVED, ABSTAINS], "unserved");
        _assertTwoDraws([SILENT, UNSERVED], "unserved");
    }

    /// @dev Reserves judge the draws whose primary did not accept, and no other: nobody looks at an accepted one again.
    function test_judge_oneDrawOfTwoEscalated_succeeds() public {
        _playTwoDraws();
        openStart(refOf(0, 0, 0));
        openStart(refOf(0, 1, 0));
        playToReplay(endState(refOf(0, 0, 0)));
        openEnd(refOf(0, 0, 0));
        openEnd(refOf(0, 1, 0));
        reveal(refOf(0, 0, 0), endState(refOf(0, 0, 0)));
        rollTo(deadlines().compareEnd);
        ledger.judge(task, round, 0);
        assertStatus(0, ClaimStatus.ESCALATED);
        for (uint32 rank = 1; rank < 3; ++rank) {
            commitReplay(refOf(0, 1, rank), endState(refOf(0, 1, rank)));
        }
        rollTo(deadlines().reserveReplayEnd);
        for (uint32 rank = 1; rank < 3; ++rank) {
            reveal(refOf(0, 1, rank), endState(refOf(0, 1, rank)));
        }
        rollTo(deadlines().reserveCompareEnd);
        ledger.judge(task, round, 0);
        assertStatus(0, ClaimStatus.ACCEPTED);
    }

    function _assertTwoDraws(uint8[2] memory words, bytes32 reason) private {
        uint256 snapshot = vm.snapshotState();
        _playTwoDraws();
        for (uint32 draw = 0; draw < 2; ++draw) {
            openStart(refOf(0, draw, 0));
            _sayOf(draw, 0, words[draw]);
        }
        rollTo(deadlines().replayEnd);
        for (uint32 draw = 0; draw < 2; ++draw) {
            openEnd(refOf(0, draw, 0));
        }
        rollTo(deadlines().compareEnd);
        ledger.judge(task, round, 0);
        for (uint32 draw = 0; draw < 2; ++draw) {
            _sayOf(draw, 1, words[draw]);
            _sayOf(draw, 2, words[draw]);
        }
        rollTo(deadlines().reserveCompareEnd);
        vm.expectEmit(true, true, true, true, address(ledger));
        emit IRoundLedger.ClaimJudged(task, round, 0, ClaimStatus.VOID, reason);
        ledger.judge(task, round, 0);
        vm.revertToState(snapshot);
    }

    function _sayOf(uint32 draw, uint32 rank, uint8 word) private {
        if (word == UNSERVED) sayUnserved(refOf(0, draw, rank));
        if (word == ABSTAINS) abstain(refOf(0, draw, rank));
    }

    // Merge -------------------------------------------------------------------------------------------------------
    function test_postOuter_claimNotJudged_reverts() public {
        playToShow(0);
        vm.expectRevert(abi.encodeWithSelector(IRoundLedger.NotJudged.selector, 0, 1));
        vm.prank(solvers[0]);
        ledger.postOuter(task, round, 0, "weights", "momentum");
    }

    function test_postOuter_twice_reverts() public {
        playToMerged();
        expectError(IRoundLedger.AlreadyMerged.selector);
        vm.prank(verifiers[0]);
        ledger.postOuter(task, round, 1, "other", "momentum");
    }

    function test_settleMerge_windowOpen_reverts() public {
        playToMerged();
        expectError(IRoundLedger.NotMerged.selector);
        ledger.settleMerge(task, round);
    }

    function test_settleMerge_twice_reverts() public {
        playToMerged();
        rollTo(block.number + terms.windows.merge);
        ledger.settleMerge(task, round);
        expectError(IRoundLedger.AlreadyMerged.selector);
        ledger.settleMerge(task, round);
    }

    function test_judge_noneAccepted_mergesOldRoot_succeeds() public {
        playToTrain(1);
        rollTo(deadlines().trainEnd);
        ledger.judge(task, round, 0);
        (address poster, bytes32 weights, bytes32 momentum, uint256 postedBlock,) =
            ledger.outerOf(task, round);
        assertEq(poster, address(0), "nobody posted");
        assertEq(weights, terms.initialWeightsRoot, "identity");
        assertEq(momentum, terms.zeroRoot, "identity");
        assertEq(postedBlock, vm.getBlockNumber(), "judged block");
        rollTo(postedBlock + terms.windows.merge);
        registry.advance(task);
        expectError(IRoundLedger.AlreadyMerged.selector);
        ledger.settleMerge(task, 0);
    }

    /// @dev Nobody posts: the round stays unmerged, but late audits, settlement and pay do not wait for it.
    function test_settleClaim_outerRootNotPosted_succeeds() public {
        playToAccepted();
        uint256 mergeBy = deadlines().reserveCompareEnd + terms.windows.merge;
        rollTo(mergeBy - 1);
        assertEq(ledger.mergedBlockOf(task, round), 0, "not known yet");
        expectError(IRoundLedger.NotMerged.selector);
        ledger.sealLate(task, round, "");
        rollTo(mergeBy);
        assertEq(ledger.mergedBlockOf(task, round), mergeBy, "late clocks run anyway");
        sealLate();
        openStart(lateRef(0));
        commitReplay(lateRef(0), endState(lateRef(0)));
        rollTo(lateDeadlines().replayEnd);
        openEnd(lateRef(0));
        reveal(lateRef(0), endState(lateRef(0)));
        settleAll();
        assertEq(vault.creditOf(solvers[0]), 50, "paid");
        assertAllFree();
        postOuter("weights", "momentum");
        assertEq(ledger.mergedBlockOf(task, round), mergeBy, "a late post moves no clock");
    }

    function test_sealLate_twice_reverts() public {
        playToMerged();
        sealLate();
        expectError(IRoundLedger.AlreadySealed.selector);
        ledger.sealLate(task, round, "");
    }

    function test_settleClaim_nobodyEverCallsAnything_succeeds() public {
        playToTrain(2);
        commit(0);
        settleAll();
        assertStatus(0, ClaimStatus.VOID);
        assertStatus(1, ClaimStatus.DROPPED);
        assertEq(lossOf(solvers[1]), FEE, "F");
        assertWhole(solvers[0]);
        assertAllFree();
        assertTrue(ledger.mergedBlockOf(task, round) != 0, "and the old root is merged");
    }

    function test_includedOf_ascendingShards_succeeds() public {
        _playTwoToAccepted();
        uint32[] memory slots = ledger.includedOf(task, round);
        assertEq(slots.length, 2, "both");
        assertEq(registry.shardOf(task, round, slots[0]), 0, "first shard");
        assertEq(registry.shardOf(task, round, slots[1]), 1, "second shard");
    }

    function test_replaceOuter_notContest_reverts() public {
        playToMerged();
        vm.expectRevert(abi.encodeWithSelector(IRoundLedger.NotModule.selector, stranger));
        vm.prank(stranger);
        ledger.replaceOuter(task, round, stranger, "w", "m");
    }

    function test_setContested_holdsAdvance_succeeds() public {
        playToMerged();
        vm.prank(address(contest));
        ledger.setContested(task, round, true);
        rollTo(vm.getBlockNumber() + terms.windows.merge);
        assertEq(ledger.isMerged(task, round), false, "held");
        vm.prank(address(contest));
        ledger.setContested(task, round, false);
        assertEq(ledger.isMerged(task, round), true, "freed, no window restarts");
        expectError(IRoundLedger.AlreadyMerged.selector);
        vm.prank(address(contest));
        ledger.setContested(task, round, true);
    }

    // Late audits -------------------------------------------------------------------------------------------------
    function test_settleClaim_lateUnsealed_succeeds() public {
        playToMerged();
        settleAll();
        assertEq(vault.creditOf(solvers[0]), 50, "paid");
        assertWhole(whistleblowers[0]);
        assertAllFree();
    }

    function test_settleClaim_lateStartMissing_succeeds() public {
        playToLate();
        _assertForfeited("start");
        assertWhole(whistleblowers[0]);
    }

    /// @dev Its end is the solver's to open, whether the auditor does its part or not.
    function test_settleClaim_lateEndMissing_auditorSilent_succeeds() public {
        playToLate();
        openStart(lateRef(0));
        _assertForfeited("end");
        assertEq(lossOf(whistleblowers[0]), 10, "audit fee");
    }

    /// @dev Draws are numbered from 0 on and the late one comes behind them; it has one auditor.
    function test_drawnOf_unknownAudit_isNobodys() public {
        playToLate();
        assertEq(auditorOf(lateRef(0)), whistleblowers[0], "late");
        for (uint32 i = 0; i < 2; ++i) {
            address auditor = auditorOf(refOf(0, terms.segmentDraws + i, 1));
            assertEq(auditor, address(0), "no such rank, no such draw");
        }
        assertEq(auditorOf(refOf(0, 0, 3)), address(0), "three to a draw");
    }

    function test_drawnOf_lateRateOfZero_isNobodys() public {
        TaskTerms memory t = baseTerms();
        t.lateRate = 0;
        _fundTask(t);
        playToLate();
        assertEq(auditorOf(lateRef(0)), address(0), "not due");
    }

    function test_drawnOf_claimNotAccepted_hasNoLateAudit() public {
        playToTrain(2);
        commit(0);
        sealDraw();
        AuditRef memory ref = refOf(0, 0, 0);
        openStart(ref);
        playToReplay(endState(ref));
        openEnd(ref);
        reveal(ref, endState(ref));
        rollTo(deadlines().showEnd);
        ledger.judgeClaims(task, round, 0, 2);
        assertStatus(1, ClaimStatus.DROPPED);
        postOuter("weights", "momentum");
        sealLate();
        assertEq(auditorOf(lateRef(0)), whistleblowers[0], "of the accepted claim");
        assertEq(auditorOf(lateRef(1)), address(0), "of no other");
    }

    function test_settleClaim_lateEndMissing_succeeds() public {
        playToLate();
        openStart(lateRef(0));
        commitReplay(lateRef(0), endState(lateRef(0)));
        rollTo(lateDeadlines().replayEnd);
        reveal(lateRef(0), endState(lateRef(0)));
        _assertForfeited("end");
        assertEq(vault.creditOf(whistleblowers[0]), 7, "late pay");
    }

    function test_settleClaim_lateLeavesNotOpened_succeeds() public {
        _playLateShow(NEAR);
        rollTo(lateDeadlines().showEnd);
        sealLeaves(2);
        _assertForfeited("leaves");
        assertEq(vault.creditOf(whistleblowers[0]), 7, "late pay");
    }

    function test_settleClaim_lateLeafDrawUnsealed_succeeds() public {
        _playLateShow(NEAR);
        settleAll();
        assertEq(vault.creditOf(solvers[0]), 50, "paid");
        assertAllFree();
    }

    function test_settleClaim_lateNoComparison_succeeds() public {
        _playLateShow(NEAR);
        rollTo(lateDeadlines().showEnd);
        sealLeaves(2);
        openLeaves(lateRef(0), 2);
        settleAll();
        assertEq(vault.creditOf(solvers[0]), 50, "paid");
        assertEq(lossOf(whistleblowers[0]), 200, "audit stake");
        assertAllFree();
    }

    function test_settleClaim_lateRejects_paysSolver_succeeds() public {
        _playLateShow(FAR);
        rollTo(lateDeadlines().showEnd);
        sealLeaves(2);
        openLeaves(lateRef(0), 2);
        compareLeaves(lateRef(0), moved(endState(lateRef(0)), FAR));
        assertAudit(lateRef(0), AuditStatus.REJECTS);
        settleAll();
        assertEq(vault.creditOf(solvers[0]), 50, "a late audit alone takes nothing");
        assertAllFree();
    }

    function test_settleClaim_lateNoReplay_succeeds() public {
        playToLate();
        openStart(lateRef(0));
        rollTo(lateDeadlines().replayEnd);
        openEnd(lateRef(0));
        settleAll();
        assertEq(vault.creditOf(solvers[0]), 50, "paid");
        assertEq(lossOf(whistleblowers[0]), FEE, "F");
        assertAllFree();
    }

    function test_settleClaim_lateNoReveal_succeeds() public {
        playToLate();
        openStart(lateRef(0));
        commitReplay(lateRef(0), endState(lateRef(0)));
        rollTo(lateDeadlines().replayEnd);
        openEnd(lateRef(0));
        settleAll();
        assertEq(vault.creditOf(solvers[0]), 50, "paid");
        assertEq(lossOf(whistleblowers[0]), 200, "audit stake");
        assertAllFree();
    }

    // Settlement --------------------------------------------------------------------------------------------------
    function test_settleClaim_beforeDisputeEnd_reverts() public {
        playToMerged();
        rollTo(ledger.settleBlockOf(task, round) - 1);
        expectError(IRoundLedger.OutsideWindow.selector);
        ledger.settleClaim(task, round, 0);
    }

    function test_settleClaim_twice_reverts() public {
        playToMerged();
        settleAll();
        vm.expectRevert(abi.encodeWithSelector(IRoundLedger.AlreadySettled.selector, 0));
        ledger.settleClaim(task, round, 0);
    }

    function test_convictSolver_settled_reverts() public {
        playToMerged();
        settleAll();
        vm.expectRevert(abi.encodeWithSelector(IRoundLedger.AlreadySettled.selector, 0));
        vm.prank(address(disputes));
        ledger.convictSolver(task, round, 0, stranger, "test");
    }

    function test_settleEnrolments_claimUnsettled_reverts() public {
        playToMerged();
        rollTo(ledger.settleBlockOf(task, round));
        vm.expectRevert(abi.encodeWithSelector(IRoundLedger.RoundNotSettled.selector, 0, 1));
        ledger.settleEnrolments(task, round, 0, 100);
    }

    function test_settleEnrolments_pages_succeeds() public {
        playToMerged();
        rollTo(ledger.settleBlockOf(task, round));
        ledger.settleClaim(task, round, 0);
        ledger.settleEnrolments(task, round, 4, 6);
        assertEq(vault.lockedOf(verifiers[0]), 100, "another page");
        assertEq(vault.lockedOf(verifiers[4]) + vault.lockedOf(whistleblowers[0]), 0, "this page");
        ledger.settleEnrolments(task, round, 0, type(uint32).max);
        ledger.settleMerge(task, round);
        assertAllFree();
    }

    function test_closeTask_everythingSettled_refundsAtOnce_succeeds() public {
        playToMerged();
        rollTo(vm.getBlockNumber() + terms.windows.merge);
        registry.advance(task);
        round = 1;
        rollTo(deadlines().beaconEnd);
        round = 0;
        rollTo(ledger.settleBlockOf(task, round));
        _assertNotClosable(0, 1);
        ledger.settleClaim(task, round, 0);
        _assertNotClosable(1, 1);
        ledger.settleMerge(task, round);
        registry.closeTask(task);
        assertEq(vault.creditOf(submitter), registry.escrowFor(terms) - 50 - 5 - 11, "what nobody earned");
    }

    function _assertNotClosable(uint256 settledClaims, uint256 openMerges) private {
        (uint256 claims, uint256 merges) = ledger.progressOf(task);
        assertEq(claims, settledClaims, "settled claims");
        assertEq(merges, openMerges, "open merges");
        expectError(ITaskRegistry.NotYet.selector);
        registry.closeTask(task);
    }

    function test_settleClaim_afterTaskClosed_releases_succeeds() public {
        playToMerged();
        rollTo(registry.expiryBlock(task));
        registry.closeTask(task);
        settleAll();
        assertEq(vault.creditOf(solvers[0]), 0, "the escrow is gone");
        assertAllFree();
    }

    // Convictions -------------------------------------------------------------------------------------------------
    function test_convictSolver_notModule_reverts() public {
        playToMerged();
        vm.expectRevert(abi.encodeWithSelector(IRoundLedger.NotModule.selector, stranger));
        vm.prank(stranger);
        ledger.convictSolver(task, round, 0, stranger, "x");
    }

    function test_convictSolver_beforeMerge_excludes_succeeds() public {
        playToAccepted();
        _convict(0);
        assertEq(ledger.includedOf(task, round).length, 0, "left the set");
        (address poster, bytes32 weights,, uint256 postedBlock,) = ledger.outerOf(task, round);
        assertEq(poster, address(0), "nobody posted");
        assertEq(weights, terms.initialWeightsRoot, "now the empty set is merged");
        assertTrue(postedBlock != 0, "at once");
        _assertConvictedEnds();
    }

    /// @dev Whichever of two it is: the other stays.
    function test_convictSolver_oneOfTwo_excludesThatOne_succeeds() public {
        _playTwoToAccepted();
        uint256 accepted = vm.snapshotState();
        for (uint32 slot = 0; slot < 2; ++slot) {
            _convict(slot);
            uint32[] memory slots = ledger.includedOf(task, round);
            assertEq(slots.length, 1, "one left");
            assertEq(slots[0], 1 - slot, "the other");
            vm.revertToState(accepted);
        }
    }

    function test_convictSolver_afterMerge_staysIncluded_succeeds() public {
        playToMerged();
        _convict(0);
        assertEq(ledger.includedOf(task, round).length, 1, "the model is never rewound");
        _assertConvictedEnds();
    }

    function test_convictSolver_beforeVerdict_endsJudging_succeeds() public {
        playToShow(0);
        _convict(0);
        rollTo(deadlines().reserveCompareEnd);
        vm.expectRevert(abi.encodeWithSelector(IRoundLedger.NothingDue.selector, 0, ClaimStatus.CONVICTED));
        ledger.judge(task, round, 0);
        _assertConvictedEnds();
    }

    function test_convictSolver_twice_reverts() public {
        playToMerged();
        _convict(0);
        vm.expectRevert(
            abi.encodeWithSelector(IRoundLedger.WrongClaimStatus.selector, 0, ClaimStatus.CONVICTED)
        );
        vm.prank(address(disputes));
        ledger.convictSolver(task, round, 0, stranger, "x");
    }

    /// @dev Who committed to nothing lied about nothing.
    function test_convictSolver_noCommitment_reverts() public {
        playToTrain(1);
        vm.expectRevert(abi.encodeWithSelector(IRoundLedger.WrongClaimStatus.selector, 0, ClaimStatus.NONE));
        vm.prank(address(disputes));
        ledger.convictSolver(task, round, 0, stranger, "x");
        rollTo(deadlines().trainEnd);
        ledger.judge(task, round, 0);
        vm.expectRevert(
            abi.encodeWithSelector(IRoundLedger.WrongClaimStatus.selector, 0, ClaimStatus.DROPPED)
        );
        vm.prank(address(disputes));
        ledger.convictSolver(task, round, 0, stranger, "x");
    }

    function test_convictSolver_lateAuditGoesOn_succeeds() public {
        _playLateShow(0);
        _convict(0);
        settleAll();
        assertEq(vault.creditOf(whistleblowers[0]), 7, "late pay");
        assertEq(vault.creditOf(solvers[0]), 0, "no pay");
    }

    // Carried moments ---------------------------------------------------------------------------------------------
    function test_expectedStart_carriedMoments_succeeds() public {
        TaskTerms memory t = baseTerms();
        t.carryMoments = 1;
        _fundTask(t);
        _playToSecondRound();
        StateHeader memory last = headerOf(stateAt(0, 4));
        StateHeader memory start = ledger.expectedStart(task, 1, solvers[0]);
        assertEq(start.firstMomentRoot, last.firstMomentRoot, "m carried");
        assertEq(start.secondMomentRoot, last.secondMomentRoot, "v carried");
        assertEq(start.localStep, 4, "local step carried");
        assertEq(start.globalStep, 4, "global step");
        assertEq(start.weightsRoot, "weights", "the outer root");
        assertEq(
            ledger.expectedStart(task, 1, solvers[1]).firstMomentRoot,
            terms.zeroRoot,
            "a solver without history"
        );
    }

    /// @dev A dispute over a later round counts its local steps from those that the claim began with.
    function test_stepsOf_carriedMoments_goOn() public {
        TaskTerms memory t = baseTerms();
        t.carryMoments = 1;
        _fundTask(t);
        playToAccepted();
        State memory start = stateAt(0, terms.innerSteps);
        start.weight = starts[0].weight;
        postOuter(terms.initialWeightsRoot, terms.zeroRoot);
        rollTo(vm.getBlockNumber() + terms.windows.merge);
        registry.advance(task);
        (round, starts[0]) = (1, start);
        playToTrain(1);
        commit(0);
        (uint32 localStep, uint32 globalStep) = ledger.stepsOf(task, round, 0, 2);
        assertEq(localStep, 6, "local");
        assertEq(globalStep, 6, "global");
    }

    function test_expectedStart_resetMoments_succeeds() public {
        _playToSecondRound();
        StateHeader memory start = ledger.expectedStart(task, 1, solvers[0]);
        assertEq(start.firstMomentRoot, terms.zeroRoot, "m reset");
        assertEq(start.localStep, 0, "local step reset");
        assertEq(start.globalStep, 4, "global step goes on");
    }

    // Gas ---------------------------------------------------------------------------------------------------------
    function test_commit_gas_succeeds() public {
        playToTrain(1);
        bytes32 root = Trees.root(claimLeaves(0));
        BoundaryProof memory start = boundaryProof(0, 0);
        vm.prank(solvers[0]);
        uint256 before = gasleft();
        ledger.commit(task, round, root, "delta", start);
        assertTrue(before - gasleft() < 180_000, "a commitment stays cheap");
    }

    /// @dev The dearest settlement: twenty draws, every auditor silent, nobody judged before. It must fit a transaction (EIP-7825), or
    /// the stakes of the claim would never come free.
    function test_settleClaim_twentyDrawsAllSilent_fitsTransaction_succeeds() public {
        TaskTerms memory t = baseTerms();
        (t.innerSteps, t.segmentDraws) = (78, 20);
        t.scheduleRoot = Trees.root(scheduleLeaves(t));
        _fundTask(t);
        playToDraw();
        for (uint32 draw = 0; draw < 20; ++draw) {
            openStart(refOf(0, draw, 0));
        }
        rollTo(deadlines().replayEnd);
        for (uint32 draw = 0; draw < 20; ++draw) {
            openEnd(refOf(0, draw, 0));
        }
        rollTo(ledger.settleBlockOf(task, round));
        uint256 before = gasleft();
        ledger.settleClaim(task, round, 0);
        assertTrue(before - gasleft() < 16_000_000, "fits");
        assertStatus(0, ClaimStatus.VOID);
    }

    // Helpers -----------------------------------------------------------------------------------------------------
    function _fundTask(TaskTerms memory t) private {
        _fund(submitter);
        _createTask(t);
    }

    function _playTwoDraws() private {
        TaskTerms memory t = baseTerms();
        (t.innerSteps, t.segmentDraws) = (6, 2);
        t.scheduleRoot = Trees.root(scheduleLeaves(t));
        _fundTask(t);
        playToDraw();
    }

    function _playTwoToAccepted() private {
        playTwoToShow();
        rollTo(deadlines().showEnd);
        ledger.judge(task, round, 1);
        ledger.judge(task, round, 0);
    }

    function _playToSecondRound() private {
        playToMerged();
        rollTo(vm.getBlockNumber() + terms.windows.merge);
        registry.advance(task);
    }

    function _playReservesCommit(uint32 first, uint32 second) private {
        playReserve(1, first);
        playReserve(2, second);
        rollTo(deadlines().reserveReplayEnd);
        reveal(refOf(0, 0, 1), moved(endState(refOf(0, 0, 1)), first));
        reveal(refOf(0, 0, 2), moved(endState(refOf(0, 0, 2)), second));
        rollTo(deadlines().reserveShowEnd);
        sealLeaves(1);
    }

    function _playReservesAccept() private {
        _playReservesCommit(0, NEAR);
        openLeaves(refOf(0, 0, 2), 1);
        compareLeaves(refOf(0, 0, 2), moved(endState(refOf(0, 0, 2)), NEAR));
        rollTo(deadlines().reserveCompareEnd);
        ledger.judge(task, round, 0);
    }

    function _playLateShow(uint32 shift) private {
        playToLate();
        AuditRef memory late = lateRef(0);
        openStart(late);
        commitReplay(late, moved(endState(late), shift));
        rollTo(lateDeadlines().replayEnd);
        openEnd(late);
        reveal(late, moved(endState(late), shift));
    }

    function _convict(uint32 slot) private {
        vm.prank(address(disputes));
        ledger.convictSolver(task, round, slot, stranger, "test");
        assertStatus(slot, ClaimStatus.CONVICTED);
    }

    /// @dev What the primary and both reserves say; a primary does not accept here.
    function _playWords(uint8[3] memory words) private {
        openStart(refOf(0, 0, 0));
        _say(0, words[0]);
        rollTo(deadlines().replayEnd);
        openEnd(refOf(0, 0, 0));
        rollTo(deadlines().compareEnd);
        ledger.judge(task, round, 0);
        assertStatus(0, ClaimStatus.ESCALATED);
        _say(1, words[1]);
        _say(2, words[2]);
        rollTo(deadlines().reserveReplayEnd);
        for (uint32 rank = 1; rank < 3; ++rank) {
            if (words[rank] == ACCEPTS) reveal(refOf(0, 0, rank), endState(refOf(0, 0, rank)));
        }
        rollTo(deadlines().reserveCompareEnd);
    }

    function _say(uint32 rank, uint8 word) private {
        if (word == UNSERVED) sayUnserved(refOf(0, 0, rank));
        if (word == ABSTAINS) abstain(refOf(0, 0, rank));
        if (word == ACCEPTS) playReserve(rank, 0);
    }

    /// @dev The claim is void for this reason; the solver loses nothing and gets this pay, and of its pay this much is burned.
    function _assertVoidFor(bytes32 reason, uint256 payWei, uint256 burnedWei) private {
        vm.expectEmit(true, true, true, true, address(ledger));
        emit IRoundLedger.ClaimJudged(task, round, 0, ClaimStatus.VOID, reason);
        ledger.judge(task, round, 0);
        settleAll();
        assertEq(lossOf(solvers[0]), 0, "solver's loss");
        assertEq(vault.creditOf(solvers[0]), payWei, "solver's pay");
        uint256 audited = vault.creditOf(verifiers[0]);
        for (uint256 i = 1; i < verifiers.length; ++i) {
            audited += vault.creditOf(verifiers[i]);
        }
        uint256 leftWei = registry.escrowFor(terms) - payWei - burnedWei - audited;
        assertEq(vault.escrowOf(task), leftWei, "what the submitter gets back");
        assertAllFree();
    }

    function _useFee(uint128 feeWei) private {
        TaskTerms memory t = baseTerms();
        t.amounts.noShowFee = feeWei;
        _fundTask(t);
    }

    /// @dev The verdict is VOID, the solver loses this much and all else comes free.
    function _assertVoid(uint256 lossWei) private {
        ledger.judge(task, round, 0);
        assertStatus(0, ClaimStatus.VOID);
        _assertSolverEnds(lossWei);
    }

    function _assertSolverEnds(uint256 lossWei) private {
        settleAll();
        assertEq(lossOf(solvers[0]), lossWei, "solver's loss");
        assertEq(vault.creditOf(solvers[0]), 0, "no pay");
        assertAllFree();
    }

    function _assertForfeited(bytes32 reason) private {
        rollTo(ledger.settleBlockOf(task, round));
        vm.expectEmit(true, true, true, true, address(ledger));
        emit IRoundLedger.PayForfeited(task, round, 0, reason);
        ledger.settleClaim(task, round, 0);
        ledger.settleEnrolments(task, round, 0, 100);
        ledger.settleMerge(task, round);
        assertStatus(0, ClaimStatus.ACCEPTED);
        assertEq(vault.creditOf(solvers[0]), 0, "pay forfeited");
        assertEq(lossOf(solvers[0]), FEE, "and F");
        assertAllFree();
    }

    function _assertConvictedEnds() private {
        assertEq(lossOf(solvers[0]), 1000, "the whole stake");
        assertEq(vault.creditOf(stranger), 250, "finder: a quarter");
        assertEq(vault.creditOf(submitter), 50, "submitter: at most the unpaid pay");
        uint256 creditWei = vault.creditOf(solvers[0]);
        settleAll();
        assertEq(vault.creditOf(solvers[0]), creditWei, "never paid");
    }
}
