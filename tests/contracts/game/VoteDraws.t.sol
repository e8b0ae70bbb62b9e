// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameTerms} from "../../../contracts/game/GameTypes.sol";
import {AuditDraw} from "../../../contracts/libraries/AuditDraw.sol";
import {GameWorld} from "./GameWorld.sol";

/// @title Which seat and segment the place of a vote names.
contract VoteDrawsTest is GameWorld {
    // Drawing
    /// @dev Against the library: six draws in a pool of seven.
    function test_drawnOf_everyRank_isTheLibrarys() public {
        begin(3, 7, 3);
        playToDraw(0);
        bytes32 seed = roundOf(0).seed;
        bytes32 value = randomness.valueAt(drawBlock(roundOf(0).closed));
        assertEq(seed, AuditDraw.roundSeed(tasks.domainOf(task), 0, value), "seed");
        uint256[] memory order = AuditDraw.permutation(seed, AuditDraw.VERIFIER_POOL, 7, 7);
        for (uint256 slot = 0; slot < 3; ++slot) {
            uint256[] memory segments = AuditDraw.circleSegments(seed, slot, 2, 4);
            for (uint256 draw = 0; draw < 2; ++draw) {
                for (uint256 rank = 0; rank < 3; ++rank) {
                    (uint256 seat, uint256 segment) = votes.drawnOf(task, 0, slot, draw, rank);
                    uint256 place = (2 * slot + draw + 2 * rank) % 7;
                    assertEq(seat, verifierSeat(order[place]), "seat");
                    assertEq(segment, segments[draw], "segment");
                }
            }
        }
        assertEq(drawnSeat(0, 0, 2, 0), 0, "no late draw");
        assertEq(drawnSeat(0, 3, 0, 0), 0, "no such slot");
        assertEq(drawnSeat(0, 0, 3, 0), 0, "no such draw");
        assertEq(drawnSeat(0, 0, 0, 3), 0, "no such rank");
        assertEq(drawnSeat(0, 0, 256, 0), 0, "nor one cut short");
        assertEq(drawnSeat(0, 0, 0, 256), 0, "nor here");
        assertTrue(!votes.isDrawOver(task, 0, 0, 256), "nor over");
        assertTrue(!votes.isDrawOver(task, 0, 3, 0), "nor here");
    }

    /// @dev With chance one half; and none in a pool of two.
    function test_drawnOf_late_isTheLibrarys() public {
        GameTerms memory wanted = soundTerms();
        wanted.lateChance = 32_768;
        begin(wanted, 4, 6, 5);
        playRound(0);
        playToDraw(1);
        bytes32 seed = roundOf(0).lateSeed;
        uint256[] memory order = AuditDraw.permutation(seed, AuditDraw.WHISTLEBLOWER_POOL, 5, 5);
        uint256 found;
        for (uint256 slot = 0; slot < 4; ++slot) {
            uint256[] memory first = AuditDraw.circleSegments(roundOf(0).seed, slot, 2, 4);
            (bool isDue, uint256 expected) = AuditDraw.late(seed, slot, 32_768, first, 4);
            (uint256 seat, uint256 segment) = votes.drawnOf(task, 0, slot, 2, 1);
            assertEq(seat != 0, isDue, "due");
            if (!isDue) continue;
            ++found;
            assertEq(segment, expected, "segment");
            assertEq(seat, whistleblowerSeat(order[(slot + 1) % 5]), "a step of one");
        }
        assertTrue(found != 0 && found != 4, "some of four");
    }
}
