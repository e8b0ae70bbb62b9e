// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameTerms, SeatRole} from "../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {AuditDraw} from "../../../contracts/libraries/AuditDraw.sol";
import {RoundWorld} from "./RoundWorld.sol";

/// @title Draws of audits and late audits, window by window.
contract RoundDrawsTest is RoundWorld {
    // Drawing ----------------------------------------------------------------------------------------------------
    function test_sealAudits_window() public {
        begin(3, 6, 3);
        commitAll(0);
        uint256 closed = close(0);
        uint256 first = drawBlock(closed) + 1;
        if (now_() < first) {
            expectOutside(first, closed + 9);
            rounds.sealAudits(task, 0, PROOF);
        }
        roll(closed + 9);
        bytes32 value = randomness.valueAt(first - 1);
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.AuditsDrawn(task, 0, value);
        rounds.sealAudits(task, 0, PROOF);
        assertEq(roundOf(0).seed, AuditDraw.roundSeed(tasks.domainOf(task), 0, value), "seed");
        assertTrue(roundOf(0).isSealed, "sealed");
        assertEq(rounds.beaconOf(task, 2), _beacon(2, first - 1), "the shards of round 2");
        assertEq(rounds.beaconOf(task, 1), _beacon(1, 1002), "those of round 1 stay");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NothingToSeal.selector, 0));
        rounds.sealAudits(task, 0, PROOF);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.RoundUnknown.selector, 1));
        rounds.sealAudits(task, 1, PROOF);
    }

    function test_sealAudits_undoneRound_reverts() public {
        begin(3, 6, 3);
        commitAll(0);
        sealAudits(0);
        acceptAll(0);
        post(0, 7, rootAfter(0), 3);
        commitAll(1);
        close(1);
        fall(0);
        roll(drawBlock(roundOf(1).closed) + 1);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NothingToSeal.selector, 1));
        rounds.sealAudits(task, 1, PROOF);
        bytes32 base = roundOf(1).base;
        vm.expectRevert(abi.encodeWithSelector(IRefusals.RoundUndone.selector, 1));
        rounds.commit(task, 1, base, 0, 0, 4);
    }

    function _lateTerms() private view returns (GameTerms memory wanted) {
        wanted = soundTerms();
        wanted.lateChance = 65_536;
    }

    /// @dev close + auditMax of the last missing round, and only where the task stands.
    function test_sealClosing_window() public {
        begin(_lateTerms(), 3, 6, 3);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NothingToSeal.selector, 1));
        rounds.sealClosing(task, PROOF);
        haltTask();
        playRound(0);
        assertEq(roundOf(0).lateSeed, 0, "not drawn yet");
        uint256 from = roundOf(0).closed + 30;
        uint256 first = drawBlock(from) + 1;
        expectOutside(first, from + 9);
        rounds.sealClosing(task, PROOF);
        roll(from + 9);
        bytes32 value = randomness.valueAt(first - 1);
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.ClosingDrawn(task, from, value);
        rounds.sealClosing(task, PROOF);
        assertEq(roundOf(0).lateFrom, from, "from");
        assertEq(roundOf(0).lateSeed, AuditDraw.roundSeed(tasks.domainOf(task), 1, value), "seed");
        assertEq(roundOf(0).lateSlots, 7, "slots");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NothingToSeal.selector, 1));
        rounds.sealClosing(task, PROOF);
        vote_(0, 0, 2, 0, ACCEPT, true);
        windUp();
    }

    /// @dev A task that stood later counts from there; without late audits there is no such draw.
    function test_sealClosing_standingLater_countsFromThere() public {
        begin(_lateTerms(), 3, 6, 3);
        haltTask();
        playToDraw(0);
        roll(roundOf(0).closed + 36);
        rounds.stand(task, 0);
        uint256 from = now_();
        assertEq(from, roundOf(0).closed + 36, "stands since");
        roll(from + 9);
        rounds.sealClosing(task, PROOF);
        assertEq(roundOf(0).lateFrom, from, "from");
        assertEq(roundOf(0).lateSlots, 7, "undecided ones too");
        windUp();
    }

    function test_sealClosing_missedOrNotDue_reverts() public {
        begin(3, 6, 3);
        haltTask();
        playRound(0);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NothingToSeal.selector, 1));
        rounds.sealClosing(task, PROOF);
    }

    function test_sealClosing_behindDispute_reverts() public {
        begin(_lateTerms(), 3, 6, 3);
        haltTask();
        playRound(0);
        uint256 closed = roundOf(0).closed;
        roll(closed + 200);
        expectOutside(drawBlock(closed + 30) + 1, closed + 39);
        rounds.sealClosing(task, PROOF);
        roll(closed + 201);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NothingToSeal.selector, 1));
        rounds.sealClosing(task, PROOF);
    }

    /// @dev A start that is asked for will draw them; once it lapses the closing seed is due.
    function test_sealClosing_pendingStart_waits() public {
        GameTerms memory wanted = _lateTerms();
        begin(wanted, 2, 6, 3);
        asSeat(solverSeat(1));
        tasks.leave(task, solverSeat(1));
        playRound(0);
        playRound(1);
        (uint256 next, uint256 live,,) = _line();
        assertEq(next, 2, "two rounds");
        assertEq(live, 0, "stands");
        join(SeatRole.SOLVER, "third", 1000);
        rounds.start(task);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NothingToSeal.selector, 2));
        rounds.sealClosing(task, PROOF);
    }

    // Views ------------------------------------------------------------------------------------------------------
    /// @dev Two closing draws of one task: each round keeps its own.
    function test_sealClosing_twice_keepsBothSeeds() public {
        GameTerms memory wanted = _lateTerms();
        wanted.rounds = 8;
        begin(wanted, 2, 6, 3);
        asSeat(solverSeat(1));
        tasks.leave(task, solverSeat(1));
        playRound(0);
        playRound(1);
        roll(drawBlock(roundOf(1).closed + 30) + 1);
        rounds.sealClosing(task, PROOF);
        bytes32 first = roundOf(1).lateSeed;
        uint256 third = join(SeatRole.SOLVER, "third", 1000);
        startRounds();
        asSeat(third);
        tasks.leave(task, third);
        playRound(2);
        playRound(3);
        roll(drawBlock(roundOf(3).closed + 30) + 1);
        bytes32 value = randomness.valueAt(now_() - 1);
        rounds.sealClosing(task, PROOF);
        assertEq(roundOf(3).lateSeed, AuditDraw.roundSeed(tasks.domainOf(task), 4, value), "the second");
        assertEq(roundOf(1).lateSeed, first, "the first stays");
        assertTrue(roundOf(0).lateSeed == roundOf(1).seed, "round 0 has that of round 1");
        assertTrue(roundOf(2).lateSeed == roundOf(3).seed, "round 2 has that of round 3");
        vote_(1, 0, 2, 0, ACCEPT, true);
        assertEq(votes.votesOf(task, 1, 0, 2)[0], 5, "votes by the first");
        windUp();
    }

    /// @dev A draw takes what those before it have missed, until dispute is over; rounds without claims are passed over.
    function test_sealAudits_drawsAllThatAreMissing() public {
        begin(_lateTerms(), 3, 6, 3);
        playRound(0);
        roll(roundOf(1).opened + 81);
        rounds.stand(task, 1);
        assertEq(roundOf(0).lateFrom, 0, "not drawn");
        playToDraw(2);
        assertEq(roundOf(0).lateFrom, roundOf(2).closed, "behind one without claims");
        assertEq(roundOf(1).lateFrom, 0, "nothing to audit");
    }

    function test_sealAudits_behindDispute_drawsNoMore() public {
        begin(_lateTerms(), 3, 6, 3);
        playRound(0);
        uint256 closed = roundOf(0).closed;
        roll(roundOf(1).opened + 81);
        rounds.stand(task, 1);
        uint256 opened = roundOf(2).opened;
        commit(2, solverSeat(0));
        roll(opened + 80);
        uint256 last = close(2);
        assertTrue(last < closed + 200, "still in time");
        roll(drawBlock(last) + 1);
        rounds.sealAudits(task, 2, PROOF);
        assertEq(roundOf(0).lateFrom, last, "drawn");
    }
}
