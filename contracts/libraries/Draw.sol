// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Hashing} from "./Hashing.sol";

/// @title Numbers from seeds that nobody could choose, the shard of a slot and the data of a step (docs/spec.md, section 4).
/// @dev Twin of `uniform_draw.py` and `shard_draws.py` in `protocol/spec`. Rejection sampling keeps every choice exactly uniform.
library Draw {
    /// @notice More is drawn than there is.
    /// @param count how many are drawn
    /// @param n how many there are
    error NothingToDraw(uint256 count, uint256 n);
    /// @notice The chain's SHA-256 did not answer.
    /// @dev The precompile had not even the gas for one hash.
    error HashFailed();

    // Primitives
    /// @notice An unbiased integer in 0 .. n-1: the first hash below the largest multiple of n, modulo n.
    /// @dev Hashes sha256(abi.encode(tag, seed, counter, attempt)). By hand: the message is written once past the free pointer, which stays where it is,
    /// and each attempt changes its last word alone. The compiler would encode and copy the message for each attempt, and keep the memory.
    function uniform(bytes32 seed, uint256 counter, uint256 n) internal view returns (uint256 drawn) {
        if (n == 0) revert NothingToDraw(1, 0);
        // Whatever the hash.
        if (n == 1) return 0;
        bytes32 tag = "touchstone.uniform";
        bool isDone;
        assembly ("memory-safe") {
            let message := mload(0x40)
            mstore(message, tag)
            mstore(add(message, 32), seed)
            mstore(add(message, 64), counter)
            // 2^256 - 1 - (2^256 mod n): larger hashes are passed over. sub(0, n) is 2^256 - n, which has the same remainder as 2^256.
            let most := not(mod(sub(0, n), n))
            for { let attempt := 0 } 1 { attempt := add(attempt, 1) } {
                mstore(add(message, 96), attempt)
                isDone := staticcall(gas(), 2, message, 128, 0, 32)
                if iszero(isDone) { break }
                drawn := mload(0)
                if iszero(gt(drawn, most)) {
                    drawn := mod(drawn, n)
                    break
                }
            }
        }
        if (!isDone) revert HashFailed();
    }

    // Choices
    /// @notice Shard of a slot: a rotation of all solvers by one uniform offset.
    /// @dev The other way round, the slot of a shard is (shard + solvers - offset) % solvers. `RoundPosting` and `Contests` walk the slots in this order of
    /// shards: one counts up from the slot of shard 0, the other computes each.
    function shard(bytes32 beacon, uint256 slot, uint256 solvers) internal view returns (uint256) {
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
    ) internal view returns (uint256) {
        return uniform(Hashing.sampleSeed(beacon, shard_, innerStep), row, tokenCount - sequenceTokens);
    }
}
