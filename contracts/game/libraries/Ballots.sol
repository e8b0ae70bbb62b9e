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

    /// @dev By four bits: codes of the words NONE, ACCEPT, three REJECTs, UNSERVED and ABSTAIN.
    uint256 private constant CODES = 0x4322210;
    // By nine bits of votes, whether the draw is accepted, and whether it has failed: tables of 512 bits.
    uint256 private constant ACCEPTED_LOW = 0x222222222222222222222222222222222222ff222222ff222222222222222222;
    uint256 private constant ACCEPTED_HIGH = 0x222222222222222222222222222222222222ff222222ff222222222222222222;
    uint256 private constant FAILED_LOW = 0xdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdc00dcdcdc0000dcdc00dcdcdc0000;
    uint256 private constant FAILED_HIGH = 0xdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdc00dcdcdc0000dcdcdcdcdcdcdcdc;

    /// @notice How a word is kept; 0 for what is no word.
    function codeOf(uint256 word) internal pure returns (uint256) {
        return CODES >> (word << 2) & 7;
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
        assembly ("memory-safe") {
            let isHigh := shr(8, votes)
            let bit := and(votes, 0xff)
            isAccepted := and(shr(bit, xor(ACCEPTED_LOW, mul(isHigh, xor(ACCEPTED_LOW, ACCEPTED_HIGH)))), 1)
            isFailed := and(shr(bit, xor(FAILED_LOW, mul(isHigh, xor(FAILED_LOW, FAILED_HIGH)))), 1)
        }
    }

    function countUnserved(uint256 votes) internal pure returns (uint256 count) {
        unchecked {
            for (uint256 rank = 0; rank < 3; ++rank) {
                if (votes >> 3 * rank & 7 == UNSERVED) ++count;
            }
        }
    }

    /// @notice How many ranks say that a claim is false, or that it was not served.
    function countAgainst(uint256 votes) internal pure returns (uint256 count) {
        unchecked {
            for (uint256 rank = 0; rank < 3; ++rank) {
                uint256 code = at(votes, rank);
                if (code == REJECT || code == UNSERVED) ++count;
            }
        }
    }

    /// @notice Whether a late audit takes a claim's pay: it has failed, and two say why. Who abstains says nothing against a claim.
    function isRejectedLate(uint256 votes) internal pure returns (bool) {
        (, bool isFailed) = fateOf(votes);
        return isFailed && countAgainst(votes) >= 2;
    }

    /// @notice A word of votes as this lap of the ring has it: empty where another lap wrote it.
    function lapOf(uint256 word, uint256 round) internal pure returns (uint256) {
        uint256 lap = round / RING_ROUNDS;
        return word >> LAP == lap ? word : lap << LAP;
    }
}
