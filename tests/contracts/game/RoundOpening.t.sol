// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameTerms, Phase, Proof, RoundView, SeatRole} from "../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {Hashing} from "../../../contracts/libraries/Hashing.sol";
import {RoundWorld} from "./RoundWorld.sol";

/// @title Starts, openings and commitments, window by window.
contract RoundOpeningTest is RoundWorld {
    // Starting ---------------------------------------------------------------------------------------------------
    function test_start_refusals() public {
        postTask(soundTerms());
        joinAll(1, 6, 3);
        bytes memory error_ = abi.encodeWithSelector(IRefusals.PoolTooSmall.selector, task);
        vm.expectRevert(error_);
        rounds.start(task);
        join(SeatRole.SOLVER, "second", 1000);
        asSeat(verifierSeat(0));
        tasks.leave(task, verifierSeat(0));
        vm.expectRevert(error_);
        rounds.start(task);
        join(SeatRole.VERIFIER, "another", 600);
        asSeat(whistleblowerSeat(0));
        tasks.leave(task, whistleblowerSeat(0));
        vm.expectRevert(error_);
        rounds.start(task);
        join(SeatRole.WHISTLEBLOWER, "third", 600);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NothingToSeal.selector, 0));
        rounds.sealStart(task, PROOF);
        // 1000 + 1, the next even one.
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.StartAsked(task, 0, 1002);
        rounds.start(task);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.StartPending.selector, 1202));
        rounds.start(task);
        (uint256 next, uint256 live, uint256 frozenTo, uint256 startBlock) = _line();
        assertEq(next + live, 0, "none is open");
        assertEq(frozenTo, 2, "two pools");
        assertEq(startBlock, 1002, "start block");
    }

    function test_sealStart_window_dealsBoth() public {
        postTask(soundTerms());
        joinAll(2, 6, 3);
        rounds.start(task);
        roll(1002);
        expectOutside(1003, 1202);
        rounds.sealStart(task, PROOF);
        roll(1202);
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.StartSealed(task, randomness.valueAt(1002));
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.RoundOpened(task, 0, Hashing.outerRoot("weights", "zero"));
        rounds.sealStart(task, PROOF);
        assertEq(rounds.beaconOf(task, 0), _beacon(0, 1002), "beacon 0");
        assertEq(rounds.beaconOf(task, 1), _beacon(1, 1002), "beacon 1");
        assertEq(rounds.beaconOf(task, 2), 0, "no more");
        RoundView memory view_ = roundOf(0);
        assertEq(uint256(view_.phase), uint256(Phase.RUNNING), "runs");
        assertEq(view_.opened, 1202, "opened");
        assertEq(view_.pool, 3, "pool");
        assertEq(view_.verifiers, 1, "verifiers");
        assertEq(view_.whistleblowers, 1, "whistleblowers");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotStanding.selector, 0));
        rounds.start(task);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NothingToSeal.selector, 1));
        rounds.sealStart(task, PROOF);
    }

    function test_sealStart_refusals() public {
        postTask(soundTerms());
        joinAll(2, 6, 3);
        rounds.start(task);
        roll(1003);
        haltTask();
        vm.expectRevert(abi.encodeWithSelector(IRefusals.TaskHalted.selector, task));
        rounds.sealStart(task, PROOF);
        assertTrue(rounds.isOver(task), "over");
    }

    /// @dev A conviction makes the frozen pool too small.
    function test_sealStart_convictedSince_reverts() public {
        begin(2, 6, 3);
        asSeat(solverSeat(1));
        tasks.leave(task, solverSeat(1));
        playRound(0);
        playRound(1);
        join(SeatRole.SOLVER, "third", 1000);
        rounds.start(task);
        (,,, uint256 startBlock) = _line();
        roll(startBlock + 1);
        uint256 before = vm.snapshotState();
        punish(verifierSeat(2), Proof.ASKED, voteRef(1, 0, 0, 0));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.PoolTooSmall.selector, task));
        rounds.sealStart(task, PROOF);
        vm.revertToState(before);
        punish(solverSeat(0), Proof.ASKED, claimRef(1, 0));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.PoolTooSmall.selector, task));
        rounds.sealStart(task, PROOF);
        vm.revertToState(before);
        rounds.sealStart(task, PROOF);
        assertEq(roundOf(2).pool, 5, "both are there");
    }

    // Committing -------------------------------------------------------------------------------------------------
    function test_commit_refusals() public {
        GameTerms memory wanted = soundTerms();
        wanted.innerSteps = 30;
        begin(wanted, 3, 6, 3);
        bytes32 base = roundOf(0).base;
        bytes32 beacon = rounds.beaconOf(task, 0);
        address one = accountOf(solverSeat(1));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.RoundUnknown.selector, 1));
        rounds.commit(task, 1, base, beacon, "claim", 4);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotCommitter.selector, stranger));
        vm.prank(stranger);
        rounds.commit(task, 0, base, beacon, "claim", 4);
        address verifier = accountOf(verifierSeat(1));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotCommitter.selector, verifier));
        vm.prank(verifier);
        rounds.commit(task, 0, base, beacon, "claim", 4);
        vm.startPrank(one);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.WrongBase.selector, base, bytes32("x")));
        rounds.commit(task, 0, "x", beacon, "claim", 4);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.WrongBeacon.selector, beacon, bytes32("x")));
        rounds.commit(task, 0, base, "x", "claim", 4);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.WrongSegments.selector, 4, 6, 3));
        rounds.commit(task, 0, base, beacon, "claim", 3);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.WrongSegments.selector, 4, 6, 7));
        rounds.commit(task, 0, base, beacon, "claim", 7);
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.ClaimTaken(task, 0, 1, "claim", 4);
        rounds.commit(task, 0, base, beacon, "claim", 4);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.AlreadyCommitted.selector, 1));
        rounds.commit(task, 0, base, beacon, "other", 4);
        vm.stopPrank();
        (uint256 seat, bytes32 root, uint256 segments) = rounds.claimOf(task, 0, 1);
        assertEq(seat, solverSeat(1), "seat");
        assertEq(root, "claim", "root");
        assertEq(segments, 4, "segments");
        (seat, root, segments) = rounds.claimOf(task, 0, 0);
        assertEq(seat + segments, 0, "none");
        assertEq(root, 0, "none");
        (seat,,) = rounds.claimOf(task, 0, 64);
        assertEq(seat, 0, "no such slot");
        punish(solverSeat(2), Proof.ASKED, claimRef(0, 2));
        address two = accountOf(solverSeat(2));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatClosed.selector, solverSeat(2)));
        vm.prank(two);
        rounds.commit(task, 0, base, beacon, "claim", 4);
        address late = accountOf(join(SeatRole.SOLVER, "late", 1000));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotCommitter.selector, late));
        vm.prank(late);
        rounds.commit(task, 0, base, beacon, "claim", 4);
    }

    /// @dev A seat that was convicted before OPEN is not counted.
    function test_commit_counted_atOpen() public {
        begin(3, 6, 3);
        commitAll(0);
        sealAudits(0);
        acceptAll(0);
        punish(solverSeat(2), Proof.ASKED, claimRef(0, 2));
        post(0, 3, rootAfter(0), 3);
        uint256 opened = roundOf(1).opened;
        assertEq(roundOf(1).pool, 7, "it sits there");
        commit(1, solverSeat(0));
        commit(1, solverSeat(1));
        assertEq(close(1), opened, "all that counted");
        sealAudits(1);
        acceptAll(1);
        post(1, 3, rootAfter(1), 7);
        assertEq(roundOf(1).signers, 3, "its signature counts no more");
        assertEq(roundOf(2).pool, 7, "frozen before");
        commit(2, solverSeat(0));
        commit(2, solverSeat(1));
        sealAudits(2);
        acceptAll(2);
        post(2, 3, rootAfter(2), 3);
        assertEq(roundOf(3).pool, 3, "it does not sit any more");
    }

    /// @dev Round 0 gets its draw while it can, but round 1 was drawn before: what that has dealt stays.
    function test_deal_drawOfAnOlderRound_takesNothingBack() public {
        begin(3, 6, 3);
        roll(roundOf(0).opened + terms.windows.trainMax + 1);
        rounds.stand(task, 0);
        playToDraw(1);
        bytes32 dealt = rounds.beaconOf(task, 3);
        assertTrue(dealt != 0, "dealt");
        rounds.sealAudits(task, 0, PROOF);
        assertEq(rounds.beaconOf(task, 3), dealt, "still");
    }
}
