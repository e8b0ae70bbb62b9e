// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Draw} from "../../../contracts/libraries/Draw.sol";
import {Test} from "../Test.sol";

contract DrawTest is Test {
    function uniform(uint256 n) external view returns (uint256) {
        return Draw.uniform(0, 0, n);
    }

    function testFuzz_uniform_anyRange_staysInside(bytes32 seed, uint256 counter, uint256 n) public view {
        n = bound(n, 1, type(uint256).max);
        assertTrue(Draw.uniform(seed, counter, n) < n, "below n");
    }

    function test_uniform_nothing_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(Draw.NothingToDraw.selector, 1, 0));
        this.uniform(0);
    }

    function testFuzz_shard_allSlots_arePermutation(bytes32 beacon, uint256 solvers) public view {
        solvers = bound(solvers, 1, 64);
        uint256 seen = 0;
        for (uint256 slot = 0; slot < solvers; ++slot) {
            seen |= 1 << Draw.shard(beacon, slot, solvers);
        }
        assertEq(seen, (1 << solvers) - 1, "each shard once");
    }
}
