// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {Proof, SeatStatus} from "./GameTypes.sol";
import {SeatSitting} from "./SeatSitting.sol";
import {ISeats} from "./interfaces/ISeats.sol";
import {Pots} from "./libraries/Pots.sol";

/// @title Books what settlement and convictions find about seats: pay, fees and slashes.
/// @dev Twin of `settling.py` and `convicting.py` in `protocol/spec/game`.
abstract contract SeatLedger is SeatSitting {
    /// @dev Finder and submitter get at most one part in so many of a slash, each.
    uint256 private constant SHARE_DIVISOR = 4;

    /// @dev What a seat gets and gives: pay, what is burned of the escrow, and fees.
    struct Money {
        uint256 paidWei;
        uint256 burnedWei;
        uint256 feeWei;
    }

    function _bookSettlement(TaskId task, uint256 seat, uint256 untilRound, Money memory money) internal {
        Task storage entry = _tasks[task];
        Record storage record = entry.seatAt[seat];
        record.settled = uint16(untilRound + 1);
        uint256 feeWei = _min(money.feeWei, record.stakeWei);
        emit ISeats.SeatSettled(task, seat, untilRound, money.paidWei, money.burnedWei, feeWei);
        if (money.paidWei != 0) {
            vault.give(Pots.escrow(task), record.account, money.paidWei);
            shares.mint(task, record.account, money.paidWei);
        }
        if (money.burnedWei != 0) vault.discard(Pots.escrow(task), money.burnedWei);
        if (feeWei == 0) return;
        record.stakeWei -= uint96(feeWei);
        _updateSitting(entry, seat);
        vault.discard(Pots.stakes(task), feeWei);
    }

    /// @dev Convicts seats, and pays finder and submitter their parts of the slash. The submitter's is at most what the escrow has.
    /// @return restWei first all that is slashed, in the end what is left of it in the pot of stakes: half or more
    function _convict(TaskId task, uint256[] memory seats, address finder, Proof proof)
        internal
        returns (uint256 restWei)
    {
        Task storage entry = _tasks[task];
        for (uint256 i = 0; i < seats.length; ++i) {
            restWei += _convictSeat(task, entry, seats[i], finder, proof);
        }
        uint256 finderWei = _min(restWei / SHARE_DIVISOR, entry.terms.amounts.finderCap);
        uint256 refundWei = _min(restWei / SHARE_DIVISOR, vault.potOf(Pots.escrow(task)));
        restWei -= finderWei + refundWei;
        vault.give(Pots.stakes(task), finder, finderWei);
        vault.give(Pots.stakes(task), entry.terms.submitter, refundWei);
    }

    /// @return stakeWei its whole stake; 0 where it was CONVICTED before
    function _convictSeat(TaskId task, Task storage entry, uint256 seat, address finder, Proof proof)
        private
        returns (uint256 stakeWei)
    {
        Record storage record = entry.seatAt[seat];
        if (record.status == SeatStatus.CONVICTED) return 0;
        stakeWei = record.stakeWei;
        (record.status, record.stakeWei) = (SeatStatus.CONVICTED, 0);
        entry.members[seat >> 16].convicted[(seat & NUMBER) / 256] |= 1 << ((seat & NUMBER) % 256);
        ++entry.convictedCount;
        if (_isSolver(seat)) _lines[task].convictedBlock = uint40(block.number);
        entry.seatOf[record.account] = seat | CONVICTED;
        _unseat(entry, seat);
        emit ISeats.SeatConvicted(task, seat, proof, finder, stakeWei);
    }
}
