// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {GameStorage} from "./GameStorage.sol";
import {RING_ROUNDS} from "./GameTypes.sol";
import {Module} from "./Module.sol";
import {IVotes} from "./interfaces/IVotes.sol";
import {Ballots} from "./libraries/Ballots.sol";

/// @title Keeps the votes of each draw, what they make of claims, and what each auditor has earned.
/// @dev 27 draws share a word of votes, eight seats a word of their book. Words that votes of one call share are kept in memory until another is due.
abstract contract VoteStorage is GameStorage, Module, IVotes {
    uint256 internal constant EPOCHS = 16;
    uint256 internal constant NOTHING = type(uint256).max;

    /// @dev In both `accepted` and `refused`: accepted too late to be merged. isTroubled: there is a Trouble of this round. Stored in one word: three bitmaps
    /// of 64 bits, the round, which says whether another lap of the ring wrote this, and isTroubled.
    struct Result {
        uint64 accepted;
        uint64 refused;
        uint64 convicted;
        uint32 round;
        bool isTroubled;
    }

    /// @dev A word of storage that may have changed in memory.
    struct Page {
        uint256 key;
        uint256 word;
        uint256 kept;
    }

    // Words -----------------------------------------------------------------------------------------------------------
    /// @dev Turns to another word of storage: the one at hand is written, where it has changed.
    function _turn(mapping(uint256 => uint256) storage words, Page memory page, uint256 key) internal {
        if (page.key == key) return;
        if (page.word != page.kept) words[page.key] = page.kept = page.word;
        page.key = key;
        if (key != NOTHING) page.word = page.kept = words[key];
    }

    /// @return key of the word
    /// @return shift of the nine bits in it
    function _placeIn(uint256 round, uint256 slot, uint256 draw, uint256 draws)
        internal
        pure
        returns (uint256 key, uint256 shift)
    {
        unchecked {
            uint256 place = slot * (draws + 1) + draw;
            key = round % RING_ROUNDS << 8 | place / Ballots.DRAWS;
            shift = Ballots.BITS * (place % Ballots.DRAWS);
        }
    }

    /// @dev Those of any draw, as they are stored.
    function _peek(VoteRing storage s, uint256 round, uint256 slot, uint256 draw, uint256 draws)
        internal
        view
        returns (uint256)
    {
        (uint256 key, uint256 shift) = _placeIn(round, slot, draw, draws);
        return Ballots.lapOf(s.ballots[key], round) >> shift & Ballots.MASK;
    }

    // Results ---------------------------------------------------------------------------------------------------------
    function _resultOf(VoteRing storage s, uint256 round) internal view returns (Result memory result) {
        uint256 word = s.results[round % RING_ROUNDS];
        result.round = uint32(round);
        if (uint32(word >> 192) != round) return result;
        (result.accepted, result.refused) = (uint64(word), uint64(word >> 64));
        (result.convicted, result.isTroubled) = (uint64(word >> 128), word >> 224 != 0);
    }

    function _keepResult(VoteRing storage s, Result memory result) internal {
        uint256 word = uint256(result.accepted) | uint256(result.refused) << 64;
        word |= uint256(result.convicted) << 128 | uint256(result.round) << 192;
        if (result.isTroubled) word |= 1 << 224;
        s.results[result.round % RING_ROUNDS] = word;
    }

    function _troubleOf(VoteRing storage s, uint256 round) internal returns (Trouble storage trouble) {
        trouble = s.troubles[round % RING_ROUNDS];
        Result memory result = _resultOf(s, round);
        if (result.isTroubled) return trouble;
        result.isTroubled = true;
        _keepResult(s, result);
        s.troubles[round % RING_ROUNDS] = Trouble(0, 0, 0);
    }
}
