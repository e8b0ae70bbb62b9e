// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Referee} from "../../contracts/Referee.sol";
import {IReferee} from "../../contracts/interfaces/IReferee.sol";
import {Judge} from "../../contracts/libraries/Judge.sol";
import {ToyStep} from "./ToyStep.sol";

/// @title A step of toy size, and what the referee is asked of its elements.
abstract contract RefereeWorld is ToyStep {
    uint32 internal constant HALF = 0x3f000000;
    uint32 internal constant ONE = 0x3f800000;
    uint32 internal constant TWO = 0x40000000;
    uint32 internal constant THREE = 0x40400000;
    uint32 internal constant FIVE = 0x40a00000;
    // Buffers. A chunk is 128 terms, so leaves of the trace have 128 elements.
    uint256 internal constant W = 0;
    uint256 internal constant TOKEN = 3;
    uint256 internal constant LABEL = 4;
    uint256 internal constant A = 7;
    uint256 internal constant B = 8;
    uint256 internal constant C = 9;
    uint256 internal constant OUT = 10;
    Referee internal referee;

    function setUp() public virtual {
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

    function _all(uint32 bits, uint256 count) internal pure returns (uint32[] memory values) {
        values = new uint32[](count);
        for (uint256 i = 0; i < count; ++i) {
            values[i] = bits;
        }
    }

    // Asking
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

    function _ask(uint32 node, uint256 element, Place[] memory places) internal view returns (Ask memory ask) {
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

    function _pack(Ask memory ask) internal pure returns (bytes memory openings) {
        openings = abi.encodePacked(ask.output.leaves, ask.output.path);
        for (uint256 i = 0; i < ask.operands.length; ++i) {
            openings = abi.encodePacked(openings, ask.operands[i].leaves, ask.operands[i].path);
        }
        return abi.encodePacked(openings, ask.tracePath);
    }

    function _judge(Ask memory ask) internal view returns (bool) {
        return referee.judge(ask.context, ask.node, ask.element, _pack(ask));
    }

    /// @dev The honest value stands, the planted one is convicted.
    function _check(uint32 node, uint256 element, Place[] memory places, uint32 honest, uint32 planted)
        internal
    {
        setValue(places[0].buffer, places[0].first, honest);
        assertTrue(!_judge(_ask(node, element, places)), "honest");
        setValue(places[0].buffer, places[0].first, planted);
        assertTrue(_judge(_ask(node, element, places)), "planted");
    }

    function _expect(Ask memory ask, bytes memory reason) internal {
        bytes memory openings = _pack(ask);
        vm.expectRevert(reason);
        referee.judge(ask.context, ask.node, ask.element, openings);
    }

    function _places(Place memory a, Place memory b) internal pure returns (Place[] memory made) {
        made = new Place[](2);
        (made[0], made[1]) = (a, b);
    }

    function _places(Place memory a, Place memory b, Place memory c)
        internal
        pure
        returns (Place[] memory made)
    {
        made = new Place[](3);
        (made[0], made[1], made[2]) = (a, b, c);
    }

    // Reductions
    function _addSum(uint8 operation, ToyAccess memory a) internal returns (uint32) {
        ToyAccess[] memory accesses = new ToyAccess[](2);
        (accesses[0], accesses[1]) = (access(OUT, 5, 1), a);
        return addNode(operation, list(3, 128), 1, 0, accesses);
    }

    function _addSum(uint8 operation, ToyAccess memory a, ToyAccess memory b) internal returns (uint32) {
        ToyAccess[] memory accesses = new ToyAccess[](3);
        (accesses[0], accesses[1], accesses[2]) = (access(OUT, 5, 1), a, b);
        return addNode(operation, list(3, 128), 1, 0, accesses);
    }

    // Refusals
    /// @dev A sum with the planted value in place: a fault as it stands.
    function _fault() internal returns (Ask memory ask) {
        uint32 node = _addSum(Judge.PRODUCT_SUM, access(A, 0, 128, 1), access(W, 30, 130, 1));
        addNode(Judge.COPY, list(4), 0, 0, _copyAccesses());
        ask = _ask(node, 1, _places(Place(OUT, 6, 1), Place(A, 128, 128), Place(W, 160, 128)));
        assertTrue(_judge(ask), "a fault as it stands");
    }

    function _copyAccesses() internal pure returns (ToyAccess[] memory accesses) {
        accesses = new ToyAccess[](2);
        (accesses[0], accesses[1]) = (access(OUT, 0, 1), access(C, 0, 1));
    }

    function _wrongBytes(uint256 expected, uint256 actual) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(IReferee.WrongOpeningBytes.selector, expected, actual);
    }

    /// @dev Only the referee knows which root it found: that it names the trace is enough.
    function _expectOtherTrace(Ask memory ask) internal {
        bytes memory openings = _pack(ask);
        try referee.judge(ask.context, ask.node, ask.element, openings) {
            revert("judged");
        } catch (bytes memory reason) {
            assertEq(reason.length, 68, "two words");
            assertEq(bytes4(reason), IReferee.TraceMismatch.selector, "another trace");
            assertEq(bytes32(cut(reason, 4, 32)), ask.context.traceRoot, "the trace's root");
        }
    }
}
