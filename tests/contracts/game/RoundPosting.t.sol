// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Phase, RoundView} from "../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {RoundWorld} from "./RoundWorld.sol";

/// @title Roots are posted, stand or fall, window by window.
contract RoundPostingTest is RoundWorld {
    // Posting ----------------------------------------------------------------------------------------------------
    function test_post_refusals() public {
        begin(3, 6, 3);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotNewest.selector, 0));
        rounds.post(task, 0, 7, "root", 7, "");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotNewest.selector, 0));
        rounds.stand(task, 0);
        playToDraw(0);
        uint256 closed = roundOf(0).closed;
        expectOutside(closed + 30, closed + 35);
        rounds.post(task, 0, 7, "root", 7, "");
    }

    /// @dev A round that has its root gets no second one, and does not stand, however long ago it was.
    function test_post_twice_reverts() public {
        begin(3, 6, 3);
        playRound(0);
        uint64 merged = roundOf(0).merged;
        bytes memory signatures = signMerge(0, merged, "other root", 7);
        roll(now_() + 100);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotNewest.selector, 0));
        rounds.post(task, 0, merged, "other root", 7, signatures);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotNewest.selector, 0));
        rounds.stand(task, 0);
        assertEq(uint256(roundOf(0).phase), uint256(Phase.POSTED), "its root stays");
    }

    /// @dev A seat commits to the root of another one. Signatures are of slots: that of the copy is not what was signed.
    function test_post_slotOfACopiedRoot_reverts() public {
        begin(3, 6, 3);
        commit(0, solverSeat(0));
        commit(0, solverSeat(1));
        bytes32 root = claimRoot(0, solverSeat(1));
        (bytes32 base, bytes32 beacon) = (roundOf(0).base, rounds.beaconOf(task, 0));
        asSeat(solverSeat(2));
        rounds.commit(task, 0, base, beacon, root, segmentsOf(0, solverSeat(1)));
        sealAudits(0);
        voteAll(0, 0, 0, ACCEPT);
        voteAll(0, 1, 0, ACCEPT);
        for (uint256 draw = 0; draw < terms.draws; ++draw) {
            vote_(0, 2, draw, 0, ACCEPT, false);
        }
        bytes memory signatures = signMerge(0, 2, "root", 7);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NoMajority.selector, 7, 0));
        rounds.post(task, 0, 4, "root", 7, signatures);
        rounds.post(task, 0, 2, "root", 7, signatures);
        assertEq(roundOf(0).merged, 2, "the slot that was signed");
    }

    function test_post_window_edges() public {
        begin(3, 6, 3);
        playToDraw(0);
        uint256 closed = roundOf(0).closed;
        voteAll(0, 0, 0, ACCEPT);
        voteAll(0, 1, 0, ACCEPT);
        bytes memory signatures = signMerge(0, 3, "root", 7);
        roll(closed + 29);
        expectOutside(closed + 30, closed + 35);
        rounds.post(task, 0, 3, "root", 7, signatures);
        roll(closed + 30);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotMergeable.selector, 3, 0));
        rounds.post(task, 0, 0, "root", 7, signatures);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotMergeable.selector, 3, 4));
        rounds.post(task, 0, 4, "root", 7, signatures);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotMergeable.selector, 3, 7));
        rounds.post(task, 0, 7, "root", 7, signatures);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NoMajority.selector, 7, 0));
        rounds.post(task, 0, 1, "root", 7, signatures);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotNewest.selector, 1));
        rounds.post(task, 1, 3, "root", 7, signatures);
        uint256 before = vm.snapshotState();
        roll(closed + 35);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotLate.selector, closed + 35, closed + 35));
        rounds.stand(task, 0);
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.RootPosted(task, 0, "root", 3, 7);
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.RoundOpened(task, 1, "root");
        rounds.post(task, 0, 3, "root", 7, signatures);
        RoundView memory view_ = roundOf(0);
        assertEq(uint256(view_.phase), uint256(Phase.POSTED), "posted");
        assertEq(view_.root, "root", "root");
        assertEq(view_.merged, 3, "merged");
        assertEq(view_.signers, 7, "signers");
        assertEq(view_.rootUntil, closed + 200, "contests");
        assertEq(roundOf(1).base, "root", "the next starts from it");
        vm.revertToState(before);
        roll(closed + 36);
        expectOutside(closed, closed + 35);
        rounds.post(task, 0, 3, "root", 7, signatures);
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.RootStood(task, 0);
        rounds.stand(task, 0);
        assertEq(roundOf(0).root, 0, "no root of its own");
        assertEq(roundOf(1).base, roundOf(0).base, "the base stands");
    }

    /// @dev Once nothing is undecided nobody waits for auditMax.
    function test_post_allDecided_atOnce() public {
        begin(3, 6, 3);
        playToDraw(0);
        acceptAll(0);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotLate.selector, roundOf(0).closed + 35, now_()));
        rounds.stand(task, 0);
        postAll(0);
        assertEq(roundOf(1).opened, now_(), "the next opens");
    }

    /// @dev Nothing to merge: the base stands at once.
    function test_stand_nothingMergeable_atOnce() public {
        begin(3, 6, 3);
        haltTask();
        playToDraw(0);
        for (uint256 slot = 0; slot < 3; ++slot) {
            vote_(0, slot, 0, 0, ABSTAIN, false);
            vote_(0, slot, 0, 1, ABSTAIN, false);
        }
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.TaskStood(task);
        rounds.stand(task, 0);
        windUp();
    }

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
