// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IRandomness} from "../../contracts/interfaces/IRandomness.sol";
import {IReferee} from "../../contracts/interfaces/IReferee.sol";
import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";

interface ITokenHook {
    function onTransfer(address from, address to) external;
}

/// @title A token that keeps a fee, or calls back both parties of a transfer: what the vault must survive.
contract HostileToken is ERC20 {
    uint256 public feeWei;
    mapping(address => ITokenHook) public hookOf;

    constructor() ERC20("Hostile", "HOST") {}

    function mint(address to, uint256 amountWei) external {
        _mint(to, amountWei);
    }

    function setFee(uint256 feeWei_) external {
        feeWei = feeWei_;
    }

    function setHook(ITokenHook hook) external {
        hookOf[msg.sender] = hook;
    }

    function _update(address from, address to, uint256 value) internal override {
        super._update(from, to, value);
        if (feeWei > 0 && from != address(0) && to != address(0)) super._update(to, address(0), feeWei);
        if (address(hookOf[from]) != address(0)) hookOf[from].onTransfer(from, to);
        if (address(hookOf[to]) != address(0)) hookOf[to].onTransfer(from, to);
    }
}

/// @title The hash of a block as its randomness: a test sets hashes, and makes no headers.
contract RandomnessStub is IRandomness {
    function read(uint256 ofBlock, bytes calldata) external view returns (bytes32 value) {
        value = blockhash(ofBlock);
        if (value == 0) revert RandomnessGone(ofBlock);
    }

    function drandRound(uint256) external pure returns (uint64) {
        return 0;
    }
}

/// @title A referee that finds the faults that it was told of.
contract RefereeMock is IReferee {
    /// @dev Hash of the arguments that are a fault.
    bytes32 private _fault;
    /// @notice Roots of traces every element of which is a fault.
    mapping(bytes32 => bool) public isRotten;

    function spoil(bytes32 traceRoot) external {
        isRotten[traceRoot] = true;
    }

    function expectFault(
        StepContext calldata context,
        NodeProof calldata node,
        uint256 element,
        bytes calldata openings
    ) external {
        _fault = keccak256(abi.encode(context, node, element, openings));
    }

    function judge(
        StepContext calldata context,
        NodeProof calldata node,
        uint256 element,
        bytes calldata openings
    ) external view returns (bool isFault) {
        return
            isRotten[context.traceRoot] || keccak256(abi.encode(context, node, element, openings)) == _fault;
    }
}
