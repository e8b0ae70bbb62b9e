// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EXACT_FORMAT, FLOAT32_FORMAT} from "./Types.sol";
import {IReferee} from "./interfaces/IReferee.sol";
import {ExactElement} from "./libraries/ExactElement.sol";
import {Judge} from "./libraries/Judge.sol";
import {Openings} from "./libraries/Openings.sol";
import {Run, Runs} from "./libraries/Runs.sol";
import {StepNode} from "./libraries/StepNode.sol";

/// @title Judges one element of one operation of a training step from proven bytes (docs/spec.md, sections 8 to 10).
/// @notice It proves the node, cuts the runs of its operands out of proven leaves, lets indices choose, and asks the arithmetic: `Judge`, or `ExactElement`
/// where the program is exact. It has no storage and no owner, and knows neither tasks nor disputes.
contract Referee is IReferee {
    using Runs for Run;

    /// @inheritdoc IReferee
    function judge(
        StepContext calldata context,
        NodeProof calldata node,
        uint256 element,
        bytes calldata openings
    ) external pure returns (bool isFault) {
        Openings.requireNode(context.facts, node);
        StepNode.Element memory asked = StepNode.read(node.data, element);
        Openings.Reader memory reader;
        Run memory claimed = Openings.openRun(context, asked.output, openings, reader);
        (Run[] memory runs, uint256 terms) = _runsOf(context, asked, openings, reader);
        Openings.requireTrace(context, openings, reader);
        if (context.facts.numericFormat == FLOAT32_FORMAT) {
            return Judge.isFault(asked.operation, runs, terms, claimed.head());
        }
        if (context.facts.numericFormat == EXACT_FORMAT) return _isInexact(asked, runs, terms, claimed);
        revert UnknownFormat(context.facts.numericFormat);
    }

    /// @dev In an exact program: the claim is not the one right value.
    function _isInexact(StepNode.Element memory asked, Run[] memory runs, uint256 terms, Run memory claimed)
        private
        pure
        returns (bool)
    {
        bool isInteger = asked.operation == Judge.QUANTIZE;
        uint256 integerBytes = isInteger ? asked.output.elementBytes : asked.operands[0].elementBytes;
        uint32 right = ExactElement.compute(asked.operation, runs, terms, asked.selected, integerBytes);
        uint32 bits = isInteger ? uint32(int32(claimed.headInteger(integerBytes))) : claimed.head();
        return bits != right;
    }

    /// @dev What the operation is applied to, no index among it.
    function _runsOf(
        StepContext calldata context,
        StepNode.Element memory asked,
        bytes calldata openings,
        Openings.Reader memory reader
    ) private pure returns (Run[] memory runs, uint256 terms) {
        if (StepNode.isIndexed(asked.operation)) {
            return _indexedRun(context, asked, openings, reader);
        }
        runs = new Run[](asked.operands.length);
        for (uint256 i = 0; i < runs.length; ++i) {
            runs[i] = Openings.openRun(context, asked.operands[i], openings, reader);
        }
        return (runs, asked.terms);
    }

    // Indices
    /// @dev Operand 0 is the index; what is opened behind it is what it chooses.
    function _indexedRun(
        StepContext calldata context,
        StepNode.Element memory asked,
        bytes calldata openings,
        Openings.Reader memory reader
    ) private pure returns (Run[] memory runs, uint256 terms) {
        Run memory indices = Openings.openRun(context, asked.operands[0], openings, reader);
        StepNode.Access memory access = _chooseAccess(asked, indices.head());
        Run memory values = Openings.openRun(context, access, openings, reader);
        (runs, terms) = (new Run[](1), 1);
        if (asked.operation == Judge.SELECTED_SUM) (values, terms) = _selectTerms(asked, indices, values);
        runs[0] = values;
    }

    /// @dev Where the value or the values lie, given the first index.
    function _chooseAccess(StepNode.Element memory asked, uint256 index)
        private
        pure
        returns (StepNode.Access memory access)
    {
        access = asked.operands[1];
        if (asked.operation == Judge.GATHER) {
            unchecked {
                access.start += index * asked.selected;
            }
            return access;
        }
        if (index >= asked.selectedSize) revert IndexOutside(index, asked.selectedSize);
        if (asked.operation == Judge.EQUAL_SELECT && index != asked.selectedIndex) {
            return asked.operands[2];
        }
    }

    /// @dev The values at places where the index is that of the element, packed one behind the other; there may be none.
    function _selectTerms(StepNode.Element memory asked, Run memory indices, Run memory values)
        private
        pure
        returns (Run memory picked, uint256 count)
    {
        uint256 largest;
        (picked.data, count, largest) = indices.pick(values, asked.terms, uint32(asked.selectedIndex));
        if (largest >= asked.selectedSize) revert IndexOutside(largest, asked.selectedSize);
    }
}
