// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {AuditRef, BoundaryProof, ClaimStatus, StateHeader, TaskId} from "../Types.sol";

/// @title Claims of solvers, the draw, verdicts, the outer root and settlement (protocol steps 3, 4, 9, 10, 11, 13).
/// @notice slot = index of the solver among the enrolled. The verdict is computed from the audits in AuditBook; nobody votes.
interface IRoundLedger {
    event Committed(TaskId indexed task, uint32 indexed round, uint32 indexed slot, address solver, bytes32 claimRoot, bytes32 deltaRoot);
    event DrawSealed(TaskId indexed task, uint32 indexed round, bytes32 drawSeed);
    event LateSealed(TaskId indexed task, uint32 indexed round, bytes32 lateSeed);
    event ClaimJudged(TaskId indexed task, uint32 indexed round, uint32 indexed slot, ClaimStatus status, bytes32 reason);
    event OuterPosted(TaskId indexed task, uint32 indexed round, address indexed poster, bytes32 weightsRoot, bytes32 momentumRoot, uint256 included);
    event RoundMerged(TaskId indexed task, uint32 indexed round, uint256 readyBlock, bytes32 weightsRoot, bytes32 momentumRoot);
    event ClaimSettled(TaskId indexed task, uint32 indexed round, uint32 indexed slot, ClaimStatus status);
    event EnrolmentSettled(TaskId indexed task, uint32 indexed round, address indexed account);

    error NotEnrolled(address account);
    error AlreadyCommitted(uint32 slot);
    error OutsideWindow(uint256 opensBlock, uint256 closesBlock, uint256 blockNumber);
    error WrongStart(bytes32 expectedStateRoot, bytes32 actualStateRoot);
    error BoundaryMismatch(bytes32 claimRoot, uint32 boundary);
    error WrongClaimStatus(uint32 slot, ClaimStatus actual);
    error AlreadySealed();
    error RandomnessGone(uint256 blockNumber);
    error NotJudged(uint32 slot);
    error AlreadyMerged();
    error DisputeOpen(uint32 slot);
    error AlreadySettled(uint32 slot);
    error NotModule(address caller);

    /// @notice One irrevocable claim a solver and round. `start` opens boundary 0: W is the global root, m and v the carried ones or zero, the steps right.
    function commit(TaskId task, uint32 round, bytes32 claimRoot, bytes32 deltaRoot, BoundaryProof calldata start) external;

    /// @notice Fixes the draw of all claims of the round from the hash of block trainEnd + delay.
    function sealDraw(TaskId task, uint32 round) external;

    /// @notice Computes a claim's verdict as far as the clock allows: DROPPED after trainEnd, VOID by silence, ACCEPTED or ESCALATED after
    /// compareEnd, ACCEPTED or VOID after reserveCompareEnd. Applies no-show fees and slashes silent auditors. Anybody; reverts when nothing is due.
    function judge(TaskId task, uint32 round, uint32 slot) external;

    /// @notice Posts the outer root over the accepted claims, with mergeBond. Needs every claim judged finally. Anybody with stake.
    /// With no accepted claim the root must be the old one, no bond is taken and no pay is due.
    function postOuter(TaskId task, uint32 round, bytes32 weightsRoot, bytes32 momentumRoot) external;

    /// @notice Fixes the late draw from the hash of block mergedBlock + delay.
    function sealLate(TaskId task, uint32 round) external;

    /// @notice Pays and releases everything of one claim: the solver, its auditors. After disputeEnd with no dispute open. Anybody.
    function settleClaim(TaskId task, uint32 round, uint32 slot) external;

    /// @notice Releases the enrolment exposures of verifiers and whistleblowers [from, to) (verifiers first, then whistleblowers) after the round's last deadline. Anybody.
    function settleEnrolments(TaskId task, uint32 round, uint32 from, uint32 to) external;

    // Modules only ------------------------------------------------------------------------------------------------
    /// @notice DisputeGame and OuterContest: a conviction of the solver's own claim. Slashes its exposure; before the merge the claim also leaves the included set.
    function convictSolver(TaskId task, uint32 round, uint32 slot, address finder, bytes32 reason) external;
    /// @notice OuterContest: replaces the posted root by the rival one (poster and bond included) and restarts the merge window.
    function replaceOuter(TaskId task, uint32 round, address poster, bytes32 weightsRoot, bytes32 momentumRoot) external;
    /// @notice OuterContest: holds or frees `advance` while a contest runs; freeing restarts no window.
    function setContested(TaskId task, uint32 round, bool contested) external;

    // Views -------------------------------------------------------------------------------------------------------
    function claimOf(TaskId task, uint32 round, uint32 slot)
        external
        view
        returns (address solver, ClaimStatus status, bool settled, bytes32 claimRoot, bytes32 deltaRoot);
    function drawSeedOf(TaskId task, uint32 round) external view returns (bytes32 drawSeed, bytes32 lateSeed);
    /// @notice The segment and the auditor that the draw gave to an audit.
    function drawnOf(AuditRef calldata ref) external view returns (uint32 segment, address auditor);
    function outerOf(TaskId task, uint32 round)
        external
        view
        returns (address poster, bytes32 weightsRoot, bytes32 momentumRoot, uint256 postedBlock, bool contested);
    /// @notice Whether the outer root of `round` stands: posted, its merge window over, not contested.
    function isMerged(TaskId task, uint32 round) external view returns (bool);
    /// @notice The global model that `round` starts from.
    function globalOf(TaskId task, uint32 round) external view returns (bytes32 weightsRoot, bytes32 momentumRoot);
    /// @notice The start state that the contract expects of `solver`.
    function expectedStart(TaskId task, uint32 round, address solver) external view returns (StateHeader memory);
    /// @notice Slots of the accepted claims in ascending order of shard.
    function includedOf(TaskId task, uint32 round) external view returns (uint32[] memory slots);
    function verifyBoundary(TaskId task, uint32 round, uint32 slot, uint32 boundary, BoundaryProof calldata proof) external view;
}
