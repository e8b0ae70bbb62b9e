// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Lanes16} from "../../../../contracts/game/libraries/Lanes16.sol";
import {Test} from "../../Test.sol";

contract Lanes16Test is Test {
    using Lanes16 for mapping(uint256 => uint256);

    mapping(uint256 => uint256) private _words;

    function test_add_lanes_keepApart() public {
        _words.add(0x10, 3);
        _words.add(0x1f, 65_535);
        _words.add(0x11, 1);
        _words.add(0x10, 4);
        assertEq(_words[1], uint256(65_535) << 240 | 1 << 16 | 7, "one word");
        assertEq(_words.at(0x10), 7, "lane 0");
        assertEq(_words.at(0x11), 1, "lane 1");
        assertEq(_words.at(0x1f), 65_535, "lane 15");
        assertEq(_words.at(0x0f), 0, "another word");
        assertEq(_words.at(0x20), 0, "another word behind");
    }

    function test_take_lane_isEmptied() public {
        _words.add(0x33, 12);
        _words.add(0x34, 13);
        assertEq(_words.take(0x33), 12, "what was there");
        assertEq(_words.take(0x33), 0, "once");
        assertEq(_words[3], uint256(13) << 64, "its neighbour stays");
    }
}
