// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {
    AuditRef,
    AuditStatus,
    BoundaryProof,
    ClaimStatus,
    LeafProof,
    StateHeader,
    StateLeaves,
    TaskTerms
} from "../../contracts/Types.sol";
import {IAuditBook} from "../../contracts/interfaces/IAuditBook.sol";
import {IRoundLedger} from "../../contracts/interfaces/IRoundLedger.sol";
import {IStakeVault} from "../../contracts/interfaces/IStakeVault.sol";
import {Hashing} from "../../contracts/libraries/Hashing.sol";
import {Trees} from "./Trees.sol";
import {World} from "./World.sol";

/// @title The moves of one audit: who may make them, when, and what the contract checks of them.
contract AuditBookTest is World {
    uint32 private _lie;

    /// @dev A cheat that claims a wrong local step at its last boundary.
    function boundaryState(uint32 slot, uint32 boundary) internal view override returns (State memory s) {
        s = super.boundaryState(slot, boundary);
        if (boundary == segmentCount()) s.localStep += _lie;
    }

    // Start -------------------------------------------------------------------------------------------------------
    function test_openStart_twice_reverts() public {
        playToStart();
        BoundaryProof memory proof = boundaryProof(0, segmentOf(refOf(0, 0, 0)));
        vm.expectRevert(abi.encodeWithSelector(IAuditBook.AlreadyOpened.selector, 0, 0));
        vm.prank(solvers[0]);
        audits.openStart(task, round, 0, proof);
    }

    function test_openStart_otherBoundary_reverts() public {
        playToDraw();
        BoundaryProof memory proof = boundaryProof(0, segmentOf(refOf(0, 0, 0)) + 1);
        expectError(IRoundLedger.BoundaryMismatch.selector);
        vm.prank(solvers[0]);
        audits.openStart(task, round, 0, proof);
    }

    function test_openStart_notSolver_reverts() public {
        playToDraw();
        BoundaryProof memory proof = boundaryProof(0, segmentOf(refOf(0, 0, 0)));
        expectError(IAuditBook.NotSolver.selector);
        vm.prank(stranger);
        audits.openStart(task, round, 0, proof);
    }

    function test_openStart_notDrawn_reverts() public {
        playToDraw();
        BoundaryProof memory proof = boundaryProof(0, 0);
        for (uint32 draw = 1; draw < 3; ++draw) {
            vm.expectRevert(abi.encodeWithSelector(IAuditBook.NotDrawn.selector, 0, draw, 0));
            vm.prank(solvers[0]);
            audits.openStart(task, round, draw, proof);
        }
    }

    function test_openStart_tooLate_reverts() public {
        playToDraw();
        BoundaryProof memory proof = boundaryProof(0, segmentOf(refOf(0, 0, 0)));
        rollTo(deadlines().startEnd);
        expectError(IAuditBook.OutsideWindow.selector);
        vm.prank(solvers[0]);
        audits.openStart(task, round, 0, proof);
    }

    // Replay ------------------------------------------------------------------------------------------------------
    function test_commitReplay_startNotOpened_reverts() public {
        playToDraw();
        AuditRef memory ref = refOf(0, 0, 0);
        address auditor = auditorOf(ref);
        vm.expectRevert(abi.encodeWithSelector(IAuditBook.StartNotOpened.selector, 0, 0));
        vm.prank(auditor);
        audits.commitReplay(ref, "commitment");
    }

    function test_commitReplay_notAuditor_reverts() public {
        playToStart();
        AuditRef memory ref = refOf(0, 0, 0);
        vm.expectRevert(abi.encodeWithSelector(IAuditBook.NotAuditor.selector, auditorOf(ref), stranger));
        vm.prank(stranger);
        audits.commitReplay(ref, "commitment");
    }

    function test_commitReplay_twice_reverts() public {
        playToStart();
        AuditRef memory ref = refOf(0, 0, 0);
        commitReplay(ref, endState(ref));
        address auditor = auditorOf(ref);
        expectError(IAuditBook.WrongAuditStatus.selector);
        vm.prank(auditor);
        audits.commitReplay(ref, "another");
    }

    function test_commitReplay_tooLate_reverts() public {
        playToStart();
        AuditRef memory ref = refOf(0, 0, 0);
        address auditor = auditorOf(ref);
        rollTo(deadlines().replayEnd);
        expectError(IAuditBook.OutsideWindow.selector);
        vm.prank(auditor);
        audits.commitReplay(ref, "commitment");
    }

    function test_commitReplay_tooLittleStake_reverts() public {
        playToStart();
        AuditRef memory ref = refOf(0, 0, 0);
        address auditor = auditorOf(ref);
        uint256 free = vault.freeOf(auditor);
        vm.prank(auditor);
        vault.requestUnbond(free - 199);
        vm.expectRevert(abi.encodeWithSelector(IStakeVault.TooLittleStake.selector, auditor, 199, 200));
        vm.prank(auditor);
        audits.commitReplay(ref, "commitment");
    }

    function test_commitReplay_reserveOfAcceptedDraw_reverts() public {
        playToAccepted();
        rollTo(deadlines().compareEnd);
        AuditRef memory ref = refOf(0, 0, 1);
        address auditor = auditorOf(ref);
        vm.expectRevert(abi.encodeWithSelector(IAuditBook.NotEscalated.selector, 0, 0));
        vm.prank(auditor);
        audits.commitReplay(ref, "commitment");
    }

    /// @dev The reserves start when the first verdict is due, whatever came earlier.
    function test_commitReplay_reserveTooEarly_reverts() public {
        playToStart();
        AuditRef memory ref = refOf(0, 0, 1);
        address auditor = auditorOf(ref);
        expectError(IAuditBook.OutsideWindow.selector);
        vm.prank(auditor);
        audits.commitReplay(ref, "commitment");
    }

    // Show --------------------------------------------------------------------------------------------------------
    function test_openEnd_beforeReplayEnd_reverts() public {
        playToStart();
        AuditRef memory ref = refOf(0, 0, 0);
        BoundaryProof memory end = boundaryProof(0, segmentOf(ref) + 1);
        BoundaryProof memory last = boundaryProof(0, 2);
        expectError(IAuditBook.OutsideWindow.selector);
        vm.prank(solvers[0]);
        audits.openEnd(task, round, 0, end, last);
    }

    function test_openEnd_startNotOpened_reverts() public {
        playToDraw();
        rollTo(deadlines().replayEnd);
        _refuseEnd(abi.encodeWithSelector(IAuditBook.StartNotOpened.selector, 0, 0));
    }

    function test_openEnd_twice_reverts() public {
        playToShow(NEAR);
        _refuseEnd(abi.encodeWithSelector(IAuditBook.AlreadyOpened.selector, 0, 0));
    }

    /// @dev The right boundaries, at the wrong time or where they say what they must not.
    function _refuseEnd(bytes memory reason) private {
        BoundaryProof memory end = boundaryProof(0, segmentOf(refOf(0, 0, 0)) + 1);
        BoundaryProof memory last = boundaryProof(0, segmentCount());
        vm.expectRevert(reason);
        vm.prank(solvers[0]);
        audits.openEnd(task, round, 0, end, last);
    }

    /// @dev What the merge reads: any other state there would be merged in its place.
    function test_openEnd_otherLast_reverts() public {
        playToStart();
        BoundaryProof memory end = boundaryProof(0, segmentOf(refOf(0, 0, 0)) + 1);
        BoundaryProof memory last = boundaryProof(0, segmentCount() - 1);
        rollTo(deadlines().replayEnd);
        expectError(IRoundLedger.BoundaryMismatch.selector);
        vm.prank(solvers[0]);
        audits.openEnd(task, round, 0, end, last);
    }

    function test_openEnd_wrongSteps_reverts() public {
        _lie = 1;
        playToDraw();
        openStart(refOf(0, 0, 0));
        rollTo(deadlines().replayEnd);
        _refuseEnd(abi.encodeWithSelector(IAuditBook.WrongSteps.selector, 4, 5, 4, 4));
    }

    /// @dev Before all have committed a result could be copied; behind the window nobody waits for it.
    function test_reveal_outsideItsWindow_reverts() public {
        playToStart();
        AuditRef memory ref = refOf(0, 0, 0);
        (uint256 opens, uint256 closes) = (deadlines().replayEnd, deadlines().showEnd);
        StateHeader memory end = headerOf(endState(ref));
        address auditor = auditorOf(ref);
        commitReplay(ref, endState(ref));
        for (uint256 i = 0; i < 2; ++i) {
            rollTo(i == 0 ? opens - 1 : closes);
            vm.expectRevert(
                abi.encodeWithSelector(IAuditBook.OutsideWindow.selector, opens, closes, vm.getBlockNumber())
            );
            vm.prank(auditor);
            audits.reveal(ref, end, "audit salt");
        }
    }

    function test_reveal_otherResult_reverts() public {
        playToStart();
        AuditRef memory ref = refOf(0, 0, 0);
        playToReplay(endState(ref));
        StateHeader memory other = headerOf(moved(endState(ref), NEAR));
        address auditor = auditorOf(ref);
        expectError(IAuditBook.CommitmentMismatch.selector);
        vm.prank(auditor);
        audits.reveal(ref, other, "audit salt");
    }

    /// @dev A commitment names its auditor: handed to another, it cannot be opened.
    function test_reveal_copiedCommitment_reverts() public {
        playToEscalated();
        AuditRef memory ref = refOf(0, 0, 1);
        AuditRef memory other = refOf(0, 0, 2);
        bytes32 root = Hashing.stateRoot(headerOf(endState(ref)));
        bytes32 copied =
            Hashing.auditCommitment(registry.domainOf(task), other, auditorOf(other), root, "audit salt");
        vm.prank(auditorOf(ref));
        audits.commitReplay(ref, copied);
        rollTo(deadlines().reserveReplayEnd);
        StateHeader memory end = headerOf(endState(ref));
        address auditor = auditorOf(ref);
        expectError(IAuditBook.CommitmentMismatch.selector);
        vm.prank(auditor);
        audits.reveal(ref, end, "audit salt");
    }

    /// @dev What stands in its place before is the commitment.
    function test_revealedOf_notRevealed_isNone() public {
        playToStart();
        AuditRef memory ref = refOf(0, 0, 0);
        playToReplay(endState(ref));
        assertEq(audits.revealedOf(ref), bytes32(0), "committed");
        openEnd(ref);
        assertEq(audits.revealedOf(ref), bytes32(0), "the solver has shown, the auditor has not");
        reveal(ref, endState(ref));
        assertEq(audits.revealedOf(ref), Hashing.stateRoot(headerOf(endState(ref))), "revealed");
    }

    function test_reveal_beforeEndIsOpened_acceptsWhenItIs_succeeds() public {
        playToStart();
        AuditRef memory ref = refOf(0, 0, 0);
        playToReplay(endState(ref));
        reveal(ref, endState(ref));
        assertAudit(ref, AuditStatus.REVEALED);
        openEnd(ref);
        assertAudit(ref, AuditStatus.ACCEPTS);
    }

    // Leaves ------------------------------------------------------------------------------------------------------
    function test_sealLeaves_twice_reverts() public {
        playToLeaves(NEAR);
        bytes32 seed = audits.leafSeedOf(task, round, 0);
        vm.expectRevert(abi.encodeWithSelector(IAuditBook.AlreadySealed.selector, seed));
        audits.sealLeaves(task, round, 0, "");
    }

    function test_sealLeaves_windowOver_reverts() public {
        playToShow(NEAR);
        rollTo(deadlines().leavesEnd);
        expectError(IAuditBook.OutsideWindow.selector);
        audits.sealLeaves(task, round, 0, "");
    }

    /// @dev Whatever the number of the block: the window closes at block 0.
    function test_sealLeaves_lateBeforeMerge_reverts() public {
        playToShow(NEAR);
        vm.expectRevert(
            abi.encodeWithSelector(IAuditBook.OutsideWindow.selector, 1, 0, vm.getBlockNumber())
        );
        audits.sealLeaves(task, round, 2, "");
    }

    function test_sealLeaves_unknownPhase_reverts() public {
        playToShow(NEAR);
        expectError(IAuditBook.WrongPhase.selector);
        audits.sealLeaves(task, round, 3, "");
    }

    function test_openLeaves_latePhaseOfPrimaryDraw_reverts() public {
        playToLeaves(NEAR);
        StateLeaves[] memory leaves = leavesOf(endState(refOf(0, 0, 0)), 1);
        StateHeader memory end = headerOf(endState(refOf(0, 0, 0)));
        vm.expectRevert(abi.encodeWithSelector(IAuditBook.WrongPhase.selector, 0, 2));
        vm.prank(solvers[0]);
        audits.openLeaves(task, round, 0, 2, end, leaves);
    }

    /// @dev Which leaves are asked for is known to nobody before their draw is sealed.
    function test_openLeaves_drawUnsealed_reverts() public {
        playToShow(NEAR);
        rollTo(deadlines().leavesBlock + 1);
        _refuseLeaves(abi.encodeWithSelector(IAuditBook.LeavesNotOpened.selector, 0, 0, 0));
    }

    function test_openLeaves_endNotOpened_reverts() public {
        playToStart();
        playToReplay(endState(refOf(0, 0, 0)));
        rollTo(deadlines().showEnd);
        sealLeaves(0);
        _refuseLeaves(abi.encodeWithSelector(IAuditBook.EndNotOpened.selector, 0, 0));
    }

    function test_openLeaves_twice_reverts() public {
        playToLeaves(NEAR);
        openLeaves(refOf(0, 0, 0), 0);
        _refuseLeaves(abi.encodeWithSelector(IAuditBook.AlreadyOpened.selector, 0, 0));
    }

    function test_openLeaves_tooLate_reverts() public {
        playToLeaves(NEAR);
        (uint256 opens, uint256 closes) = (deadlines().leavesBlock, deadlines().openEnd);
        rollTo(closes);
        _refuseLeaves(abi.encodeWithSelector(IAuditBook.OutsideWindow.selector, opens, closes, closes));
    }

    /// @dev The right leaves, at the wrong time.
    function _refuseLeaves(bytes memory reason) private {
        State memory state = endState(refOf(0, 0, 0));
        (StateHeader memory end, StateLeaves[] memory leaves) = (headerOf(state), leavesOf(state, 1));
        vm.expectRevert(reason);
        vm.prank(solvers[0]);
        audits.openLeaves(task, round, 0, 0, end, leaves);
    }

    function test_openLeaves_wrongLeaf_reverts() public {
        playToLeaves(NEAR);
        StateLeaves[] memory leaves = leavesOf(moved(endState(refOf(0, 0, 0)), 1), 1);
        StateHeader memory end = headerOf(endState(refOf(0, 0, 0)));
        expectError(IAuditBook.LeafMismatch.selector);
        vm.prank(solvers[0]);
        audits.openLeaves(task, round, 0, 0, end, leaves);
    }

    /// @dev Each of the three tensors is under its own root.
    function test_openLeaves_oneTensorForged_reverts() public {
        playToLeaves(NEAR);
        State memory state = endState(refOf(0, 0, 0));
        StateHeader memory end = headerOf(state);
        for (uint256 tensor = 0; tensor < 3; ++tensor) {
            StateLeaves[] memory leaves = leavesOf(state, 1);
            LeafProof memory leaf =
                [leaves[0].weights, leaves[0].firstMoment, leaves[0].secondMoment][tensor];
            leaf.data = bytes.concat(leaf.data);
            leaf.data[5] ^= 0x01;
            expectError(IAuditBook.LeafMismatch.selector);
            vm.prank(solvers[0]);
            audits.openLeaves(task, round, 0, 0, end, leaves);
        }
    }

    /// @dev Leaves of another state, under its own header: only the hash of the one that was opened is kept.
    function test_openLeaves_otherHeader_reverts() public {
        playToLeaves(NEAR);
        State memory other = moved(endState(refOf(0, 0, 0)), 1);
        StateLeaves[] memory leaves = leavesOf(other, 1);
        StateHeader memory end = headerOf(other);
        expectError(IAuditBook.HeaderMismatch.selector);
        vm.prank(solvers[0]);
        audits.openLeaves(task, round, 0, 0, end, leaves);
    }

    function test_openLeaves_tooFew_reverts() public {
        playToLeaves(NEAR);
        StateHeader memory end = headerOf(endState(refOf(0, 0, 0)));
        vm.expectRevert(abi.encodeWithSelector(IAuditBook.WrongLeafCount.selector, 1, 0));
        vm.prank(solvers[0]);
        audits.openLeaves(task, round, 0, 0, end, new StateLeaves[](0));
    }

    function test_compareLeaves_notOpened_reverts() public {
        playToLeaves(NEAR);
        AuditRef memory ref = refOf(0, 0, 0);
        address auditor = auditorOf(ref);
        StateLeaves[] memory none = new StateLeaves[](0);
        StateHeader[2] memory ends;
        vm.expectRevert(abi.encodeWithSelector(IAuditBook.LeavesNotOpened.selector, 0, 0, 0));
        vm.prank(auditor);
        audits.compareLeaves(ref, ends, none, none, new uint32[](0), 0, new bytes32[](0));
    }

    function test_compareLeaves_tooLate_reverts() public {
        playToLeaves(NEAR);
        AuditRef memory ref = refOf(0, 0, 0);
        openLeaves(ref, 0);
        address auditor = auditorOf(ref);
        StateLeaves[] memory none = new StateLeaves[](0);
        StateHeader[2] memory ends;
        rollTo(deadlines().compareEnd);
        expectError(IAuditBook.OutsideWindow.selector);
        vm.prank(auditor);
        audits.compareLeaves(ref, ends, none, none, new uint32[](0), 0, new bytes32[](0));
    }

    /// @dev Either header that is not the one of the books: to be judged by another state would be to choose the verdict.
    function test_compareLeaves_otherHeader_reverts() public {
        playToLeaves(FAR);
        AuditRef memory ref = refOf(0, 0, 0);
        openLeaves(ref, 0);
        StateLeaves[] memory leaves = leavesOf(endState(ref), 1);
        bytes32[] memory path = Trees.path(scheduleLeaves(terms), segmentOf(ref));
        StateHeader memory claimed = headerOf(endState(ref));
        StateHeader memory replayed = headerOf(moved(endState(ref), FAR));
        address auditor = auditorOf(ref);
        for (uint256 i = 0; i < 2; ++i) {
            StateHeader memory same = i == 0 ? claimed : replayed;
            StateHeader[2] memory ends = [same, same];
            expectError(IAuditBook.HeaderMismatch.selector);
            vm.prank(auditor);
            audits.compareLeaves(ref, ends, leaves, leaves, new uint32[](0), LEARNING_RATE_SUM, path);
        }
    }

    /// @dev Pairs, and as many as were drawn: one leaf too many on either side.
    function test_compareLeaves_otherCount_reverts() public {
        State[2] memory ends = _playToBothEnds();
        bytes memory expected = abi.encodeWithSelector(IAuditBook.WrongLeafCount.selector, 1, 2);
        for (uint256 i = 0; i < 2; ++i) {
            bytes memory reason = _refusal(leavesOf(ends[0], i == 0 ? 2 : 1), leavesOf(ends[1], i == 1 ? 2 : 1));
            assertEq(keccak256(reason), keccak256(expected), "one too many");
        }
    }

    /// @dev Leaves of the other's end under the right header, on either side.
    function test_compareLeaves_othersLeaves_reverts() public {
        State[2] memory ends = _playToBothEnds();
        for (uint256 i = 0; i < 2; ++i) {
            bytes memory reason = _refusal(leavesOf(ends[i], 1), leavesOf(ends[i], 1));
            assertEq(bytes32(bytes4(reason)), bytes32(IAuditBook.LeafMismatch.selector), "the other's");
        }
    }

    /// @dev The claim's leaves are open; the claimed end and the auditor's.
    function _playToBothEnds() private returns (State[2] memory) {
        playToLeaves(NEAR);
        AuditRef memory ref = refOf(0, 0, 0);
        openLeaves(ref, 0);
        return [endState(ref), moved(endState(ref), NEAR)];
    }

    /// @dev Why the auditor's comparison of these leaves, under the right headers, is not taken.
    function _refusal(StateLeaves[] memory claimed, StateLeaves[] memory replayed)
        private
        returns (bytes memory)
    {
        AuditRef memory ref = refOf(0, 0, 0);
        bytes32[] memory path = Trees.path(scheduleLeaves(terms), segmentOf(ref));
        StateHeader[2] memory ends = _endsOf(ref);
        address auditor = auditorOf(ref);
        vm.prank(auditor);
        try audits.compareLeaves(ref, ends, claimed, replayed, new uint32[](0), LEARNING_RATE_SUM, path) {
            revert("it was taken");
        } catch (bytes memory reason) {
            return reason;
        }
    }

    function test_compareLeaves_near_succeeds() public {
        _compare(NEAR);
        assertAudit(refOf(0, 0, 0), AuditStatus.ACCEPTS);
    }

    function test_compareLeaves_grey_succeeds() public {
        _compare(GREY);
        assertAudit(refOf(0, 0, 0), AuditStatus.REJECTS);
    }

    function test_compareLeaves_far_succeeds() public {
        _compare(FAR);
        assertAudit(refOf(0, 0, 0), AuditStatus.REJECTS);
    }

    function test_compareLeaves_extraIndex_succeeds() public {
        playToLeaves(NEAR);
        AuditRef memory ref = refOf(0, 0, 0);
        openLeaves(ref, 0);
        uint32[] memory extra = new uint32[](1);
        extra[0] = 1;
        _compareWith(ref, 2, extra, LEARNING_RATE_SUM);
        assertAudit(ref, AuditStatus.ACCEPTS);
    }

    function test_compareLeaves_extraBeyondTree_reverts() public {
        playToLeaves(NEAR);
        AuditRef memory ref = refOf(0, 0, 0);
        openLeaves(ref, 0);
        uint32[] memory extra = new uint32[](1);
        extra[0] = 2;
        _compareWithError(ref, 2, extra, LEARNING_RATE_SUM, IAuditBook.LeafMismatch.selector);
    }

    /// @dev One leaf of the auditor's choice; a second one would be taken without a look.
    function test_compareLeaves_twoExtraIndices_reverts() public {
        playToLeaves(NEAR);
        AuditRef memory ref = refOf(0, 0, 0);
        openLeaves(ref, 0);
        uint32[] memory extra = new uint32[](2);
        (extra[0], extra[1]) = (1, 1);
        _compareWithError(ref, 2, extra, LEARNING_RATE_SUM, IAuditBook.WrongLeafCount.selector);
    }

    function test_compareLeaves_wrongSchedule_reverts() public {
        playToLeaves(NEAR);
        AuditRef memory ref = refOf(0, 0, 0);
        openLeaves(ref, 0);
        _compareWithError(
            ref, 1, new uint32[](0), LEARNING_RATE_SUM + 1, IAuditBook.ScheduleMismatch.selector
        );
    }

    // Modules only ------------------------------------------------------------------------------------------------
    function _enforce(AuditRef memory ref) private {
        vm.prank(address(ledger));
        audits.enforce(ref);
    }

    /// @dev Each silence counts from the first block after its window on.
    function test_enforce_noReplay_burnsFeeFromReplayEndOn() public {
        playToStart();
        AuditRef memory ref = refOf(0, 0, 0);
        rollTo(deadlines().replayEnd - 1);
        _enforce(ref);
        assertEq(lossOf(auditorOf(ref)), 0, "may still come");
        rollTo(deadlines().replayEnd);
        _enforce(ref);
        assertEq(lossOf(auditorOf(ref)), terms.amounts.noShowFee, "F");
    }

    function test_enforce_unrevealed_slashesFromShowEndOn() public {
        playToStart();
        AuditRef memory ref = refOf(0, 0, 0);
        playToReplay(endState(ref));
        rollTo(deadlines().showEnd - 1);
        _enforce(ref);
        assertAudit(ref, AuditStatus.COMMITTED);
        rollTo(deadlines().showEnd);
        _enforce(ref);
        assertAudit(ref, AuditStatus.SLASHED);
    }

    function test_enforce_leavesUndrawn_endsFromLeavesEndOn() public {
        playToShow(NEAR);
        AuditRef memory ref = refOf(0, 0, 0);
        rollTo(deadlines().leavesEnd - 1);
        _enforce(ref);
        assertAudit(ref, AuditStatus.REVEALED);
        rollTo(deadlines().leavesEnd);
        _enforce(ref);
        assertAudit(ref, AuditStatus.REJECTS);
    }

    function test_enforce_notLedger_reverts() public {
        playToStart();
        AuditRef memory ref = refOf(0, 0, 0);
        vm.expectRevert(abi.encodeWithSelector(IAuditBook.NotModule.selector, address(this)));
        audits.enforce(ref);
        vm.expectRevert(abi.encodeWithSelector(IAuditBook.NotModule.selector, address(this)));
        audits.settle(task, round, 0);
        vm.expectRevert(abi.encodeWithSelector(IAuditBook.NotModule.selector, address(this)));
        audits.convictAuditor(ref, stranger, "x");
    }

    function test_enforce_silentTwice_finesOnce_succeeds() public {
        playToStart();
        AuditRef memory ref = refOf(0, 0, 0);
        rollTo(deadlines().replayEnd);
        vm.startPrank(address(ledger));
        audits.enforce(ref);
        audits.enforce(ref);
        vm.stopPrank();
        assertEq(lossOf(auditorOf(ref)), 10, "F once");
    }

    function test_enforce_beforeDeadline_doesNothing_succeeds() public {
        playToStart();
        AuditRef memory ref = refOf(0, 0, 0);
        vm.prank(address(ledger));
        audits.enforce(ref);
        assertEq(lossOf(auditorOf(ref)), 0, "still time");
    }

    function test_convictAuditor_ofAcceptedAudit_keepsVerdict_succeeds() public {
        playToAccepted();
        vm.prank(address(disputes));
        audits.convictAuditor(refOf(0, 0, 0), stranger, "test");
        assertStatus(0, ClaimStatus.ACCEPTED);
        assertEq(lossOf(auditorOf(refOf(0, 0, 0))), 200, "its own claim, its own stake");
        settleAll();
        assertEq(vault.creditOf(solvers[0]), 50, "nobody answers for another's claim");
        assertAllFree();
    }

    /// @dev Who has said nothing, or was convicted before, cannot be convicted of what it said.
    function test_convictAuditor_ofNothingSaid_reverts() public {
        playToStart();
        _convictWithError(refOf(0, 0, 0), AuditStatus.NONE);
    }

    function test_convictAuditor_twice_reverts() public {
        playToAccepted();
        vm.prank(address(disputes));
        audits.convictAuditor(refOf(0, 0, 0), stranger, "test");
        _convictWithError(refOf(0, 0, 0), AuditStatus.SLASHED);
        assertEq(lossOf(auditorOf(refOf(0, 0, 0))), 200, "one stake");
    }

    function _convictWithError(AuditRef memory ref, AuditStatus status) private {
        vm.prank(address(disputes));
        vm.expectRevert(
            abi.encodeWithSelector(IAuditBook.WrongAuditStatus.selector, AuditStatus.REVEALED, status)
        );
        audits.convictAuditor(ref, stranger, "test");
    }

    /// @dev One stake for each audit: the same verifier drawn twice exposes twice.
    function test_commitReplay_oneVerifierManyAudits_succeeds() public {
        TaskTerms memory t = baseTerms();
        (t.innerSteps, t.segmentDraws) = (6, 2);
        t.scheduleRoot = Trees.root(scheduleLeaves(t));
        _fund(submitter);
        _createTask(t);
        playToDraw();
        uint256 before = vault.lockedOf(auditorOf(refOf(0, 0, 0))) + vault.lockedOf(auditorOf(refOf(0, 1, 0)));
        bool same = auditorOf(refOf(0, 0, 0)) == auditorOf(refOf(0, 1, 0));
        for (uint32 draw = 0; draw < 2; ++draw) {
            openStart(refOf(0, draw, 0));
            commitReplay(refOf(0, draw, 0), endState(refOf(0, draw, 0)));
        }
        uint256 locked = vault.lockedOf(auditorOf(refOf(0, 0, 0))) + vault.lockedOf(auditorOf(refOf(0, 1, 0)));
        assertEq(locked - before, same ? 800 : 400, "two exposures");
    }

    // Helpers -----------------------------------------------------------------------------------------------------
    function _compare(uint32 shift) private {
        playToLeaves(shift);
        openLeaves(refOf(0, 0, 0), 0);
        compareLeaves(refOf(0, 0, 0), moved(endState(refOf(0, 0, 0)), shift));
    }

    function _compareWithError(
        AuditRef memory ref,
        uint256 count,
        uint32[] memory extra,
        uint256 sum,
        bytes4 selector
    ) private {
        bytes32[] memory path = Trees.path(scheduleLeaves(terms), segmentOf(ref));
        StateLeaves[] memory claimed = leavesOf(endState(ref), count);
        StateLeaves[] memory replayed = leavesOf(moved(endState(ref), NEAR), count);
        address auditor = auditorOf(ref);
        StateHeader[2] memory ends = _endsOf(ref);
        expectError(selector);
        vm.prank(auditor);
        audits.compareLeaves(ref, ends, claimed, replayed, extra, sum, path);
    }

    function _compareWith(AuditRef memory ref, uint256 count, uint32[] memory extra, uint256 sum) private {
        bytes32[] memory path = Trees.path(scheduleLeaves(terms), segmentOf(ref));
        StateLeaves[] memory claimed = leavesOf(endState(ref), count);
        StateLeaves[] memory replayed = leavesOf(moved(endState(ref), NEAR), count);
        StateHeader[2] memory ends = _endsOf(ref);
        vm.prank(auditorOf(ref));
        audits.compareLeaves(ref, ends, claimed, replayed, extra, sum, path);
    }

    function _endsOf(AuditRef memory ref) private view returns (StateHeader[2] memory) {
        return [headerOf(endState(ref)), headerOf(moved(endState(ref), NEAR))];
    }
}
