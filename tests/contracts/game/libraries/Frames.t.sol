// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameWindows, Phase} from "../../../../contracts/game/GameTypes.sol";
import {Frame, Frames, FrameWords, Outcome, Roster, Track} from "../../../../contracts/game/libraries/Frames.sol";
import {Test} from "../../Test.sol";

contract FramesTest is Test {
    using Frames for Frame;

    uint256 private constant SEAL_BLOCKS = 200;
    GameWindows private _windows;

    function setUp() public {
        (_windows.delay, _windows.drawGrid) = (1, 8);
        (_windows.auditMax, _windows.post, _windows.dispute, _windows.ask) = (30, 6, 200, 720);
    }

    function _track() private pure returns (Track memory track) {
        (track.trainMin, track.trainMax) = (40, 80);
    }

    function _frame() private pure returns (Frame memory f) {
        (f.opened, f.trained) = (1003, 1);
    }

    function test_flags_keepApart() public pure {
        Frame memory f;
        f.flags = Frames.SHORT | Frames.SYNCED;
        f.setPhase(Phase.UNDONE);
        assertEq(uint256(f.phaseOf()), uint256(Phase.UNDONE), "phase");
        f.setPhase(Phase.RUNNING);
        assertEq(uint256(f.phaseOf()), uint256(Phase.RUNNING), "another");
        assertTrue(f.has(Frames.SHORT) && f.has(Frames.SYNCED) && !f.has(Frames.SEALED), "flags stay");
        assertTrue(f.isClosed(), "closed");
        f.flags = Frames.SHORT | Frames.SEALED | 1;
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
        assertEq(f.closingBlock(_track()), 1083, "from OPEN");
        f.trained = 11;
        assertEq(f.closingBlock(_track()), 1093, "from when shards are known");
    }

    function test_closingBlock_twoThirds_waitForTrainMin() public pure {
        Frame memory f = _frame();
        f.enough = 5;
        assertEq(f.closingBlock(_track()), 1043, "trainMin");
        f.enough = 41;
        assertEq(f.closingBlock(_track()), 1043, "in that block");
        f.enough = 42;
        assertEq(f.closingBlock(_track()), 1044, "behind it");
        f.enough = 81;
        assertEq(f.closingBlock(_track()), 1083, "in the last");
        f.enough = 83;
        assertEq(f.closingBlock(_track()), 1083, "never behind trainMax");
    }

    function test_closingBlock_allCommitted_isThatBlock() public pure {
        Frame memory f = _frame();
        (f.enough, f.closed) = (5, 9);
        assertEq(f.closingBlock(_track()), 1011, "closed");
    }

    function test_beaconBlock_isOfTheGrid() public view {
        assertEq(_frame().beaconBlock(_windows), 1008, "first of the grid from 1004");
    }

    function test_drawWindow_isCutWhereReservesBegin() public {
        (uint256 first, uint256 last) = Frames.drawWindow(1007, _windows, SEAL_BLOCKS);
        assertEq(first, 1009, "1008 decides");
        assertEq(last, 1016, "reserves from 1017");
        _windows.auditMax = 900;
        (first, last) = Frames.drawWindow(1008, _windows, SEAL_BLOCKS);
        assertEq(first, 1017, "1016 decides");
        assertEq(last, 1216, "as long as it can be sealed");
        _windows.auditMax = 627;
        (, last) = Frames.drawWindow(1008, _windows, SEAL_BLOCKS);
        assertEq(last, 1216, "both at once");
        _windows.auditMax = 624;
        (, last) = Frames.drawWindow(1008, _windows, SEAL_BLOCKS);
        assertEq(last, 1215, "one before");
    }

    /// @dev Also on a young chain, where blocks are fewer than a window's.
    function test_dutyUntil_notSealed_isThatOfDisputes() public view {
        Frame memory f = _frame();
        (f.opened, f.closed) = (3, 6);
        f.setPhase(Phase.STANDING);
        assertEq(f.dutyUntil(_windows, 0, 0), 208, "closed in 8, dispute 200");
        assertEq(f.dutyUntil(_windows, 300, 0), 300, "a root that is contested until then");
        f.flags |= Frames.SEALED;
        assertEq(f.dutyUntil(_windows, 0, 0), 788, "asks: twice auditMax 30, and 720");
        assertEq(f.dutyUntil(_windows, 0, 20), 800, "late votes from 20");
    }

    // Words: every field at its greatest, alone and beside the others ----------------------------------------------
    function _greatestTrack() private pure returns (Track memory t) {
        (t.nextRound, t.live, t.frozenTo, t.dealtTo) = (65_535, 65_534, 65_533, 65_532);
        (t.freedEpochs, t.segments, t.standsSince, t.startBlock) = (65_531, 65_530, (1 << 40) - 1, (1 << 40) - 2);
        (t.trainMin, t.trainMax, t.leastSegments, t.isHalted) = ((1 << 24) - 1, (1 << 24) - 2, 255, 1);
    }

    function test_track_thereAndBack() public pure {
        Track memory t = _greatestTrack();
        assertEq(keccak256(abi.encode(FrameWords.toTrack(FrameWords.pack(t)))), keccak256(abi.encode(t)), "all");
        for (uint256 i = 0; i < 12; ++i) {
            Track memory one;
            assembly ("memory-safe") {
                mstore(add(one, shl(5, i)), mload(add(t, shl(5, i))))
            }
            bytes32 back = keccak256(abi.encode(FrameWords.toTrack(FrameWords.pack(one))));
            assertEq(back, keccak256(abi.encode(one)), "one");
        }
    }

    function testFuzz_frame_thereAndBack(uint256 word) public pure {
        assertEq(FrameWords.pack(FrameWords.toFrame(word)), word, "frame");
    }

    function testFuzz_roster_thereAndBack(Roster memory r) public pure {
        assertEq(keccak256(abi.encode(FrameWords.toRoster(FrameWords.pack(r)))), keccak256(abi.encode(r)), "roster");
    }

    function testFuzz_outcome_thereAndBack(Outcome memory o) public pure {
        assertEq(keccak256(abi.encode(FrameWords.toOutcome(FrameWords.pack(o)))), keccak256(abi.encode(o)), "outcome");
    }
}
