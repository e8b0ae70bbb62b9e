// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {StateHeader} from "../../../contracts/Types.sol";
import {IReferee} from "../../../contracts/interfaces/IReferee.sol";
import {PositionalMerkle} from "../../../contracts/libraries/PositionalMerkle.sol";
import {StepNode} from "../../../contracts/libraries/StepNode.sol";
import {StepProofs} from "../../../contracts/libraries/StepProofs.sol";
import {Test} from "../Test.sol";

/// @dev What a demanded leaf costs its claimant besides its bytes.
contract PaddingGasTest is Test {
    uint256 private constant LEAF_BYTES = 4096;

    function requireAnswer(
        StepProofs.Demand memory demand,
        StateHeader calldata start,
        IReferee.BufferOpening calldata opening
    ) external view returns (uint256 gas) {
        gas = gasleft();
        StepProofs.requireAnswer(demand, 0, start, opening);
        gas -= gasleft();
    }

    /// @dev Eight such leaves may be demanded, and bonds are priced by full ones. Each byte that is not zero costs at least 12 gas more than one that is.
    function test_requireAnswer_padding_costsLessThanData() public {
        IReferee.BufferOpening memory opening;
        opening.leaves = new bytes(LEAF_BYTES);
        StateHeader memory start = StateHeader(PositionalMerkle.leafHash(opening.leaves), 0, 0, 0, 0);
        uint256[2] memory gas;
        for (uint256 i = 0; i < 2; ++i) {
            uint16 last = i == 0 ? uint16(LEAF_BYTES) : 4;
            StepProofs.Demand memory demand =
                StepProofs.Demand(StepNode.WEIGHTS, uint16(LEAF_BYTES), last, 0, 12, 0, 1);
            gas[i] = this.requireAnswer(demand, start, opening);
        }
        assertTrue(gas[1] < gas[0] + 12 * (LEAF_BYTES - 4), "dear padding");
    }
}
