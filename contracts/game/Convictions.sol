// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {GameTerms, NO_DRAW, Phase, Proof, SeatRole, SeatStatus, StatementRef} from "./GameTypes.sol";
import {RoundFacts} from "./RoundFacts.sol";
import {SeatLedger} from "./SeatLedger.sol";
import {VoteDraws} from "./VoteDraws.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {ISettlement} from "./interfaces/ISettlement.sol";
import {Ballots} from "./libraries/Ballots.sol";
import {Pots} from "./libraries/Pots.sol";
import {Slots} from "./libraries/Slots.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Moves the money of convictions: stakes of liars, and what they owe to solvers whose pay they took.
/// @dev Twin of `convicting.py` and `compensation.py` in `protocol/spec/game`.
abstract contract Convictions is SeatLedger, RoundFacts, VoteDraws, ISettlement {
    // Falls (7.11, 12.2)
    /// @inheritdoc ISettlement
    function fall(TaskId task, uint256 round, address finder) external onlyGame {
        uint256 number = _falls[task].length;
        (uint64 signers, uint256 first, uint256 last) = game.fall(task, round, number);
        // The signers are convicted first: nothing is owed to any of them.
        uint256 restWei = _convict(task, Slots.idsOf(signers), finder, Proof.WRONG_MERGE);
        vault.move(Pots.stakes(task), Pots.held(task), restWei);
        uint256 owedWei = first > last ? 0 : _owedIn(task, number, first, last);
        // What slashes have left before pays too: a friend may have convicted the signers of something else, or of a later root.
        uint256 heldWei = _min(owedWei, vault.potOf(Pots.held(task)));
        _falls[task].push(Fall(uint128(owedWei), uint128(heldWei)));
        emit RestitutionHeld(task, number, first, last, owedWei, heldWei);
        vault.move(Pots.held(task), Pots.restitution(task), heldWei);
    }

    /// @dev Pay of the accepted claims of the rounds that a fall has undone, of seats that are not CONVICTED. Not of claims that a slash has paid, nor of those
    /// that two auditors of a draw called UNSERVED: a round that stays would not pay them either. A short claim counts as a whole one: to read the segments
    /// of 128 rounds would not fit a transaction, and then no root could fall.
    function _owedIn(TaskId task, uint256 number, uint256 first, uint256 last) private view returns (uint256 owedWei) {
        uint256 payWei = _tasks[task].terms.amounts.solverPay;
        IRounds.Facts[] memory facts = _factsOf(task, first, last);
        uint256 closed = _convictedSolvers(_tasks[task]);
        for (uint256 i = 0; i < facts.length; ++i) {
            if (_roundAt(task, first + i).undoneBy != number) continue;
            uint256 spared = facts[i].restored | facts[i].unserved;
            uint256 owed = facts[i].accepted & ~(Slots.slotsOf(facts[i].pool, closed) | spared);
            owedWei += LibBit.popCount(owed) * payWei;
        }
    }

    /// @dev Who was convicted gets nothing: what is owed may not count its claims, so all that is set aside is others'.
    function _payRestitution(TaskId task, Record storage record, uint256 round, uint256 payWei)
        internal
        returns (uint256 shareWei)
    {
        Fall memory fallen = _falls[task][_roundAt(task, round).undoneBy];
        if (fallen.owedWei == 0 || record.status == SeatStatus.CONVICTED) return 0;
        shareWei = payWei * fallen.heldWei / fallen.owedWei;
        vault.give(Pots.restitution(task), record.account, shareWei);
    }

    // False statements (12.2)
    /// @inheritdoc ISettlement
    /// @dev Never of a CONVICTED seat: each caller has refused it, or ended its question as moot. Of a claim no solver is owed anything.
    function punish(TaskId task, uint256 seat, address finder, Proof proof, StatementRef calldata statement)
        external
        onlyGame
    {
        game.sync(task);
        (address owed, uint256 owedWei, uint256 keptWei) = (address(0), 0, 0);
        if (statement.draw == NO_DRAW) {
            _roundAt(task, statement.round).convicted |= uint64(1 << uint256(statement.slot));
        } else {
            (owed, owedWei, keptWei) = _voidedBy(task, seat, statement);
        }
        uint256[] memory seats = new uint256[](1);
        seats[0] = seat;
        uint256 restWei = _convict(task, seats, finder, proof);
        owedWei = _min(owedWei, restWei);
        emit StatementConvicted(task, seat, proof, statement, finder);
        if (owed != address(0)) emit PayRestored(task, statement.round, statement.slot, owed, owedWei);
        vault.give(Pots.stakes(task), owed, owedWei);
        vault.move(Pots.stakes(task), Pots.held(task), restWei - owedWei);
        vault.discard(Pots.escrow(task), keptWei);
    }

    /// @dev The solver whose claim a false REJECT of this seat has made void, or of which it took the pay late, and that pay. In a late draw that is not
    /// decided yet the REJECT is withdrawn: it takes no pay then, and nothing is to be restored. In any other draw it stays: without it the draw of two
    /// liars, convicted one after the other, would never fail, and nothing would be restored.
    /// @return account of the solver; 0: nobody is owed anything
    /// @return payWei what it lost
    /// @return keptWei what is to be burned of the escrow now: the same; 0 where the solver has settled the round and it is not undone, for then settlement
    /// has burned it
    function _voidedBy(TaskId task, uint256 seat, StatementRef calldata statement)
        private
        returns (address account, uint256 payWei, uint256 keptWei)
    {
        Round storage round = _roundAt(task, statement.round);
        if (!_hasClaim(round, statement.slot) || !round.isDrawn) return (address(0), 0, 0);
        DrawnRound memory all = _drawnRound(task, statement.round);
        DrawnRank memory drawn = _find(all, statement.slot, statement.draw, statement.rank);
        uint256 votes_ = Ballots.ofIn(round.claims[statement.slot].votes, statement.draw);
        bool isReject = drawn.seat == seat && Ballots.at(votes_, statement.rank) == Ballots.REJECT;
        if (!isReject) return (address(0), 0, 0);
        if (drawn.isLate && !_isPayable(all, drawn, votes_)) {
            _keepVotes(all, drawn, Ballots.withdraw(votes_, drawn.rank));
            return (address(0), 0, 0);
        }
        uint256 solver = _seatId(SeatRole.SOLVER, Slots.numberAt(round.pool, statement.slot));
        Record storage record = _tasks[task].seatAt[solver];
        bool isOwed = record.status != SeatStatus.CONVICTED && record.joined <= statement.round;
        if (!isOwed || !_hasTakenPay(round, drawn, votes_)) return (address(0), 0, 0);
        _mark(round);
        round.restored |= uint64(1 << drawn.slot);
        payWei = _payOf(task, round, drawn.slot);
        account = record.account;
        bool isUndone = round.phase == Phase.UNDONE;
        if (isUndone || record.settled <= statement.round) keptWei = payWei;
    }

    /// @dev Whether the votes of a draw made a claim void, or took its pay late, and no slash has paid for the claim. One that was not served had no pay to
    /// lose. An undone round has paid nothing that a late audit could take.
    function _hasTakenPay(Round storage round, DrawnRank memory drawn, uint256 votes_) private view returns (bool) {
        uint256 spared = round.isMarked ? round.restored | round.unserved : 0;
        if (spared >> drawn.slot & 1 == 1) return false;
        (, bool isFailed) = Ballots.statusOf(votes_);
        if (!drawn.isLate) return isFailed;
        bool isPaid = round.accepted >> drawn.slot & 1 == 1 && round.phase != Phase.UNDONE;
        return isPaid && Ballots.isRejectedLate(votes_);
    }

    /// @dev A claim's share of the segments, rounded down.
    function _payOf(TaskId task, Round storage round, uint256 slot) internal view returns (uint256) {
        GameTerms storage terms = _tasks[task].terms;
        return uint256(terms.amounts.solverPay) * round.claims[slot].segments / _wholeSegments(terms);
    }
}
