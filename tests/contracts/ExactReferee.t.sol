// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EXACT_FORMAT, FLOAT32_FORMAT} from "../../contracts/Types.sol";
import {IReferee} from "../../contracts/interfaces/IReferee.sol";
import {Judge} from "../../contracts/libraries/Judge.sol";
import {RefereeWorld} from "./RefereeWorld.sol";

/// @title The referee of an exact program: one value is right, and every other one a fault.
contract ExactRefereeTest is RefereeWorld {
    uint32 private constant FOUR = 0x40800000;
    uint32 private constant MINUS_ZERO = 1 << 31;
    uint32 private constant NAN = 0x7fc00000;
    uint256 private constant BYTES = 11;
    uint256 private constant PAIRS = 12;
    uint256 private constant WORDS = 13;

    function setUp() public override {
        super.setUp();
        addBuffer(INTEGER8, 9, 2000);
        addBuffer(INTEGER16, 9, 2000);
        addBuffer(INTEGER32, 10, 2000);
        for (uint256 buffer = BYTES; buffer <= WORDS; ++buffer) {
            for (uint256 i = 0; i < 40; ++i) {
                setInteger(buffer, 37 * i, -int256(i) - 1); // no two leaves are the same
            }
        }
    }

    function _exact(uint32 node, uint256 element, Place[] memory places)
        private
        view
        returns (Ask memory ask)
    {
        ask = _ask(node, element, places);
        ask.context.facts.numericFormat = EXACT_FORMAT;
    }

    function _require(uint32 node, uint256 element, Place[] memory places, uint32 right) private {
        uint32[7] memory claims = [right, right ^ 1, right ^ MINUS_ZERO, 0, MINUS_ZERO, NAN, NAN | 1];
        for (uint256 i = 0; i < claims.length; ++i) {
            setValue(places[0].buffer, places[0].first, claims[i]);
            assertEq(_judge(_exact(node, element, places)), claims[i] != right, vm.toString(claims[i]));
        }
    }

    // What formats with bounds have, too
    /// @dev Element 3 of four: out[11] from a[103] and b[200].
    function test_judge_elementwise_convictsEveryOtherPattern() public {
        ToyAccess[] memory accesses = new ToyAccess[](3);
        (accesses[0], accesses[1], accesses[2]) = (access(OUT, 8, 1), access(A, 100, 1), access(B, 197, 1));
        Place[] memory places = _places(Place(OUT, 11, 1), Place(A, 103, 1), Place(B, 200, 1));
        uint32 node = addNode(Judge.SUBTRACT, list(4), 0, 0, accesses);
        setValue(A, 103, THREE);
        setValue(B, 200, THREE);
        _require(node, 3, places, 0);
        setValue(B, 200, ONE);
        _require(node, 3, places, TWO);
        setValue(A, 103, 0xff800001);
        _require(node, 3, places, NAN);
    }

    function test_judge_sum_convictsEveryOtherPattern() public {
        setValue(A, 200, 1); // far below the places that are kept
        uint32 node = _addSum(Judge.SUM, access(A, 0, 128, 1));
        _require(node, 1, _places(Place(OUT, 6, 1), Place(A, 128, 128)), 0x42fe0000); // 127
    }

    /// @dev Labels choose two of a[64 ..]; element 4 has none.
    function test_judge_selectedSum_convictsEveryOtherPattern() public {
        setValue(LABEL, 70, 2);
        setValue(LABEL, 90, 2);
        setValue(A, 90, THREE);
        ToyAccess[] memory accesses = new ToyAccess[](3);
        (accesses[0], accesses[1]) = (access(OUT, 5, 1), access(LABEL, 64, 0, 1));
        accesses[2] = access(A, 64, 0, 1);
        uint32 node = addNode(Judge.SELECTED_SUM, list(5, 32), 1, 0, accesses);
        _require(node, 2, _places(Place(OUT, 7, 1), Place(LABEL, 64, 32), Place(A, 64, 32)), FOUR);
        _require(node, 4, _places(Place(OUT, 9, 1), Place(LABEL, 64, 32), Place(A, 64, 32)), 0);
    }

    // Quantized values
    function test_judge_scaleOf_convictsEveryOtherPattern() public {
        ToyAccess[] memory accesses = new ToyAccess[](2);
        (accesses[0], accesses[1]) = (access(OUT, 5, 1), access(A, 0, 128, 1));
        uint32[3] memory right = [uint32(0x3d800000), 0x3a000000, 0x37800000]; // 2^-4, 2^-11, 2^-16
        setValue(A, 200, FIVE);
        for (uint256 i = 0; i < 3; ++i) {
            uint32 node = addNode(Judge.SCALE_OF, list(3, 128), 1, [8, 15, 20][i], accesses);
            _require(node, 1, _places(Place(OUT, 6, 1), Place(A, 128, 128)), right[i]);
        }
    }

    /// @dev -5 / 2 is halfway: -2. In buffers of each kind, at a place in the second leaf or beyond.
    function test_judge_quantize_convictsEveryOtherInteger() public {
        ToyAccess[] memory accesses = new ToyAccess[](3);
        (accesses[1], accesses[2]) = (access(A, 0, 1), access(B, 7, 0));
        setValue(A, 300, FIVE | MINUS_ZERO);
        setValue(B, 7, TWO);
        int256[8] memory claims = [int256(-2), -3, 2, -1, 0, 126, -128, 127];
        for (uint256 i = 0; i < 3; ++i) {
            accesses[0] = access(BYTES + i, 1000, 1);
            uint32 node = addNode(Judge.QUANTIZE, list(400), 0, [8, 15, 20][i], accesses);
            Place[] memory places = _places(Place(BYTES + i, 1300, 1), Place(A, 300, 1), Place(B, 7, 1));
            for (uint256 j = 0; j < claims.length; ++j) {
                setInteger(BYTES + i, 1300, claims[j]);
                assertEq(_judge(_exact(node, 300, places)), claims[j] != -2, vm.toString(uint256(claims[j])));
            }
        }
        setInteger(PAIRS, 1300, -2 + 256); // all bytes count
        Place[] memory pair = _places(Place(PAIRS, 1300, 1), Place(A, 300, 1), Place(B, 7, 1));
        assertTrue(_judge(_exact(1, 300, pair)), "the same lowest byte");
    }

    /// @dev Element (1, 2): the products of x[540 ..] and x[900 ..], 300 terms in several leaves. scales: of row 1, and of column 2.
    function _product(uint256 buffer) private returns (uint32 node, Place[] memory places) {
        ToyAccess[] memory accesses = new ToyAccess[](5);
        for (uint256 i = 0; i < 5; ++i) {
            accesses[i] = ToyAccess(i == 0 ? OUT : i < 3 ? buffer : B, 0, new int64[](i == 0 ? 2 : 3));
        }
        (accesses[0].strides[0], accesses[0].strides[1]) = (3, 1);
        (accesses[1].offset, accesses[1].strides[0], accesses[1].strides[2]) = (240, 300, 1);
        (accesses[2].offset, accesses[2].strides[1], accesses[2].strides[2]) = (300, 300, 1);
        (accesses[3].offset, accesses[3].strides[0]) = (100, 1);
        (accesses[4].offset, accesses[4].strides[1]) = (200, 10);
        uint256[] memory sizes = new uint256[](3);
        (sizes[0], sizes[1], sizes[2]) = (2, 3, 300);
        node = addNode(Judge.QUANTIZED_PRODUCT_SUM, sizes, 1, 0, accesses);
        places = new Place[](5);
        (places[0], places[1]) = (Place(OUT, 5, 1), Place(buffer, 540, 300));
        (places[2], places[3], places[4]) = (Place(buffer, 900, 300), Place(B, 101, 1), Place(B, 220, 1));
    }

    function test_judge_quantizedProducts_convictsEveryOtherPattern() public {
        for (uint256 buffer = BYTES; buffer <= WORDS; ++buffer) {
            (uint32 node, Place[] memory places) = _product(buffer);
            for (uint256 i = 0; i < 300; ++i) {
                setInteger(buffer, 540 + i, i % 2 == 0 ? int256(-7) : int256(5));
                setInteger(buffer, 900 + i, int256(i % 100));
            }
            // 3 * (50 * (-7 * 49 + 5 * 50)) = -13,950
            setValue(B, 101, HALF);
            setValue(B, 220, FOUR);
            _require(node, 5, places, 0xc6d9f800); // times 2: -27,900
            setValue(B, 220, 0xff800000);
            _require(node, 5, places, NAN);
        }
    }

    /// @dev Five buffers of the trace at once, none twice.
    function test_judge_quantizedProductsOfFiveBuffers_areOpened() public {
        (, Place[] memory places) = _product(PAIRS);
        uint256 other = addBuffer(INTEGER16, 9, 600);
        ToyAccess[] memory accesses = new ToyAccess[](5);
        (accesses[0], accesses[1]) = (access(OUT, 0, 1), access(PAIRS, 540, 0, 1));
        (accesses[2], accesses[3]) = (access(other, 0, 0, 1), access(B, 101, 0, 0));
        accesses[4] = access(C, 20, 0, 0);
        uint32 node = addNode(Judge.QUANTIZED_PRODUCT_SUM, list(8, 300), 1, 0, accesses);
        setInteger(PAIRS, 541, -3);
        setInteger(other, 1, 16_319);
        (places[0], places[2]) = (Place(OUT, 5, 1), Place(other, 0, 300));
        places[4] = Place(C, 20, 1);
        _require(node, 5, places, 0xc73f3d00); // -48,957
    }

    // Refusals
    function test_judge_operationOfAnotherFormat_isRefused() public {
        bytes4 selector = Judge.UnknownOperation.selector;
        uint32 node = _addSum(Judge.PRODUCT_SUM, access(A, 0, 128, 1), access(W, 30, 130, 1));
        Place[] memory places = _places(Place(OUT, 6, 1), Place(A, 128, 128), Place(W, 160, 128));
        _expect(_exact(node, 1, places), abi.encodeWithSelector(selector, Judge.PRODUCT_SUM));
        (node, places) = _product(BYTES);
        Ask memory ask = _exact(node, 5, places);
        ask.context.facts.numericFormat = FLOAT32_FORMAT;
        _expect(ask, abi.encodeWithSelector(selector, Judge.QUANTIZED_PRODUCT_SUM));
    }

    function test_judge_formatThatThereIsNot_isRefused() public {
        Ask memory ask = _fault();
        for (uint32 format = EXACT_FORMAT + 1; format < 5; ++format) {
            ask.context.facts.numericFormat = format;
            _expect(ask, abi.encodeWithSelector(IReferee.UnknownFormat.selector, format));
        }
        (uint32 node, Place[] memory places) = _product(BYTES);
        ask = _exact(node, 5, places);
        ask.context.facts.numericFormat = EXACT_FORMAT + 1;
        _expect(ask, abi.encodeWithSelector(IReferee.UnknownFormat.selector, EXACT_FORMAT + 1));
    }

    /// @dev A run of integers that ends beyond its buffer.
    function test_judge_integersBeyondTheirBuffer_areRefused() public {
        ToyAccess[] memory accesses = new ToyAccess[](3);
        (accesses[0], accesses[1], accesses[2]) = (access(BYTES, 1999, 1), access(A, 0, 1), access(B, 0, 0));
        uint32 node = addNode(Judge.QUANTIZE, list(2), 0, 8, accesses);
        setInteger(BYTES, 1999, 64);
        Place[] memory places = _places(Place(BYTES, 1999, 1), Place(A, 0, 1), Place(B, 0, 1));
        assertTrue(_judge(_exact(node, 0, places)), "the last one is inside: 1 is right");
        Ask memory ask = _exact(node, 1, places);
        _expect(ask, abi.encodeWithSelector(IReferee.IndexOutside.selector, 2000, 2000));
    }
}
