// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {SeatRole} from "../../../contracts/game/GameTypes.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {GameWorld} from "./GameWorld.sol";

/// @title What is read of rounds and of the pools that are held for them.
contract RoundsTest is GameWorld {
    // Views ------------------------------------------------------------------------------------------------------
    function test_heldRounds_andRosters() public {
        begin(3, 6, 3);
        asSeat(verifierSeat(3));
        seatBook.leave(task, verifierSeat(3));
        join(SeatRole.VERIFIER, "new", 600);
        asSeat(solverSeat(1));
        seatBook.leave(task, solverSeat(1));
        playRound(0);
        playRound(1);
        assertEq(seatBook.heldRounds(task, verifierSeat(3), 0, 2), 3, "before it left");
        assertEq(seatBook.heldRounds(task, verifierSeat(6), 0, 2), 4, "since it joined");
        assertEq(seatBook.heldRounds(task, verifierSeat(6), 1, 2), 2, "from round 1");
        assertEq(seatBook.heldRounds(task, solverSeat(1), 0, 2), 3, "a solver");
        assertEq(seatBook.heldRounds(task, whistleblowerSeat(2), 0, 2), 7, "a whistleblower");
        assertEq(seatBook.heldRounds(task, verifierSeat(256), 0, 2), 0, "beyond the words");
        commitAll(2);
        close(2);
        assertEq(rounds.heldTo(task), 4, "frozen, not open");
        assertEq(rounds.rosterOf(task, 1).pool, 7, "the last with solver 1");
        assertEq(rounds.rosterOf(task, 2).pool, 5, "no more");
        assertEq(seatBook.heldRounds(task, solverSeat(0), 0, 3), 15, "the frozen one too");
        assertEq(rounds.nextRound(task), 3, "next");
        IRounds.Facts[] memory facts = rounds.factsOf(task, 1, 2);
        assertEq(facts.length, 2, "two");
        assertEq(facts[0].pool, 7, "pool");
        assertEq(facts[0].committed, 7, "committed");
        assertEq(facts[0].missing, 0, "none");
        assertTrue(!facts[0].isUndone && !facts[0].isShort, "nothing special");
    }
}
