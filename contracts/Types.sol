// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @title Types that the contracts of the round share with the referee: ids, limits, states, steps and proofs.
/// @dev Twin of `state_headers.py`, `openings.py` and `task_spec.py` in `protocol/spec`. Every struct here is static, so `abi.encode` is one 32-byte word a
/// field: the canonical bytes of `docs/spec.md`, section 3.

/// @notice SHA-256 of a task's canonical bytes.
type TaskId is bytes32;

/// @notice Element-wise limits (`docs/spec.md`, section 6). `tau*` in units of 2^-64; `epsM` and `floorV` in units of 2^-149.
/// @param tauM of the first moment, relative
/// @param epsM of the first moment, absolute
/// @param tauV of the second moment, relative
/// @param floorV of the second moment, absolute
/// @param tauW of the weights, in learning rates
/// @param tauR allows for the rounding of W, relative to its magnitude
struct Limits {
    uint64 tauM;
    uint160 epsM;
    uint64 tauV;
    uint160 floorV;
    uint64 tauW;
    uint64 tauR;
}

/// @notice Everything that a training state consists of (`docs/spec.md`, section 2).
/// @param weightsRoot tensor tree of W
/// @param firstMomentRoot tensor tree of m
/// @param secondMomentRoot tensor tree of v
/// @param localStep steps of the solver's optimiser, which its bias corrections count
/// @param globalStep steps over all rounds, which the schedule counts
struct StateHeader {
    bytes32 weightsRoot;
    bytes32 firstMomentRoot;
    bytes32 secondMomentRoot;
    uint32 localStep;
    uint32 globalStep;
}

/// @dev How a task computes: in float32, with bounds; or exactly, with one right value of each element.
uint32 constant FLOAT32_FORMAT = 0;
uint32 constant EXACT_FORMAT = 1;

/// @notice What the referee must know of a training step (`docs/spec.md`, section 10); the same for every step of a task.
/// @param programRoot tree over the step's program: its head, its buffers, its nodes
/// @param datasetRoot tree over the tokens, little-endian
/// @param scalarsRoot tree over learning rate, 1 - beta1^t and 1 - beta2^t of every step: 12 bytes a leaf
/// @param programNodes nodes of the program
/// @param programBuffers buffers of the program: leaves of a step's trace
/// @param numericFormat FLOAT32_FORMAT: elements have bounds; EXACT_FORMAT: the program is exact, and every element has one right value
/// @param sequencesPerStep rows of a step's batch
/// @param sequenceTokens tokens of a row
/// @param tokenBytes of one token in the dataset: 1, 2 or 4
/// @param tokenCount tokens of the dataset
/// @param datasetBytes length of the dataset
/// @param scalarCount leaves under `scalarsRoot`: rounds * innerSteps
/// @param vocabularySize tokens that the model knows; an entry of the dataset that is none of them stands for token 0
struct StepFacts {
    bytes32 programRoot;
    bytes32 datasetRoot;
    bytes32 scalarsRoot;
    uint32 programNodes;
    uint32 programBuffers;
    uint32 numericFormat;
    uint32 sequencesPerStep;
    uint32 sequenceTokens;
    uint32 tokenBytes;
    uint64 tokenCount;
    uint64 datasetBytes;
    uint32 scalarCount;
    uint32 vocabularySize;
}

/// @notice A salted boundary leaf and its path in the claim tree.
/// @param header the state
/// @param salt hides the state until it is opened
/// @param path siblings up to the claim's root
struct BoundaryProof {
    StateHeader header;
    bytes32 salt;
    bytes32[] path;
}

/// @notice One leaf of a tensor tree and its path.
/// @param data its bytes
/// @param path siblings up to the tensor's root
struct LeafProof {
    bytes data;
    bytes32[] path;
}

/// @notice The same leaf of all three tensors of a state.
/// @param weights of W
/// @param firstMoment of m
/// @param secondMoment of v
struct StateLeaves {
    LeafProof weights;
    LeafProof firstMoment;
    LeafProof secondMoment;
}
