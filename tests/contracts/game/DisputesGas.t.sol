// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {SignedVote} from "../../../contracts/game/StatementTypes.sol";
import {IDisputes} from "../../../contracts/game/interfaces/IDisputes.sol";
import {Statements} from "../../../contracts/libraries/Statements.sol";
import {GameWorld} from "./GameWorld.sol";

/// @title What it costs to open a dispute.
contract DisputesGasTest is GameWorld {
    uint256 private constant BOND = 30;
    address private opener;

    event Gas(string what, uint256 gas);

    /// @dev The first bond of a task, in the dearest window; later ones find written pots.
    function test_gas_opening() public {
        opener = person("opener");
        begin(3, 6, 3);
        playToDraw(0);
        give(opener, 1000);
        acceptAll(0);
        bytes memory claim = abi.encodeCall(IDisputes.disputeClaim, (task, 0, 1, 2, BOND, "salt"));
        bytes memory vote = abi.encodeCall(IDisputes.disputeVote, (task, _signVote(), BOND, "2"));
        uint256 clean = vm.snapshotState();
        _requireGas("claim", claim, 200_000);
        vm.revertToState(clean);
        _requireGas("vote", vote, 245_000);
        vm.revertToState(clean);
        pass(2 * terms.windows.auditMax);
        _requireGas("claim, decided by time", claim, 180_000);
        _requireGas("vote, decided by time, second bond of the task", vote, 210_000);
    }

    function _signVote() private view returns (SignedVote memory signed) {
        signed.vote = voteOf(0, 1, 0, 0, ACCEPT);
        bytes memory signature =
            signAs(accountOf(drawnSeat(0, 1, 0, 0)), digestOf(Statements.hash(signed.vote)));
        (signed.r, signed.vs) = abi.decode(signature, (bytes32, bytes32));
    }

    /// @dev As a transaction of its own: 21,000, the bytes, and cold accounts.
    function _requireGas(string memory what, bytes memory call_, uint256 most) private {
        uint256 sum = 21_000;
        for (uint256 i = 0; i < call_.length; ++i) {
            sum += call_[i] == 0 ? 4 : 16;
        }
        cool();
        vm.prank(opener);
        (bool isDone, bytes memory answer) = game.call(call_);
        sum += vm.lastCallGas().gasTotalUsed;
        if (!isDone) {
            assembly ("memory-safe") {
                revert(add(answer, 32), mload(answer))
            }
        }
        emit Gas(what, sum);
        assertTrue(sum <= most, what);
    }
}
