// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {SeatRole} from "../../../contracts/game/GameTypes.sol";
import {GameWorld} from "./GameWorld.sol";

/// @title Who sits in the pools that are frozen for rounds.
contract PoolFreezingTest is GameWorld {
    // Modules
    function test_poolOf_frozenPools_areBitmaps() public {
        begin(2, 6, 3);
        uint256[] memory words = seatBook.poolOf(task, SeatRole.VERIFIER, roundOf(0).verifiers);
        assertEq(words.length, 1, "one word");
        assertEq(words[0], 0x3f, "six verifiers");
        words = seatBook.poolOf(task, SeatRole.WHISTLEBLOWER, roundOf(0).whistleblowers);
        assertEq(words[0], 7, "three whistleblowers");
        assertEq(seatBook.poolOf(task, SeatRole.VERIFIER, 0).length, 0, "no such version");
        commitAll(0);
        close(0);
        (,, uint256 frozenTo,,,,) = lineNow();
        assertEq(frozenTo, 3, "the close has frozen round 2");
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
        seatBook.leave(task, whistleblowerSeat(2));
        playRound(2);
        assertEq(roundOf(3).verifiers, 1, "frozen before");
        assertEq(seatBook.poolOf(task, SeatRole.VERIFIER, 2).length, 0, "rounds end before the next freeze");
        playRound(3);
        windUp();
    }
}
