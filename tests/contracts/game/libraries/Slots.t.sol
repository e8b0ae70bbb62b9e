// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Slots} from "../../../../contracts/game/libraries/Slots.sol";
import {Test} from "../../Test.sol";

contract SlotsTest is Test {
    /// @dev Numbers 1, 3, 4 and 63.
    uint256 private constant POOL = 1 << 63 | 0x1a;

    function test_slotOf_eachNumber_isItsPlace() public pure {
        assertEq(Slots.slotOf(POOL, 1), 0, "1");
        assertEq(Slots.slotOf(POOL, 3), 1, "3");
        assertEq(Slots.slotOf(POOL, 4), 2, "4");
        assertEq(Slots.slotOf(POOL, 63), 3, "63");
        assertEq(Slots.slotOf(POOL, 0), 0, "before the first");
    }

    function test_numberAt_eachSlot_isTheNumber() public pure {
        assertEq(Slots.numberAt(POOL, 0), 1, "0");
        assertEq(Slots.numberAt(POOL, 1), 3, "1");
        assertEq(Slots.numberAt(POOL, 2), 4, "2");
        assertEq(Slots.numberAt(POOL, 3), 63, "3");
    }

    function test_slotsOf_numbersInAndOutOfThePool_areThoseInIt() public pure {
        assertEq(Slots.slotsOf(POOL, 1 << 63 | 0x0b), 0x0b, "1, 3 and 63; 0 is not in it");
        assertEq(Slots.slotsOf(POOL, 0x10), 0x04, "4");
        assertEq(Slots.slotsOf(POOL, 0x25), 0, "none of them");
        assertEq(Slots.slotsOf(POOL, 0), 0, "nobody");
        assertEq(Slots.slotsOf(POOL, type(uint256).max), 0x0f, "all");
    }

    function test_idsOf_numbers_areSeatsOfSolvers() public pure {
        uint256[] memory ids = Slots.idsOf(POOL);
        assertEq(ids.length, 4, "four");
        assertEq(ids[0], 0x10001, "1");
        assertEq(ids[1], 0x10003, "3");
        assertEq(ids[2], 0x10004, "4");
        assertEq(ids[3], 0x1003f, "63");
        assertEq(Slots.idsOf(0).length, 0, "nobody");
    }

    function test_all_pools_areAsManyBits() public pure {
        assertEq(Slots.all(POOL), 0x0f, "four");
        assertEq(Slots.all(0), 0, "none");
        assertEq(Slots.all(type(uint64).max), type(uint64).max, "64");
    }
}
