// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {RoundWorld} from "./RoundWorld.sol";

/// @title Roots are posted, stand or fall, window by window.
contract RoundPostingTest is RoundWorld {
    // Falling ----------------------------------------------------------------------------------------------------
    function test_modulesOnly() public {
        begin(3, 6, 3);
        bytes memory error_ = abi.encodeWithSelector(IRefusals.NotModule.selector, address(this));
        vm.expectRevert(error_);
        rounds.begin(task, "root");
        vm.expectRevert(error_);
        rounds.fall(task, 0, false);
    }
}
