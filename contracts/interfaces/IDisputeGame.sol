// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {BoundaryProof, ClaimRef, DisputeId, LeafProof, StateHeader} from "../Types.sol";

/// @title Disputes on one claim: "from state root A, k steps, I got state root C" (protocol section 5, D1 to D4).
/// @notice D1 anybody opens, sealed one block before so that it cannot be front-run, with a bond that doubles along the claimant's queue. One dispute is
/// active per claimant and task; the others queue and a clock starts at the turn. The claimant posts k+1 step-state roots within `respond`, else SLASHED (silent).
/// D2 the opener names a step within `name`, else CLOSED. D3 for `prove` blocks anybody proves a binding fault (a step state whose step numbers are
/// not the claim's), or demands a leaf, prepaid. Demands are answered in their order, each within `respond` of its turn, else SLASHED (withheld);
/// an answer extends `prove` by `respond`. D4 CLOSED: half of the bond burned, half to the claimant; the roots stand and a proof is accepted until
/// settlement. Closed is not acquitted. A dispute on a claim that was convicted otherwise meanwhile is closed with the whole bond returned.
interface IDisputeGame {
    enum Stage {
        NONE,
        QUEUED,
        ROOTS,
        NAME,
        PROVE,
        CLOSED,
        CONVICTED
    }

    event OpeningSealed(address indexed opener, bytes32 sealHash);
    event DisputeOpened(DisputeId indexed dispute, ClaimRef claim, address indexed claimant, address indexed opener, uint256 bondWei);
    event DisputeActivated(DisputeId indexed dispute, uint256 clockBlock);
    event StepRootsPosted(DisputeId indexed dispute, bytes32[] roots);
    event StepNamed(DisputeId indexed dispute, uint32 step, uint256 clockBlock);
    event LeafDemanded(DisputeId indexed dispute, uint32 indexed demand, address indexed challenger, uint32 stateIndex, uint8 tensor, uint32 leafIndex, uint256 clockBlock);
    event LeafAnswered(DisputeId indexed dispute, uint32 indexed demand, StateHeader header, bytes data);
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
    error HeaderMismatch(bytes32 expectedStateRoot, bytes32 actualStateRoot);
    error LeafMismatch(bytes32 root, uint256 index);
    error NoFault(uint32 expectedLocal, uint32 expectedGlobal);
    error TooManyDemands(address challenger, uint256 cap);
    error DemandUnknown(uint32 demand);
    error QueueFull(uint256 cap);
    error StepUnknown(uint32 index, uint32 count);
    error LeafUnknown(uint8 tensor, uint32 leafIndex, uint256 leafCount);
    error DisputeWindowClosed(uint256 closesBlock, uint256 blockNumber);

    /// @notice Commits to an opening: sha256(abi.encode(claim, opener, salt)).
    function sealOpening(bytes32 sealHash) external;

    /// @notice Opens the sealed dispute, at least one block later; exposes the bond.
    function openDispute(ClaimRef calldata claim, bytes32 salt) external returns (DisputeId dispute);

    /// @notice The claimant posts the k+1 state roots of the segment. `ends` opens boundaries segment and segment+1 of a solver's claim (empty for an audit's claim).
    function postStepRoots(DisputeId dispute, bytes32[] calldata roots, BoundaryProof[] calldata ends) external;

    /// @notice The opener names the step (0 .. k-1) that it will prove wrong.
    function nameStep(DisputeId dispute, uint32 step) external;

    /// @notice Anybody demands one leaf of a step state; pays demandFee to the claimant's credits from its free stake. tensor: 0 W, 1 m, 2 v.
    function demandLeaf(DisputeId dispute, uint32 stateIndex, uint8 tensor, uint32 leafIndex) external returns (uint32 demand);

    /// @notice The claimant answers the oldest open demand.
    function answerDemand(DisputeId dispute, uint32 demand, StateHeader calldata header, LeafProof calldata leaf) external;

    /// @notice Convicts: the opened header hashes to step root `stateIndex` but its step numbers are not start + stateIndex. The finder is the opener, or
    /// the caller where the dispute is closed already.
    function proveBinding(DisputeId dispute, uint32 stateIndex, StateHeader calldata header) external;

    /// @notice After a clock has run out: convicts a silent claimant or closes the dispute; at once where the claim is convicted already. Anybody.
    function timeout(DisputeId dispute) external;

    /// @dev `clockBlock` is the block from which `timeout` succeeds: an open demand's, else the stage's.
    function stageOf(DisputeId dispute) external view returns (Stage stage, uint256 clockBlock, address claimant, address opener);
    /// @notice Open (queued or active) disputes on any claim of this slot, its audits included: settlement waits for zero.
    function openCount(bytes32 task, uint32 round, uint32 slot) external view returns (uint256);
    function rootsOf(DisputeId dispute) external view returns (bytes32[] memory);
    function claimOf(DisputeId dispute) external view returns (ClaimRef memory);
    /// @notice The dispute of a claimant that is on its turn (0: none), and how many stand in the queue with it.
    function activeOf(bytes32 task, address claimant) external view returns (DisputeId dispute, uint256 queued);
    /// @notice Demands made and answered, in their order, and by when the oldest open one must be answered (0: none is open).
    function demandsOf(DisputeId dispute) external view returns (uint32 made, uint32 answered, uint256 clockBlock);
}
