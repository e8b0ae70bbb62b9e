// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EXACT_FORMAT, TaskId} from "../Types.sol";
import {AuditDraw} from "../libraries/AuditDraw.sol";
import {Phase} from "./GameTypes.sol";
import {VoteCounting} from "./VoteCounting.sol";
import {IVotes} from "./interfaces/IVotes.sol";
import {Ballots} from "./libraries/Ballots.sol";
import {Slots} from "./libraries/Slots.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title Judges claims: counts the votes of one call, decides claims by them, and pays openings.
/// @dev Twin of `vote_judging.py` and `claim_status.py` in `protocol/spec/game`.
abstract contract VoteJudging is VoteCounting {
    // Judging (7.7)
    /// @inheritdoc IVotes
    function judge(TaskId task, uint256 round, HandedVote[] calldata handed) external {
        _judge(task, round, handed);
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
        if (late.length != 0 && round != 0) _judge(task, round - 1, late);
        if (handed.length != 0) _judge(task, round, handed);
        game.post(task, round, merged, root, signers, signatures);
    }

    function _judge(TaskId task, uint256 number, HandedVote[] calldata handed) private {
        Round storage round = _roundOf(task, number);
        // Votes of a FALLEN round count as before.
        if (round.phase == Phase.UNDONE || !round.isDrawn) return;
        DrawnRound memory all = _drawnRound(task, number);
        Count memory count;
        (count.base, count.isExact) = (round.base, _tasks[task].terms.format == EXACT_FORMAT);
        count.votes = new HandedRank[](handed.length);
        for (uint256 i = 0; i < handed.length; ++i) {
            HandedRank memory one = count.votes[i];
            one.drawn = _find(all, handed[i].slot, handed[i].draw, handed[i].rank);
            if (one.drawn.seat == 0) continue;
            _count(all, count, one, handed[i]);
            // The bit of a paid opening changes nothing that `_count` looks at: so votes are paid between others that are counted.
            _pay(all, one);
        }
        _decide(all, count);
        bytes memory counted = _listCounted(count.votes, handed);
        if (counted.length != 0) emit VotesCounted(task, number, counted);
        // Votes later in the list may have decided draws of earlier ones.
        for (uint256 i = 0; i < handed.length; ++i) {
            _pay(all, count.votes[i]);
        }
        bytes memory paid = _listPaid(count.votes, handed);
        if (paid.length != 0) emit VotesOpened(task, number, paid);
        _logRelayed(task, number, count.votes, handed);
    }

    // Events
    function _listCounted(HandedRank[] memory votes_, HandedVote[] calldata handed) private pure returns (bytes memory said) {
        for (uint256 i = 0; i < handed.length; ++i) {
            if (votes_[i].isCounted) said = bytes.concat(said, _entryOf(handed[i]));
        }
    }

    function _listPaid(HandedRank[] memory votes_, HandedVote[] calldata handed) private pure returns (bytes memory said) {
        for (uint256 i = 0; i < handed.length; ++i) {
            if (votes_[i].isPaid) said = bytes.concat(said, _entryOf(handed[i]));
        }
    }

    /// @dev What events say of a vote: slot, draw, rank and word.
    function _entryOf(HandedVote calldata handed) private pure returns (bytes memory) {
        return abi.encodePacked(uint8(handed.slot), handed.draw, handed.rank, handed.word);
    }

    /// @dev Who calls by way of a contract would hide from strangers what it hands in: the chain shows the data of transactions alone. An account with
    /// code of its own (EIP-7702) is such a contract, also where it sends the transaction to itself. Only what was taken is logged: nobody can make it long.
    function _logRelayed(TaskId task, uint256 round, HandedRank[] memory votes_, HandedVote[] calldata handed) private {
        if (msg.sender == tx.origin && msg.sender.code.length == 0) return;
        uint256 count;
        for (uint256 i = 0; i < handed.length; ++i) {
            if (votes_[i].isCounted || votes_[i].isPaid) ++count;
        }
        if (count == 0) return;
        HandedVote[] memory taken = new HandedVote[](count);
        count = 0;
        for (uint256 i = 0; i < handed.length; ++i) {
            if (votes_[i].isCounted || votes_[i].isPaid) taken[count++] = handed[i];
        }
        emit VotesRelayed(task, round, taken);
    }

    // Deciding (7.7)
    /// @dev What the votes of this call have made of claims. A claim that was decided before is left as it is. `accepted` alone: mergeable. Both bits:
    /// accepted after closed + auditMax, so paid and not merged. `refused` alone: void.
    function _decide(DrawnRound memory all, Count memory count) private {
        Round storage round = _roundAt(all.task, all.number);
        for (uint256 left = count.touchedLate; left != 0; left &= left - 1) {
            uint256 slot = LibBit.ffs(left);
            if (!Ballots.isRejectedLate(_votesOf(all.task, all.number, slot, all.draws))) continue;
            _mark(round);
            round.lateRejected |= uint64(1 << slot);
        }
        if (count.touched == 0) return;
        uint256 closed = Slots.slotsOf(round.pool, _convictedSolvers(_tasks[all.task]));
        (uint64 accepted, uint64 refused) = (round.accepted, round.refused);
        bool isLate = block.number > all.closed + all.auditMax;
        for (uint256 left = count.touched & ~uint256(accepted | refused); left != 0; left &= left - 1) {
            uint256 slot = LibBit.ffs(left);
            uint64 bit = uint64(1 << slot);
            (bool isAccepted, bool isVoid) = _statusOf(all, round, slot);
            if (isVoid) refused |= bit;
            if (!isAccepted || closed & bit != 0) continue;
            accepted |= bit;
            if (isLate) refused |= bit;
        }
        (round.accepted, round.refused) = (accepted, refused);
    }

    /// @return isAccepted whether all draws of a claim, but for a late one, are accepted
    /// @return isVoid whether one has failed
    function _statusOf(DrawnRound memory all, Round storage round, uint256 slot)
        private
        view
        returns (bool isAccepted, bool isVoid)
    {
        KeptClaim storage claim = round.claims[slot];
        (uint256 votes_, uint256 count) = (claim.votes, AuditDraw.countDraws(all.draws, claim.segments));
        isAccepted = true;
        for (uint256 draw = 0; draw < count; ++draw) {
            (bool isDrawAccepted, bool isFailed) = Ballots.statusOf(Ballots.ofIn(votes_, draw));
            isAccepted = isAccepted && isDrawAccepted;
            isVoid = isVoid || isFailed;
        }
    }
}
