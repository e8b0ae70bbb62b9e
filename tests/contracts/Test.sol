// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Vm} from "./Vm.sol";

/// @title Assertions of these tests. A failed one reverts with both values and what they are about.
abstract contract Test {
    error NotEqual(string what, bytes32 expected, bytes32 actual);
    error NotTrue(string what);

    /// @dev Tells forge that this is a test contract.
    bool public constant IS_TEST = true;
    Vm internal constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));

    function assertTrue(bool condition, string memory what) internal pure {
        if (!condition) revert NotTrue(what);
    }

    function assertEq(bytes32 actual, bytes32 expected, string memory what) internal pure {
        if (actual != expected) revert NotEqual(what, expected, actual);
    }

    function assertEq(uint256 actual, uint256 expected, string memory what) internal pure {
        assertEq(bytes32(actual), bytes32(expected), what);
    }

    function assertEq(address actual, address expected, string memory what) internal pure {
        assertEq(uint256(uint160(actual)), uint256(uint160(expected)), what);
    }

    function assertEq(bool actual, bool expected, string memory what) internal pure {
        assertEq(uint256(actual ? 1 : 0), uint256(expected ? 1 : 0), what);
    }

    function assertEq(bytes memory actual, bytes memory expected, string memory what) internal pure {
        assertEq(keccak256(actual), keccak256(expected), what);
    }

    function assertEq(uint256[] memory actual, uint256[] memory expected, string memory what) internal pure {
        assertEq(abi.encode(actual), abi.encode(expected), what);
    }

    /// @dev Maps any number into low .. high. `vm.bound` rejects instead, and starves a fuzz run.
    function bound(uint256 value, uint256 low, uint256 high) internal pure returns (uint256) {
        uint256 width = high - low + 1;
        return width == 0 ? value : low + value % width;
    }

    /// @dev An account that nobody else is.
    function actor(string memory name) internal pure returns (address) {
        return address(uint160(uint256(keccak256(bytes(name)))));
    }
}
