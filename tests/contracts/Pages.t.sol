// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {
    AuditRef,
    AuditStatus,
    BoundaryProof,
    ClaimRef,
    ClaimStatus,
    Role,
    StateHeader,
    TaskTerms
} from "../../contracts/Types.sol";
import {IAuditBook} from "../../contracts/interfaces/IAuditBook.sol";
import {IRoundLedger} from "../../contracts/interfaces/IRoundLedger.sol";
import {Hashing} from "../../contracts/libraries/Hashing.sol";
import {Trees} from "./Trees.sol";
import {World} from "./World.sol";

/// @title Calls that do several moves at once: the same as the moves one by one, and no page that somebody else can block.
contract PagesTest is World {
    bytes32 private constant SALT = "audit salt";

    /// @dev Two solvers, two draws each: four audits among five verifiers.
    function _playToCommitted() private {
        TaskTerms memory t = baseTerms();
        (t.innerSteps, t.segmentDraws) = (6, 2);
        t.scheduleRoot = Trees.root(scheduleLeaves(t));
        _fund(submitter);
        _createTask(t);
        playToTrain(2);
        commit(0);
        commit(1);
        sealDraw();
    }

    function _openStarts(uint32 slot) private {
        BoundaryProof[] memory starts = new BoundaryProof[](2);
        for (uint32 draw = 0; draw < 2; ++draw) {
            starts[draw] = boundaryProof(slot, segmentOf(refOf(slot, draw, 0)));
        }
        vm.prank(solvers[slot]);
        audits.openStarts(task, round, starts);
    }

    function _openEnds(uint32 slot) private {
        BoundaryProof[] memory ends = new BoundaryProof[](2);
        for (uint32 draw = 0; draw < 2; ++draw) {
            ends[draw] = boundaryProof(slot, segmentOf(refOf(slot, draw, 0)) + 1);
        }
        BoundaryProof memory last = boundaryProof(slot, segmentCount());
        vm.prank(solvers[slot]);
        audits.openEnds(task, round, ends, last);
    }

    function _refsOf(address auditor) private view returns (AuditRef[] memory refs) {
        AuditRef[] memory found = new AuditRef[](4);
        uint256 count = 0;
        for (uint32 i = 0; i < 4; ++i) {
            AuditRef memory ref = refOf(i / 2, i % 2, 0);
            if (auditorOf(ref) == auditor) found[count++] = ref;
        }
        refs = new AuditRef[](count);
        for (uint256 i = 0; i < count; ++i) {
            refs[i] = found[i];
        }
    }

    function _commitmentsOf(AuditRef[] memory refs) private view returns (bytes32[] memory commitments) {
        commitments = new bytes32[](refs.length);
        for (uint256 i = 0; i < refs.length; ++i) {
            bytes32 root = Hashing.stateRoot(headerOf(endState(refs[i])));
            commitments[i] = Hashing.auditCommitment(
                registry.domainOf(task), refs[i], auditorOf(refs[i]), root, SALT
            );
        }
    }

    function _commitReplays() private {
        for (uint256 i = 0; i < verifiers.length; ++i) {
            AuditRef[] memory refs = _refsOf(verifiers[i]);
            bytes32[] memory commitments = _commitmentsOf(refs);
            vm.prank(verifiers[i]);
            audits.commitReplays(refs, commitments);
        }
    }

    function _reveals() private {
        for (uint256 i = 0; i < verifiers.length; ++i) {
            AuditRef[] memory refs = _refsOf(verifiers[i]);
            (StateHeader[] memory ends, bytes32[] memory salts) =
                (new StateHeader[](refs.length), new bytes32[](refs.length));
            for (uint256 k = 0; k < refs.length; ++k) {
                (ends[k], salts[k]) = (headerOf(endState(refs[k])), SALT);
            }
            vm.prank(verifiers[i]);
            audits.reveals(refs, ends, salts);
        }
    }

    function _playToJudged() private {
        _playToCommitted();
        _openStarts(0);
        _openStarts(1);
        _commitReplays();
        rollTo(deadlines().replayEnd);
        // Whoever comes second ends the audit: the solver here, the auditor there.
        _openEnds(0);
        _reveals();
        _openEnds(1);
        rollTo(deadlines().showEnd);
        ledger.judgeClaims(task, round, 0, 1);
        assertStatus(1, ClaimStatus.COMMITTED);
        ledger.judgeClaims(task, round, 0, 100);
    }

    function _playToSettlement() private {
        _playToJudged();
        postOuter("weights", "momentum");
        rollTo(ledger.settleBlockOf(task, round));
    }

    function test_pages_wholeRound_succeeds() public {
        _playToSettlement();
        for (uint32 slot = 0; slot < 2; ++slot) {
            bytes32 lastRoot = headerOf(boundaryState(slot, segmentCount())).weightsRoot;
            assertEq(audits.lastOf(task, round, slot).weightsRoot, lastRoot, "what the merge reads");
        }
        for (uint32 i = 0; i < 4; ++i) {
            assertAudit(refOf(i / 2, i % 2, 0), AuditStatus.ACCEPTS);
        }
        assertStatus(0, ClaimStatus.ACCEPTED);
        assertStatus(1, ClaimStatus.ACCEPTED);
        ledger.settleClaims(task, round, 0, 1);
        assertEq(vault.creditOf(solvers[0]), 50, "this page");
        assertEq(vault.creditOf(solvers[1]), 0, "the next page");
        ledger.settleClaims(task, round, 0, type(uint32).max);
        assertEq(vault.creditOf(solvers[0]) + vault.creditOf(solvers[1]), 100, "each once");
        ledger.settleEnrolments(task, round, 0, 1);
        assertEq(vault.lockedOf(registry.enrolledAt(task, round, Role.VERIFIER, 0)), 0, "this page");
        assertTrue(vault.lockedOf(registry.enrolledAt(task, round, Role.VERIFIER, 1)) > 0, "the next page");
        ledger.settleEnrolments(task, round, 0, 100);
        ledger.settleMerge(task, round);
        assertAllFree();
    }

    /// @dev A block too early a page settles nothing: a dispute may still be opened.
    function test_settleClaims_tooEarly_reverts() public {
        _playToSettlement();
        uint256 opens = ledger.settleBlockOf(task, round);
        vm.roll(opens - 1);
        vm.expectRevert(
            abi.encodeWithSelector(IRoundLedger.OutsideWindow.selector, opens, type(uint256).max, opens - 1)
        );
        ledger.settleClaims(task, round, 0, 2);
    }

    /// @dev An equal result is kept once, and yet each side answers for its own.
    function test_revealedOf_equalResult_succeeds() public {
        _playToJudged();
        for (uint32 i = 0; i < 4; ++i) {
            AuditRef memory ref = refOf(i / 2, i % 2, 0);
            assertEq(audits.revealedOf(ref), Hashing.stateRoot(headerOf(endState(ref))), "its own root");
        }
    }

    function test_settleClaims_disputedClaim_waits_others_succeed() public {
        _playToJudged();
        ClaimRef memory claim = ClaimRef(refOf(0, 0, 0), 0, true);
        disputes.sealOpening(sha256(abi.encode(claim, stranger, SALT)));
        postOuter("weights", "momentum");
        rollTo(ledger.settleBlockOf(task, round) - 1);
        vm.prank(stranger);
        disputes.openDispute(claim, SALT);
        rollTo(ledger.settleBlockOf(task, round));
        ledger.settleClaims(task, round, 0, 2);
        assertEq(vault.creditOf(solvers[0]), 0, "waits for its dispute");
        assertEq(vault.creditOf(solvers[1]), 50, "is not held up");
    }

    function test_commitReplays_oneNotMine_nothingIsDone_reverts() public {
        _playToCommitted();
        _openStarts(0);
        AuditRef[] memory refs = new AuditRef[](2);
        // The second is a reserve's, and nobody's turn.
        (refs[0], refs[1]) = (refOf(0, 0, 0), refOf(0, 0, 1));
        bytes32[] memory commitments = _commitmentsOf(refs);
        address auditor = auditorOf(refs[0]);
        expectError(IAuditBook.NotAuditor.selector);
        vm.prank(auditor);
        audits.commitReplays(refs, commitments);
        assertAudit(refs[0], AuditStatus.NONE);
    }

    /// @dev A page may go over several rounds: each audit has the windows of its own.
    function test_commitReplays_lastRoundsAudit_isTooLate_reverts() public {
        _playToCommitted();
        _openStarts(0);
        _openStarts(1);
        rollTo(deadlines().showEnd);
        ledger.judgeClaims(task, round, 0, 100);
        rollTo(deadlines().reserveCompareEnd);
        ledger.judgeClaims(task, round, 0, 100);
        rollTo(vm.getBlockNumber() + terms.windows.merge);
        registry.advance(task);
        AuditRef[] memory late;
        AuditRef[] memory refs = new AuditRef[](2);
        round = 1;
        for (uint32 slot = 0; slot < 2; ++slot) {
            starts[slot].globalStep = terms.innerSteps;
        }
        playToTrain(2);
        commit(0);
        commit(1);
        sealDraw();
        _openStarts(0);
        _openStarts(1);
        address auditor = auditorOf(refOf(0, 0, 0));
        refs[0] = refOf(0, 0, 0);
        round = 0;
        late = _refsOf(auditor);
        assertTrue(late.length > 0, "drawn in both rounds");
        refs[1] = late[0];
        expectError(IAuditBook.OutsideWindow.selector);
        vm.prank(auditor);
        audits.commitReplays(refs, new bytes32[](2));
    }

    function test_commitReplays_wrongCount_reverts() public {
        _playToCommitted();
        AuditRef[] memory refs = new AuditRef[](1);
        vm.expectRevert(abi.encodeWithSelector(IAuditBook.WrongCount.selector, 1, 0));
        audits.commitReplays(refs, new bytes32[](0));
        vm.expectRevert(abi.encodeWithSelector(IAuditBook.WrongCount.selector, 1, 0));
        audits.reveals(refs, new StateHeader[](1), new bytes32[](0));
        vm.expectRevert(abi.encodeWithSelector(IAuditBook.WrongCount.selector, 1, 2));
        audits.reveals(refs, new StateHeader[](2), new bytes32[](1));
    }

    function test_openStarts_twice_reverts() public {
        _playToCommitted();
        _openStarts(0);
        BoundaryProof[] memory starts = new BoundaryProof[](1);
        starts[0] = boundaryProof(0, segmentOf(refOf(0, 0, 0)));
        vm.expectRevert(abi.encodeWithSelector(IAuditBook.AlreadyOpened.selector, 0, 0));
        vm.prank(solvers[0]);
        audits.openStarts(task, round, starts);
    }
}
