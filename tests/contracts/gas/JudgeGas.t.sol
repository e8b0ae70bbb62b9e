// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Float32} from "../../../contracts/libraries/Float32.sol";
import {Judge, Run} from "../../../contracts/libraries/Judge.sol";
import {Test} from "../Test.sol";

/// @dev What a verdict costs, compiled as the product is; -vv shows the figures.
contract JudgeGasTest is Test {
    uint32 private constant ONE = 0x3f800000;
    uint32 private constant NOT_A_NUMBER = 0x7fc00000;
    /// @dev Parts of whole transactions with proofs and calldata: 130 k, 320 k and 2 M gas (docs/decisions/0013).
    uint256 private constant GAS_OF_128 = 21_000;
    uint256 private constant GAS_OF_512 = 65_000;
    uint256 private constant GAS_OF_4096 = 460_000;
    uint256 private constant GAS_OF_FUNCTION = 15_000;

    event log_named_uint(string key, uint256 value);

    function test_isFault_gas_staysInsideItsShare() public {
        assertTrue(_measureSum(128, 0x3f9d70a4, 0xbe4ccccd, 0) < GAS_OF_128, "128 terms");
        assertTrue(_measureSum(512, 0x3f9d70a4, 0xbe4ccccd, 0) < GAS_OF_512, "512 terms");
        assertTrue(_measureSum(4096, 0x3f9d70a4, 0xbe4ccccd, 0) < GAS_OF_4096, "4096 terms");
        _measureSum(4096, 0x00000001, 0xbe4ccccd, 0);
        _measureSum(4096, 0x3f9d70a4, 0xbe4ccccd, NOT_A_NUMBER);
        _measureExtreme(4096);
        for (uint8 operation = Judge.SQUARE_ROOT; operation <= Judge.SIGMOID; ++operation) {
            uint256 used = _measureOne(operation);
            assertTrue(used < GAS_OF_FUNCTION, string.concat("gas ", vm.toString(used)));
        }
    }

    function _measureSum(uint256 terms, uint32 a, uint32 b, uint32 claimed) private returns (uint256 used) {
        (bytes memory left, bytes memory right) = (new bytes(4 * terms), new bytes(4 * terms));
        for (uint256 i = 0; i < terms; ++i) {
            Float32.store(left, i, a);
            Float32.store(right, i, b);
        }
        Run[] memory operands = new Run[](2);
        (operands[0], operands[1]) = (Run(left, 0, false), Run(right, 0, false));
        uint256 before = gasleft();
        bool fault = Judge.isFault(Judge.PRODUCT_SUM, operands, terms, claimed);
        used = before - gasleft();
        emit log_named_uint(string.concat("gas of a product sum of ", vm.toString(terms)), used);
        assertTrue(fault || a == 1, "convicted");
    }

    function _measureExtreme(uint256 terms) private {
        Run[] memory operands = new Run[](1);
        operands[0] = Run(new bytes(4 * terms), 0, false);
        uint256 before = gasleft();
        assertTrue(Judge.isFault(Judge.MAXIMUM_OF, operands, terms, ONE), "convicted");
        emit log_named_uint("gas of a maximum of 4096", before - gasleft());
    }

    function _measureOne(uint8 operation) private returns (uint256 used) {
        Run[] memory operands = new Run[](1);
        operands[0] = Run(hex"a4709d3f", 0, false);
        uint256 before = gasleft();
        assertTrue(Judge.isFault(operation, operands, 1, ONE + 0x400000), "convicted");
        used = before - gasleft();
        emit log_named_uint(string.concat("gas of operation ", vm.toString(operation)), used);
    }
}
