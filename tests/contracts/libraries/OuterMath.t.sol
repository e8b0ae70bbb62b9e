// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Float32} from "../../../contracts/libraries/Float32.sol";
import {OuterMath} from "../../../contracts/libraries/OuterMath.sol";
import {OuterLeaves} from "../OuterLeaves.sol";
import {Test} from "../Test.sol";

contract OuterMathTest is Test {
    using Float32 for uint32;

    function outerLeaf(bytes memory w, bytes memory m, bytes[] memory deltas, OuterMath.Rates memory rates)
        external
        pure
        returns (bytes memory, bytes memory)
    {
        return OuterMath.outerLeaf(w, m, deltas, rates);
    }

    function _block(uint256 seed, uint256 spread) private pure returns (uint32[] memory differences) {
        differences = new uint32[](64);
        for (uint256 i = 0; i < 64; ++i) {
            uint256 word = uint256(keccak256(abi.encode(seed, i)));
            uint256 exponent = (seed >> 8) % 190 + word % (spread + 1);
            differences[i] = uint32((exponent << 23) | ((word >> 32) & 0x7fffff) | (((word >> 64) & 1) << 31));
        }
    }

    /// @dev Quantising what was decoded gives the same bytes again: the encoding is a projection.
    function testFuzz_encodeBlock_decoded_isStable(uint256 seed, uint256 spread) public pure {
        uint32[] memory differences = _block(seed, bound(spread, 0, 12));
        bytes memory leaf = new bytes(OuterMath.DELTA_LEAF_BYTES);
        OuterMath.encodeBlock(differences, leaf, 0);
        for (uint256 i = 0; i < 64; ++i) {
            differences[i] = OuterMath.valueAt(leaf, i);
        }
        bytes memory again = new bytes(OuterMath.DELTA_LEAF_BYTES);
        OuterMath.encodeBlock(differences, again, 0);
        assertEq(again, leaf, "projection");
    }

    /// @dev |decoded - d| is at most half a step of the block's scale.
    function testFuzz_encodeBlock_error_isHalfAStepAtMost(uint256 seed, uint256 spread) public pure {
        uint32[] memory differences = _block(seed, bound(spread, 0, 12));
        bytes memory leaf = new bytes(OuterMath.DELTA_LEAF_BYTES);
        OuterMath.encodeBlock(differences, leaf, 0);
        for (uint256 i = 0; i < 64; ++i) {
            int256 difference = _units(differences[i]) - _units(OuterMath.valueAt(leaf, i));
            uint256 off = uint256(difference < 0 ? -difference : difference);
            assertTrue(2 * off <= 1 << uint8(leaf[0]), "half a step");
        }
    }

    function _units(uint32 bits) private pure returns (int256) {
        (bool negative, uint256 mantissa, uint256 exponent) = bits.decode();
        return negative ? -int256(mantissa << exponent) : int256(mantissa << exponent);
    }

    function testFuzz_scaleOf_isTheSmallest(uint32 largest) public pure {
        largest &= ~Float32.SIGN_BIT;
        if (largest >> 23 > 225) return;
        uint256 magnitude = uint256(_units(largest));
        uint256 scale = OuterMath.scaleOf(largest);
        assertTrue(magnitude <= 127 << scale, "127 steps reach it");
        assertTrue(scale == 0 || magnitude > 127 << (scale - 1), "half the step would not");
    }

    function test_deltaLeaf_brokenLeaves_haveNoEncoding() public pure {
        bytes memory sound = new bytes(1024);
        (bool ok,) = OuterMath.deltaLeaf(sound, new bytes(1020));
        assertTrue(!ok, "short leaf");
        bytes memory broken = new bytes(1024);
        Float32.store(broken, 255, Float32.INFINITY);
        (ok,) = OuterMath.deltaLeaf(sound, broken);
        assertTrue(!ok, "infinity");
        (ok,) = OuterMath.deltaLeaf(broken, sound);
        assertTrue(!ok, "infinity of the global weights");
    }

    /// @dev An honest solver can claim whatever finite weights a program leads it to.
    function testFuzz_deltaLeaf_finiteLeaves_haveAnEncoding(uint32[6] memory values) public pure {
        (bytes memory start, bytes memory end) = (new bytes(1024), new bytes(1024));
        for (uint256 i = 0; i < 256; ++i) {
            Float32.store(start, i, _finite(values[i % 3]));
            Float32.store(end, i, _finite(values[3 + i % 2 + (i / 100) % 2]));
        }
        (bool ok, bytes memory delta) = OuterMath.deltaLeaf(start, end);
        assertTrue(ok, "an encoding");
        assertTrue(OuterMath.hasScales(delta), "of scales that are read");
        for (uint256 i = 0; i < 256; ++i) {
            uint32 d = Float32.load(start, i).sub(Float32.load(end, i));
            bool isOpposite = OuterMath.valueAt(delta, i) & ~Float32.SIGN_BIT != 0
                && (OuterMath.valueAt(delta, i) ^ d) & Float32.SIGN_BIT != 0;
            assertTrue(!isOpposite, "of the same sign");
        }
    }

    function _finite(uint32 bits) private pure returns (uint32) {
        return bits.isFinite() ? bits : bits ^ (1 << 23);
    }

    function test_encodeBlock_beyondTheLargest_isCutOff() public pure {
        uint32[] memory differences = new uint32[](64);
        bytes memory leaf = new bytes(OuterMath.DELTA_LEAF_BYTES);
        (differences[0], differences[1]) = (Float32.INFINITY - 1, Float32.INFINITY | Float32.SIGN_BIT);
        (differences[2], differences[3]) = (Float32.INFINITY, Float32.round(true, 3, 219));
        OuterMath.encodeBlock(differences, leaf, 0);
        assertEq(uint256(uint8(leaf[0])), 220, "scale");
        int8[5] memory quanta = [int8(127), -127, 127, -2, 0];
        for (uint256 i = 0; i < 5; ++i) {
            assertEq(uint256(int256(int8(uint8(leaf[1 + i])))), uint256(int256(quanta[i])), "quantum");
        }
    }

    function test_mean_overflowOnTheWay_isNotOk() public pure {
        uint32 largest = Float32.INFINITY - 1;
        uint32[] memory values = new uint32[](3);
        (values[0], values[1], values[2]) = (largest, largest, largest | Float32.SIGN_BIT);
        (bool ok,) = OuterMath.mean(values);
        assertTrue(!ok, "infinity on the way");
        (values[1], values[2]) = (largest | Float32.SIGN_BIT, largest);
        uint32 mean;
        (ok, mean) = OuterMath.mean(values);
        assertTrue(ok, "the same in another order");
        assertEq(mean, Float32.div(largest, Float32.fromUint(3)), "a third of the largest");
    }

    /// @dev 127 * 2^71 is the largest that an encoding has, with its last scale, 220. All that is larger is encoded like it.
    function test_deltaLeaf_lastScale_isTheLargestEncoding() public pure {
        (bytes memory sound, bytes memory far) = (new bytes(1024), new bytes(1024));
        uint32 largest = Float32.round(true, 127, 220);
        Float32.store(far, 255, largest);
        (bool ok, bytes memory delta) = OuterMath.deltaLeaf(sound, far);
        assertTrue(ok, "an encoding");
        assertEq(uint256(uint8(delta[195])), 220, "scale");
        assertEq(uint256(uint8(delta[259])), 127, "quantum");
        assertTrue(OuterMath.hasScales(delta), "its scales are good");
        Float32.store(far, 255, largest + 1);
        (bool isBeyondOk, bytes memory same) = OuterMath.deltaLeaf(sound, far);
        assertTrue(isBeyondOk, "an encoding beyond it");
        assertEq(same, delta, "the same");
    }

    function test_hasScales_oneAbove_hasNot() public {
        bytes memory delta = new bytes(260);
        for (uint256 i = 0; i < 4; ++i) {
            delta[i * 65] = bytes1(uint8(221));
            assertTrue(!OuterMath.hasScales(delta), "scale 221");
            delta[i * 65] = bytes1(uint8(220));
            assertTrue(OuterMath.hasScales(delta), "scale 220");
        }
        vm.expectRevert(abi.encodeWithSelector(OuterMath.WrongLeafBytes.selector, 260, 261));
        this.hasScales(new bytes(261));
    }

    function hasScales(bytes memory delta) external pure returns (bool) {
        return OuterMath.hasScales(delta);
    }

    /// @dev Whoever commits to such a block moves nothing, and nobody has to compute with it.
    function test_outerLeaf_scaleAbove_isReadAsZeros() public view {
        (bytes[] memory broken, bytes[] memory zeros) = (new bytes[](3), new bytes[](3));
        for (uint256 i = 0; i < 3; ++i) {
            broken[i] = _delta(i + 1, 30);
            zeros[i] = bytes.concat(broken[i]);
        }
        broken[1][65] = bytes1(uint8(221));
        for (uint256 j = 65; j < 130; ++j) {
            zeros[1][j] = 0;
        }
        OuterMath.Rates memory rates = OuterMath.Rates(0x3f333333, 0x3f666666);
        (bytes memory w, bytes memory m) =
            this.outerLeaf(OuterLeaves.noise(1), OuterLeaves.noise(2), broken, rates);
        (bytes memory expectedW, bytes memory expectedM) =
            this.outerLeaf(OuterLeaves.noise(1), OuterLeaves.noise(2), zeros, rates);
        assertEq(w, expectedW, "weights");
        assertEq(m, expectedM, "momentum");
        assertEq(OuterMath.valueAt(broken[1], 64), 0, "its elements");
    }

    function test_outerLeaf_noClaim_staysAsItIs() public view {
        (bytes memory w, bytes memory m) = (OuterLeaves.noise(1), OuterLeaves.noise(2));
        (bytes memory newW, bytes memory newM) =
            this.outerLeaf(w, m, new bytes[](0), OuterMath.Rates(0x3f800000, 0x3f000000));
        assertEq(newW, w, "weights");
        assertEq(newM, m, "momentum");
    }

    /// @dev -0 and a claim of 0, which is +0, are +0.
    function test_outerLeaf_claimOfZero_isPositive() public view {
        (bytes memory momentum, bytes[] memory deltas) = (new bytes(1024), new bytes[](1));
        deltas[0] = new bytes(260);
        for (uint256 i = 0; i < 256; ++i) {
            Float32.store(momentum, i, Float32.SIGN_BIT);
        }
        (, bytes memory newM) =
            this.outerLeaf(OuterLeaves.noise(1), momentum, deltas, OuterMath.Rates(0x3f800000, 0x3f000000));
        assertEq(newM, new bytes(1024), "zeros without a sign");
    }

    function test_outerLeaf_anotherSize_reverts() public {
        bytes[] memory deltas = new bytes[](1);
        deltas[0] = new bytes(259);
        vm.expectRevert(abi.encodeWithSelector(OuterMath.WrongLeafBytes.selector, 260, 259));
        this.outerLeaf(new bytes(1024), new bytes(1024), deltas, OuterMath.Rates(1, 1));
        vm.expectRevert(abi.encodeWithSelector(OuterMath.WrongLeafBytes.selector, 1024, 1023));
        this.outerLeaf(new bytes(1023), new bytes(1024), deltas, OuterMath.Rates(1, 1));
        vm.expectRevert(abi.encodeWithSelector(OuterMath.WrongLeafBytes.selector, 1024, 1025));
        this.outerLeaf(new bytes(1024), new bytes(1025), deltas, OuterMath.Rates(1, 1));
    }

    /// @dev Whatever accepted claims contain, the leaf can be computed and stays finite: nobody can block a contest.
    function testFuzz_outerElement_anyClaims_isTotal(uint32 w, uint32 m, uint256 seed, uint32 rate, uint32 mu)
        public
        pure
    {
        if (!w.isFinite() || !m.isFinite() || !rate.isFinite() || !mu.isFinite()) return;
        uint32[] memory values = new uint32[](seed % 5 + 1);
        for (uint256 i = 0; i < values.length; ++i) {
            bytes memory delta = new bytes(OuterMath.DELTA_LEAF_BYTES);
            (delta[0], delta[1]) = (bytes1(uint8(seed >> (16 * i))), bytes1(uint8(seed >> (16 * i + 8))));
            values[i] = OuterMath.valueAt(delta, 0);
        }
        (uint32 newW, uint32 newM) = (w, m);
        (bool ok, uint32 d) = OuterMath.mean(values);
        assertTrue(ok, "sums of claims do not overflow");
        (newW, newM) = OuterMath.outerElement(w, m, d, OuterMath.Rates(rate, mu));
        assertTrue(newW.isFinite() && newM.isFinite(), "finite");
    }

    /// @dev 2^128 - 2^104 and 2^113 on top of it: the momentum is finite, the step is not.
    function test_outerElement_stepOverflows_keepsItsValues() public pure {
        (uint32 w, uint32 m, uint32 d) = (0x3f800000, 0x7f7ffdff, 0x78000000);
        (uint32 newW, uint32 newM) = OuterMath.outerElement(w, m, d, OuterMath.Rates(0x3f000000, 0x3f800000));
        assertEq(newW, w, "weight");
        assertEq(newM, m, "momentum");
    }

    /// @dev The sum of a whole block takes a short way in integers; the reference adds float by float. Zero blocks of any scale,
    /// scales close together, far apart, and above the last one.
    /// forge-config: default.fuzz.runs = 64
    function testFuzz_outerLeaf_againstElementwise_agrees(uint256 seed, uint256 spread, uint256 count)
        public
        view
    {
        bytes[] memory deltas = new bytes[](bound(count, 1, 6));
        spread = [uint256(1), 8, 20, 30, 60, 256][spread % 6];
        for (uint256 i = 0; i < deltas.length; ++i) {
            deltas[i] = _delta(uint256(keccak256(abi.encode(seed, i))), spread);
        }
        _assertElementwise(seed, deltas);
    }

    /// @dev The least scale beside the largest: in units of the one the other's values fill a word of 256 bits.
    function test_outerLeaf_scalesFarApart_agrees() public view {
        bytes[] memory deltas = new bytes[](3);
        for (uint256 i = 0; i < deltas.length; ++i) {
            deltas[i] = _delta(i + 1, 1);
            for (uint256 at = 0; at < deltas[i].length; at += 65) {
                deltas[i][at] = bytes1(uint8(i == 1 ? 0 : 220));
            }
        }
        _assertElementwise(0, deltas);
    }

    /// @dev Every sum rounds: scales that rise by three or four bits, by one, and sums that cross a power of two up and down.
    function test_outerLeaf_everySumRounds_agrees() public view {
        for (uint256 kind = 0; kind < 3; ++kind) {
            _assertElementwise(kind, OuterLeaves.rounding(kind, 23));
        }
    }

    /// @dev Claims of which nearly every one makes the sum round. 0: scales rise over all that there are; 1: by one; 2: the sum stays about a power of two.
    function _assertElementwise(uint256 seed, bytes[] memory deltas) private view {
        (bytes memory w, bytes memory m) = (OuterLeaves.noise(seed), OuterLeaves.noise(~seed));
        OuterMath.Rates memory rates = OuterMath.Rates(0x3f333333, 0x3f666666);
        (bytes memory newW, bytes memory newM) = this.outerLeaf(w, m, deltas, rates);
        for (uint256 i = seed % 7; i < 256; i += 7) {
            (uint32 expectedW, uint32 expectedM) =
                _reference(Float32.load(w, i), Float32.load(m, i), deltas, i, rates);
            assertEq(Float32.load(newW, i), expectedW, "weight");
            assertEq(Float32.load(newM, i), expectedM, "momentum");
        }
    }

    function _delta(uint256 seed, uint256 spread) private pure returns (bytes memory delta) {
        delta = new bytes(OuterMath.DELTA_LEAF_BYTES);
        for (uint256 j = 0; j < 260; ++j) {
            uint256 word = uint256(keccak256(abi.encode(seed, j)));
            bool zero = (seed >> (j / 65)) % 4 == 0;
            delta[j] = j % 65 == 0
                ? bytes1(uint8((seed >> 16) % (257 - spread) + word % spread))
                : bytes1(zero ? 0 : uint8(word));
        }
    }

    function _reference(
        uint32 w,
        uint32 m,
        bytes[] memory deltas,
        uint256 index,
        OuterMath.Rates memory rates
    ) private pure returns (uint32, uint32) {
        uint32[] memory values = new uint32[](deltas.length);
        for (uint256 i = 0; i < values.length; ++i) {
            values[i] = OuterMath.valueAt(deltas[i], index);
        }
        (bool ok, uint32 d) = OuterMath.mean(values);
        return ok ? OuterMath.outerElement(w, m, d, rates) : (w, m);
    }
}
