// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../Types.sol";

/// @title What is open on seats: asks, or disputes.
interface IQuestions {
    /// @notice Open ones on a seat, by epoch of the round that they are about (`OpenCounts`).
    /// @param task the task
    /// @param seat id of the seat
    /// @return counts a count an epoch
    function openOn(TaskId task, uint256 seat) external view returns (uint256 counts);
}
