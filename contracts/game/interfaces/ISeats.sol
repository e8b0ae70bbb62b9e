// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../Types.sol";
import {Proof, Seat, SeatRole} from "../GameTypes.sol";

/// @title Seats of a task: accounts, stakes and pools.
/// @notice A member joins once, with one stake, and stays. Pools are frozen before anybody knows the seed that assigns them. A seat's id is role << 16 |
/// number; a stake leaves only once every round that holds the seat is settled.
interface ISeats {
    /// @notice A seat was taken.
    /// @param task the task
    /// @param seat id of the seat
    /// @param account whose it is
    /// @param stakeWei the stake, in wei
    event SeatJoined(TaskId indexed task, uint256 indexed seat, address indexed account, uint256 stakeWei);
    /// @notice A stake grew.
    /// @param task the task
    /// @param seat id of the seat
    /// @param wei_ amount in the smallest unit of the token
    event SeatToppedUp(TaskId indexed task, uint256 indexed seat, uint256 wei_);
    /// @notice A seat sits in no pool frozen later: it left, was silent, or was paid out.
    /// @param task the task
    /// @param seat id of the seat
    event SeatLeft(TaskId indexed task, uint256 indexed seat);
    /// @notice A seat was convicted: its stake is gone. What finder, submitter and a claim made good leave of it is held until the task closes: it
    /// pays for work that a fall undoes.
    /// @param task the task
    /// @param seat id of the seat
    /// @param proof what shows it
    /// @param finder who found it, and is paid for it
    /// @param stakeWei the stake, in wei
    event SeatConvicted(TaskId indexed task, uint256 indexed seat, Proof proof, address finder, uint256 stakeWei);
    /// @notice A seat's stake was paid out, its number is free. A convicted seat has none.
    /// @param task the task
    /// @param seat id of the seat
    /// @param stakeWei the stake, in wei
    event SeatFreed(TaskId indexed task, uint256 indexed seat, uint256 stakeWei);
    /// @notice A seat has settled all rounds up to and with `untilRound`.
    /// @param task the task
    /// @param seat id of the seat
    /// @param untilRound the last round that is settled
    /// @param paidWei paid to the account
    /// @param burnedWei burned of the escrow
    /// @param feeWei burned of the stake
    event SeatSettled(TaskId indexed task, uint256 indexed seat, uint256 untilRound, uint256 paidWei, uint256 burnedWei, uint256 feeWei);

    /// @notice Takes a seat for pools frozen later, staked from the sender's credit. Where all places of solvers are taken it takes a larger stake than the
    /// smallest of them, which waits from the next freeze on: `solverSeats` solvers sit, those with the largest stakes.
    /// @param task the task
    /// @param role what the seat is for
    /// @param stakeWei the stake, in wei
    /// @return seat its id
    function join(TaskId task, SeatRole role, uint256 stakeWei) external returns (uint256 seat);

    /// @notice Adds to the stake of an own seat.
    /// @param task the task
    /// @param seat id of the seat
    /// @param wei_ amount in the smallest unit of the token
    function topUp(TaskId task, uint256 seat, uint256 wei_) external;

    /// @notice The seat serves in frozen pools only.
    /// @param task the task
    /// @param seat id of the seat
    function leave(TaskId task, uint256 seat) external;

    /// @notice Pays the stake of a seat that nothing holds any more to its account's credit, once it has left or the task is over; of a solver that waits
    /// also where all 64 numbers are taken. Anybody may call it.
    /// @param task the task
    /// @param seat id of the seat
    function payOut(TaskId task, uint256 seat) external;

    /// @notice How many questions are open on a seat.
    /// @param task the task
    /// @param seat id of the seat
    /// @return queries open ones
    /// @return disputes open ones
    function openOn(TaskId task, uint256 seat) external view returns (uint256 queries, uint256 disputes);

    /// @notice A seat's record; of a number that is free, its last holder's.
    /// @param task the task
    /// @param seat id of the seat
    /// @return its record
    function seatAt(TaskId task, uint256 seat) external view returns (Seat memory);

    /// @notice Id of an account's seat, 0 where it has none.
    /// @param task the task
    /// @param account whose it is
    /// @return its id; 0: none
    function seatOf(TaskId task, address account) external view returns (uint256);

    /// @notice A frozen pool of auditors: words of a bitmap of seat numbers.
    /// @param task the task
    /// @param role what the seat is for
    /// @param version of the pool
    /// @return a bitmap of numbers
    function poolOf(TaskId task, SeatRole role, uint256 version) external view returns (uint256[] memory);

    /// @notice The earliest round that a seat of the task has not settled; the greatest uint32 where it has no seats.
    /// @param task the task
    /// @return index of the round; the greatest uint32: no seats
    function settledBy(TaskId task) external view returns (uint256);
}
