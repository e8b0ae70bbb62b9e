// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IReferee} from "../interfaces/IReferee.sol";
import {Judge} from "./Judge.sol";

/// @title Reads one element of one node of a step's program from the node's canonical bytes (docs/spec.md, section 8).
/// @notice operation, loops, reduced loops, operands (a byte each), `selected`, the loops' sizes, then the access of the output and of each operand:
/// role, log2 of its leaf's bytes (a byte each), buffer, size of the buffer, offset, strides, and the root where it is a constant. Integers are 8 bytes,
/// big-endian, in two's complement.
/// @dev Twin of `protocol/spec/program.py` and `program_codec.py`. Refuses a node only where it could not be judged: whoever joins a task has checked its whole
/// program.
library StepNode {
    uint8 internal constant LAST_OPERATION = Judge.QUANTIZED_PRODUCT_SUM;
    // Roles of buffers whose root is not a leaf of the trace.
    uint8 internal constant WEIGHTS = 1;
    uint8 internal constant FIRST_MOMENT = 2;
    uint8 internal constant SECOND_MOMENT = 3;
    uint8 internal constant CONSTANT = 7;
    // Roles of quantized values: signed integers of one, two and four bytes.
    uint8 internal constant INTEGER8 = 9;
    uint8 internal constant INTEGER16 = 10;
    uint8 internal constant INTEGER32 = 11;

    uint256 internal constant MAX_LOOPS = 8;
    /// @dev Longest sum, and longest run that a maximum is taken of: the dearest call stays below 16 M gas.
    uint256 internal constant MAX_TERMS = 4096;
    uint256 internal constant MAX_RUN = 1 << 16;
    /// @dev Leaves have 512 to 4096 bytes.
    uint256 private constant LEAST_LEAF_LOG = 9;
    uint256 private constant MOST_LEAF_LOG = 12;
    uint256 private constant HEAD_BYTES = 12;
    uint256 private constant ACCESS_BYTES = 26;
    /// @dev Number of operands of operation i in hexadecimal digit i, the lowest first.
    uint256 private constant OPERAND_COUNTS = 0x421132321111122222212120;
    /// @dev Of a QUANTIZED_PRODUCT_SUM the first operands; their scales follow.
    uint256 private constant FACTORS = 2;
    uint256 private constant ELEMENT_BYTES = 4;

    /// @notice What an element has to do with a buffer.
    /// @param leafBytes of the buffer's tree
    /// @param elementBytes of an element of the buffer: 4, or 1 or 2 of quantized values
    /// @param size of the buffer in elements
    /// @param start the first element
    /// @param length elements from there on: as many as terms, or one for all terms
    /// @param constantRoot of a CONSTANT, else 0
    struct Access {
        uint256 role;
        uint256 leafBytes;
        uint256 elementBytes;
        uint256 buffer;
        uint256 size;
        uint256 start;
        uint256 length;
        bytes32 constantRoot;
    }

    /// @notice One output element of a node, and what it is computed from.
    /// @param terms of its sum or maximum; 1 where nothing is reduced
    /// @param selected GATHER: the stride of the index; SCALE_OF, QUANTIZE: bits of a quantized value; else the number of a loop
    /// @param selectedIndex of that loop at this element, and `selectedSize` its size; 0 where no index is compared
    struct Element {
        uint8 operation;
        uint256 terms;
        uint256 selected;
        uint256 selectedIndex;
        uint256 selectedSize;
        Access output;
        Access[] operands;
    }

    /// @dev The loops of a node, at the element in question: `indices` of those that are not reduced.
    struct Loops {
        uint256 count;
        uint256[] indices;
    }

    // Reading
    /// @notice Element `number` of a node. No access is moved by an index yet.
    function read(bytes calldata data, uint256 number) internal pure returns (Element memory element) {
        (Loops memory loops, uint256 operands) = _readHead(data, number, element);
        uint256 place = HEAD_BYTES + 8 * loops.count;
        place = _readAccess(data, place, loops, loops.indices.length, element.output);
        element.operands = new Access[](operands);
        for (uint256 i = 0; i < operands; ++i) {
            place = _readAccess(data, place, loops, loops.count, element.operands[i]);
        }
        if (place != data.length) revert IReferee.NodeMalformed(place, data.length);
        _requireRoles(element);
    }

    /// @notice Of a node's operands the first one is an index.
    function isIndexed(uint8 operation) internal pure returns (bool) {
        return operation == Judge.SELECTED_SUM || operation == Judge.GATHER || operation == Judge.EQUAL_SELECT;
    }

    /// @notice Bytes of an element of a buffer of this role.
    function elementBytesOf(uint256 role) internal pure returns (uint256) {
        return role == INTEGER8 ? 1 : role == INTEGER16 ? 2 : ELEMENT_BYTES;
    }

    function _readHead(bytes calldata data, uint256 number, Element memory element)
        private
        pure
        returns (Loops memory loops, uint256 operands)
    {
        if (data.length < HEAD_BYTES) revert IReferee.NodeMalformed(HEAD_BYTES, data.length);
        (uint256 operation, uint256 reduced) = (_byteAt(data, 0), _byteAt(data, 2));
        (loops.count, operands) = (_byteAt(data, 1), _byteAt(data, 3));
        if (operation == 0 || operation > LAST_OPERATION) {
            revert IReferee.NodeUnsound("operation", operation);
        }
        if (operands != (OPERAND_COUNTS >> (4 * operation)) & 0xf) {
            revert IReferee.NodeUnsound("operands", operands);
        }
        if (loops.count > MAX_LOOPS) revert IReferee.NodeUnsound("loops", loops.count);
        if (reduced > loops.count) revert IReferee.NodeUnsound("reduced", reduced);
        unchecked {
            loops.indices = _unravel(data, number, loops.count - reduced);
        }
        element.operation = uint8(operation);
        element.terms = _termsOf(data, loops, element.operation);
        _readSelected(data, loops.indices, element);
    }

    function _readSelected(bytes calldata data, uint256[] memory indices, Element memory element)
        private
        pure
    {
        uint256 selected = _countAt(data, 4);
        element.selected = selected;
        if (element.operation == Judge.SCALE_OF || element.operation == Judge.QUANTIZE) {
            if (_roleOf(selected) == 0) revert IReferee.NodeUnsound("selected", selected);
            return;
        }
        if (!isIndexed(element.operation) || element.operation == Judge.GATHER) return;
        if (selected >= indices.length) revert IReferee.NodeUnsound("selected", selected);
        (element.selectedIndex, element.selectedSize) = (indices[selected], _sizeAt(data, selected));
    }

    /// @dev The access at byte `place`, with `strides` strides; returns the byte behind it.
    function _readAccess(
        bytes calldata data,
        uint256 place,
        Loops memory loops,
        uint256 strides,
        Access memory access
    ) private pure returns (uint256 end) {
        unchecked {
            end = place + ACCESS_BYTES + 8 * strides;
            uint256 leafLog = _byteAt(data, place + 1);
            if (leafLog < LEAST_LEAF_LOG || leafLog > MOST_LEAF_LOG) {
                revert IReferee.NodeUnsound("leaf bytes", leafLog);
            }
            (access.role, access.leafBytes) = (_byteAt(data, place), 1 << leafLog);
            access.elementBytes = elementBytesOf(access.role);
            (access.buffer, access.size) = (_countAt(data, place + 2), _countAt(data, place + 10));
            access.start = _locate(data, place + 18, loops.indices);
            access.length = _runLength(data, place + ACCESS_BYTES, loops, strides);
            if (access.role == CONSTANT) {
                access.constantRoot = _wordAt(data, end);
                end += 32;
            }
        }
    }

    // Quantized values
    /// @dev Quantized values stand where they belong and nowhere else: no float32 is read as one, none as a float32. Both factors of a product have as many
    /// bytes, and a scale is one for all terms.
    function _requireRoles(Element memory element) private pure {
        uint8 operation = element.operation;
        _requireRole(element.output, operation == Judge.QUANTIZE ? _roleOf(element.selected) : 0);
        Access[] memory operands = element.operands;
        unchecked {
            uint256 factors = 0;
            if (operation == Judge.QUANTIZED_PRODUCT_SUM) {
                uint256 role = operands[0].role;
                if (role < INTEGER8) revert IReferee.NodeUnsound("role", role);
                for (; factors < FACTORS; ++factors) {
                    _requireRole(operands[factors], role);
                    uint256 length = operands[FACTORS + factors].length;
                    if (length != 1) revert IReferee.NodeUnsound("scales", length);
                }
            }
            for (uint256 i = factors; i < operands.length; ++i) {
                _requireRole(operands[i], 0);
            }
        }
    }

    /// @dev wanted: a role of quantized values, or 0 where none of these may stand.
    function _requireRole(Access memory access, uint256 wanted) private pure {
        uint256 role = access.role;
        bool isRight = wanted == 0 ? role < INTEGER8 : role == wanted;
        if (!isRight || role > INTEGER32) revert IReferee.NodeUnsound("role", role);
    }

    /// @dev Of values of so many bits; 0 where there are none of as many.
    function _roleOf(uint256 bits) private pure returns (uint256) {
        if (bits == 8) return INTEGER8;
        if (bits == 15) return INTEGER16;
        return bits == 20 ? INTEGER32 : 0;
    }

    // Addresses
    /// @notice offset + sum of index * stride; the offset stands at byte `place`, the strides behind it.
    /// @dev Beyond every buffer where a node that is not valid makes it negative.
    function _locate(bytes calldata data, uint256 place, uint256[] memory indices)
        private
        pure
        returns (uint256 start)
    {
        unchecked {
            start = _integerAt(data, place);
            for (uint256 i = 0; i < indices.length; ++i) {
                place += 8;
                start += indices[i] * _integerAt(data, place);
            }
        }
    }

    /// @dev Strides over the reduced loops are those of a row-major run, or all 0.
    function _runLength(bytes calldata data, uint256 place, Loops memory loops, uint256 strides)
        private
        pure
        returns (uint256 length)
    {
        unchecked {
            uint256 expected = 1;
            length = 1;
            uint256 outer = loops.indices.length;
            for (uint256 i = strides; i > outer; --i) {
                uint256 size = _countAt(data, HEAD_BYTES + 8 * (i - 1));
                uint256 stride = _integerAt(data, place + 8 * (i - 1));
                // The innermost loop decides whether the operand is a run or one element.
                if (expected == 1 && stride == 0) expected = 0;
                if (stride != expected) revert IReferee.NodeUnsound("stride", stride);
                expected *= size;
                if (expected != 0) length = expected;
            }
        }
    }

    // Loops
    /// @dev Indices of the first `count` loops at element `number`, the last one running fastest.
    function _unravel(bytes calldata data, uint256 number, uint256 count)
        private
        pure
        returns (uint256[] memory indices)
    {
        indices = new uint256[](count);
        uint256 rest = number;
        unchecked {
            for (uint256 i = count; i > 0; --i) {
                uint256 size = _sizeAt(data, i - 1);
                (indices[i - 1], rest) = (rest % size, rest / size);
            }
        }
        if (rest != 0) revert IReferee.ElementUnknown(number, _elementsOf(data, count));
    }

    function _elementsOf(bytes calldata data, uint256 count) private pure returns (uint256 elements) {
        elements = 1;
        for (uint256 i = 0; i < count; ++i) {
            elements *= _sizeAt(data, i);
        }
    }

    function _termsOf(bytes calldata data, Loops memory loops, uint8 operation)
        private
        pure
        returns (uint256 terms)
    {
        bool isSum = operation <= Judge.SELECTED_SUM || operation == Judge.SCALE_OF
            || operation == Judge.QUANTIZED_PRODUCT_SUM;
        uint256 most = isSum ? MAX_TERMS : 1;
        if (operation == Judge.MAXIMUM_OF) most = MAX_RUN;
        terms = 1;
        unchecked {
            uint256 count = loops.count;
            for (uint256 i = loops.indices.length; i < count; ++i) {
                // 2^16 * 2^64 at most: no overflow.
                terms *= _sizeAt(data, i);
                if (terms > most) revert IReferee.TooManyTerms(most, terms);
            }
        }
    }

    function _sizeAt(bytes calldata data, uint256 loop) private pure returns (uint256 size) {
        unchecked {
            size = _countAt(data, HEAD_BYTES + 8 * loop);
        }
        if (size == 0) revert IReferee.NodeUnsound("size", loop);
    }

    // Bytes, read by `calldataload`: a slice or an index would check the bounds of each field. So bytes after the end are read too, as they are in calldata;
    // `read` refuses a node whose length is not the one that its fields give.
    /// @dev Byte `place` of a node.
    function _byteAt(bytes calldata data, uint256 place) private pure returns (uint256 value) {
        assembly ("memory-safe") {
            value := byte(0, calldataload(add(data.offset, place)))
        }
    }

    /// @dev The 8 bytes from `place` on, big-endian and unsigned.
    function _countAt(bytes calldata data, uint256 place) private pure returns (uint256 value) {
        assembly ("memory-safe") {
            value := shr(192, calldataload(add(data.offset, place)))
        }
    }

    /// @dev The 8 bytes from `place` on, big-endian, with the sign extended.
    function _integerAt(bytes calldata data, uint256 place) private pure returns (uint256 value) {
        assembly ("memory-safe") {
            value := sar(192, calldataload(add(data.offset, place)))
        }
    }

    /// @dev The 32 bytes from `place` on.
    function _wordAt(bytes calldata data, uint256 place) private pure returns (bytes32 value) {
        assembly ("memory-safe") {
            value := calldataload(add(data.offset, place))
        }
    }
}
