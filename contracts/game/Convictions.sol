// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {GameStorage} from "./GameStorage.sol";
import {
    FALLS_MAX,
    GameTerms,
    Member,
    NO_DRAW,
    Phase,
    Proof,
    Seat,
    SeatStatus,
    StatementRef
} from "./GameTypes.sol";
import {Module} from "./Module.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {ISettlement} from "./interfaces/ISettlement.sol";
import {IVotes} from "./interfaces/IVotes.sol";
import {Pots} from "./libraries/Pots.sol";
import {Slots} from "./libraries/Slots.sol";
import {StructLists} from "./libraries/StructLists.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Moves the money of convictions: stakes of liars, and what they owe to solvers whose pay they took.
/// @dev Twin of `convicting.py` and `compensation.py` in `protocol/spec/game`.
abstract contract Convictions is GameStorage, Module, ISettlement {
    // Falls -----------------------------------------------------------------------------------------------------------
    /// @inheritdoc ISettlement
    function fall(TaskId task, uint256 round, address finder) external onlyGame {
        uint256 number = _falls[task].length;
        (uint64 signers, uint256 first, uint256 last) = rounds.fall(task, round, number + 1 >= FALLS_MAX);
        uint256 restWei = seatBook.convict(task, Slots.idsOf(signers), finder, Proof.WRONG_MERGE);
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
        GameTerms storage terms = _terms(task);
        IRounds.Facts[] memory facts = StructLists.loadFacts(rounds, task, first, last);
        IVotes.Ends[] memory ends = StructLists.loadEnds(votes, task, first, last);
        uint256 closed = seatBook.closedSolvers(task);
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
        internal
        returns (uint256 shareWei)
    {
        uint256 number = _fallOf(task, round);
        Fall memory fallen = _falls[task][number];
        if (fallen.owedWei == 0 || record.status == SeatStatus.CLOSED) return 0;
        shareWei = payWei * fallen.heldWei / fallen.owedWei;
        purse.give(Pots.restitution(task, number), record.account, shareWei);
    }

    /// @inheritdoc ISettlement
    function burnRest(TaskId task) external onlyGame {
        for (uint256 i = 0; i < _falls[task].length; ++i) {
            bytes32 pot = Pots.restitution(task, i);
            purse.discard(pot, purse.potOf(pot));
        }
    }

    // False statements ------------------------------------------------------------------------------------------------
    /// @inheritdoc ISettlement
    function punish(TaskId task, uint256 seat, address finder, Proof proof, StatementRef calldata statement)
        external
        onlyGame
    {
        rounds.sync(task);
        (address owed, uint256 owedWei, uint256 keptWei) = (address(0), 0, 0);
        if (statement.draw == NO_DRAW) votes.markConvicted(task, statement.round, statement.slot);
        else (owed, owedWei, keptWei) = _voidedBy(task, seat, statement);
        uint256[] memory seats = new uint256[](1);
        seats[0] = seat;
        uint256 restWei = seatBook.convict(task, seats, finder, proof);
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
        Seat memory record = seatBook.seatAt(task, solver);
        bool isOwed = solver != 0 && record.status != SeatStatus.CLOSED && record.joined <= statement.round;
        if (!isOwed || !votes.markRestored(task, statement, seat)) return (address(0), 0, 0);
        payWei = _payOf(task, statement.round, statement.slot, true);
        account = record.account;
        bool isUndone = rounds.roundOf(task, statement.round).phase == Phase.UNDONE;
        if (isUndone || record.settled <= statement.round) keptWei = payWei;
    }

    /// @dev A claim's share of the segments, rounded down.
    function _payOf(TaskId task, uint256 round, uint256 slot, bool isShort)
        internal
        view
        returns (uint256)
    {
        GameTerms storage terms = _tasks[task].terms;
        if (!isShort) return terms.amounts.solverPay;
        (,, uint256 segments) = rounds.claimOf(task, round, slot);
        return uint256(terms.amounts.solverPay) * segments / (terms.innerSteps / terms.segmentSteps);
    }
}
