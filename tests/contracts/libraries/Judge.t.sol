// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ExactSum} from "../../../contracts/libraries/ExactSum.sol";
import {Float32} from "../../../contracts/libraries/Float32.sol";
import {Judge, Run} from "../../../contracts/libraries/Judge.sol";
import {Runs} from "../../../contracts/libraries/Runs.sol";
import {Test} from "../Test.sol";

/// @dev Checked against plain exact integers and against `Float32`, where these are simple; all else by tests/vectors/referee.json.
contract JudgeTest is Test {
    using Float32 for uint32;

    uint32 private constant ONE = 0x3f800000;
    uint32 private constant NOT_A_NUMBER = 0x7fc00000;

    function isFault(uint8 operation, Run[] memory operands, uint256 terms, uint32 claimed)
        external
        pure
        returns (bool)
    {
        return Judge.isFault(operation, operands, terms, claimed);
    }

    // Helpers
    function _pack(uint32[] memory values) private pure returns (bytes memory data) {
        data = new bytes(4 * values.length);
        for (uint256 i = 0; i < values.length; ++i) {
            Float32.store(data, i, values[i]);
        }
    }

    function _single(uint32 value) private pure returns (Run memory) {
        uint32[] memory values = new uint32[](1);
        values[0] = value;
        return Run(_pack(values), 0, false);
    }

    function _one(uint8 operation, uint32 a, uint32 claimed) private pure returns (bool) {
        Run[] memory operands = new Run[](1);
        operands[0] = _single(a);
        return Judge.isFault(operation, operands, 1, claimed);
    }

    function _two(uint8 operation, uint32 a, uint32 b, uint32 claimed) private pure returns (bool) {
        Run[] memory operands = new Run[](2);
        (operands[0], operands[1]) = (_single(a), _single(b));
        return Judge.isFault(operation, operands, 1, claimed);
    }

    function _sum(uint32[] memory a, uint32[] memory b, uint32 claimed) private pure returns (bool) {
        Run[] memory operands = new Run[](2);
        (operands[0], operands[1]) = (Run(_pack(a), 0, false), Run(_pack(b), 0, false));
        return Judge.isFault(Judge.PRODUCT_SUM, operands, a.length, claimed);
    }

    /// @dev Exponent fields 100 .. 139, some fractions of few bits.
    function _near(uint256 seed) private pure returns (uint32) {
        uint256 fraction = [uint256(0), 1, 0x7fffff, 0x400000, (seed >> 8) & 0x7fffff][seed % 5];
        return uint32((((seed >> 64) & 1) << 31) | ((100 + (seed >> 32) % 40) << 23) | fraction);
    }

    function _nears(uint256 seed, uint256 count) private pure returns (uint32[] memory values) {
        values = new uint32[](count);
        for (uint256 i = 0; i < count; ++i) {
            values[i] = _near(uint256(keccak256(abi.encode(seed, i))));
        }
    }

    /// @dev A number of exponent field 100 or more, or 0, in units of 2^-50.
    function _units(uint32 bits) private pure returns (int256) {
        (bool negative, uint256 mantissa, uint256 exponent) = bits.decode();
        if (mantissa == 0) return 0;
        int256 value = int256(mantissa << (exponent - 99));
        return negative ? -value : value;
    }

    // Sums against plain integers
    /// @dev |S - c| <= (growth - 1) size + n 2^-124 in units of 2^-100; the last part is below one unit: 2^-24 n.
    function _isWithin(int256 exact, int256 size, int256 claimed, int256 terms) private pure returns (bool) {
        int256 off = exact > claimed ? exact - claimed : claimed - exact;
        int256 b = 2 ** 24 - terms;
        return (off * b - terms * size) * 2 ** 24 <= terms * b;
    }

    function testFuzz_isFault_productSum_isThePlainBound(uint256 seed, uint256 count, int256 places)
        public
        pure
    {
        count = bound(count, 1, 19);
        (uint32[] memory a, uint32[] memory b) = (_nears(seed, count), _nears(seed ^ 1, count));
        if (seed % 3 == 0) (a[0], b[0]) = (0, Float32.SIGN_BIT);
        (int256 exact, int256 size) = (0, 0);
        for (uint256 i = 0; i < count; ++i) {
            int256 product = _units(a[i]) * _units(b[i]);
            exact += product;
            size += product < 0 ? -product : product;
        }
        uint32 claimed = _nearBound(exact, size, count, places);
        if ((claimed >> 23) & 0xff < 100) return;
        bool fault = !_isWithin(exact, size, _units(claimed) * 2 ** 50, int256(count));
        assertEq(_sum(a, b, claimed), fault, "the bound");
    }

    /// @dev A float32 at the edge, give or take two places.
    function _nearBound(int256 exact, int256 size, uint256 count, int256 places)
        private
        pure
        returns (uint32)
    {
        int256 width = size * int256(count) / 2 ** 24;
        int256 edge = places % 2 == 0 ? exact + width : exact - width;
        uint256 magnitude = uint256(edge < 0 ? -edge : edge);
        uint32 bits = Float32.round(edge < 0, magnitude, 149 - 100);
        if (bits << 1 == 0) return bits;
        return uint32(uint256(int256(uint256(bits)) + places % 3));
    }

    function testFuzz_isFault_sum_isThePlainBound(uint256 seed, uint256 count, int256 places) public pure {
        count = bound(count, 2, 19);
        uint32[] memory a = _nears(seed, count);
        (int256 exact, int256 size) = (0, 0);
        for (uint256 i = 0; i < count; ++i) {
            exact += _units(a[i]) * 2 ** 50;
            size += (_units(a[i]) < 0 ? -_units(a[i]) : _units(a[i])) * 2 ** 50;
        }
        uint32 claimed = _nearBound(exact, size, count - 1, places);
        if ((claimed >> 23) & 0xff < 100) return;
        // n - 1 additions, and n 2^-124.
        int256 off = exact - _units(claimed) * 2 ** 50;
        int256 b = 2 ** 24 - int256(count - 1);
        bool fault = ((off < 0 ? -off : off) * b - int256(count - 1) * size) * 2 ** 24 > int256(count) * b;
        Run[] memory operands = new Run[](1);
        operands[0] = Run(_pack(a), 0, false);
        assertEq(Judge.isFault(Judge.SUM, operands, count, claimed), fault, "SUM");
        assertEq(Judge.isFault(Judge.SELECTED_SUM, operands, count, claimed), fault, "SELECTED_SUM");
    }

    /// @dev Terms in another order, at another place of their data, or said once: the same verdict.
    function testFuzz_isFault_productSum_anyLayout_isTheSame(
        uint32[21] memory a,
        uint32 b,
        uint32 claimed,
        uint256 first
    ) public pure {
        first = bound(first, 0, 5);
        uint32[] memory values = new uint32[](21);
        uint32[] memory factors = new uint32[](21);
        uint32[] memory shifted = new uint32[](28);
        for (uint256 i = 0; i < 21; ++i) {
            (values[i], factors[i]) = (a[i], b);
            shifted[first + i] = a[20 - i];
        }
        (shifted[first + 21], shifted[first == 0 ? 27 : 0]) = (NOT_A_NUMBER, NOT_A_NUMBER);
        uint32[] memory lone = new uint32[](3);
        (lone[0], lone[1], lone[2]) = (NOT_A_NUMBER, b, NOT_A_NUMBER);
        Run[] memory operands = new Run[](2);
        (operands[0], operands[1]) = (Run(_pack(lone), 1, true), Run(_pack(shifted), first, false));
        bool fault = Judge.isFault(Judge.PRODUCT_SUM, operands, 21, claimed);
        assertEq(fault, _sum(values, factors, claimed), "layout");
    }

    function test_isFault_sumsOfLargestTerms_keepTheirCarries() public pure {
        uint32 largest = Float32.INFINITY - 1;
        uint32[] memory a = new uint32[](ExactSum.MAX_TERMS);
        uint32[] memory b = new uint32[](ExactSum.MAX_TERMS);
        for (uint256 i = 0; i < a.length; ++i) {
            (a[i], b[i]) = (largest, i % 2 == 0 ? largest : largest | Float32.SIGN_BIT);
        }
        // 4096 of the largest products cancel; what is lost on the way may be anything, infinities included.
        assertEq(_sum(a, b, 0), false, "0");
        assertEq(_sum(a, b, largest), false, "the bound is wider than float32");
        assertEq(_sum(a, b, NOT_A_NUMBER), false, "NaN with cause");
        (a[0], b[0]) = (ONE, ONE);
        for (uint256 i = 1; i < a.length; ++i) {
            (a[i], b[i]) = (1, 1);
        }
        // Beside the others, 2^-298 each, the first is all there is: gamma_4096 and 4096 * 2^-124 more.
        assertEq(_sum(a, b, ONE + 2048), false, "inside gamma");
        assertEq(_sum(a, b, ONE + 2050), true, "outside of gamma");
    }

    // Rounded operations against Float32
    /// @dev What a subnormal operand excuses is its own product, not the words of eight that are summed beside it.
    function test_isFault_subnormalBesideOthers_excusesNoOther() public pure {
        (uint32[] memory a, uint32[] memory b) = (new uint32[](24), new uint32[](24));
        for (uint256 i = 0; i < 24; ++i) {
            (a[i], b[i]) = (i == 23 ? 1 : 0x3f800000, 0x3f800000);
        }
        assertTrue(!_sum(a, b, 0x41b80000), "23 is right");
        assertTrue(_sum(a, b, 0x41a00000), "20 is not");
    }

    /// @dev Below 2^-126 by a subnormal operand: who flushes results has 0, who flushes operands has 2^-126.
    function test_isFault_resultTinyOnlyUnflushed_zeroIsHonest() public pure {
        (uint32 least, uint32 lost) = (1 << 23, 1 | Float32.SIGN_BIT);
        assertEq(_two(Judge.ADD, least, lost, least - 1), false, "exact");
        assertEq(_two(Judge.ADD, least, lost, least), false, "operand flushed");
        assertEq(_two(Judge.ADD, least, lost, 0), false, "result flushed");
        assertEq(_two(Judge.ADD, least, lost, least - 2), true, "neither");
    }

    function _round(uint8 operation, uint32 a, uint32 b) private pure returns (uint32) {
        if (operation == Judge.ADD) return a.add(b);
        if (operation == Judge.SUBTRACT) return a.sub(b);
        return operation == Judge.MULTIPLY ? a.mul(b) : a.div(b);
    }

    function testFuzz_isFault_rounded_onlyFloat32IsHonest(
        uint32 a,
        uint32 b,
        uint256 operationSeed,
        uint32 other
    ) public pure {
        uint8 operation = uint8(bound(operationSeed, Judge.ADD, Judge.DIVIDE));
        if (!a.isFinite() || !b.isFinite()) return;
        if (operation == Judge.DIVIDE && b & ~Float32.SIGN_BIT < 1 << 23) return;
        uint32 honest = _round(operation, a, b);
        uint32 magnitude = honest & ~Float32.SIGN_BIT;
        if (honest.isFinite()) assertEq(_two(operation, a, b, honest), false, "honest");
        // Subnormal operands and results have several answers: the vectors know them.
        if (_isSubnormal(a) || _isSubnormal(b) || magnitude <= 1 << 23) return;
        if (!honest.isFinite()) honest = magnitude = Float32.INFINITY;
        assertEq(_two(operation, a, b, honest - 1), true, "one place below");
        if (magnitude < Float32.INFINITY - 1) assertEq(_two(operation, a, b, honest + 1), true, "above");
        if (other.isFinite() && other != honest) {
            assertEq(_two(operation, a, b, other), true, "anything else");
        }
        assertEq(
            _two(operation, a, b, Float32.INFINITY), magnitude <= (254 << 23) - 1, "an infinity without cause"
        );
    }

    /// @dev 2^127 may be infinite on another machine, and is 2^127 after 0 was taken from it.
    function test_isFault_lessZero_staysAsLarge() public pure {
        assertEq(_two(Judge.SUBTRACT, 254 << 23, 0, Float32.INFINITY), false, "2^127 - 0");
        assertEq(_two(Judge.SUBTRACT, 254 << 23, ONE, Float32.INFINITY), true, "2^127 - 1");
    }

    function test_isFault_zeroResult_isNoInfinity() public pure {
        assertEq(_two(Judge.SUBTRACT, ONE, ONE, Float32.INFINITY), true, "1 - 1");
        assertEq(_two(Judge.MULTIPLY, 0, ONE, NOT_A_NUMBER), true, "0 * 1");
    }

    function _isSubnormal(uint32 bits) private pure returns (bool) {
        return bits & Float32.INFINITY == 0 && bits & ~Float32.SIGN_BIT != 0;
    }

    /// @dev The honest root r of a is within half a place: (2 r - place)^2 < 4 a < (2 r + place)^2.
    function testFuzz_isFault_squareRoot_onlyTheNearestIsHonest(uint32 a, uint32 other) public pure {
        a = uint32(bound(a, 1 << 23, Float32.INFINITY - 1));
        (, uint256 mantissa, uint256 exponent) = a.decode();
        uint256 root = 1 << 23;
        // a = mantissa * 2^(exponent - 149); mantissa << 22 or 23, so that the exponent left is even and a root has 24 bits.
        uint256 scaled = mantissa << (exponent % 2 == 0 ? 23 : 24);
        for (uint256 bit = 1 << 22; bit != 0; bit >>= 1) {
            if ((root + bit) * (root + bit) <= scaled) root += bit;
        }
        if ((2 * root + 1) * (2 * root + 1) < 4 * scaled) ++root;
        int256 place = (int256(exponent) - 149 - (exponent % 2 == 0 ? int256(23) : int256(24))) / 2;
        uint32 honest = Float32.round(false, root, place + 149);
        assertEq(_one(Judge.SQUARE_ROOT, a, honest), false, "honest");
        assertEq(_one(Judge.SQUARE_ROOT, a, honest + 1), true, "above");
        assertEq(_one(Judge.SQUARE_ROOT, a, honest - 1), true, "below");
        if (other != honest) assertEq(_one(Judge.SQUARE_ROOT, a, other), true, "anything else");
    }

    function test_isFault_rootOfMinusZero_isZero() public pure {
        assertEq(_one(Judge.SQUARE_ROOT, Float32.SIGN_BIT, Float32.SIGN_BIT), false, "-0");
        assertEq(_one(Judge.SQUARE_ROOT, Float32.SIGN_BIT, 0), false, "0");
        assertEq(_one(Judge.SQUARE_ROOT, Float32.SIGN_BIT, ONE), true, "1");
    }

    /// @dev As a pattern it is larger than every number for which exp is finite.
    function test_isFault_exponentialOfMinusZero_isOne() public pure {
        assertEq(_one(Judge.EXPONENTIAL, Float32.SIGN_BIT, ONE), false, "1");
        assertEq(_one(Judge.EXPONENTIAL, Float32.SIGN_BIT, Float32.INFINITY), true, "infinity");
    }

    // Choosing
    /// @dev From 2^127 on a number may be infinite on another machine, and no sooner.
    function test_isFault_flush_infinityFrom2To127On_isHonest() public pure {
        uint32 least = 254 << 23;
        assertEq(_two(Judge.FLUSH, least, ONE, Float32.INFINITY), false, "2^127");
        assertEq(_two(Judge.FLUSH, least - 1, ONE, Float32.INFINITY), true, "below");
        assertEq(_two(Judge.FLUSH, least, least + 1, Float32.INFINITY), true, "flushed to 0");
    }

    function test_isFault_flush_keepsWhatIsAsLarge() public pure {
        assertEq(_two(Judge.FLUSH, ONE, ONE, ONE), false, "kept");
        assertEq(_two(Judge.FLUSH, ONE, ONE, 0), true, "not flushed");
        assertEq(_two(Judge.FLUSH, ONE - 1, ONE, 0), false, "flushed");
        assertEq(_two(Judge.FLUSH, ONE - 1, ONE, ONE - 1), true, "not kept");
        assertEq(_two(Judge.FLUSH, ONE, Float32.SIGN_BIT, ONE), false, "-0 is below all");
        assertEq(_two(Judge.FLUSH, ONE, Float32.SIGN_BIT, 0), true, "not flushed by -0");
    }

    function testFuzz_isFault_copies_areExactOrFlushed(uint32 a, uint32 other, uint256 seed) public pure {
        uint8 operation = [Judge.GATHER, Judge.EQUAL_SELECT, Judge.COPY][seed % 3];
        if (!a.isFinite()) {
            assertEq(_one(operation, a, other), false, "not finite");
            return;
        }
        bool isTiny = a & Float32.INFINITY == 0;
        assertEq(_one(operation, a, a), false, "itself");
        assertEq(_one(operation, a, 0), !isTiny, "flushed");
        bool isZero = other & ~Float32.SIGN_BIT == 0;
        if (other.isFinite() && other != a && !isZero) assertEq(_one(operation, a, other), true, "another");
        assertEq(_one(operation, a, NOT_A_NUMBER), a & ~Float32.SIGN_BIT < 254 << 23, "NaN");
    }

    function testFuzz_isFault_maximumOf_isTheLargest(uint32[11] memory values, uint256 place) public pure {
        uint32[] memory list = new uint32[](11);
        for (uint256 i = 0; i < 11; ++i) {
            // Not negative and normal, so that patterns order as numbers do.
            list[i] = uint32(bound(values[i], 1 << 23, Float32.INFINITY - 2));
        }
        uint32 largest = list[place % 11] = Float32.INFINITY - 1;
        Run[] memory operands = new Run[](1);
        operands[0] = Run(_pack(list), 0, false);
        assertEq(Judge.isFault(Judge.MAXIMUM_OF, operands, 11, largest), false, "the largest");
        assertEq(Judge.isFault(Judge.MAXIMUM_OF, operands, 11, largest - 1), true, "below");
        uint32 another = list[(place % 11 + 1) % 11];
        assertEq(Judge.isFault(Judge.MAXIMUM_OF, operands, 11, another), true, "another");
    }

    // Anything
    /// @dev Nothing that two parties may put into leaves makes the contract revert.
    function testFuzz_isFault_anyBits_neverReverts(
        uint32[3] memory values,
        uint32 claimed,
        uint256 operationSeed
    ) public pure {
        uint8 operation = uint8(bound(operationSeed, 1, 20));
        Run[] memory operands = new Run[](_operandCount(operation));
        for (uint256 i = 0; i < operands.length; ++i) {
            operands[i] = _single(values[i]);
        }
        bool fault = Judge.isFault(operation, operands, 1, claimed);
        bool isBroken = operation != Judge.FINITE_SELECT;
        for (uint256 i = 0; i < operands.length && isBroken; ++i) {
            if (!values[i].isFinite()) assertEq(fault, false, "an operand that is not finite excuses");
        }
    }

    function _operandCount(uint8 operation) private pure returns (uint256) {
        return [0, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 2, 3, 1][operation];
    }

    function test_isFault_illShaped_reverts() public {
        Run[] memory one = new Run[](1);
        one[0] = _single(ONE);
        Run[] memory none = new Run[](0);
        vm.expectRevert(abi.encodeWithSelector(Judge.UnknownOperation.selector, uint8(0)));
        this.isFault(0, one, 1, 0);
        vm.expectRevert(abi.encodeWithSelector(Judge.UnknownOperation.selector, uint8(21)));
        this.isFault(21, one, 1, 0);
        vm.expectRevert(abi.encodeWithSelector(Judge.WrongOperandCount.selector, 2, 1));
        this.isFault(Judge.PRODUCT_SUM, one, 1, 0);
        vm.expectRevert(abi.encodeWithSelector(Judge.WrongOperandCount.selector, 1, 0));
        this.isFault(Judge.COPY, none, 1, 0);
        vm.expectRevert(abi.encodeWithSelector(Judge.WrongTermCount.selector, Judge.COPY, 2));
        this.isFault(Judge.COPY, one, 2, 0);
        vm.expectRevert(abi.encodeWithSelector(Judge.WrongTermCount.selector, Judge.SUM, 0));
        this.isFault(Judge.SUM, one, 0, 0);
        vm.expectRevert(abi.encodeWithSelector(Judge.WrongTermCount.selector, Judge.SUM, 4097));
        this.isFault(Judge.SUM, one, 4097, 0);
        vm.expectRevert(abi.encodeWithSelector(Runs.RunOutside.selector, 1, 2));
        this.isFault(Judge.SUM, one, 2, 0);
        one[0].first = 1;
        vm.expectRevert(abi.encodeWithSelector(Runs.RunOutside.selector, 1, 2));
        this.isFault(Judge.COPY, one, 1, 0);
        one[0].repeats = true;
        vm.expectRevert(abi.encodeWithSelector(Runs.RunOutside.selector, 1, 2));
        this.isFault(Judge.SUM, one, 2, 0);
    }
}
