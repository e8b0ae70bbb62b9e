// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../contracts/Types.sol";
import {
    DeploymentLimits,
    GameTerms,
    Proof,
    Seat,
    SeatRole,
    SeatStatus
} from "../../../contracts/game/GameTypes.sol";
import {Modules} from "../../../contracts/game/Module.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {ITasks} from "../../../contracts/game/interfaces/ITasks.sol";
import {Pots} from "../../../contracts/game/libraries/Pots.sol";
import {Hashing} from "../../../contracts/libraries/Hashing.sol";
import {Vm} from "../Vm.sol";
import {CodeVm, GameWorld} from "./GameWorld.sol";
import {ContestsStub, ForwardStub, QuestionsStub} from "./Stubs.sol";

/// @title Tasks, seats, stakes and pools.
contract TasksTest is GameWorld {
    function _status(uint256 seat, SeatStatus expected) private view {
        assertEq(uint256(tasks.seatAt(task, seat).status), uint256(expected), "status");
    }

    // Tasks -------------------------------------------------------------------------------------------------------
    function test_announce_address_isKept() public {
        vm.expectEmit(true, true, true, true, address(tasks));
        emit ITasks.Announced(stranger, "https://node", "certificate");
        vm.prank(stranger);
        tasks.announce("https://node", "certificate");
        (string memory url, bytes32 certificate) = tasks.peerOf(stranger);
        assertEq(bytes(url), bytes("https://node"), "url");
        assertEq(certificate, "certificate", "certificate");
    }

    function test_postTask_funded_isThere() public {
        GameTerms memory wanted = soundTerms();
        TaskId id = TaskId.wrap(sha256(bytes.concat(abi.encode(wanted), TRAINING)));
        give(submitter, 2560);
        vm.expectEmit(true, true, true, true, address(tasks));
        emit ITasks.TaskPosted(id, submitter, wanted, TRAINING, 2560);
        vm.prank(submitter);
        task = tasks.postTask(wanted, TRAINING);
        assertEq(TaskId.unwrap(task), TaskId.unwrap(id), "id");
        assertEq(abi.encode(tasks.termsOf(task)), abi.encode(wanted), "terms");
        assertEq(purse.potOf(Pots.escrow(task)), 2560, "escrow");
        assertEq(purse.creditOf(submitter), 0, "taken");
        assertTrue(!tasks.isClosed(task), "open");
        assertEq(tasks.domainOf(task), Hashing.domain(block.chainid, address(tasks), task), "domain");
        (,,, uint256 since,,, bytes32 root) = lineNow();
        assertEq(root, Hashing.outerRoot("weights", "zero"), "root");
        assertEq(since, FIRST_BLOCK, "stands since");
        vm.expectRevert(abi.encodeWithSelector(ITasks.TaskExists.selector, id));
        vm.prank(submitter);
        tasks.postTask(wanted, TRAINING);
    }

    function test_postTask_faults_revert() public {
        GameTerms memory wanted = soundTerms();
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotSubmitter.selector, submitter, stranger));
        vm.prank(stranger);
        tasks.postTask(wanted, TRAINING);
        give(submitter, 2559);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.CreditTooSmall.selector, submitter, 2560, 2559));
        vm.prank(submitter);
        tasks.postTask(wanted, TRAINING);
        wanted.rounds = 0;
        vm.expectRevert(abi.encodeWithSelector(IRefusals.AmountTooSmall.selector, bytes32("rounds"), 1, 0));
        vm.prank(submitter);
        tasks.postTask(wanted, TRAINING);
    }

    function test_escrowFor_terms_isTheMostThatCanBePaid() public view {
        GameTerms memory wanted = soundTerms();
        assertEq(tasks.escrowFor(wanted), 4 * 4 * (100 + 6 * 10), "without late audits");
        wanted.lateChance = 1;
        assertEq(tasks.escrowFor(wanted), 4 * 4 * (100 + 6 * 10 + 3 * 7), "with them");
    }

    /// @dev A stake is kept in 96 bits.
    function test_limits_amountsThatDoNotFit_revert() public {
        Modules memory m;
        DeploymentLimits memory wanted = localLimits();
        wanted.amountMax = uint128(type(uint96).max) + 1;
        bytes memory code =
            bytes.concat(CodeVm(address(vm)).getCode("Tasks.sol:Tasks"), abi.encode(m, wanted));
        assertTrue(_made(code) == address(0), "too large");
        wanted.amountMax = type(uint96).max;
        code = bytes.concat(CodeVm(address(vm)).getCode("Tasks.sol:Tasks"), abi.encode(m, wanted));
        assertTrue(_made(code) != address(0), "it fits");
    }

    /// @dev A round counts its blocks from its opening in 24 bits: a window until its beacon, and another one until it closes.
    function test_limits_windowsThatDoNotFit_revert() public {
        Modules memory m;
        DeploymentLimits memory wanted = localLimits();
        wanted.windowMax = 1 << 23;
        bytes memory code =
            bytes.concat(CodeVm(address(vm)).getCode("Tasks.sol:Tasks"), abi.encode(m, wanted));
        assertTrue(_made(code) == address(0), "too long");
        wanted.windowMax = (1 << 23) - 1;
        code = bytes.concat(CodeVm(address(vm)).getCode("Tasks.sol:Tasks"), abi.encode(m, wanted));
        assertTrue(_made(code) != address(0), "it fits");
    }

    function _made(bytes memory code) private returns (address made) {
        assembly ("memory-safe") {
            made := create(0, add(code, 32), mload(code))
        }
    }

    function test_limits_areTheDeployments() public view {
        assertEq(abi.encode(tasks.limits()), abi.encode(localLimits()), "limits");
    }

    function test_unknownTask_reverts() public {
        bytes memory error_ = abi.encodeWithSelector(IRefusals.TaskUnknown.selector, bytes32("no"));
        TaskId no = TaskId.wrap("no");
        vm.expectRevert(error_);
        tasks.termsOf(no);
        vm.expectRevert(error_);
        tasks.isClosed(no);
        vm.expectRevert(error_);
        tasks.join(no, SeatRole.SOLVER, 1);
        vm.expectRevert(error_);
        tasks.topUp(no, 1, 1);
        vm.expectRevert(error_);
        tasks.leave(no, 1);
        vm.expectRevert(error_);
        tasks.payOut(no, 1);
        vm.expectRevert(error_);
        tasks.closeTask(no);
        vm.expectRevert(error_);
        rounds.start(no);
    }

    function test_closeTask_whileAnythingIsLeft_reverts() public {
        begin(2, 6, 3);
        bytes memory error_ = abi.encodeWithSelector(IRefusals.TaskRuns.selector, task);
        vm.expectRevert(error_);
        tasks.closeTask(task);
        playRound(0);
        vm.prank(submitter);
        rounds.halt(task);
        playRound(1);
        passDuties();
        settleAll(1);
        for (uint256 i = 0; i < 6; ++i) {
            tasks.payOut(task, verifierSeat(i));
            if (i < 3) tasks.payOut(task, whistleblowerSeat(i));
            if (i < 2) tasks.payOut(task, solverSeat(i));
            if (i != 5) {
                vm.expectRevert(error_);
                tasks.closeTask(task);
            }
        }
        ContestsStub(contests).open(task, 0);
        vm.expectRevert(error_);
        tasks.closeTask(task);
        ContestsStub(contests).end(task, 0);
        uint256 rest = 2560 - 4 * 100 - 8 * 10;
        vm.expectEmit(true, true, true, true, address(tasks));
        emit ITasks.GameClosed(task, rest);
        tasks.closeTask(task);
        assertEq(purse.creditOf(submitter), rest, "the rest");
        assertTrue(tasks.isClosed(task), "closed");
        error_ = abi.encodeWithSelector(IRefusals.GameOver.selector, task);
        vm.expectRevert(error_);
        tasks.closeTask(task);
        vm.expectRevert(error_);
        tasks.join(task, SeatRole.SOLVER, 1000);
        vm.expectRevert(error_);
        tasks.payOut(task, solverSeat(0));
        withdrawAll();
    }

    /// @dev Nobody came: the task is over once it stood still for `dispute` blocks.
    function test_closeTask_neverStarted_returnsTheEscrow() public {
        postTask(soundTerms());
        roll(FIRST_BLOCK + 199);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.TaskRuns.selector, task));
        tasks.closeTask(task);
        roll(FIRST_BLOCK + 200);
        tasks.closeTask(task);
        assertEq(purse.creditOf(submitter), 2560, "all of it");
    }

    // Joining -----------------------------------------------------------------------------------------------------
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
        _status(seat, SeatStatus.OPEN);
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

    /// @dev Four places: of equal smallest stakes the highest number waits, from the next freeze on. It sits again once a larger one has left.
    function test_join_fullTask_theSmallestWaits() public {
        postTask(soundTerms());
        joinAll(0, 6, 3);
        join(SeatRole.SOLVER, "a", 1500);
        join(SeatRole.SOLVER, "b", 1200);
        join(SeatRole.SOLVER, "c", 1200);
        join(SeatRole.SOLVER, "d", 1300);
        give(stranger, 5000);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatsTaken.selector, 1201));
        vm.prank(stranger);
        tasks.join(task, SeatRole.SOLVER, 1200);
        vm.prank(stranger);
        assertEq(tasks.join(task, SeatRole.SOLVER, 1201), 0x10004, "a number of its own");
        _status(0x10002, SeatStatus.OPEN);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.TaskRuns.selector, task));
        tasks.payOut(task, 0x10002);
        assertEq(_startedPool(), 27, "all but c");
        vm.prank(stranger);
        tasks.leave(task, 0x10004);
        assertEq(_startedPool(), 15, "c sits again");
        join(SeatRole.SOLVER, "e", 1250);
        assertEq(_startedPool(), 43, "c waits again");
        give(person("c"), 100);
        vm.prank(person("c"));
        tasks.topUp(task, 0x10002, 100);
        assertEq(_startedPool(), 45, "now b does");
        // A pool that was frozen is taken again where nothing has changed: a larger stake is a change.
        rounds.start(task);
        roll(now_() + 300);
        give(person("b"), 100);
        vm.prank(person("b"));
        tasks.topUp(task, 0x10001, 100);
        assertEq(_startedPool(), 15, "b is back, e waits");
    }

    /// @dev The pool that a start would freeze now.
    function _startedPool() private returns (uint64 pool) {
        uint256 before = vm.snapshotState();
        rounds.start(task);
        pool = rounds.rosterOf(task, 0).pool;
        vm.revertToState(before);
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

    // Stakes ------------------------------------------------------------------------------------------------------
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

    /// @dev A fee takes a seat out of pools frozen later, until its stake is whole again.
    function test_topUp_afterAFee_sitsAgain() public {
        begin(3, 6, 3);
        playToDraw(0);
        vote_(0, 0, 0, 0, UNSERVED, false);
        vote_(0, 0, 0, 1, UNSERVED, false);
        voteAll(0, 1, 0, ACCEPT);
        voteAll(0, 2, 0, ACCEPT);
        postAll(0);
        roll(roundOf(1).opened + 81);
        rounds.stand(task, 1);
        roll(roundOf(2).opened + 81);
        rounds.stand(task, 2);
        roll(roundOf(3).opened + 203);
        rounds.stand(task, 3);
        passDuties();
        assertTrue(tasks.isFunded(task), "funded");
        settleAll(3);
        assertTrue(!tasks.isFunded(task), "all solvers owed fees");
        assertEq(stakeOf(solverSeat(0)), 1000 - 90 - 80, "not served once, dropped twice");
        _topUp(solverSeat(1), 79);
        _topUp(solverSeat(2), 80);
        assertTrue(!tasks.isFunded(task), "one is short of a wei");
        _topUp(solverSeat(1), 1);
        assertEq(stakeOf(solverSeat(1)), 1000, "whole");
        assertTrue(!tasks.isFunded(task), "two verifiers owed fees");
        for (uint256 i = 0; i < 6; ++i) {
            if (stakeOf(verifierSeat(i)) != 600) _topUp(verifierSeat(i), 90);
        }
        assertTrue(tasks.isFunded(task), "they sit again");
        windUp();
    }

    function _topUp(uint256 seat, uint256 wei_) private {
        address account = accountOf(seat);
        give(account, wei_);
        vm.prank(account);
        tasks.topUp(task, seat, wei_);
    }

    // Leaving -----------------------------------------------------------------------------------------------------
    function test_leave_seat_servesInFrozenPools() public {
        begin(3, 6, 3);
        vm.expectRevert(
            abi.encodeWithSelector(IRefusals.NotHolder.selector, accountOf(solverSeat(2)), stranger)
        );
        vm.prank(stranger);
        tasks.leave(task, solverSeat(2));
        vm.expectEmit(true, true, true, true, address(tasks));
        emit ITasks.SeatLeft(task, solverSeat(2));
        asSeat(solverSeat(2));
        tasks.leave(task, solverSeat(2));
        _status(solverSeat(2), SeatStatus.LEAVING);
        address account = accountOf(solverSeat(2));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatClosed.selector, solverSeat(2)));
        vm.prank(account);
        tasks.leave(task, solverSeat(2));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatClosed.selector, solverSeat(2)));
        vm.prank(account);
        tasks.topUp(task, solverSeat(2), 1);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatBusy.selector, solverSeat(2)));
        tasks.payOut(task, solverSeat(2));
        playRound(0);
        playRound(1);
        assertEq(roundOf(1).pool, 7, "frozen before");
        assertEq(roundOf(2).pool, 3, "frozen behind");
        playRound(2);
        playRound(3);
        passDuties();
        settleOne(solverSeat(2), 1);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatUnknown.selector, solverSeat(3)));
        tasks.payOut(task, solverSeat(3));
        QuestionsStub(asks).open(task, solverSeat(2), 1);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatBusy.selector, solverSeat(2)));
        tasks.payOut(task, solverSeat(2));
        QuestionsStub(asks).end(task, solverSeat(2), 1);
        QuestionsStub(disputes).open(task, solverSeat(2), 1);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatBusy.selector, solverSeat(2)));
        tasks.payOut(task, solverSeat(2));
        QuestionsStub(disputes).end(task, solverSeat(2), 1);
        vm.expectEmit(true, true, true, true, address(tasks));
        emit ITasks.SeatFreed(task, solverSeat(2), 1000);
        tasks.payOut(task, solverSeat(2));
        assertEq(purse.creditOf(account), 1200, "stake and two rounds");
        assertEq(tasks.seatOf(task, account), 0, "no seat");
        windUp();
    }

    /// @dev The pool after next is as it was in the closing block, also where nobody has said that the round is closed.
    function test_join_afterAClose_freezesThePoolFirst() public {
        GameTerms memory wanted = soundTerms();
        wanted.solverSeats = 3;
        begin(wanted, 3, 6, 3);
        commit(0, solverSeat(0));
        commit(0, solverSeat(1));
        roll(roundOf(0).opened + 42);
        join(SeatRole.SOLVER, "larger", 1500);
        sealAudits(0);
        acceptAll(0);
        postAll(0);
        (uint256 pool,,) = rounds.poolsOf(task, 2);
        assertEq(pool, 7, "it comes too late");
    }

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
        _status(whistleblowerSeat(0), SeatStatus.NONE);
        windUp();
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

    // Modules -----------------------------------------------------------------------------------------------------
    function test_modulesOnly() public {
        begin(2, 6, 3);
        bytes memory error_ = abi.encodeWithSelector(IRefusals.NotModule.selector, address(this));
        uint256[] memory seats = new uint256[](1);
        vm.expectRevert(error_);
        tasks.freezePools(task);
        vm.expectRevert(error_);
        tasks.retire(task, solverSeat(0));
        vm.expectRevert(error_);
        tasks.bookSettlement(task, solverSeat(0), 0, 0, 0, 0);
        vm.expectRevert(error_);
        tasks.convict(task, seats, stranger, Proof.ASKED);
    }

    /// @dev Two rounds that fall may name the same seat.
    function test_convict_twice_closesOnce() public {
        begin(2, 6, 3);
        uint256[] memory seats = new uint256[](2);
        (seats[0], seats[1]) = (solverSeat(0), solverSeat(0));
        vm.recordLogs();
        vm.startPrank(address(settlement));
        uint256 restWei = tasks.convict(task, seats, stranger, Proof.ASKED);
        assertEq(tasks.convict(task, seats, stranger, Proof.ASKED), 0, "nothing is left");
        vm.stopPrank();
        Vm.Entry[] memory entries = vm.getRecordedLogs();
        uint256 told;
        for (uint256 i = 0; i < entries.length; ++i) {
            if (entries[i].topics[0] == ITasks.SeatConvicted.selector) ++told;
        }
        assertEq(told, 1, "told once");
        assertEq(restWei + purse.creditOf(stranger) + purse.creditOf(submitter), 1000, "one stake");
    }

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

    /// @dev As many draws as verifiers: each is the primary of one, so all claims are accepted only where the new one's vote counts.
    function test_join_numberOfAConvictedVerifier_votes() public {
        postTask(soundTerms());
        joinAll(3, 6, 3);
        uint256[] memory seats = new uint256[](2);
        (seats[0], seats[1]) = (verifierSeat(0), verifierSeat(1));
        vm.prank(address(settlement));
        tasks.convict(task, seats, stranger, Proof.ASKED);
        tasks.payOut(task, verifierSeat(0));
        assertEq(join(SeatRole.VERIFIER, "new", 600), verifierSeat(0), "the number of a convicted seat");
        assertEq(join(SeatRole.VERIFIER, "newer", 600), verifierSeat(6), "the other one is not free");
        assertTrue(tasks.isFunded(task), "it counts");
        startRounds();
        playToDraw(0);
        acceptAll(0);
        assertEq(rounds.fatesOf(task, 0).accepted, 7, "its vote as well");
    }

    function test_views_ofPoolsAndSeats() public {
        begin(2, 6, 3);
        uint256[] memory words = tasks.poolOf(task, SeatRole.VERIFIER, roundOf(0).verifiers);
        assertEq(words.length, 1, "one word");
        assertEq(words[0], 0x3f, "six verifiers");
        words = tasks.poolOf(task, SeatRole.WHISTLEBLOWER, roundOf(0).whistleblowers);
        assertEq(words[0], 7, "three whistleblowers");
        assertEq(tasks.poolOf(task, SeatRole.VERIFIER, 0).length, 0, "no such version");
        commitAll(0);
        close(0);
        (,, uint256 frozenTo,,,,) = lineNow();
        assertEq(frozenTo, 3, "the close has frozen round 2");
        assertTrue(tasks.isEnough(task, 3, 1, 1), "enough");
        assertTrue(!tasks.isEnough(task, 1, 1, 1), "one solver");
        assertTrue(!tasks.isEnough(task, 3, 0, 1), "no verifiers");
        assertTrue(!tasks.isEnough(task, 3, 1, 0), "no whistleblowers");
        uint256[] memory seats = new uint256[](3);
        (seats[0], seats[1], seats[2]) = (solverSeat(1), verifierSeat(5), verifierSeat(6));
        address[] memory accounts = tasks.voterAccounts(task, seats);
        assertEq(accounts[0], person("solver1"), "solver");
        assertEq(accounts[1], person("verifier5"), "verifier");
        assertEq(accounts[2], address(0), "nobody");
        punish(verifierSeat(5), Proof.ASKED, voteRef(0, 0, 0, 0));
        punish(solverSeat(1), Proof.ASKED, claimRef(0, 1));
        accounts = tasks.voterAccounts(task, seats);
        assertEq(accounts[0], person("solver1"), "a solver, convicted or not");
        assertEq(accounts[1], address(0), "convicted");
        seats[1] = verifierSeat(4);
        accounts = tasks.voterAccounts(task, seats);
        assertEq(accounts[1], person("verifier4"), "not convicted");
        assertEq(tasks.closedSolvers(task), 2, "closed solvers");
        assertTrue(!tasks.isEnough(task, 3, 1, 1), "convicted ones do not count");
        assertTrue(!tasks.isFunded(task), "nor here");
        assertEq(tasks.voterAccounts(task, seats)[0], person("solver1"), "still its account");
    }

    /// @dev A copy is made where something has changed, and only there.
    function test_freezePools_versions() public {
        begin(3, 6, 3);
        assertEq(roundOf(0).verifiers, 1, "first");
        playRound(0);
        playRound(1);
        assertEq(roundOf(1).verifiers, 1, "the same");
        assertEq(roundOf(2).verifiers, 1, "the same");
        join(SeatRole.VERIFIER, "late", 600);
        asSeat(whistleblowerSeat(2));
        playRound2Left();
    }

    function playRound2Left() private {
        tasks.leave(task, whistleblowerSeat(2));
        playRound(2);
        assertEq(roundOf(3).verifiers, 1, "frozen before");
        assertEq(tasks.poolOf(task, SeatRole.VERIFIER, 2).length, 0, "rounds end before the next freeze");
        playRound(3);
        windUp();
    }
}
