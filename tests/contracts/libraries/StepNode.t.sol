// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IReferee} from "../../../contracts/interfaces/IReferee.sol";
import {Judge} from "../../../contracts/libraries/Judge.sol";
import {StepNode} from "../../../contracts/libraries/StepNode.sol";
import {ToyStep} from "../ToyStep.sol";
import {VectorFile} from "../VectorFile.sol";

/// @dev Section 8: the same runs as Python's.
contract NodeVectors is VectorFile {
    function setUp() public {
        open("node");
    }

    function read(bytes calldata data, uint256 element) external pure returns (StepNode.Element memory) {
        return StepNode.read(data, element);
    }

    function test_nodes() public view {
        string[] memory name = names(".nodes");
        bytes[] memory data = blobs(".nodes.data");
        uint256[] memory elements = numbers(".nodes.element");
        for (uint256 i = 0; i < name.length; ++i) {
            _requireNumbers(this.read(data[i], elements[i]), i, name[i]);
        }
    }

    function _requireNumbers(StepNode.Element memory found, uint256 i, string memory name) private view {
        assertEq(found.operation, numbers(".nodes.operation")[i], name);
        assertEq(found.terms, numbers(".nodes.terms")[i], name);
        assertEq(found.selected, numbers(".nodes.selected")[i], name);
        assertEq(found.selectedIndex, numbers(".nodes.selectedIndex")[i], name);
        assertEq(found.selectedSize, numbers(".nodes.selectedSize")[i], name);
    }

    function test_nodes_accesses() public view {
        string[] memory name = names(".nodes");
        bytes[] memory data = blobs(".nodes.data");
        uint256[] memory elements = numbers(".nodes.element");
        uint256[] memory starts = numbers(".nodes.startStart");
        Columns memory columns = _columns();
        for (uint256 i = 0; i < name.length; ++i) {
            StepNode.Element memory found = this.read(data[i], elements[i]);
            assertEq(found.operands.length + 1, starts[i + 1] - starts[i], name[i]);
            _requireAccess(found.output, columns, starts[i], name[i]);
            for (uint256 j = 0; j < found.operands.length; ++j) {
                _requireAccess(found.operands[j], columns, starts[i] + 1 + j, name[i]);
            }
        }
    }

    struct Columns {
        uint256[] role;
        uint256[] leafBytes;
        uint256[] buffer;
        uint256[] size;
        uint256[] start;
        uint256[] length;
        bytes32[] constantRoot;
    }

    function _columns() private view returns (Columns memory columns) {
        (columns.role, columns.leafBytes) = (numbers(".nodes.role"), numbers(".nodes.leafBytes"));
        (columns.buffer, columns.size) = (numbers(".nodes.buffer"), numbers(".nodes.size"));
        (columns.start, columns.length) = (numbers(".nodes.start"), numbers(".nodes.length"));
        columns.constantRoot = words(".nodes.constantRoot");
    }

    function _requireAccess(
        StepNode.Access memory found,
        Columns memory columns,
        uint256 i,
        string memory name
    ) private pure {
        assertEq(found.role, columns.role[i], name);
        assertEq(found.leafBytes, columns.leafBytes[i], name);
        assertEq(found.buffer, columns.buffer[i], name);
        assertEq(found.size, columns.size[i], name);
        assertEq(found.start, columns.start[i], name);
        assertEq(found.length, columns.length[i], name);
        assertEq(found.constantRoot, columns.constantRoot[i], name);
    }

    function test_refusedNodes() public {
        string[] memory name = names(".refusedNodes");
        bytes[] memory data = blobs(".refusedNodes.data");
        uint256[] memory elements = numbers(".refusedNodes.element");
        for (uint256 i = 0; i < name.length; ++i) {
            vm.expectRevert();
            this.read(data[i], elements[i]);
        }
    }
}

contract StepNodeTest is ToyStep {
    uint256 private constant HEAD_BYTES = 12;

    function setUp() public {
        addBuffer(WEIGHTS, 10, 600);
        addBuffer(TOKENS, 9, 600);
        addBuffer(CONSTANT, 10, 600);
        addBuffer(TENSOR, 9, 600);
        addBuffer(INTEGER8, 9, 600);
        addBuffer(INTEGER16, 9, 600);
        addBuffer(INTEGER32, 9, 600);
    }

    function read(bytes calldata data, uint256 element) external pure returns (StepNode.Element memory) {
        return StepNode.read(data, element);
    }

    /// @dev Two loops of 3 and 4, the second one reduced: out[i] from w[4 i + j] and a constant c[7].
    function _product() private view returns (bytes memory) {
        ToyAccess[] memory accesses = new ToyAccess[](3);
        (accesses[0], accesses[1], accesses[2]) = (access(3, 0, 1), access(0, 0, 4, 1), access(2, 7, 0, 0));
        return encodeNode(Judge.PRODUCT_SUM, list(3, 4), 1, 0, accesses);
    }

    function _refuse(bytes memory data, bytes memory reason) private {
        vm.expectRevert(reason);
        this.read(data, 0);
    }

    function _with(uint256 place, uint8 value) private view returns (bytes memory data) {
        data = _product();
        data[place] = bytes1(value);
    }

    function _unsound(bytes32 what, uint256 value) private pure returns (bytes memory) {
        return abi.encodeWithSelector(IReferee.NodeUnsound.selector, what, value);
    }

    // Length
    function test_read_lessThanAHead_isRefused() public {
        _refuse("", abi.encodeWithSelector(IReferee.NodeMalformed.selector, HEAD_BYTES, 0));
        bytes memory head = cut(_product(), 0, 11);
        _refuse(head, abi.encodeWithSelector(IReferee.NodeMalformed.selector, HEAD_BYTES, 11));
        // A whole head is read.
        head = new bytes(HEAD_BYTES);
        _refuse(head, abi.encodeWithSelector(IReferee.NodeUnsound.selector, bytes32("operation"), 0));
    }

    /// @dev Whatever lies behind it in the call's data: here zeros, or the whole rest of the node.
    function testFuzz_read_cutNode_isRefused(uint256 length) public {
        bytes memory whole = _product();
        bytes memory data = cut(whole, 0, bound(length, 0, whole.length - 1));
        vm.expectRevert();
        this.read(data, 0);
        vm.expectRevert();
        this.readCut(whole, data.length);
    }

    function readCut(bytes calldata whole, uint256 length) external pure returns (StepNode.Element memory) {
        return StepNode.read(whole[:length], 0);
    }

    function test_readCut_byOneByte_saysBothLengths() public {
        bytes memory whole = _product();
        bytes4 selector = IReferee.NodeMalformed.selector;
        vm.expectRevert(abi.encodeWithSelector(selector, whole.length, whole.length - 1));
        this.readCut(whole, whole.length - 1);
        _refuse(
            bytes.concat(whole, hex"00"), abi.encodeWithSelector(selector, whole.length, whole.length + 1)
        );
    }

    function testFuzz_read_longerNode_isRefused(bytes memory tail) public {
        vm.assume(tail.length > 0);
        bytes memory whole = _product();
        bytes4 selector = IReferee.NodeMalformed.selector;
        _refuse(
            bytes.concat(whole, tail),
            abi.encodeWithSelector(selector, whole.length, whole.length + tail.length)
        );
    }

    // Shape
    function test_read_unsoundNode_saysWhat() public {
        this.read(_product(), 0);
        _refuse(_with(0, 0), _unsound("operation", 0));
        _refuse(_with(0, 24), _unsound("operation", 24));
        _refuse(_with(3, 1), _unsound("operands", 1));
        _refuse(_with(3, 3), _unsound("operands", 3));
        _refuse(_with(1, 9), _unsound("loops", 9));
        _refuse(_with(2, 3), _unsound("reduced", 3));
        _refuse(_with(19, 0), _unsound("size", 0));
        _refuse(_with(27, 0), _unsound("size", 1));
        _refuse(_with(29, 8), _unsound("leaf bytes", 8));
        _refuse(_with(29, 13), _unsound("leaf bytes", 13));
    }

    // Quantized values
    /// @dev Three sums of 100 products: factors in buffers a and b, scales in a tensor.
    function _quantizedProduct(uint256 a, uint256 b) private pure returns (ToyAccess[] memory accesses) {
        accesses = new ToyAccess[](5);
        (accesses[0], accesses[1], accesses[2]) = (access(3, 0, 1), access(a, 0, 100, 1), access(b, 7, 0, 1));
        (accesses[3], accesses[4]) = (access(3, 50, 1, 0), access(2, 9, 0, 0));
    }

    function _encodeProduct(ToyAccess[] memory accesses) private view returns (bytes memory) {
        return encodeNode(Judge.QUANTIZED_PRODUCT_SUM, list(3, 100), 1, 0, accesses);
    }

    function test_read_quantizedProduct_knowsItsBytes() public view {
        for (uint256 i = 0; i < 3; ++i) {
            StepNode.Element memory found = this.read(_encodeProduct(_quantizedProduct(4 + i, 4 + i)), 2);
            assertEq(found.operands[0].elementBytes, 1 << i, "a");
            assertEq(found.operands[1].elementBytes, 1 << i, "b");
            assertEq(found.operands[0].length, 100, "terms");
            assertEq(found.operands[2].elementBytes, 4, "scale of a");
            assertEq(found.operands[2].start, 52, "its place");
            assertEq(found.operands[3].length, 1, "one scale");
            assertEq(found.output.elementBytes, 4, "output");
        }
    }

    function test_read_quantizedProductOfOthers_isRefused() public {
        _refuse(_encodeProduct(_quantizedProduct(4, 5)), _unsound("role", INTEGER16));
        _refuse(_encodeProduct(_quantizedProduct(6, 3)), _unsound("role", TENSOR));
        _refuse(_encodeProduct(_quantizedProduct(3, 3)), _unsound("role", TENSOR));
        ToyAccess[] memory accesses = _quantizedProduct(4, 4);
        accesses[0] = access(6, 0, 1);
        _refuse(_encodeProduct(accesses), _unsound("role", INTEGER32));
        for (uint256 i = 3; i < 5; ++i) {
            accesses = _quantizedProduct(4, 4);
            accesses[i] = access(5, 0, 1, 0);
            _refuse(_encodeProduct(accesses), _unsound("role", INTEGER16));
            accesses[i] = access(3, 0, 1, 1);
            _refuse(_encodeProduct(accesses), _unsound("scales", 100));
        }
    }

    function _encodeQuantize(uint256 bits, uint256 output, uint256 a) private view returns (bytes memory) {
        ToyAccess[] memory accesses = new ToyAccess[](3);
        (accesses[0], accesses[1], accesses[2]) = (access(output, 0, 1), access(a, 0, 1), access(2, 7, 0));
        return encodeNode(Judge.QUANTIZE, list(30), 0, bits, accesses);
    }

    function test_read_quantize_writesIntegersOfItsBits() public {
        uint256[3] memory bits = [uint256(8), 15, 20];
        for (uint256 i = 0; i < 3; ++i) {
            StepNode.Element memory found = this.read(_encodeQuantize(bits[i], 4 + i, 0), 5);
            assertEq(found.output.elementBytes, 1 << i, "bytes");
            assertEq(found.selected, bits[i], "bits");
            uint256 other = 4 + (i + 1) % 3;
            _refuse(_encodeQuantize(bits[i], other, 0), _unsound("role", buffers[other].role));
            _refuse(_encodeQuantize(bits[i], 3, 0), _unsound("role", TENSOR));
            _refuse(_encodeQuantize(bits[i], 4 + i, 4), _unsound("role", INTEGER8));
            _refuse(_encodeQuantize(bits[i] + 1, 4 + i, 0), _unsound("selected", bits[i] + 1));
        }
        _refuse(_encodeQuantize(0, 4, 0), _unsound("selected", 0));
    }

    function test_read_scaleOf_knowsItsBits() public {
        ToyAccess[] memory accesses = new ToyAccess[](2);
        (accesses[0], accesses[1]) = (access(3, 0, 1), access(0, 0, 100, 1));
        assertEq(this.read(encodeNode(Judge.SCALE_OF, list(3, 100), 1, 15, accesses), 1).terms, 100, "terms");
        _refuse(encodeNode(Judge.SCALE_OF, list(3, 100), 1, 16, accesses), _unsound("selected", 16));
        accesses[1] = access(5, 0, 100, 1);
        _refuse(encodeNode(Judge.SCALE_OF, list(3, 100), 1, 15, accesses), _unsound("role", INTEGER16));
    }

    /// @dev Neither a sum nor a copy of integers, nor a role that there is not.
    function test_read_integersElsewhere_areRefused() public {
        ToyAccess[] memory accesses = new ToyAccess[](2);
        for (uint256 i = 4; i < 7; ++i) {
            (accesses[0], accesses[1]) = (access(3, 0, 1), access(i, 0, 1));
            bytes memory data = encodeNode(Judge.COPY, list(4), 0, 0, accesses);
            _refuse(data, _unsound("role", buffers[i].role));
            (accesses[0], accesses[1]) = (access(i, 0, 1), access(3, 0, 1));
            data = encodeNode(Judge.COPY, list(4), 0, 0, accesses);
            _refuse(data, _unsound("role", buffers[i].role));
        }
        _refuse(_with(HEAD_BYTES + 16, 12), _unsound("role", 12));
    }

    function test_read_termsInNoRun_isRefused() public {
        uint256 place = HEAD_BYTES + 16 + 34 + 26 + 15; // last byte of the stride of w over j
        _refuse(_with(place, 2), _unsound("stride", 2));
        _refuse(_with(place + 26 + 16, 3), _unsound("stride", 3));
        bytes memory data = _product();
        for (uint256 i = 0; i < 8; ++i) {
            data[place - i] = 0xff;
        }
        _refuse(data, _unsound("stride", type(uint256).max));
    }

    /// @dev Two reduced loops: 2 and 4 turns. Strides must be 4 and 1, or both 0.
    function test_read_twoReducedLoops_areOneRunOrOneElement() public {
        assertEq(this.read(_twice(4, 1), 2).operands[0].length, 8, "a run");
        assertEq(this.read(_twice(0, 0), 2).operands[0].length, 1, "one element");
        assertEq(this.read(_twice(4, 1), 2).operands[0].start, 200, "its start");
        _refuse(_twice(1, 0), _unsound("stride", 1));
        _refuse(_twice(0, 1), _unsound("stride", 0));
        _refuse(_twice(5, 1), _unsound("stride", 5));
        _refuse(_twice(1, 4), _unsound("stride", 4));
    }

    function _twice(int64 middle, int64 inner) private view returns (bytes memory) {
        ToyAccess[] memory accesses = new ToyAccess[](2);
        (accesses[0], accesses[1]) = (access(3, 0, 1), ToyAccess(0, 0, new int64[](3)));
        int64[] memory strides = accesses[1].strides;
        (strides[0], strides[1], strides[2]) = (100, middle, inner);
        uint256[] memory sizes = new uint256[](3);
        (sizes[0], sizes[1], sizes[2]) = (3, 2, 4);
        return encodeNode(Judge.SUM, sizes, 2, 0, accesses);
    }

    function test_read_tooManyTerms_isRefused() public {
        bytes4 selector = IReferee.TooManyTerms.selector;
        uint256[7] memory terms = [uint256(4097), 4097, 4097, 65537, 1 << 63, 2, 4097];
        uint8[7] memory operations = [
            Judge.SUM,
            Judge.PRODUCT_SUM,
            Judge.SELECTED_SUM,
            Judge.MAXIMUM_OF,
            Judge.MAXIMUM_OF,
            Judge.COPY,
            Judge.SCALE_OF
        ];
        uint256[7] memory most = [StepNode.MAX_TERMS, 4096, 4096, StepNode.MAX_RUN, StepNode.MAX_RUN, 1, 4096];
        for (uint256 i = 0; i < terms.length; ++i) {
            bool isBinary = operations[i] == Judge.PRODUCT_SUM || operations[i] == Judge.SELECTED_SUM;
            ToyAccess[] memory accesses = new ToyAccess[](isBinary ? 3 : 2);
            (accesses[0], accesses[1]) = (access(3, 0, 1), access(1, 0, 0, 1));
            if (isBinary) accesses[2] = access(0, 0, 0, 1);
            uint256 selected = operations[i] == Judge.SCALE_OF ? 8 : 0;
            bytes memory data = encodeNode(operations[i], list(3, terms[i]), 1, selected, accesses);
            _refuse(data, abi.encodeWithSelector(selector, most[i], terms[i]));
            data = encodeNode(operations[i], list(3, most[i]), 1, selected, accesses);
            assertEq(this.read(data, 0).terms, most[i], "as many as there may be");
        }
    }

    function test_read_selectedLoopThatIsNone_isRefused() public {
        ToyAccess[] memory accesses = new ToyAccess[](3);
        (accesses[0], accesses[1], accesses[2]) = (access(3, 0, 1), access(1, 0, 0, 1), access(0, 0, 0, 1));
        bytes memory data = encodeNode(Judge.SELECTED_SUM, list(3, 4), 1, 1, accesses);
        _refuse(data, _unsound("selected", 1)); // the loop that is summed over is none of the output's
    }

    function testFuzz_read_elementBeyond_isRefused(uint256 element) public {
        element = bound(element, 3, type(uint256).max);
        bytes memory data = _product();
        vm.expectRevert(abi.encodeWithSelector(IReferee.ElementUnknown.selector, element, 3));
        this.read(data, element);
    }

    // Addresses
    /// @dev By counting up: every element of three loops over any strides.
    function testFuzz_read_everyElement_countsUp(uint8[3] memory turns, int32[3] memory strides, int32 offset)
        public
        view
    {
        uint256[] memory sizes = new uint256[](3);
        ToyAccess[] memory accesses = new ToyAccess[](2);
        (accesses[0], accesses[1]) = (ToyAccess(3, 0, new int64[](3)), ToyAccess(0, offset, new int64[](3)));
        for (uint256 i = 0; i < 3; ++i) {
            sizes[i] = bound(turns[i], 1, 4);
            accesses[1].strides[i] = strides[i];
        }
        bytes memory data = encodeNode(Judge.COPY, sizes, 0, 0, accesses);
        uint256 element = 0;
        for (uint256 i = 0; i < sizes[0]; ++i) {
            for (uint256 j = 0; j < sizes[1]; ++j) {
                for (uint256 k = 0; k < sizes[2]; ++k) {
                    int256 start = int256(offset) + int256(i) * strides[0] + int256(j) * strides[1]
                        + int256(k) * strides[2];
                    StepNode.Access memory found = this.read(data, element++).operands[0];
                    assertEq(found.start, uint256(start), "as counted");
                }
            }
        }
    }
}
