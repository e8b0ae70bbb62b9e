// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {SeatRole} from "../../../contracts/game/GameTypes.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {GameWorld} from "./GameWorld.sol";

/// @title What is read of rounds and of the pools that are held for them.
contract RoundsTest is GameWorld {
    // Views
    function test_factsOf_roundsWhoseSolverLeft() public {
        begin(3, 6, 3);
        asSeat(verifierSeat(3));
        seatBook.leave(task, verifierSeat(3));
        join(SeatRole.VERIFIER, "new", 600);
        asSeat(solverSeat(1));
        seatBook.leave(task, solverSeat(1));
        playRound(0);
        playRound(1);
        commitAll(2);
        close(2);
        assertEq(roundOf(1).pool, 7, "the last with solver 1");
        assertEq(roundOf(2).pool, 5, "no more");
        assertEq(rounds.nextRound(task), 3, "next");
        IRounds.Facts[] memory facts = rounds.factsOf(task, 1, 2);
        assertEq(facts.length, 2, "two");
        assertEq(facts[0].pool, 7, "pool");
        assertEq(facts[0].committed, 7, "committed");
        assertEq(facts[0].missing, 0, "none");
        assertTrue(!facts[0].isUndone, "not undone");
    }
}
