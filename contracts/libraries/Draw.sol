// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Hashing} from "./Hashing.sol";

/// @title Numbers from seeds that nobody could choose, the shard of a slot and the data of a step (docs/spec.md, section 4).
/// @dev Twin of `protocol/spec/draw.py`. Rejection sampling keeps every choice exactly uniform.
library Draw {
    /// @notice More is drawn than there is.
    /// @param count how many are drawn
    /// @param n how many there are
    error NothingToDraw(uint256 count, uint256 n);
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
}
