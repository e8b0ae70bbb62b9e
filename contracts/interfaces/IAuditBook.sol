// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {AuditRef, AuditStatus, BoundaryProof, Judgement, StateHeader, StateLeaves, TaskId} from "../Types.sol";

/// @title Blind audits: start leaf, sealed replay, reveal, leaf openings, computed judgement (protocol steps 5 to 8, and 12).
/// @notice The solver opens the start of a drawn segment; the auditor commits to its own result before the solver opens the end; then both
/// open the same drawn leaves and the contract compares them. Deadlines are in `docs/spec.md`, section 7.
interface IAuditBook {
    /// @notice The solver opened the start of a drawn segment.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param draw index of the draw; segmentDraws is the late audit
    /// @param start the state that the segment starts from
    event StartOpened(TaskId indexed task, uint32 indexed round, uint32 indexed slot, uint32 draw, StateHeader start);
    /// @notice An auditor committed to the end state that it computed.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param draw index of the draw; segmentDraws is the late audit
    /// @param rank 0 primary, 1 and 2 reserves
    /// @param auditor who was drawn for it
    /// @param commitment salted hash that names audit and auditor
    event ReplayCommitted(TaskId indexed task, uint32 indexed round, uint32 indexed slot, uint32 draw, uint32 rank, address auditor, bytes32 commitment);
    /// @notice An auditor says that it could not get the start state.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param draw index of the draw; segmentDraws is the late audit
    /// @param rank 0 primary, 1 and 2 reserves
    /// @param auditor who was drawn for it
    event Unserved(TaskId indexed task, uint32 indexed round, uint32 indexed slot, uint32 draw, uint32 rank, address auditor);
    /// @notice An auditor says that it cannot validate.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param draw index of the draw; segmentDraws is the late audit
    /// @param rank 0 primary, 1 and 2 reserves
    /// @param auditor who was drawn for it
    event Abstained(TaskId indexed task, uint32 indexed round, uint32 indexed slot, uint32 draw, uint32 rank, address auditor);
    /// @notice The solver opened the end of a drawn segment, and the last state of its claim.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param draw index of the draw; segmentDraws is the late audit
    /// @param end the state that the segment ends in
    /// @param last the last state of the claim
    event EndOpened(TaskId indexed task, uint32 indexed round, uint32 indexed slot, uint32 draw, StateHeader end, StateHeader last);
    /// @notice An auditor showed the end state that it had committed to.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param draw index of the draw; segmentDraws is the late audit
    /// @param rank 0 primary, 1 and 2 reserves
    /// @param auditor who was drawn for it
    /// @param end the state that it computed
    event Revealed(TaskId indexed task, uint32 indexed round, uint32 indexed slot, uint32 draw, uint32 rank, address auditor, StateHeader end);
    /// @notice The leaf draw of a phase is fixed.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param phase 0 primaries, 1 reserves, 2 late
    /// @param leafSeed seed of the draw
    event LeavesSealed(TaskId indexed task, uint32 indexed round, uint32 phase, bytes32 leafSeed);
    /// @notice The solver opened the drawn leaves of its end state.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param draw index of the draw; segmentDraws is the late audit
    /// @param phase 0 primaries, 1 reserves, 2 late
    /// @param leaves in the order of the draw
    event LeavesOpened(
        TaskId indexed task,
        uint32 indexed round,
        uint32 indexed slot,
        uint32 draw,
        uint32 phase,
        StateLeaves[] leaves
    );
    /// @notice An audit came to its judgement.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param draw index of the draw; segmentDraws is the late audit
    /// @param rank 0 primary, 1 and 2 reserves
    /// @param status ACCEPTS or REJECTS
    /// @param worst the worst of its leaves
    event AuditJudged(TaskId indexed task, uint32 indexed round, uint32 indexed slot, uint32 draw, uint32 rank, AuditStatus status, Judgement worst);
    /// @notice An auditor lost the stake behind its audit.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param draw index of the draw; segmentDraws is the late audit
    /// @param rank 0 primary, 1 and 2 reserves
    /// @param auditor who was drawn for it
    /// @param reason why, as right-padded ASCII
    event AuditorConvicted(TaskId indexed task, uint32 indexed round, uint32 indexed slot, uint32 draw, uint32 rank, address auditor, bytes32 reason);

    /// @notice The caller is not a solver of this round.
    /// @param expected the solver, where one is known
    /// @param actual who called
    error NotSolver(address expected, address actual);
    /// @notice The caller was not drawn for this audit.
    /// @param expected who was drawn
    /// @param actual who called
    error NotAuditor(address expected, address actual);
    /// @notice The audit is not where this move belongs.
    /// @param expected the status that the move needs
    /// @param actual the status that it has
    error WrongAuditStatus(AuditStatus expected, AuditStatus actual);
    /// @notice Too early or too late.
    /// @param opensBlock first block in which it is allowed
    /// @param closesBlock first block in which it is too late
    /// @param blockNumber the block of the call
    error OutsideWindow(uint256 opensBlock, uint256 closesBlock, uint256 blockNumber);
    /// @notice The solver has not opened the start of this draw.
    /// @param slot the claim: index of its solver among the enrolled
    /// @param draw index of the draw; segmentDraws is the late audit
    error StartNotOpened(uint32 slot, uint32 draw);
    /// @notice The solver has not opened the end of this draw.
    /// @param slot the claim: index of its solver among the enrolled
    /// @param draw index of the draw; segmentDraws is the late audit
    error EndNotOpened(uint32 slot, uint32 draw);
    /// @notice This was opened before.
    /// @param slot the claim: index of its solver among the enrolled
    /// @param draw index of the draw; segmentDraws is the late audit
    error AlreadyOpened(uint32 slot, uint32 draw);
    /// @notice What is revealed is not what was committed to.
    /// @param expected the commitment
    /// @param actual the hash of what was given
    error CommitmentMismatch(bytes32 expected, bytes32 actual);
    /// @notice A state carries other step numbers than its place demands.
    /// @param expectedLocal local step that is due
    /// @param actualLocal local step that was given
    /// @param expectedGlobal global step that is due
    /// @param actualGlobal global step that was given
    error WrongSteps(uint32 expectedLocal, uint32 actualLocal, uint32 expectedGlobal, uint32 actualGlobal);
    /// @notice Of several audits in one call not each has what it needs.
    /// @param expected how many audits there are
    /// @param actual how many values were given
    error WrongCount(uint256 expected, uint256 actual);
    /// @notice Another number of leaves than the draw asks for.
    /// @param expected what is due
    /// @param actual what was given
    error WrongLeafCount(uint256 expected, uint256 actual);
    /// @notice A leaf is not under its root.
    /// @param root the tree's root
    /// @param index index of the leaf
    error LeafMismatch(bytes32 root, uint256 index);
    /// @notice The leaf draw of this phase is fixed already.
    /// @param seed the seed that is there
    error AlreadySealed(bytes32 seed);
    /// @notice Only another contract of the protocol may call this.
    /// @param caller who called
    error NotModule(address caller);
    /// @notice There is no such audit.
    /// @param slot the claim: index of its solver among the enrolled
    /// @param draw index of the draw; segmentDraws is the late audit
    /// @param rank 0 primary, 1 and 2 reserves
    error NotDrawn(uint32 slot, uint32 draw, uint32 rank);
    /// @notice The reserves of this draw were not called.
    /// @param slot the claim: index of its solver among the enrolled
    /// @param draw index of the draw; segmentDraws is the late audit
    error NotEscalated(uint32 slot, uint32 draw);
    /// @notice The leaves of this phase are not drawn or not opened.
    /// @param slot the claim: index of its solver among the enrolled
    /// @param draw index of the draw; segmentDraws is the late audit
    /// @param phase 0 primaries, 1 reserves, 2 late
    error LeavesNotOpened(uint32 slot, uint32 draw, uint32 phase);
    /// @notice This draw is not played in that phase.
    /// @param draw index of the draw; segmentDraws is the late audit
    /// @param phase 0 primaries, 1 reserves, 2 late
    error WrongPhase(uint32 draw, uint32 phase);
    /// @notice The header is not the one that was opened or revealed.
    /// @param expectedStateRoot root of the state that is due
    /// @param actualStateRoot root of the state that was given
    error HeaderMismatch(bytes32 expectedStateRoot, bytes32 actualStateRoot);
    /// @notice The learning rate is not the schedule's.
    /// @param scheduleRoot tree over the summed learning rate of every segment
    /// @param segmentIndex the segment, counted over all rounds
    error ScheduleMismatch(bytes32 scheduleRoot, uint256 segmentIndex);

    /// @notice Step 5. The solver opens boundary `segment` of the draw (late audits too).
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param draw index of the draw; segmentDraws is the late audit
    /// @param start boundary `segment` of the claim
    function openStart(TaskId task, uint32 round, uint32 draw, BoundaryProof calldata start) external;
    /// @notice The same of draws 0, 1, ... in one call.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param starts boundary `segment` of draw 0, 1, ...
    function openStarts(TaskId task, uint32 round, BoundaryProof[] calldata starts) external;

    /// @notice Step 6. The drawn auditor commits to its end state (`auditCommitment`, docs/spec.md section 3); exposes auditStake.
    /// @param ref the audit
    /// @param commitment salted hash that names audit and auditor
    function commitReplay(AuditRef calldata ref, bytes32 commitment) external;
    /// @notice The same of several audits in one call: all or none.
    /// @param refs the audits
    /// @param commitments one for each audit
    function commitReplays(AuditRef[] calldata refs, bytes32[] calldata commitments) external;

    /// @notice Step 6. The drawn auditor could not get the start state.
    /// @param ref the audit
    function sayUnserved(AuditRef calldata ref) external;

    /// @notice Step 6. The drawn auditor cannot validate (not a vote).
    /// @param ref the audit
    function abstain(AuditRef calldata ref) external;

    /// @notice Step 7. The solver opens boundary `segment + 1` of the draw and the last boundary of its claim.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param draw index of the draw; segmentDraws is the late audit
    /// @param end boundary `segment + 1` of the claim
    /// @param last its last boundary
    function openEnd(TaskId task, uint32 round, uint32 draw, BoundaryProof calldata end, BoundaryProof calldata last) external;
    /// @notice The same of draws 0, 1, ... in one call.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param ends boundary `segment + 1` of draw 0, 1, ...
    /// @param last the last boundary of the claim
    function openEnds(TaskId task, uint32 round, BoundaryProof[] calldata ends, BoundaryProof calldata last) external;

    /// @notice Step 7. The auditor reveals its end state; equal to the solver's it ends the audit: ACCEPTS.
    /// @param ref the audit
    /// @param end the end state that the auditor computed
    /// @param salt that of its commitment
    function reveal(AuditRef calldata ref, StateHeader calldata end, bytes32 salt) external;
    /// @notice The same of several audits in one call: all or none.
    /// @param refs the audits
    /// @param ends one end state for each audit
    /// @param salts one for each audit
    function reveals(AuditRef[] calldata refs, StateHeader[] calldata ends, bytes32[] calldata salts) external;

    /// @notice Step 8. Fixes the leaf draw of a phase (0 primary, 1 reserves, 2 late) from the randomness of its block. Anybody.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param phase 0 primaries, 1 reserves, 2 late
    /// @param proof shows the randomness (IRandomness.read)
    function sealLeaves(TaskId task, uint32 round, uint32 phase, bytes calldata proof) external;

    /// @notice Step 8. The solver opens the drawn leaves of its end state for one draw; serves all ranks of a phase.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param draw index of the draw; segmentDraws is the late audit
    /// @param phase 0 primaries, 1 reserves, 2 late
    /// @param end the solver's end state
    /// @param leaves in the order of the draw
    function openLeaves(TaskId task, uint32 round, uint32 draw, uint32 phase, StateHeader calldata end, StateLeaves[] calldata leaves)
        external;

    /// @notice Step 8. The auditor opens the same leaves of its own end state, hands in the solver's beside them (checked against the solver's root),
    /// the headers of both, the solver's first, and may add one more index of its choice as the last pair. The schedule leaf gives the segment's summed learning rate. The contract judges.
    /// @param ref the audit
    /// @param ends the solver's end state, then the auditor's
    /// @param claimed leaves of the solver's end state
    /// @param replayed leaves of the auditor's, of the same indices
    /// @param extraIndex empty, or the index of the last pair
    /// @param learningRateSum of the segment, in units of 2^-64
    /// @param schedulePath its place under scheduleRoot
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
    /// @param ref the audit
    /// @return status the audit's status after the deadline; a revealed audit that differs where the leaf draw was never sealed REJECTS; one that is
    /// still REVEALED after openEnd waits for a solver that did not open its end or its leaves
    function enforce(AuditRef calldata ref) external returns (AuditStatus status);
    /// @notice RoundLedger: of all audits of one claim, slashes the silent whom nobody has slashed yet; pays and releases the others. Once, at settlement.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    function settle(TaskId task, uint32 round, uint32 slot) external;
    /// @notice DisputeGame: a conviction of an auditor's own claim.
    /// @param ref the audit
    /// @param finder who found the fault; 0: nobody is paid
    /// @param reason why, as right-padded ASCII
    function convictAuditor(AuditRef calldata ref, address finder, bytes32 reason) external;

    // Views -------------------------------------------------------------------------------------------------------
    /// @notice Where an audit stands.
    /// @param ref the audit
    /// @return as far as somebody moved it: deadlines are applied by `enforce`
    function statusOf(AuditRef calldata ref) external view returns (AuditStatus);
    /// @notice Whether the solver did what it must for one draw: opened the start, the end, the leaves of `phase` (0 primary, 1 reserves, 2 late).
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param draw index of the draw; segmentDraws is the late audit
    /// @param phase 0 primaries, 1 reserves, 2 late
    /// @return start whether the start is opened
    /// @return end whether the end is
    /// @return leaves whether the leaves of the phase are
    function openedOf(TaskId task, uint32 round, uint32 slot, uint32 draw, uint32 phase) external view returns (bool start, bool end, bool leaves);
    /// @notice Whether the solver opened start and end of all of the first `draws` draws, and every primary of theirs accepts.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param draws how many draws are looked at
    /// @return starts whether every start is opened
    /// @return ends whether every end is
    /// @return accepts whether every primary accepts
    function summaryOf(TaskId task, uint32 round, uint32 slot, uint32 draws) external view returns (bool starts, bool ends, bool accepts);
    /// @notice Root of the start state that the solver opened for the draw.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param draw index of the draw; segmentDraws is the late audit
    /// @return root of the state; 0: not opened
    function startOf(TaskId task, uint32 round, uint32 slot, uint32 draw) external view returns (bytes32);
    /// @notice Of the last state of the claim, once opened, the weights; where moments carry over, all of it.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @return the last state; zeros where it is not opened
    function lastOf(TaskId task, uint32 round, uint32 slot) external view returns (StateHeader memory);
    /// @notice Root of the end state that the auditor revealed.
    /// @param ref the audit
    /// @return root of the state; 0: not revealed
    function revealedOf(AuditRef calldata ref) external view returns (bytes32);
    /// @notice The seed of the leaf draw of a phase.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param phase 0 primaries, 1 reserves, 2 late
    /// @return 0: not sealed
    function leafSeedOf(TaskId task, uint32 round, uint32 phase) external view returns (bytes32);
}
