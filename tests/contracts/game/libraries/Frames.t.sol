// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Phase} from "../../../../contracts/game/GameTypes.sol";
import {Frame, Frames, Plan} from "../../../../contracts/game/libraries/Frames.sol";
import {Test} from "../../Test.sol";

contract FramesTest is Test {
    using Frames for Frame;

    uint256 private constant SEAL_BLOCKS = 200;

    function _plan() private pure returns (Plan memory plan) {
        (plan.delay, plan.drawGrid, plan.trainMin, plan.trainMax) = (1, 8, 40, 80);
        (plan.auditMax, plan.post, plan.dispute, plan.ask) = (30, 6, 200, 720);
    }

    function _frame() private pure returns (Frame memory f) {
        (f.opened, f.trained) = (1003, 1);
    }

    function test_flags_keepApart() public pure {
        Frame memory f;
        f.flags = Frames.EXCUSED | Frames.SYNCED;
        f.setPhase(Phase.UNDONE);
        assertEq(uint256(f.phaseOf()), uint256(Phase.UNDONE), "phase");
        f.setPhase(Phase.RUNNING);
        assertEq(uint256(f.phaseOf()), uint256(Phase.RUNNING), "another");
        assertTrue(f.has(Frames.EXCUSED) && f.has(Frames.SYNCED) && !f.has(Frames.SEALED), "flags stay");
        assertTrue(f.isClosed(), "closed");
        f.flags = Frames.EXCUSED | Frames.SEALED | 1;
        assertTrue(!f.isClosed(), "not closed");
    }

    function test_offsets_goThereAndBack() public pure {
        Frame memory f = _frame();
        assertEq(f.offsetOf(1003), 1, "the first block");
        assertEq(f.offsetOf(1083), 81, "eighty on");
        assertEq(f.at(1), 1003, "back");
        assertEq(f.at(81), 1083, "back again");
    }

    function test_closingBlock_untilTwoThirds_isTrainMax() public pure {
        Frame memory f = _frame();
        assertEq(f.closingBlock(_plan(), SEAL_BLOCKS), 1083, "from OPEN");
        f.trained = 11;
        assertEq(f.closingBlock(_plan(), SEAL_BLOCKS), 1093, "from when shards are known");
    }

    function test_closingBlock_twoThirds_waitForTrainMin() public pure {
        Frame memory f = _frame();
        f.enough = 5;
        assertEq(f.closingBlock(_plan(), SEAL_BLOCKS), 1043, "trainMin");
        f.enough = 41;
        assertEq(f.closingBlock(_plan(), SEAL_BLOCKS), 1043, "in that block");
        f.enough = 42;
        assertEq(f.closingBlock(_plan(), SEAL_BLOCKS), 1044, "behind it");
        f.enough = 81;
        assertEq(f.closingBlock(_plan(), SEAL_BLOCKS), 1083, "in the last");
        f.enough = 83;
        assertEq(f.closingBlock(_plan(), SEAL_BLOCKS), 1083, "never behind trainMax");
    }

    function test_closingBlock_allCommitted_isThatBlock() public pure {
        Frame memory f = _frame();
        (f.enough, f.closed) = (5, 9);
        assertEq(f.closingBlock(_plan(), SEAL_BLOCKS), 1011, "closed");
    }

    function test_closingBlock_withoutBeacon_isTheLastThatCanSeal() public pure {
        Frame memory f = _frame();
        f.trained = 0;
        assertEq(f.beaconBlock(_plan()), 1008, "first of the grid from 1004");
        assertEq(f.closingBlock(_plan(), SEAL_BLOCKS), 1208, "as long as it can be sealed");
    }

    function test_drawWindow_isCutWhereReservesBegin() public pure {
        Plan memory plan = _plan();
        (uint256 first, uint256 last) = Frames.drawWindow(1007, plan, SEAL_BLOCKS);
        assertEq(first, 1009, "1008 decides");
        assertEq(last, 1016, "reserves from 1017");
        plan.auditMax = 900;
        (first, last) = Frames.drawWindow(1008, plan, SEAL_BLOCKS);
        assertEq(first, 1017, "1016 decides");
        assertEq(last, 1216, "as long as it can be sealed");
        plan.auditMax = 627;
        (, last) = Frames.drawWindow(1008, plan, SEAL_BLOCKS);
        assertEq(last, 1216, "both at once");
        plan.auditMax = 624;
        (, last) = Frames.drawWindow(1008, plan, SEAL_BLOCKS);
        assertEq(last, 1215, "one before");
    }
}
