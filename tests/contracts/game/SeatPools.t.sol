// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Proof, SeatRole, SeatStatus} from "../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {ITasks} from "../../../contracts/game/interfaces/ITasks.sol";
import {GameWorld} from "./GameWorld.sol";
import {QuestionsStub} from "./Stubs.sol";

/// @title Who sits in the pools that are frozen for rounds.
contract SeatPoolsTest is GameWorld {
    // Stakes -----------------------------------------------------------------------------------------------------
    /// @dev A fee takes a seat out of pools frozen later, until its stake is whole again.
    function test_topUp_afterAFee_sitsAgain() public {
        begin(3, 6, 3);
        playToDraw(0);
        vote_(0, 0, 0, 0, UNSERVED, false);
        vote_(0, 0, 0, 1, UNSERVED, false);
        voteAll(0, 1, 0, ACCEPT);
        voteAll(0, 2, 0, ACCEPT);
        postAll(0);
        roll(roundOf(1).opened + 81);
        rounds.stand(task, 1);
        roll(roundOf(2).opened + 81);
        rounds.stand(task, 2);
        roll(roundOf(3).opened + 203);
        rounds.stand(task, 3);
        passDuties();
        assertTrue(tasks.isFunded(task), "funded");
        settleAll(3);
        assertTrue(!tasks.isFunded(task), "all solvers owed fees");
        assertEq(stakeOf(solverSeat(0)), 1000 - 90 - 80, "not served once, dropped twice");
        _topUp(solverSeat(1), 79);
        _topUp(solverSeat(2), 80);
        assertTrue(!tasks.isFunded(task), "one is short of a wei");
        _topUp(solverSeat(1), 1);
        assertEq(stakeOf(solverSeat(1)), 1000, "whole");
        assertTrue(!tasks.isFunded(task), "two verifiers owed fees");
        for (uint256 i = 0; i < 6; ++i) {
            if (stakeOf(verifierSeat(i)) != 600) _topUp(verifierSeat(i), 90);
        }
        assertTrue(tasks.isFunded(task), "they sit again");
        windUp();
    }

    function _topUp(uint256 seat, uint256 wei_) private {
        address account = accountOf(seat);
        give(account, wei_);
        vm.prank(account);
        tasks.topUp(task, seat, wei_);
    }

    // Leaving ----------------------------------------------------------------------------------------------------
    function test_leave_seat_servesInFrozenPools() public {
        begin(3, 6, 3);
        vm.expectRevert(
            abi.encodeWithSelector(IRefusals.NotHolder.selector, accountOf(solverSeat(2)), stranger)
        );
        vm.prank(stranger);
        tasks.leave(task, solverSeat(2));
        vm.expectEmit(true, true, true, true, address(tasks));
        emit ITasks.SeatLeft(task, solverSeat(2));
        asSeat(solverSeat(2));
        tasks.leave(task, solverSeat(2));
        requireStatus(solverSeat(2), SeatStatus.LEAVING);
        address account = accountOf(solverSeat(2));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatClosed.selector, solverSeat(2)));
        vm.prank(account);
        tasks.leave(task, solverSeat(2));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatClosed.selector, solverSeat(2)));
        vm.prank(account);
        tasks.topUp(task, solverSeat(2), 1);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatBusy.selector, solverSeat(2)));
        tasks.payOut(task, solverSeat(2));
        playRound(0);
        playRound(1);
        assertEq(roundOf(1).pool, 7, "frozen before");
        assertEq(roundOf(2).pool, 3, "frozen behind");
        playRound(2);
        playRound(3);
        passDuties();
        settleOne(solverSeat(2), 1);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatUnknown.selector, solverSeat(3)));
        tasks.payOut(task, solverSeat(3));
        QuestionsStub(asks).open(task, solverSeat(2), 1);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatBusy.selector, solverSeat(2)));
        tasks.payOut(task, solverSeat(2));
        QuestionsStub(asks).end(task, solverSeat(2), 1);
        QuestionsStub(disputes).open(task, solverSeat(2), 1);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatBusy.selector, solverSeat(2)));
        tasks.payOut(task, solverSeat(2));
        QuestionsStub(disputes).end(task, solverSeat(2), 1);
        vm.expectEmit(true, true, true, true, address(tasks));
        emit ITasks.SeatFreed(task, solverSeat(2), 1000);
        tasks.payOut(task, solverSeat(2));
        assertEq(purse.creditOf(account), 1200, "stake and two rounds");
        assertEq(tasks.seatOf(task, account), 0, "no seat");
        windUp();
    }

    // Modules ----------------------------------------------------------------------------------------------------
    /// @dev As many draws as verifiers: each is the primary of one, so all claims are accepted only where the new one's vote counts.
    function test_join_numberOfAConvictedVerifier_votes() public {
        postTask(soundTerms());
        joinAll(3, 6, 3);
        uint256[] memory seats = new uint256[](2);
        (seats[0], seats[1]) = (verifierSeat(0), verifierSeat(1));
        vm.prank(address(settlement));
        tasks.convict(task, seats, stranger, Proof.ASKED);
        tasks.payOut(task, verifierSeat(0));
        assertEq(join(SeatRole.VERIFIER, "new", 600), verifierSeat(0), "the number of a convicted seat");
        assertEq(join(SeatRole.VERIFIER, "newer", 600), verifierSeat(6), "the other one is not free");
        assertTrue(tasks.isFunded(task), "it counts");
        startRounds();
        playToDraw(0);
        acceptAll(0);
        assertEq(rounds.fatesOf(task, 0).accepted, 7, "its vote as well");
    }

    function test_views_ofPoolsAndSeats() public {
        begin(2, 6, 3);
        uint256[] memory words = tasks.poolOf(task, SeatRole.VERIFIER, roundOf(0).verifiers);
        assertEq(words.length, 1, "one word");
        assertEq(words[0], 0x3f, "six verifiers");
        words = tasks.poolOf(task, SeatRole.WHISTLEBLOWER, roundOf(0).whistleblowers);
        assertEq(words[0], 7, "three whistleblowers");
        assertEq(tasks.poolOf(task, SeatRole.VERIFIER, 0).length, 0, "no such version");
        commitAll(0);
        close(0);
        (,, uint256 frozenTo,,,,) = lineNow();
        assertEq(frozenTo, 3, "the close has frozen round 2");
        assertTrue(tasks.isEnough(task, 3, 1, 1), "enough");
        assertTrue(!tasks.isEnough(task, 1, 1, 1), "one solver");
        assertTrue(!tasks.isEnough(task, 3, 0, 1), "no verifiers");
        assertTrue(!tasks.isEnough(task, 3, 1, 0), "no whistleblowers");
        uint256[] memory seats = new uint256[](3);
        (seats[0], seats[1], seats[2]) = (solverSeat(1), verifierSeat(5), verifierSeat(6));
        address[] memory accounts = tasks.voterAccounts(task, seats);
        assertEq(accounts[0], person("solver1"), "solver");
        assertEq(accounts[1], person("verifier5"), "verifier");
        assertEq(accounts[2], address(0), "nobody");
        punish(verifierSeat(5), Proof.ASKED, voteRef(0, 0, 0, 0));
        punish(solverSeat(1), Proof.ASKED, claimRef(0, 1));
        accounts = tasks.voterAccounts(task, seats);
        assertEq(accounts[0], person("solver1"), "a solver, convicted or not");
        assertEq(accounts[1], address(0), "convicted");
        seats[1] = verifierSeat(4);
        accounts = tasks.voterAccounts(task, seats);
        assertEq(accounts[1], person("verifier4"), "not convicted");
        assertEq(tasks.closedSolvers(task), 2, "closed solvers");
        assertTrue(!tasks.isEnough(task, 3, 1, 1), "convicted ones do not count");
        assertTrue(!tasks.isFunded(task), "nor here");
        assertEq(tasks.voterAccounts(task, seats)[0], person("solver1"), "still its account");
    }

    /// @dev A copy is made where something has changed, and only there.
    function test_freezePools_versions() public {
        begin(3, 6, 3);
        assertEq(roundOf(0).verifiers, 1, "first");
        playRound(0);
        playRound(1);
        assertEq(roundOf(1).verifiers, 1, "the same");
        assertEq(roundOf(2).verifiers, 1, "the same");
        join(SeatRole.VERIFIER, "late", 600);
        asSeat(whistleblowerSeat(2));
        playRound2Left();
    }

    function playRound2Left() private {
        tasks.leave(task, whistleblowerSeat(2));
        playRound(2);
        assertEq(roundOf(3).verifiers, 1, "frozen before");
        assertEq(tasks.poolOf(task, SeatRole.VERIFIER, 2).length, 0, "rounds end before the next freeze");
        playRound(3);
        windUp();
    }
}
