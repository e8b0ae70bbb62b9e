// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BoundaryProof, ClaimRef, DisputeId, LeafProof, StateHeader, StepFacts} from "../Types.sol";
import {IReferee} from "./IReferee.sol";
import {IStepProofs} from "./IStepProofs.sol";

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
interface IDisputeGame is IStepProofs {
    /// @notice Where a dispute stands.
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

    /// @notice Somebody committed to open a dispute.
    /// @param opener who opened the dispute
    /// @param sealHash hash of claim, opener and salt
    event OpeningSealed(address indexed opener, bytes32 sealHash);
    /// @notice A dispute is open, and in its claimant's queue.
    /// @param dispute the dispute
    /// @param claim the sentence that is disputed
    /// @param claimant whose claim is disputed
    /// @param opener who opened the dispute
    /// @param bondWei exposed by the opener, wei of the staked token
    event DisputeOpened(DisputeId indexed dispute, ClaimRef claim, address indexed claimant, address indexed opener, uint256 bondWei);
    /// @notice A dispute is on its turn: the claimant owes the step roots.
    /// @param dispute the dispute
    /// @param clockBlock from this block on the move is too late
    event DisputeActivated(DisputeId indexed dispute, uint256 clockBlock);
    /// @notice The claimant posted the states of the segment.
    /// @param dispute the dispute
    /// @param roots k + 1 state roots
    event StepRootsPosted(DisputeId indexed dispute, bytes32[] roots);
    /// @notice The opener named the step that it will prove wrong.
    /// @param dispute the dispute
    /// @param step step of the segment, from 0
    /// @param clockBlock from this block on the move is too late
    event StepNamed(DisputeId indexed dispute, uint32 step, uint256 clockBlock);
    /// @notice The claimant posted the trace of the named step.
    /// @param dispute the dispute
    /// @param traceRoot root of the trace of the named step
    /// @param start the state before the step
    /// @param end the state after the step
    /// @param clockBlock from this block on the move is too late
    event TracePosted(DisputeId indexed dispute, bytes32 traceRoot, StateHeader start, StateHeader end, uint256 clockBlock);
    /// @notice Somebody demands a leaf of the trace.
    /// @param dispute the dispute
    /// @param demand index of the demand in its dispute
    /// @param challenger who demands
    /// @param node number of the node in the program
    /// @param place 0: the node's output, 1 and up: its operands
    /// @param leafIndex index of the leaf in its buffer
    /// @param clockBlock from this block on the move is too late
    event LeafDemanded(DisputeId indexed dispute, uint32 indexed demand, address indexed challenger, uint32 node, uint32 place, uint32 leafIndex, uint256 clockBlock);
    /// @notice The claimant showed a demanded leaf.
    /// @param dispute the dispute
    /// @param demand index of the demand in its dispute
    /// @param data the leaf
    event LeafAnswered(DisputeId indexed dispute, uint32 indexed demand, bytes data);
    /// @notice A dispute ended without a conviction.
    /// @param dispute the dispute
    event DisputeClosed(DisputeId indexed dispute);
    /// @notice A dispute ended with a conviction.
    /// @param dispute the dispute
    /// @param claimant whose claim is disputed
    /// @param finder who found the fault; 0: nobody is paid
    /// @param reason why, as right-padded ASCII
    event DisputeConvicted(DisputeId indexed dispute, address indexed claimant, address indexed finder, bytes32 reason);

    /// @notice The opening was not announced.
    /// @param sealHash hash of claim, opener and salt
    error NotSealed(bytes32 sealHash);
    /// @notice The opening was announced in this very block.
    /// @param sealedBlock the block of the announcement
    /// @param blockNumber the block of the call
    error SealTooYoung(uint256 sealedBlock, uint256 blockNumber);
    /// @notice The claim cannot be disputed.
    /// @param status ClaimStatus of a solver's claim, AuditStatus of an audit's
    error ClaimNotDisputable(uint8 status);
    /// @notice Nobody disputes or demands of himself.
    /// @param account who called
    error OwnClaim(address account);
    /// @notice There is this very dispute.
    /// @param dispute the dispute
    error DisputeExists(DisputeId dispute);
    /// @notice The dispute is not where this move belongs.
    /// @param expected the stage that the move needs
    /// @param actual the stage that it has
    error WrongStage(Stage expected, Stage actual);
    /// @notice Whoever is on turn has time left.
    /// @param clockBlock first block in which it has none
    /// @param blockNumber the block of the call
    error ClockRunning(uint256 clockBlock, uint256 blockNumber);
    /// @notice The move comes too late.
    /// @param clockBlock from this block on the move is too late
    /// @param blockNumber the block of the call
    error ClockOver(uint256 clockBlock, uint256 blockNumber);
    /// @notice The claimant is on turn.
    /// @param expected the claimant
    /// @param actual who called
    error NotClaimant(address expected, address actual);
    /// @notice The opener is on turn.
    /// @param expected the opener
    /// @param actual who called
    error NotOpener(address expected, address actual);
    /// @notice Another number of state roots than the segment has.
    /// @param expected what is due
    /// @param actual what was given
    error WrongRootCount(uint256 expected, uint256 actual);
    /// @notice The posted roots do not start or end where the claim does.
    /// @param index which of the posted roots
    /// @param expected what is due
    /// @param actual what was given
    error EndpointMismatch(uint32 index, bytes32 expected, bytes32 actual);
    /// @notice These are not the roots that were posted.
    /// @param expected hash of the posted ones
    /// @param actual hash of those given
    error RootsMismatch(bytes32 expected, bytes32 actual);
    /// @notice The segment has no such step.
    /// @param index the step that was named
    /// @param count steps of the segment
    error StepUnknown(uint32 index, uint32 count);
    /// @notice A state carries other step numbers than its place demands.
    /// @param expectedLocal local step that is due
    /// @param actualLocal local step that was given
    /// @param expectedGlobal global step that is due
    /// @param actualGlobal global step that was given
    error WrongSteps(uint32 expectedLocal, uint32 actualLocal, uint32 expectedGlobal, uint32 actualGlobal);
    /// @notice All that may be demanded is.
    /// @param challenger who demands
    /// @param cap the most that is allowed
    error TooManyDemands(address challenger, uint256 cap);
    /// @notice Demands are answered in their order, each once.
    /// @param demand the demand that was answered
    /// @param answered how many are answered: the next one
    /// @param made how many were made
    error DemandUnknown(uint32 demand, uint32 answered, uint32 made);
    /// @notice The claimant's queue is full.
    /// @param cap the most that is allowed
    error QueueFull(uint256 cap);
    /// @notice What was to be proven wrong is right.
    /// @param index which: the element, the position, or the scalar
    error NoFault(uint256 index);
    /// @notice Too late to dispute this claim.
    /// @param closesBlock first block in which it is too late
    /// @param blockNumber the block of the call
    error DisputeWindowClosed(uint256 closesBlock, uint256 blockNumber);

    /// @notice Commits to an opening: sha256(abi.encode(claim, opener, salt)).
    /// @param sealHash that hash
    function sealOpening(bytes32 sealHash) external;

    /// @notice Opens the sealed dispute, at least one block later; exposes the bond.
    /// @param claim the sentence to dispute
    /// @param salt that of the sealed opening
    /// @return dispute its name
    function openDispute(ClaimRef calldata claim, bytes32 salt) external returns (DisputeId dispute);

    /// @notice The claimant posts the k+1 state roots of the segment. `ends` opens boundaries segment and segment+1 of a solver's claim (empty for an audit's claim).
    /// @param dispute the dispute
    /// @param roots k + 1 state roots, the claim's ends among them
    /// @param ends the boundaries that open its ends
    function postStepRoots(DisputeId dispute, bytes32[] calldata roots, BoundaryProof[] calldata ends) external;

    /// @notice The opener names the step (0 .. k-1) that it will prove wrong, and brings the posted roots along.
    /// @param dispute the dispute
    /// @param step step of the segment, from 0
    /// @param roots those that the claimant posted
    function nameStep(DisputeId dispute, uint32 step, bytes32[] calldata roots) external;

    /// @notice The claimant posts the root of the named step's trace, irrevocably. `start` and `end` are the states around the step.
    /// @param dispute the dispute
    /// @param facts what all steps of the task share; they hash to its stepRoot
    /// @param traceRoot root of the trace of the named step
    /// @param start the state before the step
    /// @param end the state after it
    /// @param proof that the trace ends in that state
    function postTrace(
        DisputeId dispute,
        StepFacts calldata facts,
        bytes32 traceRoot,
        StateHeader calldata start,
        StateHeader calldata end,
        TraceProof calldata proof
    ) external;

    /// @notice Anybody demands one leaf of a buffer that a node touches; pays demandFee to the claimant's credits from its free stake.
    /// @param dispute the dispute
    /// @param facts what all steps of the task share; they hash to its stepRoot
    /// @param node the node, with its place in the program
    /// @param place 0: the node's output, 1 and up: its operands; no constant, everybody has them
    /// @param leafIndex index of the leaf in the buffer
    /// @return demand its index in the dispute
    function demandLeaf(
        DisputeId dispute,
        StepFacts calldata facts,
        IReferee.NodeProof calldata node,
        uint32 place,
        uint32 leafIndex
    ) external returns (uint32 demand);

    /// @notice The claimant answers the oldest open demand. `start` is the state before the step.
    /// @param dispute the dispute
    /// @param demand index of the demand in its dispute
    /// @param start the state before the step
    /// @param opening the demanded leaf
    function answerDemand(
        DisputeId dispute,
        uint32 demand,
        StateHeader calldata start,
        IReferee.BufferOpening calldata opening
    ) external;

    /// @notice Convicts: the referee finds the claimed element of a node beyond its bound. The finder of this and the other proofs is the opener, or the
    /// caller where the dispute is closed already.
    /// @param dispute the dispute
    /// @param facts what all steps of the task share; they hash to its stepRoot
    /// @param start the state before the step
    /// @param node the node, with its place in the program
    /// @param element number of the element of the output, the last loop fastest
    /// @param openings what IReferee.judge reads
    function proveOperation(
        DisputeId dispute,
        StepFacts calldata facts,
        StateHeader calldata start,
        IReferee.NodeProof calldata node,
        uint256 element,
        bytes calldata openings
    ) external;

    /// @notice Convicts: a token (or label) of the trace is not the one that beacon, shard and step deal out.
    /// @param dispute the dispute
    /// @param facts what all steps of the task share; they hash to its stepRoot
    /// @param isLabel a label, else a token
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
    /// @param dispute the dispute
    /// @param facts what all steps of the task share; they hash to its stepRoot
    /// @param start the state before the step, for its step numbers
    /// @param which 0 learning rate, 1 and 2 bias corrections
    /// @param opening the leaf of the trace that has it
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
    /// @param dispute the dispute
    function timeout(DisputeId dispute) external;

    /// @notice Who computes the operations of a step: a node asks it before it stakes.
    /// @return the contract
    function referee() external view returns (IReferee);
    /// @notice Where a dispute stands, and whose it is.
    /// @dev `clockBlock` is the block from which `timeout` succeeds: an open demand's, else the stage's.
    /// @param dispute the dispute
    /// @return stage NONE: there is no such dispute
    /// @return clockBlock first block in which whoever is on turn is too late
    /// @return claimant whose claim it is
    /// @return opener who opened it
    function stageOf(DisputeId dispute) external view returns (Stage stage, uint256 clockBlock, address claimant, address opener);
    /// @notice Open (queued or active) disputes on any claim of this slot, its audits included: settlement waits for zero.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @return how many
    function openCount(bytes32 task, uint32 round, uint32 slot) external view returns (uint256);
    /// @notice The named step, the root of the state before it and that of its trace; zeros before the trace is posted.
    /// @param dispute the dispute
    /// @return step step of the segment, from 0
    /// @return startRoot root of the state before it
    /// @return traceRoot root of its trace
    function traceOf(DisputeId dispute) external view returns (uint32 step, bytes32 startRoot, bytes32 traceRoot);
    /// @notice The sentence that a dispute is about.
    /// @param dispute the dispute
    /// @return the claim
    function claimOf(DisputeId dispute) external view returns (ClaimRef memory);
    /// @notice The dispute of a claimant that is on its turn (0: none), and how many stand in the queue with it.
    /// @param task the task
    /// @param claimant whose queue
    /// @return dispute the one on its turn
    /// @return queued how many are open, that one among them
    function activeOf(bytes32 task, address claimant) external view returns (DisputeId dispute, uint256 queued);
    /// @notice Demands made and answered, in their order, and by when the oldest open one must be answered (0: none is open).
    /// @param dispute the dispute
    /// @return made how many were made
    /// @return answered how many were answered
    /// @return clockBlock first block in which the oldest open one is too late
    function demandsOf(DisputeId dispute) external view returns (uint32 made, uint32 answered, uint256 clockBlock);
}
