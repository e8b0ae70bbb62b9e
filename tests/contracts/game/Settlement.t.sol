// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameTerms, SeatRole} from "../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {GameWorld} from "./GameWorld.sol";
import {ContestsStub, QuestionsStub} from "./Stubs.sol";

/// @title When a seat can settle, and what it is paid.
contract SettlementTest is GameWorld {
    function _refuse(uint256 seat, uint256 untilRound) private {
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotSettleable.selector, seat, untilRound));
        settleOne(seat, untilRound);
    }

    // Windows ----------------------------------------------------------------------------------------------------
    /// @dev close + 2 auditMax + ask is the last block of duty of a round that was drawn.
    function test_settle_beforeTheEndOfDuty_reverts() public {
        begin(3, 6, 3);
        haltTask();
        playRound(0);
        uint256 until = roundOf(0).closed + 780;
        assertEq(rounds.factsOf(task, 0, 0)[0].dutyUntil, until, "duty");
        roll(until);
        _refuse(solverSeat(0), 0);
        _refuse(verifierSeat(0), 0);
        roll(until + 1);
        settleOne(solverSeat(0), 0);
        assertEq(creditOf(solverSeat(0)), 100, "paid");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.AlreadySettled.selector, solverSeat(0), 0));
        settleOne(solverSeat(0), 0);
        assertEq(creditOf(solverSeat(0)), 100, "once");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatUnknown.selector, solverSeat(9)));
        settleOne(solverSeat(9), 0);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.RoundUnknown.selector, 1));
        settleOne(solverSeat(0), 1);
        windUp();
    }

    /// @dev Without a draw close + dispute; with late votes three of these count from their close.
    function test_dutyUntil_phases() public {
        GameTerms memory wanted = soundTerms();
        wanted.lateChance = 1;
        begin(wanted, 3, 6, 3);
        assertEq(rounds.factsOf(task, 0, 0)[0].dutyUntil, type(uint256).max, "it runs");
        playRound(0);
        commitAll(1);
        uint256 closed = close(1);
        roll(closed + 10);
        rounds.stand(task, 1);
        assertEq(rounds.factsOf(task, 1, 1)[0].dutyUntil, closed + 200, "not drawn");
        playRound(2);
        assertEq(rounds.factsOf(task, 0, 0)[0].dutyUntil, roundOf(2).closed + 780, "late votes, asked last");
        assertEq(rounds.factsOf(task, 1, 1)[0].dutyUntil, roundOf(2).closed + 780, "of a void one too");
        haltTask();
        roll(roundOf(3).opened + 81);
        rounds.stand(task, 3);
        windUp();
    }

    function test_dutyUntil_longWindows_takeTheLatest() public {
        GameTerms memory wanted = soundTerms();
        (wanted.lateChance, wanted.windows.dispute) = (65_536, 5000);
        begin(wanted, 3, 6, 3);
        playRound(0);
        assertEq(rounds.factsOf(task, 0, 0)[0].dutyUntil, roundOf(0).closed + 5000, "dispute");
        playToDraw(1);
        acceptAll(1);
        post(1, 7, rootAfter(1), 3);
        assertEq(rounds.factsOf(task, 0, 0)[0].dutyUntil, roundOf(1).closed + 5000, "late dispute");
        fall(1);
        assertEq(rounds.factsOf(task, 1, 1)[0].dutyUntil, type(uint256).max, "it waits for another root");
        roll(now_() + 3);
        post(1, 7, rootAfter(99), 4);
        assertEq(rounds.factsOf(task, 1, 1)[0].dutyUntil, now_() + 5000, "contests of the new root");
    }

    /// @dev An epoch is settled at once: no later round of it may hold the seat.
    function test_settle_insideAnEpoch_reverts() public {
        begin(3, 6, 3);
        asSeat(solverSeat(2));
        tasks.leave(task, solverSeat(2));
        for (uint256 round = 0; round < 4; ++round) {
            playRound(round);
        }
        passDuties();
        _refuse(solverSeat(0), 2);
        assertEq(tasks.heldRounds(task, solverSeat(2), 0, 3), 3, "it sat in two rounds");
        settleOne(solverSeat(2), 2);
        assertEq(creditOf(solverSeat(2)), 200, "two rounds");
        settleOne(solverSeat(0), 3);
        windUp();
    }

    function test_settle_seatNamedTwice_isPaidOnce() public {
        begin(3, 6, 3);
        haltTask();
        playRound(0);
        passDuties();
        uint256[] memory seats = new uint256[](4);
        (seats[0], seats[1]) = (solverSeat(0), solverSeat(0));
        (seats[2], seats[3]) = (solverSeat(1), solverSeat(0));
        settlement.settle(task, seats, 0);
        assertEq(creditOf(solverSeat(0)), 100, "once");
        assertEq(creditOf(solverSeat(1)), 100, "the other too");
    }

    function test_settle_manySeats_leavesOutWhoCannot() public {
        begin(3, 6, 3);
        haltTask();
        playRound(0);
        passDuties();
        QuestionsStub(asks).open(task, solverSeat(1), 0);
        QuestionsStub(disputes).open(task, verifierSeat(1), 0);
        _refuse(solverSeat(1), 0);
        _refuse(verifierSeat(1), 0);
        uint256[] memory seats = new uint256[](5);
        (seats[0], seats[1], seats[2]) = (solverSeat(0), solverSeat(1), solverSeat(7));
        (seats[3], seats[4]) = (verifierSeat(1), verifierSeat(2));
        settlement.settle(task, seats, 0);
        assertEq(creditOf(solverSeat(0)), 100, "paid");
        assertEq(creditOf(solverSeat(1)), 0, "asked");
        assertEq(creditOf(verifierSeat(1)), 0, "disputed");
        assertEq(creditOf(verifierSeat(2)), 10, "paid");
        QuestionsStub(asks).end(task, solverSeat(1), 0);
        QuestionsStub(disputes).end(task, verifierSeat(1), 0);
        ContestsStub(contests).open(task, 0);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.ContestRuns.selector, 0));
        settleOne(solverSeat(1), 0);
        ContestsStub(contests).end(task, 0);
        ContestsStub(contests).open(task, 16);
        settleOne(solverSeat(1), 0);
        assertEq(creditOf(solverSeat(1)), 100, "a contest of a later epoch does not block");
        ContestsStub(contests).end(task, 16);
        windUp();
    }

    // Falls ------------------------------------------------------------------------------------------------------
    /// @dev In a round whose pool does not hold the seat its place is another's, and so is the pay.
    function test_settle_roundWithoutTheSeat_paysNothing() public {
        GameTerms memory wanted = soundTerms();
        wanted.solverSeats = 3;
        begin(wanted, 3, 6, 3);
        join(SeatRole.SOLVER, "larger", 1500);
        for (uint256 round = 0; round < 4; ++round) {
            playRound(round);
        }
        assertEq(uint256(roundOf(2).pool), 11, "its place is taken");
        passDuties();
        settleAll(3);
        assertEq(creditOf(solverSeat(2)), 200, "rounds 0 and 1");
        assertEq(creditOf(solverSeat(3)), 200, "rounds 2 and 3");
        windUp();
    }

    /// @dev It sits in a later list of verifiers than that of the task's start; the whistleblowers' is still the first.
    function test_settle_lateVerifier_isHeldByItsOwnPool() public {
        begin(3, 6, 3);
        uint256 late = join(SeatRole.VERIFIER, "late", 600);
        for (uint256 round = 0; round < 4; ++round) {
            playRound(round);
        }
        (, uint256 verifiers, uint256 whistleblowers) = rounds.poolsOf(task, 3);
        assertTrue(verifiers != whistleblowers, "versions");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotSettleable.selector, late, 3));
        settleOne(late, 3);
    }

    // Closing first ----------------------------------------------------------------------------------------------
    /// @dev The pool after next is frozen as it was in the closing block, whatever a settlement takes after it.
    function test_settle_afterAClose_freezesThePoolFirst() public {
        GameTerms memory wanted = soundTerms();
        wanted.rounds = 20;
        begin(wanted, 3, 6, 3);
        for (uint256 round = 0; round < 16; ++round) {
            commit(round, solverSeat(0));
            commit(round, solverSeat(1));
            if (round != 0) commit(round, solverSeat(2));
            else roll(roundOf(0).opened + 41);
            sealAudits(round);
            acceptAll(round);
            postAll(round);
        }
        roll(rounds.factsOf(task, 15, 15)[0].dutyUntil + 1);
        assertEq(roundOf(16).closed, 0, "nobody has said that it is over");
        settleOne(solverSeat(2), 15);
        assertEq(stakeOf(solverSeat(2)), 960, "DROPPED");
        assertTrue(roundOf(16).closed != 0, "closed first");
        (uint256 pool,,) = rounds.poolsOf(task, 18);
        assertEq(pool, 7, "frozen before");
    }

    // Edges ------------------------------------------------------------------------------------------------------
    /// @dev A fee above the stake takes all of it, and no more.
    function test_settle_feeAboveTheStake_takesTheStake() public {
        GameTerms memory wanted = soundTerms();
        wanted.amounts.unservedFee = 5000;
        begin(wanted, 3, 6, 3);
        haltTask();
        playToDraw(0);
        vote_(0, 0, 0, 0, UNSERVED, false);
        vote_(0, 0, 0, 1, UNSERVED, false);
        uint256 auditor = drawnSeat(0, 0, 0, 0);
        voteAll(0, 1, 0, ACCEPT);
        voteAll(0, 2, 0, ACCEPT);
        postAll(0);
        passDuties();
        settleAll(0);
        assertEq(stakeOf(solverSeat(0)), 0, "all of it");
        assertEq(stakeOf(auditor), 0, "all of it");
        assertEq(purse.burnPending(), 1000 + 600 + 600, "three stakes");
        windUp();
    }
}
