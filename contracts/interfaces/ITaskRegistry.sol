// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Role, RoundStatus, TaskId, TaskTerms} from "../Types.sol";

/// @title Tasks, peers, enrolment and the beacon of each round (protocol steps 1 ENROL and 2 DEAL).
/// @notice A task is the bytes it was created with. A round starts with `advance`, takes enrolments for `windows.enrol` blocks, and
/// its beacon, the hash of a block fixed in advance, deals out shards and data after everybody is enrolled.
interface ITaskRegistry {
    event Announced(address indexed account, string url, bytes32 certificateSha256);
    event TaskCreated(TaskId indexed task, address indexed submitter, TaskTerms terms, bytes training);
    event RoundStarted(TaskId indexed task, uint32 indexed round, uint256 startBlock, bytes32 weightsRoot, bytes32 momentumRoot);
    event Enrolled(TaskId indexed task, uint32 indexed round, Role indexed role, address account, uint32 index);
    event BeaconSealed(TaskId indexed task, uint32 indexed round, bytes32 beacon);
    event RoundEmpty(TaskId indexed task, uint32 indexed round);
    event TaskClosed(TaskId indexed task, uint256 refundWei);

    error TaskExists(TaskId task);
    error TaskUnknown(TaskId task);
    error NotSubmitter(address expected, address actual);
    error BadTerms(bytes32 field, uint256 value);
    error WrongRound(uint32 expected, uint32 actual);
    error WrongStatus(uint8 expected, uint8 actual);
    error OutsideWindow(uint256 opensBlock, uint256 closesBlock, uint256 blockNumber);
    error AlreadyEnrolled(address account);
    error RoundFull(Role role, uint32 capacity);
    error TaskFinished(TaskId task);
    error NotYet(uint256 readyBlock, uint256 blockNumber);

    /// @notice Publishes where the caller serves blobs and the SHA-256 of its TLS certificate (DER). Overwrites.
    function announce(string calldata url, bytes32 certificateSha256) external;

    /// @notice Creates a task; pulls its whole escrow (`escrowFor`) from the submitter, who approved the vault. Round 0 starts at once.
    function createTask(TaskTerms calldata terms, bytes calldata training) external returns (TaskId task);

    /// @notice Enrols the caller in the current round. One role an account a round. Exposes solverStake or enrolStake.
    function enrol(TaskId task, uint32 round, Role role) external;

    /// @notice Fixes the beacon from the randomness of block enrolEnd + delay. With no solver or fewer than 3 verifiers the round is EMPTY.
    /// @dev Enrolled verifiers and solvers are disjoint sets (one role an account).
    /// @param proof shows that randomness (IRandomness.read); not looked at where the round is EMPTY
    function sealBeacon(TaskId task, uint32 round, bytes calldata proof) external;

    /// @notice Starts the next round once the last one is merged (and not contested) or EMPTY (beacon not sealed in time included). Anybody.
    function advance(TaskId task) external;

    /// @notice Refunds what is left of the escrow, once the last round is over and every claim and merge of every round is settled; where something
    /// stays unsettled, an unbonding time after the last round; in any case from `expiryBlock` on. Anybody.
    function closeTask(TaskId task) external;

    // Views -------------------------------------------------------------------------------------------------------
    function domainOf(TaskId task) external view returns (bytes32);
    function termsOf(TaskId task) external view returns (TaskTerms memory);
    /// @notice Block after which the task can be closed whatever happened; computable at its start.
    function expiryBlock(TaskId task) external view returns (uint256);
    function escrowFor(TaskTerms calldata terms) external pure returns (uint256);
    function currentRound(TaskId task) external view returns (uint32);
    function roundOf(TaskId task, uint32 round)
        external
        view
        returns (RoundStatus status, uint256 startBlock, bytes32 beacon, uint32 solvers, uint32 verifiers, uint32 whistleblowers);
    function enrolledAt(TaskId task, uint32 round, Role role, uint32 index) external view returns (address);
    /// @notice index + 1 of `account` among `role`, or 0.
    function indexOf(TaskId task, uint32 round, Role role, address account) external view returns (uint32);
    function shardOf(TaskId task, uint32 round, uint32 slot) external view returns (uint32);
    function peerOf(address account) external view returns (string memory url, bytes32 certificateSha256);
}
