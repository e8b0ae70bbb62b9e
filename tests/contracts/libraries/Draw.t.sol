// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Draw} from "../../../contracts/libraries/Draw.sol";
import {Hashing} from "../../../contracts/libraries/Hashing.sol";
import {Test} from "../Test.sol";

contract DrawTest is Test {
    function uniform(uint256 n) external pure returns (uint256) {
        return Draw.uniform(0, 0, n);
    }

    function distinct(bytes32 seed, uint256 count, uint256 n) external pure returns (uint256[] memory) {
        return Draw.distinct(seed, 0, count, n);
    }

    function segments(bytes32 seed, uint256 draws, uint256 n) external pure returns (uint256[] memory) {
        return Draw.segments(seed, draws, n);
    }

    function testFuzz_uniform_anyRange_staysInside(bytes32 seed, uint256 counter, uint256 n) public pure {
        n = bound(n, 1, type(uint256).max);
        assertTrue(Draw.uniform(seed, counter, n) < n, "below n");
    }

    function test_uniform_nothing_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(Draw.NothingToDraw.selector, 1, 0));
        this.uniform(0);
        vm.expectRevert(abi.encodeWithSelector(Draw.NothingToDraw.selector, 2, 1));
        this.distinct(0, 2, 1);
    }

    function testFuzz_distinct_anySeed_isDistinctAndInside(bytes32 seed, uint256 count, uint256 n)
        public
        view
    {
        n = bound(n, 1, 60);
        count = bound(count, 0, n);
        uint256[] memory drawn = this.distinct(seed, count, n);
        bool[] memory seen = new bool[](n);
        for (uint256 i = 0; i < count; ++i) {
            assertTrue(!seen[drawn[i]], "drawn twice");
            seen[drawn[i]] = true;
        }
    }

    /// @dev The definition, with the whole permutation in memory.
    function testFuzz_distinct_againstFullPermutation_agrees(bytes32 seed, uint256 count, uint256 n)
        public
        view
    {
        n = bound(n, 1, 40);
        count = bound(count, 0, n);
        uint256[] memory cards = new uint256[](n);
        for (uint256 i = 0; i < n; ++i) {
            cards[i] = i;
        }
        uint256[] memory expected = new uint256[](count);
        for (uint256 i = 0; i < count; ++i) {
            uint256 j = i + Draw.uniform(seed, i, n - i);
            (cards[i], cards[j]) = (cards[j], cards[i]);
            expected[i] = cards[i];
        }
        assertEq(this.distinct(seed, count, n), expected, "Fisher-Yates");
    }

    function testFuzz_segments_anySeed_ascendWithGaps(bytes32 seed, uint256 draws, uint256 n) public view {
        draws = bound(draws, 1, 12);
        n = bound(n, 2 * draws - 1, 60);
        uint256[] memory drawn = this.segments(seed, draws, n);
        for (uint256 i = 1; i < draws; ++i) {
            assertTrue(drawn[i] > drawn[i - 1] + 1, "adjacent");
        }
        assertTrue(drawn[draws - 1] < n, "inside");
    }

    function test_segments_tooFew_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(Draw.TooFewSegments.selector, 5, 4));
        this.segments(0, 3, 4);
        vm.expectRevert(abi.encodeWithSelector(Draw.NothingToDraw.selector, 0, 4));
        this.segments(0, 0, 4);
    }

    function testFuzz_shard_allSlots_arePermutation(bytes32 beacon, uint256 solvers) public pure {
        solvers = bound(solvers, 1, 64);
        uint256 seen = 0;
        for (uint256 slot = 0; slot < solvers; ++slot) {
            seen |= 1 << Draw.shard(beacon, slot, solvers);
        }
        assertEq(seen, (1 << solvers) - 1, "each shard once");
    }

    function testFuzz_lateAudit_whenDue_isUndrawn(bytes32 seed, uint256 draws, uint256 n, uint256 count)
        public
        view
    {
        draws = bound(draws, 1, 8);
        n = bound(n, 2 * draws, 40);
        count = bound(count, 1, 9);
        uint256[] memory drawn = this.segments(seed, draws, n);
        (bool due, uint256 segment, uint256 whistleblower) =
            Draw.lateAudit(seed, 3, Draw.LATE_RATE_ONE, drawn, n, count);
        assertTrue(due && segment < n && whistleblower < count, "due and inside");
        for (uint256 i = 0; i < draws; ++i) {
            assertTrue(drawn[i] != segment, "already drawn");
        }
    }

    function testFuzz_lateAudit_nobodyOrNever_isNotDue(bytes32 seed) public view {
        uint256[] memory drawn = this.segments(seed, 1, 4);
        (bool due,,) = Draw.lateAudit(seed, 0, Draw.LATE_RATE_ONE, drawn, 4, 0);
        assertTrue(!due, "no whistleblower");
        (due,,) = Draw.lateAudit(seed, 0, 0, drawn, 4, 1);
        assertTrue(!due, "rate 0");
        (due,,) = Draw.lateAudit(seed, 0, Draw.LATE_RATE_ONE, this.segments(seed, 1, 1), 1, 1);
        assertTrue(!due, "all segments drawn");
    }

    /// @dev Due where the number drawn is below the rate: of LATE_RATE_ONE numbers just `rate` are.
    function testFuzz_lateAudit_rate_isNotReached(bytes32 lateSeed) public view {
        uint256[] memory drawn = this.segments(lateSeed, 1, 4);
        uint256 rate = Draw.uniform(Hashing.slotSeed(lateSeed, 0), 0, Draw.LATE_RATE_ONE);
        (bool due,,) = Draw.lateAudit(lateSeed, 0, rate, drawn, 4, 1);
        assertTrue(!due, "at the rate");
        (due,,) = Draw.lateAudit(lateSeed, 0, rate + 1, drawn, 4, 1);
        assertTrue(due, "below it");
    }

    function testFuzz_auditors_anySeed_areThree(bytes32 seed, uint256 draw, uint256 verifiers) public pure {
        verifiers = bound(verifiers, 3, 999);
        uint256[] memory drawn = Draw.auditors(seed, bound(draw, 0, 254), verifiers);
        assertTrue(drawn[0] != drawn[1] && drawn[1] != drawn[2] && drawn[0] != drawn[2], "different");
    }
}
