// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {AuditRef, BoundaryProof, ClaimStatus, RoundStatus, StateHeader, TaskId} from "../Types.sol";

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
    /// @notice The solver was silent in its late audit (reason: start, end or leaves): settlement pays it nothing and burns F.
    event PayForfeited(TaskId indexed task, uint32 indexed round, uint32 indexed slot, bytes32 reason);
    event MergeSettled(TaskId indexed task, uint32 indexed round, address indexed poster);

    error NotEnrolled(address account);
    error AlreadyCommitted(uint32 slot);
    error OutsideWindow(uint256 opensBlock, uint256 closesBlock, uint256 blockNumber);
    error WrongStart(bytes32 expectedStateRoot, bytes32 actualStateRoot);
    error BoundaryMismatch(bytes32 claimRoot, uint32 boundary);
    error WrongClaimStatus(uint32 slot, ClaimStatus actual);
    error AlreadySealed();
    error NothingDue(uint32 slot, ClaimStatus actual);
    error NotJudged(uint32 judged, uint32 expected);
    error OtherSet(uint32 included, uint32 accepted);
    error RoundNotTrained(RoundStatus actual);
    error SlotUnknown(uint32 slot, uint32 solvers);
    error AlreadyMerged();
    error NotMerged(uint256 readyBlock, uint256 blockNumber);
    error RoundNotSettled(uint32 settled, uint32 expected);
    error DisputeOpen(uint32 slot);
    error AlreadySettled(uint32 slot);
    error NotModule(address caller);

    /// @notice One irrevocable claim a solver and round. `start` opens boundary 0: W is the global root, m and v the carried ones or zero, the steps right.
    function commit(TaskId task, uint32 round, bytes32 claimRoot, bytes32 deltaRoot, BoundaryProof calldata start) external;

    /// @notice Fixes the draw of all claims of the round from the randomness of block trainEnd + delay, shown by `proof` (IRandomness.read).
    function sealDraw(TaskId task, uint32 round, bytes calldata proof) external;

    /// @notice Computes a claim's verdict as far as the clock allows: DROPPED after trainEnd, VOID by silence, ACCEPTED or ESCALATED after
    /// compareEnd (ACCEPTED from showEnd on where every primary accepts), ACCEPTED or VOID after reserveCompareEnd. Applies no-show fees and slashes
    /// silent auditors; reserves called when half of their replay window was over pay none. Anybody; reverts when nothing is due.
    function judge(TaskId task, uint32 round, uint32 slot) external;
    /// @notice The same of slots [from, to); those of which nothing is due stay as they are.
    function judgeClaims(TaskId task, uint32 round, uint32 from, uint32 to) external;

    /// @notice Posts the outer root over the accepted claims, with mergeBond. Needs every claim judged finally. Anybody with stake.
    /// With no accepted claim nothing is posted: the verdict on the last claim merges the old root by itself (poster 0, no bond, no pay).
    /// @param included how many claims the root is over. Once all are judged the set only shrinks, so that the count names it: a root over
    /// the set before a conviction is refused, instead of costing its honest poster the bond.
    function postOuter(TaskId task, uint32 round, uint32 included, bytes32 weightsRoot, bytes32 momentumRoot) external;

    /// @notice Releases the bond of the poster whose root stands and credits its mergePay, once the merge window is over and no contest runs. Anybody.
    function settleMerge(TaskId task, uint32 round) external;

    /// @notice Fixes the late draw from the randomness of block mergedBlock + delay.
    function sealLate(TaskId task, uint32 round, bytes calldata proof) external;

    /// @notice Pays and releases everything of one claim: the solver, its auditors. From `settleBlockOf` on with no dispute open (at once in an EMPTY
    /// round); judges first what nobody judged, and forfeits the pay of a solver that was silent in its late audit. Anybody.
    function settleClaim(TaskId task, uint32 round, uint32 slot) external;
    /// @notice The same of slots [from, to), a page of a large round; claims that are settled or disputed are left out.
    function settleClaims(TaskId task, uint32 round, uint32 from, uint32 to) external;

    /// @notice Releases the enrolment exposures of verifiers and whistleblowers [from, to) (verifiers first, then whistleblowers) once every claim of the round is settled. Anybody; again at no harm.
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
    /// @notice What openings of a claim are checked against: its root, and the local step that it starts with.
    function groundOf(TaskId task, uint32 round, uint32 slot) external view returns (bytes32 claimRoot, uint32 startLocalStep);
    function drawSeedOf(TaskId task, uint32 round) external view returns (bytes32 drawSeed, bytes32 lateSeed);
    /// @notice The segment and the auditor that the draw gave to an audit; auditor 0: no such audit is drawn. Never changes once it is drawn.
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
    /// @notice Whether the reserves of one draw of this claim were called.
    function isEscalated(TaskId task, uint32 round, uint32 slot, uint32 draw) external view returns (bool);
    /// @notice From where the late deadlines count: the block in which the outer root was first posted (the empty set judged), but at most
    /// reserveCompareEnd + merge, so that a round that nobody merges ends as well. 0: not known yet.
    function mergedBlockOf(TaskId task, uint32 round) external view returns (uint256);
    /// @notice disputeEnd: openings of disputes are allowed before it, settlement from it on. While mergedBlock is unknown, the latest that it can be.
    function settleBlockOf(TaskId task, uint32 round) external view returns (uint256);
    /// @notice Over all rounds of a task: claims settled, and posted outer roots whose bond and pay `settleMerge` has still to deal with.
    function progressOf(TaskId task) external view returns (uint256 settledClaims, uint256 openMerges);
    /// @notice The step numbers that a claim must have after `innerStep` steps of its round.
    function stepsOf(TaskId task, uint32 round, uint32 slot, uint32 innerStep) external view returns (uint32 localStep, uint32 globalStep);
    /// @notice Reverts with BoundaryMismatch unless the proof opens this boundary of the claim. Says nothing of its step numbers.
    function verifyBoundary(TaskId task, uint32 round, uint32 slot, uint32 boundary, BoundaryProof calldata proof) external view;
}
