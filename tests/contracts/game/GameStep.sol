// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BoundaryProof, LeafProof, StateHeader, StepFacts} from "../../../contracts/Types.sol";
import {GameTerms} from "../../../contracts/game/GameTypes.sol";
import {IReferee} from "../../../contracts/interfaces/IReferee.sol";
import {IStepProofs} from "../../../contracts/interfaces/IStepProofs.sol";
import {Draw} from "../../../contracts/libraries/Draw.sol";
import {Float32} from "../../../contracts/libraries/Float32.sol";
import {Hashing} from "../../../contracts/libraries/Hashing.sol";
import {PositionalMerkle} from "../../../contracts/libraries/PositionalMerkle.sol";
import {Trees} from "../Trees.sol";
import {GameWorld} from "./GameWorld.sol";

/// @title The world with a program for its training steps that the referee can judge, a dataset, and the trace of one step with all that can be opened.
/// @dev 12 buffers and 3 nodes. Node 0 doubles the first 300 elements of W: its numbers are exact, so any lie is beyond the bound. Inner steps have states
/// of their own, with one W; the ends of a segment are the claim's boundaries.
abstract contract GameStep is GameWorld {
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
    /// @dev Two fifths of the dataset's entries are none of the vocabulary.
    uint32 internal constant VOCABULARY = 40_000;
    uint32 internal constant STEPS = 80;
    uint32 private constant TWO = 0x40000000;

    /// @dev What a cheat adds to one element of one buffer of its trace.
    uint32 internal lieBuffer;
    uint32 internal lieElement;
    uint32 internal lie;

    /// @dev Made once: hashing them costs more than the rest of a test.
    StepFacts private _facts;
    bytes32[3] private _stateRoots;

    /// @dev Whose step is at hand: set before a dispute's trace.
    uint256 internal ofSeat;
    uint256 internal ofSlot;
    uint256 internal ofSegment;
    uint256 internal ofStep;

    function setUp() public virtual override {
        super.setUp();
        _facts.programRoot = Trees.root(Trees.hashAll(programLeaves()));
        _facts.datasetRoot = Trees.root(Trees.hashAll(_cut(dataset(), 1024)));
        _facts.scalarsRoot = Trees.root(Trees.hashAll(scalarLeaves()));
        (_facts.programNodes, _facts.programBuffers) = (3, BUFFERS);
        (_facts.sequencesPerStep, _facts.sequenceTokens, _facts.tokenBytes) = (2, ROW_TOKENS, 2);
        (_facts.tokenCount, _facts.datasetBytes, _facts.scalarCount) =
        (TOKEN_COUNT, 2 * DATASET_TOKENS, STEPS);
        _facts.vocabularySize = VOCABULARY;
        for (uint32 tensor = 0; tensor < 3; ++tensor) {
            _stateRoots[tensor] = Trees.root(Trees.hashAll(stateLeaves(tensor)));
        }
    }

    function soundTerms() internal view virtual override returns (GameTerms memory wanted) {
        wanted = super.soundTerms();
        wanted.stepRoot = Hashing.stepRoot(stepFacts());
    }

    // The program
    function stepFacts() internal view returns (StepFacts memory) {
        return _facts;
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
        // MULTIPLY of W and a constant, which is one element for all.
        leaves[2] = bytes.concat(_nodeHead(7, 1, 0, 2, 300), _access(7, 1), _access(0, 1), _access(6, 0));
        // GATHER of W by the tokens.
        leaves[3] = bytes.concat(_nodeHead(16, 1, 0, 2, 160), _access(7, 1), _access(3, 1), _access(0, 1));
        // SUM into the loss, of the second moment.
        leaves[4] = bytes.concat(_nodeHead(2, 1, 1, 1, 300), _access(11, type(uint64).max), _access(2, 1));
    }

    function _nodeHead(uint8 operation, uint8 loops, uint8 reduced, uint8 operands, uint64 size)
        private
        pure
        returns (bytes memory)
    {
        return abi.encodePacked(operation, loops, reduced, operands, uint64(0), size);
    }

    /// @param stride the greatest number: the access has none
    function _access(uint32 buffer, uint64 stride) private pure returns (bytes memory access) {
        uint8 log = buffer < 3 || buffer == CONSTANT ? 10 : 9;
        uint8 role = buffer <= CONSTANT ? uint8(buffer + 1) : 8;
        access = abi.encodePacked(role, log, uint64(buffer), uint64(sizeOf(buffer)), uint64(0));
        if (stride != type(uint64).max) access = bytes.concat(access, abi.encodePacked(stride));
        if (buffer == CONSTANT) access = bytes.concat(access, PositionalMerkle.leafHash(constantLeaf()));
    }

    function constantLeaf() internal pure returns (bytes memory leaf) {
        leaf = new bytes(1024);
        Float32.store(leaf, 0, TWO);
    }

    function sizeOf(uint32 buffer) internal pure returns (uint32) {
        if (buffer < 3 || (buffer >= NEW_WEIGHTS && buffer < 11)) return 512;
        if (buffer == TOKENS || buffer == LABELS) return POSITIONS;
        if (buffer == SCALARS) return 3;
        return buffer == TENSOR ? 300 : buffer == CONSTANT ? 4 : 1;
    }

    function proveNode(uint32 number) internal pure returns (IReferee.NodeProof memory) {
        bytes[] memory leaves = programLeaves();
        return IReferee.NodeProof(number, leaves[number + 2], Trees.path(Trees.hashAll(leaves), number + 2));
    }

    // The data
    /// @dev What stands in the dataset.
    function tokenAt(uint256 index) internal pure returns (uint32) {
        return uint32((index * 7919 + 13) % 65_521);
    }

    function dataset() internal pure returns (bytes memory data) {
        data = new bytes(2 * DATASET_TOKENS);
        for (uint256 i = 0; i < DATASET_TOKENS; ++i) {
            (data[2 * i], data[2 * i + 1]) = (bytes1(uint8(tokenAt(i))), bytes1(uint8(tokenAt(i) >> 8)));
        }
    }

    function proveTokenLeaf(uint256 index) internal pure returns (LeafProof memory) {
        bytes[] memory leaves = _cut(dataset(), 1024);
        uint256 leaf = 2 * index / 1024;
        return LeafProof(leaves[leaf], Trees.path(Trees.hashAll(leaves), leaf));
    }

    /// @dev First token of a row of the step at hand, in round 0.
    function rowStart(uint256 row) internal view virtual returns (uint256) {
        bytes32 beacon = rounds.beaconOf(task, 0);
        (bytes32[] memory claims,) = rounds.claimsOf(task, 0);
        uint256 shard = Draw.shard(beacon, ofSlot, claims.length);
        uint256 innerStep = ofSegment * terms.segmentSteps + ofStep;
        return Draw.sampleStart(beacon, shard, innerStep, row, TOKEN_COUNT, ROW_TOKENS);
    }

    function scalarAt(uint256 index, uint256 which) internal pure returns (uint32) {
        return uint32(0x3a000000 + 0x10000 * which + index);
    }

    function scalarLeaves() internal pure returns (bytes[] memory leaves) {
        leaves = new bytes[](STEPS);
        for (uint256 i = 0; i < STEPS; ++i) {
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

    // States of the steps
    /// @dev Leaves of W, m or v of every inner step: 512 elements.
    function stateLeaves(uint32 tensor) internal pure returns (bytes[] memory) {
        bytes memory data = new bytes(2048);
        for (uint32 i = 0; i < 512; ++i) {
            Float32.store(data, i, 0x3f800000 + (tensor << 16) + 4 * i);
        }
        return _cut(data, 1024);
    }

    /// @dev The state after `step` steps of the segment at hand.
    function stepState(uint256 step) internal view virtual returns (StateHeader memory header) {
        if (step == 0) return stateAt(0, ofSeat, ofSegment);
        if (step == terms.segmentSteps) return stateAt(0, ofSeat, ofSegment + 1);
        (header.weightsRoot, header.firstMomentRoot) = (_stateRoots[0], _stateRoots[1]);
        header.secondMomentRoot = _stateRoots[2];
        header.localStep = stateAt(0, ofSeat, ofSegment).localStep + uint32(step);
        header.globalStep = stateAt(0, ofSeat, ofSegment).globalStep + uint32(step);
    }

    function stepRoots() internal view returns (bytes32[] memory roots) {
        roots = new bytes32[](terms.segmentSteps + 1);
        for (uint256 i = 0; i < roots.length; ++i) {
            roots[i] = Hashing.stateRoot(stepState(i));
        }
    }

    function boundaryProof(uint256 boundary) internal view returns (BoundaryProof memory) {
        return BoundaryProof(
            stateAt(0, ofSeat, boundary),
            boundarySalt(0, ofSeat, boundary),
            Trees.path(claimLeaves(0, ofSeat), boundary)
        );
    }

    // The trace
    /// @dev Bits of an element of a buffer of the trace, the cheat's lie included.
    function elementOf(uint32 buffer, uint32 i) internal view returns (uint32 bits) {
        bits = 0x3b000000 + 1000 * buffer + i;
        if (buffer == TENSOR) {
            bits = 0x40000000 + 4 * i;
        } else if (buffer == TOKENS || buffer == LABELS) {
            bits = tokenAt(rowStart(i / ROW_TOKENS) + i % ROW_TOKENS + (buffer == LABELS ? 1 : 0));
            if (bits >= VOCABULARY) bits = 0;
        } else if (buffer == SCALARS) {
            StateHeader memory start = stepState(ofStep);
            bits = scalarAt(i == 0 ? start.globalStep : start.localStep, i);
        }
        if (buffer == lieBuffer && i == lieElement) bits += lie;
    }

    function bufferLeaves(uint32 buffer) internal view returns (bytes[] memory) {
        bytes memory data = new bytes(4 * sizeOf(buffer));
        for (uint32 i = 0; i < sizeOf(buffer); ++i) {
            Float32.store(data, i, elementOf(buffer, i));
        }
        return _cut(data, 512);
    }

    function traceRoots() internal view returns (bytes32[] memory roots) {
        roots = new bytes32[](BUFFERS);
        (StateHeader memory start, StateHeader memory end) = (stepState(ofStep), stepState(ofStep + 1));
        (roots[0], roots[1], roots[2]) = (start.weightsRoot, start.firstMomentRoot, start.secondMomentRoot);
        (roots[8], roots[9], roots[10]) = (end.weightsRoot, end.firstMomentRoot, end.secondMomentRoot);
        roots[CONSTANT] = PositionalMerkle.leafHash(constantLeaf());
        for (uint32 buffer = TOKENS; buffer < BUFFERS; ++buffer) {
            if (roots[buffer] == 0) roots[buffer] = Trees.root(Trees.hashAll(bufferLeaves(buffer)));
        }
    }

    function proveTrace() internal view returns (IStepProofs.TraceProof memory proof) {
        bytes[] memory leaves = programLeaves();
        bytes32[] memory roots = traceRoots();
        (proof.head, proof.headPath) = (leaves[0], Trees.path(Trees.hashAll(leaves), 0));
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
        bytes[] memory leaves = buffer < 3 ? stateLeaves(buffer) : bufferLeaves(buffer);
        (opening.leaves, opening.path) = (leaves[leaf], Trees.path(Trees.hashAll(leaves), leaf));
        if (buffer < 3) return opening;
        bytes32[] memory roots = traceRoots();
        (opening.root, opening.rootPath) = (roots[buffer], Trees.path(roots, buffer));
    }

    /// @dev What the referee reads for an element of node 0.
    function openProduct(uint32 element) internal view returns (bytes memory) {
        (uint32 product, uint32 factor) = (element / 128, element / 256);
        (bytes[] memory products, bytes[] memory factors) = (bufferLeaves(TENSOR), stateLeaves(0));
        return bytes.concat(
            products[product],
            abi.encodePacked(Trees.path(Trees.hashAll(products), product)),
            factors[factor],
            abi.encodePacked(Trees.path(Trees.hashAll(factors), factor)),
            constantLeaf(),
            abi.encodePacked(Trees.path(traceRoots(), TENSOR))
        );
    }

    /// @dev Whole leaves, the last one padded.
    function _cut(bytes memory data, uint256 leafBytes) private pure returns (bytes[] memory leaves) {
        leaves = new bytes[]((data.length + leafBytes - 1) / leafBytes);
        for (uint256 i = 0; i < leaves.length; ++i) {
            bytes memory leaf = new bytes(leafBytes);
            uint256 from = i * leafBytes;
            uint256 length = data.length - from < leafBytes ? data.length - from : leafBytes;
            assembly ("memory-safe") {
                mcopy(add(leaf, 32), add(add(data, 32), from), length)
            }
            leaves[i] = leaf;
        }
    }
}
