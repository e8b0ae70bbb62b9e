// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Referee} from "../../contracts/Referee.sol";
import {IReferee} from "../../contracts/interfaces/IReferee.sol";
import {Judge} from "../../contracts/libraries/Judge.sol";
import {ToyStep} from "./ToyStep.sol";

contract RefereeTest is ToyStep {
    uint32 private constant ZERO = 0;
    uint32 private constant HALF = 0x3f000000;
    uint32 private constant ONE = 0x3f800000;
    uint32 private constant TWO = 0x40000000;
    uint32 private constant THREE = 0x40400000;
    uint32 private constant FOUR = 0x40800000;
    uint32 private constant FIVE = 0x40a00000;
    uint32 private constant SIX = 0x40c00000;
    uint32 private constant INFINITE = 0x7f800000;

    // Buffers. A chunk is 128 terms, so leaves of the trace have 128 elements.
    uint256 private constant W = 0;
    uint256 private constant M = 1;
    uint256 private constant V = 2;
    uint256 private constant TOKEN = 3;
    uint256 private constant LABEL = 4;
    uint256 private constant TABLE = 6;
    uint256 private constant A = 7;
    uint256 private constant B = 8;
    uint256 private constant C = 9;
    uint256 private constant OUT = 10;

    Referee private referee;

    function setUp() public {
        referee = new Referee();
        for (uint8 role = WEIGHTS; role <= SECOND_MOMENT; ++role) {
            addBuffer(role, 10, 600);
        }
        addBuffer(TOKENS, 9, 256);
        addBuffer(LABELS, 9, 256);
        addBuffer(SCALARS, 9, 3);
        addBuffer(CONSTANT, 10, 300);
        addBuffer(TENSOR, 9, 512);
        addBuffer(TENSOR, 9, 640);
        addBuffer(TENSOR, 9, 64);
        addBuffer(TENSOR, 9, 200);
        for (uint256 i = 0; i < OUT; ++i) {
            if (i != TOKEN && i != LABEL) setValues(i, 0, _all(ONE, buffers[i].size));
        }
        setValue(A, 300, TWO); // no two leaves around it are the same
    }

    function _all(uint32 bits, uint256 count) private pure returns (uint32[] memory values) {
        values = new uint32[](count);
        for (uint256 i = 0; i < count; ++i) {
            values[i] = bits;
        }
    }

    // Asking ------------------------------------------------------------------------------------------------------
    /// @dev One question, with everything that proves it.
    struct Ask {
        IReferee.StepContext context;
        IReferee.NodeProof node;
        uint256 element;
        Opening output;
        Opening[] operands;
        bytes32[] tracePath;
    }

    /// @dev Where a run lies.
    struct Place {
        uint256 buffer;
        uint256 first;
        uint256 length;
    }

    function _ask(uint32 node, uint256 element, Place[] memory places) private view returns (Ask memory ask) {
        (ask.context, ask.node, ask.element) = (contextOf(), proveNode(node), element);
        uint256[] memory opened = new uint256[](places.length);
        opened[0] = places[0].buffer;
        ask.output = open(places[0].buffer, places[0].first, places[0].length);
        ask.operands = new Opening[](places.length - 1);
        for (uint256 i = 1; i < places.length; ++i) {
            opened[i] = places[i].buffer;
            ask.operands[i - 1] = open(places[i].buffer, places[i].first, places[i].length);
        }
        ask.tracePath = openTrace(opened);
    }

    function _pack(Ask memory ask) private pure returns (bytes memory openings) {
        openings = abi.encodePacked(ask.output.leaves, ask.output.path);
        for (uint256 i = 0; i < ask.operands.length; ++i) {
            openings = abi.encodePacked(openings, ask.operands[i].leaves, ask.operands[i].path);
        }
        return abi.encodePacked(openings, ask.tracePath);
    }

    function _judge(Ask memory ask) private view returns (bool) {
        return referee.judge(ask.context, ask.node, ask.element, _pack(ask));
    }

    /// @dev The honest value stands, the planted one is convicted.
    function _check(uint32 node, uint256 element, Place[] memory places, uint32 honest, uint32 planted)
        private
    {
        setValue(places[0].buffer, places[0].first, honest);
        assertTrue(!_judge(_ask(node, element, places)), "honest");
        setValue(places[0].buffer, places[0].first, planted);
        assertTrue(_judge(_ask(node, element, places)), "planted");
    }

    function _expect(Ask memory ask, bytes memory reason) private {
        bytes memory openings = _pack(ask);
        vm.expectRevert(reason);
        referee.judge(ask.context, ask.node, ask.element, openings);
    }

    function _places(Place memory a, Place memory b) private pure returns (Place[] memory made) {
        made = new Place[](2);
        (made[0], made[1]) = (a, b);
    }

    function _places(Place memory a, Place memory b, Place memory c)
        private
        pure
        returns (Place[] memory made)
    {
        made = new Place[](3);
        (made[0], made[1], made[2]) = (a, b, c);
    }

    // Elementwise -------------------------------------------------------------------------------------------------
    /// @dev Element 3 of four: out[11] from a[103] and b[197], which runs backwards.
    function _checkElementwise(uint8 operation, uint32[2] memory inputs, uint32 honest, uint32 planted)
        private
    {
        bool isBinary = inputs[1] != INFINITE;
        ToyAccess[] memory accesses = new ToyAccess[](isBinary ? 3 : 2);
        (accesses[0], accesses[1]) = (access(OUT, 8, 1), access(A, 100, 1));
        if (isBinary) accesses[2] = access(B, 200, -1);
        setValue(A, 103, inputs[0]);
        if (isBinary) setValue(B, 197, inputs[1]);
        uint32 node = addNode(operation, list(4), 0, 0, accesses);
        Place[] memory places = isBinary
            ? _places(Place(OUT, 11, 1), Place(A, 103, 1), Place(B, 197, 1))
            : _places(Place(OUT, 11, 1), Place(A, 103, 1));
        _check(node, 3, places, honest, planted);
    }

    function test_judge_twoOperands_convictsThePlanted() public {
        _checkElementwise(Judge.ADD, [TWO, THREE], FIVE, SIX);
        _checkElementwise(Judge.SUBTRACT, [FIVE, THREE], TWO, THREE);
        _checkElementwise(Judge.MULTIPLY, [TWO, THREE], SIX, FIVE);
        _checkElementwise(Judge.DIVIDE, [SIX, THREE], TWO, HALF);
        _checkElementwise(Judge.MAXIMUM, [TWO, THREE], THREE, TWO);
        _checkElementwise(Judge.MINIMUM, [TWO, THREE], TWO, THREE);
        _checkElementwise(Judge.FLUSH, [TWO, THREE], ZERO, TWO);
    }

    function test_judge_oneOperand_convictsThePlanted() public {
        _checkElementwise(Judge.SQUARE_ROOT, [FOUR, INFINITE], TWO, THREE);
        _checkElementwise(Judge.RECIPROCAL_ROOT, [FOUR, INFINITE], HALF, ONE);
        _checkElementwise(Judge.EXPONENTIAL, [ZERO, INFINITE], ONE, TWO);
        _checkElementwise(Judge.LOGARITHM, [ONE, INFINITE], ZERO, ONE);
        _checkElementwise(Judge.SIGMOID, [ZERO, INFINITE], HALF, ONE);
        _checkElementwise(Judge.COPY, [THREE, INFINITE], THREE, TWO);
    }

    /// @dev Every kind of buffer that an operand may lie in: copied from element 270, in the second leaf.
    function test_judge_copyOfEachRole_readsTheRightRoot() public {
        uint256[5] memory sources = [W, M, V, TABLE, B];
        for (uint32 i = 0; i < sources.length; ++i) {
            setValue(sources[i], 0, HALF + i); // no two roots are the same
            setValue(sources[i], 270, THREE);
            ToyAccess[] memory accesses = new ToyAccess[](2);
            (accesses[0], accesses[1]) = (access(OUT, 0, 1), access(sources[i], 170, 50));
            uint32 node = addNode(Judge.COPY, list(4), 0, 0, accesses);
            _check(node, 2, _places(Place(OUT, 2, 1), Place(sources[i], 270, 1)), THREE, ONE);
        }
    }

    function test_judge_lastElementOfABuffer_isInside() public {
        setValue(A, 511, THREE);
        ToyAccess[] memory accesses = new ToyAccess[](2);
        (accesses[0], accesses[1]) = (access(OUT, 0, 1), access(A, 508, 1));
        uint32 node = addNode(Judge.COPY, list(4), 0, 0, accesses);
        _check(node, 3, _places(Place(OUT, 3, 1), Place(A, 511, 1)), THREE, ONE);
    }

    /// @dev One root stands for both runs; where they are the same, nothing is left out.
    function test_judge_operandsInOneBuffer_openItsRootOnce() public {
        ToyAccess[] memory accesses = new ToyAccess[](3);
        (accesses[0], accesses[1], accesses[2]) = (access(OUT, 0, 1), access(A, 0, 1), access(A, 300, 1));
        uint32 node = addNode(Judge.ADD, list(4), 0, 0, accesses);
        Place[] memory places = _places(Place(OUT, 0, 1), Place(A, 0, 1), Place(A, 300, 1));
        _check(node, 0, places, THREE, TWO);
        Ask memory ask = _ask(node, 0, places);
        ask.operands[1].leaves[400] ^= 0x01;
        _expect(ask, abi.encodeWithSelector(IReferee.BufferMismatch.selector, ask.context.traceRoot, A));
        accesses[2] = access(A, 0, 1);
        node = addNode(Judge.MULTIPLY, list(4), 0, 0, accesses);
        _check(node, 0, _places(Place(OUT, 0, 1), Place(A, 0, 1), Place(A, 0, 1)), ONE, TWO);
    }

    // Reductions --------------------------------------------------------------------------------------------------
    /// @dev Element 1 of three: out[6] over a[128 .. 255], one leaf, and w[160 .. 287], two.
    function test_judge_productSum_convictsThePlanted() public {
        setValues(W, 160, _all(TWO, 128));
        uint32 node = _addSum(Judge.PRODUCT_SUM, access(A, 0, 128, 1), access(W, 30, 130, 1));
        Place[] memory places = _places(Place(OUT, 6, 1), Place(A, 128, 128), Place(W, 160, 128));
        _check(node, 1, places, 0x43800000, 0x43808000); // 256, 257
    }

    /// @dev An operand with stride 0 is one element for all terms.
    function test_judge_productSumWithOneFactor_convictsThePlanted() public {
        setValue(B, 201, THREE);
        uint32 node = _addSum(Judge.PRODUCT_SUM, access(A, 0, 128, 1), access(B, 200, 1, 0));
        Place[] memory places = _places(Place(OUT, 6, 1), Place(A, 128, 128), Place(B, 201, 1));
        _check(node, 1, places, 0x43c00000, 0x43c08000); // 384, 385
    }

    /// @dev Two reduced loops over one run: 32 terms of W's rows at an odd place.
    function test_judge_sumOverTwoLoops_convictsThePlanted() public {
        ToyAccess[] memory accesses = new ToyAccess[](2);
        (accesses[0], accesses[1]) = (access(OUT, 5, 1), ToyAccess(A, 3, new int64[](3)));
        (accesses[1].strides[0], accesses[1].strides[1], accesses[1].strides[2]) = (100, 8, 1);
        uint256[] memory sizes = new uint256[](3);
        (sizes[0], sizes[1], sizes[2]) = (4, 4, 8);
        uint32 node = addNode(Judge.SUM, sizes, 2, 0, accesses);
        setValues(A, 203, _all(THREE, 32));
        _check(node, 2, _places(Place(OUT, 7, 1), Place(A, 203, 32)), 0x42c00000, 0x42c20000); // 96, 97
    }

    function test_judge_maximumOf_convictsThePlanted() public {
        setValue(A, 255, THREE);
        setValue(A, 256, FIVE);
        uint32 node = _addSum(Judge.MAXIMUM_OF, access(A, 0, 128, 1));
        _check(node, 1, _places(Place(OUT, 6, 1), Place(A, 128, 128)), THREE, FIVE);
    }

    function _addSum(uint8 operation, ToyAccess memory a) private returns (uint32) {
        ToyAccess[] memory accesses = new ToyAccess[](2);
        (accesses[0], accesses[1]) = (access(OUT, 5, 1), a);
        return addNode(operation, list(3, 128), 1, 0, accesses);
    }

    function _addSum(uint8 operation, ToyAccess memory a, ToyAccess memory b) private returns (uint32) {
        ToyAccess[] memory accesses = new ToyAccess[](3);
        (accesses[0], accesses[1], accesses[2]) = (access(OUT, 5, 1), a, b);
        return addNode(operation, list(3, 128), 1, 0, accesses);
    }

    // Indices -----------------------------------------------------------------------------------------------------
    /// @dev Labels 0, 1, 2, 3, 0, ... choose among a[128 ..], which are 0, 1, 2, 3, 0, ... too: four sums, of 32 terms each; none has label 4.
    function _selectedSum() private returns (uint32 node) {
        uint32[4] memory cycle = [ZERO, ONE, TWO, THREE];
        for (uint32 i = 0; i < 128; ++i) {
            setValue(LABEL, i + 64, i % 4);
            setValue(A, i + 128, cycle[i % 4]);
        }
        return _selectedNode(128, access(A, 128, 0, 1));
    }

    /// @dev Five sums over the labels from 64 on.
    function _selectedNode(uint256 terms, ToyAccess memory values) private returns (uint32 node) {
        ToyAccess[] memory accesses = new ToyAccess[](3);
        (accesses[0], accesses[1], accesses[2]) = (access(OUT, 5, 1), access(LABEL, 64, 0, 1), values);
        return addNode(Judge.SELECTED_SUM, list(5, terms), 1, 0, accesses);
    }

    function _selectedPlaces(uint256 element) private pure returns (Place[] memory) {
        return _places(Place(OUT, 5 + element, 1), Place(LABEL, 64, 128), Place(A, 128, 128));
    }

    function test_judge_selectedSum_convictsThePlanted() public {
        uint32 node = _selectedSum();
        _check(node, 3, _selectedPlaces(3), 0x42c00000, 0x42c20000); // 96, 97
        _check(node, 2, _selectedPlaces(2), 0x42800000, 0x42820000); // 64, 65
        _check(node, 4, _selectedPlaces(4), ZERO, ONE);
    }

    function test_judge_selectedSumOfOneValue_convictsThePlanted() public {
        _selectedSum();
        uint32 node = _selectedNode(128, access(A, 131, 0, 0));
        Place[] memory places = _places(Place(OUT, 6, 1), Place(LABEL, 64, 128), Place(A, 131, 1));
        _check(node, 1, places, 0x42c00000, 0x42c20000); // 96, 97
    }

    /// @dev What stands behind the last of them in the same leaves is none, though its label is the right one.
    function test_judge_selectedSum_endsWithItsTerms() public {
        for (uint32 i = 0; i < 33; ++i) {
            setValue(LABEL, i + 64, i % 4);
            setValue(A, i + 100, ONE);
        }
        uint32 node = _selectedNode(32, access(A, 100, 0, 1));
        Place[] memory places = _places(Place(OUT, 5, 1), Place(LABEL, 64, 32), Place(A, 100, 32));
        _check(node, 0, places, 0x41000000, 0x41100000); // 8, 9
    }

    function test_judge_selectedSumIndexOutside_isRefused() public {
        uint32 node = _selectedSum();
        setValue(LABEL, 64 + 100, 5);
        _expect(
            _ask(node, 1, _selectedPlaces(1)), abi.encodeWithSelector(IReferee.IndexOutside.selector, 5, 5)
        );
        setValue(LABEL, 64, 6); // the first one decides nothing by itself, yet it is looked at first
        _expect(
            _ask(node, 1, _selectedPlaces(1)), abi.encodeWithSelector(IReferee.IndexOutside.selector, 6, 5)
        );
    }

    /// @dev Row of a table of 40 rows of 7: element (2, 3) is a[3 + 7 * token[2] + 2 * 3].
    function _gather(uint32 token) private returns (uint32 node) {
        ToyAccess[] memory accesses = new ToyAccess[](3);
        (accesses[0], accesses[1]) = (access(OUT, 20, 4, 1), access(TOKEN, 0, 1, 0));
        accesses[2] = access(A, 3, 0, 2);
        setValue(TOKEN, 2, token);
        return addNode(Judge.GATHER, list(5, 4), 0, 7, accesses);
    }

    function test_judge_gather_convictsThePlanted() public {
        uint32 node = _gather(30);
        setValue(A, 219, FIVE);
        Place[] memory places = _places(Place(OUT, 31, 1), Place(TOKEN, 2, 1), Place(A, 219, 1));
        _check(node, 11, places, FIVE, ONE);
    }

    function test_judge_gatherBeyondTheTable_isRefused() public {
        uint32[3] memory tokens = [uint32(72), 73, type(uint32).max];
        for (uint256 i = 0; i < tokens.length; ++i) {
            uint32 node = _gather(tokens[i]);
            uint256 place = 9 + 7 * uint256(tokens[i]);
            Place[] memory places =
                _places(Place(OUT, 31, 1), Place(TOKEN, 2, 1), Place(A, place < 512 ? place : 0, 1));
            Ask memory ask = _ask(node, 11, places);
            if (place < 512) assertTrue(_judge(ask), "a fault: the output is 0");
            else _expect(ask, abi.encodeWithSelector(IReferee.IndexOutside.selector, place, 512));
        }
    }

    /// @dev Element (2, 1): a[6 + 1] where token[2] is 1, else b[60 + 1].
    function _equalSelect(uint32 token) private returns (uint32 node) {
        ToyAccess[] memory accesses = new ToyAccess[](4);
        (accesses[0], accesses[1]) = (access(OUT, 0, 3, 1), access(TOKEN, 0, 1, 0));
        (accesses[2], accesses[3]) = (access(A, 0, 3, 1), access(B, 0, 30, 1));
        setValue(TOKEN, 2, token);
        setValue(A, 7, FIVE);
        setValue(B, 61, SIX);
        return addNode(Judge.EQUAL_SELECT, list(4, 3), 0, 1, accesses);
    }

    function test_judge_equalSelect_opensTheChosen() public {
        Place[] memory equal = _places(Place(OUT, 7, 1), Place(TOKEN, 2, 1), Place(A, 7, 1));
        Place[] memory other = _places(Place(OUT, 7, 1), Place(TOKEN, 2, 1), Place(B, 61, 1));
        _check(_equalSelect(1), 7, equal, FIVE, SIX);
        _check(_equalSelect(2), 7, other, SIX, FIVE);
        _expectOtherTrace(_ask(_equalSelect(2), 7, equal));
        Ask memory ask = _ask(_equalSelect(3), 7, other);
        _expect(ask, abi.encodeWithSelector(IReferee.IndexOutside.selector, 3, 3));
    }

    function test_judge_finiteSelect_opensAllThree() public {
        ToyAccess[] memory accesses = new ToyAccess[](4);
        (accesses[0], accesses[1]) = (access(OUT, 0, 1), access(C, 0, 1));
        (accesses[2], accesses[3]) = (access(A, 0, 1), access(B, 0, 1));
        setValue(A, 3, FIVE);
        setValue(B, 3, SIX);
        uint32 node = addNode(Judge.FINITE_SELECT, list(4), 0, 0, accesses);
        Place[] memory places = new Place[](4);
        (places[0], places[1]) = (Place(OUT, 3, 1), Place(C, 3, 1));
        (places[2], places[3]) = (Place(A, 3, 1), Place(B, 3, 1));
        _check(node, 3, places, FIVE, SIX);
        setValue(C, 3, INFINITE);
        _check(node, 3, places, SIX, FIVE);
    }

    // Refusals ----------------------------------------------------------------------------------------------------
    /// @dev A sum with the planted value in place: a fault as it stands.
    function _fault() private returns (Ask memory ask) {
        uint32 node = _addSum(Judge.PRODUCT_SUM, access(A, 0, 128, 1), access(W, 30, 130, 1));
        addNode(Judge.COPY, list(4), 0, 0, _copyAccesses());
        ask = _ask(node, 1, _places(Place(OUT, 6, 1), Place(A, 128, 128), Place(W, 160, 128)));
        assertTrue(_judge(ask), "a fault as it stands");
    }

    function _copyAccesses() private pure returns (ToyAccess[] memory accesses) {
        accesses = new ToyAccess[](2);
        (accesses[0], accesses[1]) = (access(OUT, 0, 1), access(C, 0, 1));
    }

    function test_judge_anotherNode_isRefused() public {
        Ask memory ask = _fault();
        bytes32 root = ask.context.facts.programRoot;
        ask.node.number = 1;
        _expect(ask, abi.encodeWithSelector(IReferee.NodeMismatch.selector, root, 1));
        ask.node.number = 2; // a leaf that the program has not
        _expect(ask, abi.encodeWithSelector(IReferee.NodeMismatch.selector, root, 2));
        ask.node.number = type(uint32).max;
        _expect(ask, abi.encodeWithSelector(IReferee.NodeMismatch.selector, root, type(uint32).max));
        ask.node.number = 0;
        ask.node.data[20] ^= 0x01;
        _expect(ask, abi.encodeWithSelector(IReferee.NodeMismatch.selector, root, 0));
    }

    function test_judge_nodePathWithMore_isRefused() public {
        Ask memory ask = _fault();
        ask.node.path = _longer(ask.node.path);
        bytes32 root = ask.context.facts.programRoot;
        _expect(ask, abi.encodeWithSelector(IReferee.NodeMismatch.selector, root, 0));
    }

    /// @dev A leaf of the program, but no whole node.
    function test_judge_cutNode_isRefused() public {
        bytes memory whole = encodeNode(Judge.COPY, list(4), 0, 0, _copyAccesses());
        nodes.push(cut(whole, 0, whole.length - 1));
        nodes.push(bytes.concat(whole, hex"00"));
        Place[] memory places = _places(Place(OUT, 0, 1), Place(C, 0, 1));
        bytes4 selector = IReferee.NodeMalformed.selector;
        _expect(_ask(0, 0, places), abi.encodeWithSelector(selector, whole.length, whole.length - 1));
        _expect(_ask(1, 0, places), abi.encodeWithSelector(selector, whole.length, whole.length + 1));
    }

    function test_judge_elementBeyondTheNode_isRefused() public {
        Ask memory ask = _fault();
        ask.element = 3;
        _expect(ask, abi.encodeWithSelector(IReferee.ElementUnknown.selector, 3, 3));
        ask.element = type(uint256).max;
        _expect(ask, abi.encodeWithSelector(IReferee.ElementUnknown.selector, type(uint256).max, 3));
    }

    /// @dev The leaves of another element lead elsewhere from the places where this one's must lie.
    function test_judge_anotherElement_isRefused() public {
        Ask memory ask = _fault();
        ask.element = 2;
        _expect(ask, _mismatch(W, 1, 1));
        ask.operands[1] = open(W, 290, 128);
        _expectOtherTrace(ask);
    }

    function _mismatch(uint256 buffer, uint256 first, uint256 count) private view returns (bytes memory) {
        return abi.encodeWithSelector(IReferee.LeavesMismatch.selector, rootOf(buffer), first, count);
    }

    function _wrongBytes(uint256 expected, uint256 actual) private pure returns (bytes memory) {
        return abi.encodeWithSelector(IReferee.WrongOpeningBytes.selector, expected, actual);
    }

    /// @dev Only the referee knows which root it found: that it names the trace is enough.
    function _expectOtherTrace(Ask memory ask) private {
        bytes memory openings = _pack(ask);
        try referee.judge(ask.context, ask.node, ask.element, openings) {
            revert("judged");
        } catch (bytes memory reason) {
            assertEq(reason.length, 68, "two words");
            assertEq(bytes4(reason), IReferee.TraceMismatch.selector, "another trace");
            assertEq(bytes32(cut(reason, 4, 32)), ask.context.traceRoot, "the trace's root");
        }
    }

    /// @dev The node tells how many bytes each opening has: one more or less anywhere moves all that follows, and the end with it.
    function test_judge_openingsOfAnotherLength_isRefused() public {
        Ask memory ask = _fault();
        uint256 whole = _pack(ask).length;
        ask.tracePath = _longer(ask.tracePath);
        _expect(ask, _wrongBytes(whole, whole + 32));
        ask = _fault();
        ask.tracePath = new bytes32[](ask.tracePath.length - 1);
        _expect(ask, _wrongBytes(whole, whole - 32));
        bytes memory openings = bytes.concat(_pack(_fault()), hex"00");
        vm.expectRevert(_wrongBytes(whole, whole + 1));
        referee.judge(ask.context, ask.node, ask.element, openings);
        openings = cut(openings, 0, whole - 1);
        vm.expectRevert(_wrongBytes(whole, whole - 1));
        referee.judge(ask.context, ask.node, ask.element, openings);
        vm.expectRevert(_wrongBytes(512 + 32, 0)); // two leaves: one sibling
        referee.judge(ask.context, ask.node, ask.element, "");
    }

    function test_judge_operandMissing_isRefused() public {
        Ask memory ask = _fault();
        Opening[] memory given = ask.operands;
        ask.operands = new Opening[](1);
        ask.operands[0] = given[0];
        uint256 read = 512 + 32 + 512 + 64; // the output, in two leaves; a, in four
        uint256 actual = read + 32 * ask.tracePath.length;
        _expect(ask, _wrongBytes(read + 2048 + 32, actual)); // w, in three: two leaves of 1,024 bytes, one sibling
    }

    function test_judge_changedLeaf_isRefused() public {
        Ask memory ask = _fault();
        ask.operands[1].leaves[1500] ^= 0x01;
        _expect(ask, _mismatch(W, 0, 2));
        ask = _fault();
        ask.output.leaves[0] ^= 0x01;
        _expectOtherTrace(ask);
        ask = _fault();
        ask.operands[0].leaves[511] ^= 0x01;
        _expectOtherTrace(ask);
    }

    function test_judge_changedSibling_isRefused() public {
        Ask memory ask = _fault();
        ask.operands[1].path[0] ^= bytes32(uint256(1));
        _expect(ask, _mismatch(W, 0, 2));
        for (uint256 i = 0; i < ask.tracePath.length; ++i) {
            ask = _fault();
            ask.tracePath[i] ^= bytes32(uint256(1));
            _expectOtherTrace(ask);
        }
        ask = _fault();
        ask.operands[0].path[1] ^= bytes32(uint256(1));
        _expectOtherTrace(ask);
    }

    /// @dev As long as the right ones.
    function test_judge_anotherBuffer_isRefused() public {
        Ask memory ask = _fault();
        setValue(C, 0, FIVE);
        ask = _fault();
        ask.operands[0].leaves = open(C, 0, 64).leaves;
        _expectOtherTrace(ask);
        ask = _fault();
        (ask.output.leaves, ask.operands[0].leaves) = (ask.operands[0].leaves, ask.output.leaves);
        _expectOtherTrace(ask);
    }

    function test_judge_anotherStep_isRefused() public {
        Ask memory ask = _fault();
        ask.context.start.weightsRoot = "another state";
        bytes32 root = ask.context.start.weightsRoot;
        _expect(ask, abi.encodeWithSelector(IReferee.LeavesMismatch.selector, root, 0, 2));
        ask = _fault();
        ask.context.traceRoot = "another trace";
        _expectOtherTrace(ask);
        ask = _fault();
        ask.context.facts.programBuffers = 8; // as deep a tree, no such leaf
        root = ask.context.traceRoot;
        _expect(ask, abi.encodeWithSelector(IReferee.BufferMismatch.selector, root, OUT));
        ask.context.facts.programBuffers = uint32(OUT); // one too few
        _expect(ask, abi.encodeWithSelector(IReferee.BufferMismatch.selector, root, OUT));
    }

    /// @dev No node of a valid program: its sum has a term too many, its run leads out of the buffer.
    function test_judge_nodeThatAsksTooMuch_isRefused() public {
        ToyAccess[] memory accesses = new ToyAccess[](2);
        (accesses[0], accesses[1]) = (access(OUT, 0, 1), access(A, 0, 0, 1));
        uint32 node = addNode(Judge.SUM, list(1, 4097), 1, 0, accesses);
        Place[] memory places = _places(Place(OUT, 0, 1), Place(A, 0, 1));
        _expect(_ask(node, 0, places), abi.encodeWithSelector(IReferee.TooManyTerms.selector, 4096, 4097));
        node = addNode(Judge.MAXIMUM_OF, list(1, 65537), 1, 0, accesses);
        _expect(_ask(node, 0, places), abi.encodeWithSelector(IReferee.TooManyTerms.selector, 65536, 65537));
        node = addNode(Judge.SUM, list(1, 513), 1, 0, accesses);
        _expect(_ask(node, 0, places), abi.encodeWithSelector(IReferee.IndexOutside.selector, 0, 512));
        accesses[1] = access(A, -1, 0, 1);
        node = addNode(Judge.SUM, list(1, 128), 1, 0, accesses);
        bytes4 selector = IReferee.IndexOutside.selector;
        _expect(_ask(node, 0, places), abi.encodeWithSelector(selector, type(uint256).max, 512));
    }

    function _longer(bytes32[] memory path) private pure returns (bytes32[] memory made) {
        made = new bytes32[](path.length + 1);
        for (uint256 i = 0; i < path.length; ++i) {
            made[i] = path[i];
        }
    }
}
