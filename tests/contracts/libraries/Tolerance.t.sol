// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Limits} from "../../../contracts/Types.sol";
import {Float32} from "../../../contracts/libraries/Float32.sol";
import {PositionalMerkle} from "../../../contracts/libraries/PositionalMerkle.sol";
import {Tolerance} from "../../../contracts/libraries/Tolerance.sol";
import {StateLeaf} from "../StateLeaf.sol";
import {Test} from "../Test.sol";

contract ToleranceTest is Test {
    uint256 private constant RATE = 1 << 60;

    function _limits(uint64 tau) private pure returns (Limits memory) {
        return Limits(tau, 1, tau, 1, tau, 1);
    }

    /// @dev Any finite element.
    function _finite(uint256 seed) private pure returns (Tolerance.Element memory) {
        return Tolerance.Element(_number(seed), _number(seed >> 64), _number(seed >> 128));
    }

    function _number(uint256 seed) private pure returns (uint32) {
        return uint32(seed) % Float32.INFINITY | (uint32(seed >> 32) & Float32.SIGN_BIT);
    }

    function testFuzz_isElementBeyond_itself_isNot(uint256 seed) public pure {
        Tolerance.Element memory element = _finite(seed);
        assertTrue(!Tolerance.doesElementExceed(element, element, _limits(0), RATE), "equal");
    }

    /// @dev Nothing that two parties may put into leaves, limits or the schedule makes the contract revert.
    function testFuzz_isElementBeyond_anything_neverReverts(
        uint32[6] memory bits,
        Limits memory limits,
        uint256 sum
    ) public pure {
        Tolerance.Element memory claimed = Tolerance.Element(bits[0], bits[1], bits[2]);
        Tolerance.Element memory replayed = Tolerance.Element(bits[3], bits[4], bits[5]);
        Tolerance.doesElementExceed(claimed, replayed, limits, sum);
    }

    function testFuzz_isElementBeyond_finiteAndWidest_neverReverts(uint256 seedA, uint256 seedB, uint256 sum)
        public
        pure
    {
        Limits memory widest = Limits(
            type(uint64).max,
            type(uint160).max,
            type(uint64).max,
            type(uint160).max,
            type(uint64).max,
            type(uint64).max
        );
        Tolerance.doesElementExceed(_finite(seedA), _finite(seedB), widest, sum);
    }

    /// @dev Whatever lies inside the narrow limits lies inside the wide ones.
    function testFuzz_isElementBeyond_widerLimits_neverWorse(uint256 seed, uint256 change, uint64 tau)
        public
        pure
    {
        Tolerance.Element memory replayed = _finite(seed);
        Tolerance.Element memory claimed =
            Tolerance.Element(replayed.weight, replayed.firstMoment, replayed.secondMoment);
        claimed.weight ^= uint32(change & 0x7fff);
        claimed.firstMoment ^= uint32((change >> 16) & 0x7fff);
        claimed.secondMoment ^= uint32((change >> 32) & 0x7fff);
        bool narrow = Tolerance.doesElementExceed(claimed, replayed, _limits(tau / 2), RATE);
        bool wide = Tolerance.doesElementExceed(claimed, replayed, _limits(tau), RATE);
        assertTrue(narrow || !wide, "monotone");
    }

    function test_distance_acrossZero_isTheSum() public pure {
        (uint256 one, uint256 two) = (0x3f800000, 0x40000000);
        assertEq(Tolerance.distance(one, two), 1 << 149, "1 and 2");
        assertEq(Tolerance.distance(one | Float32.SIGN_BIT, two), 3 << 149, "-1 and 2");
        assertEq(Tolerance.distance(one, one | Float32.SIGN_BIT), 2 << 149, "1 and -1");
    }

    function testFuzz_isElementBeyond_notFinite_is(uint256 seed, uint32 bits, uint256 place, bool claims)
        public
        pure
    {
        place = bound(place, 0, 2);
        uint32 bad = bits | Float32.INFINITY;
        (Tolerance.Element memory a, Tolerance.Element memory b) = (_finite(seed), _finite(seed));
        Tolerance.Element memory broken = claims ? a : b;
        if (place == 0) broken.weight = bad;
        if (place == 1) broken.firstMoment = bad;
        if (place == 2) broken.secondMoment = bad;
        assertTrue(Tolerance.doesElementExceed(a, b, _limits(type(uint64).max), RATE), "not finite");
    }

    /// @dev Its root is no number: the next step would lose the weight.
    function testFuzz_isElementBeyond_onlyClaimedVIsNegative_is(uint32 claimed, uint32 replayed) public pure {
        (claimed, replayed) = (claimed % Float32.INFINITY, replayed % Float32.INFINITY);
        if (claimed == 0) return;
        Limits memory limits = _limits(type(uint64).max);
        limits.floorV = type(uint160).max;
        Tolerance.Element memory a = Tolerance.Element(0, 0, claimed | Float32.SIGN_BIT);
        Tolerance.Element memory b = Tolerance.Element(0, 0, replayed);
        assertTrue(Tolerance.doesElementExceed(a, b, limits, RATE), "alone");
        b.secondMoment = a.secondMoment;
        assertTrue(!Tolerance.doesElementExceed(a, b, _limits(0), RATE), "both");
    }

    /// @dev m and v of the largest float32: the root is exact to a part in 2^96, and nothing overflows.
    function test_rootOf_large_isNotCutOff() public pure {
        assertEq(Tolerance.rootOf(Float32.round(false, 1, 149 + 64)), 1 << 128, "2^32");
        assertEq(Tolerance.rootOf(Float32.round(true, 1, 149 + 126)), 1 << 159, "2^63, of a negative number");
        uint256 almost = Tolerance.rootOf(Float32.INFINITY - 1);
        assertTrue(almost < 1 << 160 && almost > (1 << 160) - (1 << 136), "below 2^64");
        uint256 most = Tolerance.firstAllowance(almost, type(uint64).max, type(uint160).max);
        assertTrue(most > 1 << 212 && most < 1 << 213, "what an m of any size is allowed");
    }

    function test_isElementBeyond_largeNumbers_areJudged() public pure {
        uint32 edge = Float32.round(false, 1, 149 + 64);
        uint32 most = Float32.INFINITY - 1;
        Tolerance.Element memory replayed = Tolerance.Element(edge + 9, edge, edge);
        Tolerance.Element memory claimed = Tolerance.Element(most, edge + 1, most);
        assertTrue(!Tolerance.doesElementExceed(claimed, replayed, _limits(0), 0), "all cut off");
        claimed.weight ^= Float32.SIGN_BIT;
        assertTrue(Tolerance.doesElementExceed(claimed, replayed, _limits(1 << 60), RATE), "the other sign");
        claimed.weight = edge - 1;
        assertTrue(Tolerance.doesElementExceed(claimed, replayed, _limits(0), 0), "an ulp, without limits");
        Limits memory wide = _limits(0);
        wide.tauR = 1 << 40;
        assertTrue(!Tolerance.doesElementExceed(claimed, replayed, wide, 0), "an ulp, inside the limits");
    }

    function testFuzz_isLeafBeyond_oneBadElement_decides(uint256 index) public pure {
        Tolerance.Leaf memory replayed = StateLeaf.filled(0x3d000000, 0x3a000000, 0x33000000);
        Tolerance.Leaf memory claimed = StateLeaf.filled(0x3d000000, 0x3a000000, 0x33000000);
        Limits memory limits = _limits(1 << 40);
        assertTrue(!Tolerance.doesLeafExceed(claimed, replayed, limits, RATE), "equal");
        Float32.store(claimed.firstMoment, bound(index, 0, 255), 0x3b000000);
        assertTrue(Tolerance.doesLeafExceed(claimed, replayed, limits, RATE), "one element");
    }

    function test_isLeafBeyond_anotherSize_is() public pure {
        Tolerance.Leaf memory whole = StateLeaf.filled(0, 0, 0);
        for (uint256 i = 0; i < 3; ++i) {
            Tolerance.Leaf memory short = StateLeaf.filled(0, 0, 0);
            if (i == 0) short.weights = new bytes(1023);
            if (i == 1) short.firstMoment = new bytes(1023);
            if (i == 2) short.secondMoment = new bytes(1023);
            assertTrue(Tolerance.doesLeafExceed(short, whole, _limits(1), RATE), "claimed");
            assertTrue(Tolerance.doesLeafExceed(whole, short, _limits(1), RATE), "replayed");
        }
    }
}
