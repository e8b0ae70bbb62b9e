// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {
    GameTerms,
    Phase,
    Proof,
    RoundView,
    Seat,
    SeatRole,
    SeatStatus
} from "../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {ISettlement} from "../../../contracts/game/interfaces/ISettlement.sol";
import {IVotes} from "../../../contracts/game/interfaces/IVotes.sol";
import {Pots} from "../../../contracts/game/libraries/Pots.sol";
import {GameWorld} from "./GameWorld.sol";
import {ContestsStub, QuestionsStub} from "./Stubs.sol";

/// @title Whole plays. Each ends with everybody paid and nothing left in any pot.
/// @dev Three solvers and six verifiers, two draws a claim: each verifier is one primary a round. An accepted claim earns 100, an opened vote 10, a
/// late one 7; DROPPED costs 40, UNSERVED 90.
contract PlaysTest is GameWorld {
    /// @dev 4 rounds x 4 seats x (100 + 3 x 2 x 10).
    uint256 private constant ESCROW = 2560;

    function _late() private view returns (GameTerms memory wanted) {
        wanted = soundTerms();
        wanted.lateChance = 65_536;
    }

    function _earnings(uint256[3] memory solverWei, uint256[6] memory verifierWei) private view {
        for (uint256 i = 0; i < 3; ++i) {
            assertEq(creditOf(solverSeat(i)), solverWei[i], string.concat("solver ", vm.toString(i)));
        }
        for (uint256 i = 0; i < 6; ++i) {
            assertEq(creditOf(verifierSeat(i)), verifierWei[i], string.concat("verifier ", vm.toString(i)));
        }
    }

    function test_rounds_withoutQuarrel_payToTheWei() public {
        begin(3, 6, 3);
        assertEq(purse.potOf(Pots.escrow(task)), ESCROW, "escrow");
        for (uint256 round = 0; round < 4; ++round) {
            playRound(round);
        }
        passDuties();
        settleAll(3);
        _earnings([uint256(400), 400, 400], [uint256(40), 40, 40, 40, 40, 40]);
        assertEq(purse.potOf(Pots.escrow(task)), ESCROW - 1440, "what is left");
        assertEq(purse.burnPending(), 0, "nothing is burned");
        windUp();
        assertEq(token.balanceOf(submitter), ESCROW - 1440, "the rest is the submitter's");
        assertEq(token.balanceOf(vm.addr(uint256(keccak256("solver0")))), 1400, "stake and pay");
    }

    /// @dev Both primaries of one claim reject; all four reserves accept. Ten votes are paid.
    function test_rejectingPrimaries_reservesAccept_allArePaid() public {
        begin(3, 6, 3);
        playToDraw(0);
        for (uint256 draw = 0; draw < 2; ++draw) {
            vote_(0, 0, draw, 0, REJECT_STATE, true);
            vote_(0, 0, draw, 1, ACCEPT, true);
            vote_(0, 0, draw, 2, ACCEPT, true);
        }
        voteAll(0, 1, 0, ACCEPT);
        voteAll(0, 2, 0, ACCEPT);
        assertEq(rounds.fatesOf(task, 0).accepted, 7, "all accepted");
        postAll(0);
        uint256[6] memory due;
        for (uint256 i = 0; i < 6; ++i) {
            uint256[3] memory codes;
            for (uint256 slot = 0; slot < 3; ++slot) {
                for (uint256 draw = 0; draw < 2; ++draw) {
                    codes = votes.votesOf(task, 0, slot, draw);
                    for (uint256 rank = 0; rank < 3; ++rank) {
                        if (drawnSeat(0, slot, draw, rank) == verifierSeat(i) && codes[rank] > 4) {
                            due[i] += 10;
                        }
                    }
                }
            }
        }
        // The others' primaries are opened at once; a reject is opened with the vote that decides its draw, or later.
        for (uint256 draw = 0; draw < 2; ++draw) {
            assertEq(votes.votesOf(task, 0, 0, draw)[0], 2, "counted, not opened: its draw was open");
            vote_(0, 0, draw, 0, REJECT_STATE, true);
            vote_(0, 0, draw, 1, ACCEPT, true);
            assertEq(votes.votesOf(task, 0, 0, draw)[0], 6, "opened now");
            assertEq(votes.votesOf(task, 0, 0, draw)[1], 5, "opened now");
            due[drawnSeat(0, 0, draw, 0) & 0xff] += 10;
            due[drawnSeat(0, 0, draw, 1) & 0xff] += 10;
        }
        vm.prank(submitter);
        rounds.halt(task);
        commitAll(1);
        close(1);
        roll(roundOf(1).closed + 10);
        rounds.stand(task, 1);
        passDuties();
        settleAll(1);
        _earnings([uint256(100), 100, 100], due);
        uint256 sumWei;
        for (uint256 i = 0; i < 6; ++i) {
            sumWei += due[i];
        }
        assertEq(sumWei, 100, "ten votes");
        assertEq(purse.burnPending(), 300, "three claims of a round that was not drawn");
        windUp();
    }

    /// @dev Two UNSERVED: the solver and who said so pay 90 each; nobody earns, and nothing of the escrow is burned.
    function test_unserved_byTwo_costsAllThree() public {
        begin(3, 6, 3);
        playToDraw(0);
        vote_(0, 0, 0, 0, UNSERVED, false);
        assertEq(votes.countUnserved(task, 0, 0), 0, "one is nothing");
        vote_(0, 0, 0, 1, UNSERVED, false);
        assertEq(votes.countUnserved(task, 0, 0), 1, "two are");
        voteAll(0, 1, 0, ACCEPT);
        voteAll(0, 2, 0, ACCEPT);
        assertEq(rounds.fatesOf(task, 0).mergeable, 6, "slot 0 is void");
        uint256 primary = drawnSeat(0, 0, 0, 0);
        uint256 reserve = drawnSeat(0, 0, 0, 1);
        postAll(0);
        vm.prank(submitter);
        rounds.halt(task);
        roll(roundOf(1).opened + 81);
        rounds.stand(task, 1);
        passDuties();
        settleAll(1);
        assertEq(stakeOf(solverSeat(0)), 1000 - 90 - 40, "its solver, which missed round 1 too");
        assertEq(stakeOf(solverSeat(1)), 1000 - 40, "another");
        assertEq(stakeOf(primary), 600 - 90, "primary");
        assertEq(stakeOf(reserve), 600 - 90, "reserve");
        assertEq(purse.burnPending(), 3 * 90 + 3 * 40, "fees alone");
        assertEq(purse.potOf(Pots.escrow(task)), ESCROW - 200 - 40, "two claims and four votes");
        windUp();
    }

    /// @dev A third UNSERVED pays too; of a draw with two UNSERVED by reserves the primary's other word does not.
    function test_unserved_reservesFirst_thenThePrimary() public {
        begin(3, 6, 3);
        playToDraw(0);
        roll(roundOf(0).closed + 10);
        for (uint256 draw = 0; draw < 2; ++draw) {
            vote_(0, 0, draw, 1, UNSERVED, false);
            vote_(0, 0, draw, 2, UNSERVED, false);
        }
        vote_(0, 0, 0, 0, UNSERVED, false);
        vote_(0, 0, 1, 0, ABSTAIN, false);
        assertEq(votes.countUnserved(task, 0, 0), 2, "two draws");
        uint256[6] memory fees;
        for (uint256 rank = 0; rank < 3; ++rank) {
            fees[drawnSeat(0, 0, 0, rank) & 0xff] += 90;
            if (rank != 0) fees[drawnSeat(0, 0, 1, rank) & 0xff] += 90;
        }
        rounds.sync(task);
        roll(roundOf(0).closed + 36);
        rounds.stand(task, 0);
        vm.prank(submitter);
        rounds.halt(task);
        roll(roundOf(1).opened + 81);
        rounds.stand(task, 1);
        passDuties();
        settleAll(1);
        for (uint256 i = 0; i < 6; ++i) {
            assertEq(stakeOf(verifierSeat(i)), 600 - fees[i], "verifier");
        }
        assertEq(stakeOf(solverSeat(0)), 1000 - 180 - 40, "two draws, and round 1");
        windUp();
    }

    /// @dev All claims are audited late by all three whistleblowers in turn; round 0's are drawn by round 1, the last by the closing draw.
    function test_lateAudits_accepted_payWhistleblowers() public {
        begin(_late(), 3, 6, 3);
        playRound(0);
        assertEq(roundOf(0).lateFrom, 0, "not drawn");
        playRound(1);
        RoundView memory view_ = roundOf(0);
        assertEq(view_.lateFrom, roundOf(1).closed, "from the close that draws it");
        assertEq(view_.lateSlots, 7, "all claims");
        assertEq(view_.lateSeed, roundOf(1).seed, "the same seed");
        for (uint256 slot = 0; slot < 3; ++slot) {
            vote_(0, slot, 2, 0, ACCEPT, true);
        }
        playRound(2);
        playRound(3);
        uint256 closingFrom = roundOf(3).closed + 30;
        roll(drawBlock(closingFrom) + 1);
        rounds.sealClosing(task, PROOF);
        view_ = roundOf(3);
        assertEq(view_.lateFrom, closingFrom, "auditMax behind the last close");
        assertEq(view_.lateSlots, 7, "all claims");
        vote_(3, 1, 2, 0, ACCEPT, true);
        assertEq(roundOf(2).lateFrom, roundOf(3).closed, "round 2 was drawn by round 3");
        passDuties();
        settleAll(3);
        _earnings([uint256(400), 400, 400], [uint256(40), 40, 40, 40, 40, 40]);
        uint256 sumWei;
        for (uint256 i = 0; i < 3; ++i) {
            sumWei += creditOf(whistleblowerSeat(i));
        }
        assertEq(sumWei, 28, "four late votes");
        windUp();
    }

    /// @dev A claim that fails late loses its pay, which is burned; one with two late UNSERVED costs fees instead.
    function test_lateAudits_failed_takeTheSolversPay() public {
        begin(_late(), 3, 6, 3);
        playRound(0);
        playToDraw(1);
        vote_(0, 0, 2, 0, REJECT_DELTA, false);
        vote_(0, 0, 2, 1, REJECT_START, true);
        vote_(0, 0, 2, 0, REJECT_DELTA, true);
        vote_(0, 1, 2, 0, UNSERVED, false);
        vote_(0, 1, 2, 1, UNSERVED, false);
        vote_(0, 2, 2, 0, ABSTAIN, false);
        vote_(0, 2, 2, 1, REJECT_STATE, false);
        IVotes.Ends memory end = votes.endsOf(task, 0, 0)[0];
        assertEq(end.accepted, 7, "accepted");
        assertEq(end.lateRejected, 3, "of three that failed late, one by an ABSTAIN");
        assertEq(end.unserved, 2, "one of them was not served");
        acceptAll(1);
        postAll(1);
        vm.prank(submitter);
        rounds.halt(task);
        commitAll(2);
        close(2);
        roll(roundOf(2).closed + 10);
        rounds.stand(task, 2);
        passDuties();
        settleAll(2);
        assertEq(creditOf(solverSeat(0)), 100, "round 1 alone");
        assertEq(creditOf(solverSeat(1)), 100, "round 1 alone");
        assertEq(creditOf(solverSeat(2)), 200, "both");
        assertEq(stakeOf(solverSeat(1)), 910, "the fee");
        windUp();
    }

    /// @dev Nobody seals: the claims are void without a fee, their pay is burned.
    function test_unsealed_claimsAreVoidWithoutFee() public {
        begin(3, 6, 3);
        commitAll(0);
        uint256 closed = close(0);
        roll(closed + 9);
        assertEq(rounds.fatesOf(task, 0).undecided, 7, "it may still be drawn");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotLate.selector, closed + 35, closed + 9));
        rounds.stand(task, 0);
        roll(closed + 10);
        expectOutside(drawBlock(closed) + 1, closed + 9);
        rounds.sealAudits(task, 0, PROOF);
        assertEq(rounds.fatesOf(task, 0).undecided, 0, "void");
        rounds.stand(task, 0);
        assertEq(uint256(roundOf(0).phase), uint256(Phase.STANDING), "stands");
        playRound(1);
        vm.prank(submitter);
        rounds.halt(task);
        roll(roundOf(2).opened + 81);
        rounds.stand(task, 2);
        passDuties();
        settleAll(2);
        _earnings([uint256(100), 100, 100], [uint256(10), 10, 10, 10, 10, 10]);
        assertEq(purse.burnPending(), 300 + 120, "round 0's pay; round 2's fees");
        windUp();
    }

    /// @dev Two draws missed: round 2 opens without a beacon, and is dealt by a block of its own.
    function test_missingBeacon_sealRound_trainsFromThere() public {
        begin(3, 6, 3);
        for (uint256 round = 0; round < 2; ++round) {
            commitAll(round);
            roll(close(round) + 10);
            rounds.stand(task, round);
        }
        uint256 opened = roundOf(2).opened;
        assertEq(rounds.beaconOf(task, 2), 0, "no beacon");
        uint256 beaconBlock = (opened + 2) / 2 * 2;
        asSeat(solverSeat(0));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.WrongBeacon.selector, 0, bytes32("b")));
        rounds.commit(task, 2, 0, "b", 0, 4);
        roll(beaconBlock);
        expectOutside(beaconBlock + 1, beaconBlock + 200);
        rounds.sealRound(task, 2, PROOF);
        roll(beaconBlock + 7);
        rounds.sealRound(task, 2, PROOF);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NothingToSeal.selector, 2));
        rounds.sealRound(task, 2, PROOF);
        commit(2, solverSeat(0));
        commit(2, solverSeat(1));
        roll(beaconBlock + 47);
        rounds.sync(task);
        assertEq(roundOf(2).closed, 0, "its closing block takes commitments");
        assertEq(close(2), beaconBlock + 47, "trainMin from the seal");
        sealAudits(2);
        acceptAll(2);
        postAll(2);
        vm.prank(submitter);
        rounds.halt(task);
        roll(roundOf(3).opened + 401);
        rounds.stand(task, 3);
        passDuties();
        settleAll(3);
        assertEq(stakeOf(solverSeat(2)), 920, "DROPPED in rounds 2 and 3");
        assertEq(creditOf(solverSeat(0)), 100, "round 2");
        windUp();
    }

    function test_missingBeacon_never_closesExcused() public {
        begin(3, 6, 3);
        for (uint256 round = 0; round < 2; ++round) {
            commitAll(round);
            roll(close(round) + 10);
            rounds.stand(task, round);
        }
        uint256 beaconBlock = (roundOf(2).opened + 2) / 2 * 2;
        roll(beaconBlock + 200);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotNewest.selector, 2));
        rounds.stand(task, 2);
        roll(beaconBlock + 201);
        vm.expectRevert(
            abi.encodeWithSelector(
                IRefusals.OutsideWindow.selector, beaconBlock + 1, beaconBlock + 200, now_()
            )
        );
        rounds.sealRound(task, 2, PROOF);
        rounds.stand(task, 2);
        assertEq(roundOf(2).closed, beaconBlock + 200, "closed with the last block that could seal it");
        vm.prank(submitter);
        rounds.halt(task);
        beaconBlock = (roundOf(3).opened + 2) / 2 * 2;
        roll(beaconBlock + 201);
        rounds.stand(task, 3);
        windUp();
        assertEq(token.balanceOf(vm.addr(uint256(keccak256("solver0")))), 1000, "no fee");
    }

    /// @dev Who does not commit pays 40, also where a contest runs.
    function test_dropped_contestExcusesNobody() public {
        begin(3, 6, 3);
        commit(0, solverSeat(0));
        commit(0, solverSeat(2));
        uint256 opened = roundOf(0).opened;
        roll(opened + 40);
        assertEq(close(0), opened + 40, "two thirds after trainMin");
        sealAudits(0);
        acceptAll(0);
        postAll(0);
        ContestsStub(contests).open(task, 0);
        vm.prank(submitter);
        rounds.halt(task);
        opened = roundOf(1).opened;
        commit(1, solverSeat(0));
        roll(opened + 80);
        assertEq(close(1), opened + 80, "trainMax");
        ContestsStub(contests).end(task, 0);
        sealAudits(1);
        acceptAll(1);
        postAll(1);
        passDuties();
        settleAll(1);
        assertEq(stakeOf(solverSeat(0)), 1000, "committed twice");
        assertEq(stakeOf(solverSeat(1)), 920, "missed two");
        assertEq(creditOf(solverSeat(0)), 200, "pay");
        assertEq(creditOf(solverSeat(2)), 100, "pay");
        windUp();
    }

    /// @dev Of six segments a claim may have four or more: fewer would not get both draws.
    function test_shortClaim_earnsItsShare() public {
        GameTerms memory wanted = soundTerms();
        wanted.innerSteps = 30;
        begin(wanted, 3, 6, 3);
        (bytes32 base, bytes32 beacon) = (roundOf(0).base, rounds.beaconOf(task, 0));
        asSeat(solverSeat(1));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.WrongSegments.selector, 4, 6, 3));
        rounds.commit(task, 0, base, beacon, "claim", 3);
        commitShort(0, solverSeat(1), 5);
        commitShort(0, solverSeat(2), 4);
        commit(0, solverSeat(0));
        sealAudits(0);
        acceptAll(0);
        assertEq(rounds.fatesOf(task, 0).mergeable, 7, "all");
        postAll(0);
        vm.prank(submitter);
        rounds.halt(task);
        commitAll(1);
        sealAudits(1);
        acceptAll(1);
        postAll(1);
        passDuties();
        settleAll(1);
        assertEq(creditOf(solverSeat(0)), 200, "whole");
        assertEq(creditOf(solverSeat(1)), 183, "five sixths");
        assertEq(creditOf(solverSeat(2)), 166, "two thirds");
        windUp();
    }

    /// @dev Too few are left: the task stands, is started again, and its round starts from the root that stood.
    function test_standingTask_isStartedAgain() public {
        begin(2, 6, 3);
        asSeat(solverSeat(0));
        tasks.leave(task, solverSeat(0));
        playRound(0);
        bytes32 root = roundOf(0).root;
        playRound(1);
        bytes32 root1 = roundOf(1).root;
        assertTrue(root != root1, "roots");
        (uint256 next, uint256 live, uint256 frozenTo, uint256 standsSince,,, bytes32 now__) =
            lineNow();
        assertEq(next, 2, "next");
        assertEq(live, 0, "none runs");
        assertEq(frozenTo, 2, "no pool is frozen");
        assertEq(standsSince, now_(), "since now");
        assertEq(now__, root1, "root");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.PoolTooSmall.selector, task));
        rounds.start(task);
        join(SeatRole.SOLVER, "third", 1000);
        startRounds();
        assertEq(roundOf(2).base, root1, "from the root that stood");
        assertEq(roundOf(2).pool, 6, "the two that are there");
        playRound(2);
        playRound(3);
        windUp();
    }

    function test_halt_endsAfterTheLiveRound() public {
        begin(3, 6, 3);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotSubmitter.selector, submitter, stranger));
        vm.prank(stranger);
        rounds.halt(task);
        vm.prank(submitter);
        rounds.halt(task);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.TaskHalted.selector, task));
        vm.prank(submitter);
        rounds.halt(task);
        assertTrue(!rounds.isOver(task), "a round runs");
        playRound(0);
        assertTrue(rounds.isOver(task), "over");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.TaskHalted.selector, task));
        rounds.start(task);
        windUp();
    }
}
