// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @title SHA-256 of what lies in memory, without the compiler's copies.
library Sha256 {
    /// @notice The chain's SHA-256 did not answer.
    /// @dev The precompile had not even the gas for one hash.
    error HashFailed();

    /// @notice Of `length` bytes of memory at `place`.
    /// @dev The precompile reads no state, yet `staticcall` makes `_digest` a view. So assembly takes the pointer to it for one to a pure function.
    function digest(uint256 place, uint256 length) internal pure returns (bytes32) {
        function(uint256, uint256) view returns (bytes32) reads = _digest;
        function(uint256, uint256) pure returns (bytes32) computes;
        assembly ("memory-safe") {
            computes := reads
        }
        return computes(place, length);
    }

    /// @dev Calls the precompile of SHA-256, address 2, which writes its answer to scratch space. `sha256(bytes)` would copy the message to free memory first.
    function _digest(uint256 place, uint256 length) private view returns (bytes32 hash) {
        bool ok;
        assembly ("memory-safe") {
            ok := staticcall(gas(), 2, place, length, 0, 32)
            hash := mload(0)
        }
        if (!ok) revert HashFailed();
    }
}
