// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../../contracts/Types.sol";
import {Member, SeatStatus} from "../../../../contracts/game/GameTypes.sol";
import {ISeats} from "../../../../contracts/game/interfaces/ISeats.sol";
import {Members} from "../../../../contracts/game/libraries/Members.sol";
import {Test} from "../../Test.sol";

/// @dev Answers as `Tasks` does; of seat 7 alone, and with a stake that nobody asks for.
contract MembersStub {
    function membersOf(TaskId, uint256[] calldata seats) external pure returns (uint256[] memory words) {
        require(seats.length == 1 && seats[0] == 7, "another seat was asked for");
        words = new uint256[](2);
        words[0] = uint256(99) << 160 | 0xabcd;
        words[1] = uint256(5) << 144 | uint256(4) << 40 | uint256(3) << 24 | uint256(2) << 8 | 3;
    }
}

/// @title The two words of a seat's record, field by field.
contract MembersTest is Test {
    function _requireFields(Member memory member) private pure {
        assertEq(member.account, address(0xabcd), "account");
        assertEq(uint256(member.status), uint256(SeatStatus.CLOSED), "status");
        assertEq(member.settled, 2, "settled");
        assertEq(member.joined, 3, "joined");
        assertEq(member.asks, 4, "asks");
        assertEq(member.disputes, 5, "disputes");
    }

    function test_load_seat_readsEachField() public {
        _requireFields(Members.load(ISeats(address(new MembersStub())), TaskId.wrap("task"), 7));
    }

    function test_at_secondSeat_isNotMixedWithOthers() public pure {
        uint256[] memory words = new uint256[](6);
        for (uint256 i = 0; i < words.length; ++i) {
            words[i] = type(uint256).max - 252;
        }
        (words[2], words[3]) = (uint256(type(uint96).max) << 160 | 0xabcd, 0);
        words[3] = uint256(5) << 144 | uint256(4) << 40 | uint256(3) << 24 | uint256(2) << 8 | 3;
        _requireFields(Members.at(words, 1));
    }

    /// @dev The greatest value of each field reaches none of its neighbours.
    function test_at_greatestValues_keepApart() public pure {
        uint256[] memory words = new uint256[](2);
        words[1] = uint256(type(uint104).max) << 40;
        Member memory member = Members.at(words, 0);
        assertEq(member.asks, type(uint104).max, "asks");
        assertEq(member.disputes + member.joined + member.settled, 0, "no other");
        words[1] = uint256(type(uint16).max) << 24;
        member = Members.at(words, 0);
        assertEq(member.joined, type(uint16).max, "joined");
        assertEq(member.asks + member.settled, 0, "neither neighbour");
    }
}
