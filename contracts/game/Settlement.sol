// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {Convictions} from "./Convictions.sol";
import {EPOCH_ROUNDS, GameTerms, Member, SeatRole, SeatStatus} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {Silence} from "./Silence.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {ISettlement} from "./interfaces/ISettlement.sol";
import {IVotes} from "./interfaces/IVotes.sol";
import {Members} from "./libraries/Members.sol";
import {OpenCounts} from "./libraries/OpenCounts.sol";
import {Slots} from "./libraries/Slots.sol";
import {StructLists} from "./libraries/StructLists.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";

/// @title Settles what each seat is paid and charged for its rounds.
/// @notice A seat settles a round once nothing that it said or did in it can cost it any more. Pay of auditors adds up in buckets of 16 rounds, so a
/// seat settles up to a round after which no opened round of the same 16 holds it.
/// @dev Twin of `settling.py`, `round_pay.py` and `restitution.py` in `protocol/spec/game`.
contract Settlement is Convictions, Silence {
    /// @dev What the seats of one call share. facts: of the rounds first .. end, the last opened one of the epoch; held: those of them in which a seat
    /// that they hold cannot settle yet; key and words: the pool of auditors that was looked at last.
    struct Page {
        TaskId task;
        uint256 first;
        uint256 last;
        uint256 newest;
        uint256 contested;
        uint256[] members;
        IRounds.Facts[] facts;
        uint256[] held;
        IVotes.Ends[] ends;
        uint256 key;
        uint256[] words;
    }

    /// @dev What a seat gets and gives.
    struct Money {
        uint256 paidWei;
        uint256 burnedWei;
        uint256 feeWei;
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

    // Settling --------------------------------------------------------------------------------------------------------
    /// @inheritdoc ISettlement
    /// @dev Of several seats those that cannot settle are left out.
    function settle(TaskId task, uint256[] calldata seats, uint256 untilRound) external {
        rounds.sync(task);
        Page memory page = _openPage(task, seats, untilRound);
        uint256 greatest;
        for (uint256 i = 0; i < seats.length; ++i) {
            uint256 seat = seats[i];
            // What was read of a seat that this call may have settled already is old.
            bool isFirst = i == 0 || seat > greatest;
            Member memory record = isFirst ? Members.at(page.members, i) : Members.load(seatBook, task, seat);
            greatest = _max(greatest, seat);
            Flaw flaw = _flawOf(page, seat, record);
            if (flaw == Flaw.NONE) _settle(page, seat, record);
            else if (seats.length == 1) _refuse(flaw, seat, untilRound);
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
        uint256 next = rounds.nextRound(task);
        if (untilRound >= next) revert IRefusals.RoundUnknown(untilRound);
        (page.task, page.last, page.newest) = (task, untilRound, next - 1);
        page.first = untilRound;
        page.members = seatBook.membersOf(task, seats);
        for (uint256 i = 0; i < seats.length; ++i) {
            Member memory record = Members.at(page.members, i);
            if (record.status != SeatStatus.NONE) page.first = _min(page.first, record.settled);
        }
        page.contested = contests.openOf(task);
        uint256 end = _min(page.newest, untilRound / EPOCH_ROUNDS * EPOCH_ROUNDS + EPOCH_ROUNDS - 1);
        page.facts = StructLists.loadFacts(rounds, task, page.first, end);
        page.ends = StructLists.loadEnds(votes, task, page.first, untilRound);
        page.held = _heldIn(page);
    }

    /// @dev Rounds of the page that are not to be settled, or not over.
    function _heldIn(Page memory page) private view returns (uint256[] memory held) {
        held = new uint256[](page.facts.length);
        uint256 count;
        unchecked {
            for (uint256 i = 0; i < held.length; ++i) {
                bool isHolding = page.first + i > page.last || block.number <= page.facts[i].dutyUntil;
                if (isHolding) held[count++] = page.first + i;
            }
        }
        assembly ("memory-safe") {
            mstore(held, count)
        }
    }

    function _flawOf(Page memory page, uint256 seat, Member memory record) private view returns (Flaw) {
        if (record.status == SeatStatus.NONE) return Flaw.UNKNOWN;
        if (page.last < record.settled) return Flaw.SETTLED;
        for (uint256 i = 0; i < page.held.length; ++i) {
            uint256 round = page.held[i];
            if (round < record.settled) continue;
            if (_isHeld(page, page.facts[round - page.first], seat)) return Flaw.NOT_YET;
        }
        if (_isOpen(page, record.asks) || _isOpen(page, record.disputes)) return Flaw.NOT_YET;
        return _isOpen(page, page.contested) ? Flaw.CONTESTED : Flaw.NONE;
    }

    /// @dev Whether a round holds a seat.
    function _isHeld(Page memory page, IRounds.Facts memory fact, uint256 seat) private view returns (bool) {
        (uint256 role, uint256 number) = (seat >> 16, seat & type(uint16).max);
        if (role == uint256(SeatRole.SOLVER)) return fact.pool >> number & 1 == 1;
        uint256 version = role == uint256(SeatRole.VERIFIER) ? fact.verifiers : fact.whistleblowers;
        if (page.key != role << 32 | version) {
            page.key = role << 32 | version;
            page.words = seatBook.poolOf(page.task, SeatRole(role), version);
        }
        return number / 256 < page.words.length && page.words[number / 256] >> (number % 256) & 1 == 1;
    }

    /// @dev Whether anything is open up to the last epoch of the page. The ring holds eight epochs up to the newest: nothing is open about older ones, and
    /// their places are those of later ones.
    function _isOpen(Page memory page, uint256 counts) private pure returns (bool) {
        uint256 oldest = FixedPointMathLib.zeroFloorSub(page.newest / EPOCH_ROUNDS, 7);
        return OpenCounts.isAnyIn(counts, oldest, page.last / EPOCH_ROUNDS);
    }

    function _settle(Page memory page, uint256 seat, Member memory record) private {
        Money memory money = seat >> 16 == uint256(SeatRole.SOLVER)
            ? _solverMoney(page, seat, record)
            : _auditorMoney(page, seat, record);
        if (record.status == SeatStatus.CLOSED) {
            (money.burnedWei, money.paidWei, money.feeWei) = (money.burnedWei + money.paidWei, 0, 0);
        }
        seatBook.bookSettlement(page.task, seat, page.last, money.paidWei, money.burnedWei, money.feeWei);
    }

    // Pay and fees ----------------------------------------------------------------------------------------------------
    function _auditorMoney(Page memory page, uint256 seat, Member memory record)
        private
        returns (Money memory money)
    {
        bool isVerifier = seat >> 16 == uint256(SeatRole.VERIFIER);
        uint256 rate = isVerifier ? _tasks[page.task].terms.amounts.auditPay : _tasks[page.task].terms.amounts.latePay;
        for (uint256 epoch = record.settled / EPOCH_ROUNDS; epoch <= page.last / EPOCH_ROUNDS; ++epoch) {
            (uint256 pays, uint256 fees) = votes.takeBucket(page.task, seat, epoch);
            money.paidWei += pays * rate;
            money.feeWei += fees * _tasks[page.task].terms.amounts.unservedFee;
        }
    }

    function _solverMoney(Page memory page, uint256 seat, Member memory record)
        private
        returns (Money memory money)
    {
        (uint256 number, uint256 payWei) = (seat & type(uint16).max, _tasks[page.task].terms.amounts.solverPay);
        uint256 plainWei;
        unchecked {
            for (uint256 round = record.settled; round <= page.last; ++round) {
                IRounds.Facts memory fact = page.facts[round - page.first];
                IVotes.Ends memory end = page.ends[round - page.first];
                uint256 pool = fact.pool;
                if (pool >> number & 1 == 0) continue;
                uint256 slot = Slots.slotOf(pool, number);
                bool isEarned = fact.committed & end.accepted & 1 << slot != 0;
                // Rounds are at most 65,535, an amount has 128 bits.
                if (isEarned && _isPlain(fact, end)) plainWei += payWei;
                else _addRound(page, money, record, round, slot);
            }
        }
        money.paidWei += plainWei;
    }

    /// @dev A round of whole claims in which nothing went wrong: whoever was accepted is paid. Most rounds are; `_addRound` decides the others.
    function _isPlain(IRounds.Facts memory fact, IVotes.Ends memory end) private pure returns (bool) {
        uint256 wrong = fact.missing | end.restored | end.unserved | end.lateRejected | end.convicted;
        return wrong == 0 && !fact.isUndone && !fact.isShort;
    }

    /// @dev The pay of a VOID claim is burned, but for one that was not served or convicted: that stays the submitter's. Of a claim that a slash has paid
    /// it is burned already (`punish`). What a slash makes good in an undone round is burned of the escrow too: else the submitter kept it, and a slash
    /// among friends burned nothing.
    function _addRound(
        Page memory page,
        Money memory money,
        Member memory record,
        uint256 round,
        uint256 slot
    ) private {
        IRounds.Facts memory fact = page.facts[round - page.first];
        IVotes.Ends memory end = page.ends[round - page.first];
        if (fact.missing >> slot & 1 == 1) money.feeWei += _tasks[page.task].terms.amounts.droppedFee;
        if (fact.committed >> slot & 1 == 0) return;
        bool isRestored = end.restored >> slot & 1 == 1;
        bool isAccepted = end.accepted >> slot & 1 == 1 && !isRestored;
        if (fact.isUndone && !isAccepted) return;
        uint256 payWei = _payOf(page.task, round, slot, fact.isShort);
        if (fact.isUndone) {
            money.burnedWei += _payRestitution(page.task, record, round, payWei);
            return;
        }
        bool isUnserved = end.unserved >> slot & 1 == 1;
        if (isUnserved) {
            uint256 count = votes.countUnserved(page.task, round, slot);
            money.feeWei += count * _tasks[page.task].terms.amounts.unservedFee;
        }
        bool isRejectedLate = end.lateRejected >> slot & 1 == 1;
        if (isAccepted && !isRejectedLate && !isUnserved) money.paidWei += payWei;
        else if (!isUnserved && !isRestored && end.convicted >> slot & 1 == 0) money.burnedWei += payWei;
    }
}
