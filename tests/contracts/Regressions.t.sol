// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BoundaryProof, ClaimRef, ClaimStatus, DisputeId, ExposureId, StateHeader} from "../../contracts/Types.sol";
import {IDisputeGame} from "../../contracts/interfaces/IDisputeGame.sol";
import {IRoundLedger} from "../../contracts/interfaces/IRoundLedger.sol";
import {IReferee} from "../../contracts/interfaces/IReferee.sol";
import {StepWorld} from "./StepWorld.sol";

/// @title Bugs that others shipped, as far as no other test is about them; docs/decisions/0021-invariants.md lists all, and what guards each.
contract RegressionsTest is StepWorld {
    bytes32 private constant SALT = "salt";

    function _open() private returns (DisputeId id) {
        ClaimRef memory claim = ClaimRef(refOf(0, 0, 0), 0, true);
        id = DisputeId.wrap(sha256(abi.encode(claim, stranger, SALT)));
        disputes.sealOpening(DisputeId.unwrap(id));
        rollTo(vm.getBlockNumber() + 1);
        vm.prank(stranger);
        disputes.openDispute(claim, SALT);
    }

    /// @dev Optimism's dispute game (Sherlock 168): a move after the end froze everything that waited for it.
    function test_moveAfterResolve_isRefusedAndFreezesNothing() public {
        playToDraw();
        DisputeId id = _open();
        (, uint256 clockBlock,,) = disputes.stageOf(id);
        rollTo(clockBlock);
        disputes.timeout(id);
        assertStatus(0, ClaimStatus.CONVICTED);
        _refuse(solvers[0], abi.encodeCall(disputes.postStepRoots, (id, new bytes32[](3), new BoundaryProof[](2))));
        _refuse(stranger, abi.encodeCall(disputes.nameStep, (id, 0, new bytes32[](3))));
        StateHeader memory header = headerOf(stateAt(0, 0));
        IReferee.BufferOpening memory opening = openBuffer(TENSOR, 0);
        _refuse(solvers[0], abi.encodeCall(disputes.answerDemand, (id, 0, header, opening)));
        _refuse(stranger, abi.encodeCall(disputes.demandLeaf, (id, stepFacts(), proveNode(0), 0, 0)));
        _refuse(stranger, abi.encodeCall(disputes.timeout, (id)));
        settleAll();
        assertAllFree();
    }

    function _refuse(address sender, bytes memory call) private {
        vm.prank(sender);
        (bool ok, bytes memory reason) = address(disputes).call(call);
        assertTrue(!ok && bytes4(reason) == IDisputeGame.WrongStage.selector, "refused by its stage");
    }

    /// @dev Livepeer 103, Psyche: who seals, and when, changes nothing; the block was fixed before anybody enrolled.
    function test_sealBeacon_laterAndByAnother_isTheSame() public {
        enrolAll(1);
        uint256 before = vm.snapshotState();
        sealBeacon();
        (,, bytes32 early,,,) = registry.roundOf(task, round);
        vm.revertToState(before);
        rollTo(deadlines().beaconBlock + 3);
        sealBeacon();
        (,, bytes32 late,,,) = registry.roundOf(task, round);
        assertEq(late, early, "one beacon");
        assertTrue(early != 0, "sealed");
    }

    /// @dev Trail of Bits on BoLD, 2023: what does not exist is found out before anything dear is done.
    function test_unknownDispute_isRefusedFirst() public {
        playToDraw();
        DisputeId unknown = DisputeId.wrap("unknown");
        IReferee.NodeProof memory node = proveNode(0);
        StateHeader memory header = headerOf(stateAt(0, 0));
        uint256 before = gasleft();
        _refuse(stranger, abi.encodeCall(disputes.proveOperation, (unknown, stepFacts(), header, node, 0, "")));
        uint256 used = before - gasleft();
        before = gasleft();
        stepFacts();
        assertTrue(used - (before - gasleft()) < 100_000, "before any proof is looked at");
    }

    /// @dev Optimism's Spearbit 5.1.4: whoever reports himself first does not take the honest challenger's bond, nor spare himself the burn.
    function test_selfReport_keepsTheChallengersBond_andBurns() public {
        playToDraw();
        address accomplice = whistleblowers[0];
        ClaimRef memory claim = ClaimRef(refOf(0, 0, 0), 0, true);
        bytes32 sealHash = sha256(abi.encode(claim, accomplice, SALT));
        disputes.sealOpening(sealHash);
        rollTo(vm.getBlockNumber() + 1);
        vm.prank(accomplice);
        disputes.openDispute(claim, SALT);
        DisputeId honest = _open();
        (, uint256 clockBlock,,) = disputes.stageOf(DisputeId.wrap(sealHash));
        rollTo(clockBlock);
        disputes.timeout(DisputeId.wrap(sealHash));
        disputes.timeout(honest);
        assertWhole(stranger);
        uint256 backWei = vault.creditOf(accomplice) + vault.creditOf(solvers[0]);
        assertTrue(2 * backWei <= lossOf(solvers[0]), "the coalition loses at least half");
    }

    /// @dev Optimism M-4: a post names the set that its root is over. Where a claim falls between the computing and the call, the root of the
    /// old set is refused; taken, it would cost its honest poster the bond.
    function test_postOuter_afterTheSetShrank_reverts() public {
        playTwoToShow();
        DisputeId id = _open();
        rollTo(deadlines().showEnd);
        ledger.judge(task, round, 0);
        ledger.judge(task, round, 1);
        uint32 seen = includedCount();
        (, uint256 clockBlock,,) = disputes.stageOf(id);
        if (vm.getBlockNumber() < clockBlock) rollTo(clockBlock);
        disputes.timeout(id);
        assertTrue(includedCount() < seen, "the set shrank");
        vm.expectRevert(abi.encodeWithSelector(IRoundLedger.OtherSet.selector, seen, seen - 1));
        vm.prank(whistleblowers[0]);
        ledger.postOuter(task, round, seen, "root over the old set", "momentum");
    }

    /// @dev EigenLayer: the smallest stake is slashed whole, nothing rounds to zero, and the rest leaves.
    function testFuzz_slashOfPendingExit_roundsUp_andTheRestLeaves(uint256 exposedWei) public {
        exposedWei = bound(exposedWei, 1, 10);
        playToTrain(1);
        vm.prank(stranger);
        vault.requestUnbond(WEALTH_WEI);
        vm.prank(address(ledger));
        vm.expectRevert();
        vault.expose(_exposure(), stranger, exposedWei);
        address fresh = actor("fresh");
        _fund(fresh);
        vm.prank(address(ledger));
        vault.expose(_exposure(), fresh, exposedWei);
        vm.prank(fresh);
        vault.requestUnbond(WEALTH_WEI);
        vm.prank(address(ledger));
        vault.slash(_exposure(), stranger, type(uint256).max, submitter, type(uint256).max, "wrong");
        assertEq(vault.stakeOf(fresh), WEALTH_WEI - exposedWei, "all of the exposure");
        assertTrue(2 * vault.burnPending() >= exposedWei, "rounded towards the burn");
        rollTo(vm.getBlockNumber() + UNBONDING_BLOCKS);
        vm.prank(fresh);
        vault.withdraw();
        assertEq(token.balanceOf(fresh), WEALTH_WEI - exposedWei, "the rest left");
    }

    function _exposure() private pure returns (ExposureId) {
        return ExposureId.wrap("tiny");
    }
}
