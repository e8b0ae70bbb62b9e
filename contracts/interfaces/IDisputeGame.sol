// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BoundaryProof, ClaimRef, DisputeId, LeafProof, StateHeader, StepFacts} from "../Types.sol";
import {IReferee} from "./IReferee.sol";

/// @title Disputes on one claim: "from state root A, k steps, I got state root C" (protocol section 5, D1 to D4).
/// @notice D1 anybody opens, sealed one block before so that it cannot be front-run, with a bond that doubles along the claimant's queue. One dispute is
/// active per claimant and task; the others queue and a clock starts at the turn. The claimant posts k+1 step-state roots within `respond`, else SLASHED (silent).
/// D2 the opener names a step within `name`, else CLOSED; the claimant posts the trace of that step within `respond`, else SLASHED (silent). What does not bind
/// (other step numbers, a trace that does not end in the next state) cannot be posted. D3 for `prove` blocks anybody proves one fault of the trace: an
/// operation beyond its bound (the referee computes it), a token, a label or a scalar that the beacon, the dataset and the schedule do not give; or demands a
/// leaf, prepaid. Demands are answered in their order, each within `respond` of its turn, else SLASHED (withheld); an answer extends `prove` by `respond`.
/// D4 CLOSED: half of the bond burned, half to the claimant; the trace stands and a proof is accepted until settlement. Closed is not acquitted. A
/// dispute on a claim that was convicted otherwise meanwhile is closed with the whole bond returned.
/// @dev Facts of the task's steps come with each call that needs them; they hash to `TaskTerms.stepRoot`.
interface IDisputeGame {
    enum Stage {
        NONE,
        QUEUED,
        ROOTS,
        NAME,
        TRACE,
        PROVE,
        CLOSED,
        CONVICTED
    }

    /// @notice That a trace ends in the claimed state.
    /// @param head leaf 0 of the program tree, which has the numbers of the output buffers
    /// @param weightsPath of the new W's root in the trace; so for m and v
    struct TraceProof {
        bytes head;
        bytes32[] headPath;
        bytes32[] weightsPath;
        bytes32[] firstMomentPath;
        bytes32[] secondMomentPath;
    }

    event OpeningSealed(address indexed opener, bytes32 sealHash);
    event DisputeOpened(DisputeId indexed dispute, ClaimRef claim, address indexed claimant, address indexed opener, uint256 bondWei);
    event DisputeActivated(DisputeId indexed dispute, uint256 clockBlock);
    event StepRootsPosted(DisputeId indexed dispute, bytes32[] roots);
    event StepNamed(DisputeId indexed dispute, uint32 step, uint256 clockBlock);
    event TracePosted(DisputeId indexed dispute, bytes32 traceRoot, StateHeader start, StateHeader end, uint256 clockBlock);
    event LeafDemanded(DisputeId indexed dispute, uint32 indexed demand, address indexed challenger, uint32 node, uint32 place, uint32 leafIndex, uint256 clockBlock);
    event LeafAnswered(DisputeId indexed dispute, uint32 indexed demand, bytes data);
    event DisputeClosed(DisputeId indexed dispute);
    event DisputeConvicted(DisputeId indexed dispute, address indexed claimant, address indexed finder, bytes32 reason);

    error NotSealed(bytes32 sealHash);
    error SealTooYoung(uint256 sealedBlock, uint256 blockNumber);
    error ClaimNotDisputable(uint8 status);
    error OwnClaim(address account);
    error DisputeExists(DisputeId dispute);
    error WrongStage(Stage expected, Stage actual);
    error ClockRunning(uint256 clockBlock, uint256 blockNumber);
    error ClockOver(uint256 clockBlock, uint256 blockNumber);
    error NotClaimant(address expected, address actual);
    error NotOpener(address expected, address actual);
    error WrongRootCount(uint256 expected, uint256 actual);
    error EndpointMismatch(uint32 index, bytes32 expected, bytes32 actual);
    error RootsMismatch(bytes32 expected, bytes32 actual);
    error StepUnknown(uint32 index, uint32 count);
    error FactsMismatch(bytes32 expectedStepRoot, bytes32 actualStepRoot);
    error HeaderMismatch(bytes32 expectedStateRoot, bytes32 actualStateRoot);
    error WrongSteps(uint32 expectedLocal, uint32 actualLocal, uint32 expectedGlobal, uint32 actualGlobal);
    error HeadMismatch(bytes32 programRoot);
    error OutputMismatch(uint8 tensor, uint256 buffer);
    error PlaceUnknown(uint32 place, uint256 operands);
    error ConstantDemanded(uint256 buffer);
    error LeafUnknown(uint256 leafIndex, uint256 leafCount);
    error LeafMismatch(bytes32 root, uint256 index);
    error TooManyDemands(address challenger, uint256 cap);
    error DemandUnknown(uint32 demand);
    error QueueFull(uint256 cap);
    error NoFault();
    error DisputeWindowClosed(uint256 closesBlock, uint256 blockNumber);

    /// @notice Commits to an opening: sha256(abi.encode(claim, opener, salt)).
    function sealOpening(bytes32 sealHash) external;

    /// @notice Opens the sealed dispute, at least one block later; exposes the bond.
    function openDispute(ClaimRef calldata claim, bytes32 salt) external returns (DisputeId dispute);

    /// @notice The claimant posts the k+1 state roots of the segment. `ends` opens boundaries segment and segment+1 of a solver's claim (empty for an audit's claim).
    function postStepRoots(DisputeId dispute, bytes32[] calldata roots, BoundaryProof[] calldata ends) external;

    /// @notice The opener names the step (0 .. k-1) that it will prove wrong, and brings the posted roots along.
    function nameStep(DisputeId dispute, uint32 step, bytes32[] calldata roots) external;

    /// @notice The claimant posts the root of the named step's trace, irrevocably. `start` and `end` are the states around the step.
    function postTrace(
        DisputeId dispute,
        StepFacts calldata facts,
        bytes32 traceRoot,
        StateHeader calldata start,
        StateHeader calldata end,
        TraceProof calldata proof
    ) external;

    /// @notice Anybody demands one leaf of a buffer that a node touches; pays demandFee to the claimant's credits from its free stake.
    /// @param place 0: the node's output, 1 and up: its operands; no constant, everybody has them
    function demandLeaf(
        DisputeId dispute,
        StepFacts calldata facts,
        IReferee.NodeProof calldata node,
        uint32 place,
        uint32 leafIndex
    ) external returns (uint32 demand);

    /// @notice The claimant answers the oldest open demand. `start` is the state before the step.
    function answerDemand(
        DisputeId dispute,
        uint32 demand,
        StateHeader calldata start,
        IReferee.BufferOpening calldata opening
    ) external;

    /// @notice Convicts: the referee finds the claimed element of a node beyond its bound. The finder of this and the other proofs is the opener, or the
    /// caller where the dispute is closed already.
    function proveOperation(
        DisputeId dispute,
        StepFacts calldata facts,
        StateHeader calldata start,
        IReferee.NodeProof calldata node,
        uint256 element,
        bytes calldata openings
    ) external;

    /// @notice Convicts: a token (or label) of the trace is not the one that beacon, shard and step deal out.
    /// @param position row * sequenceTokens + column
    /// @param opening the leaf of the trace that has it
    /// @param dataset the leaf of the dataset that has the right one
    function proveToken(
        DisputeId dispute,
        StepFacts calldata facts,
        bool isLabel,
        uint32 position,
        IReferee.BufferOpening calldata opening,
        LeafProof calldata dataset
    ) external;

    /// @notice Convicts: a scalar of the trace is not that of the step.
    /// @param start the state before the step, for its step numbers
    /// @param which 0 learning rate, 1 and 2 bias corrections
    /// @param scalars the leaf under `facts.scalarsRoot` that has the right one
    function proveScalar(
        DisputeId dispute,
        StepFacts calldata facts,
        StateHeader calldata start,
        uint32 which,
        IReferee.BufferOpening calldata opening,
        LeafProof calldata scalars
    ) external;

    /// @notice After a clock has run out: convicts a silent claimant or closes the dispute; at once where the claim is convicted already. Anybody.
    function timeout(DisputeId dispute) external;

    /// @notice Who computes the operations of a step: a node asks it before it stakes.
    function referee() external view returns (IReferee);
    /// @dev `clockBlock` is the block from which `timeout` succeeds: an open demand's, else the stage's.
    function stageOf(DisputeId dispute) external view returns (Stage stage, uint256 clockBlock, address claimant, address opener);
    /// @notice Open (queued or active) disputes on any claim of this slot, its audits included: settlement waits for zero.
    function openCount(bytes32 task, uint32 round, uint32 slot) external view returns (uint256);
    /// @notice The named step, the root of the state before it and that of its trace; zeros before the trace is posted.
    function traceOf(DisputeId dispute) external view returns (uint32 step, bytes32 startRoot, bytes32 traceRoot);
    function claimOf(DisputeId dispute) external view returns (ClaimRef memory);
    /// @notice The dispute of a claimant that is on its turn (0: none), and how many stand in the queue with it.
    function activeOf(bytes32 task, address claimant) external view returns (DisputeId dispute, uint256 queued);
    /// @notice Demands made and answered, in their order, and by when the oldest open one must be answered (0: none is open).
    function demandsOf(DisputeId dispute) external view returns (uint32 made, uint32 answered, uint256 clockBlock);
}
