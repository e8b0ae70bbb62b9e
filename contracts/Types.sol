// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @title Types shared by all contracts: ids, roles, life stages and the terms of a task.
/// @dev Twin of `protocol/spec/containers.py`. Every struct here is static, so `abi.encode` is one 32-byte word a field:
/// the canonical bytes of `docs/spec.md`, section 3.

/// @notice SHA-256 of a task's canonical bytes.
type TaskId is bytes32;
/// @notice Names one exposure of stake in the vault.
type ExposureId is bytes32;
/// @notice Names one dispute: SHA-256 over claim, segment, opener and salt.
type DisputeId is bytes32;

/// @notice What an account does in a round.
enum Role {
    NONE,
    SOLVER,
    VERIFIER,
    WHISTLEBLOWER
}

/// @notice Life of a round. EMPTY: nobody to train or audit, or the beacon was not sealed in time.
enum RoundStatus {
    NONE,
    ENROLLING,
    TRAINING,
    MERGED,
    EMPTY
}

/// @notice Life of a solver's claim in one round.
enum ClaimStatus {
    NONE,
    COMMITTED,
    DROPPED,
    VOID,
    ESCALATED,
    ACCEPTED,
    CONVICTED
}

/// @notice Life of one auditor's work on one segment.
enum AuditStatus {
    NONE,
    COMMITTED,
    UNSERVED,
    ABSTAINED,
    REVEALED,
    ACCEPTS,
    REJECTS,
    SLASHED
}

/// @notice What the limits say of a pair of elements (`docs/spec.md`, section 6), in rising order of distance.
enum Judgement {
    ACCEPT,
    GREY,
    REJECT
}

/// @notice Lengths of the windows of a round and the clocks of a dispute, in blocks.
/// @param enrol for enrolments
/// @param delay from a deadline to the block whose randomness is taken
/// @param seal in which that randomness must be handed in; longer than delay
/// @param train from the beacon's block: to train and commit
/// @param start for the solver to open starts
/// @param replay for auditors to commit, and again for reserves
/// @param show for ends and reveals
/// @param open for the solver to open leaves
/// @param merge in which a posted outer root can be contested
/// @param dispute after the late audits, in which disputes can be opened
/// @param respond for each answer of a party in a dispute or a contest
/// @param name for the opener to name a step
/// @param prove to prove a fault, once the trace is there
struct Windows {
    uint32 enrol;
    uint32 delay;
    uint32 seal;
    uint32 train;
    uint32 start;
    uint32 replay;
    uint32 show;
    uint32 open;
    uint32 merge;
    uint32 dispute;
    uint32 respond;
    uint32 name;
    uint32 prove;
}

/// @notice Money of a task, in the smallest unit of the vault's token.
/// @param solverStake exposed by a solver from enrolment to settlement of its round
/// @param auditStake exposed by an auditor from its blind commitment to settlement of the claim
/// @param enrolStake exposed by a verifier or whistleblower from enrolment to settlement; pays its no-show fees
/// @param noShowFee F, burned
/// @param solverPay to each accepted solver a round; burned where too few accept a claim and nobody rejects it
/// @param auditPay to each primary or reserve that revealed
/// @param latePay to each late auditor that revealed
/// @param mergePay to whoever posted the outer root that stands
/// @param mergeBond exposed by whoever posts or contests an outer root
/// @param disputeBond exposed by the opener of a dispute; doubles along the claimant's queue
/// @param demandFee paid by the challenger to the claimant for each demanded leaf
/// @param finderCap most that a finder gets of one slash
struct Amounts {
    uint128 solverStake;
    uint128 auditStake;
    uint128 enrolStake;
    uint128 noShowFee;
    uint128 solverPay;
    uint128 auditPay;
    uint128 latePay;
    uint128 mergePay;
    uint128 mergeBond;
    uint128 disputeBond;
    uint128 demandFee;
    uint128 finderCap;
}

/// @notice One set of element-wise limits. `tau*` in units of 2^-64; `epsM` and `floorV` in units of 2^-149.
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

/// @notice What the contracts must know of a task. The rest of the spec is the opaque `training` bytes.
/// @param submitter who posts and funds the task; only it can
/// @param salt tells equal tasks of one submitter apart
/// @param initialWeightsRoot tensor tree of the initial parameters
/// @param zeroRoot tensor tree of a zero vector of `parameterCount` elements
/// @param scheduleRoot tree over the summed learning rate of every segment of the task
/// @param stepRoot hash of the `StepFacts` that all training steps share
/// @param parameterCount elements of W
/// @param rounds outer steps at most
/// @param innerSteps H, a multiple of `segmentSteps`
/// @param segmentSteps k, at most 20
/// @param maxSolvers solvers in a round, at most 64
/// @param maxVerifiers verifiers in a round
/// @param maxWhistleblowers whistleblowers in a round
/// @param segmentDraws q: segments audited of each claim
/// @param leafDraws leaves opened of each audit whose roots differ
/// @param lateRate chance of a late audit of an accepted claim, in 1/65536
/// @param carryMoments 1: m, v and the local step carry over from the solver's last accepted claim; 0: zero at each round
/// @param outerLearningRate float32 bits
/// @param outerMomentum float32 bits
/// @param windows in blocks
/// @param amounts in wei
/// @param accept what an audit ACCEPTS within
/// @param reject what it REJECTS beyond
struct TaskTerms {
    address submitter;
    bytes32 salt;
    bytes32 initialWeightsRoot;
    bytes32 zeroRoot;
    bytes32 scheduleRoot;
    bytes32 stepRoot;
    uint32 parameterCount;
    uint32 rounds;
    uint32 innerSteps;
    uint32 segmentSteps;
    uint32 maxSolvers;
    uint32 maxVerifiers;
    uint32 maxWhistleblowers;
    uint32 segmentDraws;
    uint32 leafDraws;
    uint32 lateRate;
    uint32 carryMoments;
    uint32 outerLearningRate;
    uint32 outerMomentum;
    Windows windows;
    Amounts amounts;
    Limits accept;
    Limits reject;
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

/// @notice What the referee must know of a training step (`docs/spec.md`, section 10); the same for every step of a task.
/// @param programRoot tree over the step's program: its head, its buffers, its nodes
/// @param datasetRoot tree over the tokens, little-endian
/// @param scalarsRoot tree over learning rate, 1 - beta1^t and 1 - beta2^t of every step: 12 bytes a leaf
/// @param programNodes nodes of the program
/// @param programBuffers buffers of the program: leaves of a step's trace
/// @param numericFormat how product sums may be computed: 0 float32, 1 tf32, 2 bf16
/// @param sequencesPerStep rows of a step's batch
/// @param sequenceTokens tokens of a row
/// @param tokenBytes of one token in the dataset: 1, 2 or 4
/// @param tokenCount tokens of the dataset
/// @param datasetBytes length of the dataset
/// @param scalarCount leaves under `scalarsRoot`: rounds * innerSteps
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

/// @notice Names one round of one task.
/// @param task the task
/// @param round index of the round in its task, from 0
struct RoundRef {
    TaskId task;
    uint32 round;
}

/// @notice Names one audit. rank 0 primary, 1 and 2 reserves; draw == segmentDraws is the late audit, rank 0.
/// @param task the task
/// @param round index of the round in its task, from 0
/// @param slot the claim: index of its solver among the enrolled
/// @param draw index of the draw; segmentDraws is the late audit
/// @param rank 0 primary, 1 and 2 reserves
struct AuditRef {
    TaskId task;
    uint32 round;
    uint32 slot;
    uint32 draw;
    uint32 rank;
}

/// @notice Names one sentence "from A, k steps, to C" that somebody is answerable for.
/// @param audit the audit; of a solver's claim only task, round and slot
/// @param segment index of the segment in the round
/// @param bySolver true: the solver's own claim on `segment`; false: the audit's claim (segment must be the audit's)
struct ClaimRef {
    AuditRef audit;
    uint32 segment;
    bool bySolver;
}
