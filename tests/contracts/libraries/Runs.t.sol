// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Float32} from "../../../contracts/libraries/Float32.sol";
import {Run, Runs} from "../../../contracts/libraries/Runs.sol";
import {Test} from "../Test.sol";

/// @title Runs of elements, eight in a word, and the highest of them.
contract RunsTest is Test {
    using Runs for Run;

    uint32 private constant INFINITE = 0x7f800000;

    function head(Run memory run) external pure returns (uint32) {
        return run.head();
    }

    function open(Run memory run, uint256 terms) external pure {
        run.open(terms);
    }

    /// @dev Element i of the data is i + 1; what lies behind is no zero.
    function _counted(uint256 count) private pure returns (bytes memory data) {
        data = new bytes(4 * count);
        for (uint256 i = 0; i < count; ++i) {
            Float32.store(data, i, uint32(i + 1));
        }
        bytes memory behind = new bytes(64);
        for (uint256 i = 0; i < behind.length; ++i) {
            behind[i] = 0xff;
        }
    }

    function _packed(uint32[9] memory values) private pure returns (Run memory) {
        bytes memory data = new bytes(36);
        for (uint256 i = 0; i < 9; ++i) {
            Float32.store(data, i, values[i]);
        }
        return Run(data, 0, false);
    }

    function test_word_elements_standInOrder() public pure {
        (uint256 place, uint256 step) = Run(_counted(20), 3, false).open(17);
        for (uint256 i = 0; i < 17; ++i) {
            uint256 x = Runs.word(place + i / 8 * step, 17 - i / 8 * 8);
            assertEq(uint32(x >> (224 - 32 * (i % 8))), i + 4, "element");
        }
    }

    function test_word_behindTheRun_isZero() public pure {
        (uint256 place,) = Run(_counted(16), 8, false).open(3);
        assertEq(Runs.word(place, 3), uint256(9) << 224 | uint256(10) << 192 | uint256(11) << 160, "three");
    }

    function test_open_repeated_isOneElementAlways() public pure {
        (uint256 place, uint256 step) = Run(_counted(4), 2, true).open(100);
        assertEq(step, 0, "no further");
        for (uint256 lane = 0; lane < 8; ++lane) {
            assertEq(uint32(Runs.word(place, 8) >> 32 * lane), 3, "the third");
        }
    }

    function test_open_beyondItsData_isRefused() public {
        Run memory run = Run(_counted(4), 2, false);
        this.open(run, 2);
        vm.expectRevert(abi.encodeWithSelector(Runs.RunOutside.selector, 4, 5));
        this.open(run, 3);
        run.repeats = true;
        this.open(run, 3);
        assertEq(this.head(run), 3, "head");
        run.first = 4;
        vm.expectRevert(abi.encodeWithSelector(Runs.RunOutside.selector, 4, 5));
        this.head(run);
    }

    /// @dev Numbers in their order, and both zeros below what is above them.
    function test_rankHighest_ranks_orderAsNumbers() public pure {
        uint32[9] memory values = [
            0xff7fffff, 0xbf800000, 0x80000001, 0x80000000, 0, 1, uint32(0x3f800000), 0x40000000, 0x7f7fffff
        ];
        for (uint256 terms = 1; terms <= 9; ++terms) {
            uint256 highest = _packed(values).rankHighest(terms, false);
            assertEq(Runs.unrank(highest, false), values[terms - 1], "the last is the highest");
            highest = _packed(values).rankHighest(terms, true);
            assertEq(Runs.unrank(highest, true), values[0], "the first is the lowest");
        }
    }

    /// @dev Against a plain loop: any patterns, in all lanes and in the word behind.
    function testFuzz_rankHighest_any_isThatOfALoop(uint32[9] memory values, uint256 terms) public pure {
        terms = bound(terms, 1, 9);
        (uint256 highest, uint256 lowest) = (0, type(uint32).max);
        for (uint256 i = 0; i < terms; ++i) {
            uint32 rank = values[i] ^ (values[i] >> 31 == 0 ? 1 << 31 : type(uint32).max);
            if (rank > highest) highest = rank;
            if (rank < lowest) lowest = rank;
        }
        assertEq(_packed(values).rankHighest(terms, false), highest, "highest");
        assertEq(_packed(values).rankHighest(terms, true), type(uint32).max - lowest, "lowest");
    }

    function test_inspect_findsWhatIsThere() public pure {
        uint32[9] memory values = [uint32(5), 1 << 31, 0, 7, 9, 3, 2, 6, 0x7f7fffff];
        for (uint256 terms = 1; terms <= 9; ++terms) {
            (bool isFinite, bool isFound) = _packed(values).inspect(terms, values[terms - 1]);
            assertTrue(isFinite && isFound, "there");
            if (terms > 1) (, isFound) = _packed(values).inspect(terms - 1, values[terms - 1]);
            assertTrue(terms == 1 || !isFound, "not before it");
        }
    }

    function test_inspect_infinity_isSeen() public pure {
        uint32[9] memory values;
        values[8] = INFINITE;
        (bool isFinite,) = _packed(values).inspect(9, 0);
        assertTrue(!isFinite, "in the second word");
        (isFinite,) = _packed(values).inspect(8, 0);
        assertTrue(isFinite, "not among eight");
    }

    /// @dev Keys are few and some above 2^31; first: of both runs.
    function testFuzz_pick_isWhatALoopPicks(bytes32 seed, uint256 first, uint256 terms, bool repeats)
        public
        pure
    {
        uint32[4] memory keys = [uint32(0), 2, 0x80000002, type(uint32).max];
        (first, terms) = (first % 4, 1 + terms % 17);
        bytes memory data = new bytes(4 * 20);
        for (uint256 i = 0; i < 20; ++i) {
            Float32.store(data, i, keys[uint8(seed[i]) % 4]);
        }
        Run memory values = Run(_counted(20), first, repeats);
        for (uint256 k = 0; k < 4; ++k) {
            _requirePicked(Run(data, first, false), values, terms, keys[k]);
        }
    }

    function _requirePicked(Run memory run, Run memory values, uint256 terms, uint32 sought) private pure {
        (bytes memory picked, uint256 count, uint256 largest) = run.pick(values, terms, sought);
        (uint256 found, uint256 most) = (0, 0);
        for (uint256 i = 0; i < terms; ++i) {
            uint32 key = Float32.load(run.data, run.first + i);
            if (key > most) most = key;
            if (key != sought) continue;
            assertEq(Float32.load(picked, found++), values.first + 1 + (values.repeats ? 0 : i), "picked");
        }
        assertEq(count, found, "count");
        assertEq(largest, most, "largest");
        assertEq(picked.length, 4 * terms, "room");
    }

    function pick(Run memory run, Run memory values, uint256 terms) external pure {
        run.pick(values, terms, 1);
    }

    function test_pick_valuesThatEndEarly_areRefused() public {
        Run memory keys = Run(_counted(12), 0, false);
        (bool ok, bytes memory said) =
            address(this).call(abi.encodeCall(this.pick, (keys, Run(_counted(9), 0, false), 10)));
        assertTrue(
            !ok && keccak256(said) == keccak256(abi.encodeWithSelector(Runs.RunOutside.selector, 9, 10)),
            "refused"
        );
        this.pick(keys, Run(_counted(9), 0, false), 9);
        this.pick(keys, Run(_counted(9), 8, true), 12);
    }

    // Integers
    function headInteger(Run memory run, uint256 elementBytes) external pure {
        run.headInteger(elementBytes);
    }

    /// @dev Else what lies behind in memory would be the claimed value.
    function test_headInteger_behindTheData_isRefused() public {
        Run memory run = Run(hex"80818283", 2, false);
        this.headInteger(run, 1);
        (bool ok, bytes memory said) = address(this).call(abi.encodeCall(this.headInteger, (run, 2)));
        assertTrue(
            !ok && keccak256(said) == keccak256(abi.encodeWithSelector(Runs.RunOutside.selector, 2, 3)), "refused"
        );
    }

    /// @dev 0x8081, 0x8283 ... as they lie in memory: the lowest byte first.
    function test_integers_haveTheirSigns() public pure {
        bytes memory data = hex"808182830405068788898a8b";
        assertEq(uint256(Run(data, 4, false).headInteger(1)), uint256(int256(4)), "a byte");
        assertEq(uint256(Run(data, 1, false).headInteger(1)), uint256(-int256(0x7f)), "a byte below zero");
        assertEq(uint256(Run(data, 2, false).headInteger(2)), uint256(int256(0x0504)), "two bytes");
        assertEq(
            uint256(Run(data, 3, false).headInteger(2)),
            uint256(int256(0x8706) - 0x10000),
            "two bytes below zero"
        );
        assertEq(
            uint256(Run(data, 1, false).headInteger(4)), uint256(int256(0x87060504) - (1 << 32)), "four bytes"
        );
    }

    function test_integers_behindTheRun_areZero() public pure {
        bytes memory data = hex"0102030405060708";
        (uint256 place, uint256 step) = Run(data, 1, false).open(3, 2);
        assertEq(Runs.integers(place, 3, 2), uint256(0x040306050807) << 208, "three of two bytes");
        assertEq(Runs.integers(place, 2, 2), uint256(0x04030605) << 224, "two");
        assertEq(step, 32, "a word");
    }

    function test_open_repeatedInteger_fillsTheWord() public pure {
        (uint256 place, uint256 step) = Run(hex"01020304", 1, true).open(40, 1);
        assertEq(Runs.integers(place, 40, 1), type(uint256).max / 0xff * 2, "the second, 32 times");
        (place, step) = Run(hex"01020304", 1, true).open(40, 2);
        assertEq(
            Runs.integers(place, 40, 2), type(uint256).max / 0xffff * 0x0403, "the second pair, 16 times"
        );
        assertEq(step, 0, "no further");
    }

    function openIntegers(Run memory run, uint256 terms, uint256 elementBytes) external pure {
        run.open(terms, elementBytes);
    }

    function test_openIntegers_beyondTheirData_isRefused() public {
        Run memory run = Run(new bytes(7), 1, false);
        this.openIntegers(run, 2, 2);
        this.openIntegers(run, 6, 1);
        vm.expectRevert(abi.encodeWithSelector(Runs.RunOutside.selector, 3, 4));
        this.openIntegers(run, 3, 2);
        vm.expectRevert(abi.encodeWithSelector(Runs.RunOutside.selector, 1, 2));
        this.openIntegers(run, 1, 4);
    }
}
