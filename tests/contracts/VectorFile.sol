// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Test} from "./Test.sol";

/// @title Reads the tables of tests/vectors (layout: its README).
abstract contract VectorFile is Test {
    string internal json;

    /// @dev Case i of a list column owns values[start[i]] up to values[start[i + 1]].
    struct WordLists {
        bytes32[] values;
        uint256[] start;
    }

    struct NumberLists {
        uint256[] values;
        uint256[] start;
    }

    struct BytesLists {
        bytes[] values;
        uint256[] start;
    }

    function open(string memory name) internal {
        json = vm.readFile(string.concat("tests/vectors/", name, ".json"));
    }

    function names(string memory table) internal view returns (string[] memory read) {
        read = vm.parseJsonStringArray(json, string.concat(table, ".name"));
        assertTrue(read.length > 0, string.concat("no cases in ", table));
    }

    function numbers(string memory key) internal view returns (uint256[] memory) {
        return vm.parseJsonUintArray(json, key);
    }

    function integers(string memory key) internal view returns (int256[] memory) {
        return vm.parseJsonIntArray(json, key);
    }

    function words(string memory key) internal view returns (bytes32[] memory) {
        return vm.parseJsonBytes32Array(json, key);
    }

    function flags(string memory key) internal view returns (bool[] memory) {
        return vm.parseJsonBoolArray(json, key);
    }

    function addresses(string memory key) internal view returns (address[] memory) {
        return vm.parseJsonAddressArray(json, key);
    }

    function blobs(string memory key) internal view returns (bytes[] memory) {
        return vm.parseJsonBytesArray(json, key);
    }

    function wordLists(string memory key) internal view returns (WordLists memory) {
        return WordLists(words(key), numbers(string.concat(key, "Start")));
    }

    function numberLists(string memory key) internal view returns (NumberLists memory) {
        return NumberLists(numbers(key), numbers(string.concat(key, "Start")));
    }

    function blobLists(string memory key) internal view returns (BytesLists memory) {
        return BytesLists(blobs(key), numbers(string.concat(key, "Start")));
    }

    function pick(WordLists memory lists, uint256 i) internal pure returns (bytes32[] memory list) {
        list = new bytes32[](lists.start[i + 1] - lists.start[i]);
        for (uint256 j = 0; j < list.length; ++j) {
            list[j] = lists.values[lists.start[i] + j];
        }
    }

    function pick(NumberLists memory lists, uint256 i) internal pure returns (uint256[] memory list) {
        list = new uint256[](lists.start[i + 1] - lists.start[i]);
        for (uint256 j = 0; j < list.length; ++j) {
            list[j] = lists.values[lists.start[i] + j];
        }
    }

    function pick(BytesLists memory lists, uint256 i) internal pure returns (bytes[] memory list) {
        list = new bytes[](lists.start[i + 1] - lists.start[i]);
        for (uint256 j = 0; j < list.length; ++j) {
            list[j] = lists.values[lists.start[i] + j];
        }
    }
}
