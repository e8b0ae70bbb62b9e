// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {OpenCounts} from "../../../../contracts/game/libraries/OpenCounts.sol";
import {Test} from "../../Test.sol";

contract OpenCountsTest is Test {
    using OpenCounts for uint16[9];

    uint16[9] private _counts;

    function add(uint256 round) external {
        _counts.add(round);
    }

    function test_add_rounds_countInTheirEpoch() public {
        _counts.add(0);
        _counts.add(15);
        assertEq(_counts[0], 2, "epoch 0, its last round too");
        _counts.add(16);
        assertEq(_counts[1], 1, "epoch 1");
        _counts.add(143);
        assertEq(_counts[8], 1, "epoch 8");
        _counts.add(144);
        assertEq(_counts[0], 3, "epoch 9 has the place of epoch 0");
        assertEq(_counts.total(), 5, "all");
    }

    function test_remove_rounds_takesOneBack() public {
        (_counts[0], _counts[1]) = (2, 3);
        _counts.remove(15);
        _counts.remove(16);
        assertEq(_counts[0], 1, "epoch 0");
        assertEq(_counts[1], 2, "epoch 1");
    }

    function test_add_full_reverts() public {
        _counts[2] = 2046;
        _counts.add(40);
        vm.expectRevert(abi.encodeWithSelector(OpenCounts.TooManyOpen.selector, 40));
        this.add(40);
        this.add(48);
        assertEq(_counts.total(), 2048, "another epoch has room");
    }

    function test_isAnyIn_ranges_haveBothEnds() public {
        assertTrue(!_counts.isAnyIn(0, 8), "nothing");
        _counts.add(3 * 16);
        assertTrue(_counts.isAnyIn(3, 3), "alone");
        assertTrue(_counts.isAnyIn(0, 3), "last");
        assertTrue(_counts.isAnyIn(3, 7), "first");
        assertTrue(!_counts.isAnyIn(0, 2), "before");
        assertTrue(!_counts.isAnyIn(4, 9), "behind");
        assertTrue(_counts.isAnyIn(12, 12), "another lap");
    }
}
