// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Proof, StatementRef} from "../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {Vm} from "../Vm.sol";
import {GameWorld} from "./GameWorld.sol";

/// @title What no play reaches: statements that no module would hand in, and as many falls as a task takes.
contract ConvictionsTest is GameWorld {
    /// @dev Nobody is paid for a late vote that was not drawn, for a draw or for a claim that there is not.
    function test_punish_noSuchStatement_restoresNothing() public {
        begin(3, 6, 3);
        playToDraw(0);
        vote_(0, 0, 0, 0, REJECT_STATE, false);
        vote_(0, 0, 0, 1, ABSTAIN, false);
        uint256 before = vm.snapshotState();
        StatementRef[3] memory none = [voteRef(0, 0, 2, 0), voteRef(0, 0, 256, 0), voteRef(0, 9, 0, 0)];
        for (uint256 i = 0; i < none.length; ++i) {
            punish(drawnSeat(0, 0, 0, 0), Proof.DISPUTED, none[i]);
            assertEq(creditOf(solverSeat(0)), 0, "nothing");
            vm.revertToState(before);
        }
        punish(drawnSeat(0, 0, 0, 0), Proof.DISPUTED, voteRef(0, 0, 0, 0));
        assertEq(creditOf(solverSeat(0)), 100, "this one is");
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
