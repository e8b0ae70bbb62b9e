// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {GameTerms, Proof, SeatStatus} from "./GameTypes.sol";
import {SeatMembership} from "./SeatMembership.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {ISeats} from "./interfaces/ISeats.sol";
import {OpenCounts} from "./libraries/OpenCounts.sol";
import {Pots} from "./libraries/Pots.sol";

/// @title Books what other contracts find about seats: open questions, pay, fees and convictions.
/// @dev Twin of `seats.py` and `settling.py` in `protocol/spec/game`.
abstract contract SeatLedger is SeatMembership {
    /// @notice Finder and submitter get at most one part in so many of a slash, each.
    uint256 public constant SHARE_DIVISOR = 4;

    // Questions' calls ------------------------------------------------------------------------------------------------
    /// @inheritdoc ISeats
    function countQuestion(TaskId task, uint256 seat, uint256 round, bool isAsk, bool isOpening)
        external
        onlyGame
        returns (uint256 number, uint256 oneWei)
    {
        Task storage entry = _tasks[task];
        Record storage record = entry.seatAt[seat];
        uint256 counts = isAsk ? record.asks : record.disputes;
        counts = isOpening ? OpenCounts.add(counts, round) : OpenCounts.remove(counts, round);
        if (isAsk) record.asks = uint104(counts);
        else record.disputes = uint104(counts);
        (number, oneWei) = (OpenCounts.total(counts), isAsk ? entry.terms.amounts.askBond : entry.terms.amounts.disputeBond);
    }

    // Settlement's calls ----------------------------------------------------------------------------------------------
    /// @inheritdoc ISeats
    function retire(TaskId task, uint256 seat) external onlyGame {
        _retire(task, _tasks[task], seat);
    }

    /// @inheritdoc ISeats
    function bookSettlement(
        TaskId task,
        uint256 seat,
        uint256 untilRound,
        uint256 paidWei,
        uint256 burnedWei,
        uint256 feeWei
    ) external onlyGame {
        Task storage entry = _tasks[task];
        Record storage record = entry.seatAt[seat];
        record.settled = uint16(untilRound + 1);
        feeWei = _min(feeWei, record.stakeWei);
        emit SeatSettled(task, seat, untilRound, paidWei, burnedWei, feeWei);
        if (paidWei != 0) {
            purse.give(Pots.escrow(task), record.account, paidWei);
            shares.mint(task, record.account, paidWei);
        }
        if (burnedWei != 0) purse.discard(Pots.escrow(task), burnedWei);
        if (feeWei == 0) return;
        unchecked {
            record.stakeWei -= uint96(feeWei);
        }
        _seatOrNot(entry, entry.terms, seat);
        purse.discard(Pots.stakes(task), feeWei);
    }

    /// @inheritdoc ISeats
    function convict(TaskId task, uint256[] calldata seats, address finder, Proof proof)
        external
        onlyGame
        returns (uint256 restWei)
    {
        Task storage entry = _tasks[task];
        GameTerms storage terms = entry.terms;
        uint256 finderWei;
        uint256 refundWei;
        unchecked {
            for (uint256 i = 0; i < seats.length; ++i) {
                restWei += _close(task, entry, seats[i], finder, proof);
            }
            finderWei = _min(restWei / SHARE_DIVISOR, terms.amounts.finderCap);
            refundWei = _min(restWei / SHARE_DIVISOR, purse.potOf(Pots.escrow(task)));
            restWei -= finderWei + refundWei;
        }
        purse.give(Pots.stakes(task), finder, finderWei);
        purse.give(Pots.stakes(task), terms.submitter, refundWei);
    }

    function _close(TaskId task, Task storage entry, uint256 seat, address finder, Proof proof)
        private
        returns (uint256 stakeWei)
    {
        Record storage record = entry.seatAt[seat];
        if (record.status == SeatStatus.CLOSED) return 0;
        stakeWei = record.stakeWei;
        (record.status, record.stakeWei) = (SeatStatus.CLOSED, 0);
        RolePools storage members = entry.members[seat >> 16];
        members.closed[(seat & NUMBER) / 256] |= 1 << ((seat & NUMBER) % 256);
        unchecked {
            ++entry.closedSeats;
        }
        entry.seatOf[record.account] = seat | CONVICTED;
        _unseat(entry, seat);
        emit SeatConvicted(task, seat, proof, finder, stakeWei);
    }
}
