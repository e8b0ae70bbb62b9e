// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Windows} from "../Types.sol";

/// @notice All deadlines of a round up to its verdicts, as block numbers. A window is opens <= block < closes.
struct Deadlines {
    uint256 enrolEnd;
    uint256 beaconBlock;
    uint256 beaconEnd;
    uint256 trainEnd;
    uint256 drawBlock;
    uint256 drawEnd;
    uint256 startEnd;
    uint256 replayEnd;
    uint256 showEnd;
    uint256 leavesBlock;
    uint256 leavesEnd;
    uint256 openEnd;
    uint256 compareEnd;
    uint256 reserveReplayEnd;
    uint256 reserveShowEnd;
    uint256 reserveLeavesBlock;
    uint256 reserveLeavesEnd;
    uint256 reserveOpenEnd;
    uint256 reserveCompareEnd;
}

/// @notice Deadlines that count from the block in which the round was merged.
struct LateDeadlines {
    uint256 lateBlock;
    uint256 lateEnd;
    uint256 startEnd;
    uint256 replayEnd;
    uint256 showEnd;
    uint256 leavesBlock;
    uint256 leavesEnd;
    uint256 openEnd;
    uint256 compareEnd;
    uint256 disputeEnd;
}

/// @title When each window of a round closes (docs/spec.md, section 7). Time runs in blocks only.
/// @dev Twin of `compute_deadlines` in `protocol/spec/clock.py`.
library Clock {
    /// @notice Deadlines that are fixed from the round's start on.
    function compute(uint256 startBlock, Windows memory w) internal pure returns (Deadlines memory d) {
        d.enrolEnd = startBlock + w.enrol;
        d.beaconBlock = d.enrolEnd + w.delay;
        d.beaconEnd = d.enrolEnd + w.seal;
        d.trainEnd = d.beaconEnd + w.train;
        d.drawBlock = d.trainEnd + w.delay;
        d.drawEnd = d.trainEnd + w.seal;
        d.startEnd = d.drawEnd + w.start;
        d.replayEnd = d.startEnd + w.replay;
        d.showEnd = d.replayEnd + w.show;
        d.leavesBlock = d.showEnd + w.delay;
        d.leavesEnd = d.showEnd + w.seal;
        d.openEnd = d.leavesEnd + w.open;
        d.compareEnd = d.openEnd + w.open;
        d.reserveReplayEnd = d.compareEnd + w.replay;
        d.reserveShowEnd = d.reserveReplayEnd + w.show;
        d.reserveLeavesBlock = d.reserveShowEnd + w.delay;
        d.reserveLeavesEnd = d.reserveShowEnd + w.seal;
        d.reserveOpenEnd = d.reserveLeavesEnd + w.open;
        d.reserveCompareEnd = d.reserveOpenEnd + w.open;
    }

    /// @notice Deadlines of late audits and disputes.
    /// @param mergedBlock where the outer root was posted, or the empty set judged
    function computeLate(uint256 mergedBlock, Windows memory w)
        internal
        pure
        returns (LateDeadlines memory d)
    {
        d.lateBlock = mergedBlock + w.delay;
        d.lateEnd = mergedBlock + w.seal;
        d.startEnd = d.lateEnd + w.start;
        d.replayEnd = d.startEnd + w.replay;
        d.showEnd = d.replayEnd + w.show;
        d.leavesBlock = d.showEnd + w.delay;
        d.leavesEnd = d.showEnd + w.seal;
        d.openEnd = d.leavesEnd + w.open;
        d.compareEnd = d.openEnd + w.open;
        d.disputeEnd = d.compareEnd + w.dispute;
    }

    /// @notice Blocks that a round can take from its start to the end of its disputes, every clock used to its end: two windows to
    /// merge (post, then contest) and one full dispute opened in the last block.
    function worstSpan(Windows memory w) internal pure returns (uint256) {
        uint256 merged = compute(0, w).reserveCompareEnd + 2 * uint256(w.merge);
        return computeLate(merged, w).disputeEnd + 3 * uint256(w.respond) + w.name + w.prove;
    }
}
