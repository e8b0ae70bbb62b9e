// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId, TaskTerms} from "../Types.sol";
import {ITaskRegistry} from "../interfaces/ITaskRegistry.sol";

/// @title Reads the terms of a task without decoding them word by word, which every move would pay for.
/// @dev The registry encoded them itself and nobody can change them, so there is nothing left to check. Encoded they are 56 words in a row;
/// in memory a struct within a struct is a pointer. So the first 19 words are copied and the four structs behind them are pointed at.
library Terms {
    uint256 private constant ENCODED_BYTES = 56 * 32;
    uint256 private constant OWN_BYTES = 19 * 32;
    uint256 private constant WINDOWS_BYTES = 13 * 32;
    uint256 private constant AMOUNTS_BYTES = 12 * 32;
    uint256 private constant LIMITS_BYTES = 6 * 32;
    uint256 private constant POINTERS_BYTES = 4 * 32;

    /// @notice What the registry answers is no task's terms.
    /// @dev The answer of the registry is not the encoding of terms.
    /// @param expected bytes of terms
    /// @param actual bytes of the answer
    error WrongTermsBytes(uint256 expected, uint256 actual);

    /// @notice The terms of a task; reverts as the registry does where there is no such task.
    function load(ITaskRegistry registry, TaskId task) internal view returns (TaskTerms memory terms) {
        bytes4 selector = ITaskRegistry.termsOf.selector;
        uint256 encoded;
        uint256 size;
        assembly ("memory-safe") {
            encoded := mload(0x40)
            mstore(encoded, selector)
            mstore(add(encoded, 4), task)
            let found := staticcall(gas(), registry, encoded, 36, 0, 0)
            size := returndatasize()
            returndatacopy(encoded, 0, size)
            if iszero(found) { revert(encoded, size) }
            mstore(0x40, add(encoded, size))
        }
        if (size != ENCODED_BYTES) revert WrongTermsBytes(ENCODED_BYTES, size);
        return _pointAt(encoded);
    }

    /// @notice The same of an encoding in memory.
    function decode(bytes memory encoded) internal pure returns (TaskTerms memory) {
        if (encoded.length != ENCODED_BYTES) revert WrongTermsBytes(ENCODED_BYTES, encoded.length);
        uint256 place;
        assembly ("memory-safe") {
            place := add(encoded, 32)
        }
        return _pointAt(place);
    }

    /// @param encoded where in memory the 56 words lie
    function _pointAt(uint256 encoded) private pure returns (TaskTerms memory terms) {
        assembly ("memory-safe") {
            terms := mload(0x40)
            mstore(0x40, add(terms, add(OWN_BYTES, POINTERS_BYTES)))
            mcopy(terms, encoded, OWN_BYTES)
            let pointers := add(terms, OWN_BYTES)
            let place := add(encoded, OWN_BYTES)
            mstore(pointers, place)
            place := add(place, WINDOWS_BYTES)
            mstore(add(pointers, 32), place)
            place := add(place, AMOUNTS_BYTES)
            mstore(add(pointers, 64), place)
            mstore(add(pointers, 96), add(place, LIMITS_BYTES))
        }
    }
}
