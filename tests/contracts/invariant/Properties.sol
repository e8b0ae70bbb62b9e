// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Phase, RoundView, Seat, SeatRole, SeatStatus} from "../../../contracts/game/GameTypes.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {IVotes} from "../../../contracts/game/interfaces/IVotes.sol";
import {Pots} from "../../../contracts/game/libraries/Pots.sol";
import {Slots} from "../../../contracts/game/libraries/Slots.sol";
import {LibBit} from "solady/utils/LibBit.sol";
import {Holders} from "./Holders.sol";

/// @title What must hold after every call, at each settlement, and when a task has come to its end.
abstract contract Properties is Holders {
    /// @dev Seats that were seen convicted in this lap.
    mapping(bytes32 => bool) private _isConvicted;

    // After every call
    function checkAll() internal {
        checkSolvency();
        _checkSeats();
        _checkBonds();
    }

    /// @dev Tokens held are credits, pots and what is to be burned.
    function checkSolvency() public view {
        uint256 owedWei = vault.burnPending() + unclaimedWei();
        for (uint256 i = 0; i < people.length; ++i) {
            owedWei += vault.creditOf(people[i]);
        }
        for (uint256 i = 0; i < pots.length; ++i) {
            owedWei += vault.potOf(pots[i]);
        }
        _requireEqual(token.balanceOf(address(vault)), owedWei, "solvency");
    }

    /// @dev All stakes lie in their pot: so nobody is slashed for more than its stake, or for another's. A convicted seat stays convicted. Of a
    /// convicted seat's stake nothing is left.
    function _checkSeats() private {
        uint256 sumWei = 0;
        for (uint256 role = 1; role <= 3; ++role) {
            uint256[] storage seats = seatsOf[SeatRole(role)];
            for (uint256 i = 0; i < seats.length; ++i) {
                sumWei += _checkSeat(seats[i]);
            }
        }
        _requireEqual(vault.potOf(Pots.stakes(task)), sumWei, "stakes lie in their pot");
    }

    function _checkSeat(uint256 seat) private returns (uint256) {
        Seat memory record = seatBook.seatAt(task, seat);
        bytes32 key = keccak256(abi.encode(task, seat));
        bool isClosed = record.status == SeatStatus.CONVICTED;
        _require(!isClosed || !isHonest(seat), "the honest are not slashed", 0, seat);
        if (isClosed) {
            if (!_isConvicted[key]) _count("seat convicted");
            _requireEqual(record.stakeWei, 0, "a convicted seat has no stake");
            _isConvicted[key] = true;
        }
        bool isBack = _isConvicted[key] && !isClosed && record.status != SeatStatus.NONE;
        _require(!isBack, "a conviction is final", 1, seat);
        return record.stakeWei;
    }

    function _checkBonds() private view {
        uint256 sumWei = 0;
        for (uint256 i = 0; i < quarrels.length; ++i) {
            (uint256 stage,) = stageOf(quarrels[i]);
            if (stage < 7) sumWei += quarrels[i].bondWei;
        }
        for (uint256 i = 0; i < openQueries.length; ++i) {
            sumWei += openQueries[i].bondWei;
        }
        for (uint256 i = 0; i < openContests.length; ++i) {
            (uint256 turn,) = turnOf(openContests[i]);
            if (turn < 4) sumWei += openContests[i].bondWei;
        }
        _requireEqual(vault.potOf(Pots.bonds(task)), sumWei, "bonds of what is open lie in their pot");
    }

    // Time
    function endQuestions() internal returns (bool) {
        bool isAny = endDisputes();
        isAny = endAsks() || isAny;
        return endContests() || isAny;
    }

    function passTo(uint256 block_) internal override {
        for (uint256 i = 0; i < quarrels.length; ++i) {
            for (uint256 turns = 0; turns < 8 && _goesOn(i, block_); ++turns) {}
        }
        for (uint256 i = openQueries.length; i > 0; --i) {
            OpenedQuery memory a = openQueries[i - 1];
            bool isOpen = seatBook.seatAt(task, a.place.seat).status != SeatStatus.CONVICTED;
            if (isOpen && isHonest(a.place.seat) && lastBlockOf(a) < block_) answerAsk(i - 1);
        }
        for (uint256 i = 0; i < openContests.length; ++i) {
            (, uint256 clock) = turnOf(openContests[i]);
            if (openContests[i].isRight && clock < block_) defend(openContests[i]);
        }
        roll(block_ > now_() ? block_ : now_());
    }

    /// @dev A turn of a dispute before its clock passes: of an honest accused always, of a false one unless it is silent, and of a fair opener.
    function _goesOn(uint256 index, uint256 block_) private returns (bool) {
        Quarrel memory q = quarrels[index];
        (uint256 stage, uint256 clock) = stageOf(q);
        bool isOpen = seatBook.seatAt(task, q.seat).status != SeatStatus.CONVICTED;
        if (!isOpen || clock >= block_ || clock < now_()) return false;
        if (isOnAccused(stage)) return (isHonest(q.seat) || fixedDice(q.seat + 9, 3) != 0) && respond(q);
        return q.opener == person("fair") && prosecute(index);
    }

    // Settlement
    /// @dev A seat alone, up to the newest round. Accepted claims and opened votes are paid.
    function settleChecked(uint256 seat) internal returns (bool) {
        uint256 next = rounds.nextRound(task);
        Seat memory record = seatBook.seatAt(task, seat);
        if (next == 0 || record.status == SeatStatus.NONE || record.settled >= next) return false;
        uint256 dueWei = seat >> 16 == uint256(SeatRole.SOLVER)
            ? _claimsWei(seat, record.settled, next)
            : _votesWei(seat, record.settled, next);
        uint256 beforeWei = vault.creditOf(record.account);
        uint256[] memory seats = new uint256[](1);
        seats[0] = seat;
        bytes memory data = abi.encodeWithSelector(settlement.settle.selector, task, seats, next - 1);
        uint256 escrowWei = _unpaidWei();
        if (!attempt(stranger, address(settlement), data)) return false;
        notePay(record.account, escrowWei - _unpaidWei());
        if (record.status == SeatStatus.CONVICTED) return true;
        uint256 gotWei = vault.creditOf(record.account) - beforeWei;
        _require(gotWei >= dueWei, "work that counts is paid", dueWei, gotWei);
        return true;
    }

    /// @dev It falls by what settling pays out of the escrow, not by what it burns of escrow and stakes.
    function _unpaidWei() private view returns (uint256) {
        return vault.potOf(Pots.escrow(task)) + vault.potOf(Pots.stakes(task)) + vault.burnPending();
    }

    function _claimsWei(uint256 seat, uint256 first, uint256 next) private view returns (uint256 dueWei) {
        IRounds.Facts[] memory ends = rounds.factsOf(task, first, next - 1);
        for (uint256 i = 0; i < ends.length; ++i) {
            RoundView memory view_ = roundOf(first + i);
            bool isIn = view_.pool >> (seat & 0xffff) & 1 == 1 && view_.phase != Phase.UNDONE;
            if (!isIn) continue;
            uint64 good = ends[i].accepted & ~ends[i].unserved & ~ends[i].lateRejected & view_.committed;
            if (good >> slotOf(first + i, seat) & 1 == 1) dueWei += terms.amounts.solverPay;
        }
    }

    function _votesWei(uint256 seat, uint256 first, uint256 next) private returns (uint256 dueWei) {
        bool isLate = seat >> 16 == uint256(SeatRole.WHISTLEBLOWER);
        uint256 rate = isLate ? terms.amounts.latePay : terms.amounts.auditPay;
        for (uint256 round = first; round < next; ++round) {
            uint256 slots = LibBit.popCount(roundOf(round).pool);
            for (uint256 i = 0; i < slots * 6; ++i) {
                uint256 draw = isLate ? terms.draws : i / 3 % 2;
                if (isLate && i / 3 % 2 == 1) continue;
                if (placeAt(round, i / 6, draw, i % 3).seat != seat) continue;
                if (votes.votesOf(task, round, i / 6, draw)[i % 3] > 4) dueWei += rate;
            }
        }
    }

    // The end of a task
    /// @dev Questions come to their end, all settle, all are paid out, the task closes, and nothing is left in any pot.
    function closeLap() internal {
        for (uint256 i = 0; i < 40 && quarrels.length + openQueries.length + openContests.length > 0; ++i) {
            passTo(now_() + terms.windows.dispute + terms.windows.query);
            endQuestions();
        }
        // A root that fell is posted again, or the round stands.
        for (uint256 i = 0; i < 20 && !rounds.isOver(task); ++i) {
            _stand();
        }
        _requireEqual(rounds.isOver(task) ? 1 : 0, 1, "every task comes to its end");
        uint256 next = rounds.nextRound(task);
        if (next != 0) passDuties();
        for (uint256 role = 1; role <= 3; ++role) {
            uint256[] storage seats = seatsOf[SeatRole(role)];
            for (uint256 i = 0; i < seats.length; ++i) {
                _payOut(seats[i]);
            }
        }
        tasks.closeTask(task);
        for (uint256 i = 0; i < pots.length; ++i) {
            _requireEqual(vault.potOf(pots[i]), 0, "nothing is left in any pot");
        }
        checkSolvency();
        handOver();
        withdrawAll();
        _countEnds(next);
    }

    function _stand() private {
        (bool isLive, uint256 round) = liveRound();
        passTo(now_() + terms.windows.dispute + HEADER_BLOCKS + terms.windows.trainMax);
        if (isLive) attempt(stranger, address(rounds), abi.encodeCall(IRounds.stand, (task, round)));
    }

    function _payOut(uint256 seat) private {
        Seat memory record = seatBook.seatAt(task, seat);
        if (record.status == SeatStatus.NONE) return;
        settleChecked(seat);
        uint256 beforeWei = vault.creditOf(record.account);
        bytes memory data = abi.encodeWithSelector(seatBook.payOut.selector, task, seat);
        must("the pay-out of a seat", stranger, address(tasks), data);
        if (record.status != SeatStatus.CONVICTED) return;
        _requireEqual(vault.creditOf(record.account), beforeWei, "nothing goes back to a convicted seat");
    }

    function _countEnds(uint256 next) private {
        _count("task closed");
        if (next == 0) return _count("task without a round");
        IRounds.Facts[] memory ends = rounds.factsOf(task, 0, next - 1);
        for (uint256 round = 0; round < next; ++round) {
            RoundView memory view_ = roundOf(round);
            if (view_.phase == Phase.POSTED) _count("round merged");
            if (view_.phase == Phase.STANDING) _count("round failed");
            if (view_.phase == Phase.UNDONE) _count("round undone");
            uint256 missing = LibBit.popCount(uint64(Slots.all(view_.pool)) & ~view_.committed);
            _add("claim dropped", missing);
            _add("claim accepted", LibBit.popCount(ends[round].accepted));
            _add("claim convicted", LibBit.popCount(ends[round].convicted));
            _add("claim unserved", LibBit.popCount(ends[round].unserved));
            _add("claim rejected late", LibBit.popCount(ends[round].lateRejected));
            uint256 lost = LibBit.popCount(view_.committed & ~ends[round].accepted);
            _add("claim void", lost);
            if (view_.lateFrom != 0) _add("claim under late audit", LibBit.popCount(view_.lateSlots));
        }
    }
}
