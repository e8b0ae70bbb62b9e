// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {StateHeader} from "../../../contracts/Types.sol";
import {IStepProofs} from "../../../contracts/interfaces/IStepProofs.sol";
import {IReferee} from "../../../contracts/interfaces/IReferee.sol";
import {StepNode} from "../../../contracts/libraries/StepNode.sol";
import {StepProofs} from "../../../contracts/libraries/StepProofs.sol";
import {Test} from "../Test.sol";
import {Trees} from "../Trees.sol";

/// @dev Answers about the tensors of a state, which the programs of other tests hardly read; all else by way of `Disputes`.
contract StepProofsTest is Test {
    uint256 private constant LEAF_BYTES = 512;
    uint256 private constant LEAVES = 3;

    function requireAnswer(
        StepProofs.Demand memory demand,
        bytes32 traceRoot,
        StateHeader calldata start,
        IReferee.BufferOpening calldata opening
    ) external pure {
        StepProofs.requireAnswer(demand, traceRoot, start, opening);
    }

    function _leaves(uint8 role) private pure returns (bytes[] memory leaves) {
        leaves = new bytes[](LEAVES);
        for (uint256 i = 0; i < LEAVES; ++i) {
            leaves[i] = new bytes(LEAF_BYTES);
            (leaves[i][0], leaves[i][1]) = (bytes1(role), bytes1(uint8(i)));
        }
    }

    function _rootOf(uint8 role) private pure returns (bytes32) {
        return Trees.root(Trees.hashAll(_leaves(role)));
    }

    function test_requireAnswer_tensorsOfTheState_eachUnderItsOwnRoot() public {
        StateHeader memory start = StateHeader(
            _rootOf(StepNode.WEIGHTS), _rootOf(StepNode.FIRST_MOMENT), _rootOf(StepNode.SECOND_MOMENT), 0, 0
        );
        for (uint8 role = StepNode.WEIGHTS; role <= StepNode.SECOND_MOMENT; ++role) {
            StepProofs.Demand memory demand =
                StepProofs.Demand(role, uint16(LEAF_BYTES), 0, 12, 2, uint64(LEAVES));
            for (uint8 shown = StepNode.WEIGHTS; shown <= StepNode.SECOND_MOMENT; ++shown) {
                IReferee.BufferOpening memory opening;
                opening.leaves = _leaves(shown)[2];
                opening.path = Trees.path(Trees.hashAll(_leaves(shown)), 2);
                if (shown != role) {
                    vm.expectRevert(
                        abi.encodeWithSelector(IStepProofs.LeafMismatch.selector, _rootOf(role), 2)
                    );
                }
                this.requireAnswer(demand, "trace", start, opening);
            }
        }
    }
}
