// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Proof} from "../../../contracts/game/GameTypes.sol";
import {IDisputes} from "../../../contracts/game/interfaces/IDisputes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {DisputeWorld} from "./DisputeWorld.sol";

/// @title Whose turn it is, what silence does, and what the end of a dispute pays.
contract DisputeTurnsTest is DisputeWorld {
    // Silence ----------------------------------------------------------------------------------------------------
    /// @dev Who is silent at its turn loses, one block after its clock and no sooner.
    function test_end_silenceAtEachTurn() public {
        acceptAll(0);
        for (uint256 asVote = 0; asVote < 2; ++asVote) {
            if (asVote == 1) _takeVote(REJECT_DELTA);
            for (uint256 turns = 0; turns < 6; ++turns) {
                uint256 clean = vm.snapshotState();
                bytes32 id = _playTurns(turns);
                roll(_clockOf(id));
                _expect(_error(IRefusals.NotLate.selector, now_(), now_()));
                _end(id);
                pass(1);
                _end(id);
                if (turns % 2 == 0) _requireConvicted(id);
                else _requireCleared(id);
                vm.revertToState(clean);
            }
        }
    }

    /// @dev Each move in the last block that takes it: no dispute lasts longer than six answers.
    function _playTurns(uint256 turns) private returns (bytes32 id) {
        id = _open();
        uint256 opened = now_();
        for (uint256 turn = 0; turn < turns; ++turn) {
            assertEq(_clockOf(id), opened + (turn + 1) * RESPOND, "a turn");
            roll(_clockOf(id));
            if (turn == 0) _post(id);
            if (turn == 1) _name(id, STEP);
            if (turn == 2) _trace(id);
            if (turn == 3) _demand(id, 8);
            if (turn == 4) _show(id, 0, 8);
        }
        assertTrue(_clockOf(id) <= opened + 6 * RESPOND, "six turns at most");
    }

    function test_moves_late_areRefused() public {
        acceptAll(0);
        for (uint256 turns = 0; turns < 5; ++turns) {
            uint256 clean = vm.snapshotState();
            bytes32 id = _playTurns(turns);
            roll(_clockOf(id) + 1);
            _expect(abi.encodeWithSelector(IRefusals.OutsideWindow.selector, 0, now_() - 1, now_()));
            if (turns == 0) _post(id);
            if (turns == 1) _name(id, STEP);
            if (turns == 2) _trace(id);
            if (turns == 3) _demand(id, 8);
            if (turns == 4) _show(id, 0, 8);
            vm.revertToState(clean);
        }
    }

    /// @dev The seat is convicted elsewhere: every move is refused, whoever opened gets its bond back at once.
    function test_end_seatClosed_isMoot() public {
        acceptAll(0);
        for (uint256 turns = 0; turns < 6; ++turns) {
            uint256 clean = vm.snapshotState();
            bytes32 id = _playTurns(turns);
            punish(ofSeat, Proof.DELTA_LEAF, claimRef(0, ofSlot));
            bytes memory closed = abi.encodeWithSelector(IRefusals.SeatClosed.selector, ofSeat);
            _expect(closed);
            if (turns == 0) _post(id);
            if (turns == 1) _name(id, STEP);
            if (turns == 2) _trace(id);
            if (turns == 3) _demand(id, 8);
            if (turns == 4) _show(id, 0, 8);
            if (turns == 5) _prove(id, 0);
            _expect(closed);
            _open2();
            _end(id);
            _requireStage(id, IDisputes.Stage.MOOT);
            assertEq(purse.creditOf(opener), 1000, "the bond is returned");
            assertEq(game.openOn(task, ofSeat), 0, "nothing is open");
            vm.revertToState(clean);
        }
    }

    /// @dev After all that, everybody is paid and nothing is left.
    function test_disputes_thenWindUp() public {
        acceptAll(0);
        bytes32 first = _playTurns(5);
        roll(_clockOf(first) + 1);
        _end(first);
        vm.prank(submitter);
        rounds.halt(task);
        rounds.stand(task, 0);
        _takeVote(ACCEPT);
        bytes32 second = _open2();
        pass(RESPOND + 1);
        _end(second);
        windUp();
    }
}
