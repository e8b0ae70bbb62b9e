// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../Types.sol";
import {DeploymentBounds, GameTerms} from "../GameTypes.sol";

/// @title Tasks: what they are, their escrow, and when they are closed.
interface ITasks {
    /// @notice Where a node is reached.
    /// @param account whose it is
    /// @param url https address
    /// @param certificateSha256 of the certificate that the server shows
    event Announced(address indexed account, string url, bytes32 certificateSha256);
    /// @notice A task was posted and funded.
    /// @param task the task
    /// @param submitter who posted it
    /// @param terms what the contracts must know of it
    /// @param training the rest of the task's text
    /// @param escrowWei what it can pay at most
    event TaskPosted(TaskId indexed task, address indexed submitter, GameTerms terms, bytes training, uint256 escrowWei);
    /// @notice A task is closed; what was left of its escrow is the submitter's credit.
    /// @param task the task
    /// @param refundWei what goes back
    event TaskClosed(TaskId indexed task, uint256 refundWei);

    /// @notice There is a task with these bytes.
    /// @param task the task
    /// @custom:remedy Choose another salt.
    error TaskExists(TaskId task);

    /// @notice Tells where the sender's node is reached.
    /// @param url https address
    /// @param certificateSha256 of the certificate that the server shows
    function announce(string calldata url, bytes32 certificateSha256) external;

    /// @notice Posts a task and funds it from the submitter's credit.
    /// @param terms what the contracts must know of it
    /// @param training the rest of the task's text, opaque here
    /// @return task SHA-256 of its canonical bytes
    function postTask(GameTerms calldata terms, bytes calldata training) external returns (TaskId task);

    /// @notice Returns what is left of the escrow once the task is over, all seats are paid out and nothing is open. Anybody may call it.
    /// @param task the task
    function closeTask(TaskId task) external;

    /// @notice The terms of a task. Reverts with TaskUnknown.
    /// @param task the task
    /// @return as they were posted
    function termsOf(TaskId task) external view returns (GameTerms memory);

    /// @notice What a task can pay at most: what its submitter funds.
    /// @param terms what the contracts must know of it
    /// @return wei
    function escrowFor(GameTerms calldata terms) external pure returns (uint256);

    /// @notice Keeps statements about this task apart from all others.
    /// @param task the task
    /// @return a hash of chain, contract and task
    function domainOf(TaskId task) external view returns (bytes32);

    /// @notice The constants of this deployment.
    /// @return as they were deployed
    function bounds() external view returns (DeploymentBounds memory);

    /// @notice Whether a task is closed.
    /// @param task the task
    /// @return true: it is
    function isClosed(TaskId task) external view returns (bool);

    /// @notice Where a node said that it is reached.
    /// @param account whose it is
    /// @return url https address
    /// @return certificateSha256 of the certificate
    function peerOf(address account) external view returns (string memory url, bytes32 certificateSha256);
}
