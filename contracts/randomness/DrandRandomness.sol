// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IRandomness} from "../interfaces/IRandomness.sol";
import {BlockHeader} from "../libraries/BlockHeader.sol";
import {Quicknet} from "../libraries/Quicknet.sol";
import {BLS} from "solady/utils/ext/ithaca/BLS.sol";

/// @title The prevrandao of a block mixed with a drand round that was signed after it.
/// @notice When somebody could still change the block, nobody knew the round; the block's time fixes which round it is. Whoever would choose
/// must have both: the block and a threshold of drand's nodes. For chains with EIP-2537.
contract DrandRandomness is IRandomness {
    uint256 private constant POINT_BYTES = 128;

    /// @inheritdoc IRandomness
    /// @param proof the signature as a point of G1 (EIP-2537), then the header
    function read(uint256 ofBlock, bytes calldata proof) external view returns (bytes32 randomness) {
        if (proof.length < POINT_BYTES) revert ProofTooShort(POINT_BYTES, proof.length);
        (bytes32 prevrandao, uint256 timestamp) = BlockHeader.read(ofBlock, proof[POINT_BYTES:]);
        BLS.G1Point memory signature = abi.decode(proof[:POINT_BYTES], (BLS.G1Point));
        uint64 round = Quicknet.roundAfter(timestamp);
        if (!Quicknet.verify(round, signature)) revert WrongSignature(round);
        return sha256(abi.encode(prevrandao, Quicknet.randomness(signature)));
    }

    /// @inheritdoc IRandomness
    function drandRound(uint256 timestamp_) external pure returns (uint64) {
        return Quicknet.roundAfter(timestamp_);
    }
}
