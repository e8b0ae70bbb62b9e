// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {SeatRole} from "../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {GameWorld} from "./GameWorld.sol";

/// @title Numbers of seats that fill words.
contract SeatMembershipTest is GameWorld {
    // Joining
    /// @dev 1,024 numbers of an auditor role; words of 256.
    function test_join_auditors_fillWords() public {
        postTask(soundTerms());
        for (uint256 i = 0; i < 257; ++i) {
            address account = address(uint160(0x10000 + i));
            token.mint(account, 600);
            vm.startPrank(account);
            token.approve(address(vault), 600);
            vault.deposit(600);
            assertEq(seatBook.join(task, SeatRole.VERIFIER, 600), 0x20000 + i, "in order");
            vm.stopPrank();
        }
        assertEq(seatBook.settledBy(task), 0, "all at 0");
        address first = address(uint160(0x10000 + 255));
        vm.prank(first);
        seatBook.leave(task, 0x200ff);
        seatBook.payOut(task, 0x200ff);
        vm.prank(stranger);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.CreditTooSmall.selector, stranger, 600, 0));
        seatBook.join(task, SeatRole.VERIFIER, 600);
        give(stranger, 600);
        vm.prank(stranger);
        assertEq(seatBook.join(task, SeatRole.VERIFIER, 600), 0x200ff, "the free one in the full word");
    }
}
