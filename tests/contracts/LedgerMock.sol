// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ClaimStatus, StateHeader, TaskId} from "../../contracts/Types.sol";

/// @title Stands in for RoundLedger and AuditBook where a test is about another contract: it answers what it is told and notes what it is asked to do.
contract LedgerMock {
    struct Outer {
        address poster;
        bytes32 weightsRoot;
        bytes32 momentumRoot;
        uint256 postedBlock;
        bool contested;
    }

    Outer public outer;
    bool public merged;
    bytes32 public globalWeights;
    bytes32 public globalMomentum;
    uint256 public settledClaims;
    uint256 public openMerges;
    bytes32[] public deltaRoots;
    StateHeader public last;
    bool public lastOpened;
    address public finder;
    uint32 public convictedSlot;
    bytes32 public reason;

    // What tests set ----------------------------------------------------------------------------------------------
    function setOuter(address poster, bytes32 weightsRoot, bytes32 momentumRoot) external {
        outer = Outer(poster, weightsRoot, momentumRoot, block.number, false);
    }

    function setMerged(bool merged_) external {
        merged = merged_;
    }

    function setGlobal(bytes32 weightsRoot, bytes32 momentumRoot) external {
        (globalWeights, globalMomentum) = (weightsRoot, momentumRoot);
    }

    function addClaim(bytes32 deltaRoot) external {
        deltaRoots.push(deltaRoot);
    }

    function setProgress(uint256 settledClaims_, uint256 openMerges_) external {
        (settledClaims, openMerges) = (settledClaims_, openMerges_);
    }

    function setLast(StateHeader calldata last_) external {
        (last, lastOpened) = (last_, true);
    }

    // What contracts call -----------------------------------------------------------------------------------------
    function outerOf(TaskId, uint32) external view returns (address, bytes32, bytes32, uint256, bool) {
        return (outer.poster, outer.weightsRoot, outer.momentumRoot, outer.postedBlock, outer.contested);
    }

    function isMerged(TaskId, uint32) external view returns (bool) {
        return merged;
    }

    function globalOf(TaskId, uint32) external view returns (bytes32, bytes32) {
        return (globalWeights, globalMomentum);
    }

    function progressOf(TaskId) external view returns (uint256, uint256) {
        return (settledClaims, openMerges);
    }

    /// @dev In the order of shards, which is the reverse of the order of slots here.
    function includedOf(TaskId, uint32) external view returns (uint32[] memory slots) {
        slots = new uint32[](deltaRoots.length);
        for (uint32 i = 0; i < slots.length; ++i) {
            slots[i] = uint32(slots.length) - 1 - i;
        }
    }

    function claimOf(TaskId, uint32, uint32 slot)
        external
        view
        returns (address, ClaimStatus, bool, bytes32, bytes32)
    {
        return (address(0), ClaimStatus.ACCEPTED, false, 0, deltaRoots[slot]);
    }

    function setContested(TaskId, uint32, bool contested) external {
        outer.contested = contested;
    }

    function replaceOuter(TaskId, uint32, address poster, bytes32 weightsRoot, bytes32 momentumRoot)
        external
    {
        outer = Outer(poster, weightsRoot, momentumRoot, block.number, false);
    }

    function convictSolver(TaskId, uint32, uint32 slot, address finder_, bytes32 reason_) external {
        (convictedSlot, finder, reason) = (slot, finder_, reason_);
    }

    // AuditBook ---------------------------------------------------------------------------------------------------
    function openedOf(TaskId, uint32, uint32, uint32, uint32) external view returns (bool, bool, bool) {
        return (lastOpened, lastOpened, false);
    }

    function lastOf(TaskId, uint32, uint32) external view returns (StateHeader memory) {
        return last;
    }
}
