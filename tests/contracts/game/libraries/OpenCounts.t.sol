// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {OpenCounts} from "../../../../contracts/game/libraries/OpenCounts.sol";
import {Test} from "../../Test.sol";

contract OpenCountsTest is Test {
    function add(uint256 counts, uint256 round) external pure returns (uint256) {
        return OpenCounts.add(counts, round);
    }

    function test_add_rounds_countInTheirEpoch() public pure {
        assertEq(OpenCounts.add(0, 0), 1, "epoch 0");
        assertEq(OpenCounts.add(0, 15), 1, "its last round");
        assertEq(OpenCounts.add(0, 16), 1 << 16, "epoch 1");
        assertEq(OpenCounts.add(5, 31), 1 << 16 | 5, "others stay");
        assertEq(OpenCounts.add(0, 255), 1 << 240, "epoch 15");
        assertEq(OpenCounts.add(0, 256), 1, "epoch 16 has the place of epoch 0");
    }

    function test_remove_rounds_takesOneBack() public pure {
        assertEq(OpenCounts.remove(2, 15), 1, "epoch 0");
        assertEq(OpenCounts.remove(3 << 16 | 7, 16), 2 << 16 | 7, "epoch 1");
    }

    function test_add_full_reverts() public {
        uint256 full = uint256(65_535) << 32;
        assertEq(OpenCounts.add(full - (1 << 32), 40), full, "the last that has a place");
        vm.expectRevert(abi.encodeWithSelector(OpenCounts.TooManyOpen.selector, 40));
        this.add(full, 40);
        assertEq(OpenCounts.add(full, 48), full | 1 << 48, "another epoch");
    }

    function test_at_epochs_areTheirCounts() public pure {
        uint256 counts = uint256(9) << 240 | uint256(65_535) << 16 | 3;
        assertEq(OpenCounts.at(counts, 0), 3, "0");
        assertEq(OpenCounts.at(counts, 1), 65_535, "1");
        assertEq(OpenCounts.at(counts, 2), 0, "2");
        assertEq(OpenCounts.at(counts, 15), 9, "15");
        assertEq(OpenCounts.at(counts, 17), 65_535, "17 has the place of 1");
    }

    function test_total_counts_areAdded() public pure {
        assertEq(OpenCounts.total(uint256(9) << 240 | uint256(65_535) << 16 | 3), 65_547, "three epochs");
        assertEq(OpenCounts.total(0), 0, "none");
    }

    function test_isAnyIn_ranges_haveBothEnds() public pure {
        uint256 counts = uint256(1) << 48;
        assertTrue(OpenCounts.isAnyIn(counts, 3, 3), "alone");
        assertTrue(OpenCounts.isAnyIn(counts, 0, 3), "last");
        assertTrue(OpenCounts.isAnyIn(counts, 3, 7), "first");
        assertTrue(!OpenCounts.isAnyIn(counts, 0, 2), "before");
        assertTrue(!OpenCounts.isAnyIn(counts, 4, 9), "behind");
        assertTrue(!OpenCounts.isAnyIn(0, 0, 15), "nothing");
        assertTrue(OpenCounts.isAnyIn(counts, 19, 19), "another lap");
    }
}
