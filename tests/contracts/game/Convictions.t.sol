// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameTerms, Phase, Proof, RoundView, SeatStatus} from "../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {ISettlement} from "../../../contracts/game/interfaces/ISettlement.sol";
import {Pots} from "../../../contracts/game/libraries/Pots.sol";
import {Vm} from "../Vm.sol";
import {GameWorld} from "./GameWorld.sol";
import {ContestsStub, ForwardStub, QuestionsStub} from "./Stubs.sol";

/// @title Stakes of liars, pay that is restored, and roots that fall.
contract ConvictionsTest is GameWorld {
    // Convictions ------------------------------------------------------------------------------------------------
    function test_modulesOnly() public {
        begin(3, 6, 3);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotModule.selector, address(this)));
        settlement.punish(task, solverSeat(0), stranger, Proof.DISPUTED, claimRef(0, 0));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotModule.selector, address(this)));
        settlement.fall(task, 0, stranger);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotModule.selector, address(this)));
        settlement.burnRest(task);
        bytes memory call =
            abi.encodeCall(ISettlement.punish, (task, solverSeat(0), stranger, Proof.ASKED, claimRef(0, 0)));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotModule.selector, contests));
        ForwardStub(contests).forward(address(settlement), call);
        commitAll(0);
        ForwardStub(asks).forward(address(settlement), call);
        assertEq(uint256(tasks.seatAt(task, solverSeat(0)).status), uint256(SeatStatus.CLOSED), "by asks");
        call = abi.encodeCall(
            ISettlement.punish, (task, solverSeat(1), stranger, Proof.DISPUTED, claimRef(0, 1))
        );
        ForwardStub(disputes).forward(address(settlement), call);
        assertEq(uint256(tasks.seatAt(task, solverSeat(1)).status), uint256(SeatStatus.CLOSED), "by disputes");
    }

    /// @dev Of 1,000: finder 120, the cap; submitter 250; 630 are burned. The accepted claim is convicted: its pay stays the submitter's. A claim of
    /// another round that was accepted before earns nothing either: it is burned.
    function test_punish_claim_splitsTheStake() public {
        begin(3, 6, 3);
        playRound(0);
        playRound(1);
        vm.expectEmit(true, true, true, true, address(settlement));
        emit ISettlement.StatementConvicted(task, solverSeat(0), Proof.DELTA_LEAF, claimRef(1, 0), stranger);
        punish(solverSeat(0), Proof.DELTA_LEAF, claimRef(1, 0));
        assertEq(purse.creditOf(stranger), 120, "finder");
        assertEq(purse.creditOf(submitter), 250, "submitter");
        assertEq(purse.burnPending(), 630, "burned");
        assertEq(rounds.fatesOf(task, 1).convicted, 1, "the claim");
        assertEq(rounds.fatesOf(task, 1).accepted, 6, "not accepted any more");
        assertEq(rounds.fatesOf(task, 0).accepted, 7, "that of round 0 still is");
        haltTask();
        commit(2, solverSeat(1));
        commit(2, solverSeat(2));
        roll(roundOf(2).opened + 40);
        close(2);
        roll(roundOf(2).closed + 10);
        rounds.stand(task, 2);
        passDuties();
        settleAll(2);
        assertEq(creditOf(solverSeat(0)), 0, "nothing");
        assertEq(purse.burnPending(), 630 + 100 + 200, "round 0's pay; round 2 was not drawn");
        windUp();
    }

    /// @dev Undecided claims of a convicted seat are void, their pay burned; auditors of it are paid.
    function test_punish_undecided_isVoid() public {
        begin(3, 6, 3);
        playToDraw(0);
        vote_(0, 0, 0, 0, ACCEPT, true);
        punish(solverSeat(0), Proof.BOUNDARY_ZERO, claimRef(0, 0));
        punish(verifierSeat(5), Proof.ASKED, voteRef(0, 1, 0, 0));
        assertEq(rounds.fatesOf(task, 0).open, 6, "slot 0 is void");
        acceptAll(0);
        assertEq(rounds.fatesOf(task, 0).accepted & 1, 0, "nor accepted by later votes");
        roll(roundOf(0).closed + 30);
        postAllBut(0);
        passDuties();
        settleAll(0);
        assertEq(creditOf(verifierSeat(5)), 0, "convicted");
        windUp();
    }

    function postAllBut(uint256 round) private {
        uint64 merged = rounds.fatesOf(task, round).mergeable;
        if (merged == 0) {
            roll(roundOf(round).closed + 36);
            rounds.stand(task, round);
        } else {
            post(round, merged, rootAfter(round), 6);
        }
    }

    /// @dev Nobody commits.
    function passRound(uint256 round) private {
        roll(roundOf(round).opened + 81);
        rounds.stand(task, round);
    }

    /// @dev A small stake: the finder gets a quarter of it, not the cap.
    function test_punish_auditor_splitsTheStake() public {
        begin(3, 6, 3);
        playRound(0);
        uint256 seat = drawnSeat(0, 0, 0, 0);
        GameTerms memory t = terms;
        assertEq(t.amounts.finderCap, 120, "cap");
        punish(seat, Proof.TWO_STATEMENTS, voteRef(0, 0, 0, 0));
        assertEq(purse.creditOf(stranger), 120, "120 of 150");
        assertEq(purse.creditOf(submitter), 150, "a quarter");
        assertEq(purse.burnPending(), 330, "the rest: its vote was no REJECT");
        punish(seat, Proof.TWO_STATEMENTS, voteRef(0, 0, 0, 0));
        assertEq(purse.burnPending(), 330, "once");
        haltTask();
        passRound(1);
        passDuties();
        settleAll(1);
        assertEq(purse.burnPending(), 330 + 10 + 120, "its pay, and three fees");
        windUp();
    }

    /// @dev A false REJECT made a claim void: its solver gets the pay out of the slash, once.
    function test_punish_falseReject_restoresThePay() public {
        begin(3, 6, 3);
        playToDraw(0);
        vote_(0, 0, 0, 0, REJECT_STATE, false);
        uint256 before = vm.snapshotState();
        uint256 first = drawnSeat(0, 0, 0, 0);
        punish(first, Proof.ASKED, voteRef(0, 0, 0, 0));
        assertEq(creditOf(solverSeat(0)), 0, "the claim is not void");
        vm.revertToState(before);
        vote_(0, 0, 0, 1, REJECT_DELTA, true);
        vm.expectEmit(true, true, true, true, address(settlement));
        emit ISettlement.PayRestored(task, 0, 0, accountOf(solverSeat(0)), 100);
        punish(first, Proof.ASKED, voteRef(0, 0, 0, 0));
        assertEq(creditOf(solverSeat(0)), 100, "restored");
        assertEq(purse.burnPending(), 330, "the pay less of the slash, and as much of the escrow");
        punish(drawnSeat(0, 0, 0, 1), Proof.FALSE_WORD, voteRef(0, 0, 0, 1));
        assertEq(creditOf(solverSeat(0)), 100, "once");
        assertEq(purse.burnPending(), 330 + 330, "the second pays for nothing");
        roll(roundOf(0).closed + 61);
        rounds.stand(task, 0);
        haltTask();
        windUpLive(1);
    }

    function windUpLive(uint256 round) private {
        (, uint256 live,,,,,) = lineNow();
        if (live != 0) passRound(round);
        windUp();
    }

    /// @dev Nobody is paid where the signer was not drawn, for an ABSTAIN, for a late vote that was not drawn, or where the solver is convicted.
    function test_punish_noFalseReject_restoresNothing() public {
        begin(3, 6, 3);
        playToDraw(0);
        vote_(0, 0, 0, 0, REJECT_STATE, false);
        vote_(0, 0, 0, 1, ABSTAIN, false);
        uint256 before = vm.snapshotState();
        punish(drawnSeat(0, 0, 0, 1), Proof.DISPUTED, voteRef(0, 0, 0, 1));
        assertEq(creditOf(solverSeat(0)), 0, "ABSTAIN");
        vm.revertToState(before);
        punish(drawnSeat(0, 0, 0, 1), Proof.DISPUTED, voteRef(0, 0, 0, 0));
        assertEq(creditOf(solverSeat(0)), 0, "another's vote");
        vm.revertToState(before);
        punish(drawnSeat(0, 0, 0, 0), Proof.DISPUTED, voteRef(0, 0, 2, 0));
        assertEq(creditOf(solverSeat(0)), 0, "no late draw");
        vm.revertToState(before);
        punish(drawnSeat(0, 0, 0, 0), Proof.DISPUTED, voteRef(0, 0, 256, 0));
        assertEq(creditOf(solverSeat(0)), 0, "no such draw");
        vm.revertToState(before);
        punish(drawnSeat(0, 0, 0, 0), Proof.DISPUTED, voteRef(0, 9, 0, 0));
        assertEq(creditOf(solverSeat(0)), 0, "no such claim");
        vm.revertToState(before);
        punish(solverSeat(0), Proof.DISPUTED, claimRef(0, 0));
        punish(drawnSeat(0, 0, 0, 0), Proof.DISPUTED, voteRef(0, 0, 0, 0));
        assertEq(creditOf(solverSeat(0)), 0, "convicted itself");
        vm.revertToState(before);
        punish(drawnSeat(0, 0, 0, 0), Proof.DISPUTED, voteRef(0, 0, 0, 0));
        assertEq(creditOf(solverSeat(0)), 100, "this one is");
    }

    /// @dev Two late REJECTs took the pay: the first that is convicted pays it, the second not again. One beside an ABSTAIN took nothing.
    function test_punish_falseLateReject_restoresThePay() public {
        GameTerms memory wanted = soundTerms();
        wanted.lateChance = 65_536;
        begin(wanted, 3, 6, 3);
        playRound(0);
        playToDraw(1);
        vote_(0, 0, 2, 0, REJECT_STATE, false);
        vote_(0, 1, 2, 0, REJECT_STATE, false);
        vote_(0, 1, 2, 1, ABSTAIN, false);
        uint256 before = vm.snapshotState();
        vote_(0, 0, 2, 1, REJECT_STATE, false);
        punish(drawnSeat(0, 0, 2, 0), Proof.DISPUTED, voteRef(0, 0, 2, 0));
        assertEq(creditOf(solverSeat(0)), 100, "at once");
        punish(drawnSeat(0, 0, 2, 1), Proof.DISPUTED, voteRef(0, 0, 2, 1));
        assertEq(creditOf(solverSeat(0)), 100, "once");
        vm.revertToState(before);
        punish(drawnSeat(0, 0, 2, 0), Proof.DISPUTED, voteRef(0, 0, 2, 0));
        assertEq(creditOf(solverSeat(0)), 0, "undecided: nothing is lost");
        vm.revertToState(before);
        punish(drawnSeat(0, 1, 2, 0), Proof.DISPUTED, voteRef(0, 1, 2, 0));
        assertEq(creditOf(solverSeat(1)), 0, "an ABSTAIN takes nothing");
    }

    /// @dev A convicted solver that is paid out stays convicted, also as the last holder of its number.
    function test_punish_falseRejectOfAPaidOutConvict_paysNobody() public {
        begin(3, 6, 3);
        playToDraw(0);
        vote_(0, 0, 0, 0, REJECT_STATE, false);
        vote_(0, 0, 0, 1, REJECT_STATE, false);
        uint256 auditor = drawnSeat(0, 0, 0, 0);
        QuestionsStub(disputes).open(task, auditor, 0);
        punish(solverSeat(0), Proof.WRONG_MERGE, claimRef(0, 1));
        roll(roundOf(0).closed + 61);
        rounds.stand(task, 0);
        haltTask();
        (, uint256 live,,,,,) = lineNow();
        if (live != 0) passRound(1);
        passDuties();
        uint256 last = rounds.nextRound(task) - 1;
        settleOne(solverSeat(0), last);
        settleOne(solverSeat(1), last);
        address convict = accountOf(solverSeat(0));
        address honest = accountOf(solverSeat(1));
        tasks.payOut(task, solverSeat(0));
        tasks.payOut(task, solverSeat(1));
        uint256 credit = purse.creditOf(honest);
        punish(auditor, Proof.DISPUTED, voteRef(0, 0, 0, 0));
        assertEq(purse.creditOf(convict), 0, "not paid");
        assertEq(purse.creditOf(honest), credit, "nor anybody");
        QuestionsStub(disputes).end(task, auditor, 0);
        windUp();
    }

    function test_punish_falseRejectOfAPaidOutSeat_isPaid() public {
        begin(3, 6, 3);
        playToDraw(0);
        vote_(0, 0, 0, 0, REJECT_STATE, false);
        vote_(0, 0, 0, 1, REJECT_STATE, false);
        uint256 auditor = drawnSeat(0, 0, 0, 0);
        QuestionsStub(disputes).open(task, auditor, 0);
        roll(roundOf(0).closed + 61);
        rounds.stand(task, 0);
        haltTask();
        passRound(1);
        passDuties();
        settleOne(solverSeat(0), 1);
        address honest = accountOf(solverSeat(0));
        tasks.payOut(task, solverSeat(0));
        punish(auditor, Proof.DISPUTED, voteRef(0, 0, 0, 0));
        assertEq(purse.creditOf(honest), 1060, "stake less a fee, and the pay");
        QuestionsStub(disputes).end(task, auditor, 0);
        windUp();
    }

    // Falls ------------------------------------------------------------------------------------------------------
    /// @dev Round 0 falls after rounds 1 and 2 were posted. Seats 0 and 1 signed round 0, seat 2 did not. Owed is what seat 2's accepted claims in rounds
    /// 1 and 2 earn: 200. Held are 200 of 2,000 - 120 - 500. The convicted seats' claims get nothing, whoever settles first.
    function test_fall_laterRounds_areUndoneAndMadeGood() public {
        begin(3, 6, 3);
        playToDraw(0);
        acceptAll(0);
        post(0, 7, rootAfter(0), 3);
        assertEq(roundOf(0).signers, 3, "signers");
        playRound(1);
        playRound(2);
        ContestsStub(contests).open(task, 0);
        vm.expectEmit(true, true, true, true, address(settlement));
        emit ISettlement.RestitutionHeld(task, 0, 1, 3, 200, 200);
        fall(0);
        ContestsStub(contests).end(task, 0);
        assertEq(purse.creditOf(stranger), 120, "finder");
        assertEq(purse.creditOf(submitter), 500, "a quarter");
        assertEq(purse.potOf(Pots.restitution(task, 0)), 200, "held");
        assertEq(purse.burnPending(), 1180, "burned");
        assertEq(uint256(roundOf(0).phase), uint256(Phase.FALLEN), "fallen");
        for (uint256 round = 1; round < 4; ++round) {
            assertEq(uint256(roundOf(round).phase), uint256(Phase.UNDONE), "undone");
        }
        assertEq(roundOf(3).closed, now_(), "the live round closed");
        (uint256 next, uint256 live, uint256 frozenTo,,,, bytes32 root) = lineNow();
        assertEq(next, 4, "next");
        assertEq(live, 1, "round 0 waits");
        assertEq(frozenTo, 4, "pools are dropped");
        assertEq(root, roundOf(0).base, "its base");
        uint256 fallen = now_();
        expectNoPost(fallen);
        roll(fallen + 6);
        rounds.stand(task, 0);
        passDuties();
        settleOne(solverSeat(0), 3);
        settleOne(solverSeat(1), 3);
        settleOne(solverSeat(2), 3);
        assertEq(creditOf(solverSeat(2)), 300, "round 0, and 200 held");
        assertEq(purse.potOf(Pots.restitution(task, 0)), 0, "all taken");
        assertEq(purse.burnPending(), 1180 + 200 + 200, "the convicted seats' pay of round 0, and what was made good");
        settleAll(3);
        for (uint256 i = 0; i < 6; ++i) {
            assertEq(creditOf(verifierSeat(i)), 30, "votes opened before the fall");
        }
        windUp();
    }

    /// @dev A majority is two of the one seat that is left: its own.
    function expectNoPost(uint256 fallen) private {
        bytes memory signatures = signMerge(0, 7, "r", 3);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NoMajority.selector, 4, 0));
        rounds.post(task, 0, 7, "r", 3, signatures);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotLate.selector, fallen + 5, fallen));
        rounds.stand(task, 0);
    }

    /// @dev All of the slash that was not shared out is burned in the end, whoever takes restitution: 1,380 of 2,000 beside the convicted seats' pay.
    function test_fall_amongFriends_burnsHalfOfTheStakes() public {
        begin(3, 6, 3);
        playToDraw(0);
        acceptAll(0);
        post(0, 7, rootAfter(0), 3);
        playRound(1);
        playRound(2);
        fall(0);
        roll(now_() + 6);
        rounds.stand(task, 0);
        passDuties();
        settleAll(3);
        uint256 payOfTheConvicted = 200;
        assertEq(purse.burnPending() - payOfTheConvicted, 2000 - 120 - 500, "more than half");
        windUp();
    }

    /// @dev A late REJECT took the pay, its slash paid it; the round is undone afterwards and owes it nothing.
    function test_fall_restoredClaim_isNotMadeGoodAgain() public {
        GameTerms memory wanted = soundTerms();
        wanted.lateChance = 65_536;
        begin(wanted, 3, 6, 3);
        playToDraw(0);
        acceptAll(0);
        post(0, 7, rootAfter(0), 3);
        playRound(1);
        playToDraw(2);
        vote_(1, 2, 2, 0, REJECT_STATE, false);
        vote_(1, 2, 2, 1, REJECT_STATE, false);
        uint256 escrow = purse.potOf(Pots.escrow(task));
        punish(drawnSeat(1, 2, 2, 0), Proof.DISPUTED, voteRef(1, 2, 2, 0));
        assertEq(creditOf(solverSeat(2)), 100, "out of the slash");
        assertEq(purse.potOf(Pots.escrow(task)), escrow - 100, "its own pay is burned");
        assertEq(votes.endsOf(task, 1, 1)[0].restored, 4, "marked");
        vm.expectEmit(true, true, true, true, address(settlement));
        emit ISettlement.RestitutionHeld(task, 0, 1, 2, 0, 0);
        fall(0);
        roll(now_() + 6);
        rounds.stand(task, 0);
        passDuties();
        settleAll(2);
        assertEq(creditOf(solverSeat(2)), 200, "and round 0");
        windUp();
    }

    /// @dev In an undone round settlement burns nothing of a void claim: what a slash then pays, the escrow loses at once. In one that stands settlement
    /// has burned it.
    function test_punish_afterSettlement_burnsThePayOnce() public {
        begin(3, 6, 3);
        playToDraw(0);
        acceptAll(0);
        post(0, 7, rootAfter(0), 3);
        playToDraw(1);
        vote_(1, 2, 0, 0, REJECT_STATE, false);
        vote_(1, 2, 0, 1, REJECT_STATE, false);
        uint256 auditor = drawnSeat(1, 2, 0, 0);
        QuestionsStub(disputes).open(task, auditor, 1);
        uint256 before = vm.snapshotState();
        fall(0);
        roll(now_() + 6);
        rounds.stand(task, 0);
        _punishAfterSettlement(auditor, 100, "undone: it was still there");
        vm.revertToState(before);
        roll(roundOf(1).closed + 61);
        rounds.stand(task, 1);
        haltTask();
        (, uint256 live,,,,,) = lineNow();
        if (live != 0) passRound(2);
        _punishAfterSettlement(auditor, 0, "burned already");
    }

    function _punishAfterSettlement(uint256 auditor, uint256 burnedWei, string memory why) private {
        passDuties();
        settleOne(solverSeat(2), rounds.nextRound(task) - 1);
        uint256 escrow = purse.potOf(Pots.escrow(task));
        uint256 credit = creditOf(solverSeat(2));
        punish(auditor, Proof.DISPUTED, voteRef(1, 2, 0, 0));
        assertEq(creditOf(solverSeat(2)), credit + 100, "paid");
        assertEq(purse.potOf(Pots.escrow(task)), escrow - burnedWei, why);
        QuestionsStub(disputes).end(task, auditor, 1);
        windUp();
    }

    /// @dev Two UNSERVED in one draw took the pay; a false REJECT in the other took none.
    function test_punish_falseRejectOfAnUnservedClaim_restoresNothing() public {
        begin(3, 6, 3);
        playToDraw(0);
        vote_(0, 0, 0, 0, REJECT_STATE, false);
        vote_(0, 0, 0, 1, REJECT_STATE, false);
        vote_(0, 0, 1, 0, UNSERVED, false);
        vote_(0, 0, 1, 1, UNSERVED, false);
        punish(drawnSeat(0, 0, 0, 0), Proof.DISPUTED, voteRef(0, 0, 0, 0));
        assertEq(creditOf(solverSeat(0)), 0, "nothing was lost");
        assertEq(votes.endsOf(task, 0, 0)[0].restored, 0, "not marked");
    }

    /// @dev The stake of one signer, 300, does not reach: of 300 held are 150 of 200, and a share is rounded down.
    function test_fall_smallSlash_paysShares() public {
        GameTerms memory wanted = soundTerms();
        (wanted.amounts.solverStake, wanted.amounts.finderCap, wanted.draws) = (101, 120, 1);
        begin(wanted, 3, 6, 3);
        playToDraw(0);
        acceptAll(0);
        post(0, 7, rootAfter(0), 3);
        commit(1, solverSeat(0));
        commit(1, solverSeat(1));
        commitShort(1, solverSeat(2), 3);
        sealAudits(1);
        acceptAll(1);
        postAll(1);
        playRound(2);
        fall(0);
        // 202: finder 50, submitter 50, rest 102. Owed 100 + 100: the short claim counts as a whole one.
        assertEq(purse.potOf(Pots.restitution(task, 0)), 102, "held");
        assertEq(purse.burnPending(), 0, "nothing to burn");
        roll(now_() + 6);
        rounds.stand(task, 0);
        passDuties();
        settleAll(3);
        // 75 * 102 / 200 = 38, 100 * 102 / 200 = 51.
        assertEq(creditOf(solverSeat(2)), 100 + 38 + 51, "round 0 and the shares");
        assertEq(purse.potOf(Pots.restitution(task, 0)), 13, "the short claim's rest");
        windUp();
    }

    function _countHalts() private returns (uint256 count) {
        Vm.Entry[] memory entries = vm.getRecordedLogs();
        for (uint256 i = 0; i < entries.length; ++i) {
            if (entries[i].topics[0] == IRounds.TaskHalted.selector) ++count;
        }
    }

    /// @dev Settling and closing look at each fall: there may not be any number of them.
    function test_fall_eighth_haltsTheTask() public {
        begin(3, 6, 3);
        playRound(0);
        for (uint256 falls = 0; falls < 8; ++falls) {
            (IRounds.Line memory line,) = rounds.lineOf(task);
            assertTrue(!line.isHalted, "not yet");
            vm.recordLogs();
            fall(0);
            assertEq(_countHalts(), falls == 7 ? 1 : 0, "told once, by the eighth");
        }
        (IRounds.Line memory last,) = rounds.lineOf(task);
        assertTrue(last.isHalted, "halted");
        fall(0);
        roll(now_() + 6);
        rounds.stand(task, 0);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.TaskHalted.selector, task));
        rounds.start(task);
        passDuties();
        windUp();
    }

    /// @dev Posted again, it falls again; the second fall finds the later rounds undone and owes nothing.
    function test_fall_again_owesNothingTwice() public {
        begin(3, 6, 3);
        playToDraw(0);
        acceptAll(0);
        post(0, 7, rootAfter(0), 3);
        playRound(1);
        fall(0);
        uint256 fallen = now_();
        roll(fallen + 5);
        post(0, 6, rootAfter(50), 4);
        RoundView memory view_ = roundOf(0);
        assertEq(view_.root, rootAfter(50), "the new root");
        assertEq(view_.rootUntil, fallen + 205, "contests from here");
        assertEq(view_.merged, 6, "merged");
        assertEq(view_.signers, 4, "signers");
        (, uint256 live,,,,, bytes32 root) = lineNow();
        assertEq(live, 0, "no pool is frozen");
        assertEq(root, rootAfter(50), "root");
        uint256 held = purse.potOf(Pots.restitution(task, 0));
        assertEq(held, 100, "of round 1");
        vm.expectEmit(true, true, true, true, address(settlement));
        emit ISettlement.RestitutionHeld(task, 1, 1, 2, 0, 0);
        fall(0);
        assertEq(purse.potOf(Pots.restitution(task, 1)), 0, "nothing");
        roll(now_() + 6);
        rounds.stand(task, 0);
        passDuties();
        settleAll(2);
        windUp();
    }

    /// @dev A claim that was not accepted gets nothing of what is held for another one, though it settles first.
    function test_fall_claimThatWasRejected_isNotMadeGood() public {
        GameTerms memory wanted = soundTerms();
        wanted.solverSeats = 5;
        begin(wanted, 5, 6, 3);
        playToDraw(0);
        acceptAll(0);
        post(0, 31, rootAfter(0), 7);
        playToDraw(1);
        vote_(1, 3, 0, 0, REJECT_STATE, false);
        vote_(1, 3, 0, 1, REJECT_STATE, false);
        voteAll(1, 4, 0, ACCEPT);
        fall(0);
        assertEq(purse.potOf(Pots.restitution(task, 0)), 100, "for the claim in slot 4");
        roll(now_() + 6);
        rounds.stand(task, 0);
        passDuties();
        settleOne(solverSeat(3), 1);
        assertEq(creditOf(solverSeat(3)), 100, "round 0 alone");
        settleOne(solverSeat(4), 1);
        assertEq(creditOf(solverSeat(4)), 200, "round 0, and what was held");
    }

    /// @dev The newest root falls: no round is undone.
    function test_fall_lastRound_undoesNothing() public {
        begin(3, 6, 3);
        haltTask();
        playRound(0);
        vm.expectEmit(true, true, true, true, address(settlement));
        emit ISettlement.RestitutionHeld(task, 0, 1, 0, 0, 0);
        fall(0);
        roll(now_() + 6);
        rounds.stand(task, 0);
        windUp();
    }

    // Edges ------------------------------------------------------------------------------------------------------
    /// @dev A submitter that owes nothing more gets nothing of a slash.
    function test_punish_emptyEscrow_refundsNothing() public {
        GameTerms memory wanted = soundTerms();
        (wanted.amounts.solverPay, wanted.amounts.auditPay) = (0, 0);
        begin(wanted, 3, 6, 3);
        commitAll(0);
        punish(solverSeat(0), Proof.DELTA_LEAF, claimRef(0, 0));
        assertEq(purse.creditOf(submitter), 0, "submitter");
        assertEq(purse.creditOf(stranger), 120, "finder");
        assertEq(purse.burnPending(), 880, "the rest");
    }

    /// @dev In an undone round auditors keep pay and fees, solvers have neither.
    function test_fall_unservedInUndoneRound_auditorsPay() public {
        begin(3, 6, 3);
        playToDraw(0);
        acceptAll(0);
        post(0, 7, rootAfter(0), 3);
        playToDraw(1);
        vote_(1, 2, 0, 0, UNSERVED, false);
        vote_(1, 2, 0, 1, UNSERVED, false);
        vote_(1, 0, 0, 0, ACCEPT, true);
        uint256 reserve = drawnSeat(1, 2, 0, 1);
        uint256 paid = drawnSeat(1, 0, 0, 0);
        fall(0);
        roll(now_() + 6);
        rounds.stand(task, 0);
        passDuties();
        settleAll(1);
        assertEq(stakeOf(solverSeat(2)), 1000, "no fee");
        assertEq(creditOf(solverSeat(2)), 100, "round 0");
        assertEq(stakeOf(reserve), 510, "fee");
        assertEq(creditOf(paid), 20, "both rounds");
        windUp();
    }

    /// @dev Round 1 falls and undoes round 2; then round 0 falls: it owes for round 1 alone. Its signers have nothing left.
    function test_fall_earlierRound_owesWhatIsNotUndoneYet() public {
        begin(4, 8, 3);
        for (uint256 round = 0; round < 2; ++round) {
            playToDraw(round);
            acceptAll(round);
            post(round, 15, rootAfter(round), 7);
        }
        playRound(2);
        vm.expectEmit(true, true, true, true, address(settlement));
        emit ISettlement.RestitutionHeld(task, 0, 2, 3, 100, 100);
        fall(1);
        vm.expectEmit(true, true, true, true, address(settlement));
        emit ISettlement.RestitutionHeld(task, 1, 1, 3, 100, 0);
        fall(0);
        roll(now_() + 6);
        rounds.stand(task, 0);
        passDuties();
        settleAll(3);
        assertEq(creditOf(solverSeat(3)), 200, "round 0, and what is held for round 2");
        windUp();
    }

    /// @dev Numbers are no slots: seats 1, 2 and 3 sit in slots 0, 1 and 2.
    function test_fall_slotsAreNotNumbers() public {
        GameTerms memory wanted = soundTerms();
        wanted.draws = 1;
        postTask(wanted);
        joinAll(4, 6, 3);
        asSeat(solverSeat(0));
        tasks.leave(task, solverSeat(0));
        startRounds();
        playToDraw(0);
        acceptAll(0);
        post(0, 7, rootAfter(0), 6);
        commitShort(1, solverSeat(1), 1);
        commit(1, solverSeat(2));
        commitShort(1, solverSeat(3), 3);
        sealAudits(1);
        acceptAll(1);
        vm.expectEmit(true, true, true, true, address(settlement));
        emit ISettlement.RestitutionHeld(task, 0, 1, 1, 100, 100);
        fall(0);
        roll(now_() + 6);
        rounds.stand(task, 0);
        passDuties();
        settleAll(1);
        assertEq(creditOf(solverSeat(3)), 175, "round 0 and three quarters");
        windUp();
    }
}
