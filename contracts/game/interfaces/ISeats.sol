// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../Types.sol";
import {Proof, Seat, SeatRole, SeatStatus} from "../GameTypes.sol";

/// @title Seats of a task: accounts, stakes and pools.
/// @notice A member joins once, with one stake, and stays. Pools are frozen before anybody knows the seed that deals them. A seat's id is role << 16 |
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
    /// @notice A seat was convicted: its stake is gone.
    /// @param task the task
    /// @param seat id of the seat
    /// @param proof what shows it
    /// @param finder who found it, and is paid for it
    /// @param stakeWei the stake, in wei
    event SeatConvicted(TaskId indexed task, uint256 indexed seat, Proof proof, address finder, uint256 stakeWei);
    /// @notice A seat's stake was paid out, its number is free.
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

    /// @notice Pays the stake of a seat that nothing holds any more to its account's credit, once it has left or the task is over; of a solver that waits also
    /// where all 64 numbers are taken. Anybody may call it.
    /// @param task the task
    /// @param seat id of the seat
    function payOut(TaskId task, uint256 seat) external;

    /// @notice The pools as they are now; versions name the auditors'. The game only.
    /// @param task the task
    /// @return solvers numbers of solver seats
    /// @return verifiers version of the verifiers' pool
    /// @return whistleblowers version of the whistleblowers' pool
    /// @return isEnough_ whether a round can be played with them, as long as no seat is closed
    function freezePools(TaskId task) external returns (uint64 solvers, uint24 verifiers, uint24 whistleblowers, bool isEnough_);

    /// @notice What is open on a seat, by epoch of the round that it is about (`OpenCounts`).
    /// @param task the task
    /// @param seat id of the seat
    /// @return asks a count an epoch
    /// @return disputes a count an epoch
    function openOn(TaskId task, uint256 seat) external view returns (uint256 asks, uint256 disputes);

    /// @notice Counts one ask or dispute more or less on a seat. The game only.
    /// @param task the task
    /// @param seat id of the seat
    /// @param round that it is about
    /// @param isAsk true: an ask; false: a dispute
    /// @param isOpening true: one more; false: one less
    /// @return number how many of its kind are open on the seat now
    /// @return oneWei the bond of the first, in wei
    function countQuestion(TaskId task, uint256 seat, uint256 round, bool isAsk, bool isOpening) external returns (uint256 number, uint256 oneWei);

    /// @notice A seat that was silent leaves, unharmed. The game only.
    /// @param task the task
    /// @param seat id of the seat
    function retire(TaskId task, uint256 seat) external;

    /// @notice Books what a seat earned and owes. The game only.
    /// @param task the task
    /// @param seat id of the seat
    /// @param untilRound the last round that is settled
    /// @param paidWei paid to the account
    /// @param burnedWei burned of the escrow
    /// @param feeWei burned of the stake
    function bookSettlement(TaskId task, uint256 seat, uint256 untilRound, uint256 paidWei, uint256 burnedWei, uint256 feeWei) external;

    /// @notice Closes seats and pays finder and submitter their shares. The game only.
    /// @param task the task
    /// @param seats ids of seats
    /// @param finder who found it, and is paid for it
    /// @param proof what shows it
    /// @return restWei half of the stakes or more, left in the pot of stakes
    function convict(TaskId task, uint256[] calldata seats, address finder, Proof proof) external returns (uint256 restWei);

    /// @notice A seat's record; of a number that is free, its last holder's.
    /// @param task the task
    /// @param seat id of the seat
    /// @return its record
    function seatAt(TaskId task, uint256 seat) external view returns (Seat memory);

    /// @notice Records of seats with what is open on them, as they are stored (`Members`).
    /// @param task the task
    /// @param seats ids of seats
    /// @return two words a seat, in the order of the seats
    function membersOf(TaskId task, uint256[] calldata seats) external view returns (uint256[] memory);

    /// @notice Who answers for what an account has signed.
    /// @param task the task
    /// @param account whose it is
    /// @return seat its id; 0: none
    /// @return status of the seat
    /// @return settled the first round that the seat has not settled
    function signerOf(TaskId task, address account) external view returns (uint256 seat, SeatStatus status, uint256 settled);

    /// @notice Id of an account's seat, 0 where it has none.
    /// @param task the task
    /// @param account whose it is
    /// @return its id; 0: none
    function seatOf(TaskId task, address account) external view returns (uint256);

    /// @notice Id of an account's solver seat, 0 where it has none, and whether it is closed.
    /// @dev A call looks for its function in the order of their selectors, 22 gas each: this name, `voterAccounts` and `bookSettlement` stand in front.
    /// @param task the task
    /// @param account whose it is
    /// @return seat its id; 0: none
    /// @return isConvicted true: it is closed
    function seatOfSolver(TaskId task, address account) external view returns (uint256 seat, bool isConvicted);

    /// @notice Accounts of seats, in their order; 0 for those of auditors that are closed: their votes do not count.
    /// @param task the task
    /// @param seats ids of seats
    /// @return in the order of the seats; 0: closed, or no seat
    function voterAccounts(TaskId task, uint256[] calldata seats) external view returns (address[] memory);

    /// @notice Numbers of solver seats that are closed, as a bitmap.
    /// @param task the task
    /// @return a bitmap of numbers
    function closedSolvers(TaskId task) external view returns (uint64);

    /// @notice The same, and whether any seat of the task is closed.
    /// @param task the task
    /// @return solvers a bitmap of numbers
    /// @return isAny true: one is
    function closures(TaskId task) external view returns (uint64 solvers, bool isAny);

    /// @notice A frozen pool of auditors: words of a bitmap of seat numbers.
    /// @param task the task
    /// @param role what the seat is for
    /// @param version of the pool
    /// @return a bitmap of numbers
    function poolOf(TaskId task, SeatRole role, uint256 version) external view returns (uint256[] memory);

    /// @notice Which of the rounds `first` .. `last` hold a seat: bit i is round first + i.
    /// @param task the task
    /// @param seat id of the seat
    /// @param first the first round
    /// @param last the last round
    /// @return bitmap bit i: round first + i
    function heldRounds(TaskId task, uint256 seat, uint256 first, uint256 last) external view returns (uint256 bitmap);

    /// @notice Whether a round can be played with these pools: convicted seats do not count.
    /// @param task the task
    /// @param solvers numbers of solver seats, as a bitmap
    /// @param verifiers version of the verifiers' pool
    /// @param whistleblowers version of the whistleblowers' pool
    /// @return true: it can
    function isEnough(TaskId task, uint64 solvers, uint24 verifiers, uint24 whistleblowers) external view returns (bool);

    /// @notice Whether the pools as they are now would be enough.
    /// @param task the task
    /// @return true: they would
    function isFunded(TaskId task) external view returns (bool);

    /// @notice The earliest round that a seat of the task has not settled; NO_ROUND where it has no seats.
    /// @param task the task
    /// @return index of the round; the greatest uint32: no seats
    function settledBy(TaskId task) external view returns (uint256);
}
