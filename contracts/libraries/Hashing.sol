// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Sha256} from "./Sha256.sol";
import {StateHeader, StepFacts, TaskId} from "../Types.sol";

/// @title Tagged hashes of domains, states, claims and slots: `H(tag, words...)` is `sha256(abi.encode(...))` (docs/spec.md, sections 2 to 4).
/// @dev Twin of `hashing.py` and `commitments.py` in `protocol/spec`. A tag opens every message, so no hash can stand for one of another kind.
/// Other libraries compute tagged hashes too: `AuditDraw` those of a round's seed, beacon and pools, `Statements` those of merged claims and seals, `Draw`
/// those that numbers come from. Where assembly writes a message it writes the words of `abi.encode` past the free pointer, which stays where it is. So the
/// message is not copied, and its memory is used again.
library Hashing {
    // Identity and domains

    /// @notice Keeps apart the hashes of equal tasks on other chains and other deployments.
    function domain(uint256 chainId, address registry, TaskId task) internal pure returns (bytes32) {
        bytes32 tag = "touchstone.domain";
        uint256 message;
        assembly ("memory-safe") {
            // abi.encode(tag, chainId, registry, task)
            message := mload(0x40)
            mstore(message, tag)
            mstore(add(message, 0x20), chainId)
            mstore(add(message, 0x40), shr(96, shl(96, registry)))
            mstore(add(message, 0x60), task)
        }
        return Sha256.digest(message, 0x80);
    }

    // States and claims
    function stateRoot(StateHeader memory header) internal pure returns (bytes32) {
        return sha256(abi.encode(bytes32("touchstone.state"), header));
    }

    /// @notice Everything that a step is judged by, in one word of the task's terms.
    function stepRoot(StepFacts memory facts) internal pure returns (bytes32) {
        return sha256(abi.encode(bytes32("touchstone.step"), facts));
    }

    function outerRoot(bytes32 weightsRoot, bytes32 momentumRoot) internal pure returns (bytes32) {
        return sha256(abi.encode(bytes32("touchstone.outer"), weightsRoot, momentumRoot));
    }

    function boundaryLeaf(
        bytes32 domain_,
        uint32 round,
        address solver,
        uint32 boundary,
        bytes32 salt,
        bytes32 stateRoot_
    ) internal pure returns (bytes32) {
        bytes32 tag = "touchstone.boundary";
        uint256 message;
        assembly ("memory-safe") {
            // abi.encode(tag, domain, round, solver, boundary, salt, stateRoot)
            message := mload(0x40)
            mstore(message, tag)
            mstore(add(message, 0x20), domain_)
            mstore(add(message, 0x40), and(round, 0xffffffff))
            mstore(add(message, 0x60), shr(96, shl(96, solver)))
            mstore(add(message, 0x80), and(boundary, 0xffffffff))
            mstore(add(message, 0xa0), salt)
            mstore(add(message, 0xc0), stateRoot_)
        }
        return Sha256.digest(message, 0xe0);
    }

    /// @notice What a claim commits to: its tree, and how many segments it has. One tree is no claim of another length, not even on another fork.
    function claimRoot(bytes32 treeRoot, uint256 segments) internal pure returns (bytes32) {
        return taggedPair("touchstone.claim", treeRoot, segments);
    }

    /// @notice The last leaf of a claim's tree: what comes of its segments.
    function workLeaf(
        bytes32 domain_,
        uint32 round,
        address solver,
        uint256 segments,
        bytes32 deltaRoot,
        bytes32 carriedRoot_
    ) internal pure returns (bytes32) {
        return sha256(
            abi.encode(bytes32("touchstone.work"), domain_, round, solver, segments, deltaRoot, carriedRoot_)
        );
    }

    /// @notice What a claim hands on to the next one where moments carry over.
    function carriedRoot(bytes32 firstMomentRoot, bytes32 secondMomentRoot, uint32 localStep)
        internal
        pure
        returns (bytes32)
    {
        return sha256(abi.encode(bytes32("touchstone.carried"), firstMomentRoot, secondMomentRoot, localStep));
    }

    /// @param segmentIndex of the whole task: globalStep / segmentSteps
    /// @param learningRateSum in units of 2^-64
    function scheduleLeaf(uint256 segmentIndex, uint256 learningRateSum) internal pure returns (bytes32) {
        return sha256(abi.encode(bytes32("touchstone.schedule"), segmentIndex, learningRateSum));
    }

    // Seeds
    function slotSeed(bytes32 seed, uint256 slot) internal pure returns (bytes32) {
        return taggedPair("touchstone.slot", seed, slot);
    }

    /// @dev sha256(abi.encode(tag, first, second))
    function taggedPair(bytes32 tag, bytes32 first, uint256 second) internal pure returns (bytes32) {
        uint256 message;
        assembly ("memory-safe") {
            message := mload(0x40)
            mstore(message, tag)
            mstore(add(message, 0x20), first)
            mstore(add(message, 0x40), second)
        }
        return Sha256.digest(message, 0x60);
    }

    /// @param innerStep 0-based in the round
    function sampleSeed(bytes32 beacon_, uint256 shard, uint256 innerStep) internal pure returns (bytes32) {
        return sha256(abi.encode(bytes32("touchstone.sample"), beacon_, shard, innerStep));
    }
}
