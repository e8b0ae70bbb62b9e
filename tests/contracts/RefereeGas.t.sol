// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {FLOAT32_FORMAT} from "../../contracts/Types.sol";
import {Judge} from "../../contracts/libraries/Judge.sol";
import {RefereeGasWorld} from "./RefereeGasWorld.sol";

/// @title What a proof costs where elements have bounds.
contract RefereeGasTest is RefereeGasWorld {
    /// @dev `count` operands of float32, in leaves as long as the sum.
    function _shape(uint8 operation, uint256 terms, uint256 count) private pure returns (Shape memory shape) {
        uint256 leafBytes = 4 * terms > 4096 ? 4096 : 4 * terms;
        shape = Shape(operation, FLOAT32_FORMAT, 0, terms, new GasBuffer[](count + 1));
        for (uint256 i = 0; i <= count; ++i) {
            shape.buffers[i] = GasBuffer(TENSOR, 4, leafBytes, i == 0);
        }
    }

    function _requireGas(uint256 terms, uint256 most) private {
        Cost memory cost = _measure(_shape(Judge.PRODUCT_SUM, terms, 2));
        uint256 used = cost.gas + cost.dataGas;
        assertTrue(used < most, string.concat("gas ", vm.toString(used)));
    }

    function test_judge_gasOf128Terms_staysSmall() public {
        _requireGas(128, 138_000);
    }

    function test_judge_gasOf512Terms_staysSmall() public {
        _requireGas(512, 258_000);
    }

    function test_judge_gasOf4096Terms_staysInsideATransaction() public {
        _requireGas(4096, 1_200_000);
    }

    /// @dev The longest run that a node may ask for.
    function test_judge_gasOfTheDearestCall_staysInsideATransaction() public {
        Cost memory cost = _measure(_shape(Judge.MAXIMUM_OF, 1 << 16, 1));
        uint256 used = cost.gas + cost.dataGas;
        assertTrue(used < 16_000_000 && cost.floorGas < 16_000_000, vm.toString(used));
    }
}
