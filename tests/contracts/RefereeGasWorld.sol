// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Referee} from "../../contracts/Referee.sol";
import {StateHeader} from "../../contracts/Types.sol";
import {IReferee} from "../../contracts/interfaces/IReferee.sol";
import {PositionalMerkle} from "../../contracts/libraries/PositionalMerkle.sol";
import {LibBit} from "solady/utils/LibBit.sol";
import {Test} from "./Test.sol";
import {Trees} from "./Trees.sol";

/// @title Proofs in trees as deep as those of a real model, and what they cost: 512 leaves a buffer, 1024 buffers, 4096 nodes.
abstract contract RefereeGasWorld is Test {
    uint8 internal constant TENSOR = 8;
    uint256 private constant LEAVES = 512;
    uint256 private constant BUFFERS = 1024;
    uint256 private constant NODES = 4094;
    uint256 private constant FIRST_LEAF = 137;
    uint256 private constant FIRST_BUFFER = 517;
    uint256 private constant NODE_NUMBER = 2989;
    uint256 private constant TRANSACTION_GAS = 21_000;
    /// @dev EIP-7623: what a transaction that is mostly data pays for a byte at least.
    uint256 private constant FLOOR_GAS_OF_TOKEN = 10;

    event log_named_uint(string key, uint256 value);

    struct Ask {
        IReferee.StepContext context;
        IReferee.NodeProof node;
        bytes openings;
    }

    /// @dev Sixteen elements over rows of `terms`. The first buffer is the output's.
    struct Shape {
        uint8 operation;
        uint32 numericFormat;
        uint64 selected;
        uint256 terms;
        GasBuffer[] buffers;
    }

    /// @dev isStill: one element for all terms, as of an output and of a scale.
    struct GasBuffer {
        uint8 role;
        uint256 elementBytes;
        uint256 leafBytes;
        bool isStill;
    }

    /// @dev gas of the call alone; dataGas and floorGas of a transaction of its own.
    struct Cost {
        uint256 gas;
        uint256 dataGas;
        uint256 floorGas;
    }

    /// @dev Buffers FIRST_BUFFER, the output, and the operands behind it.
    function _ask(Shape memory shape) private pure returns (Ask memory ask) {
        bytes32[] memory roots = _words("roots", BUFFERS);
        uint256[] memory opened = new uint256[](shape.buffers.length);
        for (uint256 i = 0; i < opened.length; ++i) {
            opened[i] = FIRST_BUFFER + i;
            GasBuffer memory buffer = shape.buffers[i];
            uint256 bytes_ = buffer.elementBytes * (buffer.isStill ? 1 : shape.terms);
            uint256 count = (bytes_ + buffer.leafBytes - 1) / buffer.leafBytes;
            bytes memory opening;
            (opening, roots[opened[i]]) = _open(vm.toString(i), buffer.leafBytes, count);
            ask.openings = bytes.concat(ask.openings, opening);
        }
        ask.openings = abi.encodePacked(ask.openings, Trees.setPath(roots, opened));
        ask.context.traceRoot = Trees.root(roots);
        ask.context.start = StateHeader(keccak256("w"), keccak256("m"), keccak256("v"), 1000, 1000);
        ask.context.facts.programBuffers = uint32(BUFFERS);
        ask.context.facts.numericFormat = shape.numericFormat;
        _addNode(ask, _encodeNode(shape));
    }

    function _words(string memory label, uint256 count) private pure returns (bytes32[] memory words) {
        words = new bytes32[](count);
        for (uint256 i = 0; i < count; ++i) {
            words[i] = keccak256(abi.encode(label, i));
        }
    }

    /// @dev Leaves of ordinary numbers: no byte is zero.
    function _open(string memory label, uint256 leafBytes, uint256 count)
        private
        pure
        returns (bytes memory opening, bytes32 root)
    {
        opening = new bytes(leafBytes * count);
        uint256 random = uint64(uint256(keccak256(bytes(label))));
        for (uint256 i = 0; i < opening.length; ++i) {
            random = (random * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % (1 << 64);
            opening[i] = bytes1(uint8(i % 4 == 3 ? 0x3e : 1 + (random >> 40) % 127));
        }
        bytes32[] memory hashes = _words(label, LEAVES);
        for (uint256 i = 0; i < count; ++i) {
            bytes memory leaf = new bytes(leafBytes);
            for (uint256 j = 0; j < leafBytes; ++j) {
                leaf[j] = opening[i * leafBytes + j];
            }
            hashes[FIRST_LEAF + i] = PositionalMerkle.leafHash(leaf);
        }
        root = Trees.root(hashes);
        opening = abi.encodePacked(opening, Trees.rangePath(hashes, FIRST_LEAF, count));
    }

    function _encodeNode(Shape memory shape) private pure returns (bytes memory data) {
        uint64 terms = uint64(shape.terms);
        uint8 operands = uint8(shape.buffers.length - 1);
        data = abi.encodePacked(
            shape.operation, uint8(2), uint8(1), operands, shape.selected, uint64(16), terms
        );
        for (uint256 i = 0; i < shape.buffers.length; ++i) {
            GasBuffer memory buffer = shape.buffers[i];
            uint256 elements = buffer.leafBytes / buffer.elementBytes;
            data = abi.encodePacked(data, buffer.role, uint8(LibBit.fls(buffer.leafBytes)));
            data = abi.encodePacked(data, uint64(FIRST_BUFFER + i), uint64(LEAVES * elements));
            data = abi.encodePacked(data, uint64(FIRST_LEAF * elements));
            data = abi.encodePacked(data, buffer.isStill ? 1 : terms);
            if (i != 0) data = abi.encodePacked(data, uint64(buffer.isStill ? 0 : 1));
        }
    }

    function _addNode(Ask memory ask, bytes memory data) private pure {
        bytes32[] memory leaves = _words("nodes", NODES + 2);
        leaves[NODE_NUMBER + 2] = PositionalMerkle.leafHash(data);
        ask.node = IReferee.NodeProof(uint32(NODE_NUMBER), data, Trees.path(leaves, NODE_NUMBER + 2));
        ask.context.facts.programRoot = Trees.root(leaves);
        ask.context.facts.programNodes = uint32(NODES);
    }

    function _measure(Shape memory shape) internal returns (Cost memory cost) {
        Ask memory ask = _ask(shape);
        bytes memory data = abi.encodeCall(IReferee.judge, (ask.context, ask.node, 0, ask.openings));
        Referee referee = new Referee();
        cost.gas = gasleft();
        (bool ok, bytes memory result) = address(referee).staticcall(data);
        cost.gas -= gasleft();
        assertTrue(ok && abi.decode(result, (bool)), "a fault, as the output is any number");
        uint256 tokens = 0;
        for (uint256 i = 0; i < data.length; ++i) {
            tokens += data[i] == 0 ? 1 : 4;
        }
        cost.dataGas = TRANSACTION_GAS + 4 * tokens;
        cost.floorGas = TRANSACTION_GAS + FLOOR_GAS_OF_TOKEN * tokens;
        string memory name =
            string.concat("operation ", vm.toString(shape.operation), ", ", vm.toString(shape.terms));
        emit log_named_uint(string.concat(name, " terms: gas of the call"), cost.gas);
        emit log_named_uint("  with its data, a transaction of its own", cost.gas + cost.dataGas);
        emit log_named_uint("  where data has a floor (EIP-7623)", cost.floorGas);
    }
}
