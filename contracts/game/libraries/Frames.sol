// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {AuditDraw} from "../../libraries/AuditDraw.sol";
import {Phase} from "../GameTypes.sol";

/// @notice What an opened round keeps in one word. Blocks are counted from `opened`, plus one; 0: not yet.
/// @param short slots of claims of fewer segments than the round has
/// @param trained when its shards were known
/// @param enough when two thirds had committed
/// @param closed the closing block
/// @param counted seats of the pool that were not closed at OPEN
/// @param flags phase in the lowest three bits, then EXCUSED, SEALED, SYNCED
struct Frame {
    uint64 committed;
    uint64 short;
    uint40 opened;
    uint24 trained;
    uint24 enough;
    uint24 closed;
    uint8 counted;
    uint8 flags;
}

/// @notice Who sits in a round, and its late audits; written before it opens.
/// @param pool numbers of solver seats
/// @param verifiers version of their pool
/// @param whistleblowers version of their pool
/// @param lateFrom from where late votes count; 0: late audits are not drawn
/// @param lateSlots claims that may be audited late
/// @param lateBy the round whose seed draws them, or CLOSING | index of a closing seed
struct Roster {
    uint64 pool;
    uint24 verifiers;
    uint24 whistleblowers;
    uint40 lateFrom;
    uint64 lateSlots;
    uint32 lateBy;
}

/// @notice What rounds need of the terms, in one word. Windows in blocks, as in `GameWindows`.
/// @param segments of a whole claim
/// @param leastSegments that a claim may have: so many that it gets all its draws
/// @param hasLate whether there are late audits
struct Plan {
    uint24 delay;
    uint24 drawGrid;
    uint24 trainMin;
    uint24 trainMax;
    uint24 auditMax;
    uint24 post;
    uint24 dispute;
    uint24 ask;
    uint16 segments;
    uint16 rounds;
    uint8 leastSegments;
    bool hasLate;
}

/// @notice What became of a round; of meaning once its root is posted.
struct Outcome {
    uint64 merged;
    uint64 signers;
    uint40 rootUntil;
    uint40 fallen;
}

/// @title What the clock says of a round. Twin of `protocol/spec/game/timing.py`.
library Frames {
    uint8 internal constant EXCUSED = 8;
    uint8 internal constant SEALED = 16;
    /// @dev The close was written down, and the pool after next was frozen.
    uint8 internal constant SYNCED = 32;
    uint8 private constant PHASE = 7;

    function phaseOf(Frame memory f) internal pure returns (Phase) {
        return Phase(f.flags & PHASE);
    }

    function setPhase(Frame memory f, Phase phase) internal pure {
        f.flags = f.flags & ~PHASE | uint8(phase);
    }

    function has(Frame memory f, uint8 flag) internal pure returns (bool) {
        return f.flags & flag != 0;
    }

    function at(Frame memory f, uint24 offset) internal pure returns (uint256) {
        return uint256(f.opened) + offset - 1;
    }

    /// @notice How a block of this round is written down.
    function offsetOf(Frame memory f, uint256 block_) internal pure returns (uint24) {
        return uint24(block_ + 1 - f.opened);
    }

    /// @notice Whether the round takes no commitments any more, and its close is written down.
    function isClosed(Frame memory f) internal pure returns (bool) {
        return has(f, SYNCED);
    }

    /// @notice The closing block, as far as the commitments so far decide it.
    function closingBlock(Frame memory f, Plan memory plan, uint256 sealBlocks)
        internal
        pure
        returns (uint256 closing)
    {
        if (f.closed != 0) return at(f, f.closed);
        if (f.trained == 0) return beaconBlock(f, plan) + sealBlocks;
        uint256 trained = at(f, f.trained);
        closing = trained + plan.trainMax;
        if (f.enough == 0) return closing;
        uint256 early = trained + plan.trainMin;
        if (at(f, f.enough) > early) early = at(f, f.enough);
        return early < closing ? early : closing;
    }

    /// @notice Whose randomness is the beacon of a round that was not dealt when it opened.
    function beaconBlock(Frame memory f, Plan memory plan) internal pure returns (uint256) {
        return AuditDraw.gridBlock(uint256(f.opened) + plan.delay, plan.drawGrid);
    }

    /// @notice First and last block in which the draw that is asked for at `fromBlock` can be sealed. The block before the first decides.
    function drawWindow(uint256 fromBlock, Plan memory plan, uint256 sealBlocks)
        internal
        pure
        returns (uint256 first, uint256 last)
    {
        uint256 block_ = AuditDraw.gridBlock(fromBlock + plan.delay, plan.drawGrid);
        (first, last) = (block_ + 1, block_ + sealBlocks);
        uint256 reserves = fromBlock + plan.auditMax / 3;
        if (reserves - 1 < last) last = reserves - 1;
    }

    /// @notice The last block in which a statement of the round can cost or earn something; never while the round has no root.
    /// @param rootUntil contests of its root open until then; 0 where it has none
    /// @param lateFrom from where late votes count; 0 where none are drawn
    function dutyUntil(Frame memory f, Plan memory plan, uint256 rootUntil, uint256 lateFrom)
        internal
        pure
        returns (uint256 until)
    {
        Phase phase = phaseOf(f);
        if (phase == Phase.RUNNING || phase == Phase.FALLEN) return type(uint256).max;
        uint256 auditMax = plan.auditMax;
        uint256 asked = 2 * auditMax + plan.ask;
        until = _later(at(f, f.closed) + plan.dispute, rootUntil);
        if (has(f, SEALED)) until = _later(until, at(f, f.closed) + asked);
        if (lateFrom == 0) return until;
        return _later(until, lateFrom + _later(_later(3 * auditMax, plan.dispute), asked));
    }

    function _later(uint256 a, uint256 b) private pure returns (uint256) {
        return a > b ? a : b;
    }
}
