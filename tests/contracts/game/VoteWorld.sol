// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameWorld} from "./GameWorld.sol";

/// @title A round that is drawn, and what its votes are: for tests of all parts of counting.
abstract contract VoteWorld is GameWorld {
    function _codes(uint256 slot, uint256 draw, uint256 primary, uint256 first, uint256 second) internal view {
        uint256[3] memory codes = votes.votesOf(task, 0, slot, draw);
        assertEq(codes[0], primary, "primary");
        assertEq(codes[1], first, "first reserve");
        assertEq(codes[2], second, "second reserve");
    }

    function _drawn() internal {
        begin(3, 6, 3);
        playToDraw(0);
    }
}
