// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {AuditDraw} from "../libraries/AuditDraw.sol";
import {Hashing} from "../libraries/Hashing.sol";
import {Statements} from "../libraries/Statements.sol";
import {Audit, EPOCH_ROUNDS, RANKS, RING_ROUNDS, SeatRole, StatementRef} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IVotes} from "./interfaces/IVotes.sol";
import {Audits} from "./libraries/Audits.sol";
import {Ballots} from "./libraries/Ballots.sol";
import {Books} from "./libraries/Books.sol";
import {Lanes16} from "./libraries/Lanes16.sol";
import {Log, Logs} from "./libraries/Logs.sol";
import {Panel, Panels} from "./libraries/Panels.sol";
import {Slots} from "./libraries/Slots.sol";
import {StructLists} from "./libraries/StructLists.sol";
import {Voters} from "./libraries/Voters.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title JUDGE. Twin of `protocol/spec/game/deciding.py` and `fates.py`.
/// @dev 27 draws share a word of votes, eight seats a word of their book. Words that votes of one call share are kept in memory until another is due.
contract Votes is Module, IVotes {
    using Audits for Audit;
    using Books for uint256;
    using Lanes16 for mapping(uint256 => uint256);
    using Logs for Log;
    using Panels for Panel;

    uint256 private constant OPENED = 1;
    /// @dev What became of a vote in this call: it counts now; its opening fits; it is paid now.
    uint256 private constant IS_COUNTED = 1;
    uint256 private constant IS_FITTING = 2;
    uint256 private constant IS_PAID = 4;
    uint256 private constant EPOCHS = 16;
    uint256 private constant SIGNATURE_BYTES = 64;

    /// @dev In both `accepted` and `refused`: accepted too late to be merged. isTroubled: there is a Trouble of this round. Stored in one word: three bitmaps
    /// of 64 bits, the round, which says whether another lap of the ring wrote this, and isTroubled.
    struct Result {
        uint64 accepted;
        uint64 refused;
        uint64 convicted;
        uint32 round;
        bool isTroubled;
    }

    /// @dev Written in rounds where something went wrong. restored: claims that a slash has paid for.
    struct Trouble {
        uint64 unserved;
        uint64 lateRejected;
        uint64 restored;
    }

    /// @dev Keys: results and troubles round % 128; ballots (round % 128) << 8 | word; fees epoch % 16 << 32 | seat / 16; books as `Books` has them.
    struct State {
        mapping(uint256 => uint256) results;
        mapping(uint256 => Trouble) troubles;
        mapping(uint256 => uint256) ballots;
        mapping(uint256 => uint256) fees;
        mapping(uint256 => uint256) books;
    }

    /// @dev A word of storage that may have changed in memory.
    struct Page {
        uint256 key;
        uint256 word;
        uint256 kept;
    }

    /// @dev What the votes of one call share; then the claim and the vote at hand.
    struct Session {
        TaskId task;
        uint256 round;
        bytes32 domain;
        bytes32 separator;
        Audit audit;
        Statements.Vote vote;
        uint256 count;
        uint256[] accounts;
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
        uint256 shift;
        bool isLate;
        uint256 from;
        Page ballots;
        Page book;
    }

    uint256 private constant NOTHING = type(uint256).max;
    mapping(TaskId => State) private _states;

    constructor(Modules memory modules) Module(modules) {}

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
        State storage s = _states[task];
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
        State storage s,
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

    /// @dev Slots that votes name, whether there are claims or not.
    function _slotsIn(HandedVote[] calldata handed) private pure returns (uint256 slots) {
        unchecked {
            for (uint256 i = 0; i < handed.length; ++i) {
                slots |= 1 << (handed[i].place >> 64);
            }
        }
    }

    /// @dev Finds the seats that are drawn, and reads all accounts in one call: those of the seats, then those of the solvers by slot.
    function _prepare(Session memory x, HandedVote[] calldata handed) private view {
        uint256 pool = x.audit.pool;
        uint256[] memory seats = new uint256[](handed.length + x.count);
        (x.seats, x.drawnSegments) = (seats, new uint256[](handed.length));
        unchecked {
            for (uint256 i = 0; i < handed.length; ++i) {
                if (!_enter(x, handed[i].place)) continue;
                _set(seats, i, x.seat);
                _set(x.drawnSegments, i, x.segment);
            }
            // Solvers by slot.
            uint256 number;
            for (uint256 i = handed.length; pool != 0; pool &= pool - 1) {
                (, uint256 segments) = x.audit.claimAt(i - handed.length);
                number = Slots.lowest(pool, number);
                // Of claims that no vote names nothing is needed.
                if (segments != 0) _set(seats, i, uint256(SeatRole.SOLVER) << 16 | number);
                ++i;
                ++number;
            }
        }
        x.accounts = Voters.load(tasks, x.task, seats);
        x.separator = _separator();
        (x.vote.domain, x.vote.round, x.vote.baseRoot) = (x.domain, uint32(x.round), x.audit.base);
    }

    /// @dev Goes back to the draw that the vote of this index names.
    function _goTo(State storage s, Session memory x, uint256 place, uint256 index) private returns (bool) {
        uint256 seat = _at(x.seats, index);
        if (seat == 0) return false;
        (x.slot, x.rank, x.word) = (place >> 64, place >> 48 & 0xff, place >> 40 & 0xff);
        (x.seat, x.segment) = (seat, _at(x.drawnSegments, index));
        _goToDraw(s, x, place >> 56 & 0xff);
        return true;
    }

    /// @dev Of a list that has this place: it was made with one for each vote. So is `_set`.
    function _at(uint256[] memory list, uint256 place) private pure returns (uint256 value) {
        assembly ("memory-safe") {
            value := mload(add(add(list, 32), shl(5, place)))
        }
    }

    function _set(uint256[] memory list, uint256 place, uint256 value) private pure {
        assembly ("memory-safe") {
            mstore(add(add(list, 32), shl(5, place)), value)
        }
    }

    /// @dev A draw of the claim at hand: its votes, and from when its windows count.
    function _goToDraw(State storage s, Session memory x, uint256 draw) private {
        bool isLate = draw == x.audit.draws;
        (x.draw, x.isLate, x.from) = (draw, isLate, isLate ? x.audit.lateFrom : x.audit.closed);
        _turnBallots(s, x);
    }

    /// @dev A round as it can be judged, or looked at, with those of its claims.
    function _look(Session memory x, TaskId task, uint256 round, uint256 slots) private view {
        if (x.domain == 0) (x.task, x.domain) = (task, _domain(task));
        (x.round, x.slot) = (round, NOTHING);
        // Nothing of another round is left.
        (x.primary.slots, x.late.slots, x.touched, x.touchedLate) = (0, 0, 0, 0);
        x.audit = Audits.load(rounds, task, round, slots, true);
        x.count = LibBit.popCount(x.audit.pool);
        (x.ballots.key, x.book.key) = (NOTHING, NOTHING);
    }

    /// @dev Goes to the draw that a vote names. False where there is no such draw; then seat and segment have no meaning.
    function _enter(Session memory x, uint256 place) private view returns (bool) {
        uint256 slot = place >> 64;
        (x.draw, x.rank, x.word) = (uint8(place >> 56), uint8(place >> 48), uint8(place >> 40));
        if (x.rank >= RANKS) return false;
        if (slot != x.slot && !_enterClaim(x, slot)) return false;
        bool isLate = x.draw == x.audit.draws;
        if (isLate ? !x.isLateDue : x.draw >= x.drawn.length) return false;
        x.segment = isLate ? x.lateSegment : x.drawn[x.draw];
        if (!isLate) _dealPrimary(x);
        x.seat = isLate ? x.late.seatAt(slot, 0, x.rank) : x.primary.seatAt(slot, x.draw, x.rank);
        return true;
    }

    /// @dev False where there is no such claim, or the pool has no such slot.
    function _enterClaim(Session memory x, uint256 slot) private view returns (bool) {
        Audit memory a = x.audit;
        (, uint256 count) = a.claimAt(slot);
        if (count == 0) return false;
        x.slot = slot;
        x.drawn = AuditDraw.circleSegments(a.seed, slot, a.draws, count);
        x.isLateDue = false;
        if (a.lateFrom == 0 || a.lateSlots >> slot & 1 == 0) return true;
        _dealLate(x);
        (x.isLateDue, x.lateSegment) = AuditDraw.late(a.lateSeed, slot, a.lateChance, x.drawn, count);
        return true;
    }

    function _dealPrimary(Session memory x) private view {
        if (x.primary.slots != 0) return;
        uint256[] memory words = tasks.poolOf(x.task, SeatRole.VERIFIER, x.audit.verifiers);
        x.primary = Panels.deal(SeatRole.VERIFIER, words, x.audit.seed, x.audit.draws, x.count);
    }

    function _dealLate(Session memory x) private view {
        if (x.late.slots != 0) return;
        uint256[] memory words = tasks.poolOf(x.task, SeatRole.WHISTLEBLOWER, x.audit.whistleblowers);
        x.late = Panels.deal(SeatRole.WHISTLEBLOWER, words, x.audit.lateSeed, 1, x.count);
    }

    /// @return mark IS_COUNTED: the vote counts now; IS_FITTING: it came with an opening that fits, and counts now or did before
    function _count(State storage s, Session memory x, HandedVote calldata handed, address voter)
        private
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
    function _put(State storage s, Session memory x, uint256 votes_, uint256 code) private {
        // A vote is only ever added, so the bits that stand stay.
        x.ballots.word |= votes_ << x.shift;
        uint256 key = Books.keyOf(x.round, x.seat);
        _turn(s.books, x.book, Books.wordOf(key));
        x.book.word = x.book.word.raise(key, x.round);
        if (x.isLate) x.touchedLate |= 1 << x.slot;
        else x.touched |= 1 << x.slot;
        if (code == Ballots.UNSERVED) _charge(s, x, votes_);
    }

    function _charge(State storage s, Session memory x, uint256 votes_) private {
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

    // Deciding --------------------------------------------------------------------------------------------------------
    /// @dev What the votes of this call have made of claims.
    function _decide(State storage s, Session memory x) private {
        for (uint256 left = x.touchedLate; left != 0; left &= left - 1) {
            x.slot = LibBit.ffs(left);
            bool isRejected = Ballots.isRejectedLate(_votesOf(s, x, x.audit.draws));
            if (isRejected) _troubleOf(s, x.round).lateRejected |= uint64(1 << x.slot);
        }
        if (x.touched == 0) return;
        Result memory result = _resultOf(s, x.round);
        uint256 closed = Slots.slotsOf(x.audit.pool, tasks.closedSolvers(x.task));
        for (uint256 left = x.touched & ~uint256(result.accepted | result.refused); left != 0; left &= left - 1) {
            x.slot = LibBit.ffs(left);
            _decideClaim(s, x, result, closed >> x.slot & 1 == 1);
        }
        _keepResult(s, result);
    }

    function _decideClaim(State storage s, Session memory x, Result memory result, bool isClosed) private {
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
    function _open(State storage s, Session memory x, HandedVote[] calldata handed, uint256[] memory marks)
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

    function _pay(State storage s, Session memory x) private returns (bool) {
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

    /// @dev Whether no vote of the draw at hand can count any more.
    function _isOver(Session memory x, uint256 votes_) private view returns (bool) {
        (bool isAccepted, bool isFailed) = Ballots.fateOf(votes_);
        return isAccepted || isFailed || block.number > x.from + 2 * x.audit.auditMax;
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
        uint256[] memory accounts = Voters.load(tasks, task, Slots.idsOf(signers));
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

    // Modules' calls ---------------------------------------------------------------------------------------------------
    /// @inheritdoc IVotes
    function markConvicted(TaskId task, uint256 round, uint256 slot) external only(address(settlement)) {
        State storage s = _states[task];
        Result memory result = _resultOf(s, round);
        result.convicted |= uint64(1 << slot);
        _keepResult(s, result);
    }

    /// @inheritdoc IVotes
    function markRestored(TaskId task, StatementRef calldata ref, uint256 seat)
        external
        only(address(settlement))
        returns (bool)
    {
        Session memory x;
        _look(x, task, ref.round, 1 << uint256(ref.slot));
        bool isDrawn = x.audit.isSealed && ref.draw <= x.audit.draws && _enter(x, _placeOf(ref));
        if (!isDrawn || x.seat != seat) return false;
        State storage s = _states[task];
        uint256 votes_ = _peek(s, ref.round, ref.slot, ref.draw, x.audit.draws);
        if (Ballots.at(votes_, ref.rank) != Ballots.REJECT || !_hasTakenPay(s, x, votes_)) return false;
        Trouble storage trouble = _troubleOf(s, ref.round);
        // A claim that was not served had no pay to lose.
        if ((trouble.restored | trouble.unserved) >> ref.slot & 1 == 1) return false;
        trouble.restored |= uint64(1 << ref.slot);
        return true;
    }

    /// @dev Whether the votes of the draw at hand made its claim void, or took its pay late. An undone round has paid nothing that a late audit could take.
    function _hasTakenPay(State storage s, Session memory x, uint256 votes_) private view returns (bool) {
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
        only(address(settlement))
        returns (uint256 pays, uint256 fees)
    {
        State storage s = _states[task];
        uint256 key = epoch % EPOCHS << 32 | seat;
        return (Books.take(s.books, key), s.fees.take(key));
    }

    // Storage ---------------------------------------------------------------------------------------------------------
    /// @dev Turns to another word of storage: the one at hand is written, where it has changed.
    function _turn(mapping(uint256 => uint256) storage words, Page memory page, uint256 key) private {
        if (page.key == key) return;
        if (page.word != page.kept) words[page.key] = page.kept = page.word;
        page.key = key;
        if (key != NOTHING) page.word = page.kept = words[key];
    }

    /// @dev Turns to the word that holds the nine bits of the draw at hand.
    function _turnBallots(State storage s, Session memory x) private {
        (uint256 key, uint256 shift) = _placeIn(x.round, x.slot, x.draw, x.audit.draws);
        x.shift = shift;
        if (x.ballots.key == key) return;
        _turn(s.ballots, x.ballots, key);
        x.ballots.word = x.ballots.kept = Ballots.lapOf(x.ballots.word, x.round);
    }

    /// @return key of the word
    /// @return shift of the nine bits in it
    function _placeIn(uint256 round, uint256 slot, uint256 draw, uint256 draws)
        private
        pure
        returns (uint256 key, uint256 shift)
    {
        unchecked {
            uint256 place = slot * (draws + 1) + draw;
            key = round % RING_ROUNDS << 8 | place / Ballots.DRAWS;
            shift = Ballots.BITS * (place % Ballots.DRAWS);
        }
    }

    /// @dev The nine bits of the draw at hand.
    function _votesAt(Session memory x) private pure returns (uint256) {
        return x.ballots.word >> x.shift & Ballots.MASK;
    }

    /// @dev Those of another draw of the claim at hand.
    function _votesOf(State storage s, Session memory x, uint256 draw) private returns (uint256) {
        _goToDraw(s, x, draw);
        return _votesAt(x);
    }

    /// @dev Those of any draw, as they are stored.
    function _peek(State storage s, uint256 round, uint256 slot, uint256 draw, uint256 draws)
        private
        view
        returns (uint256)
    {
        (uint256 key, uint256 shift) = _placeIn(round, slot, draw, draws);
        return Ballots.lapOf(s.ballots[key], round) >> shift & Ballots.MASK;
    }

    function _resultOf(State storage s, uint256 round) private view returns (Result memory result) {
        uint256 word = s.results[round % RING_ROUNDS];
        result.round = uint32(round);
        if (uint32(word >> 192) != round) return result;
        (result.accepted, result.refused) = (uint64(word), uint64(word >> 64));
        (result.convicted, result.isTroubled) = (uint64(word >> 128), word >> 224 != 0);
    }

    function _keepResult(State storage s, Result memory result) private {
        uint256 word = uint256(result.accepted) | uint256(result.refused) << 64;
        word |= uint256(result.convicted) << 128 | uint256(result.round) << 192;
        if (result.isTroubled) word |= 1 << 224;
        s.results[result.round % RING_ROUNDS] = word;
    }

    function _troubleOf(State storage s, uint256 round) private returns (Trouble storage trouble) {
        trouble = s.troubles[round % RING_ROUNDS];
        Result memory result = _resultOf(s, round);
        if (result.isTroubled) return trouble;
        result.isTroubled = true;
        _keepResult(s, result);
        s.troubles[round % RING_ROUNDS] = Trouble(0, 0, 0);
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
    /// @dev Written as it is encoded.
    function endsOf(TaskId task, uint256 first, uint256 last) external view returns (Ends[] memory ends) {
        State storage s = _states[task];
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
            if (Ballots.countUnserved(_peek(_states[task], round, slot, draw, draws)) >= 2) ++count;
        }
    }

    /// @inheritdoc IVotes
    function votesOf(TaskId task, uint256 round, uint256 slot, uint256 draw)
        external
        view
        returns (uint256[3] memory codes)
    {
        uint256 votes_ = _peek(_states[task], round, slot, draw, _terms(task).draws);
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
        return Books.lastOf(_states[task].books, seat);
    }

    /// @inheritdoc IVotes
    function isDrawOver(TaskId task, uint256 round, uint256 slot, uint256 draw) external view returns (bool) {
        Session memory x;
        _look(x, task, round, 1 << slot);
        if (!x.audit.isSealed || draw > type(uint8).max || !_enter(x, slot << 64 | draw << 56)) return false;
        x.from = draw == x.audit.draws ? x.audit.lateFrom : x.audit.closed;
        return _isOver(x, _peek(_states[task], round, slot, draw, x.audit.draws));
    }
}
