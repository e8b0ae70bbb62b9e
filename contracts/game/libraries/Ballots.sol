// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Statements} from "../../libraries/Statements.sol";
import {RANKS} from "../GameTypes.sol";

/// @title The votes of a claim's draws: nine bits a draw, three for each of its ranks.
/// @dev A function takes the votes of one draw, but for those that end with `In`: they take all votes of a claim.
library Ballots {
    uint256 private constant BITS = 3;
    uint256 private constant DRAW_BITS = 9;
    uint256 private constant CODE = 7;
    uint256 private constant DRAW = 511;
    // What is kept of a rank: 0 to 4, or 5 and 6, which are ACCEPT and REJECT with a paid opening. 4 is ABSTAIN, never a bit of its own.
    uint256 internal constant NOTHING = 0;
    uint256 internal constant ACCEPT = 1;
    uint256 internal constant REJECT = 2;
    uint256 internal constant UNSERVED = 3;
    uint256 internal constant ABSTAIN = 4;
    /// @dev Added to ACCEPT and REJECT, to nothing else.
    uint256 internal constant PAID = 4;

    // All votes of a claim
    /// @notice The votes of a draw.
    function ofIn(uint256 all, uint256 draw) internal pure returns (uint256) {
        return all >> DRAW_BITS * draw & DRAW;
    }

    /// @notice All votes with other ones of this draw.
    function setIn(uint256 all, uint256 draw, uint256 votes) internal pure returns (uint208) {
        uint256 shift = DRAW_BITS * draw;
        return uint208(all & ~(DRAW << shift) | votes << shift);
    }

    // Words and codes (7.5)
    /// @notice How a word is kept; NOTHING for what is no word.
    function codeOf(uint256 word) internal pure returns (uint256) {
        if (word == uint256(Statements.Word.ACCEPT)) return ACCEPT;
        if (word == uint256(Statements.Word.UNSERVED)) return UNSERVED;
        if (word == uint256(Statements.Word.ABSTAIN)) return ABSTAIN;
        return isCompared(word) ? REJECT : NOTHING;
    }

    /// @notice Whether a word is of an auditor that had everything.
    function isCompared(uint256 word) internal pure returns (bool) {
        return word >= uint256(Statements.Word.ACCEPT) && word <= uint256(Statements.Word.REJECT_START);
    }

    // The votes of a draw (7.7)
    /// @notice What a rank said: a code without PAID.
    function at(uint256 votes, uint256 rank) internal pure returns (uint256 code) {
        code = codeAt(votes, rank);
        if (code > PAID) code -= PAID;
    }

    /// @notice What is kept of a rank: PAID is added where its opening was paid.
    function codeAt(uint256 votes, uint256 rank) internal pure returns (uint256) {
        return votes >> BITS * rank & CODE;
    }

    /// @notice The votes with one of a rank that has not voted.
    function cast(uint256 votes, uint256 rank, uint256 code) internal pure returns (uint256) {
        return votes | code << BITS * rank;
    }

    /// @notice The votes with the opening of a rank that said ACCEPT or REJECT, and was not paid.
    function pay(uint256 votes, uint256 rank) internal pure returns (uint256) {
        return votes + (PAID << BITS * rank);
    }

    /// @notice The votes without that of a rank.
    function withdraw(uint256 votes, uint256 rank) internal pure returns (uint256) {
        return votes & ~(CODE << BITS * rank);
    }

    function isPaid(uint256 votes, uint256 rank) internal pure returns (bool) {
        return codeAt(votes, rank) > PAID;
    }

    /// @notice Accepted: the primary, or both reserves, say ACCEPT. Failed: the primary and a reserve have said something else. While the primary is silent a
    /// draw does not fail: its ACCEPT would still decide.
    function statusOf(uint256 votes) internal pure returns (bool isAccepted, bool isFailed) {
        (uint256 primary, uint256 second, uint256 third) = (at(votes, 0), at(votes, 1), at(votes, 2));
        isAccepted = primary == ACCEPT || second == ACCEPT && third == ACCEPT;
        isFailed = _isAgainst(primary) && (_isAgainst(second) || _isAgainst(third));
    }

    /// @dev Whether a rank has said something else than ACCEPT.
    function _isAgainst(uint256 code) private pure returns (bool) {
        return code > ACCEPT;
    }

    function countUnserved(uint256 votes) internal pure returns (uint256 count) {
        for (uint256 rank = 0; rank < RANKS; ++rank) {
            if (at(votes, rank) == UNSERVED) ++count;
        }
    }

    /// @notice Whether a late audit takes a claim's pay: it has failed, and two say that the claim is false, or that it was not served. Who abstains says
    /// nothing against a claim.
    function isRejectedLate(uint256 votes) internal pure returns (bool) {
        (, bool isFailed) = statusOf(votes);
        uint256 count;
        for (uint256 rank = 0; rank < RANKS; ++rank) {
            uint256 code = at(votes, rank);
            if (code == REJECT || code == UNSERVED) ++count;
        }
        return isFailed && count >= 2;
    }
}
