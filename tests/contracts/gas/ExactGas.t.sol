// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EXACT_FORMAT} from "../../../contracts/Types.sol";
import {Judge} from "../../../contracts/libraries/Judge.sol";
import {StepNode} from "../../../contracts/libraries/StepNode.sol";
import {RefereeGasWorld} from "../RefereeGasWorld.sol";

/// @title What a proof costs in an exact program, where a whole transaction pays the floor for its data; -vv shows the figures.
contract ExactGasTest is RefereeGasWorld {
    uint256 private constant LEAF_BYTES = 512;
    uint256 private constant GAS_OF_512 = 300_000;
    uint256 private constant GAS_OF_4096 = 900_000;
    uint256 private constant CALL_OF_4096 = 1_000_000;
    uint256 private constant GAS_OF_A_TRANSACTION = 16_000_000;

    /// @dev The output, values of a, values of b, and both scales.
    function _product(uint8 role, uint256 terms, uint256 leafBytes)
        private
        pure
        returns (Shape memory shape)
    {
        uint256 bytes_ = role == StepNode.INTEGER8 ? 1 : role == StepNode.INTEGER16 ? 2 : 4;
        shape = Shape(Judge.QUANTIZED_PRODUCT_SUM, EXACT_FORMAT, 0, terms, new GasBuffer[](5));
        for (uint256 i = 0; i < 5; ++i) {
            bool isValue = i == 1 || i == 2;
            shape.buffers[i] =
                isValue ? GasBuffer(role, bytes_, leafBytes, false) : GasBuffer(TENSOR, 4, leafBytes, true);
        }
    }

    function _row(uint8 operation, uint64 selected, uint256 terms) private pure returns (Shape memory shape) {
        shape = Shape(operation, EXACT_FORMAT, selected, terms, new GasBuffer[](2));
        shape.buffers[0] = GasBuffer(TENSOR, 4, LEAF_BYTES, true);
        shape.buffers[1] = GasBuffer(TENSOR, 4, terms > 4096 ? 4096 : LEAF_BYTES, false);
    }

    function _total(Cost memory cost) private pure returns (uint256) {
        uint256 used = cost.gas + cost.dataGas;
        return used > cost.floorGas ? used : cost.floorGas;
    }

    function _require(uint256 used, uint256 most) private pure {
        assertTrue(used <= most, string.concat("gas ", vm.toString(used)));
    }

    /// @dev Leaves as exact programs have them: a product touches five buffers.
    function test_judge_gasOfQuantizedProducts_staysSmall() public {
        _require(_total(_measure(_product(StepNode.INTEGER16, 512, LEAF_BYTES))), GAS_OF_512);
        _require(_total(_measure(_product(StepNode.INTEGER16, 4096, LEAF_BYTES))), GAS_OF_4096);
        _require(_total(_measure(_product(StepNode.INTEGER8, 4096, LEAF_BYTES))), GAS_OF_4096);
        _require(_total(_measure(_product(StepNode.INTEGER32, 512, LEAF_BYTES))), GAS_OF_4096);
    }

    function test_judge_gasOf4096Terms_staysInsideATransaction() public {
        _require(_measure(_row(Judge.SUM, 0, 4096)).gas, CALL_OF_4096);
        _require(_measure(_row(Judge.SCALE_OF, 15, 4096)).gas, CALL_OF_4096);
    }

    /// @dev The longest run that a node may ask for, in leaves of any length.
    function test_judge_gasOfTheDearestCall_staysInsideATransaction() public {
        _require(_total(_measure(_row(Judge.MAXIMUM_OF, 0, 1 << 16))), GAS_OF_A_TRANSACTION);
        _require(_total(_measure(_product(StepNode.INTEGER32, 4096, 4096))), GAS_OF_A_TRANSACTION);
    }
}
