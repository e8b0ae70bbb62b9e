// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameTerms, Proof, Seat, SeatRole, SeatStatus} from "../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {ITasks} from "../../../contracts/game/interfaces/ITasks.sol";
import {Pots} from "../../../contracts/game/libraries/Pots.sol";
import {GameWorld} from "./GameWorld.sol";

/// @title Joining, stakes, leaving and being paid out.
contract SeatMembershipTest is GameWorld {
    // Joining ----------------------------------------------------------------------------------------------------
    function test_join_roles_takeTheLowestNumber() public {
        postTask(soundTerms());
        give(stranger, 1500);
        vm.expectEmit(true, true, true, true, address(tasks));
        emit ITasks.SeatJoined(task, 0x10000, stranger, 1200);
        vm.prank(stranger);
        uint256 seat = tasks.join(task, SeatRole.SOLVER, 1200);
        assertEq(seat, 0x10000, "id");
        Seat memory record = tasks.seatAt(task, seat);
        assertEq(record.account, stranger, "account");
        assertEq(record.stakeWei, 1200, "stake");
        assertEq(record.settled, 0, "settled");
        assertEq(record.joined, 0, "joined");
        requireStatus(seat, SeatStatus.OPEN);
        assertEq(tasks.seatOf(task, stranger), seat, "seatOf");
        assertEq(purse.creditOf(stranger), 300, "credit");
        assertEq(purse.potOf(Pots.stakes(task)), 1200, "stakes");
        assertEq(join(SeatRole.VERIFIER, "v", 600), 0x20000, "first verifier");
        assertEq(join(SeatRole.VERIFIER, "v2", 601), 0x20001, "second");
        assertEq(join(SeatRole.WHISTLEBLOWER, "w", 600), 0x30000, "first whistleblower");
    }

    /// @dev All 64 numbers are held: who waits for one of the four places makes room, and no more than that.
    function test_payOut_waitingSolver_whereNumbersRunOut() public {
        postTask(soundTerms());
        for (uint256 i = 0; i < 64; ++i) {
            address account = address(uint160(0x10000 + i));
            vm.prank(account);
            token.approve(address(purse), type(uint256).max);
            give(account, 1000 + i);
            vm.prank(account);
            tasks.join(task, SeatRole.SOLVER, uint256(1000 + i));
        }
        give(stranger, 5000);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatsTaken.selector, 0));
        vm.prank(stranger);
        tasks.join(task, SeatRole.SOLVER, 5000);
        bytes memory error_ = abi.encodeWithSelector(IRefusals.TaskRuns.selector, task);
        vm.expectRevert(error_);
        tasks.payOut(task, 0x1003c);
        vm.expectEmit(true, true, true, true, address(tasks));
        emit ITasks.SeatLeft(task, 0x1003b);
        tasks.payOut(task, 0x1003b);
        assertEq(purse.creditOf(address(uint160(0x1003b))), 1059, "its stake");
        vm.expectRevert(error_);
        tasks.payOut(task, 0x1003a);
        vm.prank(stranger);
        assertEq(tasks.join(task, SeatRole.SOLVER, 5000), 0x1003b, "the free number");
    }

    function test_join_allNumbers_areTaken() public {
        GameTerms memory wanted = soundTerms();
        wanted.solverSeats = 64;
        postTask(wanted);
        joinMany(SeatRole.SOLVER, "s", 64);
        give(stranger, 5000);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatsTaken.selector, 0));
        vm.prank(stranger);
        tasks.join(task, SeatRole.SOLVER, 1001);
        tasks.seatAt(task, 0x1003f);
        asSeat(0x1003e);
        tasks.leave(task, 0x1003e);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatsTaken.selector, 0));
        vm.prank(stranger);
        tasks.join(task, SeatRole.SOLVER, 1000);
        tasks.payOut(task, 0x1003e);
        vm.prank(stranger);
        assertEq(tasks.join(task, SeatRole.SOLVER, 1000), 0x1003e, "the free number");
    }

    /// @dev 1,024 numbers of an auditor role; words of 256.
    function test_join_auditors_fillWords() public {
        postTask(soundTerms());
        for (uint256 i = 0; i < 257; ++i) {
            address account = address(uint160(0x10000 + i));
            token.mint(account, 600);
            vm.startPrank(account);
            token.approve(address(purse), 600);
            purse.deposit(600);
            assertEq(tasks.join(task, SeatRole.VERIFIER, 600), 0x20000 + i, "in order");
            vm.stopPrank();
        }
        assertEq(tasks.settledBy(task), 0, "all at 0");
        address first = address(uint160(0x10000 + 255));
        vm.prank(first);
        tasks.leave(task, 0x200ff);
        tasks.payOut(task, 0x200ff);
        vm.prank(stranger);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.CreditTooSmall.selector, stranger, 600, 0));
        tasks.join(task, SeatRole.VERIFIER, 600);
        give(stranger, 600);
        vm.prank(stranger);
        assertEq(tasks.join(task, SeatRole.VERIFIER, 600), 0x200ff, "the free one in the full word");
    }

    // Modules ----------------------------------------------------------------------------------------------------
    /// @dev Who takes the number of a convicted seat is not convicted, while another one is.
    function test_payOut_convictedSeat_clearsItsNumber() public {
        postTask(soundTerms());
        joinAll(2, 6, 3);
        uint256[] memory seats = new uint256[](2);
        (seats[0], seats[1]) = (solverSeat(0), solverSeat(1));
        vm.prank(address(settlement));
        tasks.convict(task, seats, stranger, Proof.ASKED);
        tasks.payOut(task, solverSeat(0));
        (uint64 closed, bool isAny) = tasks.closures(task);
        assertTrue(isAny, "one is left");
        assertEq(closed, 2, "the other one");
        assertEq(join(SeatRole.SOLVER, "new", 1000), solverSeat(0), "the same number");
        (closed,) = tasks.closures(task);
        assertEq(closed, 2, "still the other one alone");
    }
}
