// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {AuditDraw} from "../../libraries/AuditDraw.sol";
import {GameWindows, Phase} from "../GameTypes.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";

/// @notice Where a task stands (`IRounds.Line`), and what of its terms nearly every call needs: one word. Numbers of rounds are at most 65,535.
/// @param segments of a whole claim; 0: there is no such task
/// @param leastSegments that a claim may have: so many that it gets all its draws
struct Track {
    uint256 nextRound;
    uint256 live;
    uint256 frozenTo;
    uint256 dealtTo;
    uint256 freedEpochs;
    uint256 segments;
    uint256 standsSince;
    uint256 startBlock;
    uint256 trainMin;
    uint256 trainMax;
    uint256 leastSegments;
    uint256 isHalted;
}

/// @notice What an opened round keeps in one word. Blocks are counted from `opened`, plus one; 0: not yet.
/// @param pool numbers of solver seats
/// @param trained when its shards were known
/// @param enough when two thirds had committed
/// @param closed the closing block
/// @param counted seats of the pool that were not closed at OPEN
/// @param flags phase in the lowest three bits, then SEALED, SYNCED, SHORT, REPOSTED
struct Frame {
    uint64 committed;
    uint64 pool;
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
/// @param isEnough whether a round can be played with these pools, as long as no seat is closed
struct Roster {
    uint64 pool;
    uint24 verifiers;
    uint24 whistleblowers;
    uint40 lateFrom;
    uint64 lateSlots;
    uint32 lateBy;
    bool isEnough;
}

/// @notice What became of a round; of meaning once its root is posted.
struct Outcome {
    uint64 merged;
    uint64 signers;
    uint40 rootUntil;
    uint40 fallen;
}

/// @title Words of storage as structs and back: the compiler writes a struct of one word field by field.
/// @dev Each value fits its place: windows are below 2^23 (`Tasks`), blocks below 2^40, the rest is bounded by `GameTermsCheck`. `fill` writes into a struct
/// that the caller has: a function that returns another one's struct has had a struct of zeros made, for nothing.
library FrameWords {
    uint256 private constant U8 = type(uint8).max;
    uint256 private constant U16 = type(uint16).max;
    uint256 private constant U24 = type(uint24).max;
    uint256 private constant U40 = type(uint40).max;

    function toTrack(uint256 word) internal pure returns (Track memory t) {
        fill(t, word);
    }

    function fill(Track memory t, uint256 word) internal pure {
        (t.nextRound, t.live, t.frozenTo) = (word & U16, word >> 16 & U16, word >> 32 & U16);
        (t.dealtTo, t.freedEpochs, t.segments) = (word >> 48 & U16, word >> 64 & U16, word >> 80 & U16);
        (t.standsSince, t.startBlock) = (word >> 96 & U40, word >> 136 & U40);
        (t.trainMin, t.trainMax) = (word >> 176 & U24, word >> 200 & U24);
        (t.leastSegments, t.isHalted) = (word >> 224 & U8, word >> 232);
    }

    function pack(Track memory t) internal pure returns (uint256) {
        uint256 rounds = t.nextRound | t.live << 16 | t.frozenTo << 32 | t.dealtTo << 48;
        uint256 blocks = t.standsSince << 96 | t.startBlock << 136;
        uint256 terms = t.segments << 80 | t.trainMin << 176 | t.trainMax << 200 | t.leastSegments << 224;
        return rounds | blocks | terms | t.freedEpochs << 64 | t.isHalted << 232;
    }

    function toFrame(uint256 word) internal pure returns (Frame memory f) {
        fill(f, word);
    }

    function fill(Frame memory f, uint256 word) internal pure {
        (f.committed, f.pool, f.opened) = (uint64(word), uint64(word >> 64), uint40(word >> 128));
        (f.trained, f.enough, f.closed) = (uint24(word >> 168), uint24(word >> 192), uint24(word >> 216));
        (f.counted, f.flags) = (uint8(word >> 240), uint8(word >> 248));
    }

    /// @notice Whether a frame's word has a flag.
    function hasFlag(uint256 word, uint8 flag) internal pure returns (bool) {
        return word >> 248 & flag != 0;
    }

    function pack(Frame memory f) internal pure returns (uint256 word) {
        word = uint256(f.committed) | uint256(f.pool) << 64 | uint256(f.opened) << 128;
        word |= uint256(f.trained) << 168 | uint256(f.enough) << 192 | uint256(f.closed) << 216;
        word |= uint256(f.counted) << 240 | uint256(f.flags) << 248;
    }

    function toRoster(uint256 word) internal pure returns (Roster memory r) {
        fill(r, word);
    }

    function fill(Roster memory r, uint256 word) internal pure {
        (r.pool, r.verifiers, r.whistleblowers) = (uint64(word), uint24(word >> 64), uint24(word >> 88));
        (r.lateFrom, r.lateSlots) = (uint40(word >> 112), uint64(word >> 152));
        (r.lateBy, r.isEnough) = (uint32(word >> 216), word >> 248 != 0);
    }

    function pack(Roster memory r) internal pure returns (uint256 word) {
        word = uint256(r.pool) | uint256(r.verifiers) << 64 | uint256(r.whistleblowers) << 88;
        word |= uint256(r.lateFrom) << 112 | uint256(r.lateSlots) << 152 | uint256(r.lateBy) << 216;
        if (r.isEnough) word |= 1 << 248;
    }

    function toOutcome(uint256 word) internal pure returns (Outcome memory o) {
        (o.merged, o.signers) = (uint64(word), uint64(word >> 64));
        (o.rootUntil, o.fallen) = (uint40(word >> 128), uint40(word >> 168));
    }

    function pack(Outcome memory o) internal pure returns (uint256) {
        return uint256(o.merged) | uint256(o.signers) << 64 | uint256(o.rootUntil) << 128
            | uint256(o.fallen) << 168;
    }
}

/// @title What the clock says of a round. Twin of `protocol/spec/game/timing.py`.
library Frames {
    uint8 internal constant SEALED = 8;
    /// @dev The root was posted again after a fall: its window is another one (`Outcome`).
    uint8 internal constant REPOSTED = 64;
    /// @dev The close was written down, and the pool after next was frozen.
    uint8 internal constant SYNCED = 16;
    /// @dev A claim of the round has fewer segments than the round.
    uint8 internal constant SHORT = 32;
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
        unchecked {
            return uint256(f.opened) + offset - 1;
        }
    }

    /// @notice How a block of this round is written down.
    function offsetOf(Frame memory f, uint256 block_) internal pure returns (uint24) {
        unchecked {
            return uint24(block_ + 1 - f.opened);
        }
    }

    /// @notice Whether the round takes no commitments any more, and its close is written down.
    function isClosed(Frame memory f) internal pure returns (bool) {
        return has(f, SYNCED);
    }

    /// @notice The closing block of a round whose shards are known, as far as the commitments so far decide it.
    function closingBlock(Frame memory f, Track memory t) internal pure returns (uint256 closing) {
        if (f.closed != 0) return at(f, f.closed);
        unchecked {
            uint256 trained = at(f, f.trained);
            closing = trained + t.trainMax;
            if (f.enough == 0) return closing;
            return FixedPointMathLib.min(FixedPointMathLib.max(at(f, f.enough), trained + t.trainMin), closing);
        }
    }

    /// @notice Whose randomness is the beacon of a round that was not dealt when it opened.
    function beaconBlock(Frame memory f, GameWindows storage windows) internal view returns (uint256) {
        return AuditDraw.gridBlock(uint256(f.opened) + windows.delay, windows.drawGrid);
    }

    /// @notice First and last block in which the draw that is asked for at `fromBlock` can be sealed. The block before the first decides.
    function drawWindow(uint256 fromBlock, GameWindows storage windows, uint256 sealBlocks)
        internal
        view
        returns (uint256 first, uint256 last)
    {
        uint256 block_ = AuditDraw.gridBlock(fromBlock + windows.delay, windows.drawGrid);
        (first, last) = (block_ + 1, block_ + sealBlocks);
        last = FixedPointMathLib.min(fromBlock + windows.auditMax / 3 - 1, last);
    }

    /// @notice The last block in which a statement of the round can cost or earn something; never while the round has no root.
    /// @param rootUntil contests of its root open until then; 0 where it has none
    /// @param lateFrom from where late votes count; 0 where none are drawn
    function dutyUntil(Frame memory f, GameWindows storage windows, uint256 rootUntil, uint256 lateFrom)
        internal
        view
        returns (uint256 until)
    {
        Phase phase = phaseOf(f);
        if (phase == Phase.RUNNING || phase == Phase.FALLEN) return type(uint256).max;
        uint256 auditMax = windows.auditMax;
        unchecked {
            uint256 asked = 2 * auditMax + windows.ask;
            until = FixedPointMathLib.max(at(f, f.closed) + windows.dispute, rootUntil);
            if (has(f, SEALED)) until = FixedPointMathLib.max(until, at(f, f.closed) + asked);
            if (lateFrom == 0) return until;
            uint256 late = FixedPointMathLib.max(FixedPointMathLib.max(3 * auditMax, windows.dispute), asked);
            return FixedPointMathLib.max(until, lateFrom + late);
        }
    }
}
