// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Statements} from "../../libraries/Statements.sol";
import {RING_ROUNDS} from "../GameTypes.sol";

/// @title The votes of a draw: nine bits, three for each rank. 27 draws fill a word; the bits above say which lap of the ring wrote it.
library Ballots {
    uint256 internal constant BITS = 9;
    uint256 internal constant MASK = (1 << BITS) - 1;
    uint256 internal constant DRAWS = 27;
    uint256 private constant LAP = BITS * DRAWS;
    // What a rank says: nothing, these, or ACCEPT and REJECT with their opening.
    uint256 internal constant ACCEPT = 1;
    uint256 internal constant REJECT = 2;
    uint256 internal constant UNSERVED = 3;
    uint256 internal constant ABSTAIN = 4;
    /// @dev Added to ACCEPT and REJECT.
    uint256 internal constant PAID = 4;

    /// @notice How a word is kept; 0 for what is no word.
    function codeOf(uint256 word) internal pure returns (uint256) {
        if (word == uint256(Statements.Word.ACCEPT)) return ACCEPT;
        if (isCompared(word)) return REJECT;
        if (word == uint256(Statements.Word.UNSERVED)) return UNSERVED;
        return word == uint256(Statements.Word.ABSTAIN) ? ABSTAIN : 0;
    }

    /// @notice Whether a word is of an auditor that had everything.
    function isCompared(uint256 word) internal pure returns (bool) {
        return word >= uint256(Statements.Word.ACCEPT) && word <= uint256(Statements.Word.REJECT_START);
    }

    /// @notice What a rank said, paid or not; 0: nothing.
    function at(uint256 votes, uint256 rank) internal pure returns (uint256 code) {
        unchecked {
            code = votes >> 3 * rank & 7;
            if (code > PAID) code -= PAID;
        }
    }

    function isPaid(uint256 votes, uint256 rank) internal pure returns (bool) {
        unchecked {
            return votes >> 3 * rank & 7 > PAID;
        }
    }

    /// @notice Accepted: the primary, or both reserves, say ACCEPT. Failed: that has become impossible.
    function fateOf(uint256 votes) internal pure returns (bool isAccepted, bool isFailed) {
        (uint256 primary, uint256 first, uint256 second) = (votes & 7, votes >> 3 & 7, votes >> 6 & 7);
        isAccepted = _isAccept(primary) || _isAccept(first) && _isAccept(second);
        isFailed = _isAgainst(primary) && (_isAgainst(first) || _isAgainst(second));
    }

    function _isAccept(uint256 code) private pure returns (bool) {
        return code & 3 == ACCEPT;
    }

    function _isAgainst(uint256 code) private pure returns (bool) {
        return code != 0 && code & 3 != ACCEPT;
    }

    function countUnserved(uint256 votes) internal pure returns (uint256 count) {
        unchecked {
            for (uint256 rank = 0; rank < 3; ++rank) {
                if (votes >> 3 * rank & 7 == UNSERVED) ++count;
            }
        }
    }

    /// @notice A word of votes as this lap of the ring has it: empty where another lap wrote it.
    function lapOf(uint256 word, uint256 round) internal pure returns (uint256) {
        uint256 lap = round / RING_ROUNDS;
        return word >> LAP == lap ? word : lap << LAP;
    }
}
