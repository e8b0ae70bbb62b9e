// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Referee} from "../../contracts/Referee.sol";
import {StateHeader} from "../../contracts/Types.sol";
import {IReferee} from "../../contracts/interfaces/IReferee.sol";
import {Judge} from "../../contracts/libraries/Judge.sol";
import {PositionalMerkle} from "../../contracts/libraries/PositionalMerkle.sol";
import {Test} from "./Test.sol";
import {Trees} from "./Trees.sol";

/// @title What a proof costs, in trees as deep as those of a real model: 512 leaves a buffer, 1024 buffers, 4096 nodes.
contract RefereeGasTest is Test {
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

    /// @dev Buffers FIRST_BUFFER, the output, and the operands behind it.
    function _ask(uint8 operation, uint256 terms, uint256 count) private pure returns (Ask memory ask) {
        uint256 leafBytes = 4 * terms > 4096 ? 4096 : 4 * terms;
        bytes32[] memory roots = _words("roots", BUFFERS);
        uint256[] memory opened = new uint256[](count + 1);
        for (uint256 i = 0; i <= count; ++i) {
            opened[i] = FIRST_BUFFER + i;
            bytes memory opening;
            (opening, roots[FIRST_BUFFER + i]) =
                _open(vm.toString(i), leafBytes, i == 0 ? 1 : 4 * terms / leafBytes);
            ask.openings = bytes.concat(ask.openings, opening);
        }
        ask.openings = abi.encodePacked(ask.openings, Trees.setPath(roots, opened));
        ask.context.traceRoot = Trees.root(roots);
        ask.context.start = StateHeader(keccak256("w"), keccak256("m"), keccak256("v"), 1000, 1000);
        ask.context.facts.programBuffers = uint32(BUFFERS);
        _addNode(ask, _encodeNode(operation, terms, leafBytes, count));
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

    /// @dev Sixteen elements over rows of `terms`.
    function _encodeNode(uint8 operation, uint256 terms, uint256 leafBytes, uint256 count)
        private
        pure
        returns (bytes memory data)
    {
        uint8 leafLog = leafBytes == 4096 ? 12 : leafBytes == 2048 ? 11 : 9;
        uint256 size = LEAVES * leafBytes / 4;
        uint256 offset = FIRST_LEAF * leafBytes / 4;
        bytes memory start = abi.encodePacked(uint64(size), uint64(offset));
        data = abi.encodePacked(
            operation, uint8(2), uint8(1), uint8(count), uint64(0), uint64(16), uint64(terms)
        );
        data = abi.encodePacked(data, uint8(8), leafLog, uint64(FIRST_BUFFER), start, uint64(1));
        for (uint256 i = 0; i < count; ++i) {
            data = abi.encodePacked(data, uint8(8), leafLog, uint64(FIRST_BUFFER + 1 + i), start);
            data = abi.encodePacked(data, uint64(terms), uint64(1));
        }
    }

    function _addNode(Ask memory ask, bytes memory data) private pure {
        bytes32[] memory leaves = _words("nodes", NODES + 2);
        leaves[NODE_NUMBER + 2] = PositionalMerkle.leafHash(data);
        ask.node = IReferee.NodeProof(uint32(NODE_NUMBER), data, Trees.path(leaves, NODE_NUMBER + 2));
        ask.context.facts.programRoot = Trees.root(leaves);
        ask.context.facts.programNodes = uint32(NODES);
    }

    /// @return spent by the call alone, and `dataGas`, `floorGas` of a transaction of its own
    function _measure(uint8 operation, uint256 terms, uint256 count)
        private
        returns (uint256 spent, uint256 dataGas, uint256 floorGas)
    {
        Ask memory ask = _ask(operation, terms, count);
        bytes memory data = abi.encodeCall(IReferee.judge, (ask.context, ask.node, 0, ask.openings));
        Referee referee = new Referee();
        spent = gasleft();
        (bool ok, bytes memory result) = address(referee).staticcall(data);
        spent -= gasleft();
        assertTrue(ok && abi.decode(result, (bool)), "a fault, as the output is any number");
        uint256 tokens = 0;
        for (uint256 i = 0; i < data.length; ++i) {
            tokens += data[i] == 0 ? 1 : 4;
        }
        (dataGas, floorGas) = (TRANSACTION_GAS + 4 * tokens, TRANSACTION_GAS + FLOOR_GAS_OF_TOKEN * tokens);
        emit log_named_uint(string.concat(vm.toString(terms), " terms: gas of the call"), spent);
        emit log_named_uint("  with its data, a transaction of its own", spent + dataGas);
        emit log_named_uint("  where data has a floor (EIP-7623)", floorGas);
    }

    function _requireGas(uint256 terms, uint256 most) private {
        (uint256 spent, uint256 dataGas,) = _measure(Judge.PRODUCT_SUM, terms, 2);
        uint256 used = spent + dataGas;
        assertTrue(used < most, string.concat("gas ", vm.toString(used)));
    }

    function test_judge_gasOf128Terms_staysSmall() public {
        _requireGas(128, 138_000);
    }

    function test_judge_gasOf512Terms_staysSmall() public {
        _requireGas(512, 258_000);
    }

    function test_judge_gasOf4096Terms_staysInsideATransaction() public {
        _requireGas(4096, 1_200_000);
    }

    /// @dev The longest run that a node may ask for.
    function test_judge_gasOfTheDearestCall_staysInsideATransaction() public {
        (uint256 spent, uint256 dataGas, uint256 floorGas) = _measure(Judge.MAXIMUM_OF, 1 << 16, 1);
        assertTrue(spent + dataGas < 16_000_000 && floorGas < 16_000_000, vm.toString(spent + dataGas));
    }
}
