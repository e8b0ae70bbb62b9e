// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../../contracts/Types.sol";
import {Phase, RoundView} from "../../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../../contracts/game/interfaces/IRefusals.sol";
import {IRounds} from "../../../../contracts/game/interfaces/IRounds.sol";
import {RoundViews} from "../../../../contracts/game/libraries/RoundViews.sol";
import {Test} from "../../Test.sol";

/// @dev Answers as `Rounds` does, by the task's and the round's number; round 9 does not exist.
contract RoundStub {
    function roundOf(TaskId task, uint256 round) external pure returns (RoundView memory view_) {
        if (round == 9) revert IRefusals.RoundUnknown(round);
        (view_.phase, view_.isSealed) = (Phase.POSTED, true);
        (view_.pool, view_.committed, view_.merged) = (1, 2, 3);
        (view_.signers, view_.lateSlots, view_.opened) = (4, 5, 6);
        (view_.closed, view_.lateFrom, view_.rootUntil) = (7, 8, round);
        (view_.verifiers, view_.whistleblowers) = (10, 11);
        (view_.base, view_.root, view_.seed, view_.lateSeed) = ("base", "root", "seed", TaskId.unwrap(task));
    }
}

/// @dev Says one word less than a round has.
contract ShortRoundStub {
    function roundOf(TaskId, uint256) external pure returns (uint256[16] memory words) {}
}

/// @title A round is read as the compiler's decoder would read it.
contract RoundViewsTest is Test {
    function load(IRounds rounds, uint256 round) external view returns (RoundView memory) {
        return RoundViews.load(rounds, TaskId.wrap("task"), round);
    }

    function test_load_round_hasEachField() public {
        RoundStub stub = new RoundStub();
        RoundView memory expected = stub.roundOf(TaskId.wrap("task"), 12);
        RoundView memory actual = RoundViews.load(IRounds(address(stub)), TaskId.wrap("task"), 12);
        // What is made later lies behind it, not in it.
        bytes memory behind = new bytes(1024);
        for (uint256 i = 0; i < behind.length; ++i) {
            behind[i] = 0xff;
        }
        assertEq(abi.encode(actual), abi.encode(expected), "all fields");
        assertEq(actual.lateSeed, "task", "of this task");
        assertEq(actual.rootUntil, 12, "of this round");
    }

    function test_load_unknownRound_revertsAsRounds() public {
        IRounds stub = IRounds(address(new RoundStub()));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.RoundUnknown.selector, 9));
        this.load(stub, 9);
    }

    function test_load_otherLength_isRefused() public {
        IRounds stub = IRounds(address(new ShortRoundStub()));
        vm.expectRevert(abi.encodeWithSelector(RoundViews.WrongRoundBytes.selector, 544, 512));
        this.load(stub, 0);
    }
}
