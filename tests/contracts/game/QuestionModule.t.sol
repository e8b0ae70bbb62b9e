// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {SeatStatus} from "../../../contracts/game/GameTypes.sol";
import {DisputeWorld} from "./DisputeWorld.sol";

/// @title Bonds of what is open on a seat.
contract QuestionModuleTest is DisputeWorld {
    // Opening ----------------------------------------------------------------------------------------------------
    /// @dev Somebody else opened one just before.
    function test_dispute_outrun_paysWhatIsDue() public {
        acceptAll(0);
        _open();
        uint256 before = purse.creditOf(opener);
        _openAs(opener, 5 * BOND, "second");
        assertEq(before - purse.creditOf(opener), 2 * BOND, "the second costs two");
        assertBooks();
    }

    /// @dev The k-th open one costs k bonds; each that ends makes the next one cheaper.
    function test_dispute_manyAtOnce() public {
        acceptAll(0);
        bytes32[] memory ids = new bytes32[](5);
        for (uint256 i = 0; i < ids.length; ++i) {
            ids[i] = _openAs(opener, (i + 1) * BOND, bytes32(i));
        }
        assertEq(purse.creditOf(opener), 1000 - 15 * BOND, "one, two, three, four, five");
        _post(ids[2]);
        pass(RESPOND + 1);
        _end(ids[2]);
        assertEq(purse.creditOf(_claimant()), 3 * BOND / 2, "half of three bonds");
        _end(ids[4]);
        assertEq(uint256(tasks.seatAt(task, ofSeat).status), uint256(SeatStatus.CLOSED), "the fifth convicts");
        _end(ids[0]);
        _end(ids[1]);
        _end(ids[3]);
        assertEq(purse.creditOf(opener), 1000 - 3 * BOND + 120, "the others are returned");
        assertEq(purse.potOf(pots[2]), 0, "no bond is left");
        assertBooks();
    }
}
