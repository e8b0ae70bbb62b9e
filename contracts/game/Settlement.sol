// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {
    EPOCH_ROUNDS,
    FALLS_MAX,
    GameTerms,
    Member,
    NO_DRAW,
    Proof,
    Phase,
    Seat,
    SeatRole,
    SeatStatus,
    StatementRef
} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {ISettlement} from "./interfaces/ISettlement.sol";
import {IVotes} from "./interfaces/IVotes.sol";
import {Members} from "./libraries/Members.sol";
import {OpenCounts} from "./libraries/OpenCounts.sol";
import {Pots} from "./libraries/Pots.sol";
import {Slots} from "./libraries/Slots.sol";
import {StructLists} from "./libraries/StructLists.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Money of rounds. Twin of `protocol/spec/game/settling.py`, `convicting.py` and `silence.py`.
/// @notice A seat settles a round once nothing that it said or did in it can cost it any more. Pay of auditors adds up in buckets of 16 rounds, so a
/// seat settles up to a round after which no opened round of the same 16 holds it.
contract Settlement is Module, ISettlement {
    /// @notice Missed rounds or primary draws after which a seat is silent.
    uint256 public constant SILENCES_MAX = 3;

    /// @dev What the signers of a fallen root owe to the rounds first .. last, as far as no earlier fall undid them.
    struct Fall {
        uint32 first;
        uint32 last;
        uint128 owedWei;
        uint128 heldWei;
    }

    /// @dev What the seats of one call share. facts: of the rounds first .. end, the last opened one of the epoch; held: those of them in which a seat
    /// that they hold cannot settle yet; key and words: the pool of auditors that was looked at last.
    struct Page {
        TaskId task;
        uint256 first;
        uint256 last;
        uint256 newest;
        uint256 contested;
        GameTerms terms;
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

    mapping(TaskId => Fall[]) private _falls;

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
            Member memory record = isFirst ? Members.at(page.members, i) : Members.load(tasks, task, seat);
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
        (page.task, page.terms, page.last, page.newest) = (task, _terms(task), untilRound, next - 1);
        page.first = untilRound;
        page.members = tasks.membersOf(task, seats);
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
            page.words = tasks.poolOf(page.task, SeatRole(role), version);
        }
        return number / 256 < page.words.length && page.words[number / 256] >> (number % 256) & 1 == 1;
    }

    /// @dev Whether anything is open up to the last epoch of the page. The ring holds eight epochs up to the newest: nothing is open about older ones, and
    /// their places are those of later ones.
    function _isOpen(Page memory page, uint256 counts) private pure returns (bool) {
        uint256 newest = page.newest / EPOCH_ROUNDS;
        return OpenCounts.isAnyIn(counts, newest < 7 ? 0 : newest - 7, page.last / EPOCH_ROUNDS);
    }

    function _settle(Page memory page, uint256 seat, Member memory record) private {
        Money memory money = seat >> 16 == uint256(SeatRole.SOLVER)
            ? _solverMoney(page, seat, record)
            : _auditorMoney(page, seat, record);
        if (record.status == SeatStatus.CLOSED) {
            (money.burnedWei, money.paidWei, money.feeWei) = (money.burnedWei + money.paidWei, 0, 0);
        }
        tasks.bookSettlement(page.task, seat, page.last, money.paidWei, money.burnedWei, money.feeWei);
    }

    function _auditorMoney(Page memory page, uint256 seat, Member memory record)
        private
        returns (Money memory money)
    {
        bool isVerifier = seat >> 16 == uint256(SeatRole.VERIFIER);
        uint256 rate = isVerifier ? page.terms.amounts.auditPay : page.terms.amounts.latePay;
        for (uint256 epoch = record.settled / EPOCH_ROUNDS; epoch <= page.last / EPOCH_ROUNDS; ++epoch) {
            (uint256 pays, uint256 fees) = votes.takeBucket(page.task, seat, epoch);
            money.paidWei += pays * rate;
            money.feeWei += fees * page.terms.amounts.unservedFee;
        }
    }

    function _solverMoney(Page memory page, uint256 seat, Member memory record)
        private
        returns (Money memory money)
    {
        (uint256 number, uint256 payWei) = (seat & type(uint16).max, page.terms.amounts.solverPay);
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
        if (fact.missing >> slot & 1 == 1) money.feeWei += page.terms.amounts.droppedFee;
        if (fact.committed >> slot & 1 == 0) return;
        bool isRestored = end.restored >> slot & 1 == 1;
        bool isAccepted = end.accepted >> slot & 1 == 1 && !isRestored;
        if (fact.isUndone && !isAccepted) return;
        uint256 payWei = _payOf(page.task, page.terms, round, slot, fact.isShort);
        if (fact.isUndone) {
            money.burnedWei += _payRestitution(page.task, record, round, payWei);
            return;
        }
        bool isUnserved = end.unserved >> slot & 1 == 1;
        if (isUnserved) {
            uint256 count = votes.countUnserved(page.task, round, slot);
            money.feeWei += count * page.terms.amounts.unservedFee;
        }
        bool isRejectedLate = end.lateRejected >> slot & 1 == 1;
        if (isAccepted && !isRejectedLate && !isUnserved) money.paidWei += payWei;
        else if (!isUnserved && !isRestored && end.convicted >> slot & 1 == 0) money.burnedWei += payWei;
    }

    /// @dev A claim's share of the segments, rounded down.
    function _payOf(TaskId task, GameTerms memory terms, uint256 round, uint256 slot, bool isShort)
        private
        view
        returns (uint256)
    {
        if (!isShort) return terms.amounts.solverPay;
        (,, uint256 segments) = rounds.claimOf(task, round, slot);
        return uint256(terms.amounts.solverPay) * segments / (terms.innerSteps / terms.segmentSteps);
    }

    // Falls -----------------------------------------------------------------------------------------------------------
    /// @inheritdoc ISettlement
    function fall(TaskId task, uint256 round, address finder) external only(address(contests)) {
        uint256 number = _falls[task].length;
        (uint64 signers, uint256 first, uint256 last) = rounds.fall(task, round, number + 1 >= FALLS_MAX);
        uint256 restWei = tasks.convict(task, Slots.idsOf(signers), finder, Proof.WRONG_MERGE);
        uint256 owedWei = first > last ? 0 : _owedIn(task, first, last);
        uint256 heldWei = _min(owedWei, restWei);
        _falls[task].push(Fall(uint32(first), uint32(last), uint128(owedWei), uint128(heldWei)));
        emit RestitutionHeld(task, number, first, last, owedWei, heldWei);
        purse.move(Pots.stakes(task), Pots.restitution(task, number), heldWei);
        purse.discard(Pots.stakes(task), restWei - heldWei);
    }

    /// @dev Pay of the accepted claims of rounds that were undone now, of seats that are not closed, and that no slash has paid. A short claim counts as a whole one: to read the
    /// segments of 128 rounds would not fit a transaction, and then no root could fall.
    function _owedIn(TaskId task, uint256 first, uint256 last) private view returns (uint256 owedWei) {
        GameTerms memory terms = _terms(task);
        IRounds.Facts[] memory facts = StructLists.loadFacts(rounds, task, first, last);
        IVotes.Ends[] memory ends = StructLists.loadEnds(votes, task, first, last);
        uint256 closed = tasks.closedSolvers(task);
        for (uint256 i = 0; i < facts.length; ++i) {
            if (_fallOf(task, first + i) != _falls[task].length) continue;
            uint256 owed = ends[i].accepted & ~(Slots.slotsOf(facts[i].pool, closed) | ends[i].restored);
            owedWei += LibBit.popCount(owed) * uint256(terms.amounts.solverPay);
        }
    }

    /// @dev The number of the first fall that undid a round; how many there are where none did.
    function _fallOf(TaskId task, uint256 round) private view returns (uint256 number) {
        Fall[] storage falls = _falls[task];
        for (; number < falls.length; ++number) {
            if (falls[number].first <= round && round <= falls[number].last) return number;
        }
    }

    /// @dev Who was convicted gets nothing: what is owed may not count its claims, so the whole pot is others'. What is left is burned at the end.
    function _payRestitution(TaskId task, Member memory record, uint256 round, uint256 payWei)
        private
        returns (uint256 shareWei)
    {
        uint256 number = _fallOf(task, round);
        Fall memory fallen = _falls[task][number];
        if (fallen.owedWei == 0 || record.status == SeatStatus.CLOSED) return 0;
        shareWei = payWei * fallen.heldWei / fallen.owedWei;
        purse.give(Pots.restitution(task, number), record.account, shareWei);
    }

    /// @inheritdoc ISettlement
    function burnRest(TaskId task) external only(address(tasks)) {
        for (uint256 i = 0; i < _falls[task].length; ++i) {
            bytes32 pot = Pots.restitution(task, i);
            purse.discard(pot, purse.potOf(pot));
        }
    }

    // Convictions -----------------------------------------------------------------------------------------------------
    /// @inheritdoc ISettlement
    function punish(TaskId task, uint256 seat, address finder, Proof proof, StatementRef calldata statement)
        external
    {
        bool isModule = msg.sender == address(asks) || msg.sender == address(disputes) || msg.sender == evidence;
        if (!isModule) revert IRefusals.NotModule(msg.sender);
        rounds.sync(task);
        (address owed, uint256 owedWei, uint256 keptWei) = (address(0), 0, 0);
        if (statement.draw == NO_DRAW) votes.markConvicted(task, statement.round, statement.slot);
        else (owed, owedWei, keptWei) = _voidedBy(task, seat, statement);
        uint256[] memory seats = new uint256[](1);
        seats[0] = seat;
        uint256 restWei = tasks.convict(task, seats, finder, proof);
        owedWei = _min(owedWei, restWei);
        emit StatementConvicted(task, seat, proof, statement, finder);
        if (owed != address(0)) emit PayRestored(task, statement.round, statement.slot, owed, owedWei);
        purse.give(Pots.stakes(task), owed, owedWei);
        purse.discard(Pots.stakes(task), restWei - owedWei);
        purse.discard(Pots.escrow(task), keptWei);
    }

    /// @dev The solver whose claim a false REJECT of this seat has made void, and the pay that it lost.
    /// @return account of the solver
    /// @return payWei what it lost
    /// @return keptWei what the escrow still has of it: settlement has burned it where the solver was first, but for an undone round
    function _voidedBy(TaskId task, uint256 seat, StatementRef calldata statement)
        private
        returns (address account, uint256 payWei, uint256 keptWei)
    {
        (uint256 solver,,) = rounds.claimOf(task, statement.round, statement.slot);
        Seat memory record = tasks.seatAt(task, solver);
        bool isOwed = solver != 0 && record.status != SeatStatus.CLOSED && record.joined <= statement.round;
        if (!isOwed || !votes.markRestored(task, statement, seat)) return (address(0), 0, 0);
        payWei = _payOf(task, _terms(task), statement.round, statement.slot, true);
        account = record.account;
        bool isUndone = rounds.roundOf(task, statement.round).phase == Phase.UNDONE;
        if (isUndone || record.settled <= statement.round) keptWei = payWei;
    }

    // Silence ---------------------------------------------------------------------------------------------------------
    /// @inheritdoc ISettlement
    function markSilent(TaskId task, uint256 seat, MissedPlace[] calldata missed) external {
        rounds.sync(task);
        Seat memory record = tasks.seatAt(task, seat);
        if (record.status == SeatStatus.NONE) revert IRefusals.SeatUnknown(seat);
        if (record.status != SeatStatus.OPEN) revert IRefusals.SeatClosed(seat);
        bool isSolver = seat >> 16 == uint256(SeatRole.SOLVER);
        bool isSilent = missed.length >= SILENCES_MAX
            && (isSolver ? _isMissing(task, seat, record, missed) : _isMute(task, seat, record, missed));
        if (!isSilent) revert IRefusals.NotSilent(seat);
        tasks.retire(task, seat);
    }

    /// @dev Missed rounds, and no commitment since the first of them. While a contest runs, and `respond` after one was lost, no solver is silent: an honest one
    /// does not train on a wrong root, and contests it itself where another's contest was lost.
    function _isMissing(TaskId task, uint256 seat, Seat memory record, MissedPlace[] calldata missed)
        private
        view
        returns (bool)
    {
        (uint256 first, uint256 next) = (missed[0].round, rounds.nextRound(task));
        bool isKept = record.settled <= first && first < next;
        bool isContested = contests.openOf(task) != 0 || block.number <= contests.contestedUntil(task);
        if (!isKept || isContested) return false;
        (IRounds.Facts[] memory facts, uint256 found) = (rounds.factsOf(task, first, next - 1), 0);
        for (uint256 i = 0; i < facts.length; ++i) {
            (uint256 pool, uint256 number) = (facts[i].pool, seat & type(uint16).max);
            if (pool >> number & 1 == 0) continue;
            uint256 slot = Slots.slotOf(pool, number);
            if (facts[i].committed >> slot & 1 == 1) return false;
            bool isNamed = found < missed.length && _keyOf(missed[found]) == first + i << 64;
            if (isNamed && facts[i].missing >> slot & 1 == 1) ++found;
        }
        return found == missed.length;
    }

    /// @dev Primary draws that are over without the seat's vote, in rounds after its last vote.
    function _isMute(TaskId task, uint256 seat, Seat memory record, MissedPlace[] calldata missed)
        private
        view
        returns (bool)
    {
        uint256 from = _max(record.settled, votes.lastVotedOf(task, seat));
        (uint256 next, uint256 before) = (rounds.nextRound(task), 0);
        for (uint256 i = 0; i < missed.length; ++i) {
            MissedPlace calldata place = missed[i];
            uint256 key = _keyOf(place);
            if (place.round < from || place.round >= next || i != 0 && key <= before) return false;
            if (!_isUnvoted(task, seat, place)) return false;
            before = key;
        }
        return true;
    }

    /// @dev Places in their order.
    function _keyOf(MissedPlace calldata place) private pure returns (uint256) {
        return uint256(place.round) << 64 | uint256(place.slot) << 32 | place.draw;
    }

    function _isUnvoted(TaskId task, uint256 seat, MissedPlace calldata place) private view returns (bool) {
        if (rounds.roundOf(task, place.round).phase == Phase.UNDONE) return false;
        (uint256 drawn,) = votes.drawnOf(task, place.round, place.slot, place.draw, 0);
        if (drawn != seat || !votes.isDrawOver(task, place.round, place.slot, place.draw)) return false;
        return votes.votesOf(task, place.round, place.slot, place.draw)[0] == 0;
    }
}
