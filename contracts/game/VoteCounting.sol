// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Hashing} from "../libraries/Hashing.sol";
import {Statements} from "../libraries/Statements.sol";
import {AUDITOR_SEATS_MAX, EPOCH_ROUNDS, RANKS, SeatRole} from "./GameTypes.sol";
import {VoteDraws} from "./VoteDraws.sol";
import {IVotes} from "./interfaces/IVotes.sol";
import {Ballots} from "./libraries/Ballots.sol";
import {Slots} from "./libraries/Slots.sol";

/// @title Checks and counts one vote, and pays its opening.
/// @dev Twin of `protocol/spec/game/vote_judging.py`.
abstract contract VoteCounting is VoteDraws, IVotes {
    /// @dev What became of the votes of one call.
    /// @param base that the round starts from
    /// @param touched slots of which a draw that is not late has got a vote
    /// @param touchedLate slots whose late draw has got one
    struct Count {
        bytes32 base;
        bool isExact;
        uint256 touched;
        uint256 touchedLate;
        HandedRank[] votes;
    }

    /// @dev A vote of the call.
    /// @param code how its word is kept
    /// @param isCounted whether it counts since this call
    /// @param isOpened whether it came with an opening that fits, and its rank has a counted vote of this code
    /// @param isPaid whether its opening is paid since this call
    struct HandedRank {
        DrawnRank drawn;
        uint256 code;
        bool isCounted;
        bool isOpened;
        bool isPaid;
    }

    // Counting (7.7)
    /// @dev Counts a vote whose draw was found, or takes its opening where the rank has a counted vote already. That vote has the same code, but it may be
    /// another vote: two signed votes of a rank are for `proveTwoVotes`.
    function _count(DrawnRound memory all, Count memory count, HandedRank memory one, HandedVote calldata handed)
        internal
    {
        DrawnRank memory drawn = one.drawn;
        uint256 code = Ballots.codeOf(handed.word);
        uint256 votes_ = _votesOf(all.task, all.number, drawn.slot, drawn.draw);
        uint256 before = Ballots.at(votes_, drawn.rank);
        // Passed over: a word that is none; where the rank has voted, a vote of another code or without an opening.
        if (code == Ballots.NOTHING || before != Ballots.NOTHING && (before != code || !handed.isOpened)) return;
        if (before == Ballots.NOTHING && !_isDue(all, drawn, votes_, code)) return;
        (bool isGood, bool isFitting) = _isSigned(all, count, drawn, handed);
        if (!isGood) return;
        one.isOpened = isFitting;
        if (before != Ballots.NOTHING) return;
        one.isCounted = true;
        _cast(all, count, drawn, Ballots.cast(votes_, drawn.rank, code), code);
    }

    /// @dev Whether a first vote of this rank counts now. An UNSERVED counts in a failed draw too. Else a reserve of the solver's own that abstains after
    /// the primary's UNSERVED would make the draw fail with one UNSERVED. Then the other reserve's UNSERVED, without which no fee is due, would not count.
    function _isDue(DrawnRound memory all, DrawnRank memory drawn, uint256 votes_, uint256 code)
        private
        view
        returns (bool)
    {
        if (block.number > drawn.from + 2 * all.auditMax) return false;
        (bool isAccepted, bool isFailed) = Ballots.statusOf(votes_);
        if (isAccepted || isFailed && code != Ballots.UNSERVED) return false;
        // Whether no other auditor is waited for: the rank is 0, or the primary has voted.
        bool isItsTurn = drawn.rank == 0 || Ballots.at(votes_, 0) != Ballots.NOTHING;
        return isItsTurn || block.number >= drawn.from + all.auditMax / 3;
    }

    /// @dev Whether the drawn seat signed this vote, it says all that its word needs, and in an exact task its opening, if there is one, bears it out;
    /// whether the opening fits. Votes of convicted seats do not count.
    function _isSigned(DrawnRound memory all, Count memory count, DrawnRank memory drawn, HandedVote calldata handed)
        private
        view
        returns (bool isGood, bool isFitting)
    {
        Task storage entry = _tasks[all.task];
        if (_isConvicted(entry, drawn.seat)) return (false, false);
        address auditor = entry.seatAt[drawn.seat].account;
        Statements.Vote memory vote = _voteOf(all, count, drawn, handed);
        bool isBorneOut = true;
        if (handed.isOpened) {
            Statements.Opening calldata opening = handed.opening;
            uint256 number = Slots.numberAt(_roundAt(all.task, all.number).pool, drawn.slot);
            vote.endLeaf = Hashing.boundaryLeaf(
                vote.domain,
                vote.round,
                entry.seatAt[_seatId(SeatRole.SOLVER, number)].account,
                vote.segment + 1,
                opening.boundarySalt,
                opening.claimEndRoot
            );
            vote.seal = Statements.sealOf(vote, auditor, opening.ownEndRoot, opening.sealSalt);
            isBorneOut = !count.isExact || Statements.fitsExactly(vote.word, opening);
            isFitting = isBorneOut && Ballots.isCompared(handed.word);
        }
        if (!isBorneOut || !Statements.isWhole(vote)) return (false, isFitting);
        isGood = Statements.signer(_digest(Statements.hash(vote)), handed.r, handed.vs) == auditor;
    }

    /// @dev What the auditor signed; where it is handed in with its opening, the end leaf and the seal follow from that.
    function _voteOf(DrawnRound memory all, Count memory count, DrawnRank memory drawn, HandedVote calldata handed)
        private
        view
        returns (Statements.Vote memory)
    {
        return Statements.Vote({
            domain: _domain(all.task),
            round: uint32(all.number),
            baseRoot: count.base,
            seed: drawn.isLate ? all.lateSeed : all.seed,
            slot: uint32(drawn.slot),
            claimRoot: all.claimRoot,
            draw: uint32(drawn.draw),
            rank: uint32(drawn.rank),
            segment: uint32(drawn.segment),
            startLeaf: handed.startLeaf,
            seal: handed.seal,
            endLeaf: handed.endLeaf,
            word: Statements.Word(handed.word),
            namedLeaf: handed.namedLeaf
        });
    }

    /// @dev Writes the votes of the draw, that its auditor has voted, and what two UNSERVED cost.
    function _cast(DrawnRound memory all, Count memory count, DrawnRank memory drawn, uint256 votes_, uint256 code)
        private
    {
        _keepVotes(all, drawn, votes_);
        uint16[AUDITOR_SEATS_MAX] storage last = _lastVoted[all.task][SeatRole(drawn.seat >> 16)];
        uint256 number = drawn.seat & NUMBER;
        if (last[number] <= all.number) last[number] = uint16(all.number + 1);
        if (drawn.isLate) count.touchedLate |= 1 << drawn.slot;
        else count.touched |= 1 << drawn.slot;
        if (code == Ballots.UNSERVED) _charge(all, drawn, votes_);
    }

    /// @dev The second UNSERVED of a draw costs both who said so, the third its own auditor.
    function _charge(DrawnRound memory all, DrawnRank memory drawn, uint256 votes_) private {
        uint256 said = Ballots.countUnserved(votes_);
        if (said < 2) return;
        Round storage round = _roundAt(all.task, all.number);
        _mark(round);
        round.unserved |= uint64(1 << drawn.slot);
        for (uint256 rank = 0; rank < RANKS; ++rank) {
            bool isNew = said == 2 ? Ballots.at(votes_, rank) == Ballots.UNSERVED : rank == drawn.rank;
            if (!isNew) continue;
            uint256 seat = _seatAt(all, drawn, rank);
            ++_bookOf(all, seat).fees[seat & NUMBER];
        }
    }

    function _bookOf(DrawnRound memory all, uint256 seat) private view returns (AuditBook storage) {
        return _auditBooks[all.task][all.number / EPOCH_ROUNDS][SeatRole(seat >> 16)];
    }

    // Paying (7.7)
    /// @dev Pays the opening of a vote until from + 3 auditMax, once its draw is accepted, has failed or is out of time.
    function _pay(DrawnRound memory all, HandedRank memory one) internal {
        DrawnRank memory drawn = one.drawn;
        if (!one.isOpened || one.isPaid || block.number > drawn.from + 3 * all.auditMax) return;
        uint256 votes_ = _votesOf(all.task, all.number, drawn.slot, drawn.draw);
        if (Ballots.isPaid(votes_, drawn.rank) || !_isPayable(all, drawn, votes_)) return;
        _keepVotes(all, drawn, Ballots.pay(votes_, drawn.rank));
        ++_bookOf(all, drawn.seat).pays[drawn.seat & NUMBER];
        one.isPaid = true;
    }
}
