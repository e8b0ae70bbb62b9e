// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {RoundView, Phase, SeatStatus} from "../../../contracts/game/GameTypes.sol";
import {IQueries} from "../../../contracts/game/interfaces/IQueries.sol";
import {IContests} from "../../../contracts/game/interfaces/IContests.sol";
import {IEvidence} from "../../../contracts/game/interfaces/IEvidence.sol";
import {Slots} from "../../../contracts/game/libraries/Slots.sol";
import {SignedVote} from "../../../contracts/game/StatementTypes.sol";
import {Statements} from "../../../contracts/libraries/Statements.sol";
import {Trees} from "../Trees.sol";
import {Quarrels} from "./Quarrels.sol";

/// @title Queries of votes, contests of the root of round 0, and proofs that convict by themselves.
abstract contract Court is Quarrels {
    struct OpenedQuery {
        IQueries.Query question;
        Place place;
        uint256 bondWei;
    }

    struct Contest {
        bytes32 id;
        uint64 merged;
        bytes32 root;
        bool isRight;
        uint256 bondWei;
    }

    OpenedQuery[] internal openQueries;
    Contest[] internal openContests;

    // Queries
    function queryOne() internal returns (bool) {
        if (rounds.nextRound(task) == 0 || !roundOf(0).isDrawn) return false;
        uint256 count = Slots.idsOf(roundOf(0).pool).length * 6;
        uint256 first = dice(count);
        for (uint256 i = 0; i < count; ++i) {
            uint256 where = (first + i) % count;
            OpenedQuery memory a;
            a.place = placeAt(0, where / 6, where % 2, where / 2 % 3);
            if (a.place.seat != 0 && saidAt(a.place).word <= REJECT_STATE && _query(a)) return true;
        }
        return false;
    }

    function _query(OpenedQuery memory a) private returns (bool) {
        address asker = person("asker");
        (Statements.Vote memory vote,) = voteAt(a.place);
        (a.question.vote, a.question.leaf) = (vote, vote.namedLeaf);
        (a.question.seat, a.question.asker) = (uint32(a.place.seat), asker);
        (uint256 open,) = seatBook.openOn(task, a.place.seat);
        a.bondWei = (1 + open) * terms.amounts.queryBond;
        give(asker, a.bondWei);
        SignedVote memory signed = sign(vote, accountOf(a.place.seat));
        bytes memory data = abi.encodeCall(IQueries.queryVote, (task, signed, vote.namedLeaf, a.bondWei));
        if (!attempt(asker, game, data)) return false;
        openQueries.push(a);
        return true;
    }

    /// @dev What is asked for, shown by anybody; of an honest signer nothing may hinder it.
    function answerAsk(uint256 index) internal returns (bool isDone) {
        OpenedQuery memory a = openQueries[index];
        apart = saidAt(a.place).apart;
        bytes memory data = abi.encodeCall(IQueries.answerQuery, (task, a.question, _answerOf(a.question)));
        bool isOpen = seatBook.seatAt(task, a.place.seat).status != SeatStatus.CONVICTED;
        if (isOpen && isHonest(a.place.seat)) {
            must("the answer of a query", stranger, game, data);
            isDone = true;
        } else {
            isDone = attempt(stranger, game, data);
        }
        if (!isDone) return false;
        bool isCleared = seatBook.seatAt(task, a.place.seat).status != SeatStatus.CONVICTED;
        _count(isCleared ? "query cleared" : "query convicted");
        _dropAsk(index);
    }

    function _answerOf(IQueries.Query memory q) private view returns (IQueries.Answer memory a) {
        uint256 solver = seatIn(0, q.vote.slot);
        uint256 end = q.vote.segment + 1;
        (a.claimedEnd, a.ownEnd) = (stateAt(0, solver, end), ownState(solver, end));
        (a.solver, a.boundarySalt) = (accountOf(solver), boundarySalt(0, solver, end));
        a.sealSalt = sealSalt(0, q.vote.slot, q.vote.draw, q.vote.rank);
        (a.claimed, a.own) = (stateLeaves(solver, end, q.leaf), ownLeaves(solver, end, q.leaf));
        a.learningRateSum = RATE + q.vote.segment;
        a.schedulePath = Trees.path(scheduleLeaves(ROUNDS * SEGMENTS), q.vote.segment);
    }

    function _dropAsk(uint256 index) private {
        openQueries[index] = openQueries[openQueries.length - 1];
        openQueries.pop();
    }

    function lastBlockOf(OpenedQuery memory a) internal view returns (uint256 lastBlock) {
        (lastBlock,) = querying().queryOf(querying().idOf(task, a.question));
    }

    function endAsks() internal returns (bool isAny) {
        for (uint256 i = openQueries.length; i > 0; --i) {
            OpenedQuery memory a = openQueries[i - 1];
            bool isMoot = seatBook.seatAt(task, a.place.seat).status == SeatStatus.CONVICTED;
            if (!isMoot && now_() <= lastBlockOf(a)) continue;
            bytes memory data = abi.encodeCall(IQueries.endQuery, (task, a.question));
            must("the end of a query", stranger, game, data);
            _count(isMoot ? "query moot" : "query expired");
            _dropAsk(i - 1);
            isAny = true;
        }
    }

    // Contests
    function openContest() internal returns (bool) {
        if (rounds.nextRound(task) == 0 || roundOf(0).phase != Phase.POSTED) return false;
        RoundView memory view_ = roundOf(0);
        Contest memory c;
        (c.merged, c.root, c.isRight) = (view_.merged, view_.root, isRight(0, view_));
        if (c.isRight && dice(3) != 0) return false;
        address contester = person("contester");
        c.bondWei = (1 + contesting().openOf(task)) * terms.amounts.contestBond;
        give(contester, c.bondWei);
        bytes32 salt = bytes32(dice(type(uint128).max));
        c.id = keccak256(abi.encode(task, uint256(0), c.root, contester, salt));
        bytes memory data = abi.encodeCall(IContests.contest, (task, 0, c.bondWei, salt));
        if (!attempt(contester, game, data)) return false;
        openContests.push(c);
        return true;
    }

    function turnOf(Contest memory c) internal view returns (uint256 turn, uint256 clock) {
        IContests.Turn found;
        (found, clock,,,,,) = contesting().contestOf(task, c.id);
        turn = uint256(found);
    }

    /// @dev The nodes that are answered next: both roots, or the four leaves below one of them.
    function _nodesOf(Contest memory c) private view returns (bytes32[] memory nodes) {
        (,,, uint256 tensor, uint256 level,,) = contesting().contestOf(task, c.id);
        nodes = new bytes32[](level == 0 ? 2 : LEAVES);
        for (uint256 i = 0; i < nodes.length; ++i) {
            nodes[i] = level == 0 ? behind[c.root][i] : leavesOf[c.root][tensor * LEAVES + i];
        }
    }

    /// @dev Whoever stands by the root: an answer, or the leaf.
    function defend(Contest memory c) internal returns (bool) {
        (uint256 turn,) = turnOf(c);
        bytes memory data;
        if (turn == uint256(IContests.Turn.ANSWER)) {
            data = abi.encodeCall(IContests.answerContest, (task, c.id, _nodesOf(c)));
        } else if (turn == uint256(IContests.Turn.LEAF)) {
            (,,,,, uint256 index,) = contesting().contestOf(task, c.id);
            data = abi.encodeCall(IContests.bringLeaf, (task, c.id, leafInputs(c.merged, index)));
        } else {
            return false;
        }
        if (!c.isRight || !_isPosted(c)) return attempt(person("helper"), game, data);
        must("the defence of a right root", person("helper"), game, data);
        return true;
    }

    function _isPosted(Contest memory c) private view returns (bool) {
        RoundView memory view_ = roundOf(0);
        return view_.phase == Phase.POSTED && view_.root == c.root;
    }

    function pursue(Contest memory c) internal returns (bool) {
        (uint256 turn,) = turnOf(c);
        if (turn != uint256(IContests.Turn.CONTESTER)) return false;
        (,,,, uint256 level,,) = contesting().contestOf(task, c.id);
        // What was answered is what the turn before could have asked for.
        bytes32[] memory nodes = _nodesOf(c);
        uint256 child = c.isRight ? dice(nodes.length) : level == 0 ? 0 : 2;
        bytes memory data = abi.encodeCall(IContests.nameChild, (task, c.id, child, nodes));
        return attempt(person("contester"), game, data);
    }

    function endContests() internal returns (bool isAny) {
        for (uint256 i = openContests.length; i > 0; --i) {
            Contest memory c = openContests[i - 1];
            (uint256 turn, uint256 clock) = turnOf(c);
            bool isRunning = turn <= uint256(IContests.Turn.LEAF);
            if (isRunning && (now_() > clock || !_isPosted(c))) {
                bytes memory data = abi.encodeCall(IContests.endContest, (task, c.id));
                isRunning = !attempt(stranger, game, data);
                (turn,) = turnOf(c);
            }
            if (isRunning) continue;
            _require(
                !c.isRight || turn != uint256(IContests.Turn.FALLS), "a right root does not fall", 0, turn
            );
            if (turn == uint256(IContests.Turn.HOLDS)) _count("contest lost");
            else if (turn == uint256(IContests.Turn.FALLS)) _count("contest won");
            else _count("contest moot");
            openContests[i - 1] = openContests[openContests.length - 1];
            openContests.pop();
            isAny = true;
        }
    }

    // Proofs
    /// @dev A proof against a random statement, sealed a block before. Of an honest one it must be refused.
    function accuse() internal returns (bool) {
        if (rounds.nextRound(task) == 0 || !roundOf(0).isDrawn) return false;
        uint256 slots = Slots.idsOf(roundOf(0).pool).length;
        uint256 first = dice(slots * 6);
        for (uint256 i = 0; i < slots * 6; ++i) {
            uint256 where = (first + i) % (slots * 6);
            (,, uint256 segments) = rounds.claimOf(task, 0, where / 6);
            if (segments == 0) continue;
            (uint256 seat, bytes memory data, string memory kind) =
                dice(2) == 0 ? _claimCase(where / 6) : _voteCase(where / 6, where % 6);
            bool isClosed = seat == 0 || seatBook.seatAt(task, seat).status != SeatStatus.ACTIVE;
            if (isClosed || isHonest(seat) && dice(4) != 0) continue;
            return _bring(seat, data, kind);
        }
        return false;
    }

    function _bring(uint256 seat, bytes memory data, string memory kind) private returns (bool) {
        address finder = person("finder");
        seal_(finder, data);
        passTo(now_() + 1);
        bool isDone = attempt(finder, game, data);
        _require(!isDone || !isHonest(seat), "an honest statement cannot be proven false", 0, seat);
        if (isDone) _count(string.concat("proof ", kind));
        return true;
    }

    function _claimCase(uint256 slot) private returns (uint256 seat, bytes memory, string memory) {
        seat = seatIn(0, slot);
        Twist twist = twists[seat];
        uint256 kind = dice(4);
        if (twist == Twist.START_WEIGHTS || twist == Twist.START_MOMENT || twist == Twist.START_STEP) {
            kind = 0;
        }
        if (twist == Twist.DELTA) kind = 1;
        if (twist == Twist.SCALE) kind = 2;
        if (twist == Twist.CARRIED) kind = 3;
        if (kind == 0) return (seat, startOf(0, seat), "start");
        if (kind == 1) return (seat, deltaAt(seat, 1), "delta");
        if (kind == 2) return (seat, scaleAt(seat, 1), "scale");
        return (seat, carriedOf(0, seat), "carried");
    }

    function _voteCase(uint256 slot, uint256 which) private returns (uint256, bytes memory, string memory) {
        Place memory p = placeAt(0, slot, which % 2, which / 2);
        if (p.seat == 0) return (0, "", "");
        (Statements.Vote memory vote, Said memory s) = voteAt(p);
        SignedVote memory signed = sign(vote, accountOf(p.seat));
        uint256 solver = seatIn(0, slot);
        if (s.word == REJECT_START) {
            return (
                p.seat,
                abi.encodeCall(IEvidence.proveRightStart, (task, signed, startProof(0, solver))),
                "false word"
            );
        }
        if (s.word == REJECT_DELTA && s.named < LEAVES) {
            return (
                p.seat,
                abi.encodeCall(IEvidence.proveRightDelta, (task, signed, deltaProofOf(solver, s.named))),
                "false word"
            );
        }
        if (s.word == REJECT_DELTA || isHonest(p.seat) && dice(2) == 0) {
            return (p.seat, abi.encodeCall(IEvidence.proveNoLeaf, (task, signed)), "no leaf");
        }
        // An honest auditor signs once: the other one is a stranger's.
        (Statements.Vote memory second,) = voteAt(p);
        (second.word, second.namedLeaf) = (Statements.Word.ABSTAIN, 0);
        SignedVote memory other = sign(second, isHonest(p.seat) ? stranger : accountOf(p.seat));
        return (p.seat, twoVotes(signed, other), "two votes");
    }
}
