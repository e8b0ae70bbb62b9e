// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {AuditDraw} from "../libraries/AuditDraw.sol";
import {Audit} from "./GameTypes.sol";
import {VoteCounting} from "./VoteCounting.sol";
import {IVotes} from "./interfaces/IVotes.sol";
import {Audits} from "./libraries/Audits.sol";
import {Ballots} from "./libraries/Ballots.sol";
import {Log, Logs} from "./libraries/Logs.sol";
import {Slots} from "./libraries/Slots.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Judges claims: counts the votes of one call, decides claims by them, and pays openings.
/// @dev Twin of `vote_judging.py` and `claim_status.py` in `protocol/spec/game`.
abstract contract VoteJudging is VoteCounting {
    using Audits for Audit;
    using Logs for Log;

    // Judging ---------------------------------------------------------------------------------------------------------
    /// @inheritdoc IVotes
    function judge(TaskId task, uint256 round, HandedVote[] calldata handed) external {
        Session memory x;
        _judge(x, task, round, handed);
    }

    /// @inheritdoc IVotes
    function judgeAndPost(
        TaskId task,
        uint256 round,
        HandedVote[] calldata handed,
        HandedVote[] calldata late,
        uint64 merged,
        bytes32 root,
        uint64 signers,
        bytes calldata signatures
    ) external {
        Session memory x;
        if (late.length != 0 && round != 0) _judge(x, task, round - 1, late);
        if (handed.length != 0) _judge(x, task, round, handed);
        rounds.post(task, round, merged, root, signers, signatures);
    }

    /// @param x of votes of another round of the same task, or new
    function _judge(Session memory x, TaskId task, uint256 round, HandedVote[] calldata handed) private {
        _look(x, task, round, _slotsIn(handed));
        if (x.audit.isUndone || !x.audit.isSealed) return;
        _prepare(x, handed);
        VoteRing storage s = _voteRings[task];
        uint256[] memory marks = new uint256[](handed.length);
        bytes memory counted = _countAll(s, x, handed, marks);
        _decide(s, x);
        if (counted.length != 0) emit VotesCounted(task, round, counted);
        bytes memory opened = _open(s, x, handed, marks);
        if (opened.length != 0) emit VotesOpened(task, round, opened);
        _turn(s.ballots, x.ballots, NOTHING);
        _turn(s.books, x.book, NOTHING);
        _logRelayed(task, round, handed, marks);
    }

    /// @dev Counts votes, and pays those whose draw is over already: nothing that is paid changes what counts.
    /// @param marks filled in for each vote
    /// @return counted what an event says of votes that count now
    function _countAll(
        VoteRing storage s,
        Session memory x,
        HandedVote[] calldata handed,
        uint256[] memory marks
    ) private returns (bytes memory counted) {
        Log memory log = Logs.create(handed.length);
        unchecked {
            for (uint256 i = 0; i < handed.length; ++i) {
                HandedVote calldata one = handed[i];
                if (!_goTo(s, x, one.place, i)) continue;
                uint256 mark = _count(s, x, one, address(uint160(_at(x.accounts, i))));
                if (mark & IS_COUNTED != 0) log.append(_entryOf(one.place));
                if (mark & IS_FITTING != 0 && _pay(s, x)) mark |= IS_PAID;
                _set(marks, i, mark);
            }
        }
        return log.seal();
    }

    /// @dev What events say of a vote, from the place that it names, in the lowest four bytes.
    function _entryOf(uint256 place) private pure returns (uint256) {
        return place >> 40;
    }

    /// @dev Who calls by way of a contract would hide from strangers what it hands in: the chain shows the data of transactions alone. An account with
    /// code of its own (EIP-7702) is such a contract, also where it sends the transaction to itself. Only what was taken is logged: nobody can make it long.
    function _logRelayed(TaskId task, uint256 round, HandedVote[] calldata handed, uint256[] memory marks)
        private
    {
        if (msg.sender == tx.origin && msg.sender.code.length == 0) return;
        HandedVote[] memory taken = new HandedVote[](handed.length);
        uint256 count;
        for (uint256 i = 0; i < handed.length; ++i) {
            if (marks[i] & (IS_COUNTED | IS_PAID) != 0) taken[count++] = handed[i];
        }
        if (count == 0) return;
        assembly ("memory-safe") {
            mstore(taken, count)
        }
        emit VotesRelayed(task, round, taken);
    }

    // Deciding --------------------------------------------------------------------------------------------------------
    /// @dev What the votes of this call have made of claims.
    function _decide(VoteRing storage s, Session memory x) private {
        for (uint256 left = x.touchedLate; left != 0; left &= left - 1) {
            x.slot = LibBit.ffs(left);
            bool isRejected = Ballots.isRejectedLate(_votesOf(s, x, x.audit.draws));
            if (isRejected) _troubleOf(s, x.round).lateRejected |= uint64(1 << x.slot);
        }
        if (x.touched == 0) return;
        Result memory result = _resultOf(s, x.round);
        uint256 closed = Slots.slotsOf(x.audit.pool, seatBook.closedSolvers(x.task));
        for (uint256 left = x.touched & ~uint256(result.accepted | result.refused); left != 0; left &= left - 1) {
            x.slot = LibBit.ffs(left);
            _decideClaim(s, x, result, closed >> x.slot & 1 == 1);
        }
        _keepResult(s, result);
    }

    function _decideClaim(VoteRing storage s, Session memory x, Result memory result, bool isClosed) private {
        uint64 bit = uint64(1 << x.slot);
        (, uint256 segments) = x.audit.claimAt(x.slot);
        uint256 count = AuditDraw.countDraws(x.audit.draws, segments);
        uint256 accepted;
        unchecked {
            for (uint256 draw = 0; draw < count; ++draw) {
                (bool isAccepted, bool isFailed) = Ballots.fateOf(_votesOf(s, x, draw));
                if (isFailed) result.refused |= bit;
                if (isAccepted) ++accepted;
            }
        }
        if (accepted != count || isClosed) return;
        result.accepted |= bit;
        if (block.number > x.audit.closed + x.audit.auditMax) result.refused |= bit;
    }

    // Opening ---------------------------------------------------------------------------------------------------------
    /// @dev Pays openings of decided draws, until 3 auditMax. Some were paid as they were counted; votes behind the others may have ended their draws.
    /// @return opened what an event says of votes that are paid now
    function _open(VoteRing storage s, Session memory x, HandedVote[] calldata handed, uint256[] memory marks)
        private
        returns (bytes memory opened)
    {
        Log memory log = Logs.create(handed.length);
        unchecked {
            for (uint256 i = 0; i < handed.length; ++i) {
                uint256 mark = _at(marks, i);
                if (mark & IS_FITTING == 0) continue;
                if (mark & IS_PAID == 0) {
                    if (!_goTo(s, x, handed[i].place, i) || !_pay(s, x)) continue;
                    _set(marks, i, mark | IS_PAID);
                }
                log.append(_entryOf(handed[i].place));
            }
        }
        return log.seal();
    }
}
