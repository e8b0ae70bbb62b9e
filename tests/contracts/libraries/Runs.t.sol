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
            (bool isFinite, uint256 highest, bool isFound) =
                _packed(values).rankHighest(terms, values[terms - 1], false);
            assertTrue(isFinite && isFound, "there");
            assertEq(Runs.unrank(highest, false), values[terms - 1], "the last is the highest");
            (, highest,) = _packed(values).rankHighest(terms, 0, true);
            assertEq(Runs.unrank(highest, true), values[0], "the first is the lowest");
        }
        (,, bool isSeen) = _packed(values).rankHighest(8, 0x7f7fffff, false);
        assertTrue(!isSeen, "the ninth is none of eight");
    }

    function test_rankHighest_infinity_isSeen() public pure {
        uint32[9] memory values;
        values[8] = INFINITE;
        (bool isFinite,,) = _packed(values).rankHighest(9, 0, false);
        assertTrue(!isFinite, "in the second word");
        (isFinite,,) = _packed(values).rankHighest(8, 0, false);
        assertTrue(isFinite, "not among eight");
    }
}
