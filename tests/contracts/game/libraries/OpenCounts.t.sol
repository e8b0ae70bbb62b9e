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
        assertEq(OpenCounts.add(0, 16), 1 << 11, "epoch 1");
        assertEq(OpenCounts.add(5, 31), 1 << 11 | 5, "others stay");
        assertEq(OpenCounts.add(0, 143), 1 << 88, "epoch 8");
        assertEq(OpenCounts.add(0, 144), 1, "epoch 9 has the place of epoch 0");
    }

    function test_remove_rounds_takesOneBack() public pure {
        assertEq(OpenCounts.remove(2, 15), 1, "epoch 0");
        assertEq(OpenCounts.remove(3 << 11 | 7, 16), 2 << 11 | 7, "epoch 1");
    }

    function test_add_full_reverts() public {
        uint256 full = uint256(2047) << 22;
        assertEq(OpenCounts.add(full - (1 << 22), 40), full, "the last that has a place");
        vm.expectRevert(abi.encodeWithSelector(OpenCounts.TooManyOpen.selector, 40));
        this.add(full, 40);
        assertEq(OpenCounts.add(full, 48), full | 1 << 33, "another epoch");
    }

    function test_at_epochs_areTheirCounts() public pure {
        uint256 counts = uint256(9) << 88 | uint256(2047) << 11 | 3;
        assertEq(OpenCounts.at(counts, 0), 3, "0");
        assertEq(OpenCounts.at(counts, 1), 2047, "1");
        assertEq(OpenCounts.at(counts, 2), 0, "2");
        assertEq(OpenCounts.at(counts, 8), 9, "8");
        assertEq(OpenCounts.at(counts, 10), 2047, "10 has the place of 1");
    }

    function test_total_counts_areAdded() public pure {
        assertEq(OpenCounts.total(uint256(9) << 88 | uint256(2047) << 11 | 3), 2059, "three epochs");
        assertEq(OpenCounts.total(0), 0, "none");
    }

    function testFuzz_total_anyCounts_isTheirSum(uint256 counts) public pure {
        counts &= (1 << 99) - 1;
        uint256 sum = 0;
        for (uint256 epoch = 0; epoch < 9; ++epoch) {
            sum += OpenCounts.at(counts, epoch);
        }
        assertEq(OpenCounts.total(counts), sum, "nine lanes");
        assertEq(OpenCounts.total((1 << 99) - 1), 9 * 2047, "all full");
    }

    function test_isAnyIn_ranges_haveBothEnds() public pure {
        uint256 counts = uint256(1) << 33;
        assertTrue(OpenCounts.isAnyIn(counts, 3, 3), "alone");
        assertTrue(OpenCounts.isAnyIn(counts, 0, 3), "last");
        assertTrue(OpenCounts.isAnyIn(counts, 3, 7), "first");
        assertTrue(!OpenCounts.isAnyIn(counts, 0, 2), "before");
        assertTrue(!OpenCounts.isAnyIn(counts, 4, 9), "behind");
        assertTrue(!OpenCounts.isAnyIn(0, 0, 8), "nothing");
        assertTrue(OpenCounts.isAnyIn(counts, 12, 12), "another lap");
    }
}
