// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Hashing} from "../libraries/Hashing.sol";
import {Statements} from "../libraries/Statements.sol";
import {Audit, EPOCH_ROUNDS, RANKS} from "./GameTypes.sol";
import {VoteDraws} from "./VoteDraws.sol";
import {Audits} from "./libraries/Audits.sol";
import {Ballots} from "./libraries/Ballots.sol";
import {Books} from "./libraries/Books.sol";
import {Lanes16} from "./libraries/Lanes16.sol";
import {Panel, Panels} from "./libraries/Panels.sol";

/// @title Checks and counts one vote, and pays its opening.
/// @dev Twin of `protocol/spec/game/vote_judging.py`.
abstract contract VoteCounting is VoteDraws {
    using Audits for Audit;
    using Books for uint256;
    using Lanes16 for mapping(uint256 => uint256);
    using Panels for Panel;

    uint256 private constant OPENED = 1;
    /// @dev What became of a vote in this call: it counts now; its opening fits; it is paid now.
    uint256 internal constant IS_COUNTED = 1;
    uint256 internal constant IS_FITTING = 2;
    uint256 internal constant IS_PAID = 4;

    // Counting --------------------------------------------------------------------------------------------------------
    /// @return mark IS_COUNTED: the vote counts now; IS_FITTING: it came with an opening that fits, and counts now or did before
    function _count(VoteRing storage s, Session memory x, HandedVote calldata handed, address voter)
        internal
        returns (uint256 mark)
    {
        uint256 votes_ = _votesAt(x);
        (uint256 code, uint256 before) = (Ballots.codeOf(x.word), Ballots.at(votes_, x.rank));
        bool isWithOpening = uint8(handed.place >> 32) == OPENED;
        if (code == 0 || before != 0 && (before != code || !isWithOpening)) return 0;
        if (before == 0 && !_isDue(x, votes_, code)) return 0;
        (bool isGood, bool isFitting) = _isSigned(x, handed, voter, isWithOpening);
        if (!isGood) return 0;
        if (isFitting) mark = IS_FITTING;
        if (before != 0) return mark;
        _put(s, x, votes_ | code << 3 * x.rank, code);
        return mark | IS_COUNTED;
    }

    /// @dev Whether a first vote of this rank counts now. An UNSERVED counts in a failed draw too: else an own reserve that abstains first would save a
    /// solver that serves nobody its fee.
    function _isDue(Session memory x, uint256 votes_, uint256 code) private view returns (bool) {
        unchecked {
            (uint256 from, uint256 auditMax) = (x.from, x.audit.auditMax);
            if (block.number > from + 2 * auditMax) return false;
            (bool isAccepted, bool isFailed) = Ballots.fateOf(votes_);
            if (isAccepted || isFailed && code != Ballots.UNSERVED) return false;
            return x.rank == 0 || votes_ & 7 != 0 || block.number >= from + auditMax / 3;
        }
    }

    /// @dev Whether the drawn seat signed this vote, it says all that its word needs, and in an exact task its opening, if there is one, bears it out;
    /// whether the opening fits.
    function _isSigned(Session memory x, HandedVote calldata handed, address voter, bool isWithOpening)
        private
        view
        returns (bool isGood, bool isFitting)
    {
        if (voter == address(0)) return (false, false);
        _fillVote(x, handed);
        Statements.Vote memory vote = x.vote;
        bool isBorneOut = true;
        if (isWithOpening) {
            address solver = _solverAt(x);
            vote.endLeaf = Hashing.boundaryLeaf(
                x.domain, uint32(x.round), solver, uint32(x.segment + 1), handed.b, handed.a
            );
            vote.seal = Statements.sealOf(vote, voter, handed.c, handed.d);
            isBorneOut = !x.audit.isExact || _isExact(vote.word, handed.a == handed.c);
            isFitting = isBorneOut && Ballots.isCompared(x.word);
        }
        if (!isBorneOut || !Statements.isWhole(vote)) return (false, isFitting);
        bytes32 digest = _digestIn(x.separator, Statements.hash(vote));
        isGood = Statements.signer(digest, handed.r, handed.vs) == voter;
    }

    /// @dev Who made the claim at hand: accounts of solvers stand behind those of voters.
    function _solverAt(Session memory x) private pure returns (address) {
        unchecked {
            return address(uint160(_at(x.accounts, x.accounts.length - x.count + x.slot)));
        }
    }

    function _isExact(Statements.Word word, bool isSame) private pure returns (bool) {
        if (word == Statements.Word.ACCEPT) return isSame;
        return word != Statements.Word.REJECT_STATE || !isSame;
    }

    /// @dev One place in memory for all votes; domain, round and base stay. By hand: field by field it costs as much as the signature's hashes. The word is
    /// one that `Ballots.codeOf` knows, places are below 2^32.
    function _fillVote(Session memory x, HandedVote calldata handed) private pure {
        Statements.Vote memory vote = x.vote;
        bytes32 seed = x.isLate ? x.audit.lateSeed : x.audit.seed;
        (uint256 slot, uint256 draw, uint256 rank) = (x.slot, x.draw, x.rank);
        (uint256 segment, uint256 word) = (x.segment, x.word);
        (bytes32 root,) = x.audit.claimAt(slot);
        assembly ("memory-safe") {
            mstore(add(vote, 0x60), seed)
            mstore(add(vote, 0x80), slot)
            mstore(add(vote, 0xa0), root)
            mstore(add(vote, 0xc0), draw)
            mstore(add(vote, 0xe0), rank)
            mstore(add(vote, 0x100), segment)
            // startLeaf; seal and endLeaf of a vote without an opening.
            mstore(add(vote, 0x120), calldataload(add(handed, 0x20)))
            mstore(add(vote, 0x140), calldataload(add(handed, 0x60)))
            mstore(add(vote, 0x160), calldataload(add(handed, 0x40)))
            mstore(add(vote, 0x180), word)
            mstore(add(vote, 0x1a0), and(calldataload(handed), 0xffffffff))
        }
    }

    /// @dev Writes the votes of the draw, that its auditor has voted, and what two UNSERVED cost.
    function _put(VoteRing storage s, Session memory x, uint256 votes_, uint256 code) private {
        // A vote is only ever added, so the bits that stand stay.
        x.ballots.word |= votes_ << x.shift;
        uint256 key = Books.keyOf(x.round, x.seat);
        _turn(s.books, x.book, Books.wordOf(key));
        x.book.word = x.book.word.raise(key, x.round);
        if (x.isLate) x.touchedLate |= 1 << x.slot;
        else x.touched |= 1 << x.slot;
        if (code == Ballots.UNSERVED) _charge(s, x, votes_);
    }

    function _charge(VoteRing storage s, Session memory x, uint256 votes_) private {
        uint256 count = Ballots.countUnserved(votes_);
        if (count < 2) return;
        _troubleOf(s, x.round).unserved |= uint64(1 << x.slot);
        uint256 epoch = x.round / EPOCH_ROUNDS % EPOCHS << 32;
        Panel memory panel = x.isLate ? x.late : x.primary;
        uint256 draw = x.isLate ? 0 : x.draw;
        for (uint256 rank = 0; rank < RANKS; ++rank) {
            bool isNew = count == 2 ? Ballots.at(votes_, rank) == Ballots.UNSERVED : rank == x.rank;
            if (isNew) s.fees.add(epoch | panel.seatAt(x.slot, draw, rank), 1);
        }
    }

    // Paying ----------------------------------------------------------------------------------------------------------
    function _pay(VoteRing storage s, Session memory x) internal returns (bool) {
        uint256 votes_ = _votesAt(x);
        unchecked {
            if (block.number > x.from + 3 * x.audit.auditMax) return false;
            if (Ballots.isPaid(votes_, x.rank) || !_isOver(x, votes_)) return false;
            x.ballots.word += Ballots.PAID << x.shift + 3 * x.rank;
        }
        uint256 key = Books.keyOf(x.round, x.seat);
        _turn(s.books, x.book, Books.wordOf(key));
        x.book.word = x.book.word.pay(key);
        return true;
    }
}
