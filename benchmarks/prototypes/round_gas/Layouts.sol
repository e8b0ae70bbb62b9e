// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {RoundCalls} from "./RoundCalls.sol";

/// @notice Layout 1: each claim a word for its root and one for its votes, each seat a word of pay for each epoch.
contract OwnWords is RoundCalls {
    function _keepClaim(State storage s, uint256 at, uint256, uint256 slot, bytes32 root) internal virtual override {
        s.claims[at << 8 | slot] = root;
    }

    function _claimOf(State storage s, Run memory x, uint256 slot) internal view virtual override returns (bytes32) {
        return s.claims[x.at << 8 | slot];
    }

    function _placeOf(Run memory x, uint256 draw) internal pure virtual override returns (uint256, uint256) {
        return (x.at << 8 | x.slot, 9 * draw);
    }

    function _addPay(State storage s, uint256 kind, uint256 round, uint256 seat) internal virtual override {
        s.pays[kind << 240 | round / EPOCH << 16 | seat] += 1;
    }

    /// @notice Pays the seats from .. to - 1 for all rounds of an epoch.
    function settle(bytes32 task, uint256 kind, uint256 epoch, uint256 from, uint256 to) external virtual {
        State storage s = _states[task];
        for (uint256 seat = from; seat < to; ++seat) {
            uint256 key = kind << 240 | epoch << 16 | seat;
            _credit(s, kind, seat, s.pays[key]);
            s.pays[key] = 0;
        }
    }
}

/// @notice Layout 2: a word for each claim's root; 27 draws share a word of votes, 16 seats a word of pay.
contract Lanes is OwnWords {
    function _placeOf(Run memory x, uint256 draw) internal pure override returns (uint256, uint256) {
        uint256 place = x.index * (DRAWS + 1) + draw;
        return (x.at << 8 | place / 27, 9 * (place % 27));
    }

    function _addPay(State storage s, uint256 kind, uint256 round, uint256 seat) internal virtual override {
        s.pays[kind << 240 | round / EPOCH << 16 | seat / 16] += 1 << 16 * (seat % 16);
    }

    function settle(bytes32 task, uint256 kind, uint256 epoch, uint256 from, uint256 to) external virtual override {
        State storage s = _states[task];
        for (uint256 word = from / 16; 16 * word < to; ++word) {
            uint256 key = kind << 240 | epoch << 16 | word;
            uint256 counts = s.pays[key];
            s.pays[key] = 0;
            for (uint256 seat = 16 * word; counts != 0; ++seat) {
                _credit(s, kind, seat, counts & 0xffff);
                counts >>= 16;
            }
        }
    }
}

/// @notice Layout 3: nothing kept of a claim but a hash over all commitments of its round, whoever names a claim brings the list; no pay is counted,
/// settlement derives it from votes and draws.
contract Derived is Lanes {
    function _keepClaim(State storage s, uint256 at, uint256 before, uint256 slot, bytes32 root) internal override {
        bytes32 all = before == 0 ? bytes32(0) : s.claims[at];
        s.claims[at] = keccak256(abi.encodePacked(all, uint8(slot), root));
    }

    function _bring(State storage s, Run memory x, bytes calldata claims) internal view override {
        bytes32 all;
        uint256 mark = _mark();
        for (; claims.length != 0; claims = claims[33:]) {
            all = keccak256(abi.encodePacked(all, claims[:33]));
            x.brought[uint8(claims[0])] = bytes32(claims[1:33]);
            _release(mark);
        }
        if (all != s.claims[x.at]) revert Refused(12);
    }

    function _claimOf(State storage, Run memory x, uint256 slot) internal pure override returns (bytes32) {
        return x.brought[slot];
    }

    function _addPay(State storage, uint256, uint256, uint256) internal override {}

    /// @notice Pays all seats of a kind below `seats` for the rounds from .. to - 1.
    function settle(bytes32 task, uint256 kind, uint256 seats, uint256 from, uint256 to) external override {
        State storage s = _states[task];
        uint256[] memory counts = new uint256[](seats);
        uint256 mark = _mark();
        for (; from < to; ++from) {
            _countPay(s, _begin(s, task, from, kind == WHISTLEBLOWER), kind, counts);
            _release(mark);
        }
        for (uint256 seat = 0; seat < seats; ++seat) {
            _credit(s, kind, seat, counts[seat]);
        }
    }

    function _countPay(State storage s, Run memory x, uint256 kind, uint256[] memory counts) private {
        uint256 bits = kind == SOLVER ? x.result.accepted : x.frame.committed;
        (uint256 first, uint256 behind) = kind == VERIFIER ? (0, LATE) : (LATE, LATE + 1);
        uint256 index;
        for (uint256 slot = 0; slot < 64; ++slot) {
            if (x.frame.pool >> slot & 1 == 0) continue;
            x.index = index++;
            if (bits >> slot & 1 == 0) continue;
            if (kind == SOLVER) {
                ++counts[slot];
                continue;
            }
            for (uint256 draw = first; draw < behind; ++draw) {
                uint256 votes = _votesOf(s, x, draw);
                if (votes & (PAID | PAID << 3 | PAID << 6) == 0) continue;
                for (uint256 rank = 0; rank < 3; ++rank) {
                    if (votes >> 3 * rank & PAID != 0) ++counts[_seatOf(x, draw, rank)];
                }
            }
        }
    }
}
