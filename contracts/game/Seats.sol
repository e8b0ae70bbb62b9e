// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {Seat, SeatRole, SeatStatus} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {SeatLedger} from "./SeatLedger.sol";
import {ISeats} from "./interfaces/ISeats.sol";

/// @title Says what others need of seats.
contract Seats is SeatLedger {
    constructor(Modules memory modules) Module(modules) {}

    /// @inheritdoc ISeats
    function seatAt(TaskId task, uint256 seat) external view returns (Seat memory) {
        Record storage record = _tasks[task].seatAt[seat];
        return Seat(record.account, record.stakeWei, record.status, record.settled, record.joined);
    }

    /// @inheritdoc ISeats
    function openOn(TaskId task, uint256 seat) external view returns (uint256, uint256) {
        Record storage record = _tasks[task].seatAt[seat];
        return (record.asks, record.disputes);
    }

    /// @inheritdoc ISeats
    function membersOf(TaskId task, uint256[] calldata seats) external view returns (uint256[] memory words) {
        words = new uint256[](2 * seats.length);
        unchecked {
            for (uint256 i = 0; i < seats.length; ++i) {
                Record storage record = _tasks[task].seatAt[seats[i]];
                assembly ("memory-safe") {
                    let place := add(add(words, 32), shl(6, i))
                    mstore(place, sload(record.slot))
                    mstore(add(place, 32), sload(add(record.slot, 1)))
                }
            }
        }
    }

    /// @inheritdoc ISeats
    /// @dev An account's seat is its own until it is freed.
    function signerOf(TaskId task, address account)
        external
        view
        returns (uint256 seat, SeatStatus status, uint256 settled)
    {
        Task storage entry = _tasks[task];
        seat = entry.seatOf[account] & ~CONVICTED;
        Record storage record = entry.seatAt[seat];
        if (seat != 0) (status, settled) = (record.status, record.settled);
    }

    /// @inheritdoc ISeats
    function seatOf(TaskId task, address account) external view returns (uint256) {
        return _tasks[task].seatOf[account] & ~CONVICTED;
    }

    /// @inheritdoc ISeats
    /// @dev An address is a word, so they are returned as they lie in memory.
    function voterAccounts(TaskId task, uint256[] calldata seats) external view returns (address[] memory) {
        Task storage entry = _tasks[task];
        bool isSilencing = entry.closedSeats != 0;
        uint256 encoded;
        assembly ("memory-safe") {
            encoded := mload(0x40)
            mstore(encoded, 32)
            mstore(add(encoded, 32), seats.length)
            mstore(0x40, add(encoded, add(64, shl(5, seats.length))))
        }
        unchecked {
            for (uint256 i = 0; i < seats.length; ++i) {
                uint256 seat = seats[i];
                address account;
                bool isSilenced =
                    isSilencing && seat >> 16 != uint256(SeatRole.SOLVER) && _isConvicted(entry, seat);
                if (seat != 0 && !isSilenced) account = entry.seatAt[seat].account;
                assembly ("memory-safe") {
                    mstore(add(add(encoded, 64), shl(5, i)), account)
                }
            }
        }
        assembly ("memory-safe") {
            return(encoded, add(64, shl(5, seats.length)))
        }
    }

    function _isConvicted(Task storage entry, uint256 seat) private view returns (bool) {
        return entry.members[seat >> 16].closed[(seat & NUMBER) / 256] >> ((seat & NUMBER) % 256) & 1 == 1;
    }

    /// @inheritdoc ISeats
    function seatOfSolver(TaskId task, address account) external view returns (uint256 seat, bool isConvicted) {
        seat = _tasks[task].seatOf[account];
        (seat, isConvicted) = (seat & ~CONVICTED, seat & CONVICTED != 0);
        if (seat >> 16 != uint256(SeatRole.SOLVER)) return (0, false);
    }
}
