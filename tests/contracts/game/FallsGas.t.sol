// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameTerms, SeatRole} from "../../../contracts/game/GameTypes.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {GameWorld} from "./GameWorld.sol";

/// @title Roots of a whole ring fall from the newest to the oldest: what the last fall, a settlement and the close cost.
contract FallsGasTest is GameWorld {
    uint256 private constant FALL_BOUND = 8_000_000;
    uint256 private constant SETTLE_BOUND = 3_000_000;
    uint256 private constant CLOSE_BOUND = 2_000_000;

    function test_falls_ofAWholeRing_fitTransactions() public {
        GameTerms memory wanted = soundTerms();
        (wanted.rounds, wanted.draws, wanted.lateChance) = (200, 1, 0);
        (wanted.solverSeats, wanted.leastSolvers, wanted.leastVerifiers) = (4, 1, 3);
        wanted.windows.dispute = 100_000;
        begin(wanted, 3, 3, 3);
        for (uint256 round = 0; round < 128; ++round) {
            playToDraw(round);
            acceptAll(round);
            post(round, 7, rootAfter(round), 3);
        }
        uint256 most;
        for (uint256 round = 128; round > 0; --round) {
            cool();
            uint256 before = gasleft();
            fall(round - 1);
            uint256 used = before - gasleft();
            if (used > most) most = used;
        }
        assertTrue(most <= FALL_BOUND, "the dearest fall");
        roll(now_() + 100);
        rounds.stand(task, 0);
        (IRounds.Line memory line,) = rounds.lineOf(task);
        assertTrue(!line.isHalted, "no number of falls halts a task");
        roll(uint256(line.pausedSince) + wanted.windows.dispute);
        passDuties();
        uint256[] memory seats = new uint256[](1);
        seats[0] = solverSeat(2);
        for (uint256 epoch = 0; epoch < 8; ++epoch) {
            cool();
            uint256 before = gasleft();
            settlement.settle(task, seats, epoch * 16 + 15);
            assertTrue(before - gasleft() <= SETTLE_BOUND, "an epoch");
        }
        settleAll(127);
        for (uint256 role = 1; role <= 3; ++role) {
            uint256[] memory all = seatsOf[SeatRole(role)];
            for (uint256 i = 0; i < all.length; ++i) {
                seatBook.payOut(task, all[i]);
            }
        }
        cool();
        uint256 gasBefore = gasleft();
        tasks.closeTask(task);
        assertTrue(gasBefore - gasleft() <= CLOSE_BOUND, "the close");
    }
}
