// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IRandomness} from "../interfaces/IRandomness.sol";
import {BlockHeader} from "../libraries/BlockHeader.sol";

/// @title The prevrandao of a block, out of its header.
/// @notice Unlike the block's hash, which its builder may try out at will, it has one value for each choice of who publishes its block and who
/// does not (docs/decisions/0020-randomness.md). For chains whose prevrandao comes from their validators' RANDAO.
contract BlockRandomness is IRandomness {
    /// @inheritdoc IRandomness
    function read(uint256 ofBlock, bytes calldata proof) external view returns (bytes32 randomness) {
        (randomness,) = BlockHeader.read(ofBlock, proof);
    }

    /// @inheritdoc IRandomness
    function drandRound(uint256) external pure returns (uint64) {
        return 0;
    }
}
