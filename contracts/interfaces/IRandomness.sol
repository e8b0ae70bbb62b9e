// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @title One value for each block that nobody could choose: where the seeds of all draws come from (docs/spec.md, section 4).
/// @notice `read` is a function of the block alone: whatever proof it takes, there is one value, so that a second reading is no second draw.
/// It keeps nothing; whoever records a draw hands the proof in and stores the seed.
interface IRandomness {
    /// @notice The block is not behind yet.
    /// @param ofBlock the block whose randomness is asked for
    /// @param blockNumber the block of the call
    error RandomnessPending(uint256 ofBlock, uint256 blockNumber);
    /// @notice The chain has forgotten the block's hash.
    /// @param blockNumber the block that is asked for
    error RandomnessGone(uint256 blockNumber);
    /// @notice The proof is another block's header.
    /// @param expectedHash hash of the block
    /// @param actualHash hash of the given header
    error WrongHeader(bytes32 expectedHash, bytes32 actualHash);
    /// @notice The header is no header.
    /// @param atByte where it breaks off
    error HeaderMalformed(uint256 atByte);
    /// @notice The proof lacks a part.
    /// @param expectedBytes length that is due
    /// @param actualBytes length that was given
    error ProofTooShort(uint256 expectedBytes, uint256 actualBytes);
    /// @notice The signature is not that of the drand round.
    /// @param drandRound the round that the block's time gives
    error WrongSignature(uint64 drandRound);

    /// @notice The value of block `ofBlock`. Reverts with RandomnessPending until the block is behind, with RandomnessGone once the chain has
    /// forgotten its hash: after 8,191 blocks where it has EIP-2935, after 256 elsewhere.
    /// @param ofBlock the block whose randomness is asked for
    /// @param proof what shows the value: the block's header (RLP), with drand its signature in front (128 bytes, a point of G1 as in EIP-2537)
    /// @return randomness the value
    function read(uint256 ofBlock, bytes calldata proof) external view returns (bytes32 randomness);

    /// @notice The drand round (quicknet) whose signature belongs to a block of this time; 0 where the header alone is the proof.
    /// @param timestamp_ of the block, Unix time in seconds
    /// @return the round; 0: none is needed
    function drandRound(uint256 timestamp_) external view returns (uint64);
}
