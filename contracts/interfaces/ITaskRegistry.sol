// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Role, RoundStatus, TaskId, TaskTerms} from "../Types.sol";

/// @title Tasks, peers, enrolment and the beacon of each round (protocol steps 1 ENROL and 2 DEAL).
/// @notice A task is the bytes it was created with. A round starts with `advance`, takes enrolments for `windows.enrol` blocks, and
/// its beacon, the hash of a block fixed in advance, deals out shards and data after everybody is enrolled.
interface ITaskRegistry {
    /// @notice An account said where it can be reached.
    /// @param account whose
    /// @param url where the account serves blobs
    /// @param certificateSha256 SHA-256 of its TLS certificate (DER)
    event Announced(address indexed account, string url, bytes32 certificateSha256);
    /// @notice A task was posted and funded.
    /// @param task the task
    /// @param submitter who posted and funds the task
    /// @param terms what the contracts must know of the task
    /// @param training the rest of the task's spec, opaque to the contracts
    event TaskCreated(TaskId indexed task, address indexed submitter, TaskTerms terms, bytes training);
    /// @notice A round takes enrolments.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param startBlock the block in which the round started
    /// @param weightsRoot tensor tree of the weights that it starts from
    /// @param momentumRoot tensor tree of the momentum that it starts from
    event RoundStarted(TaskId indexed task, uint32 indexed round, uint256 startBlock, bytes32 weightsRoot, bytes32 momentumRoot);
    /// @notice An account takes part in a round.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param role the role
    /// @param account whose
    /// @param index its index among those of its role
    event Enrolled(TaskId indexed task, uint32 indexed round, Role indexed role, address account, uint32 index);
    /// @notice Shards and data of a round are dealt.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param beacon seed of the deal
    event BeaconSealed(TaskId indexed task, uint32 indexed round, bytes32 beacon);
    /// @notice A round has nobody to train or to audit it.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    event RoundEmpty(TaskId indexed task, uint32 indexed round);
    /// @notice A task is over.
    /// @param task the task
    /// @param refundWei what went back to the submitter, wei of the staked token
    event TaskClosed(TaskId indexed task, uint256 refundWei);

    /// @notice There is this very task; another salt makes another one.
    /// @param task the task
    error TaskExists(TaskId task);
    /// @notice There is no such task.
    /// @param task the task
    error TaskUnknown(TaskId task);
    /// @notice Only who is named in the terms can post the task.
    /// @param expected who is named
    /// @param actual who called
    error NotSubmitter(address expected, address actual);
    /// @notice The terms break a rule (`TermsCheck`).
    /// @param field the field, as right-padded ASCII
    /// @param value what it holds
    error BadTerms(bytes32 field, uint256 value);
    /// @notice Another round is the current one.
    /// @param expected the current one
    /// @param actual what was given
    error WrongRound(uint32 expected, uint32 actual);
    /// @notice The round is not where this call belongs.
    /// @param expected RoundStatus that the call needs
    /// @param actual RoundStatus that it has
    error WrongStatus(uint8 expected, uint8 actual);
    /// @notice Too early or too late.
    /// @param opensBlock first block in which it is allowed
    /// @param closesBlock first block in which it is too late
    /// @param blockNumber the block of the call
    error OutsideWindow(uint256 opensBlock, uint256 closesBlock, uint256 blockNumber);
    /// @notice One role an account a round.
    /// @param account who called
    error AlreadyEnrolled(address account);
    /// @notice Nobody else fits in this role.
    /// @param role the role
    /// @param capacity how many do
    error RoundFull(Role role, uint32 capacity);
    /// @notice There is no round after the last.
    /// @param task the task
    error TaskFinished(TaskId task);
    /// @notice Too early.
    /// @param readyBlock first block in which it is allowed
    /// @param blockNumber the block of the call
    error NotYet(uint256 readyBlock, uint256 blockNumber);

    /// @notice Publishes where the caller serves blobs and the SHA-256 of its TLS certificate (DER). Overwrites.
    /// @param url where the account serves blobs
    /// @param certificateSha256 SHA-256 of its TLS certificate (DER)
    function announce(string calldata url, bytes32 certificateSha256) external;

    /// @notice Creates a task; pulls its whole escrow (`escrowFor`) from the submitter, who approved the vault. Round 0 starts at once.
    /// @param terms what the contracts must know of the task
    /// @param training the rest of the task's spec, opaque to the contracts
    /// @return task its id: SHA-256 of its canonical bytes
    function createTask(TaskTerms calldata terms, bytes calldata training) external returns (TaskId task);

    /// @notice Enrols the caller in the current round. One role an account a round. Exposes solverStake or enrolStake.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param role the role
    function enrol(TaskId task, uint32 round, Role role) external;

    /// @notice Fixes the beacon from the randomness of block enrolEnd + delay. With no solver or fewer than 3 verifiers the round is EMPTY.
    /// @dev Enrolled verifiers and solvers are disjoint sets (one role an account).
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param proof shows that randomness (IRandomness.read); not looked at where the round is EMPTY
    function sealBeacon(TaskId task, uint32 round, bytes calldata proof) external;

    /// @notice Starts the next round once the last one is merged (and not contested) or EMPTY (beacon not sealed in time included). Anybody.
    /// @param task the task
    function advance(TaskId task) external;

    /// @notice Refunds what is left of the escrow, once the last round is over and every claim and merge of every round is settled; where something
    /// stays unsettled, an unbonding time after the last round; in any case from `expiryBlock` on. Anybody.
    /// @param task the task
    function closeTask(TaskId task) external;

    // Views -------------------------------------------------------------------------------------------------------
    /// @notice What binds signatures and draws to chain, registry and task.
    /// @param task the task
    /// @return the domain
    function domainOf(TaskId task) external view returns (bytes32);
    /// @notice The terms of a task.
    /// @param task the task
    /// @return as they were posted
    function termsOf(TaskId task) external view returns (TaskTerms memory);
    /// @notice Block after which the task can be closed whatever happened; computable at its start.
    /// @param task the task
    /// @return the block
    function expiryBlock(TaskId task) external view returns (uint256);
    /// @notice What a task with these terms can cost its submitter at most.
    /// @param terms what the contracts must know of the task
    /// @return wei of the staked token
    function escrowFor(TaskTerms calldata terms) external pure returns (uint256);
    /// @notice The round that was started last.
    /// @param task the task
    /// @return its index, from 0
    function currentRound(TaskId task) external view returns (uint32);
    /// @notice A round as far as enrolment and beacon go.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @return status where it stands
    /// @return startBlock the block in which it started
    /// @return beacon seed of its deal; 0: not sealed
    /// @return solvers how many are enrolled
    /// @return verifiers how many are enrolled
    /// @return whistleblowers how many are enrolled
    function roundOf(TaskId task, uint32 round)
        external
        view
        returns (RoundStatus status, uint256 startBlock, bytes32 beacon, uint32 solvers, uint32 verifiers, uint32 whistleblowers);
    /// @notice Who is enrolled.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param role the role
    /// @param index index among those of the role
    /// @return 0: nobody
    function enrolledAt(TaskId task, uint32 round, Role role, uint32 index) external view returns (address);
    /// @notice index + 1 of `account` among `role`, or 0.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param role the role
    /// @param account the one asked about
    /// @return 0: not enrolled in this role
    function indexOf(TaskId task, uint32 round, Role role, address account) external view returns (uint32);
    /// @notice Which part of the data a slot trains on. Needs the beacon.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @return index of the shard
    function shardOf(TaskId task, uint32 round, uint32 slot) external view returns (uint32);
    /// @notice Where an account can be reached, as it announced.
    /// @param account the one asked about
    /// @return url where it serves blobs
    /// @return certificateSha256 SHA-256 of its TLS certificate (DER)
    function peerOf(address account) external view returns (string memory url, bytes32 certificateSha256);
}
