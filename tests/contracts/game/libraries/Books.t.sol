// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EPOCH_ROUNDS} from "../../../../contracts/game/GameTypes.sol";
import {Books} from "../../../../contracts/game/libraries/Books.sol";
import {Test} from "../../Test.sol";

contract BooksTest is Test {
    mapping(uint256 => uint256) private _books;

    function _pay(uint256 round, uint256 seat) private {
        uint256 key = Books.keyOf(round, seat);
        _books[Books.wordOf(key)] = Books.pay(_books[Books.wordOf(key)], key);
    }

    function _vote(uint256 round, uint256 seat) private {
        uint256 key = Books.keyOf(round, seat);
        _books[Books.wordOf(key)] = Books.raise(_books[Books.wordOf(key)], key, round);
    }

    function test_pays_lanesKeepApart() public {
        for (uint256 i = 0; i < 3; ++i) {
            _pay(0, 0x20007);
        }
        _pay(0, 0x20006);
        _pay(EPOCH_ROUNDS, 0x20007);
        assertEq(Books.take(_books, Books.keyOf(0, 0x20007)), 3, "three");
        assertEq(Books.take(_books, Books.keyOf(0, 0x20007)), 0, "once");
        assertEq(Books.take(_books, Books.keyOf(0, 0x20006)), 1, "its neighbour");
        assertEq(Books.take(_books, Books.keyOf(0, 0x20008)), 0, "another word");
        assertEq(Books.take(_books, Books.keyOf(EPOCH_ROUNDS, 0x20007)), 1, "the next epoch");
    }

    function test_pays_mostOfABook_fit() public {
        uint256 key = Books.keyOf(0, 0x20003);
        uint256 word = Books.raise(0, Books.keyOf(0, 0x20004), 65_534);
        for (uint256 i = 0; i < EPOCH_ROUNDS * 64 * 21; ++i) {
            word = Books.pay(word, key);
        }
        assertEq(Books.paysAt(word, key), EPOCH_ROUNDS * 64 * 21, "every draw");
        assertEq(word >> 128, uint256(65_535) << 16, "its neighbour stays");
    }

    function test_lastOf_onlyGrows_overAllBooks() public {
        assertEq(Books.lastOf(_books, 0x20001), 0, "none");
        _vote(0, 0x20001);
        assertEq(Books.lastOf(_books, 0x20001), 1, "round 0");
        _vote(9, 0x20001);
        _vote(5, 0x20001);
        assertEq(Books.lastOf(_books, 0x20001), 10, "an earlier one changes nothing");
        _vote(3 * EPOCH_ROUNDS + 2, 0x20001);
        _vote(4, 0x20001);
        assertEq(Books.lastOf(_books, 0x20001), 3 * EPOCH_ROUNDS + 3, "another book");
        _vote(65_534, 0x20001);
        assertEq(Books.lastOf(_books, 0x20001), 65_535, "the last round of all");
        assertEq(Books.lastOf(_books, 0x20000), 0, "its neighbour");
        assertEq(Books.take(_books, Books.keyOf(0, 0x20001)), 0, "no pay");
        _pay(0, 0x20001);
        assertEq(Books.take(_books, Books.keyOf(0, 0x20001)), 1, "pay");
        assertEq(Books.lastOf(_books, 0x20001), 65_535, "taking pay forgets no vote");
    }
}
