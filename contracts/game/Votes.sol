// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {AuditDraw} from "../libraries/AuditDraw.sol";
import {Hashing} from "../libraries/Hashing.sol";
import {Statements} from "../libraries/Statements.sol";
import {
    EPOCH_ROUNDS,
    EXACT_FORMAT,
    GameTerms,
    Phase,
    RANKS,
    RING_ROUNDS,
    RoundView,
    SeatRole,
    StatementRef
} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IVotes} from "./interfaces/IVotes.sol";
import {Ballots} from "./libraries/Ballots.sol";
import {Lanes16} from "./libraries/Lanes16.sol";
import {Log, Logs} from "./libraries/Logs.sol";
import {Panel, Panels} from "./libraries/Panels.sol";
import {RoundViews} from "./libraries/RoundViews.sol";
import {Slots} from "./libraries/Slots.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title JUDGE. Twin of `protocol/spec/game/deciding.py` and `fates.py`.
/// @dev 27 draws share a word of votes, 16 seats a word of pay: who writes a word that was written in the same transaction pays next to nothing.
contract Votes is Module, IVotes {
    using Lanes16 for mapping(uint256 => uint256);
    using Logs for Log;
    using Panels for Panel;

    uint256 private constant OPENED = 1;
    uint256 private constant EPOCHS = 16;
    uint256 private constant SIGNATURE_BYTES = 64;

    /// @dev In both `accepted` and `refused`: accepted too late to be merged. `round` says whether another lap of the ring wrote this.
    struct Result {
        uint64 accepted;
        uint64 refused;
        uint64 convicted;
        uint32 round;
    }

    /// @dev Written in rounds where something went wrong. restored: claims that a slash has paid for.
    struct Trouble {
        uint64 unserved;
        uint64 lateFailed;
        uint64 restored;
        uint32 round;
    }

    /// @dev Keys: results and troubles round % 128; ballots (round % 128) << 8 | word; pays and fees epoch % 16 << 32 | seat / 16; voted seat / 16.
    struct State {
        mapping(uint256 => Result) results;
        mapping(uint256 => Trouble) troubles;
        mapping(uint256 => uint256) ballots;
        mapping(uint256 => uint256) pays;
        mapping(uint256 => uint256) fees;
        mapping(uint256 => uint256) voted;
    }

    /// @dev What the votes of one call share; then the claim and the vote at hand.
    struct Session {
        TaskId task;
        uint256 round;
        bytes32 domain;
        GameTerms terms;
        RoundView view_;
        bytes32[] roots;
        uint256[] segments;
        address[] solvers;
        address[] voters;
        uint256[] seats;
        uint256[] drawnSegments;
        Panel primary;
        Panel late;
        uint256 slot;
        uint256[] drawn;
        uint256 lateSegment;
        bool isLateDue;
        uint256 touched;
        uint256 touchedLate;
        uint256 draw;
        uint256 rank;
        uint256 word;
        uint256 seat;
        uint256 segment;
        uint256 key;
        uint256 shift;
    }

    uint256 private constant NOTHING = type(uint256).max;
    mapping(TaskId => State) private _states;

    constructor(Modules memory modules) Module(modules) {}

    // Judging ---------------------------------------------------------------------------------------------------------
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
        rounds.post(task, round, merged, root, signers, signatures);
    }

    function _judge(TaskId task, uint256 round, HandedVote[] calldata handed) private {
        Session memory x = _begin(task, round, handed);
        if (x.view_.phase == Phase.UNDONE || !x.view_.isSealed) return;
        State storage s = _states[task];
        Log memory log = Logs.create(handed.length);
        bool[] memory isOpened = new bool[](handed.length);
        for (uint256 i = 0; i < handed.length; ++i) {
            if (!_goTo(x, handed[i].place, i)) continue;
            bool isCounted;
            (isCounted, isOpened[i]) = _count(s, x, handed[i], x.voters[i]);
            if (isCounted) log.append(x.slot << 24 | x.draw << 16 | x.rank << 8 | x.word);
        }
        _decide(s, x);
        if (log.count != 0) emit VotesCounted(task, round, log.seal());
        _open(s, x, handed, isOpened);
    }

    function _begin(TaskId task, uint256 round, HandedVote[] calldata handed)
        private
        view
        returns (Session memory x)
    {
        _look(x, task, round);
        if (x.view_.phase == Phase.UNDONE || !x.view_.isSealed) return x;
        x.solvers = tasks.accountsOf(task, Slots.idsOf(x.view_.pool));
        (x.seats, x.drawnSegments) = (new uint256[](handed.length), new uint256[](handed.length));
        for (uint256 i = 0; i < handed.length; ++i) {
            if (_enter(x, handed[i].place)) (x.seats[i], x.drawnSegments[i]) = (x.seat, x.segment);
        }
        x.voters = tasks.votersOf(task, x.seats);
    }

    /// @dev Goes back to the draw that the vote of this index names.
    function _goTo(Session memory x, uint256 place, uint256 index) private pure returns (bool) {
        (x.slot, x.draw, x.rank) = (place >> 64, uint8(place >> 56), uint8(place >> 48));
        (x.word, x.seat, x.segment) = (uint8(place >> 40), x.seats[index], x.drawnSegments[index]);
        if (x.seat == 0) return false;
        _findBallot(x);
        return true;
    }

    /// @dev A round as it can be judged, or looked at.
    function _look(Session memory x, TaskId task, uint256 round) private view {
        (x.task, x.round, x.slot, x.domain) = (task, round, NOTHING, _domain(task));
        (x.terms, x.view_) = (_terms(task), RoundViews.load(rounds, task, round));
        (x.roots, x.segments) = rounds.claimsOf(task, round);
    }

    /// @dev Goes to the draw that a vote names. False where there is no such draw; then seat and segment have no meaning.
    function _enter(Session memory x, uint256 place) private view returns (bool) {
        uint256 slot = place >> 64;
        (x.draw, x.rank, x.word) = (uint8(place >> 56), uint8(place >> 48), uint8(place >> 40));
        if (slot >= x.roots.length || x.segments[slot] == 0 || x.rank >= RANKS) return false;
        if (slot != x.slot) _enterClaim(x, slot);
        bool isLate = x.draw == x.terms.draws;
        if (isLate ? !x.isLateDue : x.draw >= x.drawn.length) return false;
        x.segment = isLate ? x.lateSegment : x.drawn[x.draw];
        Panel memory panel = isLate ? _latePanel(x) : _primaryPanel(x);
        x.seat = panel.seatAt(slot, isLate ? 0 : x.draw, x.rank);
        return true;
    }

    function _enterClaim(Session memory x, uint256 slot) private view {
        uint256 count = x.segments[slot];
        x.slot = slot;
        x.drawn = AuditDraw.circleSegments(x.view_.seed, slot, x.terms.draws, count);
        x.isLateDue = false;
        if (x.view_.lateFrom == 0 || x.view_.lateSlots >> slot & 1 == 0) return;
        if (_latePanel(x).members.length < RANKS) return;
        (x.isLateDue, x.lateSegment) =
            AuditDraw.late(x.view_.lateSeed, slot, x.terms.lateChance, x.drawn, count);
    }

    function _primaryPanel(Session memory x) private view returns (Panel memory) {
        if (x.primary.order.length == 0) {
            uint256[] memory words = tasks.poolOf(x.task, SeatRole.VERIFIER, x.view_.verifiers);
            x.primary =
                Panels.deal(SeatRole.VERIFIER, words, x.view_.seed, x.terms.draws, x.roots.length);
        }
        return x.primary;
    }

    function _latePanel(Session memory x) private view returns (Panel memory) {
        if (x.late.order.length == 0) {
            uint256[] memory words = tasks.poolOf(x.task, SeatRole.WHISTLEBLOWER, x.view_.whistleblowers);
            x.late = Panels.deal(SeatRole.WHISTLEBLOWER, words, x.view_.lateSeed, 1, x.roots.length);
        }
        return x.late;
    }

    /// @return isCounted whether the vote counts now
    /// @return isOpened whether it came with an opening that fits, and counts now or did before
    function _count(State storage s, Session memory x, HandedVote calldata handed, address voter)
        private
        returns (bool isCounted, bool isOpened)
    {
        uint256 votes_ = _votesAt(s, x);
        (uint256 code, uint256 before) = (Ballots.codeOf(x.word), Ballots.at(votes_, x.rank));
        bool isWithOpening = uint8(handed.place >> 32) == OPENED;
        if (code == 0 || before != 0 && (before != code || !isWithOpening)) return (false, false);
        if (before == 0 && !_isDue(x, votes_, code)) return (false, false);
        bool isFitting;
        {
            uint256 mark = _mark();
            bool isGood;
            (isGood, isFitting) = _isSigned(x, handed, voter, isWithOpening);
            _release(mark);
            if (!isGood) return (false, false);
        }
        if (before != 0) return (false, isFitting);
        _put(s, x, votes_ | code << 3 * x.rank, code);
        return (true, isFitting);
    }

    /// @dev Whether a first vote of this rank counts now. An UNSERVED counts in a failed draw too: else an own reserve that abstains first would save a
    /// solver that serves nobody its fee.
    function _isDue(Session memory x, uint256 votes_, uint256 code) private view returns (bool) {
        uint256 from = _votesFrom(x);
        if (block.number > from + 2 * uint256(x.terms.windows.auditMax)) return false;
        (bool isAccepted, bool isFailed) = Ballots.fateOf(votes_);
        if (isAccepted || isFailed && code != Ballots.UNSERVED) return false;
        return x.rank == 0 || Ballots.at(votes_, 0) != 0 || block.number >= from + x.terms.windows.auditMax / 3;
    }

    /// @dev The close from which the windows of the draw at hand count.
    function _votesFrom(Session memory x) private pure returns (uint256) {
        return x.draw == x.terms.draws ? x.view_.lateFrom : x.view_.closed;
    }

    /// @dev Whether the drawn seat signed this vote and it says all that its word needs; whether its opening, if there is one, bears it out.
    function _isSigned(Session memory x, HandedVote calldata handed, address voter, bool isWithOpening)
        private
        view
        returns (bool isGood, bool isFitting)
    {
        if (voter == address(0)) return (false, false);
        Statements.Vote memory vote = _voteOf(x, handed);
        if (isWithOpening) {
            vote.endLeaf = Hashing.boundaryLeaf(
                x.domain, uint32(x.round), x.solvers[x.slot], uint32(x.segment + 1), handed.b, handed.a
            );
            vote.seal = Statements.sealOf(vote, voter, handed.c, handed.d);
            isFitting = Ballots.isCompared(x.word)
                && (x.terms.format != EXACT_FORMAT || _isExact(vote.word, handed.a == handed.c));
        }
        isGood = Statements.isWhole(vote)
            && Statements.signer(_digest(Statements.hash(vote)), handed.r, handed.vs) == voter;
    }

    function _isExact(Statements.Word word, bool isSame) private pure returns (bool) {
        if (word == Statements.Word.ACCEPT) return isSame;
        return word != Statements.Word.REJECT_STATE || !isSame;
    }

    function _voteOf(Session memory x, HandedVote calldata handed)
        private
        pure
        returns (Statements.Vote memory vote)
    {
        (vote.domain, vote.round, vote.baseRoot) = (x.domain, uint32(x.round), x.view_.base);
        vote.seed = x.draw == x.terms.draws ? x.view_.lateSeed : x.view_.seed;
        (vote.slot, vote.claimRoot) = (uint32(x.slot), x.roots[x.slot]);
        (vote.draw, vote.rank, vote.segment) = (uint32(x.draw), uint32(x.rank), uint32(x.segment));
        (vote.startLeaf, vote.endLeaf, vote.seal) = (handed.startLeaf, handed.a, handed.b);
        (vote.word, vote.namedLeaf) = (Statements.Word(x.word), uint32(handed.place));
    }

    /// @dev Writes the votes of the draw, that its auditor has voted, and what two UNSERVED cost.
    function _put(State storage s, Session memory x, uint256 votes_, uint256 code) private {
        uint256 kept = Ballots.lapOf(s.ballots[x.key], x.round);
        s.ballots[x.key] = kept & ~(Ballots.MASK << x.shift) | votes_ << x.shift;
        s.voted.raise(x.seat, x.round + 1);
        if (x.draw == x.terms.draws) x.touchedLate |= 1 << x.slot;
        else x.touched |= 1 << x.slot;
        if (code == Ballots.UNSERVED) _charge(s, x, votes_);
    }

    function _charge(State storage s, Session memory x, uint256 votes_) private {
        uint256 count = Ballots.countUnserved(votes_);
        if (count < 2) return;
        _troubleOf(s, x.round).unserved |= uint64(1 << x.slot);
        uint256 epoch = x.round / EPOCH_ROUNDS % EPOCHS << 32;
        Panel memory panel = x.draw == x.terms.draws ? x.late : x.primary;
        uint256 draw = x.draw == x.terms.draws ? 0 : x.draw;
        for (uint256 rank = 0; rank < RANKS; ++rank) {
            bool isNew = count == 2 ? Ballots.at(votes_, rank) == Ballots.UNSERVED : rank == x.rank;
            if (isNew) s.fees.add(epoch | panel.seatAt(x.slot, draw, rank), 1);
        }
    }

    // Deciding --------------------------------------------------------------------------------------------------------
    /// @dev What the votes of this call have made of claims.
    function _decide(State storage s, Session memory x) private {
        for (uint256 left = x.touchedLate; left != 0; left &= left - 1) {
            x.slot = LibBit.ffs(left);
            (, bool isFailed) = Ballots.fateOf(_votesOf(s, x, x.terms.draws));
            if (isFailed) _troubleOf(s, x.round).lateFailed |= uint64(1 << x.slot);
        }
        if (x.touched == 0) return;
        Result memory result = _resultOf(s, x.round);
        uint256 closed = Slots.slotsOf(x.view_.pool, tasks.closedSolvers(x.task));
        for (uint256 left = x.touched & ~uint256(result.accepted | result.refused); left != 0; left &= left - 1) {
            x.slot = LibBit.ffs(left);
            _decideClaim(s, x, result, closed >> x.slot & 1 == 1);
        }
        s.results[x.round % RING_ROUNDS] = result;
    }

    function _decideClaim(State storage s, Session memory x, Result memory result, bool isClosed) private {
        uint64 bit = uint64(1 << x.slot);
        uint256 count = AuditDraw.countDraws(x.terms.draws, x.segments[x.slot]);
        uint256 accepted;
        for (uint256 draw = 0; draw < count; ++draw) {
            (bool isAccepted, bool isFailed) = Ballots.fateOf(_votesOf(s, x, draw));
            if (isFailed) result.refused |= bit;
            if (isAccepted) ++accepted;
        }
        if (accepted != count || isClosed) return;
        result.accepted |= bit;
        if (block.number > x.view_.closed + x.terms.windows.auditMax) result.refused |= bit;
    }

    // Opening ---------------------------------------------------------------------------------------------------------
    /// @dev Pays openings of decided draws, until 3 auditMax.
    function _open(
        State storage s,
        Session memory x,
        HandedVote[] calldata handed,
        bool[] memory isOpened
    ) private {
        Log memory log = Logs.create(handed.length);
        for (uint256 i = 0; i < handed.length; ++i) {
            if (isOpened[i] && _goTo(x, handed[i].place, i) && _pay(s, x)) {
                log.append(x.slot << 24 | x.draw << 16 | x.rank << 8 | x.word);
            }
        }
        if (log.count != 0) emit VotesOpened(x.task, x.round, log.seal());
    }

    function _pay(State storage s, Session memory x) private returns (bool) {
        uint256 votes_ = _votesAt(s, x);
        if (block.number > _votesFrom(x) + 3 * uint256(x.terms.windows.auditMax)) return false;
        if (Ballots.isPaid(votes_, x.rank) || !_isOver(x, votes_)) return false;
        s.ballots[x.key] += Ballots.PAID << x.shift + 3 * x.rank;
        s.pays.add(x.round / EPOCH_ROUNDS % EPOCHS << 32 | x.seat, 1);
        return true;
    }

    /// @dev Whether no vote of the draw at hand can count any more.
    function _isOver(Session memory x, uint256 votes_) private view returns (bool) {
        (bool isAccepted, bool isFailed) = Ballots.fateOf(votes_);
        return isAccepted || isFailed || block.number > _votesFrom(x) + 2 * uint256(x.terms.windows.auditMax);
    }

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
        address[] memory accounts = tasks.accountsOf(task, Slots.idsOf(signers));
        uint256 place;
        for (uint256 left = signers; left != 0; left &= left - 1) {
            uint256 start = place * SIGNATURE_BYTES;
            if (signatures.length < start + SIGNATURE_BYTES) break;
            (bytes32 r, bytes32 vs) = (bytes32(signatures[start:]), bytes32(signatures[start + 32:]));
            address signer = Statements.signer(digest, r, vs);
            if (signer != address(0) && signer == accounts[place]) good |= uint64(left & ~(left - 1));
            ++place;
        }
        good &= seats;
        if (2 * LibBit.popCount(good) <= LibBit.popCount(seats)) revert IRefusals.NoMajority(seats, good);
    }

    // Modules' calls ---------------------------------------------------------------------------------------------------
    /// @inheritdoc IVotes
    function markConvicted(TaskId task, uint256 round, uint256 slot) external only(address(settlement)) {
        State storage s = _states[task];
        Result memory result = _resultOf(s, round);
        result.convicted |= uint64(1 << slot);
        s.results[round % RING_ROUNDS] = result;
    }

    /// @inheritdoc IVotes
    function markRestored(TaskId task, StatementRef calldata ref, uint256 seat)
        external
        only(address(settlement))
        returns (bool)
    {
        Session memory x;
        _look(x, task, ref.round);
        bool isDrawn = x.view_.isSealed && ref.draw < x.terms.draws && _enter(x, _placeOf(ref));
        if (!isDrawn || x.seat != seat) return false;
        State storage s = _states[task];
        uint256 votes_ = _votesOf(s, x, ref.draw);
        (, bool isFailed) = Ballots.fateOf(votes_);
        if (!isFailed || Ballots.at(votes_, ref.rank) != Ballots.REJECT) return false;
        Trouble storage trouble = _troubleOf(s, ref.round);
        if (trouble.restored >> ref.slot & 1 == 1) return false;
        trouble.restored |= uint64(1 << ref.slot);
        return true;
    }

    function _placeOf(StatementRef calldata ref) private pure returns (uint256) {
        if (ref.draw > type(uint8).max || ref.rank > type(uint8).max) return NOTHING;
        return uint256(ref.slot) << 64 | uint256(ref.draw) << 56 | uint256(ref.rank) << 48;
    }

    /// @inheritdoc IVotes
    function takeBucket(TaskId task, uint256 seat, uint256 epoch)
        external
        only(address(settlement))
        returns (uint256 pays, uint256 fees)
    {
        State storage s = _states[task];
        uint256 key = epoch % EPOCHS << 32 | seat;
        return (s.pays.take(key), s.fees.take(key));
    }

    // Storage ---------------------------------------------------------------------------------------------------------
    /// @dev Where the nine bits of the draw at hand stand.
    function _findBallot(Session memory x) private pure {
        unchecked {
            uint256 place = x.slot * (x.terms.draws + 1) + x.draw;
            x.key = x.round % RING_ROUNDS << 8 | place / Ballots.DRAWS;
            x.shift = Ballots.BITS * (place % Ballots.DRAWS);
        }
    }

    /// @dev The nine bits of the draw at hand.
    function _votesAt(State storage s, Session memory x) private view returns (uint256) {
        return Ballots.lapOf(s.ballots[x.key], x.round) >> x.shift & Ballots.MASK;
    }

    /// @dev Those of another draw of the claim at hand.
    function _votesOf(State storage s, Session memory x, uint256 draw) private view returns (uint256) {
        x.draw = draw;
        _findBallot(x);
        return _votesAt(s, x);
    }

    function _resultOf(State storage s, uint256 round) private view returns (Result memory result) {
        result = s.results[round % RING_ROUNDS];
        if (result.round != round) result = Result(0, 0, 0, uint32(round));
    }

    function _troubleOf(State storage s, uint256 round) private returns (Trouble storage trouble) {
        trouble = s.troubles[round % RING_ROUNDS];
        if (trouble.round != round) s.troubles[round % RING_ROUNDS] = Trouble(0, 0, 0, uint32(round));
    }

    function _mark() private pure returns (uint256 mark) {
        assembly ("memory-safe") {
            mark := mload(0x40)
        }
    }

    /// @dev Memory costs its square: what a vote needed is given back.
    function _release(uint256 mark) private pure {
        assembly ("memory-safe") {
            mstore(0x40, mark)
        }
    }

    // Views -----------------------------------------------------------------------------------------------------------
    /// @inheritdoc IVotes
    function resultOf(TaskId task, uint256 round)
        external
        view
        returns (uint64 accepted, uint64 refused, uint64 convicted)
    {
        Result memory result = _resultOf(_states[task], round);
        return (result.accepted, result.refused, result.convicted);
    }

    /// @inheritdoc IVotes
    function endsOf(TaskId task, uint256 first, uint256 last) external view returns (Ends[] memory ends) {
        State storage s = _states[task];
        ends = new Ends[](last + 1 - first);
        for (uint256 round = first; round <= last; ++round) {
            Result memory result = _resultOf(s, round);
            Ends memory end = ends[round - first];
            (end.accepted, end.convicted) = (result.accepted & ~result.convicted, result.convicted);
            Trouble memory trouble = s.troubles[round % RING_ROUNDS];
            if (trouble.round != round) continue;
            (end.unserved, end.lateFailed) = (trouble.unserved, trouble.lateFailed);
        }
    }

    /// @inheritdoc IVotes
    function countUnserved(TaskId task, uint256 round, uint256 slot) external view returns (uint256 count) {
        Session memory x;
        (x.round, x.slot, x.terms) = (round, slot, _terms(task));
        for (uint256 draw = 0; draw <= x.terms.draws; ++draw) {
            if (Ballots.countUnserved(_votesOf(_states[task], x, draw)) >= 2) ++count;
        }
    }

    /// @inheritdoc IVotes
    function votesOf(TaskId task, uint256 round, uint256 slot, uint256 draw)
        external
        view
        returns (uint256[3] memory codes)
    {
        Session memory x;
        (x.round, x.slot, x.terms) = (round, slot, _terms(task));
        uint256 votes_ = _votesOf(_states[task], x, draw);
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
        _look(x, task, round);
        if (!x.view_.isSealed || draw > type(uint8).max || rank > type(uint8).max) return (0, 0);
        if (_enter(x, slot << 64 | draw << 56 | rank << 48)) (seat, segment) = (x.seat, x.segment);
    }

    /// @inheritdoc IVotes
    function lastVotedOf(TaskId task, uint256 seat) external view returns (uint256) {
        return _states[task].voted.at(seat);
    }

    /// @inheritdoc IVotes
    function isDrawOver(TaskId task, uint256 round, uint256 slot, uint256 draw) external view returns (bool) {
        Session memory x;
        _look(x, task, round);
        if (!x.view_.isSealed || draw > type(uint8).max || !_enter(x, slot << 64 | draw << 56)) return false;
        return _isOver(x, _votesOf(_states[task], x, draw));
    }
}
