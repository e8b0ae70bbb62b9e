// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {Convictions} from "./Convictions.sol";
import {EPOCH_ROUNDS, GameAmounts, RING_ROUNDS, SeatRole, SeatStatus} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {Silence} from "./Silence.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {ISettlement} from "./interfaces/ISettlement.sol";
import {Ballots} from "./libraries/Ballots.sol";
import {OpenCounts} from "./libraries/OpenCounts.sol";
import {Slots} from "./libraries/Slots.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";

/// @title Settles what each seat is paid and charged for its rounds.
/// @notice A seat settles a round once nothing that it said or did in it can cost it any more. Pay of auditors adds up by epochs of 16 rounds. So
/// a seat, of a solver too, settles up to a round after which no opened round of the same epoch holds it.
/// @dev Twin of `settling.py`, `round_pay.py` and `restitution.py` in `protocol/spec/game`.
contract Settlement is Convictions, Silence {
    using OpenCounts for uint16[9];

    /// @dev What the seats of one call share.
    /// @param last the last round that they settle
    /// @param oldest the first epoch about which something can be open: the ring holds eight up to the newest. In `OpenCounts` the place of an older epoch
    /// may be that of a later one
    /// @param first the first round of `facts`, which go to the last opened one of the epoch of `last`
    /// @param unsettled rounds in which a seat that they hold cannot settle yet
    /// @param amounts of the task
    struct Page {
        TaskId task;
        uint256 last;
        uint256 oldest;
        uint256 first;
        IRounds.Facts[] facts;
        uint256[] unsettled;
        bool isContested;
        GameAmounts amounts;
    }

    /// @dev Why a seat cannot settle.
    enum Flaw {
        NONE,
        UNKNOWN,
        SETTLED,
        NOT_YET,
        CONTESTED
    }

    constructor(Modules memory modules) Module(modules) {}

    // Settling (12.1)
    /// @inheritdoc ISettlement
    /// @dev Of several seats those that cannot settle are left out.
    function settle(TaskId task, uint256[] calldata seats, uint256 untilRound) external {
        game.sync(task);
        Page memory page = _openPage(task, seats, untilRound);
        for (uint256 i = 0; i < seats.length; ++i) {
            Record storage record = _tasks[task].seatAt[seats[i]];
            Flaw flaw = _flawOf(page, seats[i], record);
            if (flaw == Flaw.NONE) _settle(page, seats[i], record);
            else if (seats.length == 1) _refuse(flaw, seats[i], untilRound);
        }
    }

    function _refuse(Flaw flaw, uint256 seat, uint256 untilRound) private pure {
        if (flaw == Flaw.UNKNOWN) revert IRefusals.SeatUnknown(seat);
        if (flaw == Flaw.SETTLED) revert IRefusals.AlreadySettled(seat, untilRound);
        if (flaw == Flaw.CONTESTED) revert IRefusals.ContestRuns(untilRound);
        revert IRefusals.NotSettleable(seat, untilRound);
    }

    function _openPage(TaskId task, uint256[] calldata seats, uint256 untilRound)
        private
        view
        returns (Page memory page)
    {
        uint256 next = _lines[task].nextRound;
        if (untilRound >= next) revert IRefusals.RoundUnknown(untilRound);
        (page.task, page.last, page.first) = (task, untilRound, untilRound);
        for (uint256 i = 0; i < seats.length; ++i) {
            Record storage record = _tasks[task].seatAt[seats[i]];
            if (record.status != SeatStatus.NONE) page.first = _min(page.first, _settledOf(task, record));
        }
        page.amounts = _tasks[task].terms.amounts;
        page.oldest = FixedPointMathLib.zeroFloorSub((next - 1) / EPOCH_ROUNDS, RING_ROUNDS / EPOCH_ROUNDS - 1);
        page.isContested = _contestsOpen[task].isAnyIn(page.oldest, untilRound / EPOCH_ROUNDS);
        uint256 end = _min(next - 1, untilRound / EPOCH_ROUNDS * EPOCH_ROUNDS + EPOCH_ROUNDS - 1);
        page.facts = _factsOf(task, page.first, end);
        page.unsettled = _listUnsettled(page);
    }

    /// @dev Rounds of the page after `last`, or before the end of their duty: no seat that sits in one can settle, unless it has settled that round.
    function _listUnsettled(Page memory page) private view returns (uint256[] memory held) {
        uint256 count;
        for (uint256 i = 0; i < page.facts.length; ++i) {
            if (_isUnsettled(page, i)) ++count;
        }
        held = new uint256[](count);
        count = 0;
        for (uint256 i = 0; i < page.facts.length; ++i) {
            if (_isUnsettled(page, i)) held[count++] = page.first + i;
        }
    }

    function _isUnsettled(Page memory page, uint256 place) private view returns (bool) {
        return page.first + place > page.last || block.number <= page.facts[place].dutyUntil;
    }

    function _flawOf(Page memory page, uint256 seat, Record storage record) private view returns (Flaw) {
        if (record.status == SeatStatus.NONE) return Flaw.UNKNOWN;
        uint256 settled = _settledOf(page.task, record);
        if (page.last < settled) return Flaw.SETTLED;
        for (uint256 i = 0; i < page.unsettled.length; ++i) {
            uint256 round = page.unsettled[i];
            if (round < settled) continue;
            if (_isInPool(_tasks[page.task], _roundAt(page.task, round), seat)) return Flaw.NOT_YET;
        }
        uint256 epoch = page.last / EPOCH_ROUNDS;
        bool isAsked = record.queries.isAnyIn(page.oldest, epoch) || record.disputes.isAnyIn(page.oldest, epoch);
        if (isAsked) return Flaw.NOT_YET;
        return page.isContested ? Flaw.CONTESTED : Flaw.NONE;
    }

    function _settle(Page memory page, uint256 seat, Record storage record) private {
        Money memory money =
            _isSolver(seat) ? _solverMoney(page, seat, record) : _auditorMoney(page, seat, record);
        // It gets nothing: its pay is burned with what would have been burned anyway, and it owes no fee.
        if (record.status == SeatStatus.CONVICTED) {
            (money.burnedWei, money.paidWei, money.feeWei) = (money.burnedWei + money.paidWei, 0, 0);
        }
        _bookSettlement(page.task, seat, page.last, money);
    }

    // Pay and fees (12.1)
    function _auditorMoney(Page memory page, uint256 seat, Record storage record)
        private
        returns (Money memory money)
    {
        SeatRole role = SeatRole(seat >> 16);
        uint256 payWei = role == SeatRole.VERIFIER ? page.amounts.auditPay : page.amounts.latePay;
        for (uint256 epoch = _settledOf(page.task, record) / EPOCH_ROUNDS; epoch <= page.last / EPOCH_ROUNDS; ++epoch) {
            AuditBook storage book = _auditBooks[page.task][epoch][role];
            (uint256 pays, uint256 fees) = (book.pays[seat & NUMBER], book.fees[seat & NUMBER]);
            if (pays != 0) book.pays[seat & NUMBER] = 0;
            if (fees != 0) book.fees[seat & NUMBER] = 0;
            money.paidWei += pays * payWei;
            money.feeWei += fees * page.amounts.unservedFee;
        }
    }

    function _solverMoney(Page memory page, uint256 seat, Record storage record)
        private
        returns (Money memory money)
    {
        uint256 number = seat & NUMBER;
        for (uint256 round = _settledOf(page.task, record); round <= page.last; ++round) {
            uint256 pool = page.facts[round - page.first].pool;
            if (pool >> number & 1 == 1) _addRound(page, money, record, round, Slots.slotOf(pool, number));
        }
    }

    /// @dev Pay that a claim does not earn is burned of the escrow, also where a late audit took it from an accepted claim, or two of a draw said UNSERVED:
    /// else a submitter could buy work back with auditors of its own. It stays for the submitter where the claim is convicted, or the round's audits were
    /// never drawn. Of a restored claim `punish` has burned it. In an undone round as much is burned as restitution pays: else the submitter would
    /// keep it, and a slash among friends would burn nothing.
    function _addRound(Page memory page, Money memory money, Record storage record, uint256 round, uint256 slot)
        private
    {
        IRounds.Facts memory fact = page.facts[round - page.first];
        uint256 bit = 1 << slot;
        if (fact.missing & bit != 0) money.feeWei += page.amounts.droppedFee;
        if (fact.committed & bit == 0) return;
        bool isRestored = fact.restored & bit != 0;
        bool isAccepted = fact.accepted & bit != 0 && !isRestored;
        bool isUnserved = fact.unserved & bit != 0;
        if (fact.isUndone && (isUnserved || !isAccepted)) return;
        uint256 payWei = _payOf(page.task, _roundAt(page.task, round), slot);
        if (fact.isUndone) {
            money.burnedWei += _payRestitution(page.task, record, round, payWei);
            return;
        }
        if (isUnserved) money.feeWei += _countUnserved(page.task, round, slot) * page.amounts.unservedFee;
        // An accepted claim can have two UNSERVED, where both reserves said so before the primary accepted: it may be merged, and is not paid.
        bool isEarned = isAccepted && !isUnserved && fact.lateRejected & bit == 0;
        bool isBurned = fact.isDrawn && !isRestored && fact.convicted & bit == 0;
        if (isEarned) money.paidWei += payWei;
        else if (isBurned) money.burnedWei += payWei;
    }

    /// @dev How many draws of a claim have two UNSERVED.
    function _countUnserved(TaskId task, uint256 round, uint256 slot) private view returns (uint256 count) {
        uint256 draws = _tasks[task].terms.draws;
        for (uint256 draw = 0; draw <= draws; ++draw) {
            if (Ballots.countUnserved(_votesOf(task, round, slot, draw)) >= 2) ++count;
        }
    }
}
