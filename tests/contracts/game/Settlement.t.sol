// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameTerms} from "../../../contracts/game/GameTypes.sol";
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
}
