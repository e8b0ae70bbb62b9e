// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {Statements} from "../libraries/Statements.sol";
import {RANKS, RING_ROUNDS, StatementRef} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {VoteJudging} from "./VoteJudging.sol";
import {VoteStorage} from "./VoteStorage.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IVotes} from "./interfaces/IVotes.sol";
import {Ballots} from "./libraries/Ballots.sol";
import {Books} from "./libraries/Books.sol";
import {Lanes16} from "./libraries/Lanes16.sol";
import {Slots} from "./libraries/Slots.sol";
import {StructLists} from "./libraries/StructLists.sol";
import {Voters} from "./libraries/Voters.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Votes on claims, the majority behind a merge, and what other contracts and nodes read of them.
contract Votes is VoteJudging {
    using Lanes16 for mapping(uint256 => uint256);

    uint256 private constant SIGNATURE_BYTES = 64;

    constructor(Modules memory modules) Module(modules) {}

    // Merging ---------------------------------------------------------------------------------------------------------
    /// @inheritdoc IVotes
    /// @dev Signatures that are not good, and those of closed seats, do not count.
    function requireMajority(
        TaskId task,
        Statements.MergeSignature calldata merge,
        uint64 seats,
        uint64 signers,
        bytes calldata signatures
    ) external view returns (uint64 good) {
        bytes32 digest = _digest(Statements.hash(merge));
        uint256[] memory accounts = Voters.load(seatBook, task, Slots.idsOf(signers));
        uint256 place;
        for (uint256 left = signers; left != 0; left &= left - 1) {
            uint256 start = place * SIGNATURE_BYTES;
            if (signatures.length < start + SIGNATURE_BYTES) break;
            (bytes32 r, bytes32 vs) = (bytes32(signatures[start:]), bytes32(signatures[start + 32:]));
            address signer = Statements.signer(digest, r, vs);
            bool isGood = signer != address(0) && uint160(signer) == accounts[place];
            if (isGood) good |= uint64(left & ~(left - 1));
            ++place;
        }
        good &= seats;
        if (2 * LibBit.popCount(good) <= LibBit.popCount(seats)) revert IRefusals.NoMajority(seats, good);
    }

    // Modules' calls --------------------------------------------------------------------------------------------------
    /// @inheritdoc IVotes
    function markConvicted(TaskId task, uint256 round, uint256 slot) external onlyGame {
        VoteRing storage s = _voteRings[task];
        Result memory result = _resultOf(s, round);
        result.convicted |= uint64(1 << slot);
        _keepResult(s, result);
    }

    /// @inheritdoc IVotes
    function markRestored(TaskId task, StatementRef calldata ref, uint256 seat)
        external
        onlyGame
        returns (bool)
    {
        Session memory x;
        _look(x, task, ref.round, 1 << uint256(ref.slot));
        bool isDrawn = x.audit.isSealed && ref.draw <= x.audit.draws && _enter(x, _placeOf(ref));
        if (!isDrawn || x.seat != seat) return false;
        VoteRing storage s = _voteRings[task];
        uint256 votes_ = _peek(s, ref.round, ref.slot, ref.draw, x.audit.draws);
        if (Ballots.at(votes_, ref.rank) != Ballots.REJECT || !_hasTakenPay(s, x, votes_)) return false;
        Trouble storage trouble = _troubleOf(s, ref.round);
        // A claim that was not served had no pay to lose.
        if ((trouble.restored | trouble.unserved) >> ref.slot & 1 == 1) return false;
        trouble.restored |= uint64(1 << ref.slot);
        return true;
    }

    /// @dev Whether the votes of the draw at hand made its claim void, or took its pay late. An undone round has paid nothing that a late audit could take.
    function _hasTakenPay(VoteRing storage s, Session memory x, uint256 votes_) private view returns (bool) {
        if (x.draw == x.audit.draws) {
            bool isPaid = _resultOf(s, x.round).accepted >> x.slot & 1 == 1 && !x.audit.isUndone;
            return isPaid && Ballots.isRejectedLate(votes_);
        }
        (, bool isFailed) = Ballots.fateOf(votes_);
        return isFailed;
    }

    function _placeOf(StatementRef calldata ref) private pure returns (uint256) {
        if (ref.draw > type(uint8).max || ref.rank > type(uint8).max) return NOTHING;
        return uint256(ref.slot) << 64 | uint256(ref.draw) << 56 | uint256(ref.rank) << 48;
    }

    /// @inheritdoc IVotes
    function takeBucket(TaskId task, uint256 seat, uint256 epoch)
        external
        onlyGame
        returns (uint256 pays, uint256 fees)
    {
        VoteRing storage s = _voteRings[task];
        uint256 key = epoch % EPOCHS << 32 | seat;
        return (Books.take(s.books, key), s.fees.take(key));
    }

    // Views -----------------------------------------------------------------------------------------------------------
    /// @inheritdoc IVotes
    function resultOf(TaskId task, uint256 round)
        external
        view
        returns (uint64 accepted, uint64 refused, uint64 convicted)
    {
        Result memory result = _resultOf(_voteRings[task], round);
        return (result.accepted, result.refused, result.convicted);
    }

    /// @inheritdoc IVotes
    /// @dev Written as it is encoded.
    function endsOf(TaskId task, uint256 first, uint256 last) external view returns (Ends[] memory ends) {
        VoteRing storage s = _voteRings[task];
        ends = new Ends[](last + 1 - first);
        for (uint256 round = first; round <= last; ++round) {
            Result memory result = _resultOf(s, round);
            Ends memory end = ends[round - first];
            (end.accepted, end.convicted) = (result.accepted & ~result.convicted, result.convicted);
            if (!result.isTroubled) continue;
            Trouble memory trouble = s.troubles[round % RING_ROUNDS];
            (end.unserved, end.lateRejected) = (trouble.unserved, trouble.lateRejected);
            end.restored = trouble.restored;
        }
        StructLists.send(ends);
    }

    /// @inheritdoc IVotes
    function countUnserved(TaskId task, uint256 round, uint256 slot) external view returns (uint256 count) {
        uint256 draws = _terms(task).draws;
        for (uint256 draw = 0; draw <= draws; ++draw) {
            if (Ballots.countUnserved(_peek(_voteRings[task], round, slot, draw, draws)) >= 2) ++count;
        }
    }

    /// @inheritdoc IVotes
    function votesOf(TaskId task, uint256 round, uint256 slot, uint256 draw)
        external
        view
        returns (uint256[3] memory codes)
    {
        uint256 votes_ = _peek(_voteRings[task], round, slot, draw, _terms(task).draws);
        for (uint256 rank = 0; rank < RANKS; ++rank) {
            codes[rank] = votes_ >> 3 * rank & 7;
        }
    }

    /// @inheritdoc IVotes
    function drawnOf(TaskId task, uint256 round, uint256 slot, uint256 draw, uint256 rank)
        external
        view
        returns (uint256 seat, uint256 segment)
    {
        Session memory x;
        _look(x, task, round, 1 << slot);
        if (!x.audit.isSealed || draw > type(uint8).max || rank > type(uint8).max) return (0, 0);
        if (_enter(x, slot << 64 | draw << 56 | rank << 48)) (seat, segment) = (x.seat, x.segment);
    }

    /// @inheritdoc IVotes
    function lastVotedOf(TaskId task, uint256 seat) external view returns (uint256) {
        return Books.lastOf(_voteRings[task].books, seat);
    }

    /// @inheritdoc IVotes
    function isDrawOver(TaskId task, uint256 round, uint256 slot, uint256 draw) external view returns (bool) {
        Session memory x;
        _look(x, task, round, 1 << slot);
        if (!x.audit.isSealed || draw > type(uint8).max || !_enter(x, slot << 64 | draw << 56)) return false;
        x.from = draw == x.audit.draws ? x.audit.lateFrom : x.audit.closed;
        return _isOver(x, _peek(_voteRings[task], round, slot, draw, x.audit.draws));
    }
}
