// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../Types.sol";
import {Member, SeatStatus} from "../GameTypes.sol";
import {ISeats} from "../interfaces/ISeats.sol";

/// @title Reads `ISeats.membersOf`: the two words of a seat's record.
/// @dev From the lowest bit: account 160, stake 96; status 8, settled 16, joined 16, asks 104, disputes 104.
library Members {
    uint256 private constant ROUND = type(uint16).max;
    uint256 private constant COUNTS = type(uint104).max;

    /// @notice The seat of this place in the answer.
    function at(uint256[] memory words, uint256 place) internal pure returns (Member memory member) {
        uint256 holder;
        uint256 word;
        unchecked {
            (holder, word) = (words[2 * place], words[2 * place + 1]);
        }
        (member.account, member.status) = (address(uint160(holder)), SeatStatus(word & type(uint8).max));
        (member.settled, member.joined) = (word >> 8 & ROUND, word >> 24 & ROUND);
        (member.asks, member.disputes) = (word >> 40 & COUNTS, word >> 144);
    }

    /// @notice One seat.
    function load(ISeats seatBook, TaskId task, uint256 seat) internal view returns (Member memory) {
        uint256[] memory seats = new uint256[](1);
        seats[0] = seat;
        return at(seatBook.membersOf(task, seats), 0);
    }
}
