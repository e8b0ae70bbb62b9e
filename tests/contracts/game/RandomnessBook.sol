// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IRandomness} from "../../../contracts/interfaces/IRandomness.sol";

/// @title The randomness of a block: what a test set for it, else a hash of its number. Its proof is the word "proof".
contract RandomnessBook is IRandomness {
    mapping(uint256 => bytes32) private _values;

    function set(uint256 ofBlock, bytes32 value) external {
        _values[ofBlock] = value;
    }

    function valueAt(uint256 ofBlock) public view returns (bytes32) {
        return _values[ofBlock] == 0 ? keccak256(abi.encode("block", ofBlock)) : _values[ofBlock];
    }

    function read(uint256 ofBlock, bytes calldata proof) external view returns (bytes32) {
        if (block.number <= ofBlock) revert RandomnessPending(ofBlock, block.number);
        if (keccak256(proof) != keccak256("proof")) revert ProofTooShort(5, proof.length);
        return valueAt(ofBlock);
    }

    function drandRound(uint256) external pure returns (uint64) {
        return 0;
    }
}
