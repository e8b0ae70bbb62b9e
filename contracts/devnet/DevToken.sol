// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {ERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Permit.sol";

/// @title A token worth nothing, for test networks only: anybody mints as much as they like.
contract DevToken is ERC20Permit {
    constructor() ERC20("Touchstone Devnet", "tDEV") ERC20Permit("Touchstone Devnet") {}

    /// @notice The faucet.
    /// @param to who gets them
    /// @param amountWei wei of the staked token
    function mint(address to, uint256 amountWei) external {
        _mint(to, amountWei);
    }
}
