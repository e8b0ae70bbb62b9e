// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Order} from "./Order.sol";

/// @notice What single pieces take, each by the gas left before and behind it.
contract Parts {
    uint256 private constant FEISTEL_ROUNDS = 6;

    /// @notice All places dealt at once, as the layouts do.
    function order(bytes32 seed, uint256 span, uint256 need) external view returns (uint256 used, uint256[] memory found) {
        uint256[] memory bitmap = new uint256[](span / 256 + 1);
        for (uint256 i = 0; i < bitmap.length; ++i) {
            bitmap[i] = type(uint256).max;
        }
        used = gasleft();
        found = Order.fisherYates(seed, span, bitmap, need);
        used -= gasleft();
    }

    /// @notice The same the plain way: an array that is filled first, a hash for each step.
    function orderPlain(bytes32 seed, uint256 span) external view returns (uint256 used) {
        used = gasleft();
        uint256[] memory found = new uint256[](span);
        for (uint256 i = 0; i < span; ++i) {
            found[i] = i;
        }
        for (uint256 i = 0; i < span; ++i) {
            uint256 j = i + uint256(sha256(abi.encode(bytes32("touchstone.uniform"), seed, i))) % (span - i);
            (found[i], found[j]) = (found[j], found[i]);
        }
        used -= gasleft();
    }

    /// @notice One place at a time: an additive Feistel network over rows * columns places, walked until it ends inside.
    /// A round's function is (a y + b mod 2^128) / 2^64 with its own key.
    function feistel(bytes32 seed, uint256 span, uint256 columns, uint256 x)
        external
        view
        returns (uint256 keyed, uint256 used, uint256 found)
    {
        keyed = gasleft();
        uint256[FEISTEL_ROUNDS] memory keys;
        for (uint256 i = 0; i < FEISTEL_ROUNDS; ++i) {
            keys[i] = uint256(Order.hash(seed, i));
        }
        keyed -= gasleft();
        used = gasleft();
        uint256 rows = (span + columns - 1) / columns;
        unchecked {
            do {
                (uint256 left, uint256 right) = (x / columns, x % columns);
                for (uint256 i = 0; i < FEISTEL_ROUNDS; i += 2) {
                    left = (left + _mix(keys[i], right)) % rows;
                    right = (right + _mix(keys[i + 1], left)) % columns;
                }
                x = left * columns + right;
            } while (x >= span);
        }
        used -= gasleft();
        found = x;
    }

    function _mix(uint256 key, uint256 y) private pure returns (uint256) {
        unchecked {
            return uint128(uint128(key) * uint128(y) + uint128(key >> 128)) >> 64;
        }
    }

    /// @notice A vote of twelve words as EIP-712 has it, as one Keccak, as the house's tagged SHA-256; then ecrecover.
    function digests(bytes32[11] calldata fields) external view returns (uint256[4] memory used) {
        used[0] = gasleft();
        bytes32 inner = keccak256(abi.encode(bytes32("type hash"), fields));
        bytes32 digest = keccak256(abi.encodePacked(hex"1901", bytes32("domain separator"), inner));
        used[0] -= gasleft();
        used[1] = gasleft();
        digest ^= keccak256(abi.encode(bytes32("touchstone.vote"), fields));
        used[1] -= gasleft();
        used[2] = gasleft();
        digest ^= sha256(abi.encode(bytes32("touchstone.vote"), fields));
        used[2] -= gasleft();
        used[3] = gasleft();
        address signer = ecrecover(digest, 27, fields[0], fields[1]);
        used[3] -= gasleft();
        if (signer == address(1)) revert();
    }
}
