// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {RoundWorld} from "./RoundWorld.sol";

/// @title A round closes with its last commitment, at trainMin, or at trainMax.
contract RoundStorageTest is RoundWorld {
    // Committing -------------------------------------------------------------------------------------------------
    /// @dev The last of all closes the round with its block; nothing counts behind it.
    function test_commit_all_closesInThatBlock() public {
        begin(3, 6, 3);
        uint256 opened = roundOf(0).opened;
        roll(opened + 5);
        commitAll(0);
        rounds.sync(task);
        assertEq(roundOf(0).closed, 0, "not written down in its own block");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NothingToSeal.selector, 0));
        rounds.sealAudits(task, 0, PROOF);
        pass(1);
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.RoundClosed(task, 0, opened + 5);
        rounds.sync(task);
        assertEq(roundOf(0).closed, opened + 5, "closed");
        (,, uint256 frozenTo,) = _line();
        assertEq(frozenTo, 3, "the pool after next");
    }

    function test_commit_twoThirds_closeAtTrainMin() public {
        begin(3, 6, 3);
        uint256 opened = roundOf(0).opened;
        commit(0, solverSeat(0));
        roll(opened + 40);
        commit(0, solverSeat(2));
        commit(0, solverSeat(1));
        assertEq(close(0), opened + 40, "the closing block takes commitments");
        playFrom(0);
        opened = roundOf(1).opened;
        commit(1, solverSeat(0));
        roll(opened + 41);
        commit(1, solverSeat(2));
        pass(1);
        address one = accountOf(solverSeat(1));
        (bytes32 base, bytes32 beacon) = (roundOf(1).base, rounds.beaconOf(task, 1));
        expectOutside(opened, opened + 41);
        vm.prank(one);
        rounds.commit(task, 1, base, beacon, "c", 4);
        assertEq(close(1), opened + 41, "in the block of the second");
    }

    function playFrom(uint256 round) private {
        sealAudits(round);
        acceptAll(round);
        postAll(round);
    }

    function test_commit_few_closeAtTrainMax() public {
        begin(3, 6, 3);
        uint256 opened = roundOf(0).opened;
        roll(opened + 80);
        commit(0, solverSeat(0));
        assertEq(close(0), opened + 80, "trainMax");
        assertEq(roundOf(0).committed, 1, "it took the last one");
    }
}
