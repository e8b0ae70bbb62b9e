// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @title Enumerations and numbers of the rules.
/// @dev Written by `python -m tools.tables` from `protocol/spec`: change them there.

/// @notice The role of a seat. The id of a seat is role << 16 | number.
enum SeatRole {
    NONE,
    SOLVER,
    VERIFIER,
    WHISTLEBLOWER
}

/// @notice The status of a seat. ACTIVE takes part in coming pools. LEAVING serves only in frozen pools, then its stake is paid out. CONVICTED lost its stake,
/// and nothing that it does from then on counts.
enum SeatStatus {
    NONE,
    ACTIVE,
    LEAVING,
    CONVICTED
}

/// @notice The phase of a round. RUNNING lasts until its root is posted or its base root stands. FALLEN means that its posted root lost a contest and it waits
/// for a new majority. UNDONE means that an earlier root fell, so it merges nothing and pays no solver; auditors are paid for what was opened before.
enum Phase {
    NONE,
    RUNNING,
    POSTED,
    STANDING,
    FALLEN,
    UNDONE
}

/// @notice Why a seat was convicted. CARRIED_ROOT: the claim's carried root does not belong to its last boundary. TWO_STATEMENTS: two votes, two seals, or a
/// vote and a seal of one draw and rank differ. FALSE_WORD: the opened data show that a REJECT_DELTA or REJECT_START is wrong.
enum Proof {
    NONE,
    BOUNDARY_ZERO,
    DELTA_LEAF,
    CARRIED_ROOT,
    VOTE_LEAF,
    TWO_STATEMENTS,
    FALSE_WORD,
    DISPUTED,
    QUERIED,
    WRONG_MERGE
}

/// @dev The auditors of one draw: the primary (rank 0) and two reserves (1, 2).
uint256 constant RANKS = 3;

/// @dev The rounds of an epoch, whose pay the contract adds up in one place. A seat settles its part of an epoch at once.
uint256 constant EPOCH_ROUNDS = 16;

/// @dev The rounds that the contract has places for. A new round takes the place of one that all seats have settled.
uint256 constant RING_ROUNDS = 128;

/// @dev A seat is marked silent for this many missed rounds or more; an auditor for missed draws of which it was the primary.
uint256 constant SILENCES_LEAST = 3;

/// @dev The most solver seats of a pool: a bitmap fits into one word, and 64 claims merge in one transaction.
uint256 constant SOLVER_SEATS_MAX = 64;

/// @dev The most seat numbers of an auditor role, because `freeEpoch` looks at every seat of a task in one call.
uint256 constant AUDITOR_SEATS_MAX = 1024;

/// @dev The most rounds of a task and segments of a round, because the contract keeps them in 16 bits.
uint256 constant NUMBER_MAX = 65535;

/// @dev The window for queries lasts at least this many of the longest rounds; auditors keep their ends so long.
uint256 constant ROUNDS_UNDER_WAY = 6;

/// @dev Levels that one answer opens: 16 nodes. So three answers reach any leaf of a million parameters.
uint256 constant FANOUT_LEVELS = 4;

/// @dev The most steps k of a segment: in longer ones, a cheat in a single step fades below the noise (measured).
uint256 constant SEGMENT_STEPS_MAX = 20;

/// @dev The most draws q of a claim. If every seat is silent, settling a claim of 20 draws costs 14.6 M gas; with 23 draws it fits into no transaction.
uint256 constant DRAWS_MAX = 20;
