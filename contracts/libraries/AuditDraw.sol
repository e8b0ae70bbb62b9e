// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Draw} from "./Draw.sol";
import {Hashing} from "./Hashing.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";

/// @title Who audits what in a round: all of it follows from one seed a round.
/// @dev Twin of `audit_draws.py` and `round_seeds.py` in `protocol/spec`. The shard of a slot is `Draw.shard` of the round's beacon.
library AuditDraw {
    bytes32 internal constant VERIFIER_POOL = "touchstone.verifiers";
    bytes32 internal constant WHISTLEBLOWER_POOL = "touchstone.whistleblowers";
    uint256 internal constant RANKS = 3;
    uint256 internal constant LATE_RATE_ONE = 1 << 16;

    /// @notice Draws have no block of their own.
    /// @param grid the distance of the blocks that decide
    error NoGrid(uint256 grid);
    /// @notice A claim has no such draw.
    /// @param draw its number
    /// @param draws how many a claim has
    error NoSuchDraw(uint256 draw, uint256 draws);
    /// @notice A round has no such slot.
    /// @param slot its number
    /// @param slots how many a round has
    error NoSuchSlot(uint256 slot, uint256 slots);
    /// @notice A claim without draws, or without segments.
    /// @param draws how many the task asks for
    /// @param segments how many the claim has
    error NothingToAudit(uint256 draws, uint256 segments);
    /// @notice A pool is too small for three different auditors of each draw of a claim.
    /// @param least how many it needs
    /// @param actual how many it has
    error TooFewAuditors(uint256 least, uint256 actual);
    /// @notice A chance is above one.
    /// @param chance in units of 2^-16
    error NoSuchChance(uint256 chance);

    // Seeds
    /// @notice The first block from `fromBlock` on that is a multiple of `grid`: its randomness decides.
    function gridBlock(uint256 fromBlock, uint256 grid) internal pure returns (uint256) {
        if (grid == 0) revert NoGrid(grid);
        uint256 past = fromBlock % grid;
        return past == 0 ? fromBlock : fromBlock + grid - past;
    }

    /// @notice Of a round's audits, and of the late audits of all earlier rounds that miss theirs. A closing seed, of late audits alone, has the number of the
    /// next round: its randomness is that of another block.
    function roundSeed(bytes32 domain, uint32 round, bytes32 randomness) internal pure returns (bytes32) {
        return sha256(abi.encode(bytes32("touchstone.seed"), domain, round, randomness));
    }

    /// @notice Of a round's shards and samples.
    function roundBeacon(bytes32 domain, uint32 round, bytes32 randomness) internal pure returns (bytes32) {
        return sha256(abi.encode(bytes32("touchstone.beacon"), domain, round, randomness));
    }

    // Segments
    /// @notice How many segments of a claim are audited: fewer where the claim is short.
    function countDraws(uint256 draws, uint256 segments) internal pure returns (uint256) {
        if (draws == 0 || segments == 0) revert NothingToAudit(draws, segments);
        return FixedPointMathLib.min(draws, (segments + 2) / 3);
    }

    /// @notice The audited segments of a claim in the order drawn; no two touch on the circle of all.
    /// @dev All but the first are drawn by their distance from it: 2 .. segments - 2, none next to another.
    function circleSegments(bytes32 seed, uint256 slot, uint256 draws, uint256 segments)
        internal
        view
        returns (uint256[] memory drawn)
    {
        drawn = new uint256[](countDraws(draws, segments));
        bytes32 slotSeed = Hashing.slotSeed(seed, slot);
        uint256 first = Draw.uniform(slotSeed, 0, segments);
        drawn[0] = first;
        if (drawn.length == 1) return drawn;
        unchecked {
            // Two draws need four segments: of 2 .. segments - 2 nothing is taken yet.
            uint256 second = 2 + Draw.uniform(slotSeed, 1, segments - 3);
            drawn[1] = (first + second) % segments;
            if (drawn.length == 2) return drawn;
            // Ascending; the place 0 stays empty.
            uint256[] memory distances = new uint256[](drawn.length);
            distances[1] = second;
            for (uint256 i = 2; i < drawn.length; ++i) {
                uint256 position = Draw.uniform(slotSeed, i, _countFree(distances, i, segments - 1));
                uint256 distance = _freeAt(distances, i, position);
                drawn[i] = (first + distance) % segments;
                _insert(distances, i, distance);
            }
        }
    }

    /// @dev How many of 2 .. end - 1 touch none of the distances before `count`.
    function _countFree(uint256[] memory distances, uint256 count, uint256 end)
        private
        pure
        returns (uint256 free)
    {
        uint256 next = 2;
        for (uint256 i = 1; i < count; ++i) {
            free += FixedPointMathLib.zeroFloorSub(distances[i], next + 1);
            next = distances[i] + 2;
        }
        free += FixedPointMathLib.zeroFloorSub(end, next);
    }

    /// @dev The `position`-th of them, from 0.
    function _freeAt(uint256[] memory distances, uint256 count, uint256 position)
        private
        pure
        returns (uint256)
    {
        uint256 next = 2;
        for (uint256 i = 1; i < count; ++i) {
            uint256 gap = FixedPointMathLib.zeroFloorSub(distances[i], next + 1);
            if (position < gap) break;
            position -= gap;
            next = distances[i] + 2;
        }
        return next + position;
    }

    /// @dev Keeps the list ascending; the empty place 0 is below every distance.
    function _insert(uint256[] memory distances, uint256 place, uint256 distance) private pure {
        for (; distances[place - 1] > distance; --place) {
            distances[place] = distances[place - 1];
        }
        distances[place] = distance;
    }

    // Auditors
    /// @notice How many places of a pool's order the draws of a round reach.
    /// @param draws of the whole round
    function countPlaces(uint256 size, uint256 draws) internal pure returns (uint256) {
        return FixedPointMathLib.min(RANKS * draws, size);
    }

    /// @notice The first `count` positions of a frozen pool, mixed: Fisher-Yates, cut short, a hash for each.
    /// @dev By hand: a pool has up to 1,024 seats, and the compiler would check both places of each swap. Assembly writes 0 .. size - 1, swaps, then cuts the
    /// array's length to `count`.
    /// @param role VERIFIER_POOL or WHISTLEBLOWER_POOL
    function permutation(bytes32 seed, bytes32 role, uint256 size, uint256 count)
        internal
        view
        returns (uint256[] memory order)
    {
        if (count > size) revert Draw.NothingToDraw(count, size);
        bytes32 roleSeed = sha256(abi.encode(role, seed));
        order = new uint256[](size);
        unchecked {
            assembly ("memory-safe") {
                for { let i := 0 } lt(i, size) { i := add(i, 1) } { mstore(add(add(order, 32), shl(5, i)), i) }
            }
            for (uint256 i = 0; i < count; ++i) {
                uint256 j = i + Draw.uniform(roleSeed, i, size - i);
                assembly ("memory-safe") {
                    // Swaps the words of i and j, without bounds checks: both are below `size`.
                    let a := add(add(order, 32), shl(5, i))
                    let b := add(add(order, 32), shl(5, j))
                    let kept := mload(a)
                    mstore(a, mload(b))
                    mstore(b, kept)
                }
            }
        }
        assembly ("memory-safe") {
            mstore(order, count)
        }
    }

    /// @notice The place of a rank of a draw in that order: the primary's, or a reserve's.
    /// @dev Ranks lie `step` apart, and 3 * step is no more than the places: so the three ranks of a draw are three seats. Where the pool has three seats for
    /// each draw of the round nobody is drawn twice.
    /// @param draws the task's draws per claim, also where the claim has fewer
    /// @param slots solver seats in the round's pool
    function place(uint256 size, uint256 slot, uint256 draw, uint256 rank, uint256 draws, uint256 slots)
        internal
        pure
        returns (uint256)
    {
        if (slot >= slots) revert NoSuchSlot(slot, slots);
        if (draw >= draws) revert NoSuchDraw(draw, draws);
        if (size < RANKS * draws) revert TooFewAuditors(RANKS * draws, size);
        unchecked {
            uint256 all = draws * slots;
            uint256 step = FixedPointMathLib.min(all, size / RANKS);
            return (draws * slot + draw + rank * step) % countPlaces(size, all);
        }
    }

    // Late draws
    /// @notice Whether a claim has a late audit, and its segment. Its whistleblowers are at `place` of draw 0 of 1.
    /// @param chance in units of 2^-16
    /// @param drawn what `circleSegments` gave for the claim
    function late(bytes32 seed, uint256 slot, uint256 chance, uint256[] memory drawn, uint256 segments)
        internal
        view
        returns (bool due, uint256 segment)
    {
        if (chance > LATE_RATE_ONE) revert NoSuchChance(chance);
        bytes32 slotSeed = Hashing.taggedPair("touchstone.late-slot", seed, slot);
        uint256 undrawn = segments - drawn.length;
        if (undrawn == 0 || Draw.uniform(slotSeed, 0, LATE_RATE_ONE) >= chance) return (false, 0);
        return (true, _undrawnAt(Draw.uniform(slotSeed, 1, undrawn), drawn));
    }

    /// @dev The `position`-th integer that is not in the list, which has no order: the least x before which
    /// `position` others are missing from it. Repeats x = position + how many of the list are <= x until x does not change.
    function _undrawnAt(uint256 position, uint256[] memory drawn) private pure returns (uint256 x) {
        uint256 next = position;
        unchecked {
            do {
                x = next;
                next = position;
                for (uint256 i = 0; i < drawn.length; ++i) {
                    if (drawn[i] <= x) ++next;
                }
            } while (next != x);
        }
    }
}
