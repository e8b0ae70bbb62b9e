// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Statements} from "../libraries/Statements.sol";

/// @title What is handed in about statements: votes and seals with their signatures, and openings of a claim's tree.

/// @notice A vote and its signature (EIP-712, EIP-2098).
struct SignedVote {
    Statements.Vote vote;
    bytes32 r;
    bytes32 vs;
}

/// @notice What an auditor sealed, and its signature.
struct SignedSealed {
    Statements.Sealed said;
    bytes32 r;
    bytes32 vs;
}

/// @notice Opens the work leaf of a claim, the last one of its tree.
/// @param deltaRoot tree of the pseudo-gradient
/// @param carriedRoot `Hashing.carriedRoot` of the claim's last state
/// @param path siblings up to the claim's root
struct WorkProof {
    bytes32 deltaRoot;
    bytes32 carriedRoot;
    bytes32[] path;
}

/// @notice The two roots whose hash is an outer root.
struct OuterOpening {
    bytes32 weightsRoot;
    bytes32 momentumRoot;
}
