// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IReferee} from "../../../contracts/interfaces/IReferee.sol";
import {Judge} from "../../../contracts/libraries/Judge.sol";
import {RefereeWorld} from "../RefereeWorld.sol";

/// @title Nodes, leaves and roots that are not those of the step.
contract OpeningsTest is RefereeWorld {
    uint256 private constant M = 1;
    uint256 private constant V = 2;
    uint256 private constant TABLE = 6;

    // Elementwise
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

    // Refusals
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

    function _longer(bytes32[] memory path) private pure returns (bytes32[] memory made) {
        made = new bytes32[](path.length + 1);
        for (uint256 i = 0; i < path.length; ++i) {
            made[i] = path[i];
        }
    }
}
