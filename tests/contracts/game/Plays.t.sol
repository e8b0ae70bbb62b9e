// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameTerms, RoundView} from "../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {IVotes} from "../../../contracts/game/interfaces/IVotes.sol";
import {Pots} from "../../../contracts/game/libraries/Pots.sol";
import {GameWorld} from "./GameWorld.sol";
import {ContestsStub} from "./Stubs.sol";

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
}
