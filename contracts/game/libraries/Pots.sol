// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../Types.sol";

/// @title Names of the pots in the vault. Which part of a pot is whose stands in the module that fills it.
library Pots {
    /// @notice What a task can still pay.
    function escrow(TaskId task) internal pure returns (bytes32) {
        return keccak256(abi.encode("escrow", task));
    }

    /// @notice The stakes of all seats of a task.
    function stakes(TaskId task) internal pure returns (bytes32) {
        return keccak256(abi.encode("stakes", task));
    }

    /// @notice The bonds of all open queries, disputes and contests of a task.
    function bonds(TaskId task) internal pure returns (bytes32) {
        return keccak256(abi.encode("bonds", task));
    }

    /// @notice What was paid in for the holders of a task's shares, and they have not claimed.
    function revenue(TaskId task) internal pure returns (bytes32) {
        return keccak256(abi.encode("revenue", task));
    }

    /// @notice What slashes have left. It pays for work that a fall undoes; what is left when the task closes is burned.
    function held(TaskId task) internal pure returns (bytes32) {
        return keccak256(abi.encode("held", task));
    }

    /// @notice What falls have set aside for accepted claims of the rounds that they undid.
    function restitution(TaskId task) internal pure returns (bytes32) {
        return keccak256(abi.encode("restitution", task));
    }
}
