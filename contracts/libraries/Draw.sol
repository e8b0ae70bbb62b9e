// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Hashing} from "./Hashing.sol";

/// @title Every random choice of the protocol, from seeds that nobody could choose (docs/spec.md, section 4).
/// @dev Twin of `protocol/spec/draw.py`. Rejection sampling keeps every choice exactly uniform.
library Draw {
    uint256 internal constant MIN_VERIFIERS = 3;
    uint256 internal constant AUDITORS_PER_DRAW = 3;
    uint256 internal constant AUDITOR_COUNTER_STRIDE = 1000;
    uint256 internal constant SLOT_STRIDE = 256;
    uint256 internal constant LATE_RATE_ONE = 1 << 16;

    /// @notice More is drawn than there is.
    /// @param count how many are drawn
    /// @param n how many there are
    error NothingToDraw(uint256 count, uint256 n);
    /// @notice Audited segments would touch each other.
    /// @param needed segments that the draws need
    /// @param actual segments of a round
    error TooFewSegments(uint256 needed, uint256 actual);

    /// @notice The chain's SHA-256 did not answer.
    /// @dev The precompile had not even the gas for one hash.
    error HashFailed();

    // Primitives --------------------------------------------------------------------------------------------------
    /// @notice An unbiased integer in 0 .. n-1: the first hash below the largest multiple of n, modulo n.
    function uniform(bytes32 seed, uint256 counter, uint256 n) internal pure returns (uint256 drawn) {
        if (n == 0) revert NothingToDraw(1, 0);
        unchecked {
            // 2^256 mod n, without 2^256.
            uint256 most = type(uint256).max - (type(uint256).max % n + 1) % n;
            for (uint256 attempt = 0;; ++attempt) {
                uint256 x = _hash(seed, counter, attempt);
                if (x <= most) return x % n;
            }
        }
    }

    /// @dev sha256(abi.encode("touchstone.uniform", seed, counter, attempt)), without keeping the memory.
    function _hash(bytes32 seed, uint256 counter, uint256 attempt) private pure returns (uint256) {
        function(bytes32, uint256, uint256) view returns (uint256) reads = _digest;
        function(bytes32, uint256, uint256) pure returns (uint256) computes;
        assembly ("memory-safe") {
            computes := reads
        }
        return computes(seed, counter, attempt);
    }

    /// @dev The precompile is called as a view; what it answers depends on its input alone.
    function _digest(bytes32 seed, uint256 counter, uint256 attempt) private view returns (uint256 x) {
        bytes32 tag = "touchstone.uniform";
        bool isDone;
        assembly ("memory-safe") {
            let message := mload(0x40)
            mstore(message, tag)
            mstore(add(message, 32), seed)
            mstore(add(message, 64), counter)
            mstore(add(message, 96), attempt)
            isDone := staticcall(gas(), 2, message, 128, 0, 32)
            x := mload(0)
        }
        if (!isDone) revert HashFailed();
    }

    /// @notice `count` distinct integers in 0 .. n-1 in the order drawn: Fisher-Yates, cut short.
    /// @dev The permutation is the identity but for the positions that were swapped: step t moved `moved[t]` to position `positions[t]`.
    function distinct(bytes32 seed, uint256 counter, uint256 count, uint256 n)
        internal
        pure
        returns (uint256[] memory drawn)
    {
        if (count > n) revert NothingToDraw(count, n);
        drawn = new uint256[](count);
        uint256[] memory positions = new uint256[](count);
        uint256[] memory moved = new uint256[](count);
        for (uint256 i = 0; i < count; ++i) {
            uint256 j = i + uniform(seed, counter + i, n - i);
            drawn[i] = _at(positions, moved, i, j);
            moved[i] = _at(positions, moved, i, i);
            positions[i] = j;
        }
    }

    /// @dev What stands at `position` after `steps` swaps; the latest swap counts.
    function _at(uint256[] memory positions, uint256[] memory moved, uint256 steps, uint256 position)
        private
        pure
        returns (uint256)
    {
        for (uint256 t = steps; t > 0; --t) {
            if (positions[t - 1] == position) return moved[t - 1];
        }
        return position;
    }

    // Choices -----------------------------------------------------------------------------------------------------
    /// @notice Shard of a slot: a rotation of all solvers by one uniform offset.
    function shard(bytes32 beacon, uint256 slot, uint256 solvers) internal pure returns (uint256) {
        return (slot + uniform(beacon, 0, solvers)) % solvers;
    }

    /// @notice First token of a row of an inner step (0-based in the round); its labels are the next tokens.
    function sampleStart(
        bytes32 beacon,
        uint256 shard_,
        uint256 innerStep,
        uint256 row,
        uint256 tokenCount,
        uint256 sequenceTokens
    ) internal pure returns (uint256) {
        return uniform(Hashing.sampleSeed(beacon, shard_, innerStep), row, tokenCount - sequenceTokens);
    }

    /// @notice `draws` of `segmentCount` segments in ascending order, no two adjacent, uniform over such sets.
    function segments(bytes32 slotSeed, uint256 draws, uint256 segmentCount)
        internal
        pure
        returns (uint256[] memory drawn)
    {
        if (draws == 0) revert NothingToDraw(0, segmentCount);
        if (segmentCount < 2 * draws - 1) revert TooFewSegments(2 * draws - 1, segmentCount);
        drawn = distinct(slotSeed, 0, draws, segmentCount - draws + 1);
        _sort(drawn);
        for (uint256 i = 0; i < draws; ++i) {
            drawn[i] += i;
        }
    }

    function _sort(uint256[] memory values) private pure {
        for (uint256 i = 1; i < values.length; ++i) {
            for (uint256 j = i; j > 0 && values[j - 1] > values[j]; --j) {
                (values[j - 1], values[j]) = (values[j], values[j - 1]);
            }
        }
    }

    /// @notice Indices of three verifiers for one draw: primary, first and second reserve.
    function auditors(bytes32 slotSeed, uint256 draw, uint256 verifiers)
        internal
        pure
        returns (uint256[] memory)
    {
        return distinct(slotSeed, AUDITOR_COUNTER_STRIDE * (draw + 1), AUDITORS_PER_DRAW, verifiers);
    }

    /// @notice The late audit of an accepted claim: whether there is one, its segment and its whistleblower (index of enrolment).
    /// @param drawnSegments what `segments` gave for the claim
    function lateAudit(
        bytes32 lateSeed,
        uint256 slot,
        uint256 lateRate,
        uint256[] memory drawnSegments,
        uint256 segmentCount,
        uint256 whistleblowers
    ) internal pure returns (bool due, uint256 segment, uint256 whistleblower) {
        bytes32 seed = Hashing.slotSeed(lateSeed, slot);
        uint256 undrawn = segmentCount - drawnSegments.length;
        if (undrawn == 0 || whistleblowers == 0 || uniform(seed, 0, LATE_RATE_ONE) >= lateRate) {
            return (false, 0, 0);
        }
        segment = _undrawnAt(uniform(seed, 1, undrawn), drawnSegments);
        return (true, segment, uniform(seed, 2, whistleblowers));
    }

    /// @dev The `position`-th integer that is not in the ascending list.
    function _undrawnAt(uint256 position, uint256[] memory drawnSegments)
        private
        pure
        returns (uint256 segment)
    {
        segment = position;
        for (uint256 i = 0; i < drawnSegments.length && drawnSegments[i] <= segment; ++i) {
            ++segment;
        }
    }

    /// @notice Leaf indices to open in one audit, in the order drawn; the same for all ranks of a draw in one phase.
    function leaves(bytes32 leafSeed, uint256 slot, uint256 draw, uint256 leafDraws, uint256 leafCount)
        internal
        pure
        returns (uint256[] memory)
    {
        uint256 count = leafDraws < leafCount ? leafDraws : leafCount;
        return distinct(Hashing.slotSeed(leafSeed, slot * SLOT_STRIDE + draw), 0, count, leafCount);
    }
}
