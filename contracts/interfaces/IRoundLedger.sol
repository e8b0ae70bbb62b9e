// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {AuditRef, BoundaryProof, ClaimStatus, RoundStatus, StateHeader, TaskId} from "../Types.sol";

/// @title Claims of solvers, the draw, verdicts, the outer root and settlement (protocol steps 3, 4, 9, 10, 11, 13).
/// @notice slot = index of the solver among the enrolled. The verdict is computed from the audits in AuditBook; nobody votes.
interface IRoundLedger {
    /// @notice A solver made its claim.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param solver who made the claim
    /// @param claimRoot root of the claim's boundary tree
    /// @param deltaRoot tensor tree of the pseudo-gradient
    event Committed(TaskId indexed task, uint32 indexed round, uint32 indexed slot, address solver, bytes32 claimRoot, bytes32 deltaRoot);
    /// @notice The draw of the first audits is fixed.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param drawSeed its seed
    event DrawSealed(TaskId indexed task, uint32 indexed round, bytes32 drawSeed);
    /// @notice The draw of the late audits is fixed.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param lateSeed its seed
    event LateSealed(TaskId indexed task, uint32 indexed round, bytes32 lateSeed);
    /// @notice A claim changed its status.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param status the new one
    /// @param reason why, as right-padded ASCII
    event ClaimJudged(TaskId indexed task, uint32 indexed round, uint32 indexed slot, ClaimStatus status, bytes32 reason);
    /// @notice An outer root was posted, by its poster or in place of another.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param poster who posted the root; 0 where nobody did
    /// @param weightsRoot tensor tree of the outer weights
    /// @param momentumRoot tensor tree of the outer momentum
    /// @param included how many claims it is over
    event OuterPosted(TaskId indexed task, uint32 indexed round, address indexed poster, bytes32 weightsRoot, bytes32 momentumRoot, uint256 included);
    /// @notice A root stands from a block on unless it is contested.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param readyBlock that block
    /// @param weightsRoot tensor tree of the outer weights
    /// @param momentumRoot tensor tree of the outer momentum
    event RoundMerged(TaskId indexed task, uint32 indexed round, uint256 readyBlock, bytes32 weightsRoot, bytes32 momentumRoot);
    /// @notice A claim was paid and released.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param status its last one
    event ClaimSettled(TaskId indexed task, uint32 indexed round, uint32 indexed slot, ClaimStatus status);
    /// @notice An auditor's enrolment was released.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param account whose
    event EnrolmentSettled(TaskId indexed task, uint32 indexed round, address indexed account);
    /// @notice The solver was silent in its late audit (reason: start, end or leaves): settlement pays it nothing and burns F.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param reason why, as right-padded ASCII
    event PayForfeited(TaskId indexed task, uint32 indexed round, uint32 indexed slot, bytes32 reason);
    /// @notice The poster of the root that stands was paid.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param poster who posted it
    event MergeSettled(TaskId indexed task, uint32 indexed round, address indexed poster);

    /// @notice The account is no solver of this round.
    /// @param account who called
    error NotEnrolled(address account);
    /// @notice A claim is made once.
    /// @param slot the claim: index of its solver among the enrolled
    error AlreadyCommitted(uint32 slot);
    /// @notice Too early or too late.
    /// @param opensBlock first block in which it is allowed
    /// @param closesBlock first block in which it is too late
    /// @param blockNumber the block of the call
    error OutsideWindow(uint256 opensBlock, uint256 closesBlock, uint256 blockNumber);
    /// @notice The claim does not start from the state that the round gives its solver.
    /// @param expectedStateRoot root of the state that is due
    /// @param actualStateRoot root of the state that was given
    error WrongStart(bytes32 expectedStateRoot, bytes32 actualStateRoot);
    /// @notice The proof does not open this boundary of the claim.
    /// @param claimRoot root of the claim's boundary tree
    /// @param boundary index of the boundary: 0 is the start of the round
    error BoundaryMismatch(bytes32 claimRoot, uint32 boundary);
    /// @notice A claim in this status cannot be convicted.
    /// @param slot the claim: index of its solver among the enrolled
    /// @param actual the status that it has
    error WrongClaimStatus(uint32 slot, ClaimStatus actual);
    /// @notice This draw is fixed already.
    /// @param seed the seed that is there
    error AlreadySealed(bytes32 seed);
    /// @notice No deadline of this claim has passed.
    /// @param slot the claim: index of its solver among the enrolled
    /// @param actual the status that it has
    error NothingDue(uint32 slot, ClaimStatus actual);
    /// @notice Not every claim has its last verdict.
    /// @param judged how many have
    /// @param expected how many there are
    error NotJudged(uint32 judged, uint32 expected);
    /// @notice The root is over another number of claims.
    /// @param included what was given
    /// @param accepted how many are accepted
    error OtherSet(uint32 included, uint32 accepted);
    /// @notice The round has not come to training.
    /// @param actual the status that it has
    error RoundNotTrained(RoundStatus actual);
    /// @notice The round has no such slot.
    /// @param slot what was given
    /// @param solvers how many there are
    error SlotUnknown(uint32 slot, uint32 solvers);
    /// @notice The outer root is posted, settled or final.
    /// @param poster who posted the root; 0 where nobody did
    /// @param postedBlock the block in which it was posted
    error AlreadyMerged(address poster, uint256 postedBlock);
    /// @notice The outer root does not stand, or no late clock runs yet.
    /// @param readyBlock first block in which it is allowed
    /// @param blockNumber the block of the call
    error NotMerged(uint256 readyBlock, uint256 blockNumber);
    /// @notice Claims of the round are not settled.
    /// @param settled how many are
    /// @param expected how many there are
    error RoundNotSettled(uint32 settled, uint32 expected);
    /// @notice A dispute on the claim holds its settlement.
    /// @param slot the claim: index of its solver among the enrolled
    error DisputeOpen(uint32 slot);
    /// @notice A claim is settled once.
    /// @param slot the claim: index of its solver among the enrolled
    error AlreadySettled(uint32 slot);
    /// @notice Only another contract of the protocol may call this.
    /// @param caller who called
    error NotModule(address caller);

    /// @notice One irrevocable claim a solver and round. `start` opens boundary 0: W is the global root, m and v the carried ones or zero, the steps right.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param claimRoot root of the claim's boundary tree
    /// @param deltaRoot tensor tree of the pseudo-gradient
    /// @param start boundary 0 of the claim
    function commit(TaskId task, uint32 round, bytes32 claimRoot, bytes32 deltaRoot, BoundaryProof calldata start) external;

    /// @notice Fixes the draw of all claims of the round from the randomness of block trainEnd + delay, shown by `proof` (IRandomness.read).
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param proof shows the randomness (IRandomness.read)
    function sealDraw(TaskId task, uint32 round, bytes calldata proof) external;

    /// @notice Computes a claim's verdict as far as the clock allows: DROPPED after trainEnd, VOID by silence, ACCEPTED or ESCALATED after
    /// compareEnd (ACCEPTED from showEnd on where every primary accepts), ACCEPTED or VOID after reserveCompareEnd. Applies no-show fees and slashes
    /// silent auditors; reserves called when half of their replay window was over pay none. Anybody; reverts when nothing is due.
    /// @dev A draw without a majority: "rejected" where somebody REJECTS; "silent" where whoever spoke accepts; else "undecided".
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    function judge(TaskId task, uint32 round, uint32 slot) external;
    /// @notice The same of slots [from, to); those of which nothing is due stay as they are.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param from first slot
    /// @param to end of the slots, itself not among them
    function judgeClaims(TaskId task, uint32 round, uint32 from, uint32 to) external;

    /// @notice Posts the outer root over the accepted claims, with mergeBond. Needs every claim judged finally. Anybody with stake.
    /// With no accepted claim nothing is posted: the verdict on the last claim merges the old root by itself (poster 0, no bond, no pay).
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param included how many claims the root is over. Once all are judged the set only shrinks, so that the count names it: a root over
    /// the set before a conviction is refused, instead of costing its honest poster the bond.
    /// @param weightsRoot tensor tree of the outer weights
    /// @param momentumRoot tensor tree of the outer momentum
    function postOuter(TaskId task, uint32 round, uint32 included, bytes32 weightsRoot, bytes32 momentumRoot) external;

    /// @notice Releases the bond of the poster whose root stands and credits its mergePay, once the merge window is over and no contest runs. Anybody.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    function settleMerge(TaskId task, uint32 round) external;

    /// @notice Fixes the late draw from the randomness of block mergedBlock + delay.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param proof shows the randomness (IRandomness.read)
    function sealLate(TaskId task, uint32 round, bytes calldata proof) external;

    /// @notice Pays and releases everything of one claim: the solver, its auditors. From `settleBlockOf` on with no dispute open (at once in an EMPTY
    /// round); judges first what nobody judged, and forfeits the pay of a solver that was silent in its late audit. The pay of a claim that is VOID
    /// though nobody rejects it is burned, but for what its solver gets of it: half of what silent reserves burned. Anybody.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    function settleClaim(TaskId task, uint32 round, uint32 slot) external;
    /// @notice The same of slots [from, to), a page of a large round; claims that are settled or disputed are left out.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param from first slot
    /// @param to end of the slots, itself not among them
    function settleClaims(TaskId task, uint32 round, uint32 from, uint32 to) external;

    /// @notice Releases the enrolment exposures of verifiers and whistleblowers [from, to) (verifiers first, then whistleblowers) once every claim of the round is settled. Anybody; again at no harm.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param from first of the page
    /// @param to end of the page, itself not in it
    function settleEnrolments(TaskId task, uint32 round, uint32 from, uint32 to) external;

    // Modules only ------------------------------------------------------------------------------------------------
    /// @notice DisputeGame and OuterContest: a conviction of the solver's own claim. Slashes its exposure; before the merge the claim also leaves the included set.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param finder who found the fault; 0: nobody is paid
    /// @param reason why, as right-padded ASCII
    function convictSolver(TaskId task, uint32 round, uint32 slot, address finder, bytes32 reason) external;
    /// @notice OuterContest: replaces the posted root by the rival one (poster and bond included) and restarts the merge window.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param poster the rival that takes over
    /// @param weightsRoot tensor tree of the outer weights
    /// @param momentumRoot tensor tree of the outer momentum
    function replaceOuter(TaskId task, uint32 round, address poster, bytes32 weightsRoot, bytes32 momentumRoot) external;
    /// @notice OuterContest: holds or frees `advance` while a contest runs; freeing restarts no window.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param contested whether a contest runs
    function setContested(TaskId task, uint32 round, bool contested) external;

    // Views -------------------------------------------------------------------------------------------------------
    /// @notice A claim, and whose it is.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @return solver who made it
    /// @return status where it stands
    /// @return settled whether it was paid and released
    /// @return claimRoot root of its boundary tree
    /// @return deltaRoot tensor tree of its pseudo-gradient
    function claimOf(TaskId task, uint32 round, uint32 slot)
        external
        view
        returns (address solver, ClaimStatus status, bool settled, bytes32 claimRoot, bytes32 deltaRoot);
    /// @notice What openings of a claim are checked against: its root, and the local step that it starts with.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @return claimRoot root of its boundary tree
    /// @return startLocalStep the local step
    function groundOf(TaskId task, uint32 round, uint32 slot) external view returns (bytes32 claimRoot, uint32 startLocalStep);
    /// @notice The seeds of a round's draws; 0: not sealed.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @return drawSeed of the first audits
    /// @return lateSeed of the late ones
    function drawSeedOf(TaskId task, uint32 round) external view returns (bytes32 drawSeed, bytes32 lateSeed);
    /// @notice The segment and the auditor that the draw gave to an audit; auditor 0: no such audit is drawn. Never changes once it is drawn.
    /// @param ref the audit
    /// @return segment index of the segment in the round
    /// @return auditor who was drawn
    function drawnOf(AuditRef calldata ref) external view returns (uint32 segment, address auditor);
    /// @notice The outer root of a round.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @return poster who posted it; 0: nobody, over an empty set
    /// @return weightsRoot tensor tree of the weights
    /// @return momentumRoot tensor tree of the momentum
    /// @return postedBlock start of its merge window; 0: there is none yet
    /// @return contested whether a contest runs
    function outerOf(TaskId task, uint32 round)
        external
        view
        returns (address poster, bytes32 weightsRoot, bytes32 momentumRoot, uint256 postedBlock, bool contested);
    /// @notice Whether the outer root of `round` stands: posted, its merge window over, not contested.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @return true: the next round may start
    function isMerged(TaskId task, uint32 round) external view returns (bool);
    /// @notice The global model that `round` starts from.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @return weightsRoot tensor tree of the weights
    /// @return momentumRoot tensor tree of the momentum
    function globalOf(TaskId task, uint32 round) external view returns (bytes32 weightsRoot, bytes32 momentumRoot);
    /// @notice The start state that the contract expects of `solver`.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param solver an enrolled solver
    /// @return the state
    function expectedStart(TaskId task, uint32 round, address solver) external view returns (StateHeader memory);
    /// @notice Slots of the accepted claims in ascending order of shard.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @return slots of the claims
    function includedOf(TaskId task, uint32 round) external view returns (uint32[] memory slots);
    /// @notice Whether the reserves of one draw of this claim were called.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param draw index of the draw; segmentDraws is the late audit
    /// @return true: they were called
    function isEscalated(TaskId task, uint32 round, uint32 slot, uint32 draw) external view returns (bool);
    /// @notice From where the late deadlines count: the block in which the outer root was first posted (the empty set judged), but at most
    /// reserveCompareEnd + merge, so that a round that nobody merges ends as well. 0: not known yet.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @return the block
    function mergedBlockOf(TaskId task, uint32 round) external view returns (uint256);
    /// @notice disputeEnd: openings of disputes are allowed before it, settlement from it on. While mergedBlock is unknown, the latest that it can be.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @return the block
    function settleBlockOf(TaskId task, uint32 round) external view returns (uint256);
    /// @notice Over all rounds of a task: claims settled, and posted outer roots whose bond and pay `settleMerge` has still to deal with.
    /// @param task the task
    /// @return settledClaims how many claims
    /// @return openMerges how many outer roots
    function progressOf(TaskId task) external view returns (uint256 settledClaims, uint256 openMerges);
    /// @notice The step numbers that a claim must have after `innerStep` steps of its round.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param innerStep steps done in the round
    /// @return localStep counted by the solver's optimiser
    /// @return globalStep counted over all rounds
    function stepsOf(TaskId task, uint32 round, uint32 slot, uint32 innerStep) external view returns (uint32 localStep, uint32 globalStep);
    /// @notice Reverts with BoundaryMismatch unless the proof opens this boundary of the claim. Says nothing of its step numbers.
    /// @param task the task
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: index of its solver among the enrolled
    /// @param boundary index of the boundary: 0 is the start of the round
    /// @param proof the leaf and its path
    function verifyBoundary(TaskId task, uint32 round, uint32 slot, uint32 boundary, BoundaryProof calldata proof) external view;
}
