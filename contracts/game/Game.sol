// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {DeploymentBounds} from "./GameTypes.sol";
import {GameStorage} from "./GameStorage.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {Address} from "@openzeppelin/contracts/utils/Address.sol";

/// @notice A part of the game's code, and the selectors of its functions.
struct Part {
    address code;
    bytes4[] selectors;
}

/// @title The game of a deployment: one address, one storage. The code of each call lies in a part, because all of it does not fit one contract.
/// @dev Which part has a function is decided at creation and never changes. A part runs on this contract's storage (DELEGATECALL) and is of no use
/// by itself: called directly, it works on its own storage, which is empty. `IGame` lists all functions, events and errors.
contract Game is GameStorage {
    /// @notice No part has this function.
    /// @param selector of the call
    /// @custom:remedy Call a function of `IGame`.
    error CallUnknown(bytes4 selector);

    /// @notice Two parts have the same function, or one has it twice.
    /// @param selector of the function
    /// @custom:remedy Give each part functions of its own.
    error CallTaken(bytes4 selector);

    constructor(Part[] memory parts, DeploymentBounds memory bounds_) {
        for (uint256 i = 0; i < parts.length; ++i) {
            bytes4[] memory selectors = parts[i].selectors;
            for (uint256 j = 0; j < selectors.length; ++j) {
                if (_partOf[selectors[j]] != address(0)) revert CallTaken(selectors[j]);
                _partOf[selectors[j]] = parts[i].code;
            }
        }
        // The specification has this bound (section 15). No field needs it: blocks are kept in 40 bits.
        if (bounds_.windowMax > type(uint24).max / 2) {
            revert IRefusals.WindowTooLong("windowMax", type(uint24).max / 2, bounds_.windowMax);
        }
        // A stake is kept in so many bits.
        if (bounds_.amountMax > type(uint96).max) {
            revert IRefusals.AmountTooLarge("amountMax", type(uint96).max, bounds_.amountMax);
        }
        _bounds = bounds_;
    }

    fallback(bytes calldata call_) external returns (bytes memory answer) {
        address part = _partOf[msg.sig];
        if (part == address(0)) revert CallUnknown(msg.sig);
        return Address.functionDelegateCall(part, call_);
    }
}
