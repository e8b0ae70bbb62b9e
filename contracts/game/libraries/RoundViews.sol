// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../Types.sol";
import {RoundView} from "../GameTypes.sol";
import {IRounds} from "../interfaces/IRounds.sol";

/// @title Reads a round without decoding it field by field: the compiler's decoder of so many fields weighs half a kilobyte in each contract.
/// @dev `Rounds` encodes it and is trusted, so there is nothing to check. A static struct lies in memory as it is encoded.
library RoundViews {
    uint256 private constant ENCODED_BYTES = 17 * 32;

    /// @notice The answer of `Rounds` is not the encoding of a round.
    /// @param expectedBytes length that is due
    /// @param actualBytes length that was given
    /// @custom:remedy Report it.
    error WrongRoundBytes(uint256 expectedBytes, uint256 actualBytes);

    /// @notice An opened round; reverts as `Rounds` does.
    function load(IRounds rounds, TaskId task, uint256 round) internal view returns (RoundView memory view_) {
        bytes4 selector = IRounds.roundOf.selector;
        uint256 size;
        assembly ("memory-safe") {
            let place := mload(0x40)
            mstore(place, selector)
            mstore(add(place, 4), task)
            mstore(add(place, 36), round)
            let found := staticcall(gas(), rounds, place, 68, 0, 0)
            size := returndatasize()
            returndatacopy(place, 0, size)
            if iszero(found) { revert(place, size) }
            mstore(0x40, add(place, size))
            view_ := place
        }
        if (size != ENCODED_BYTES) revert WrongRoundBytes(ENCODED_BYTES, size);
    }
}
