// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BoundaryProof} from "../Types.sol";
import {IRoundLedger} from "../interfaces/IRoundLedger.sol";
import {Hashing} from "./Hashing.sol";
import {PositionalMerkle} from "./PositionalMerkle.sol";

/// @title Whether a salted boundary leaf belongs to a claim (docs/spec.md, section 3).
library Boundaries {
    /// @notice Reverts with BoundaryMismatch unless the proof opens this boundary of the claim.
    /// @param segmentCount of a round: the claim has one boundary more
    /// @return stateRoot of the state at the boundary
    function requireOpened(
        bytes32 domain,
        uint32 round,
        address solver,
        bytes32 claimRoot,
        uint256 segmentCount,
        uint32 boundary,
        BoundaryProof calldata proof
    ) internal pure returns (bytes32 stateRoot) {
        stateRoot = Hashing.stateRoot(proof.header);
        bytes32 leaf = Hashing.boundaryLeaf(domain, round, solver, boundary, proof.salt, stateRoot);
        if (!PositionalMerkle.verify(claimRoot, leaf, boundary, segmentCount + 1, proof.path)) {
            revert IRoundLedger.BoundaryMismatch(claimRoot, boundary);
        }
    }
}
