// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {AuditBook} from "../../contracts/AuditBook.sol";
import {DisputeGame} from "../../contracts/DisputeGame.sol";
import {OuterContest} from "../../contracts/OuterContest.sol";
import {RoundLedger} from "../../contracts/RoundLedger.sol";
import {StakeVault} from "../../contracts/StakeVault.sol";
import {TaskRegistry} from "../../contracts/TaskRegistry.sol";
import {
    Amounts,
    AuditRef,
    AuditStatus,
    BoundaryProof,
    ClaimStatus,
    LeafProof,
    Limits,
    Role,
    StateHeader,
    StateLeaves,
    StepFacts,
    TaskId,
    TaskTerms,
    Windows
} from "../../contracts/Types.sol";
import {DevToken} from "../../contracts/devnet/DevToken.sol";
import {Clock, Deadlines, LateDeadlines} from "../../contracts/libraries/Clock.sol";
import {Draw} from "../../contracts/libraries/Draw.sol";
import {Hashing} from "../../contracts/libraries/Hashing.sol";
import {PositionalMerkle} from "../../contracts/libraries/PositionalMerkle.sol";
import {RandomnessStub, RefereeMock} from "./Mocks.sol";
import {Test} from "./Test.sol";
import {Trees} from "./Trees.sol";

/// @dev Source: Foundry's `Vm` interface.
interface PartialVm {
    function expectPartialRevert(bytes4 selector) external;
}

/// @title All contracts, deployed and at play with a task of toy size, and one function for each move that a party can make.
/// @dev Two leaves of parameters, all alike; H = 4, k = 2, q = 1: two segments, one audited, the other for the late audit. A test plays moves and
/// leaves out the one it is about; `rollTo` is the only clock.
abstract contract World is Test {
    uint256 internal constant WEALTH_WEI = 100_000;
    uint256 internal constant UNBONDING_BLOCKS = 10_000;
    uint256 internal constant LEARNING_RATE_SUM = 1000;
    /// @dev 2^-20; the next float32 lies 2^106 units of 2^-149 away.
    uint32 internal constant FIRST_WEIGHT = 0x35800000;
    /// @dev Inside the accept limit, between the two, beyond the reject limit.
    uint32 internal constant NEAR = 2;
    uint32 internal constant GREY = 10;
    uint32 internal constant FAR = 1000;

    /// @notice A toy state: every element of a tensor has the same bits.
    struct State {
        uint32 weight;
        uint32 firstMoment;
        uint32 secondMoment;
        uint32 localStep;
        uint32 globalStep;
    }

    DevToken internal token;
    StakeVault internal vault;
    TaskRegistry internal registry;
    RoundLedger internal ledger;
    AuditBook internal audits;
    DisputeGame internal disputes;
    OuterContest internal contest;
    RefereeMock internal referee;
    RandomnessStub internal randomness;

    TaskTerms internal terms;
    TaskId internal task;
    TaskId[] private _tasks;
    uint32 internal round;
    address internal submitter = actor("submitter");
    address internal stranger = actor("stranger");
    address[] internal solvers;
    address[] internal verifiers;
    address[] internal whistleblowers;
    /// @dev Where each slot's claim starts in this round.
    mapping(uint32 => State) internal starts;

    function setUp() public virtual {
        vm.roll(1000);
        _deploy();
        _admit(solvers, "solver", 2);
        _admit(verifiers, "verifier", 5);
        _admit(whistleblowers, "whistleblower", 1);
        _fund(submitter);
        _fund(stranger);
        _createTask(baseTerms());
    }

    // Deployment --------------------------------------------------------------------------------------------------
    function _deploy() private {
        (token, referee, randomness) = (new DevToken(), new RefereeMock(), new RandomnessStub());
        uint256 nonce = vm.getNonce(address(this));
        address[] memory places = new address[](6);
        for (uint256 i = 0; i < places.length; ++i) {
            places[i] = vm.computeCreateAddress(address(this), nonce + i);
        }
        vault = new StakeVault(token, UNBONDING_BLOCKS, places);
        registry = new TaskRegistry(vault, RoundLedger(places[2]), randomness);
        ledger = new RoundLedger(
            vault, registry, AuditBook(places[3]), DisputeGame(places[4]), places[5], randomness
        );
        audits = new AuditBook(vault, registry, ledger, places[4], randomness);
        disputes = new DisputeGame(vault, registry, ledger, audits, referee);
        contest = new OuterContest(vault, registry, ledger, audits);
        assertEq(address(contest), places[5], "addresses are as predicted");
    }

    function _admit(address[] storage group, string memory name, uint256 count) private {
        for (uint256 i = 0; i < count; ++i) {
            group.push(actor(string.concat(name, vm.toString(i))));
            _fund(group[i]);
        }
    }

    function _fund(address account) internal {
        token.mint(account, WEALTH_WEI);
        vm.startPrank(account);
        token.approve(address(vault), WEALTH_WEI);
        if (account != submitter) vault.deposit(WEALTH_WEI);
        vm.stopPrank();
    }

    function _createTask(TaskTerms memory wanted) internal {
        terms = wanted;
        vm.prank(submitter);
        task = registry.createTask(wanted, "training");
        _tasks.push(task);
        round = 0;
        for (uint32 slot = 0; slot < solvers.length; ++slot) {
            starts[slot] = State(FIRST_WEIGHT, 0, 0, 0, 0);
        }
    }

    function baseTerms() internal view returns (TaskTerms memory t) {
        t.submitter = submitter;
        (t.initialWeightsRoot, t.zeroRoot) = (tensorRoot(FIRST_WEIGHT), tensorRoot(0));
        (t.parameterCount, t.rounds, t.innerSteps, t.segmentSteps) = (512, 2, 4, 2);
        (t.maxSolvers, t.maxVerifiers, t.maxWhistleblowers) = (4, 8, 2);
        (t.segmentDraws, t.leafDraws, t.lateRate) = (1, 1, uint32(Draw.LATE_RATE_ONE));
        (t.outerLearningRate, t.outerMomentum) = (0x3f800000, 0x3f000000);
        t.windows = Windows(10, 2, 6, 10, 5, 5, 5, 5, 8, 10, 6, 4, 8);
        t.amounts = Amounts(1000, 200, 100, 10, 50, 5, 7, 11, 300, 40, 3, 1000);
        t.accept = Limits(0, 1 << 100, 0, 1 << 100, 0, 4 << 41);
        t.reject = Limits(0, 1 << 100, 0, 1 << 100, 0, 64 << 41);
        t.scheduleRoot = Trees.root(scheduleLeaves(t));
        t.stepRoot = Hashing.stepRoot(stepFacts());
    }

    /// @dev Facts of the training steps; a test that plays them in a dispute overrides them.
    function stepFacts() internal view virtual returns (StepFacts memory) {}

    /// @dev Any values, but this error.
    function expectError(bytes4 selector) internal {
        PartialVm(address(vm)).expectPartialRevert(selector);
    }

    // The clock ---------------------------------------------------------------------------------------------------
    function rollTo(uint256 blockNumber) internal {
        assertTrue(blockNumber >= vm.getBlockNumber(), "time runs forward");
        vm.roll(blockNumber);
    }

    function deadlines() internal view returns (Deadlines memory) {
        (, uint256 startBlock,,,,) = registry.roundOf(task, round);
        return Clock.compute(startBlock, terms.windows);
    }

    function lateDeadlines() internal view returns (LateDeadlines memory) {
        return Clock.computeLate(ledger.mergedBlockOf(task, round), terms.windows);
    }

    /// @dev One block behind `drawnBlock`, whose hash the chain now knows.
    function _rollBehind(uint256 drawnBlock) private {
        if (vm.getBlockNumber() <= drawnBlock) rollTo(drawnBlock + 1);
        vm.setBlockhash(drawnBlock, keccak256(abi.encode("hash", drawnBlock)));
    }

    // States and trees --------------------------------------------------------------------------------------------
    /// @dev The state of a slot's honest claim after `step` steps of the round.
    function stateAt(uint32 slot, uint32 step) internal view returns (State memory s) {
        s = starts[slot];
        if (step == 0) return s;
        (s.localStep, s.globalStep) = (s.localStep + step, s.globalStep + step);
        (s.weight, s.firstMoment, s.secondMoment) =
        (s.weight + step, 0x30000000 + s.localStep + (slot << 8), 0x30000000 + s.localStep);
    }

    function moved(State memory s, uint32 steps) internal pure returns (State memory) {
        return State(s.weight + steps, s.firstMoment, s.secondMoment, s.localStep, s.globalStep);
    }

    function leafOf(uint32 bits) internal pure returns (bytes memory data) {
        uint256 word = 0;
        for (uint256 i = 0; i < 8; ++i) {
            word = (word << 32) | ((bits & 0xff) << 24) | ((bits & 0xff00) << 8) | ((bits >> 8) & 0xff00)
                | (bits >> 24);
        }
        data = new bytes(PositionalMerkle.LEAF_BYTES);
        for (uint256 i = 32; i <= data.length; i += 32) {
            assembly ("memory-safe") {
                mstore(add(data, i), word)
            }
        }
    }

    function tensorRoot(uint32 bits) internal pure returns (bytes32) {
        bytes32 leaf = PositionalMerkle.leafHash(leafOf(bits));
        return PositionalMerkle.nodeHash(leaf, leaf);
    }

    function headerOf(State memory s) internal pure returns (StateHeader memory) {
        return StateHeader(
            tensorRoot(s.weight),
            tensorRoot(s.firstMoment),
            tensorRoot(s.secondMoment),
            s.localStep,
            s.globalStep
        );
    }

    function leafProof(uint32 bits) internal pure returns (LeafProof memory proof) {
        proof.data = leafOf(bits);
        proof.path = new bytes32[](1);
        proof.path[0] = PositionalMerkle.leafHash(proof.data);
    }

    function leavesOf(State memory s, uint256 count) internal pure returns (StateLeaves[] memory leaves) {
        leaves = new StateLeaves[](count);
        for (uint256 i = 0; i < count; ++i) {
            leaves[i] = StateLeaves(leafProof(s.weight), leafProof(s.firstMoment), leafProof(s.secondMoment));
        }
    }

    function scheduleLeaves(TaskTerms memory t) internal pure returns (bytes32[] memory leaves) {
        leaves = new bytes32[](t.rounds * (t.innerSteps / t.segmentSteps));
        for (uint256 i = 0; i < leaves.length; ++i) {
            leaves[i] = Hashing.scheduleLeaf(i, LEARNING_RATE_SUM);
        }
    }

    function segmentCount() internal view returns (uint32) {
        return terms.innerSteps / terms.segmentSteps;
    }

    function claimLeaves(uint32 slot) internal view returns (bytes32[] memory leaves) {
        leaves = new bytes32[](segmentCount() + 1);
        for (uint32 i = 0; i < leaves.length; ++i) {
            bytes32 root = Hashing.stateRoot(headerOf(boundaryState(slot, i)));
            leaves[i] =
                Hashing.boundaryLeaf(registry.domainOf(task), round, solvers[slot], i, saltOf(i), root);
        }
    }

    /// @dev What the solver claims at a boundary; a cheat overrides it.
    function boundaryState(uint32 slot, uint32 boundary) internal view virtual returns (State memory) {
        return stateAt(slot, boundary * terms.segmentSteps);
    }

    function saltOf(uint32 boundary) internal pure returns (bytes32) {
        return keccak256(abi.encode("salt", boundary));
    }

    function boundaryProof(uint32 slot, uint32 boundary) internal view returns (BoundaryProof memory) {
        StateHeader memory header = headerOf(boundaryState(slot, boundary));
        return BoundaryProof(header, saltOf(boundary), Trees.path(claimLeaves(slot), boundary));
    }

    // Enrolment and commitment ------------------------------------------------------------------------------------
    function enrolAll(uint256 solverCount) internal {
        for (uint256 i = 0; i < solverCount; ++i) {
            enrol(solvers[i], Role.SOLVER);
        }
        for (uint256 i = 0; i < verifiers.length; ++i) {
            enrol(verifiers[i], Role.VERIFIER);
        }
        for (uint256 i = 0; i < whistleblowers.length; ++i) {
            enrol(whistleblowers[i], Role.WHISTLEBLOWER);
        }
    }

    function enrol(address account, Role role) internal {
        vm.prank(account);
        registry.enrol(task, round, role);
    }

    function sealBeacon() internal {
        _rollBehind(deadlines().beaconBlock);
        registry.sealBeacon(task, round, "");
    }

    function commit(uint32 slot) internal {
        bytes32 root = Trees.root(claimLeaves(slot));
        BoundaryProof memory start = boundaryProof(slot, 0);
        vm.prank(solvers[slot]);
        ledger.commit(task, round, root, keccak256(abi.encode("delta", slot)), start);
    }

    function sealDraw() internal {
        rollTo(deadlines().trainEnd);
        _rollBehind(deadlines().drawBlock);
        ledger.sealDraw(task, round, "");
    }

    function sealLate() internal {
        _rollBehind(lateDeadlines().lateBlock);
        ledger.sealLate(task, round, "");
    }

    // Audits ------------------------------------------------------------------------------------------------------
    function refOf(uint32 slot, uint32 draw, uint32 rank) internal view returns (AuditRef memory) {
        return AuditRef(task, round, slot, draw, rank);
    }

    function lateRef(uint32 slot) internal view returns (AuditRef memory) {
        return refOf(slot, terms.segmentDraws, 0);
    }

    function auditorOf(AuditRef memory ref) internal view returns (address auditor) {
        (, auditor) = ledger.drawnOf(ref);
    }

    function segmentOf(AuditRef memory ref) internal view returns (uint32 segment) {
        (segment,) = ledger.drawnOf(ref);
    }

    function endState(AuditRef memory ref) internal view returns (State memory) {
        return boundaryState(ref.slot, segmentOf(ref) + 1);
    }

    function openStart(AuditRef memory ref) internal {
        BoundaryProof memory proof = boundaryProof(ref.slot, segmentOf(ref));
        vm.prank(solvers[ref.slot]);
        audits.openStart(task, round, ref.draw, proof);
    }

    function commitReplay(AuditRef memory ref, State memory end) internal {
        address auditor = auditorOf(ref);
        bytes32 root = Hashing.stateRoot(headerOf(end));
        bytes32 commitment =
            Hashing.auditCommitment(registry.domainOf(task), ref, auditor, root, "audit salt");
        vm.prank(auditor);
        audits.commitReplay(ref, commitment);
    }

    function sayUnserved(AuditRef memory ref) internal {
        vm.prank(auditorOf(ref));
        audits.sayUnserved(ref);
    }

    function abstain(AuditRef memory ref) internal {
        vm.prank(auditorOf(ref));
        audits.abstain(ref);
    }

    function openEnd(AuditRef memory ref) internal {
        BoundaryProof memory end = boundaryProof(ref.slot, segmentOf(ref) + 1);
        BoundaryProof memory last = boundaryProof(ref.slot, segmentCount());
        vm.prank(solvers[ref.slot]);
        audits.openEnd(task, round, ref.draw, end, last);
    }

    function reveal(AuditRef memory ref, State memory end) internal {
        StateHeader memory header = headerOf(end);
        vm.prank(auditorOf(ref));
        audits.reveal(ref, header, "audit salt");
    }

    function sealLeaves(uint32 phase) internal {
        uint256 primary = deadlines().leavesBlock;
        uint256 drawnBlock =
            phase == 0 ? primary : phase == 1 ? deadlines().reserveLeavesBlock : lateDeadlines().leavesBlock;
        _rollBehind(drawnBlock);
        audits.sealLeaves(task, round, phase, "");
    }

    function openLeaves(AuditRef memory ref, uint32 phase) internal {
        StateLeaves[] memory leaves = leavesOf(endState(ref), terms.leafDraws);
        StateHeader memory end = headerOf(endState(ref));
        vm.prank(solvers[ref.slot]);
        audits.openLeaves(task, round, ref.draw, phase, end, leaves);
    }

    function compareLeaves(AuditRef memory ref, State memory end) internal {
        uint256 index = round * segmentCount() + segmentOf(ref);
        StateLeaves[] memory claimed = leavesOf(endState(ref), terms.leafDraws);
        StateLeaves[] memory replayed = leavesOf(end, terms.leafDraws);
        bytes32[] memory path = Trees.path(scheduleLeaves(terms), index);
        StateHeader[2] memory ends = [headerOf(endState(ref)), headerOf(end)];
        vm.prank(auditorOf(ref));
        audits.compareLeaves(ref, ends, claimed, replayed, new uint32[](0), LEARNING_RATE_SUM, path);
    }

    // A round up to a stage, everybody honest ---------------------------------------------------------------------
    function playToTrain(uint256 solverCount) internal {
        enrolAll(solverCount);
        sealBeacon();
    }

    /// @dev Draw sealed, one solver.
    function playToDraw() internal {
        playToTrain(1);
        commit(0);
        sealDraw();
    }

    function playToStart() internal {
        playToDraw();
        openStart(refOf(0, 0, 0));
    }

    /// @dev The primary has committed to `end`; the block is replayEnd.
    function playToReplay(State memory end) internal {
        commitReplay(refOf(0, 0, 0), end);
        rollTo(deadlines().replayEnd);
    }

    /// @dev Both have shown; the primary's result is `shift` last places off the claim's.
    function playToShow(uint32 shift) internal {
        playToStart();
        AuditRef memory ref = refOf(0, 0, 0);
        State memory end = moved(endState(ref), shift);
        playToReplay(end);
        openEnd(ref);
        reveal(ref, end);
    }

    function playToLeaves(uint32 shift) internal {
        playToShow(shift);
        rollTo(deadlines().showEnd);
        sealLeaves(0);
    }

    /// @dev Two solvers, and the primaries of both have shown an equal result; the block is replayEnd.
    function playTwoToShow() internal {
        playToTrain(2);
        commit(0);
        commit(1);
        sealDraw();
        for (uint32 slot = 0; slot < 2; ++slot) {
            openStart(refOf(slot, 0, 0));
            commitReplay(refOf(slot, 0, 0), endState(refOf(slot, 0, 0)));
        }
        rollTo(deadlines().replayEnd);
        for (uint32 slot = 0; slot < 2; ++slot) {
            openEnd(refOf(slot, 0, 0));
            reveal(refOf(slot, 0, 0), endState(refOf(slot, 0, 0)));
        }
    }

    function playToAccepted() internal {
        playToShow(0);
        rollTo(deadlines().showEnd);
        ledger.judge(task, round, 0);
        assertStatus(0, ClaimStatus.ACCEPTED);
    }

    /// @dev The primary has rejected by computation; the block is compareEnd.
    function playToEscalated() internal {
        playToLeaves(FAR);
        openLeaves(refOf(0, 0, 0), 0);
        compareLeaves(refOf(0, 0, 0), moved(endState(refOf(0, 0, 0)), FAR));
        rollTo(deadlines().compareEnd);
        ledger.judge(task, round, 0);
        assertStatus(0, ClaimStatus.ESCALATED);
    }

    function playReserve(uint32 rank, uint32 shift) internal {
        AuditRef memory ref = refOf(0, 0, rank);
        commitReplay(ref, moved(endState(ref), shift));
    }

    /// @dev How many claims an honest poster's root is over.
    function includedCount() internal view returns (uint32) {
        return uint32(ledger.includedOf(task, round).length);
    }

    function postOuter(bytes32 weightsRoot, bytes32 momentumRoot) internal {
        uint32 included = includedCount();
        vm.prank(stranger);
        ledger.postOuter(task, round, included, weightsRoot, momentumRoot);
    }

    function playToMerged() internal {
        playToAccepted();
        postOuter("weights", "momentum");
    }

    function playToLate() internal {
        playToMerged();
        sealLate();
    }

    function settleAll() internal {
        if (vm.getBlockNumber() < ledger.settleBlockOf(task, round)) {
            rollTo(ledger.settleBlockOf(task, round));
        }
        (,,, uint32 count,,) = registry.roundOf(task, round);
        for (uint32 slot = 0; slot < count; ++slot) {
            ledger.settleClaim(task, round, slot);
        }
        ledger.settleEnrolments(task, round, 0, 100);
        (address poster,,,,) = ledger.outerOf(task, round);
        if (poster != address(0)) ledger.settleMerge(task, round);
    }

    // What came out -----------------------------------------------------------------------------------------------
    function statusOf(uint32 slot) internal view returns (ClaimStatus status) {
        (, status,,,) = ledger.claimOf(task, round, slot);
    }

    function assertStatus(uint32 slot, ClaimStatus expected) internal view {
        assertEq(uint256(statusOf(slot)), uint256(expected), "claim status");
    }

    function assertAudit(AuditRef memory ref, AuditStatus expected) internal view {
        assertEq(uint256(audits.statusOf(ref)), uint256(expected), "audit status");
    }

    /// @dev What an account has lost of its stake.
    function lossOf(address account) internal view returns (uint256) {
        return WEALTH_WEI - vault.stakeOf(account);
    }

    function assertWhole(address account) internal view {
        assertEq(lossOf(account), 0, "nothing lost");
        assertEq(vault.lockedOf(account), 0, "nothing locked");
    }

    /// @dev After settlement no stake of anybody is bound, whatever happened, and the books match the tokens.
    function assertAllFree() internal view {
        uint256 held = vault.burnPending() + _assertFree(submitter) + _assertFree(stranger);
        for (uint256 i = 0; i < _tasks.length; ++i) {
            held += vault.escrowOf(_tasks[i]);
        }
        held += _assertGroupFree(solvers) + _assertGroupFree(verifiers) + _assertGroupFree(whistleblowers);
        assertEq(token.balanceOf(address(vault)), held, "solvency");
    }

    function _assertGroupFree(address[] storage group) private view returns (uint256 held) {
        for (uint256 i = 0; i < group.length; ++i) {
            held += _assertFree(group[i]);
        }
    }

    function _assertFree(address account) private view returns (uint256 held) {
        assertEq(vault.lockedOf(account), 0, "nothing stays locked");
        return vault.stakeOf(account) + vault.creditOf(account);
    }
}
