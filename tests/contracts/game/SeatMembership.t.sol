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

    function test_join_faults_revert() public {
        postTask(soundTerms());
        give(stranger, 1 << 91);
        vm.startPrank(stranger);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatUnknown.selector, 0));
        tasks.join(task, SeatRole.NONE, 1000);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.StakeWrong.selector, 1000, 1 << 90, 999));
        tasks.join(task, SeatRole.SOLVER, 999);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.StakeWrong.selector, 600, 1 << 90, (1 << 90) + 1));
        tasks.join(task, SeatRole.VERIFIER, (1 << 90) + 1);
        tasks.join(task, SeatRole.VERIFIER, 1 << 90);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.AlreadySeated.selector, stranger));
        tasks.join(task, SeatRole.SOLVER, 1000);
        vm.stopPrank();
        address poor = person("poor");
        give(poor, 999);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.CreditTooSmall.selector, poor, 1000, 999));
        vm.prank(poor);
        tasks.join(task, SeatRole.SOLVER, 1000);
        vm.prank(submitter);
        rounds.halt(task);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.TaskHalted.selector, task));
        vm.prank(poor);
        tasks.join(task, SeatRole.VERIFIER, 600);
    }

    function test_join_allRoundsUsed_reverts() public {
        GameTerms memory wanted = soundTerms();
        wanted.rounds = 1;
        begin(wanted, 2, 6, 3);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.TaskOver.selector, task));
        vm.prank(stranger);
        tasks.join(task, SeatRole.SOLVER, 1000);
        playRound(0);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.TaskOver.selector, task));
        rounds.start(task);
        windUp();
    }

    /// @dev It has stood still for `dispute`: who joined after each `payOut` would keep it from closing.
    function test_join_overTask_reverts() public {
        postTask(soundTerms());
        joinAll(1, 6, 3);
        roll(FIRST_BLOCK + 199);
        join(SeatRole.SOLVER, "early", 1000);
        roll(FIRST_BLOCK + 200);
        tasks.payOut(task, solverSeat(0));
        give(stranger, 1000);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.TaskOver.selector, task));
        vm.prank(stranger);
        tasks.join(task, SeatRole.SOLVER, 1000);
        windUp();
    }

    /// @dev A start makes it one that runs.
    function test_join_startedAgain_isTaken() public {
        postTask(soundTerms());
        joinAll(2, 6, 3);
        roll(FIRST_BLOCK + 200);
        rounds.start(task);
        join(SeatRole.SOLVER, "late", 1000);
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

    // Stakes -----------------------------------------------------------------------------------------------------
    function test_topUp_stake_grows() public {
        postTask(soundTerms());
        uint256 seat = join(SeatRole.SOLVER, "a", 1000);
        address account = person("a");
        give(account, 1 << 91);
        vm.startPrank(account);
        vm.expectEmit(true, true, true, true, address(tasks));
        emit ITasks.SeatToppedUp(task, seat, 5);
        tasks.topUp(task, seat, 5);
        assertEq(stakeOf(seat), 1005, "stake");
        assertEq(purse.potOf(Pots.stakes(task)), 1005, "stakes");
        uint256 most = (1 << 90) - 1005;
        vm.expectRevert(abi.encodeWithSelector(IRefusals.StakeWrong.selector, 1, most, 0));
        tasks.topUp(task, seat, 0);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.StakeWrong.selector, 1, most, most + 1));
        tasks.topUp(task, seat, most + 1);
        tasks.topUp(task, seat, most);
        vm.stopPrank();
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotHolder.selector, account, stranger));
        vm.prank(stranger);
        tasks.topUp(task, seat, 1);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatUnknown.selector, seat + 1));
        tasks.topUp(task, seat + 1, 1);
    }

    // Leaving ----------------------------------------------------------------------------------------------------
    /// @dev An open seat is paid out only once no round is to come.
    function test_payOut_openSeat_whenOver() public {
        begin(2, 6, 3);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.TaskRuns.selector, task));
        tasks.payOut(task, whistleblowerSeat(0));
        vm.prank(submitter);
        rounds.halt(task);
        playRound(0);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatBusy.selector, whistleblowerSeat(0)));
        tasks.payOut(task, whistleblowerSeat(0));
        passDuties();
        settleOne(whistleblowerSeat(0), 0);
        tasks.payOut(task, whistleblowerSeat(0));
        requireStatus(whistleblowerSeat(0), SeatStatus.NONE);
        windUp();
    }

    /// @dev A seat that has never sat is paid out while a round runs. The call records the close that nobody has recorded.
    function test_payOut_afterAClose_recordsIt() public {
        begin(3, 6, 3);
        uint256 seat = join(SeatRole.WHISTLEBLOWER, "late", 600);
        asSeat(seat);
        tasks.leave(task, seat);
        commit(0, solverSeat(0));
        commit(0, solverSeat(1));
        roll(roundOf(0).opened + 42);
        assertEq(roundOf(0).closed, 0, "no call has recorded that it is closed");
        tasks.payOut(task, seat);
        assertEq(roundOf(0).closed, roundOf(0).opened + 40, "its closing block");
        assertEq(stakeOf(seat), 0, "nothing is left in it");
        requireStatus(seat, SeatStatus.NONE);
    }

    /// @dev Pools of a start hold a seat as long as it can be sealed.
    function test_payOut_pendingStart_holdsUntilItLapses() public {
        postTask(soundTerms());
        joinAll(2, 6, 3);
        rounds.start(task);
        asSeat(verifierSeat(0));
        tasks.leave(task, verifierSeat(0));
        (,,,, uint256 startBlock,,) = lineNow();
        roll(startBlock + 200);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatBusy.selector, verifierSeat(0)));
        tasks.payOut(task, verifierSeat(0));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.StartPending.selector, startBlock + 200));
        rounds.start(task);
        roll(startBlock + 201);
        tasks.payOut(task, verifierSeat(0));
        vm.expectRevert(
            abi.encodeWithSelector(
                IRefusals.OutsideWindow.selector, startBlock + 1, startBlock + 200, startBlock + 201
            )
        );
        rounds.sealStart(task, PROOF);
        assertEq(purse.creditOf(person("verifier0")), 600, "stake");
    }

    /// @dev No start is sealed after a halt, so its pools hold nobody.
    function test_payOut_pendingStartOfAHaltedTask_isFree() public {
        postTask(soundTerms());
        joinAll(2, 6, 3);
        rounds.start(task);
        asSeat(verifierSeat(0));
        tasks.leave(task, verifierSeat(0));
        haltTask();
        tasks.payOut(task, verifierSeat(0));
        assertEq(purse.creditOf(person("verifier0")), 600, "stake");
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
