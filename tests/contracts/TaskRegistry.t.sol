// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Amounts, Role, RoundStatus, TaskId, TaskTerms, Windows} from "../../contracts/Types.sol";
import {ITaskRegistry} from "../../contracts/interfaces/ITaskRegistry.sol";
import {IStakeVault} from "../../contracts/interfaces/IStakeVault.sol";
import {Clock, Deadlines} from "../../contracts/libraries/Clock.sol";
import {Draw} from "../../contracts/libraries/Draw.sol";
import {Hashing} from "../../contracts/libraries/Hashing.sol";
import {Fixture} from "./Fixture.sol";

contract TaskRegistryTest is Fixture {
    address private alice = actor("alice");

    function setUp() public {
        deployCore(0);
    }

    // Tasks -------------------------------------------------------------------------------------------------------
    function test_createTask_soundTerms_startsRoundZero() public {
        TaskTerms memory terms = soundTerms();
        TaskId task = createTask(terms);
        assertEq(TaskId.unwrap(task), sha256(bytes.concat(abi.encode(terms), TRAINING)), "identity");
        assertEq(keccak256(abi.encode(registry.termsOf(task))), keccak256(abi.encode(terms)), "terms");
        // 2 rounds * (2 solvers * (100 + 2 * 3 * 10 + 20) + 7)
        assertEq(vault.escrowOf(task), 734, "escrow");
        (RoundStatus status, uint256 startBlock,,,,) = registry.roundOf(task, 0);
        assertEq(uint256(status), uint256(RoundStatus.ENROLLING), "status");
        assertEq(startBlock, block.number, "at once");
        assertEq(registry.currentRound(task), 0, "round");
    }

    function test_createTask_twice_reverts() public {
        TaskTerms memory terms = soundTerms();
        TaskId task = createTask(terms);
        vm.prank(submitter);
        vm.expectRevert(abi.encodeWithSelector(ITaskRegistry.TaskExists.selector, task));
        registry.createTask(terms, TRAINING);
    }

    function test_createTask_stranger_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(ITaskRegistry.NotSubmitter.selector, submitter, address(this)));
        registry.createTask(soundTerms(), TRAINING);
    }

    function test_createTask_noMoney_reverts() public {
        vm.prank(submitter);
        vm.expectRevert();
        registry.createTask(soundTerms(), TRAINING);
    }

    function _refuse(TaskTerms memory terms, bytes32 field, uint256 value) private {
        vm.prank(submitter);
        vm.expectRevert(abi.encodeWithSelector(ITaskRegistry.BadTerms.selector, field, value));
        registry.createTask(terms, TRAINING);
    }

    function test_createTask_badRoots_reverts() public {
        TaskTerms memory terms = soundTerms();
        terms.initialWeightsRoot = 0;
        _refuse(terms, "initialWeightsRoot", 0);
        (terms.initialWeightsRoot, terms.zeroRoot) = ("weights", 0);
        _refuse(terms, "zeroRoot", 0);
        (terms.zeroRoot, terms.scheduleRoot) = ("zero", 0);
        _refuse(terms, "scheduleRoot", 0);
        (terms.scheduleRoot, terms.stepRoot) = ("schedule", 0);
        _refuse(terms, "stepRoot", 0);
    }

    function test_createTask_badSizes_reverts() public {
        TaskTerms memory terms = soundTerms();
        terms.parameterCount = 0;
        _refuse(terms, "parameterCount", 0);
        terms.parameterCount = (1 << 31) + 1;
        _refuse(terms, "parameterCount", (1 << 31) + 1);
        (terms.parameterCount, terms.maxSolvers) = (1, 0);
        _refuse(terms, "maxSolvers", 0);
        terms.maxSolvers = 65;
        _refuse(terms, "maxSolvers", 65);
        (terms.maxSolvers, terms.maxVerifiers) = (64, 2);
        _refuse(terms, "maxVerifiers", 2);
        terms.maxVerifiers = 1000;
        _refuse(terms, "maxVerifiers", 1000);
        (terms.maxVerifiers, terms.maxWhistleblowers) = (3, 1000);
        _refuse(terms, "maxWhistleblowers", 1000);
    }

    function test_createTask_badSteps_reverts() public {
        TaskTerms memory terms = soundTerms();
        terms.segmentSteps = 0;
        _refuse(terms, "segmentSteps", 0);
        terms.segmentSteps = 21;
        _refuse(terms, "segmentSteps", 21);
        (terms.segmentSteps, terms.innerSteps) = (5, 0);
        _refuse(terms, "innerSteps", 0);
        terms.innerSteps = 21;
        _refuse(terms, "innerSteps", 21);
        (terms.innerSteps, terms.rounds) = (20, 0);
        _refuse(terms, "rounds", 0);
        terms.rounds = 1 << 30;
        _refuse(terms, "rounds", 1 << 30);
        // As many steps as there are numbers for: what is refused is behind them.
        (terms.innerSteps, terms.rounds, terms.leafDraws) = (15, type(uint32).max / 15, 0);
        _refuse(terms, "leafDraws", 0);
    }

    function test_createTask_badDraws_reverts() public {
        TaskTerms memory terms = soundTerms();
        terms.segmentDraws = 0;
        _refuse(terms, "segmentDraws", 0);
        // Four segments hold two that are not adjacent, not three.
        terms.segmentDraws = 3;
        _refuse(terms, "segmentDraws", 3);
        (terms.innerSteps, terms.segmentDraws) = (5000, 256);
        _refuse(terms, "segmentDraws", 256);
        (terms.segmentDraws, terms.leafDraws) = (2, 0);
        _refuse(terms, "leafDraws", 0);
        terms.leafDraws = 9;
        _refuse(terms, "leafDraws", 9);
        (terms.leafDraws, terms.lateRate) = (1, 65_537);
        _refuse(terms, "lateRate", 65_537);
        (terms.lateRate, terms.carryMoments) = (65_536, 2);
        _refuse(terms, "carryMoments", 2);
    }

    function test_createTask_badOuterStep_reverts() public {
        TaskTerms memory terms = soundTerms();
        uint32[4] memory bad = [uint32(0), 0x40800000, 0x7fc00000, 0x80000001];
        for (uint256 i = 0; i < bad.length; ++i) {
            terms.outerLearningRate = bad[i];
            _refuse(terms, "outerLearningRate", bad[i]);
        }
        (terms.outerLearningRate, terms.outerMomentum) = (1, 0x3f800000);
        _refuse(terms, "outerMomentum", 0x3f800000);
        terms.outerMomentum = 0x80000000;
        _refuse(terms, "outerMomentum", 0x80000000);
    }

    function test_createTask_badWindows_reverts() public {
        TaskTerms memory terms = soundTerms();
        terms.windows.delay = 0;
        _refuse(terms, "delay", 0);
        terms.windows.delay = 8;
        _refuse(terms, "delay", 8);
        (terms.windows.delay, terms.windows.seal) = (2, 201);
        _refuse(terms, "seal", 201);
        (terms.windows.seal, terms.windows.dispute) = (8, uint32(UNBONDING));
        _refuse(terms, "span", Clock.worstSpan(terms.windows));
        // Stake that leaves in the very block in which the last dispute may end is too early by one.
        terms.windows.dispute -= uint32(Clock.worstSpan(terms.windows) - UNBONDING);
        _refuse(terms, "span", UNBONDING);
    }

    /// @dev Every window but delay and seal, whose fields are words 0 .. 12 of the struct.
    function test_createTask_emptyWindow_reverts() public {
        bytes32[13] memory field = [
            bytes32("enrol"),
            "delay",
            "seal",
            "train",
            "start",
            "replay",
            "show",
            "open",
            "merge",
            "dispute",
            "respond",
            "name",
            "prove"
        ];
        for (uint256 i = 0; i < field.length; ++i) {
            TaskTerms memory terms = soundTerms();
            _setWindow(terms, i, 0);
            _refuse(terms, field[i], 0);
            if (i == 1 || i == 2) continue;
            _setWindow(terms, i, (1 << 22) + 1);
            _refuse(terms, field[i], (1 << 22) + 1);
        }
    }

    function _setWindow(TaskTerms memory terms, uint256 index, uint256 value) private pure {
        uint256[13] memory words = abi.decode(abi.encode(terms.windows), (uint256[13]));
        words[index] = value;
        terms.windows = abi.decode(abi.encode(words), (Windows));
    }

    /// @dev What lies on the edge of each rule is allowed: the shortest windows of a task, the longest delay, a fee as large as the stakes.
    function test_createTask_leastTerms_areSound() public {
        TaskTerms memory terms = soundTerms();
        (terms.parameterCount, terms.rounds, terms.innerSteps, terms.segmentSteps) = (1, 1, 1, 1);
        (terms.maxSolvers, terms.maxVerifiers, terms.maxWhistleblowers) = (1, 3, 0);
        (terms.segmentDraws, terms.leafDraws, terms.lateRate) = (1, 1, 0);
        (terms.outerLearningRate, terms.outerMomentum) = (1, 0);
        terms.windows = Windows(1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1);
        (terms.amounts.noShowFee, terms.amounts.enrolStake, terms.amounts.solverStake) = (1, 1, 1);
        createTask(terms);
        (terms.amounts.noShowFee, terms.amounts.enrolStake, terms.amounts.solverStake) = (0, 2, 1);
        createTask(terms);
    }

    function test_createTask_greatestTerms_areSound() public {
        TaskTerms memory terms = soundTerms();
        (terms.parameterCount, terms.segmentSteps, terms.innerSteps) = (1 << 31, 20, 20 * 39);
        terms.rounds = type(uint32).max / terms.innerSteps;
        (terms.maxSolvers, terms.maxVerifiers, terms.maxWhistleblowers) = (64, 999, 999);
        (terms.segmentDraws, terms.leafDraws, terms.lateRate, terms.carryMoments) = (20, 8, 65_536, 1);
        (terms.outerLearningRate, terms.outerMomentum) = (0x40800000 - 1, 0x3f800000 - 1);
        (terms.windows.delay, terms.windows.seal) = (199, 200);
        (terms.windows.dispute, terms.windows.respond) = (1, 1);
        Amounts memory none = Amounts(1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0);
        terms.amounts = none;
        createTask(terms);
    }

    function test_createTask_badAmounts_reverts() public {
        TaskTerms memory terms = soundTerms();
        terms.amounts.solverStake = 0;
        _refuse(terms, "solverStake", 0);
        (terms.amounts.solverStake, terms.amounts.auditStake) = (1000, 0);
        _refuse(terms, "auditStake", 0);
        (terms.amounts.auditStake, terms.amounts.enrolStake) = (1, 0);
        _refuse(terms, "enrolStake", 0);
        (terms.amounts.enrolStake, terms.amounts.mergeBond) = (200, 0);
        _refuse(terms, "mergeBond", 0);
        (terms.amounts.mergeBond, terms.amounts.disputeBond) = (1, 0);
        _refuse(terms, "disputeBond", 0);
        (terms.amounts.disputeBond, terms.amounts.demandFee) = (1, 0);
        _refuse(terms, "demandFee", 0);
        (terms.amounts.demandFee, terms.amounts.noShowFee) = (1, 201);
        _refuse(terms, "noShowFee", 201);
        (terms.amounts.solverStake, terms.amounts.noShowFee) = (100, 150);
        _refuse(terms, "noShowFee", 150);
    }

    function test_createTask_acceptBeyondReject_reverts() public {
        bytes32[6] memory field = [
            bytes32("accept.tauM"),
            "accept.epsM",
            "accept.tauV",
            "accept.floorV",
            "accept.tauW",
            "accept.tauR"
        ];
        for (uint256 i = 0; i < field.length; ++i) {
            TaskTerms memory terms = soundTerms();
            if (i == 0) terms.accept.tauM = 99;
            if (i == 1) terms.accept.epsM = 99;
            if (i == 2) terms.accept.tauV = 99;
            if (i == 3) terms.accept.floorV = 99;
            if (i == 4) terms.accept.tauW = 99;
            if (i == 5) terms.accept.tauR = 99;
            _refuse(terms, field[i], 99);
        }
    }

    // Enrolment ---------------------------------------------------------------------------------------------------
    function test_enrol_eachRole_exposesItsStake() public {
        TaskId task = createTask(soundTerms());
        address solver = enrol(task, 0, Role.SOLVER, "solver");
        address verifier = enrol(task, 0, Role.VERIFIER, "verifier");
        assertEq(vault.lockedOf(solver), 1000, "solver");
        assertEq(vault.lockedOf(verifier), 200, "verifier");
        (address owner, uint256 amountWei) = vault.exposureOf(Hashing.enrolmentExposure(task, 0, verifier));
        assertEq(owner, verifier, "exposure");
        assertEq(amountWei, 200, "amount");
        assertEq(registry.indexOf(task, 0, Role.SOLVER, solver), 1, "index + 1");
        assertEq(registry.indexOf(task, 0, Role.VERIFIER, solver), 0, "in one role only");
        assertEq(registry.enrolledAt(task, 0, Role.VERIFIER, 0), verifier, "seat");
    }

    function test_enrol_secondRole_reverts() public {
        TaskId task = createTask(soundTerms());
        address solver = enrol(task, 0, Role.SOLVER, "solver");
        vm.prank(solver);
        vm.expectRevert(abi.encodeWithSelector(ITaskRegistry.AlreadyEnrolled.selector, solver));
        registry.enrol(task, 0, Role.VERIFIER);
    }

    function test_enrol_full_reverts() public {
        TaskId task = createTask(soundTerms());
        enrol(task, 0, Role.WHISTLEBLOWER, "first");
        stake(alice, 1000);
        vm.startPrank(alice);
        vm.expectRevert(abi.encodeWithSelector(ITaskRegistry.RoundFull.selector, Role.WHISTLEBLOWER, 1));
        registry.enrol(task, 0, Role.WHISTLEBLOWER);
        vm.expectRevert(abi.encodeWithSelector(ITaskRegistry.RoundFull.selector, Role.NONE, 0));
        registry.enrol(task, 0, Role.NONE);
        vm.stopPrank();
    }

    function test_enrol_withoutStake_reverts() public {
        TaskId task = createTask(soundTerms());
        vm.prank(alice);
        vm.expectRevert(abi.encodeWithSelector(IStakeVault.TooLittleStake.selector, alice, 0, 1000));
        registry.enrol(task, 0, Role.SOLVER);
    }

    function test_enrol_lateOrElsewhere_reverts() public {
        TaskId task = createTask(soundTerms());
        // The optimizer takes block.number for constant within a transaction.
        uint256 start = vm.getBlockNumber();
        vm.startPrank(alice);
        vm.expectRevert(abi.encodeWithSelector(ITaskRegistry.WrongRound.selector, 0, 1));
        registry.enrol(task, 1, Role.SOLVER);
        vm.expectRevert(abi.encodeWithSelector(ITaskRegistry.TaskUnknown.selector, TaskId.wrap("nothing")));
        registry.enrol(TaskId.wrap("nothing"), 0, Role.SOLVER);
        vm.roll(start + 10);
        vm.expectRevert(
            abi.encodeWithSelector(ITaskRegistry.OutsideWindow.selector, start, start + 10, start + 10)
        );
        registry.enrol(task, 0, Role.SOLVER);
        vm.stopPrank();
    }

    // Beacon ------------------------------------------------------------------------------------------------------
    function _enrolAll(TaskId task, uint32 round) private {
        enrol(task, round, Role.SOLVER, "solver 1");
        enrol(task, round, Role.SOLVER, "solver 2");
        enrol(task, round, Role.VERIFIER, "verifier 1");
        enrol(task, round, Role.VERIFIER, "verifier 2");
        enrol(task, round, Role.VERIFIER, "verifier 3");
    }

    function test_sealBeacon_inTime_deals() public {
        TaskId task = createTask(soundTerms());
        _enrolAll(task, 0);
        Deadlines memory d = Clock.compute(block.number, soundTerms().windows);
        vm.roll(d.beaconBlock + 1);
        vm.setBlockhash(d.beaconBlock, "randomness");
        registry.sealBeacon(task, 0, "");
        (RoundStatus status,, bytes32 beacon, uint32 solvers, uint32 verifiers, uint32 whistleblowers) =
            registry.roundOf(task, 0);
        assertEq(uint256(status), uint256(RoundStatus.TRAINING), "status");
        assertEq(beacon, Hashing.beacon(registry.domainOf(task), 0, "randomness"), "beacon");
        assertEq(solvers * 100 + verifiers * 10 + whistleblowers, 230, "counts");
        assertEq(registry.shardOf(task, 0, 0), Draw.shard(beacon, 0, 2), "shard");
        assertEq(registry.shardOf(task, 0, 0) + registry.shardOf(task, 0, 1), 1, "both shards");
        vm.expectRevert(
            abi.encodeWithSelector(
                ITaskRegistry.WrongStatus.selector, RoundStatus.ENROLLING, RoundStatus.TRAINING
            )
        );
        registry.sealBeacon(task, 0, "");
    }

    function test_sealBeacon_roundToCome_reverts() public {
        TaskId task = createTask(soundTerms());
        vm.expectRevert(abi.encodeWithSelector(ITaskRegistry.WrongRound.selector, 0, 1));
        registry.sealBeacon(task, 1, "");
    }

    function test_sealBeacon_outsideWindow_reverts() public {
        TaskId task = createTask(soundTerms());
        Deadlines memory d = Clock.compute(block.number, soundTerms().windows);
        uint256[2] memory blocks = [d.beaconBlock, d.beaconEnd];
        for (uint256 i = 0; i < 2; ++i) {
            vm.roll(blocks[i]);
            vm.expectRevert(
                abi.encodeWithSelector(
                    ITaskRegistry.OutsideWindow.selector, d.beaconBlock + 1, d.beaconEnd, blocks[i]
                )
            );
            registry.sealBeacon(task, 0, "");
        }
    }

    function _sealEmpty(TaskId task, uint32 round) private {
        (, uint256 start,,,,) = registry.roundOf(task, round);
        uint256 beaconBlock = Clock.compute(start, soundTerms().windows).beaconBlock;
        vm.roll(beaconBlock + 1);
        registry.sealBeacon(task, round, "");
        (RoundStatus status,,,,,) = registry.roundOf(task, round);
        assertEq(uint256(status), uint256(RoundStatus.EMPTY), "nobody to work");
    }

    function test_sealBeacon_tooFew_isEmpty() public {
        TaskId task = createTask(soundTerms());
        enrol(task, 0, Role.SOLVER, "solver");
        enrol(task, 0, Role.VERIFIER, "verifier 1");
        enrol(task, 0, Role.VERIFIER, "verifier 2");
        _sealEmpty(task, 0);
        vm.expectRevert(
            abi.encodeWithSelector(
                ITaskRegistry.WrongStatus.selector, RoundStatus.TRAINING, RoundStatus.EMPTY
            )
        );
        registry.shardOf(task, 0, 0);
    }

    function test_roundOf_unsealed_isEmptyByItself() public {
        TaskId task = createTask(soundTerms());
        _enrolAll(task, 0);
        vm.roll(Clock.compute(block.number, soundTerms().windows).beaconEnd);
        (RoundStatus status,,,,,) = registry.roundOf(task, 0);
        assertEq(uint256(status), uint256(RoundStatus.EMPTY), "overdue");
        registry.advance(task);
        assertEq(registry.currentRound(task), 1, "the next one starts");
    }

    // Advance and close -------------------------------------------------------------------------------------------
    function _train(TaskId task, uint32 round) private {
        _enrolAll(task, round);
        (, uint256 start,,,,) = registry.roundOf(task, round);
        vm.roll(Clock.compute(start, soundTerms().windows).beaconBlock + 1);
        registry.sealBeacon(task, round, "");
    }

    function test_advance_unmerged_reverts() public {
        TaskId task = createTask(soundTerms());
        uint256 beaconEnd = Clock.compute(block.number, soundTerms().windows).beaconEnd;
        vm.expectRevert(abi.encodeWithSelector(ITaskRegistry.NotYet.selector, beaconEnd, block.number));
        registry.advance(task);
        _train(task, 0);
        vm.expectRevert(abi.encodeWithSelector(ITaskRegistry.NotYet.selector, 0, block.number));
        registry.advance(task);
        ledger.setOuter(alice, "w", "m");
        vm.expectRevert(abi.encodeWithSelector(ITaskRegistry.NotYet.selector, block.number + 6, block.number));
        registry.advance(task);
    }

    function test_advance_merged_startsNext() public {
        TaskId task = createTask(soundTerms());
        _train(task, 0);
        ledger.setMerged(true);
        registry.advance(task);
        (RoundStatus status,,,,,) = registry.roundOf(task, 0);
        assertEq(uint256(status), uint256(RoundStatus.MERGED), "the last one");
        (status,,,,,) = registry.roundOf(task, 1);
        assertEq(uint256(status), uint256(RoundStatus.ENROLLING), "the next one");
        vm.expectRevert(abi.encodeWithSelector(ITaskRegistry.TaskFinished.selector, task));
        registry.advance(task);
    }

    function test_advance_tooLateToSettle_reverts() public {
        TaskId task = createTask(soundTerms());
        uint256 lastStart = registry.expiryBlock(task) - UNBONDING;
        vm.roll(lastStart + 1);
        vm.expectRevert(abi.encodeWithSelector(ITaskRegistry.TaskFinished.selector, task));
        registry.advance(task);
        vm.roll(lastStart);
        registry.advance(task);
        (RoundStatus status,,,,,) = registry.roundOf(task, 1);
        assertEq(uint256(status), uint256(RoundStatus.ENROLLING), "just in time");
    }

    /// @dev One solver in each of both rounds, which are EMPTY for want of verifiers.
    function _playEmptyRounds() private returns (TaskId task, uint256 beaconEnd) {
        task = createTask(soundTerms());
        enrol(task, 0, Role.SOLVER, "solver 1");
        _sealEmpty(task, 0);
        registry.advance(task);
        beaconEnd = Clock.compute(block.number, soundTerms().windows).beaconEnd;
        enrol(task, 1, Role.SOLVER, "solver 2");
        _sealEmpty(task, 1);
    }

    function test_closeTask_everythingSettled_refundsAtOnce() public {
        (TaskId task, uint256 beaconEnd) = _playEmptyRounds();
        ledger.setProgress(1, 0);
        vm.expectRevert(
            abi.encodeWithSelector(ITaskRegistry.NotYet.selector, beaconEnd + UNBONDING, block.number)
        );
        registry.closeTask(task);
        ledger.setProgress(2, 1);
        vm.expectRevert(
            abi.encodeWithSelector(ITaskRegistry.NotYet.selector, beaconEnd + UNBONDING, block.number)
        );
        registry.closeTask(task);
        ledger.setProgress(2, 0);
        registry.closeTask(task);
        assertEq(vault.creditOf(submitter), 734, "refund");
    }

    function test_closeTask_everythingSettledSoFar_reverts() public {
        TaskId task = createTask(soundTerms());
        _sealEmpty(task, 0);
        uint256 expiry = registry.expiryBlock(task);
        vm.expectRevert(abi.encodeWithSelector(ITaskRegistry.NotYet.selector, expiry, block.number));
        registry.closeTask(task);
    }

    function test_closeTask_unsettled_refundsAfterUnbonding() public {
        (TaskId task, uint256 beaconEnd) = _playEmptyRounds();
        vm.expectRevert(
            abi.encodeWithSelector(ITaskRegistry.NotYet.selector, beaconEnd + UNBONDING, block.number)
        );
        registry.closeTask(task);
        vm.roll(beaconEnd + UNBONDING);
        registry.closeTask(task);
        assertEq(vault.creditOf(submitter), 734, "refund");
        vm.expectRevert(abi.encodeWithSelector(ITaskRegistry.TaskFinished.selector, task));
        registry.closeTask(task);
        vm.expectRevert(abi.encodeWithSelector(ITaskRegistry.TaskFinished.selector, task));
        registry.enrol(task, 1, Role.SOLVER);
    }

    function test_closeTask_stuckRound_refundsAtExpiry() public {
        TaskId task = createTask(soundTerms());
        _train(task, 0);
        uint256 expiry = registry.expiryBlock(task);
        vm.roll(expiry - 1);
        vm.expectRevert(abi.encodeWithSelector(ITaskRegistry.NotYet.selector, expiry, expiry - 1));
        registry.closeTask(task);
        vm.roll(expiry);
        registry.closeTask(task);
        assertEq(vault.creditOf(submitter), 734, "refund");
        (RoundStatus status,,,,,) = registry.roundOf(task, 0);
        assertEq(uint256(status), uint256(RoundStatus.TRAINING), "it had solvers");
    }

    // Peers -------------------------------------------------------------------------------------------------------
    function test_announce_twice_overwrites() public {
        vm.startPrank(alice);
        registry.announce("https://a", "first");
        registry.announce("https://b", "second");
        vm.stopPrank();
        (string memory url, bytes32 certificate) = registry.peerOf(alice);
        assertEq(bytes(url), "https://b", "url");
        assertEq(certificate, "second", "certificate");
    }
}
