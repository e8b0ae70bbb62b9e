// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Proof, SeatStatus} from "../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {ISettlement} from "../../../contracts/game/interfaces/ISettlement.sol";
import {Pots} from "../../../contracts/game/libraries/Pots.sol";
import {Vm} from "../Vm.sol";
import {GameWorld} from "./GameWorld.sol";
import {ForwardStub, QuestionsStub} from "./Stubs.sol";

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

    /// @dev Nobody commits.
    function passRound(uint256 round) private {
        roll(roundOf(round).opened + 81);
        rounds.stand(task, round);
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
}
