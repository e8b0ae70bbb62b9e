// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @title The cheatcodes that these tests use, and no others.
/// @dev Source: Foundry's `Vm` interface. The npm package of forge-std is broken, so its parts are declared here.
interface Vm {
    // Chain
    function roll(uint256 blockNumber) external;
    function setBlockhash(uint256 blockNumber, bytes32 blockHash) external;
    function chainId(uint256 id) external;
    function getBlockNumber() external view returns (uint256);
    // Accounts
    function prank(address sender) external;
    function prank(address sender, address origin) external;
    function etch(address target, bytes calldata code) external;
    function startPrank(address sender) external;
    function stopPrank() external;
    function addr(uint256 privateKey) external pure returns (address);
    function sign(uint256 privateKey, bytes32 digest) external pure returns (uint8 v, bytes32 r, bytes32 s);
    function computeCreateAddress(address deployer, uint256 nonce) external pure returns (address);
    function getNonce(address account) external view returns (uint64);
    // Expectations
    function expectRevert() external;
    function expectRevert(bytes4 selector) external;
    function expectRevert(bytes calldata data) external;
    function expectPartialRevert(bytes4 selector) external;
    function expectEmit(bool topic1, bool topic2, bool topic3, bool data, address emitter) external;
    function assume(bool condition) external pure;
    struct Entry {
        bytes32[] topics;
        bytes data;
        address emitter;
    }
    function recordLogs() external;
    function getRecordedLogs() external returns (Entry[] memory entries);
    // Storage
    function load(address target, bytes32 slot) external view returns (bytes32);
    function store(address target, bytes32 slot, bytes32 value) external;
    // Runs
    function snapshotState() external returns (uint256 id);
    function revertToState(uint256 id) external returns (bool success);
    function envOr(string calldata name, string calldata fallback_) external view returns (string memory);
    function writeLine(string calldata path, string calldata line) external;
    struct Gas {
        uint64 gasLimit;
        uint64 gasTotalUsed;
        uint64 gasMemoryUsed;
        int64 gasRefunded;
        uint64 gasRemaining;
    }
    function lastCallGas() external view returns (Gas memory gas);
    function cool(address target) external;
    // Files
    function readFile(string calldata path) external view returns (string memory);
    function parseJsonStringArray(string calldata json, string calldata key)
        external
        pure
        returns (string[] memory);
    function parseJsonUintArray(string calldata json, string calldata key)
        external
        pure
        returns (uint256[] memory);
    function parseJsonIntArray(string calldata json, string calldata key)
        external
        pure
        returns (int256[] memory);
    function parseJsonBoolArray(string calldata json, string calldata key)
        external
        pure
        returns (bool[] memory);
    function parseJsonAddressArray(string calldata json, string calldata key)
        external
        pure
        returns (address[] memory);
    function parseJsonBytes32Array(string calldata json, string calldata key)
        external
        pure
        returns (bytes32[] memory);
    function parseJsonBytesArray(string calldata json, string calldata key)
        external
        pure
        returns (bytes[] memory);
    function parseJsonAddress(string calldata json, string calldata key) external pure returns (address);
    function parseJsonBytes32(string calldata json, string calldata key) external pure returns (bytes32);
    function parseJsonTypeArray(string calldata json, string calldata key, string calldata typeDescription)
        external
        pure
        returns (bytes memory);
    function toString(uint256 value) external pure returns (string memory);
}
