// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Phase, RoundView, SeatRole, SeatStatus} from "../../../contracts/game/GameTypes.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {IVotes} from "../../../contracts/game/interfaces/IVotes.sol";
import {Slots} from "../../../contracts/game/libraries/Slots.sol";
import {Statements} from "../../../contracts/libraries/Statements.sol";
import {Arena} from "./Arena.sol";

/// @title The course of a task: claims, votes, roots, and the clock that brings one to the next.
abstract contract Course is Arena {
    /// @dev Where a vote stands.
    struct Place {
        uint256 round;
        uint256 slot;
        uint256 draw;
        uint256 rank;
        uint256 seat;
        uint256 segment;
    }

    /// @dev What a vote says, and whether a step of the auditor's own replay is computed wrongly.
    struct Said {
        uint256 word;
        uint32 named;
        uint32 apart;
        bool isLie;
    }

    /// @dev By lap and place: the seat drawn, then the segment in 32 bits.
    mapping(uint256 => uint256) private _drawn;

    /// @dev Every open question whose answer is due from somebody honest is answered before a block passes.
    function passTo(uint256 block_) internal virtual;

    // Claims
    function liveRound() internal view returns (bool isLive, uint256 round) {
        (, uint256 live,,,,,) = lineNow();
        return (live != 0, live == 0 ? 0 : live - 1);
    }

    function commitOne(bool honest) internal returns (bool) {
        (bool isLive, uint256 round) = liveRound();
        if (!isLive || rounds.beaconOf(task, round) == 0) return false;
        RoundView memory view_ = roundOf(round);
        if (view_.closed != 0 || view_.phase != Phase.RUNNING) return false;
        uint256[] memory seats = Slots.idsOf(view_.pool);
        uint256 first = dice(seats.length);
        for (uint256 i = 0; i < seats.length; ++i) {
            uint256 slot = (first + i) % seats.length;
            bool isDone = view_.committed >> slot & 1 == 1;
            if (isDone || isHonest(seats[slot]) != honest || isMute(seats[slot])) continue;
            if (_commit(round, seats[slot])) return true;
        }
        return false;
    }

    function _commit(uint256 round, uint256 seat) private returns (bool) {
        bytes memory data = abi.encodeCall(
            IRounds.commit,
            (task, round, roundOf(round).base, rounds.beaconOf(task, round), claimRoot(round, seat), SEGMENTS)
        );
        return attempt(accountOf(seat), address(rounds), data);
    }

    // Votes
    /// @dev Who is drawn there. A draw is final: the contract is asked until it names somebody, and again where a vote is made (`voteAt`).
    function placeAt(uint256 round, uint256 slot, uint256 draw, uint256 rank)
        internal
        returns (Place memory p)
    {
        (p.round, p.slot, p.draw, p.rank) = (round, slot, draw, rank);
        uint256 key = lap << 64 | round << 48 | slot << 32 | draw << 16 | rank;
        uint256 known = _drawn[key];
        if (known == 0) {
            (p.seat, p.segment) = votes.drawnOf(task, round, slot, draw, rank);
            if (p.seat != 0) _drawn[key] = p.seat << 32 | p.segment;
            return p;
        }
        (p.seat, p.segment) = (known >> 32, uint32(known));
    }

    /// @dev The same whenever it is asked: an honest auditor has one truth, another one its dice.
    function saidAt(Place memory p) internal view returns (Said memory s) {
        uint256 solver = seatIn(p.round, p.slot);
        Twist twist = p.round == 0 ? twists[solver] : Twist.NONE;
        bool isFalse = p.round == 0 && isLying[solver];
        uint256 kind = isHonest(p.seat) ? 0 : fixedDice(uint256(keccak256(abi.encode(p))), 9);
        s.word = ACCEPT;
        if (kind == 0) {
            if (twist == Twist.DELTA || twist == Twist.SCALE) (s.word, s.named) = (REJECT_DELTA, 1);
            else if (twist == Twist.CARRIED) s.word = REJECT_DELTA;
            // An honest auditor seals no state that has the step numbers of another place: it could not post it in a dispute.
            else if (twist == Twist.START_STEP && p.segment == 0) s.word = p.rank < 2 ? UNSERVED : ABSTAIN;
            else if (twist != Twist.NONE) s.word = REJECT_START;
            else if (isFalse) (s.word, s.apart) = (REJECT_STATE, BEYOND);
        }
        if (kind == 1 || kind == 2) s.isLie = isFalse;
        if (kind == 3) (s.word, s.apart, s.isLie) = (REJECT_STATE, BEYOND, !isFalse);
        if (kind == 4) s.word = REJECT_STATE;
        if (kind == 5) s.word = REJECT_START;
        if (kind == 6) (s.word, s.named) = (REJECT_DELTA, fixedDice(7, 2) == 0 ? 9 : 1);
        if (kind == 7) s.word = UNSERVED;
        if (kind == 8) s.word = p.rank == 0 ? UNSERVED : ABSTAIN;
    }

    function voteAt(Place memory p) internal returns (Statements.Vote memory vote, Said memory s) {
        s = saidAt(p);
        apart = s.apart;
        vote = voteOf(p.round, p.slot, p.draw, p.rank, s.word);
        _requireEqual(vote.segment, p.segment, "what is drawn stays drawn");
        vote.namedLeaf = s.named;
    }

    /// @dev A vote of somebody honest or not that is due and not opened yet; a cheat may hold it back, or hand in a copy of another's.
    function voteOne(uint256 round, bool isLate, bool honest) internal returns (bool) {
        RoundView memory view_ = roundOf(round);
        if (!view_.isDrawn || view_.phase == Phase.UNDONE || isLate && view_.lateFrom == 0) return false;
        recallPool(round, view_.pool);
        uint256 draws = isLate ? 1 : terms.draws;
        uint256 count = Slots.idsOf(view_.pool).length * draws * 3;
        uint256 first = dice(count);
        for (uint256 i = 0; i < count; ++i) {
            uint256 where = (first + i) % count;
            uint256 draw = isLate ? terms.draws : where / 3 % draws;
            Place memory p = placeAt(round, where / 3 / draws, draw, where % 3);
            if (p.seat == 0 || isHonest(p.seat) != honest) continue;
            if (_voteAt(p, honest)) return true;
        }
        return false;
    }

    function _voteAt(Place memory p, bool honest) private returns (bool) {
        uint256 before = votes.votesOf(task, p.round, p.slot, p.draw)[p.rank];
        if (before > 2 || !honest && dice(4) == 0) return false;
        (Statements.Vote memory vote, Said memory s) = voteAt(p);
        bool isOpened = s.word < UNSERVED && (honest || before != 0 || dice(2) == 0);
        IVotes.HandedVote[] memory all = new IVotes.HandedVote[](1);
        all[0] = handSigned(vote, isOpened, accountOf(p.seat));
        votes.judge(task, p.round, all);
        return votes.votesOf(task, p.round, p.slot, p.draw)[p.rank] != before;
    }

    /// @dev What a cheat would hand in of another's: the same fields under its own name.
    function copyOne() internal returns (bool) {
        (bool isLive, uint256 round) = liveRound();
        if (!isLive || !roundOf(round).isDrawn) return false;
        uint256 slot = dice(Slots.idsOf(roundOf(round).pool).length);
        (Place memory from, Place memory to) = (placeAt(round, slot, 0, 0), placeAt(round, slot, 0, 1));
        if (from.seat == 0 || to.seat == 0) return false;
        (Statements.Vote memory vote,) = voteAt(from);
        vote.rank = 1;
        uint256 before = votes.votesOf(task, round, slot, 0)[1];
        IVotes.HandedVote[] memory all = new IVotes.HandedVote[](1);
        all[0] = handSigned(vote, true, accountOf(to.seat));
        // What is opened is the seal of another account.
        all[0].opening.ownEndRoot = ownEndRoot(round, slot, from.segment, 0);
        all[0].opening.sealSalt = sealSalt(round, slot, 0, 0);
        votes.judge(task, round, all);
        bool isRefused = votes.votesOf(task, round, slot, 0)[1] == before || vote.seal == 0;
        _require(isRefused, "a copied vote counts for nothing", before, slot);
        return true;
    }

    // Roots
    /// @dev Honest: right over what can be merged and has an encoding, signed by all; otherwise wrong and signed by cheats alone.
    function postOne(bool honest) internal returns (bool) {
        (bool isLive, uint256 round) = liveRound();
        if (!isLive) return false;
        RoundView memory view_ = roundOf(round);
        uint64 merged = rounds.statusesOf(task, round).mergeable;
        uint64 signers;
        uint256[] memory seats = Slots.idsOf(view_.pool);
        for (uint256 slot = 0; slot < seats.length; ++slot) {
            if (round == 0 && twists[seats[slot]] == Twist.SCALE) merged &= ~uint64(1 << slot);
            bool isSigning = honest || !isHonest(seats[slot]);
            if (isSigning && seatBook.seatAt(task, seats[slot]).status != SeatStatus.CONVICTED) {
                signers |= uint64(1 << (seats[slot] & 0xffff));
            }
        }
        if (merged == 0 || !honest && round != 0) return false;
        bytes32 root = round == 0 ? rootOver(merged, honest) : rootAfter(round);
        bytes memory signatures = signMerge(round, merged, root, signers);
        bytes memory data = abi.encodeCall(IRounds.post, (task, round, merged, root, signers, signatures));
        return attempt(stranger, address(rounds), data);
    }

    function isRight(uint256 round, RoundView memory view_) internal returns (bool) {
        return round != 0 || view_.root == rootOver(view_.merged, true);
    }

    // The course
    /// @dev One thing that is due, or else time up to what is due next. False: the task is over.
    function advance() internal returns (bool) {
        (, uint256 live,,, uint256 startBlock, bool isHalted,) = lineNow();
        if (live != 0) {
            if (live > 1 && dice(4) == 0) voteOne(dice(live - 1), true, dice(2) == 0);
            _advanceRound(live - 1);
            return true;
        }
        if (isHalted || rounds.isOver(task)) return false;
        if (startBlock == 0 || now_() > startBlock + HEADER_BLOCKS) {
            // Too few are left: the task stands until it is over.
            if (!attempt(stranger, address(rounds), abi.encodeCall(IRounds.start, (task)))) {
                passTo(now_() + terms.windows.dispute);
            }
            return true;
        }
        bool isWithheld = dice(16) == 0;
        passTo(isWithheld ? startBlock + HEADER_BLOCKS + 1 : _later(startBlock + 1, now_()));
        bool isDrawn = attempt(stranger, address(rounds), abi.encodeCall(IRounds.drawStart, (task, PROOF)));
        if (!isDrawn && !isWithheld) passTo(startBlock + HEADER_BLOCKS + 1);
        return true;
    }

    function _advanceRound(uint256 round) private {
        rounds.sync(task);
        RoundView memory view_ = roundOf(round);
        if (view_.closed == 0) return _close(round, view_);
        uint256 drawn = drawBlock(view_.closed) + 1;
        uint256 reserves = view_.closed + terms.windows.auditMax / 3;
        if (!view_.isDrawn && now_() < reserves) {
            passTo(dice(12) == 0 ? reserves : _later(drawn, now_()));
            bytes memory data = abi.encodeCall(IRounds.drawAudits, (task, round, PROOF));
            attempt(stranger, address(rounds), data);
            return;
        }
        if (view_.isDrawn && dice(8) != 0 && (voteOne(round, false, true) || voteOne(round, false, false))) {
            return;
        }
        if (dice(3) == 0 && postOne(false) || dice(10) != 0 && postOne(true)) return;
        if (attempt(stranger, address(rounds), abi.encodeCall(IRounds.stand, (task, round)))) return;
        uint256 auditMax = terms.windows.auditMax;
        if (now_() < reserves) passTo(reserves);
        else if (now_() < view_.closed + auditMax) passTo(view_.closed + auditMax);
        else passTo(now_() + terms.windows.post);
    }

    function _close(uint256 round, RoundView memory view_) private {
        if (rounds.beaconOf(task, round) == 0) {
            uint256 beacon = (view_.opened + terms.windows.delay + terms.windows.drawGrid - 1)
                / terms.windows.drawGrid * terms.windows.drawGrid;
            passTo(_later(dice(6) == 0 ? beacon + HEADER_BLOCKS + 1 : beacon + 1, now_()));
            attempt(stranger, address(rounds), abi.encodeCall(IRounds.drawRound, (task, round, PROOF)));
            return;
        }
        if (dice(8) != 0 && (commitOne(true) || commitOne(false))) return;
        // Who can seal its draw must see it close: the window is a few blocks.
        uint256 soon = view_.opened + terms.windows.trainMin + 1;
        uint256 late = view_.opened + terms.windows.trainMax + 1;
        uint256 next = now_() < soon ? soon : now_() < late ? late : now_() + 2;
        passTo(view_.committed == (1 << Slots.idsOf(view_.pool).length) - 1 ? now_() + 1 : next);
    }

    function _later(uint256 a, uint256 b) internal pure returns (uint256) {
        return a > b ? a : b;
    }
}
