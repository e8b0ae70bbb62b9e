// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Ballots} from "../../../../contracts/game/libraries/Ballots.sol";
import {Test} from "../../Test.sol";

contract BallotsTest is Test {
    function test_codeOf_words_areKept() public pure {
        uint256[8] memory codes = [uint256(0), 1, 2, 2, 2, 3, 4, 0];
        for (uint256 word = 0; word < 8; ++word) {
            assertEq(Ballots.codeOf(word), codes[word], "code");
            assertEq(Ballots.isCompared(word), word >= 1 && word <= 4, "compared");
        }
    }

    function test_at_ranks_areTheirWords() public pure {
        uint256 votes = 6 << 6 | 3 << 3 | 5;
        assertEq(Ballots.at(votes, 0), Ballots.ACCEPT, "paid ACCEPT");
        assertEq(Ballots.at(votes, 1), Ballots.UNSERVED, "UNSERVED");
        assertEq(Ballots.at(votes, 2), Ballots.REJECT, "paid REJECT");
        assertTrue(Ballots.isPaid(votes, 0) && !Ballots.isPaid(votes, 1) && Ballots.isPaid(votes, 2), "paid");
        assertEq(Ballots.at(4, 0), Ballots.ABSTAIN, "ABSTAIN is not a paid nothing");
        assertTrue(!Ballots.isPaid(4, 0), "nor paid");
        assertEq(Ballots.at(0, 2), 0, "nothing");
    }

    /// @dev Every ballot, against the words of the rule.
    function test_fateOf_everyBallot_isTheRules() public pure {
        for (uint256 votes = 0; votes < 512; ++votes) {
            (uint256 a, uint256 b, uint256 c) =
                (Ballots.at(votes, 0), Ballots.at(votes, 1), Ballots.at(votes, 2));
            bool canPrimary = a == 0 || a == 1;
            bool canReserves = (b == 0 || b == 1) && (c == 0 || c == 1);
            (bool isAccepted, bool isFailed) = Ballots.statusOf(votes);
            assertEq(isAccepted, a == 1 || (b == 1 && c == 1), "accepted");
            assertEq(isFailed, !canPrimary && !canReserves, "failed");
        }
    }

    function test_countUnserved_ranks_areCounted() public pure {
        assertEq(Ballots.countUnserved(0), 0, "nothing");
        assertEq(Ballots.countUnserved(3), 1, "primary");
        assertEq(Ballots.countUnserved(3 << 6 | 4 << 3 | 3), 2, "and the second reserve");
        assertEq(Ballots.countUnserved(3 << 6 | 3 << 3 | 3), 3, "all");
        assertEq(Ballots.countUnserved(1 << 6 | 2 << 3 | 5), 0, "none");
    }

    /// @dev Every ballot: it has failed, and two say REJECT or UNSERVED.
    function test_isRejectedLate_everyBallot_needsTwoWords() public pure {
        for (uint256 votes = 0; votes < 512; ++votes) {
            uint256 against;
            for (uint256 rank = 0; rank < 3; ++rank) {
                uint256 code = Ballots.at(votes, rank);
                if (code == 2 || code == 3) ++against;
            }
            (, bool isFailed) = Ballots.statusOf(votes);
            assertEq(Ballots.isRejectedLate(votes), isFailed && against > 1, "rejected");
        }
    }

    function test_castAndPay_changeOneRank() public pure {
        uint256 votes = Ballots.cast(Ballots.cast(0, 2, Ballots.REJECT), 0, Ballots.ACCEPT);
        assertEq(votes, 2 << 6 | 1, "two ranks");
        assertEq(Ballots.pay(votes, 2), 6 << 6 | 1, "one paid");
        assertEq(Ballots.codeAt(Ballots.pay(votes, 2), 2), 6, "REJECT with its opening");
    }

    /// @dev 21 draws: twenty, and the late one.
    function testFuzz_setIn_draws_keepApart(uint208 all, uint256 draw, uint256 votes) public pure {
        (draw, votes) = (draw % 21, votes % 512);
        uint208 changed = Ballots.setIn(all, draw, votes);
        for (uint256 i = 0; i < 21; ++i) {
            assertEq(Ballots.ofIn(changed, i), i == draw ? votes : Ballots.ofIn(all, i), "draw");
        }
    }
}
