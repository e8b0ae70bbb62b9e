// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {SeatChecks} from "./SeatChecks.sol";

/// @title SeatChecks for any stake, for halmos: `./dev prove`.
contract SeatProof is SeatChecks {
    function check_slashedOnceAndAtMostTheStake(uint256 stakeWei, bool isLeaving) external {
        _checkSlash(stakeWei, isLeaving);
    }

    function check_seatLocked(uint256 stakeWei, bool isLeaving, bool isHeld, bool isOver, bool isAsked)
        external
    {
        _checkLocked(stakeWei, isLeaving, isHeld, isOver, isAsked);
    }

    function check_bonds(bool firstFirst, bool isForfeit, bool isForfeitToo) external {
        _checkBonds(firstFirst, isForfeit, isForfeitToo);
    }

    /// @dev Must not be proved: else nothing above was ever reached.
    function refute_noSeatIsSlashed(uint256 stakeWei, bool isLeaving) external {
        _checkSlash(stakeWei, isLeaving);
        assert(false);
    }
}
