// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IReferee} from "../../contracts/interfaces/IReferee.sol";
import {Judge} from "../../contracts/libraries/Judge.sol";
import {RefereeWorld} from "./RefereeWorld.sol";

/// @title The referee convicts a planted element and no honest one.
contract RefereeTest is RefereeWorld {
    uint32 private constant ZERO = 0;
    uint32 private constant FOUR = 0x40800000;
    uint32 private constant SIX = 0x40c00000;
    uint32 private constant INFINITE = 0x7f800000;

    // Elementwise
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

    // Reductions
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

    // Indices
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

    // Refusals
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

    function test_judge_operandMissing_isRefused() public {
        Ask memory ask = _fault();
        Opening[] memory given = ask.operands;
        ask.operands = new Opening[](1);
        ask.operands[0] = given[0];
        uint256 read = 512 + 32 + 512 + 64; // the output, in two leaves; a, in four
        uint256 actual = read + 32 * ask.tracePath.length;
        _expect(ask, _wrongBytes(read + 2048 + 32, actual)); // w, in three: two leaves of 1,024 bytes, one sibling
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
}
