// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {LeafProof, StateHeader, StepFacts} from "../../../contracts/Types.sol";
import {IStepProofs} from "../../../contracts/interfaces/IStepProofs.sol";
import {IReferee} from "../../../contracts/interfaces/IReferee.sol";
import {Float32} from "../../../contracts/libraries/Float32.sol";
import {Judge} from "../../../contracts/libraries/Judge.sol";
import {PositionalMerkle} from "../../../contracts/libraries/PositionalMerkle.sol";
import {StepNode} from "../../../contracts/libraries/StepNode.sol";
import {StepProofs} from "../../../contracts/libraries/StepProofs.sol";
import {ToyStep} from "../ToyStep.sol";
import {Trees} from "../Trees.sol";

/// @dev Answers about the tensors of a state and about quantized values, which the programs of other tests hardly read; all else by way of `Steps`.
contract StepProofsTest is ToyStep {
    uint256 private constant LEAF_BYTES = 512;
    uint256 private constant LEAVES = 3;

    function requireAnswer(
        StepProofs.Demand memory demand,
        bytes32 traceRoot,
        StateHeader calldata start,
        IReferee.BufferOpening calldata opening
    ) external pure {
        StepProofs.requireAnswer(demand, traceRoot, start, opening);
    }

    function _leaves(uint8 role) private pure returns (bytes[] memory leaves) {
        leaves = new bytes[](LEAVES);
        for (uint256 i = 0; i < LEAVES; ++i) {
            leaves[i] = new bytes(LEAF_BYTES);
            (leaves[i][0], leaves[i][1]) = (bytes1(role), bytes1(uint8(i)));
        }
    }

    function _rootOf(uint8 role) private pure returns (bytes32) {
        return Trees.root(Trees.hashAll(_leaves(role)));
    }

    function test_requireAnswer_tensorsOfTheState_eachUnderItsOwnRoot() public {
        StateHeader memory start = StateHeader(
            _rootOf(StepNode.WEIGHTS), _rootOf(StepNode.FIRST_MOMENT), _rootOf(StepNode.SECOND_MOMENT), 0, 0
        );
        for (uint8 role = StepNode.WEIGHTS; role <= StepNode.SECOND_MOMENT; ++role) {
            StepProofs.Demand memory demand =
                StepProofs.Demand(role, uint16(LEAF_BYTES), uint16(LEAF_BYTES), 0, 12, 2, uint64(LEAVES));
            for (uint8 shown = StepNode.WEIGHTS; shown <= StepNode.SECOND_MOMENT; ++shown) {
                IReferee.BufferOpening memory opening;
                opening.leaves = _leaves(shown)[2];
                opening.path = Trees.path(Trees.hashAll(_leaves(shown)), 2);
                if (shown != role) {
                    vm.expectRevert(
                        abi.encodeWithSelector(IStepProofs.LeafMismatch.selector, _rootOf(role), 2)
                    );
                }
                this.requireAnswer(demand, "trace", start, opening);
            }
        }
    }

    function demandOf(StepFacts calldata facts, IReferee.NodeProof calldata node, uint32 place, uint32 leaf)
        external
        pure
        returns (StepProofs.Demand memory)
    {
        return StepProofs.demandOf(facts, node, place, leaf);
    }

    /// @dev An element of a quantized buffer has one or two bytes. With more leaves than there are no honest claimant could answer: it would be convicted.
    function test_demandOf_quantizedValues_honestLeavesAnswer() public {
        addBuffer(WEIGHTS, 10, 256);
        addBuffer(FIRST_MOMENT, 10, 256);
        addBuffer(SECOND_MOMENT, 10, 256);
        addBuffer(TENSOR, 9, 2000);
        addBuffer(TENSOR, 9, 1);
        ToyAccess[] memory accesses = new ToyAccess[](3);
        (accesses[1], accesses[2]) = (access(3, 0, 1), access(4, 0, 0));
        for (uint256 i = 0; i < 3; ++i) {
            uint256 buffer = addBuffer(uint8(INTEGER8 + i), 9, 2000);
            accesses[0] = access(buffer, 0, 1);
            addNode(Judge.QUANTIZE, list(2000), 0, [8, 15, 20][i], accesses);
        }
        IReferee.StepContext memory context = contextOf();
        for (uint32 node = 0; node < 3; ++node) {
            uint256 buffer = 5 + node;
            uint32 last = [3, 7, 15][node];
            IReferee.NodeProof memory proof = proveNode(node);
            StepProofs.Demand memory demand = this.demandOf(context.facts, proof, 0, last);
            IReferee.BufferOpening memory opening;
            (opening.root, opening.rootPath) = (rootOf(buffer), Trees.path(traceLeaves(), buffer));
            opening.leaves = cut(buffers[buffer].data, 512 * last, 512);
            opening.path = Trees.path(leavesOf(buffer), last);
            this.requireAnswer(demand, context.traceRoot, context.start, opening);
            vm.expectRevert(abi.encodeWithSelector(IStepProofs.LeafUnknown.selector, last + 1, last + 1));
            this.demandOf(context.facts, proof, 0, last + 1);
        }
    }

    /// @dev 300 elements: three leaves, 176 bytes of the last one. A claimant has something in its padding, or in a fourth leaf: all elements are right.
    function test_requireAnswer_paddingThatIsNotEmpty_isRefused() public {
        bytes32[] memory leaves = new bytes32[](4);
        IReferee.BufferOpening memory opening;
        StepProofs.Demand memory demand =
            StepProofs.Demand(StepNode.WEIGHTS, uint16(LEAF_BYTES), 176, 0, 12, 2, uint64(LEAVES));
        for (uint256 i = 0; i < 4; ++i) {
            opening.leaves = new bytes(LEAF_BYTES);
            if (i > 0) opening.leaves[[0, 175, 176, 511][i]] = 0x01;
            for (uint256 leaf = 0; leaf < LEAVES; ++leaf) {
                leaves[leaf] = PositionalMerkle.leafHash(opening.leaves);
            }
            leaves[3] = i == 0 ? bytes32("more") : bytes32(0);
            StateHeader memory start = StateHeader(Trees.root(leaves), 0, 0, 0, 0);
            opening.path = Trees.path(leaves, 2);
            if (i != 1) {
                vm.expectRevert(
                    abi.encodeWithSelector(IStepProofs.LeafMismatch.selector, start.weightsRoot, 2)
                );
            }
            this.requireAnswer(demand, "trace", start, opening);
        }
    }

    // Data
    function datasetToken(StepFacts calldata facts, uint256 index, LeafProof calldata leaf)
        external
        pure
        returns (uint256)
    {
        return StepProofs.datasetToken(facts, index, leaf);
    }

    function test_datasetToken_theVocabularysEnd() public view {
        bytes memory data = new bytes(PositionalMerkle.LEAF_BYTES);
        (data[0], data[1], data[2], data[3], data[4], data[5]) = (0x2b, 0x01, 0x2c, 0x01, 0x2d, 0x01);
        StepFacts memory facts;
        (facts.datasetRoot, facts.datasetBytes) = (PositionalMerkle.leafHash(data), uint64(data.length));
        (facts.tokenBytes, facts.vocabularySize) = (2, 300);
        LeafProof memory leaf = LeafProof(data, new bytes32[](0));
        assertEq(this.datasetToken(facts, 0, leaf), 299, "the last token");
        assertEq(this.datasetToken(facts, 1, leaf), 0, "the first number behind it");
        assertEq(this.datasetToken(facts, 2, leaf), 0, "the next one");
    }

    function scalarOf(
        StepFacts calldata facts,
        StateHeader calldata start,
        uint32 which,
        LeafProof calldata leaf
    ) external pure returns (uint32) {
        return StepProofs.scalarOf(facts, start, which, leaf);
    }

    function test_scalarOf_rateByTheGlobalStep_othersByTheLocalOne() public {
        bytes[] memory leaves = new bytes[](4);
        for (uint256 step = 0; step < leaves.length; ++step) {
            leaves[step] = new bytes(12);
            for (uint256 which = 0; which < 3; ++which) {
                Float32.store(leaves[step], which, uint32(100 * step + which));
            }
        }
        bytes32[] memory hashes = Trees.hashAll(leaves);
        StepFacts memory facts;
        (facts.scalarsRoot, facts.scalarCount) = (Trees.root(hashes), uint32(leaves.length));
        StateHeader memory start = StateHeader(0, 0, 0, 1, 3);
        for (uint32 which = 0; which < 3; ++which) {
            (uint256 right, uint256 wrong) = which == 0 ? (uint256(3), uint256(1)) : (uint256(1), uint256(3));
            LeafProof memory leaf = LeafProof(leaves[right], Trees.path(hashes, right));
            assertEq(this.scalarOf(facts, start, which, leaf), 100 * right + which, "scalar");
            leaf = LeafProof(leaves[wrong], Trees.path(hashes, wrong));
            vm.expectRevert(
                abi.encodeWithSelector(IStepProofs.LeafMismatch.selector, facts.scalarsRoot, right)
            );
            this.scalarOf(facts, start, which, leaf);
        }
    }
}
