// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ExactElement} from "../../../contracts/libraries/ExactElement.sol";
import {Judge} from "../../../contracts/libraries/Judge.sol";
import {Float32} from "../../../contracts/libraries/Float32.sol";
import {Run} from "../../../contracts/libraries/Runs.sol";
import {VectorFile} from "../VectorFile.sol";

/// @dev Section 9.1: the contract's one right value is Python's.
contract ExactElementTest is VectorFile {
    function setUp() public {
        open("exact");
    }

    function _single(uint32 bits) private pure returns (Run memory) {
        bytes memory data = new bytes(4);
        Float32.store(data, 0, bits);
        return Run(data, 0, true);
    }

    function test_unary() public view {
        string[] memory name = names(".unary");
        uint256[] memory operation = numbers(".unary.operation");
        NumberLists memory a = numberLists(".unary.a");
        uint256[] memory right = numbers(".unary.right");
        for (uint256 i = 0; i < name.length; ++i) {
            for (uint256 k = a.start[i]; k < a.start[i + 1]; ++k) {
                Run[] memory operands = new Run[](1);
                operands[0] = _single(uint32(a.values[k]));
                uint32 found = ExactElement.compute(uint8(operation[i]), operands, 1, 0, 4);
                assertEq(found, right[k], string.concat(name[i], " of ", vm.toString(a.values[k])));
            }
        }
    }

    function test_binary() public view {
        string[] memory name = names(".binary");
        uint256[] memory operation = numbers(".binary.operation");
        uint256[] memory bits = numbers(".binary.bits");
        NumberLists memory a = numberLists(".binary.a");
        uint256[] memory b = numbers(".binary.b");
        uint256[] memory right = numbers(".binary.right");
        for (uint256 i = 0; i < name.length; ++i) {
            for (uint256 k = a.start[i]; k < a.start[i + 1]; ++k) {
                Run[] memory operands = new Run[](2);
                (operands[0], operands[1]) = (_single(uint32(a.values[k])), _single(uint32(b[k])));
                uint32 found = ExactElement.compute(uint8(operation[i]), operands, 1, bits[i], 4);
                string memory pair = string.concat(vm.toString(a.values[k]), " and ", vm.toString(b[k]));
                assertEq(found, right[k], string.concat(name[i], ": ", pair));
            }
        }
    }

    struct Rows {
        uint256[] operation;
        uint256[] bits;
        uint256[] integerBytes;
        uint256[] terms;
        uint256[] right;
        BytesLists data;
        uint256[] first;
        bool[] repeats;
    }

    function test_rows() public view {
        string[] memory name = names(".rows");
        Rows memory rows;
        (rows.operation, rows.bits) = (numbers(".rows.operation"), numbers(".rows.bits"));
        (rows.integerBytes, rows.terms) = (numbers(".rows.integerBytes"), numbers(".rows.terms"));
        (rows.right, rows.data) = (numbers(".rows.right"), blobLists(".rows.data"));
        (rows.first, rows.repeats) = (numbers(".rows.first"), flags(".rows.repeats"));
        for (uint256 i = 0; i < name.length; ++i) {
            Run[] memory operands = _runs(rows, i);
            uint32 found = ExactElement.compute(
                uint8(rows.operation[i]), operands, rows.terms[i], rows.bits[i], rows.integerBytes[i]
            );
            assertEq(found, rows.right[i], name[i]);
        }
    }

    function _runs(Rows memory rows, uint256 i) private pure returns (Run[] memory runs) {
        bytes[] memory data = pick(rows.data, i);
        runs = new Run[](data.length);
        for (uint256 j = 0; j < data.length; ++j) {
            uint256 place = rows.data.start[i] + j;
            runs[j] = Run(data[j], rows.first[place], rows.repeats[place]);
        }
    }

    // Refusals
    function compute(uint8 operation) external pure returns (uint32) {
        return ExactElement.compute(operation, new Run[](2), 1, 0, 4);
    }

    function test_compute_whatExactProgramsDoNotHave_isRefused() public {
        uint8[3] memory operations = [0, Judge.PRODUCT_SUM, Judge.QUANTIZED_PRODUCT_SUM + 1];
        for (uint256 i = 0; i < operations.length; ++i) {
            vm.expectRevert(abi.encodeWithSelector(Judge.UnknownOperation.selector, operations[i]));
            this.compute(operations[i]);
        }
    }
}
