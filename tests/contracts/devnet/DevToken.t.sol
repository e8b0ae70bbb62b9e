// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {DevToken} from "../../../contracts/devnet/DevToken.sol";
import {Test} from "../Test.sol";

/// @title The faucet of test networks.
contract DevTokenTest is Test {
    function test_mint_byAnybody_givesWhatWasAsked() public {
        DevToken token = new DevToken();
        address somebody = actor("somebody");
        vm.prank(actor("another"));
        token.mint(somebody, 12);
        token.mint(somebody, 30);
        assertEq(token.balanceOf(somebody), 42, "both");
        assertEq(token.totalSupply(), 42, "no more was made");
        assertEq(bytes(token.symbol()), "tDEV", "symbol");
    }

    /// @dev What a wallet signs for a deposit without a transaction of its own.
    function test_permit_signed_allows() public {
        DevToken token = new DevToken();
        address owner = vm.addr(7);
        bytes32 hash = keccak256(
            abi.encode(
                keccak256(
                    "Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)"
                ),
                owner,
                address(this),
                5,
                0,
                block.timestamp
            )
        );
        (uint8 v, bytes32 r, bytes32 s) =
            vm.sign(7, keccak256(abi.encodePacked(hex"1901", token.DOMAIN_SEPARATOR(), hash)));
        token.permit(owner, address(this), 5, block.timestamp, v, r, s);
        assertEq(token.allowance(owner, address(this)), 5, "allowed");
    }
}
