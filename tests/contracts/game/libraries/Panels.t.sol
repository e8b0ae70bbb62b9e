// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {SeatRole} from "../../../../contracts/game/GameTypes.sol";
import {Panel, Panels} from "../../../../contracts/game/libraries/Panels.sol";
import {AuditDraw} from "../../../../contracts/libraries/AuditDraw.sol";
import {Test} from "../../Test.sol";

contract PanelsTest is Test {
    using Panels for Panel;

    bytes32 private constant SEED = "seed";

    function test_list_words_areAscendingNumbers() public pure {
        uint256[] memory words = new uint256[](3);
        (words[0], words[2]) = (1 << 255 | 0x05, 0x02);
        uint256[] memory numbers = Panels.list(words);
        assertEq(numbers.length, 4, "four");
        assertEq(numbers[0], 0, "first");
        assertEq(numbers[1], 2, "second");
        assertEq(numbers[2], 255, "the last of a word");
        assertEq(numbers[3], 513, "of the third word");
        assertEq(Panels.list(new uint256[](2)).length, 0, "nobody");
    }

    function _assign(SeatRole role, uint256 count, uint256 draws, uint256 slots)
        private
        view
        returns (Panel memory)
    {
        uint256[] memory words = new uint256[](1);
        words[0] = ((1 << count) - 1) << 1;
        return Panels.assign(role, words, SEED, draws, slots);
    }

    function test_deal_roles_haveOrdersOfTheirOwn() public view {
        Panel memory panel = _assign(SeatRole.VERIFIER, 7, 2, 5);
        assertEq(panel.members.length, 7, "members");
        assertEq(panel.members[0], 1, "the first");
        assertEq(panel.order, AuditDraw.permutation(SEED, AuditDraw.VERIFIER_POOL, 7, 7), "all are dealt");
        panel = _assign(SeatRole.WHISTLEBLOWER, 20, 1, 2);
        assertEq(panel.order, AuditDraw.permutation(SEED, AuditDraw.WHISTLEBLOWER_POOL, 20, 6), "six are");
        assertEq(panel.order.length, 6, "three for each draw");
        assertEq(panel.draws, 1, "draws");
        assertEq(panel.slots, 2, "slots");
    }

    /// @dev Two slots with two draws each: four draws, reserves four places further each, twelve places in all.
    function test_seatAt_largePool_stepsByDraws() public view {
        Panel memory panel = _assign(SeatRole.VERIFIER, 30, 2, 2);
        for (uint256 rank = 0; rank < 3; ++rank) {
            uint256 place = 3 + 4 * rank;
            uint256 expected = 0x20000 | (panel.order[place] + 1);
            assertEq(panel.seatAt(1, 1, rank), expected, "slot 1, draw 1");
        }
        assertEq(panel.order.length, 12, "as far as the draws reach");
    }

    /// @dev Five slots with two draws each in a pool of seven: reserves two places further.
    function test_seatAt_smallPool_goesRound() public view {
        Panel memory panel = _assign(SeatRole.WHISTLEBLOWER, 7, 2, 5);
        assertEq(panel.seatAt(4, 1, 0), 0x30000 | (panel.order[2] + 1), "9 mod 7");
        assertEq(panel.seatAt(4, 1, 1), 0x30000 | (panel.order[4] + 1), "11 mod 7");
        assertEq(panel.seatAt(4, 1, 2), 0x30000 | (panel.order[6] + 1), "13 mod 7");
    }
}
