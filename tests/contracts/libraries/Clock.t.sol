// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Windows} from "../../../contracts/Types.sol";
import {Clock, Deadlines, LateDeadlines} from "../../../contracts/libraries/Clock.sol";
import {Test} from "../Test.sol";

contract ClockTest is Test {
    /// @dev Powers of ten show in each deadline which windows it is made of.
    function _windows() private pure returns (Windows memory) {
        return Windows({
            enrol: 1,
            delay: 2,
            seal: 10,
            train: 100,
            start: 1000,
            replay: 10_000,
            show: 100_000,
            open: 1_000_000,
            merge: 10_000_000,
            dispute: 100_000_000,
            respond: 7,
            name: 11,
            prove: 13
        });
    }

    function test_compute_primaryPhase_addsUp() public pure {
        Deadlines memory d = Clock.compute(0, _windows());
        assertEq(d.enrolEnd, 1, "enrolEnd");
        assertEq(d.beaconBlock, 3, "beaconBlock");
        assertEq(d.beaconEnd, 11, "beaconEnd");
        assertEq(d.trainEnd, 111, "trainEnd");
        assertEq(d.drawBlock, 113, "drawBlock");
        assertEq(d.drawEnd, 121, "drawEnd");
        assertEq(d.startEnd, 1121, "startEnd");
        assertEq(d.replayEnd, 11_121, "replayEnd");
        assertEq(d.showEnd, 111_121, "showEnd");
        assertEq(d.leavesBlock, 111_123, "leavesBlock");
        assertEq(d.leavesEnd, 111_131, "leavesEnd");
        assertEq(d.openEnd, 1_111_131, "openEnd");
        assertEq(d.compareEnd, 2_111_131, "compareEnd");
    }

    function test_compute_reservePhase_addsUp() public pure {
        Deadlines memory d = Clock.compute(0, _windows());
        assertEq(d.reserveReplayEnd, 2_121_131, "reserveReplayEnd");
        assertEq(d.reserveShowEnd, 2_221_131, "reserveShowEnd");
        assertEq(d.reserveLeavesBlock, 2_221_133, "reserveLeavesBlock");
        assertEq(d.reserveLeavesEnd, 2_221_141, "reserveLeavesEnd");
        assertEq(d.reserveOpenEnd, 3_221_141, "reserveOpenEnd");
        assertEq(d.reserveCompareEnd, 4_221_141, "reserveCompareEnd");
    }

    function test_computeLate_addsUp() public pure {
        LateDeadlines memory d = Clock.computeLate(0, _windows());
        assertEq(d.lateBlock, 2, "lateBlock");
        assertEq(d.lateEnd, 10, "lateEnd");
        assertEq(d.startEnd, 1010, "startEnd");
        assertEq(d.replayEnd, 11_010, "replayEnd");
        assertEq(d.showEnd, 111_010, "showEnd");
        assertEq(d.leavesBlock, 111_012, "leavesBlock");
        assertEq(d.leavesEnd, 111_020, "leavesEnd");
        assertEq(d.openEnd, 1_111_020, "openEnd");
        assertEq(d.compareEnd, 2_111_020, "compareEnd");
        assertEq(d.disputeEnd, 102_111_020, "disputeEnd");
    }

    function test_worstSpan_coversAllWindowsAndClocks() public pure {
        uint256 merged = 4_221_141 + 20_000_000;
        assertEq(Clock.worstSpan(_windows()), merged + 102_111_020 + 21 + 11 + 13, "span");
    }

    function testFuzz_compute_anyStart_shiftsAll(uint32 startBlock) public pure {
        Deadlines memory early = Clock.compute(0, _windows());
        Deadlines memory late = Clock.compute(startBlock, _windows());
        assertEq(late.enrolEnd, early.enrolEnd + startBlock, "first");
        assertEq(late.reserveCompareEnd, early.reserveCompareEnd + startBlock, "last");
    }
}
