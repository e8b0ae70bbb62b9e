// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {RoundWorld} from "./RoundWorld.sol";

/// @title Draws of audits and late audits, window by window.
contract RoundDrawsTest is RoundWorld {
    // Drawing ----------------------------------------------------------------------------------------------------
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
}
