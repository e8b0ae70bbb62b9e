// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {AuditRef, AuditStatus, BoundaryProof, Judgement, StateHeader, StateLeaves, TaskId} from "../Types.sol";

/// @title Blind audits: start leaf, sealed replay, reveal, leaf openings, computed judgement (protocol steps 5 to 8, and 12).
/// @notice The solver opens the start of a drawn segment; the auditor commits to its own result before the solver opens the end; then both
/// open the same drawn leaves and the contract compares them. Deadlines are in `docs/spec.md`, section 7.
interface IAuditBook {
    event StartOpened(TaskId indexed task, uint32 indexed round, uint32 indexed slot, uint32 draw, StateHeader start);
    event ReplayCommitted(TaskId indexed task, uint32 indexed round, uint32 indexed slot, uint32 draw, uint32 rank, address auditor, bytes32 commitment);
    event Unserved(TaskId indexed task, uint32 indexed round, uint32 indexed slot, uint32 draw, uint32 rank, address auditor);
    event Abstained(TaskId indexed task, uint32 indexed round, uint32 indexed slot, uint32 draw, uint32 rank, address auditor);
    event EndOpened(TaskId indexed task, uint32 indexed round, uint32 indexed slot, uint32 draw, StateHeader end, StateHeader last);
    event Revealed(TaskId indexed task, uint32 indexed round, uint32 indexed slot, uint32 draw, uint32 rank, address auditor, StateHeader end);
    event LeavesSealed(TaskId indexed task, uint32 indexed round, uint32 phase, bytes32 leafSeed);
    event LeavesOpened(
        TaskId indexed task,
        uint32 indexed round,
        uint32 indexed slot,
        uint32 draw,
        uint32 phase,
        StateLeaves[] leaves
    );
    event AuditJudged(TaskId indexed task, uint32 indexed round, uint32 indexed slot, uint32 draw, uint32 rank, AuditStatus status, Judgement worst);
    event AuditorConvicted(TaskId indexed task, uint32 indexed round, uint32 indexed slot, uint32 draw, uint32 rank, address auditor, bytes32 reason);

    error NotSolver(address expected, address actual);
    error NotAuditor(address expected, address actual);
    error WrongAuditStatus(AuditStatus expected, AuditStatus actual);
    error OutsideWindow(uint256 opensBlock, uint256 closesBlock, uint256 blockNumber);
    error StartNotOpened(uint32 slot, uint32 draw);
    error EndNotOpened(uint32 slot, uint32 draw);
    error AlreadyOpened(uint32 slot, uint32 draw);
    error CommitmentMismatch(bytes32 expected, bytes32 actual);
    error WrongSteps(uint32 expectedLocal, uint32 actualLocal, uint32 expectedGlobal, uint32 actualGlobal);
    /// @notice Of several audits in one call not each has what it needs.
    error WrongCount(uint256 expected, uint256 actual);
    error WrongLeafCount(uint256 expected, uint256 actual);
    error LeafMismatch(bytes32 root, uint256 index);
    error AlreadySealed();
    error NotModule(address caller);
    error NotDrawn(uint32 slot, uint32 draw, uint32 rank);
    error NotEscalated(uint32 slot, uint32 draw);
    error LeavesNotOpened(uint32 slot, uint32 draw, uint32 phase);
    error WrongPhase(uint32 draw, uint32 phase);
    /// @notice The header is not the one that was opened or revealed.
    error HeaderMismatch(bytes32 expectedStateRoot, bytes32 actualStateRoot);
    error ScheduleMismatch(bytes32 scheduleRoot, uint256 segmentIndex);

    /// @notice Step 5. The solver opens boundary `segment` of the draw (late audits too).
    function openStart(TaskId task, uint32 round, uint32 draw, BoundaryProof calldata start) external;
    /// @notice The same of draws 0, 1, ... in one call.
    function openStarts(TaskId task, uint32 round, BoundaryProof[] calldata starts) external;

    /// @notice Step 6. The drawn auditor commits to its end state (`auditCommitment`, docs/spec.md section 3); exposes auditStake.
    function commitReplay(AuditRef calldata ref, bytes32 commitment) external;
    /// @notice The same of several audits in one call: all or none.
    function commitReplays(AuditRef[] calldata refs, bytes32[] calldata commitments) external;

    /// @notice Step 6. The drawn auditor could not get the start state.
    function sayUnserved(AuditRef calldata ref) external;

    /// @notice Step 6. The drawn auditor cannot validate (not a vote).
    function abstain(AuditRef calldata ref) external;

    /// @notice Step 7. The solver opens boundary `segment + 1` of the draw and the last boundary of its claim.
    function openEnd(TaskId task, uint32 round, uint32 draw, BoundaryProof calldata end, BoundaryProof calldata last) external;
    /// @notice The same of draws 0, 1, ... in one call.
    function openEnds(TaskId task, uint32 round, BoundaryProof[] calldata ends, BoundaryProof calldata last) external;

    /// @notice Step 7. The auditor reveals its end state; equal to the solver's it ends the audit: ACCEPTS.
    function reveal(AuditRef calldata ref, StateHeader calldata end, bytes32 salt) external;
    /// @notice The same of several audits in one call: all or none.
    function reveals(AuditRef[] calldata refs, StateHeader[] calldata ends, bytes32[] calldata salts) external;

    /// @notice Step 8. Fixes the leaf draw of a phase (0 primary, 1 reserves, 2 late) from the randomness of its block. Anybody.
    function sealLeaves(TaskId task, uint32 round, uint32 phase, bytes calldata proof) external;

    /// @notice Step 8. The solver opens the drawn leaves of its end state for one draw; serves all ranks of a phase.
    function openLeaves(TaskId task, uint32 round, uint32 draw, uint32 phase, StateHeader calldata end, StateLeaves[] calldata leaves)
        external;

    /// @notice Step 8. The auditor opens the same leaves of its own end state, hands in the solver's beside them (checked against the solver's root),
    /// the headers of both, the solver's first, and may add one more index of its choice as the last pair. The schedule leaf gives the segment's summed learning rate. The contract judges.
    function compareLeaves(
        AuditRef calldata ref,
        StateHeader[2] calldata ends,
        StateLeaves[] calldata claimed,
        StateLeaves[] calldata replayed,
        uint32[] calldata extraIndex,
        uint256 learningRateSum,
        bytes32[] calldata schedulePath
    ) external;

    // Modules only ------------------------------------------------------------------------------------------------
    /// @notice RoundLedger: deadline work on one audit, idempotent: slashes an auditor that committed and did not reveal, or did not answer opened
    /// leaves; burns F of one that was silent though the start was opened (a reserve only when its draw was escalated).
    /// @return status the audit's status after the deadline; a revealed audit that differs where the leaf draw was never sealed REJECTS; one that is
    /// still REVEALED after openEnd waits for a solver that did not open its end or its leaves
    function enforce(AuditRef calldata ref) external returns (AuditStatus status);
    /// @notice RoundLedger: of all audits of one claim, slashes the silent whom nobody has slashed yet; pays and releases the others. Once, at settlement.
    function settle(TaskId task, uint32 round, uint32 slot) external;
    /// @notice DisputeGame: a conviction of an auditor's own claim.
    function convictAuditor(AuditRef calldata ref, address finder, bytes32 reason) external;

    // Views -------------------------------------------------------------------------------------------------------
    function statusOf(AuditRef calldata ref) external view returns (AuditStatus);
    /// @notice Whether the solver did what it must for one draw: opened the start, the end, the leaves of `phase` (0 primary, 1 reserves, 2 late).
    function openedOf(TaskId task, uint32 round, uint32 slot, uint32 draw, uint32 phase) external view returns (bool start, bool end, bool leaves);
    /// @notice Whether the solver opened start and end of all of the first `draws` draws, and every primary of theirs accepts.
    function summaryOf(TaskId task, uint32 round, uint32 slot, uint32 draws) external view returns (bool starts, bool ends, bool accepts);
    /// @notice Root of the start state that the solver opened for the draw.
    function startOf(TaskId task, uint32 round, uint32 slot, uint32 draw) external view returns (bytes32);
    /// @notice Of the last state of the claim, once opened, the weights; where moments carry over, all of it.
    function lastOf(TaskId task, uint32 round, uint32 slot) external view returns (StateHeader memory);
    /// @notice Root of the end state that the auditor revealed.
    function revealedOf(AuditRef calldata ref) external view returns (bytes32);
    function leafSeedOf(TaskId task, uint32 round, uint32 phase) external view returns (bytes32);
}
