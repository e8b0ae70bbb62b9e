// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../Types.sol";
import {GameTerms} from "../GameTypes.sol";
import {ITasks} from "../interfaces/ITasks.sol";

/// @title Reads the terms of a task without decoding them word by word, which every move would pay for.
/// @dev `Tasks` encoded them itself and nobody can change them, so there is nothing left to check. Encoded they are 47 words in a row; in memory a
/// struct within a struct is a pointer. So the first 21 words are copied and the three structs behind them are pointed at.
library GameTermsCode {
    uint256 private constant ENCODED_BYTES = 47 * 32;
    uint256 private constant OWN_BYTES = 21 * 32;
    uint256 private constant WINDOWS_BYTES = 9 * 32;
    uint256 private constant AMOUNTS_BYTES = 11 * 32;
    uint256 private constant POINTERS_BYTES = 3 * 32;

    /// @notice The answer of `Tasks` is not the encoding of terms.
    /// @param expectedBytes length that is due
    /// @param actualBytes length that was given
    /// @custom:remedy Report it.
    error WrongTermsBytes(uint256 expectedBytes, uint256 actualBytes);

    /// @notice The terms of a task; reverts as `Tasks` does where there is no such task.
    function load(ITasks tasks, TaskId task) internal view returns (GameTerms memory terms) {
        bytes4 selector = ITasks.termsOf.selector;
        uint256 encoded;
        uint256 size;
        assembly ("memory-safe") {
            encoded := mload(0x40)
            mstore(encoded, selector)
            mstore(add(encoded, 4), task)
            let found := staticcall(gas(), tasks, encoded, 36, 0, 0)
            size := returndatasize()
            returndatacopy(encoded, 0, size)
            if iszero(found) { revert(encoded, size) }
            mstore(0x40, add(encoded, size))
        }
        if (size != ENCODED_BYTES) revert WrongTermsBytes(ENCODED_BYTES, size);
        return _pointAt(encoded);
    }

    /// @notice The same of an encoding in memory.
    function decode(bytes memory encoded) internal pure returns (GameTerms memory) {
        if (encoded.length != ENCODED_BYTES) revert WrongTermsBytes(ENCODED_BYTES, encoded.length);
        uint256 place;
        assembly ("memory-safe") {
            place := add(encoded, 32)
        }
        return _pointAt(place);
    }

    /// @param encoded where in memory the words lie
    function _pointAt(uint256 encoded) private pure returns (GameTerms memory terms) {
        assembly ("memory-safe") {
            terms := mload(0x40)
            mstore(0x40, add(terms, add(OWN_BYTES, POINTERS_BYTES)))
            mcopy(terms, encoded, OWN_BYTES)
            let pointers := add(terms, OWN_BYTES)
            let place := add(encoded, OWN_BYTES)
            mstore(pointers, place)
            place := add(place, WINDOWS_BYTES)
            mstore(add(pointers, 32), place)
            mstore(add(pointers, 64), add(place, AMOUNTS_BYTES))
        }
    }
}
