// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Proof} from "../../../contracts/game/GameTypes.sol";
import {ISeats} from "../../../contracts/game/interfaces/ISeats.sol";
import {Vm} from "../Vm.sol";
import {GameWorld} from "./GameWorld.sol";

/// @title What only other contracts may do to a seat.
contract SeatLedgerTest is GameWorld {
    // Modules ----------------------------------------------------------------------------------------------------
    /// @dev Two rounds that fall may name the same seat.
    function test_convict_twice_closesOnce() public {
        begin(2, 6, 3);
        uint256[] memory seats = new uint256[](2);
        (seats[0], seats[1]) = (solverSeat(0), solverSeat(0));
        vm.recordLogs();
        vm.startPrank(address(settlement));
        uint256 restWei = seatBook.convict(task, seats, stranger, Proof.ASKED);
        assertEq(seatBook.convict(task, seats, stranger, Proof.ASKED), 0, "nothing is left");
        vm.stopPrank();
        Vm.Entry[] memory entries = vm.getRecordedLogs();
        uint256 told;
        for (uint256 i = 0; i < entries.length; ++i) {
            if (entries[i].topics[0] == ISeats.SeatConvicted.selector) ++told;
        }
        assertEq(told, 1, "told once");
        assertEq(restWei + purse.creditOf(stranger) + purse.creditOf(submitter), 1000, "one stake");
    }
}
