// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Float32} from "../../../contracts/libraries/Float32.sol";
import {Test} from "../Test.sol";

/// @dev Results are checked against the definition of correct rounding, in exact integers, not against another implementation.
contract Float32Test is Test {
    using Float32 for uint32;

    uint256 private constant GAS_OF_ADD = 1300;

    function add(uint32 a, uint32 b) external pure returns (uint32) {
        return a.add(b);
    }

    function mul(uint32 a, uint32 b) external pure returns (uint32) {
        return a.mul(b);
    }

    function div(uint32 a, uint32 b) external pure returns (uint32) {
        return a.div(b);
    }

    /// @dev Patterns of near exponents, so that sums cancel, carry and tie.
    function _finite(uint256 seed) private pure returns (uint32) {
        uint256 fraction = [uint256(0), 1, 0x7fffff, 0x400000, (seed >> 8) & 0x7fffff][seed % 5];
        uint256 exponent = seed % 7 == 0 ? (seed >> 32) % 255 : (seed >> 32) % 40;
        return uint32((((seed >> 64) & 1) << 31) | (exponent << 23) | fraction);
    }

    /// @dev Twice the value in units of 2^-149; fits for exponents below 230.
    function _doubled(uint32 bits) private pure returns (int256) {
        (bool negative, uint256 mantissa, uint256 exponent) = bits.decode();
        int256 magnitude = int256(mantissa << (exponent + 1));
        return negative ? -magnitude : magnitude;
    }

    function _next(uint32 bits) private pure returns (uint32) {
        return bits + 1;
    }

    /// @dev |exact - result| is at most half of the distance to either neighbour, and the result is even where it is a half.
    function _requireNearest(uint32 result, int256 doubledExact) private pure {
        uint32 magnitude = result & ~Float32.SIGN_BIT;
        uint256 exact = uint256(doubledExact < 0 ? -doubledExact : doubledExact);
        uint256 value = uint256(_doubled(magnitude));
        uint256 above = uint256(_doubled(_next(magnitude)));
        uint256 below = magnitude == 0 ? 0 : uint256(_doubled(magnitude - 1));
        bool even = result & 1 == 0;
        uint256 off = exact > value ? exact - value : value - exact;
        uint256 room = exact > value ? above - value : value - below;
        assertTrue(2 * off < room || (2 * off == room && even) || off == 0, "not the nearest even");
    }

    /// @dev Half of the last place and less rounds to nothing, however far it is shifted out.
    function test_shiftRightEven_allOut_isZero() public pure {
        assertEq(Float32.shiftRightEven(1 << 255, 256), 0, "a tie with zero");
        assertEq(Float32.shiftRightEven((1 << 255) + 1, 256), 1, "more than half");
        assertEq(Float32.shiftRightEven(type(uint256).max, 257), 0, "less than half");
        assertEq(Float32.shiftRightEven(type(uint256).max, 1000), 0, "far less");
    }

    function testFuzz_add_nearExponents_isNearestEven(uint256 seedA, uint256 seedB) public pure {
        (uint32 a, uint32 b) = (_finite(seedA | 1 << 200), _finite(seedB));
        if ((a >> 23) & 0xff > 200 || (b >> 23) & 0xff > 200) return;
        int256 exact = _doubled(a) + _doubled(b);
        uint32 result = a.add(b);
        _requireNearest(result, exact);
        if (exact != 0) assertEq(result & Float32.SIGN_BIT != 0, exact < 0, "sign");
    }

    function testFuzz_add_anyOrder_commutes(uint256 seedA, uint256 seedB) public pure {
        (uint32 a, uint32 b) = (_finite(seedA), _finite(seedB));
        assertEq(a.add(b), b.add(a), "a + b = b + a");
    }

    function testFuzz_sub_itself_isPlusZero(uint256 seed) public pure {
        uint32 a = _finite(seed);
        assertEq(a.sub(a), 0, "+0");
    }

    function test_add_zeros_keepTheirSign() public pure {
        uint32 minus = Float32.SIGN_BIT;
        assertEq(minus.add(minus), minus, "-0 + -0");
        assertEq(minus.add(0), 0, "-0 + 0");
        assertEq(uint32(0).sub(minus), 0, "0 - -0");
        assertEq(minus.sub(0), minus, "-0 - 0");
    }

    function testFuzz_mul_byPowerOfTwo_isExact(uint256 seed) public pure {
        uint32 a = _finite(seed);
        uint32 two = 0x40000000;
        uint32 half = 0x3f000000;
        if (a.mul(two).isFinite()) assertEq(a.mul(two).mul(half), a, "doubled and halved");
    }

    function testFuzz_mul_smallNumbers_isNearestEven(uint256 seedA, uint256 seedB) public pure {
        // One factor is scaled by 2^-149 (the least subnormal as unit), so that the exact product is in units of 2^-149 again.
        (uint32 a, uint32 b) = (_finite(seedA), uint32(bound(seedB, 0, (1 << 24) - 1)));
        if ((a >> 23) & 0xff > 200) return;
        uint32 factor = Float32.fromUint(b);
        _requireNearest(a.mul(factor), _doubled(a) * int256(uint256(b)));
    }

    function testFuzz_div_smallDivisor_isNearestEven(uint256 seed, uint256 n) public pure {
        uint32 a = _finite(seed) & ~Float32.SIGN_BIT;
        if ((a >> 23) & 0xff > 150) return;
        n = bound(n, 1, 64);
        uint32 result = a.div(Float32.fromUint(n));
        // 2 * |n * result - a| <= n * room, all exact.
        uint256 exact = uint256(_doubled(a));
        uint256 value = uint256(_doubled(result)) * n;
        uint256 above = uint256(_doubled(_next(result))) * n;
        uint256 below = result == 0 ? 0 : uint256(_doubled(result - 1)) * n;
        uint256 off = exact > value ? exact - value : value - exact;
        uint256 room = exact > value ? above - value : value - below;
        assertTrue(2 * off < room || (2 * off == room && result & 1 == 0) || off == 0, "not the nearest even");
    }

    function testFuzz_div_itself_isOne(uint256 seed) public pure {
        uint32 a = _finite(seed);
        if (a & ~Float32.SIGN_BIT != 0) assertEq(a.div(a), 0x3f800000, "1");
    }

    function test_div_byZero_reverts() public {
        vm.expectRevert(Float32.DivisionByZero.selector);
        this.div(1, Float32.SIGN_BIT);
    }

    function decode(uint32 bits) external pure returns (bool, uint256, uint256) {
        return bits.decode();
    }

    function testFuzz_operations_notFinite_revert(uint32 fraction, bool negative, uint256 seed) public {
        uint32 bits = Float32.INFINITY | (fraction & 0x7fffff) | (negative ? Float32.SIGN_BIT : 0);
        bytes memory error_ = abi.encodeWithSelector(Float32.NotFinite.selector, bits);
        vm.expectRevert(error_);
        this.decode(bits);
        vm.expectRevert(error_);
        this.add(bits, _finite(seed));
        vm.expectRevert(error_);
        this.add(_finite(seed), bits);
        vm.expectRevert(error_);
        this.mul(bits, _finite(seed));
        vm.expectRevert(error_);
        this.mul(_finite(seed), bits);
        vm.expectRevert(error_);
        this.div(bits, _finite(seed));
        vm.expectRevert(error_);
        this.div(_finite(seed), bits);
    }

    function test_overflow_givesInfinity() public pure {
        uint32 largest = Float32.INFINITY - 1;
        assertEq(largest.add(largest), Float32.INFINITY, "sum");
        assertEq(largest.negate().mul(largest), Float32.INFINITY | Float32.SIGN_BIT, "product");
        assertEq(largest.div(1), Float32.INFINITY, "quotient");
        // Half a unit in the last place beyond the largest rounds up, anything less stays.
        assertEq(largest.add(0x73000000), Float32.INFINITY, "2^128 - 2^103");
        assertEq(largest.add(0x72ffffff), largest, "just below");
    }

    function test_underflow_goesThroughSubnormals() public pure {
        assertEq(uint32(1).mul(0x3f000000), 0, "half of the least: tie to even");
        assertEq(uint32(3).mul(0x3f000000), 2, "one and a half of the least: tie to even");
        assertEq(uint32(0x00800000).mul(0x3f000000), 0x00400000, "half of the least normal");
        assertEq(uint32(1).mul(1), 0, "far below");
        assertEq(uint32(1).negate().mul(1), Float32.SIGN_BIT, "far below, negative");
    }

    function testFuzz_load_afterStore_returnsIt(uint256 index, uint32 bits, bytes32 fill) public pure {
        bytes memory data = bytes.concat(fill, fill, fill, fill);
        index = bound(index, 0, 31);
        bytes memory expected = bytes.concat(fill, fill, fill, fill);
        Float32.store(data, index, bits);
        assertEq(Float32.load(data, index), bits, "read back");
        for (uint256 i = 0; i < 4; ++i) {
            // Little-endian: the least significant byte comes first.
            expected[4 * index + i] = bytes1(uint8(bits >> (8 * i)));
        }
        assertEq(data, expected, "and nothing else changed");
    }

    function test_add_gas_staysSmall() public view {
        uint256 before = gasleft();
        uint32 sum = uint32(0x3f9d70a4).add(0xbe4ccccd);
        assertTrue(before - gasleft() < GAS_OF_ADD, "gas of one addition");
        assertTrue(sum != 0, "used");
    }
}
