// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../Types.sol";
import {IRounds} from "../interfaces/IRounds.sol";
import {IVotes} from "../interfaces/IVotes.sol";

/// @title Lists of static structs between modules, without encoding and decoding them field by field.
/// @dev A list in memory is its length and a pointer for each struct; the structs of a list that `new` made lie behind the pointers, one behind the other,
/// as they are encoded: a clean word a field. Modules trust one another, so there is nothing to check.
library StructLists {
    uint256 private constant FACT_WORDS = 8;
    uint256 private constant END_WORDS = 5;

    /// @notice `IRounds.factsOf`.
    function loadFacts(IRounds rounds, TaskId task, uint256 first, uint256 last)
        internal
        view
        returns (IRounds.Facts[] memory facts)
    {
        uint256 list = _load(address(rounds), IRounds.factsOf.selector, task, first, last, FACT_WORDS);
        assembly ("memory-safe") {
            facts := list
        }
    }

    /// @notice `IVotes.endsOf`.
    function loadEnds(IVotes votes, TaskId task, uint256 first, uint256 last)
        internal
        view
        returns (IVotes.Ends[] memory ends)
    {
        uint256 list = _load(address(votes), IVotes.endsOf.selector, task, first, last, END_WORDS);
        assembly ("memory-safe") {
            ends := list
        }
    }

    /// @notice Ends the call with facts that `new` made.
    function send(IRounds.Facts[] memory facts) internal pure {
        uint256 list;
        assembly ("memory-safe") {
            list := facts
        }
        _send(list, FACT_WORDS);
    }

    /// @notice Ends the call with ends that `new` made.
    function send(IVotes.Ends[] memory ends) internal pure {
        uint256 list;
        assembly ("memory-safe") {
            list := ends
        }
        _send(list, END_WORDS);
    }

    /// @param list where it lies; of any length, since what is overwritten before the structs is of no use any more
    function _send(uint256 list, uint256 words) private pure {
        assembly ("memory-safe") {
            let count := mload(list)
            let encoded := sub(add(list, shl(5, count)), 32)
            mstore(encoded, 32)
            mstore(add(encoded, 32), count)
            return(encoded, add(64, mul(count, shl(5, words))))
        }
    }

    function _load(address module, bytes4 selector, TaskId task, uint256 first, uint256 last, uint256 words)
        private
        view
        returns (uint256 list)
    {
        assembly ("memory-safe") {
            let place := mload(0x40)
            mstore(place, selector)
            mstore(add(place, 4), task)
            mstore(add(place, 36), first)
            mstore(add(place, 68), last)
            let found := staticcall(gas(), module, place, 100, 0, 0)
            let size := returndatasize()
            returndatacopy(place, 0, size)
            if iszero(found) { revert(place, size) }
            let count := mload(add(place, 32))
            // A pointer to each struct, behind all of them.
            list := add(place, size)
            mstore(0x40, add(list, shl(5, add(count, 1))))
            mstore(list, count)
            let structs := add(place, 64)
            for { let i := 0 } lt(i, count) { i := add(i, 1) } {
                mstore(add(add(list, 32), shl(5, i)), add(structs, mul(i, shl(5, words))))
            }
        }
    }
}
