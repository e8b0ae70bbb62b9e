// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Order} from "./Order.sol";
import {RoundState} from "./RoundState.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title JUDGE: counts votes for q = 2, decides claims, pays votes whose Opening fits.
abstract contract Judging is RoundState {
    uint256 private constant ACCEPT = 1;
    uint256 private constant REJECT = 2;
    uint256 private constant LAP = 243; // 27 draws fill a word; the bits above say which lap of the ring wrote it
    uint256 private constant NOTHING = type(uint256).max;

    /// @param votes in the order of slot, draw, rank; what is not due is left out. Each: slot, draw, rank, opened (a byte each), word (four bytes, of a
    /// REJECT its leaf above three bits), signature (64, EIP-2098); then, opened being 0, start leaf, end leaf and Sealed, else the Opening: start leaf,
    /// claim's end root, salts of boundary and Sealed (16 each), and own end root where it differs (opened: 2).
    /// @param claims roots, where the layout does not keep them
    function judge(bytes32 task, uint256 round, bool isLate, bytes calldata votes, bytes calldata claims) external {
        State storage s = _states[task];
        Run memory x = _begin(s, task, round, isLate);
        _bring(s, x, claims);
        uint256 mark = _mark();
        while (votes.length != 0) {
            uint256 opened = uint8(votes[3]);
            uint256 length = opened == 2 ? 200 : 168;
            if (_enter(s, x, uint64(bytes8(votes)), opened != 0)) _count(s, x, votes[8:length], opened);
            votes = votes[length:];
            _release(mark); // memory costs its square: what a vote needed is given back
        }
        _leave(s, x);
        _flush(s, x);
        if (!isLate) s.results[x.at] = x.result;
        emit Counted(task, x.round, x.result.accepted, x.result.refused);
    }

    function _begin(State storage s, bytes32 task, uint256 round, bool isLate) internal view returns (Run memory x) {
        Config memory c = s.config;
        if (round > c.current || round + c.ring <= c.current + 2) revert Refused(6);
        (x.config, x.domain, x.round, x.at) = (c, _domain(task), round, round % c.ring);
        (x.kind, x.slot, x.key) = (isLate ? WHISTLEBLOWER : VERIFIER, NOTHING, NOTHING);
        (x.frame, x.seed, x.result) = (s.frames[x.at], s.seeds[x.at], s.results[x.at]);
        if (x.result.round != round) x.result = Result(0, 0, 0, uint32(round));
        uint256 drawnAt = (isLate ? round + 1 : round) % c.ring;
        Frame memory drawn = isLate ? s.frames[drawnAt] : x.frame;
        if (!drawn.isSealed) revert Refused(7);
        x.drawnBy = isLate ? s.seeds[drawnAt] : x.seed;
        _deal(s, x, drawn.version, LibBit.popCount(x.frame.pool) * (isLate ? 1 : DRAWS));
    }

    /// @dev Draw t goes to place t modulo V; its reserves are a third of V further on, or as many places as there are draws where that is less:
    /// only the first places of a large pool need to be dealt.
    function _deal(State storage s, Run memory x, uint256 version, uint256 draws) private view {
        uint256 key = version << 16 | x.kind << 8;
        (uint256 count, uint256 span) = (s.pools[key] >> 16, s.pools[key] & 0xffff);
        uint256[] memory bitmap = new uint256[]((span + 255) / 256);
        for (uint256 i = 0; i < bitmap.length; ++i) {
            bitmap[i] = s.pools[key + 1 + i];
        }
        x.step = draws < count / 3 ? draws : count / 3;
        uint256 need = draws < count / 3 ? 3 * draws : count;
        x.order = Order.fisherYates(Order.hash(x.drawnBy, x.kind), span, bitmap, need);
    }

    function _seatOf(Run memory x, uint256 draw, uint256 rank) internal pure returns (uint256) {
        uint256 t = draw == LATE ? x.index : x.index * DRAWS + draw;
        return x.order[(t + rank * x.step) % x.order.length];
    }

    /// @dev Whether the vote with this head is due; claim, seat and word of storage are at hand behind it.
    function _enter(State storage s, Run memory x, uint256 head, bool isOpened) private returns (bool) {
        uint256 slot = head >> 56;
        (x.draw, x.rank, x.word) = (head >> 48 & 0xff, head >> 40 & 0xff, head & type(uint32).max);
        bool isNamed = slot < 64 && x.rank < 3 && (x.kind == WHISTLEBLOWER ? x.draw == LATE : x.draw < DRAWS);
        if (!isNamed || x.frame.committed >> slot & 1 == 0) return false;
        if (slot != x.slot) {
            _leave(s, x);
            _enterClaim(s, x, slot);
        }
        x.seat = _seatOf(x, x.draw, x.rank);
        return _isDue(x, _votesOf(s, x, x.draw), isOpened);
    }

    function _enterClaim(State storage s, Run memory x, uint256 slot) private view {
        (x.slot, x.index) = (slot, LibBit.popCount(x.frame.pool & ((1 << slot) - 1)));
        x.claimRoot = _claimOf(s, x, slot);
        uint256 n = x.config.segments;
        uint256 random = uint256(Order.hash(x.seed, 1 << 128 | slot));
        uint256 first = (random & type(uint64).max) % n;
        uint256 second = (first + 2 + (random >> 64 & type(uint64).max) % (n - 3)) % n;
        (x.segments[0], x.segments[1]) = (first, second);
        if (x.kind != WHISTLEBLOWER) return;
        random = uint256(Order.hash(x.drawnBy, 2 << 128 | slot));
        if (random >> 240 >= x.config.lateRate) x.frame.committed &= ~uint64(1 << slot); // no late audit
        uint256 segment = (random & type(uint64).max) % (n - DRAWS);
        if (segment >= (first < second ? first : second)) ++segment;
        if (segment >= (first < second ? second : first)) ++segment;
        x.segments[LATE] = segment;
    }

    function _isDue(Run memory x, uint256 votes, bool isOpened) private view returns (bool) {
        (uint256 word, uint256 counted) = (x.word & 7, votes >> 3 * x.rank & 7);
        if (counted != 0) return isOpened && counted == word && word <= REJECT;
        uint256 closed = x.frame.closeBlock;
        bool isInTime = block.number <= closed + 2 * x.config.auditMax;
        if (word == 0 || word > 4 || !isInTime || x.frame.committed >> x.slot & 1 == 0) return false;
        if (x.kind == WHISTLEBLOWER) return true;
        (bool accepted, bool refused) = _decide(votes);
        if (accepted || refused) return false;
        return x.rank == 0 || votes & 7 != 0 || block.number > closed + x.config.auditMax / 3;
    }

    function _decide(uint256 votes) private pure returns (bool accepted, bool refused) {
        (uint256 primary, uint256 first, uint256 second) = (votes & 3, votes >> 3 & 3, votes >> 6 & 3);
        accepted = primary == ACCEPT || first == ACCEPT && second == ACCEPT;
        bool isOneAgainst = votes >> 3 & 7 != 0 && first != ACCEPT || votes >> 6 & 7 != 0 && second != ACCEPT;
        refused = votes & 7 != 0 && primary != ACCEPT && isOneAgainst;
    }

    function _count(State storage s, Run memory x, bytes calldata vote, uint256 opened) private {
        address auditor = s.seats[x.kind << 16 | x.seat];
        (bytes32 startLeaf, bytes32 endLeaf, bytes32 own) = opened == 0
            ? abi.decode(vote[64:], (bytes32, bytes32, bytes32))
            : _readOpening(x, vote[64:], opened, auditor);
        bytes32 digest = sha256(
            abi.encode(
                bytes32("touchstone.vote"),
                x.domain,
                x.round,
                x.slot,
                x.claimRoot,
                x.drawnBy,
                x.draw,
                x.rank,
                x.segments[x.draw],
                startLeaf,
                endLeaf,
                own,
                x.word
            )
        );
        if (!_isSigned(digest, vote, auditor)) return;
        bool isPaid = opened != 0 && x.word & 7 <= REJECT;
        (, uint256 shift) = _placeOf(x, x.draw);
        x.votes = x.votes & ~(7 << shift + 3 * x.rank) | (x.word & 7 | (isPaid ? PAID : 0)) << shift + 3 * x.rank;
        if (isPaid) _addPay(s, x.kind, x.round, x.seat);
    }

    /// @dev Leaves and Sealed as the vote has them, computed from its Opening: one that does not fit gives others, and the signature another address.
    function _readOpening(Run memory x, bytes calldata opening, uint256 opened, address auditor)
        private
        pure
        returns (bytes32 startLeaf, bytes32 endLeaf, bytes32 own)
    {
        bytes32 endRoot;
        bytes32 salts;
        (startLeaf, endRoot, salts) = abi.decode(opening, (bytes32, bytes32, bytes32));
        bytes32 ownRoot = opened == 1 ? endRoot : bytes32(opening[96:]);
        if (x.config.isExact && (x.word & 7 == ACCEPT) != (ownRoot == endRoot)) return (0, 0, 0);
        endLeaf = sha256(
            abi.encode(
                bytes32("touchstone.boundary"),
                x.domain,
                x.round,
                x.slot,
                x.segments[x.draw] + 1,
                bytes16(salts),
                endRoot
            )
        );
        own = sha256(
            abi.encode(
                bytes32("touchstone.sealed"),
                x.domain,
                x.round,
                x.slot,
                x.draw,
                x.rank,
                auditor,
                startLeaf,
                ownRoot,
                salts << 128
            )
        );
    }

    /// @dev The nine bits of a draw of the claim at hand; their word of storage is at hand behind it.
    function _votesOf(State storage s, Run memory x, uint256 draw) internal returns (uint256) {
        (uint256 key, uint256 shift) = _placeOf(x, draw);
        if (key != x.key) {
            _flush(s, x);
            (x.key, x.kept) = (key, s.votes[key]);
            uint256 lap = x.round / x.config.ring;
            x.votes = x.kept >> LAP == lap ? x.kept : lap << LAP;
        }
        return x.votes >> shift & 511;
    }

    function _flush(State storage s, Run memory x) private {
        if (x.key != NOTHING && x.votes != x.kept) s.votes[x.key] = x.votes;
    }

    /// @dev Decides the claim at hand, once all its votes of this call are counted.
    function _leave(State storage s, Run memory x) private {
        if (x.slot == NOTHING || x.kind == WHISTLEBLOWER) return;
        uint64 bit = uint64(1 << x.slot);
        if ((x.result.accepted | x.result.refused) & bit != 0) return;
        (bool accepted0, bool refused0) = _decide(_votesOf(s, x, 0));
        (bool accepted1, bool refused1) = _decide(_votesOf(s, x, 1));
        bool isAccepted = accepted0 && accepted1;
        if (refused0 || refused1 || isAccepted && x.round < x.config.current) x.result.refused |= bit;
        if (!isAccepted) return;
        x.result.accepted |= bit;
        _addPay(s, SOLVER, x.round, x.slot);
    }
}
