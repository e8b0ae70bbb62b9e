// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../Types.sol";
import {ISeats} from "../interfaces/ISeats.sol";

/// @title Reads `ISeats.voterAccounts` without encoding and decoding it word by word.
/// @dev `Tasks` encodes it and is trusted, so there is nothing to check.
library Voters {
    /// @notice Accounts of seats in the order asked for, a word each; 0 where nobody may vote.
    function load(ISeats seatBook, TaskId task, uint256[] memory seats)
        internal
        view
        returns (uint256[] memory accounts)
    {
        bytes4 selector = ISeats.voterAccounts.selector;
        assembly ("memory-safe") {
            let place := mload(0x40)
            // The length and its words.
            let size := shl(5, add(mload(seats), 1))
            mstore(place, selector)
            mstore(add(place, 4), task)
            mstore(add(place, 36), 64)
            mcopy(add(place, 68), seats, size)
            let found := staticcall(gas(), seatBook, place, add(68, size), 0, 0)
            size := returndatasize()
            returndatacopy(place, 0, size)
            if iszero(found) { revert(place, size) }
            mstore(0x40, add(place, size))
            // An array lies in memory as it is encoded, behind one word that says where it begins.
            accounts := add(place, 32)
        }
    }
}
