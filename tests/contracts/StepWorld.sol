// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {LeafProof, StateHeader, StepFacts} from "../../contracts/Types.sol";
import {IDisputeGame} from "../../contracts/interfaces/IDisputeGame.sol";
import {IStepProofs} from "../../contracts/interfaces/IStepProofs.sol";
import {IReferee} from "../../contracts/interfaces/IReferee.sol";
import {Draw} from "../../contracts/libraries/Draw.sol";
import {Float32} from "../../contracts/libraries/Float32.sol";
import {PositionalMerkle} from "../../contracts/libraries/PositionalMerkle.sol";
import {Trees} from "./Trees.sol";
import {World} from "./World.sol";

/// @title The world with a program for its training steps, a dataset, and the trace of one step with all that can be opened of it.
/// @dev 12 buffers and 3 nodes that compute nothing: only roles, sizes and places of buffers matter to a dispute. Two rows of 80 tokens, two bytes each.
abstract contract StepWorld is World {
    uint32 internal constant TOKENS = 3;
    uint32 internal constant LABELS = 4;
    uint32 internal constant SCALARS = 5;
    uint32 internal constant CONSTANT = 6;
    uint32 internal constant TENSOR = 7;
    uint32 internal constant NEW_WEIGHTS = 8;
    uint32 internal constant BUFFERS = 12;
    uint32 internal constant ROW_TOKENS = 80;
    uint32 internal constant POSITIONS = 160;
    uint32 internal constant TOKEN_COUNT = 2000;
    uint32 internal constant DATASET_TOKENS = 2500;
    /// @dev The step that is named, unless a test says otherwise: the second of the segment, from step 1 of the round to step 2.
    uint32 internal constant STEP = 1;

    /// @dev What a cheat adds to one element of one buffer of its trace.
    uint32 internal _lieBuffer;
    uint32 internal _lieElement;
    uint32 internal _lie;

    // The program -------------------------------------------------------------------------------------------------
    function stepFacts() internal view override returns (StepFacts memory facts) {
        facts.programRoot = Trees.root(Trees.hashAll(programLeaves()));
        facts.datasetRoot = Trees.root(Trees.hashAll(_cut(dataset(), 1024)));
        facts.scalarsRoot = Trees.root(Trees.hashAll(scalarLeaves()));
        (facts.programNodes, facts.programBuffers) = (3, BUFFERS);
        (facts.sequencesPerStep, facts.sequenceTokens, facts.tokenBytes) = (2, ROW_TOKENS, 2);
        (facts.tokenCount, facts.datasetBytes, facts.scalarCount) = (TOKEN_COUNT, 2 * DATASET_TOKENS, 8);
    }

    function programLeaves() internal pure returns (bytes[] memory leaves) {
        leaves = new bytes[](5);
        leaves[0] = bytes.concat(
            "touchstone.program\x02",
            abi.encodePacked(
                uint64(128), uint64(11), uint64(8), uint64(9), uint64(10), uint64(3), uint64(BUFFERS)
            )
        );
        leaves[1] = "buffers";
        // MULTIPLY of W and a constant.
        leaves[2] = bytes.concat(_nodeHead(7, 1, 0, 2, 300), _access(7, 1), _access(0, 1), _access(6, 1));
        // GATHER of W by the tokens.
        leaves[3] = bytes.concat(_nodeHead(16, 1, 0, 2, 160), _access(7, 1), _access(3, 1), _access(0, 1));
        // SUM into the loss: no stride for a reduced loop, and a constant before the last operand.
        leaves[4] = bytes.concat(_nodeHead(2, 1, 1, 2, 300), _access(11, 0), _access(6, 1), _access(2, 1));
    }

    function _nodeHead(uint8 operation, uint8 loops, uint8 reduced, uint8 operands, uint64 size)
        private
        pure
        returns (bytes memory)
    {
        return abi.encodePacked(operation, loops, reduced, operands, uint64(0), size);
    }

    function _access(uint32 buffer, uint256 strides) private pure returns (bytes memory access) {
        (uint8 role, uint8 log) = (_roleOf(buffer), buffer < 3 || buffer == CONSTANT ? 10 : 9);
        access = abi.encodePacked(role, log, uint64(buffer), uint64(sizeOf(buffer)), uint64(0));
        if (strides == 1) access = bytes.concat(access, abi.encodePacked(uint64(1)));
        if (buffer == CONSTANT) access = bytes.concat(access, bytes32("constant root"));
    }

    function _roleOf(uint32 buffer) private pure returns (uint8) {
        return buffer <= CONSTANT ? uint8(buffer + 1) : 8;
    }

    function sizeOf(uint32 buffer) internal pure returns (uint32) {
        if (buffer < 3 || (buffer >= NEW_WEIGHTS && buffer < 11)) return 512;
        if (buffer == TOKENS || buffer == LABELS) return POSITIONS;
        if (buffer == SCALARS) return 3;
        return buffer == TENSOR ? 300 : buffer == CONSTANT ? 4 : 1;
    }

    function proveNode(uint32 number) internal pure returns (IReferee.NodeProof memory) {
        bytes[] memory leaves = programLeaves();
        return
            IReferee.NodeProof(number, leaves[number + 2], Trees.path(Trees.hashAll(leaves), number + 2));
    }

    // The data ----------------------------------------------------------------------------------------------------
    function tokenAt(uint256 index) internal pure returns (uint32) {
        return uint32((index * 7919 + 13) % 65_521);
    }

    function dataset() internal pure returns (bytes memory data) {
        data = new bytes(2 * DATASET_TOKENS);
        for (uint256 i = 0; i < DATASET_TOKENS; ++i) {
            (data[2 * i], data[2 * i + 1]) = (bytes1(uint8(tokenAt(i))), bytes1(uint8(tokenAt(i) >> 8)));
        }
    }

    function proveToken(uint256 index) internal pure returns (LeafProof memory) {
        bytes[] memory leaves = _cut(dataset(), 1024);
        uint256 leaf = 2 * index / 1024;
        return LeafProof(leaves[leaf], Trees.path(Trees.hashAll(leaves), leaf));
    }

    /// @dev Whose step is in dispute, and which one of its round.
    function namedStep() internal view virtual returns (uint32 slot, uint32 step) {
        return (0, STEP);
    }

    /// @dev First token of a row of the named step.
    function rowStart(uint256 row) internal view virtual returns (uint256) {
        (uint32 slot, uint32 step) = namedStep();
        (,, bytes32 beacon,,,) = registry.roundOf(task, round);
        uint256 shard = registry.shardOf(task, round, slot);
        return Draw.sampleStart(beacon, shard, step, row, TOKEN_COUNT, ROW_TOKENS);
    }

    function scalarAt(uint256 index, uint256 which) internal pure returns (uint32) {
        return uint32(0x3a000000 + 0x10000 * which + index);
    }

    function scalarLeaves() internal pure returns (bytes[] memory leaves) {
        leaves = new bytes[](8);
        for (uint256 i = 0; i < 8; ++i) {
            leaves[i] = new bytes(12);
            for (uint256 which = 0; which < 3; ++which) {
                Float32.store(leaves[i], which, scalarAt(i, which));
            }
        }
    }

    function proveScalarLeaf(uint256 index) internal pure returns (LeafProof memory) {
        bytes[] memory leaves = scalarLeaves();
        return LeafProof(leaves[index], Trees.path(Trees.hashAll(leaves), index));
    }

    // The trace ---------------------------------------------------------------------------------------------------
    /// @dev Bits of an element of a buffer between 3 and 11, the cheat's lie included.
    function elementOf(uint32 buffer, uint32 i) internal view returns (uint32 bits) {
        bits = 0x3b000000 + 1000 * buffer + i;
        if (buffer == TOKENS || buffer == LABELS) {
            bits = tokenAt(rowStart(i / ROW_TOKENS) + i % ROW_TOKENS + (buffer == LABELS ? 1 : 0));
        } else if (buffer == SCALARS) {
            State memory s = stateBefore();
            bits = scalarAt(i == 0 ? s.globalStep : s.localStep, i);
        }
        if (buffer == _lieBuffer && i == _lieElement) bits += _lie;
    }

    /// @dev The leaves of a buffer of the trace that nobody's state has, 512 bytes each.
    function bufferLeaves(uint32 buffer) internal view returns (bytes[] memory) {
        bytes memory data = new bytes(4 * sizeOf(buffer));
        for (uint32 i = 0; i < sizeOf(buffer); ++i) {
            Float32.store(data, i, elementOf(buffer, i));
        }
        return _cut(data, 512);
    }

    function traceRoots() internal view returns (bytes32[] memory roots) {
        roots = new bytes32[](BUFFERS);
        (StateHeader memory start, StateHeader memory end) = headersAround();
        (roots[0], roots[1], roots[2]) = (start.weightsRoot, start.firstMomentRoot, start.secondMomentRoot);
        (roots[8], roots[9], roots[10]) = (end.weightsRoot, end.firstMomentRoot, end.secondMomentRoot);
        roots[CONSTANT] = "constant root";
        for (uint32 buffer = TOKENS; buffer < BUFFERS; ++buffer) {
            if (roots[buffer] == 0) roots[buffer] = Trees.root(Trees.hashAll(bufferLeaves(buffer)));
        }
    }

    /// @dev The state before the named step.
    function stateBefore() internal view virtual returns (State memory) {
        return stateAt(0, STEP);
    }

    /// @dev The states before and after the named step.
    function headersAround() internal view virtual returns (StateHeader memory start, StateHeader memory end) {
        return (headerOf(stateAt(0, STEP)), headerOf(stateAt(0, STEP + 1)));
    }

    function proveTrace() internal view returns (IStepProofs.TraceProof memory proof) {
        bytes[] memory leaves = programLeaves();
        bytes32[] memory roots = traceRoots();
        proof.head = leaves[0];
        proof.headPath = Trees.path(Trees.hashAll(leaves), 0);
        proof.weightsPath = Trees.path(roots, 8);
        proof.firstMomentPath = Trees.path(roots, 9);
        proof.secondMomentPath = Trees.path(roots, 10);
    }

    /// @dev One leaf of a buffer of the trace, or of the state before the step.
    function openBuffer(uint32 buffer, uint32 leaf)
        internal
        view
        returns (IReferee.BufferOpening memory opening)
    {
        if (buffer < 3) {
            State memory s = stateBefore();
            LeafProof memory proof =
                leafProof(buffer == 0 ? s.weight : buffer == 1 ? s.firstMoment : s.secondMoment);
            (opening.leaves, opening.path) = (proof.data, proof.path);
            return opening;
        }
        bytes32[] memory roots = traceRoots();
        bytes[] memory leaves = bufferLeaves(buffer);
        (opening.root, opening.rootPath) = (roots[buffer], Trees.path(roots, buffer));
        (opening.leaves, opening.path) = (leaves[leaf], Trees.path(Trees.hashAll(leaves), leaf));
    }

    /// @dev Whole leaves, the last one padded.
    function _cut(bytes memory data, uint256 leafBytes) private pure returns (bytes[] memory leaves) {
        leaves = new bytes[]((data.length + leafBytes - 1) / leafBytes);
        for (uint256 i = 0; i < leaves.length; ++i) {
            leaves[i] = new bytes(leafBytes);
            for (uint256 j = 0; j < leafBytes && i * leafBytes + j < data.length; ++j) {
                leaves[i][j] = data[i * leafBytes + j];
            }
        }
    }
}
