// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BlockHeader} from "../../contracts/libraries/BlockHeader.sol";
import {Quicknet} from "../../contracts/libraries/Quicknet.sol";
import {DrandRandomness} from "../../contracts/randomness/DrandRandomness.sol";
import {BLS} from "solady/utils/ext/ithaca/BLS.sol";
import {VectorFile} from "./VectorFile.sol";

/// @title Library calls from outside, so that their reverts can be expected.
contract RandomnessHarness {
    function decode(bytes calldata header) external pure returns (bytes32, uint256) {
        return BlockHeader.decode(header);
    }

    function verify(uint64 round, bytes calldata point) external view returns (bool) {
        return Quicknet.verify(round, abi.decode(point, (BLS.G1Point)));
    }

    function randomness(bytes calldata point) external pure returns (bytes32) {
        return Quicknet.randomness(abi.decode(point, (BLS.G1Point)));
    }
}

/// @title Stands at the address of EIP-2935's contract and knows one block.
contract HistoryStub {
    fallback(bytes calldata input) external returns (bytes memory) {
        require(uint256(bytes32(input)) == 1, "another block was asked for");
        return abi.encode(bytes32(0x477832cb29f98b17ae1cecd51db1af4f3749ead1111f816d53eb6d9bcadbed14));
    }
}

/// @title A header of the vectors, proven on this chain, and signatures of drand.
abstract contract RandomnessWorld is VectorFile {
    /// @dev Rows of the tables.
    uint256 internal constant CANCUN = 0;
    uint256 internal constant SIGNED = 0;
    DrandRandomness internal mixed = new DrandRandomness();
    RandomnessHarness internal harness = new RandomnessHarness();
    bytes internal header;
    bytes32 internal prevrandao;

    function setUp() public {
        open("randomness");
        header = vm.parseJsonBytesArray(json, ".headers.header")[CANCUN];
        prevrandao = words(".headers.prevrandao")[CANCUN];
        vm.roll(2);
        vm.setBlockhash(1, words(".headers.hash")[CANCUN]);
    }

    // drand
    function _point(uint256 row) internal view returns (bytes memory) {
        return vm.parseJsonBytesArray(json, ".beacons.point")[row];
    }
}
