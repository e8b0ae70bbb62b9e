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

    function _sound(uint256 seed) private pure returns (Tolerance.Element memory) {
        uint32 limit = (127 + 64) << 23;
        uint32 weight = uint32(seed) % limit | (uint32(seed >> 32) & Float32.SIGN_BIT);
        uint32 first = uint32(seed >> 64) % limit | (uint32(seed >> 96) & Float32.SIGN_BIT);
        return Tolerance.Element(weight, first, uint32(seed >> 128) % limit);
    }

    function testFuzz_isElementBeyond_itself_isNot(uint256 seed) public pure {
        Tolerance.Element memory element = _sound(seed);
        assertTrue(!Tolerance.isElementBeyond(element, element, _limits(0), RATE), "equal");
    }

    /// @dev Nothing that two parties may put into leaves, limits or the schedule makes the contract revert.
    function testFuzz_isElementBeyond_anything_neverReverts(
        uint32[6] memory bits,
        Limits memory limits,
        uint256 sum
    ) public pure {
        Tolerance.Element memory claimed = Tolerance.Element(bits[0], bits[1], bits[2]);
        Tolerance.Element memory replayed = Tolerance.Element(bits[3], bits[4], bits[5]);
        Tolerance.isElementBeyond(claimed, replayed, limits, sum);
    }

    function testFuzz_isElementBeyond_soundAndWidest_neverReverts(uint256 seedA, uint256 seedB, uint256 sum)
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
        Tolerance.isElementBeyond(_sound(seedA), _sound(seedB), widest, sum);
    }

    /// @dev Whatever lies inside the narrow limits lies inside the wide ones.
    function testFuzz_isElementBeyond_widerLimits_neverWorse(uint256 seed, uint256 change, uint64 tau)
        public
        pure
    {
        Tolerance.Element memory replayed = _sound(seed);
        Tolerance.Element memory claimed =
            Tolerance.Element(replayed.weight, replayed.firstMoment, replayed.secondMoment);
        claimed.weight ^= uint32(change & 0x7fff);
        claimed.firstMoment ^= uint32((change >> 16) & 0x7fff);
        claimed.secondMoment ^= uint32((change >> 32) & 0x7fff);
        bool narrow = Tolerance.isElementBeyond(claimed, replayed, _limits(tau / 2), RATE);
        bool wide = Tolerance.isElementBeyond(claimed, replayed, _limits(tau), RATE);
        assertTrue(narrow || !wide, "monotone");
    }

    function test_distance_acrossZero_isTheSum() public pure {
        (uint256 one, uint256 two) = (0x3f800000, 0x40000000);
        assertEq(Tolerance.distance(one, two), 1 << 149, "1 and 2");
        assertEq(Tolerance.distance(one | Float32.SIGN_BIT, two), 3 << 149, "-1 and 2");
        assertEq(Tolerance.distance(one, one | Float32.SIGN_BIT), 2 << 149, "1 and -1");
    }

    function testFuzz_isElementBeyond_unsoundSide_is(uint256 seed, uint32 bits, uint256 place, bool claims)
        public
        pure
    {
        place = bound(place, 0, 2);
        // Beyond 2^64 in magnitude, infinities and NaN included; a negative number in place 2.
        uint32 bad = bits | (uint32(127 + 64) << 23);
        if (place == 2 && bits % 2 == 0) bad = Float32.SIGN_BIT | (bits % (1 << 30)) | 1;
        (Tolerance.Element memory a, Tolerance.Element memory b) = (_sound(seed), _sound(seed));
        Tolerance.Element memory broken = claims ? a : b;
        if (place == 0) broken.weight = bad;
        if (place == 1) broken.firstMoment = bad;
        if (place == 2) broken.secondMoment = bad;
        if (Tolerance.isSound(broken)) return;
        assertTrue(Tolerance.isElementBeyond(a, b, _limits(type(uint64).max), RATE), "unsound");
    }

    function testFuzz_isLeafBeyond_oneBadElement_decides(uint256 index) public pure {
        Tolerance.Leaf memory replayed = StateLeaf.filled(0x3d000000, 0x3a000000, 0x33000000);
        Tolerance.Leaf memory claimed = StateLeaf.filled(0x3d000000, 0x3a000000, 0x33000000);
        Limits memory limits = _limits(1 << 40);
        assertTrue(!Tolerance.isLeafBeyond(claimed, replayed, limits, RATE), "equal");
        Float32.store(claimed.firstMoment, bound(index, 0, 255), 0x3b000000);
        assertTrue(Tolerance.isLeafBeyond(claimed, replayed, limits, RATE), "one element");
    }

    function test_isLeafBeyond_anotherSize_is() public pure {
        Tolerance.Leaf memory whole = StateLeaf.filled(0, 0, 0);
        for (uint256 i = 0; i < 3; ++i) {
            Tolerance.Leaf memory short = StateLeaf.filled(0, 0, 0);
            if (i == 0) short.weights = new bytes(1023);
            if (i == 1) short.firstMoment = new bytes(1023);
            if (i == 2) short.secondMoment = new bytes(1023);
            assertTrue(Tolerance.isLeafBeyond(short, whole, _limits(1), RATE), "claimed");
            assertTrue(Tolerance.isLeafBeyond(whole, short, _limits(1), RATE), "replayed");
        }
    }
}
