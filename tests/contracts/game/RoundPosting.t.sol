// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Phase} from "../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {RoundWorld} from "./RoundWorld.sol";

/// @title Roots are posted, stand or fall, window by window.
contract RoundPostingTest is RoundWorld {
    // Falling ----------------------------------------------------------------------------------------------------
    function test_fall_postAgain_window() public {
        begin(3, 6, 3);
        playToDraw(0);
        acceptAll(0);
        post(0, 7, rootAfter(0), 3);
        uint256 before = vm.snapshotState();
        fall(0);
        uint256 fallen = now_();
        bytes memory signatures = signMerge(0, 1, "again", 4);
        roll(fallen + 6);
        expectOutside(fallen, fallen + 5);
        rounds.post(task, 0, 1, "again", 4, signatures);
        vm.revertToState(before);
        fall(0);
        signatures = signMerge(0, 1, "again", 4);
        rounds.post(task, 0, 1, "again", 4, signatures);
        assertEq(roundOf(0).root, "again", "root");
        assertEq(roundOf(0).rootUntil, fallen + 200, "from the new posting");
        assertEq(uint256(roundOf(1).phase), uint256(Phase.UNDONE), "still undone");
        assertEq(roundOf(1).root, 0, "without a root");
    }

    function test_modulesOnly() public {
        begin(3, 6, 3);
        bytes memory error_ = abi.encodeWithSelector(IRefusals.NotModule.selector, address(this));
        vm.expectRevert(error_);
        rounds.begin(task, "root");
        vm.expectRevert(error_);
        rounds.fall(task, 0, false);
    }
}
