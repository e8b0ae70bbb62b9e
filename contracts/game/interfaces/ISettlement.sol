// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../Types.sol";
import {Proof, StatementRef} from "../GameTypes.sol";

/// @title Money of rounds: pay and fees at settlement, slashes and who they pay, silent seats.
interface ISettlement {
    /// @notice Evidence of silence: a primary draw without its vote, or (slot and draw 0) a round without a solver's commitment.
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: its solver's place in the pool
    /// @param draw index of the draw in its claim; the task's number of draws is the late one
    struct MissedPlace {
        uint32 round;
        uint32 slot;
        uint32 draw;
    }

    /// @notice A statement of a seat was convicted.
    /// @param task the task
    /// @param seat id of the seat
    /// @param proof what shows it
    /// @param statement the claim or the vote
    /// @param finder who found it, and is paid for it
    event StatementConvicted(TaskId indexed task, uint256 indexed seat, Proof proof, StatementRef statement, address finder);
    /// @notice A slash paid for a claim that a false REJECT had made void, or of which it had taken the pay in a late audit.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: its solver's place in the pool
    /// @param account whose it is
    /// @param wei_ amount in the smallest unit of the token
    event PayRestored(TaskId indexed task, uint256 indexed round, uint256 slot, address account, uint256 wei_);
    /// @notice A root fell. This is owed for the rounds that were undone with it.
    /// @param task the task
    /// @param fall index of the fall in its task
    /// @param firstRound the first round
    /// @param lastRound the last round that was undone
    /// @param owedWei pay of the accepted claims
    /// @param heldWei what slashes have left for it
    event RestitutionHeld(TaskId indexed task, uint256 fall, uint256 firstRound, uint256 lastRound, uint256 owedWei, uint256 heldWei);

    /// @notice Settles rounds of seats up to and with `untilRound`: pays, and takes fees. Anybody may call it.
    /// @param task the task
    /// @param seats ids of seats
    /// @param untilRound the last round that is settled
    function settle(TaskId task, uint256[] calldata seats, uint256 untilRound) external;

    /// @notice A seat that does not act leaves, unharmed.
    /// @param task the task
    /// @param seat id of the seat
    /// @param missed in ascending order, three at least
    function markSilent(TaskId task, uint256 seat, MissedPlace[] calldata missed) external;

    // Modules
    /// @notice Convicts a seat of one of its statements. The game only: code of Queries, Disputes, Steps and Evidence calls it.
    /// @param task the task
    /// @param seat id of the seat
    /// @param finder who found it, and is paid for it
    /// @param proof what shows it
    /// @param statement the claim or the vote
    function punish(TaskId task, uint256 seat, address finder, Proof proof, StatementRef calldata statement) external;

    /// @notice A posted root fell: its signers are convicted, later rounds undone. The game only: code of Contests calls it.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param finder who found it, and is paid for it
    function fall(TaskId task, uint256 round, address finder) external;
}
