// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Proof, StatementRef} from "../../../contracts/game/GameTypes.sol";
import {GameWorld} from "./GameWorld.sol";

/// @title What no play reaches: statements that no module would hand in.
contract ConvictionsTest is GameWorld {
    /// @dev Nobody is paid for a late vote that was not drawn, for a draw or for a claim that there is not.
    function test_punish_noSuchStatement_restoresNothing() public {
        begin(3, 6, 3);
        playToDraw(0);
        vote_(0, 0, 0, 0, REJECT_STATE, false);
        vote_(0, 0, 0, 1, ABSTAIN, false);
        uint256 before = vm.snapshotState();
        StatementRef[3] memory none = [voteRef(0, 0, 2, 0), voteRef(0, 0, 256, 0), voteRef(0, 9, 0, 0)];
        for (uint256 i = 0; i < none.length; ++i) {
            punish(drawnSeat(0, 0, 0, 0), Proof.DISPUTED, none[i]);
            assertEq(creditOf(solverSeat(0)), 0, "nothing");
            vm.revertToState(before);
        }
        punish(drawnSeat(0, 0, 0, 0), Proof.DISPUTED, voteRef(0, 0, 0, 0));
        assertEq(creditOf(solverSeat(0)), 100, "this one is");
    }
}
