// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {
    GameTerms,
    Phase,
    Proof,
    RoundView,
    SeatRole,
    SeatStatus
} from "../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {AuditDraw} from "../../../contracts/libraries/AuditDraw.sol";
import {Hashing} from "../../../contracts/libraries/Hashing.sol";
import {GameWorld} from "./GameWorld.sol";
import {ContestsStub, ForwardStub} from "./Stubs.sol";

/// @title From START to POST, window by window.
contract RoundsTest is GameWorld {
    function _line() private view returns (uint256 next, uint256 live, uint256 frozenTo, uint256 startBlock) {
        (next, live, frozenTo,, startBlock,,) = lineNow();
    }

    function _halt() private {
        vm.prank(submitter);
        rounds.halt(task);
    }

    function _beacon(uint256 round, uint256 block_) private view returns (bytes32) {
        return AuditDraw.roundBeacon(tasks.domainOf(task), uint32(round), randomness.valueAt(block_));
    }

    // Starting ----------------------------------------------------------------------------------------------------
    function test_start_refusals() public {
        postTask(soundTerms());
        joinAll(1, 6, 3);
        bytes memory error_ = abi.encodeWithSelector(IRefusals.PoolTooSmall.selector, task);
        vm.expectRevert(error_);
        rounds.start(task);
        join(SeatRole.SOLVER, "second", 1000);
        asSeat(verifierSeat(0));
        tasks.leave(task, verifierSeat(0));
        vm.expectRevert(error_);
        rounds.start(task);
        join(SeatRole.VERIFIER, "another", 600);
        asSeat(whistleblowerSeat(0));
        tasks.leave(task, whistleblowerSeat(0));
        vm.expectRevert(error_);
        rounds.start(task);
        join(SeatRole.WHISTLEBLOWER, "third", 600);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NothingToSeal.selector, 0));
        rounds.sealStart(task, PROOF);
        // 1000 + 1, the next even one.
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.StartAsked(task, 0, 1002);
        rounds.start(task);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.StartPending.selector, 1202));
        rounds.start(task);
        (uint256 next, uint256 live, uint256 frozenTo, uint256 startBlock) = _line();
        assertEq(next + live, 0, "none is open");
        assertEq(frozenTo, 2, "two pools");
        assertEq(startBlock, 1002, "start block");
    }

    function test_sealStart_window_dealsBoth() public {
        postTask(soundTerms());
        joinAll(2, 6, 3);
        rounds.start(task);
        roll(1002);
        expectOutside(1003, 1202);
        rounds.sealStart(task, PROOF);
        roll(1202);
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.StartSealed(task, randomness.valueAt(1002));
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.RoundOpened(task, 0, Hashing.outerRoot("weights", "zero"));
        rounds.sealStart(task, PROOF);
        assertEq(rounds.beaconOf(task, 0), _beacon(0, 1002), "beacon 0");
        assertEq(rounds.beaconOf(task, 1), _beacon(1, 1002), "beacon 1");
        assertEq(rounds.beaconOf(task, 2), 0, "no more");
        RoundView memory view_ = roundOf(0);
        assertEq(uint256(view_.phase), uint256(Phase.RUNNING), "runs");
        assertEq(view_.opened, 1202, "opened");
        assertEq(view_.pool, 3, "pool");
        assertEq(view_.verifiers, 1, "verifiers");
        assertEq(view_.whistleblowers, 1, "whistleblowers");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotStanding.selector, 0));
        rounds.start(task);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NothingToSeal.selector, 1));
        rounds.sealStart(task, PROOF);
    }

    function test_sealStart_refusals() public {
        postTask(soundTerms());
        joinAll(2, 6, 3);
        rounds.start(task);
        roll(1003);
        _halt();
        vm.expectRevert(abi.encodeWithSelector(IRefusals.TaskHalted.selector, task));
        rounds.sealStart(task, PROOF);
        assertTrue(rounds.isOver(task), "over");
    }

    /// @dev A conviction makes the frozen pool too small.
    function test_sealStart_convictedSince_reverts() public {
        begin(2, 6, 3);
        asSeat(solverSeat(1));
        tasks.leave(task, solverSeat(1));
        playRound(0);
        playRound(1);
        join(SeatRole.SOLVER, "third", 1000);
        rounds.start(task);
        (,,, uint256 startBlock) = _line();
        roll(startBlock + 1);
        uint256 before = vm.snapshotState();
        punish(verifierSeat(2), Proof.ASKED, voteRef(1, 0, 0, 0));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.PoolTooSmall.selector, task));
        rounds.sealStart(task, PROOF);
        vm.revertToState(before);
        punish(solverSeat(0), Proof.ASKED, claimRef(1, 0));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.PoolTooSmall.selector, task));
        rounds.sealStart(task, PROOF);
        vm.revertToState(before);
        rounds.sealStart(task, PROOF);
        assertEq(roundOf(2).pool, 5, "both are there");
    }

    /// @dev The block in which a start has lapsed, the task is over or can be started again.
    function test_isOver_standing() public {
        postTask(soundTerms());
        joinAll(2, 6, 3);
        assertTrue(!rounds.isOver(task), "not yet");
        roll(1190);
        rounds.start(task);
        (,,, uint256 startBlock) = _line();
        assertEq(startBlock, 1192, "start block");
        roll(1392);
        assertTrue(!rounds.isOver(task), "it can be sealed");
        roll(1393);
        assertTrue(rounds.isOver(task), "it has lapsed");
        startRounds();
        assertTrue(!rounds.isOver(task), "a round runs");
        assertEq(roundOf(0).pool, 3, "round 0");
    }

    // Committing --------------------------------------------------------------------------------------------------
    function test_commit_refusals() public {
        GameTerms memory wanted = soundTerms();
        wanted.innerSteps = 30;
        begin(wanted, 3, 6, 3);
        bytes32 base = roundOf(0).base;
        bytes32 beacon = rounds.beaconOf(task, 0);
        address one = accountOf(solverSeat(1));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.RoundUnknown.selector, 1));
        rounds.commit(task, 1, base, beacon, "claim", 4);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotCommitter.selector, stranger));
        vm.prank(stranger);
        rounds.commit(task, 0, base, beacon, "claim", 4);
        address verifier = accountOf(verifierSeat(1));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotCommitter.selector, verifier));
        vm.prank(verifier);
        rounds.commit(task, 0, base, beacon, "claim", 4);
        vm.startPrank(one);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.WrongBase.selector, base, bytes32("x")));
        rounds.commit(task, 0, "x", beacon, "claim", 4);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.WrongBeacon.selector, beacon, bytes32("x")));
        rounds.commit(task, 0, base, "x", "claim", 4);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.WrongSegments.selector, 4, 6, 3));
        rounds.commit(task, 0, base, beacon, "claim", 3);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.WrongSegments.selector, 4, 6, 7));
        rounds.commit(task, 0, base, beacon, "claim", 7);
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.ClaimTaken(task, 0, 1, "claim", 4);
        rounds.commit(task, 0, base, beacon, "claim", 4);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.AlreadyCommitted.selector, 1));
        rounds.commit(task, 0, base, beacon, "other", 4);
        vm.stopPrank();
        (uint256 seat, bytes32 root, uint256 segments) = rounds.claimOf(task, 0, 1);
        assertEq(seat, solverSeat(1), "seat");
        assertEq(root, "claim", "root");
        assertEq(segments, 4, "segments");
        (seat, root, segments) = rounds.claimOf(task, 0, 0);
        assertEq(seat + segments, 0, "none");
        assertEq(root, 0, "none");
        (seat,,) = rounds.claimOf(task, 0, 64);
        assertEq(seat, 0, "no such slot");
        punish(solverSeat(2), Proof.ASKED, claimRef(0, 2));
        address two = accountOf(solverSeat(2));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatClosed.selector, solverSeat(2)));
        vm.prank(two);
        rounds.commit(task, 0, base, beacon, "claim", 4);
        address late = accountOf(join(SeatRole.SOLVER, "late", 1000));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotCommitter.selector, late));
        vm.prank(late);
        rounds.commit(task, 0, base, beacon, "claim", 4);
    }

    /// @dev The last of all closes the round with its block; nothing counts behind it.
    function test_commit_all_closesInThatBlock() public {
        begin(3, 6, 3);
        uint256 opened = roundOf(0).opened;
        roll(opened + 5);
        commitAll(0);
        rounds.sync(task);
        assertEq(roundOf(0).closed, 0, "not written down in its own block");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NothingToSeal.selector, 0));
        rounds.sealAudits(task, 0, PROOF);
        pass(1);
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.RoundClosed(task, 0, opened + 5);
        rounds.sync(task);
        assertEq(roundOf(0).closed, opened + 5, "closed");
        (,, uint256 frozenTo,) = _line();
        assertEq(frozenTo, 3, "the pool after next");
    }

    function test_commit_twoThirds_closeAtTrainMin() public {
        begin(3, 6, 3);
        uint256 opened = roundOf(0).opened;
        commit(0, solverSeat(0));
        roll(opened + 40);
        commit(0, solverSeat(2));
        commit(0, solverSeat(1));
        assertEq(close(0), opened + 40, "the closing block takes commitments");
        playFrom(0);
        opened = roundOf(1).opened;
        commit(1, solverSeat(0));
        roll(opened + 41);
        commit(1, solverSeat(2));
        pass(1);
        address one = accountOf(solverSeat(1));
        (bytes32 base, bytes32 beacon) = (roundOf(1).base, rounds.beaconOf(task, 1));
        expectOutside(opened, opened + 41);
        vm.prank(one);
        rounds.commit(task, 1, base, beacon, "c", 4);
        assertEq(close(1), opened + 41, "in the block of the second");
    }

    function playFrom(uint256 round) private {
        sealAudits(round);
        acceptAll(round);
        postAll(round);
    }

    function test_commit_few_closeAtTrainMax() public {
        begin(3, 6, 3);
        uint256 opened = roundOf(0).opened;
        roll(opened + 80);
        commit(0, solverSeat(0));
        assertEq(close(0), opened + 80, "trainMax");
        assertEq(roundOf(0).committed, 1, "it took the last one");
    }

    /// @dev A seat that was convicted before OPEN is not counted.
    function test_commit_counted_atOpen() public {
        begin(3, 6, 3);
        commitAll(0);
        sealAudits(0);
        acceptAll(0);
        punish(solverSeat(2), Proof.ASKED, claimRef(0, 2));
        post(0, 3, rootAfter(0), 3);
        uint256 opened = roundOf(1).opened;
        assertEq(roundOf(1).pool, 7, "it sits there");
        commit(1, solverSeat(0));
        commit(1, solverSeat(1));
        assertEq(close(1), opened, "all that counted");
        sealAudits(1);
        acceptAll(1);
        post(1, 3, rootAfter(1), 7);
        assertEq(roundOf(1).signers, 3, "its signature counts no more");
        assertEq(roundOf(2).pool, 7, "frozen before");
        commit(2, solverSeat(0));
        commit(2, solverSeat(1));
        sealAudits(2);
        acceptAll(2);
        post(2, 3, rootAfter(2), 3);
        assertEq(roundOf(3).pool, 3, "it does not sit any more");
    }

    // Drawing -----------------------------------------------------------------------------------------------------
    function test_sealAudits_window() public {
        begin(3, 6, 3);
        commitAll(0);
        uint256 closed = close(0);
        uint256 first = drawBlock(closed) + 1;
        if (now_() < first) {
            expectOutside(first, closed + 9);
            rounds.sealAudits(task, 0, PROOF);
        }
        roll(closed + 9);
        bytes32 value = randomness.valueAt(first - 1);
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.AuditsDrawn(task, 0, value);
        rounds.sealAudits(task, 0, PROOF);
        assertEq(roundOf(0).seed, AuditDraw.roundSeed(tasks.domainOf(task), 0, value), "seed");
        assertTrue(roundOf(0).isSealed, "sealed");
        assertEq(rounds.beaconOf(task, 2), _beacon(2, first - 1), "the shards of round 2");
        assertEq(rounds.beaconOf(task, 1), _beacon(1, 1002), "those of round 1 stay");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NothingToSeal.selector, 0));
        rounds.sealAudits(task, 0, PROOF);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.RoundUnknown.selector, 1));
        rounds.sealAudits(task, 1, PROOF);
    }

    function test_sealAudits_undoneRound_reverts() public {
        begin(3, 6, 3);
        commitAll(0);
        sealAudits(0);
        acceptAll(0);
        post(0, 7, rootAfter(0), 3);
        commitAll(1);
        close(1);
        fall(0);
        roll(drawBlock(roundOf(1).closed) + 1);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NothingToSeal.selector, 1));
        rounds.sealAudits(task, 1, PROOF);
        bytes32 base = roundOf(1).base;
        vm.expectRevert(abi.encodeWithSelector(IRefusals.RoundUndone.selector, 1));
        rounds.commit(task, 1, base, 0, 0, 4);
    }

    function _lateTerms() private view returns (GameTerms memory wanted) {
        wanted = soundTerms();
        wanted.lateChance = 65_536;
    }

    /// @dev close + auditMax of the last missing round, and only where the task stands.
    function test_sealClosing_window() public {
        begin(_lateTerms(), 3, 6, 3);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NothingToSeal.selector, 1));
        rounds.sealClosing(task, PROOF);
        _halt();
        playRound(0);
        uint256 from = roundOf(0).closed + 30;
        uint256 first = drawBlock(from) + 1;
        expectOutside(first, from + 9);
        rounds.sealClosing(task, PROOF);
        roll(from + 9);
        bytes32 value = randomness.valueAt(first - 1);
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.ClosingDrawn(task, from, value);
        rounds.sealClosing(task, PROOF);
        assertEq(roundOf(0).lateFrom, from, "from");
        assertEq(roundOf(0).lateSeed, AuditDraw.roundSeed(tasks.domainOf(task), 1, value), "seed");
        assertEq(roundOf(0).lateSlots, 7, "slots");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NothingToSeal.selector, 1));
        rounds.sealClosing(task, PROOF);
        vote_(0, 0, 2, 0, ACCEPT, true);
        windUp();
    }

    /// @dev A task that stood later counts from there; without late audits there is no such draw.
    function test_sealClosing_standingLater_countsFromThere() public {
        begin(_lateTerms(), 3, 6, 3);
        _halt();
        playToDraw(0);
        roll(roundOf(0).closed + 36);
        rounds.stand(task, 0);
        uint256 from = now_();
        assertEq(from, roundOf(0).closed + 36, "stands since");
        roll(from + 9);
        rounds.sealClosing(task, PROOF);
        assertEq(roundOf(0).lateFrom, from, "from");
        assertEq(roundOf(0).lateSlots, 7, "undecided ones too");
        windUp();
    }

    function test_sealClosing_missedOrNotDue_reverts() public {
        begin(3, 6, 3);
        _halt();
        playRound(0);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NothingToSeal.selector, 1));
        rounds.sealClosing(task, PROOF);
    }

    function test_sealClosing_behindDispute_reverts() public {
        begin(_lateTerms(), 3, 6, 3);
        _halt();
        playRound(0);
        uint256 closed = roundOf(0).closed;
        roll(closed + 200);
        expectOutside(drawBlock(closed + 30) + 1, closed + 39);
        rounds.sealClosing(task, PROOF);
        roll(closed + 201);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NothingToSeal.selector, 1));
        rounds.sealClosing(task, PROOF);
    }

    /// @dev A start that is asked for will draw them; once it lapses the closing seed is due.
    function test_sealClosing_pendingStart_waits() public {
        GameTerms memory wanted = _lateTerms();
        begin(wanted, 2, 6, 3);
        asSeat(solverSeat(1));
        tasks.leave(task, solverSeat(1));
        playRound(0);
        playRound(1);
        (uint256 next, uint256 live,,) = _line();
        assertEq(next, 2, "two rounds");
        assertEq(live, 0, "stands");
        join(SeatRole.SOLVER, "third", 1000);
        rounds.start(task);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NothingToSeal.selector, 2));
        rounds.sealClosing(task, PROOF);
    }

    // Posting -----------------------------------------------------------------------------------------------------
    function test_post_refusals() public {
        begin(3, 6, 3);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotNewest.selector, 0));
        rounds.post(task, 0, 7, "root", 7, "");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotNewest.selector, 0));
        rounds.stand(task, 0);
        playToDraw(0);
        uint256 closed = roundOf(0).closed;
        expectOutside(closed + 30, closed + 35);
        rounds.post(task, 0, 7, "root", 7, "");
    }

    /// @dev A seat commits to the root of another one. Signatures are of slots: that of the copy is not what was signed.
    function test_post_slotOfACopiedRoot_reverts() public {
        begin(3, 6, 3);
        commit(0, solverSeat(0));
        commit(0, solverSeat(1));
        bytes32 root = claimRoot(0, solverSeat(1));
        (bytes32 base, bytes32 beacon) = (roundOf(0).base, rounds.beaconOf(task, 0));
        asSeat(solverSeat(2));
        rounds.commit(task, 0, base, beacon, root, segmentsOf(0, solverSeat(1)));
        sealAudits(0);
        voteAll(0, 0, 0, ACCEPT);
        voteAll(0, 1, 0, ACCEPT);
        for (uint256 draw = 0; draw < terms.draws; ++draw) {
            vote_(0, 2, draw, 0, ACCEPT, false);
        }
        bytes memory signatures = signMerge(0, 2, "root", 7);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NoMajority.selector, 7, 0));
        rounds.post(task, 0, 4, "root", 7, signatures);
        rounds.post(task, 0, 2, "root", 7, signatures);
        assertEq(roundOf(0).merged, 2, "the slot that was signed");
    }

    function test_post_window_edges() public {
        begin(3, 6, 3);
        playToDraw(0);
        uint256 closed = roundOf(0).closed;
        voteAll(0, 0, 0, ACCEPT);
        voteAll(0, 1, 0, ACCEPT);
        bytes memory signatures = signMerge(0, 3, "root", 7);
        roll(closed + 29);
        expectOutside(closed + 30, closed + 35);
        rounds.post(task, 0, 3, "root", 7, signatures);
        roll(closed + 30);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotMergeable.selector, 3, 0));
        rounds.post(task, 0, 0, "root", 7, signatures);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotMergeable.selector, 3, 4));
        rounds.post(task, 0, 4, "root", 7, signatures);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotMergeable.selector, 3, 7));
        rounds.post(task, 0, 7, "root", 7, signatures);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NoMajority.selector, 7, 0));
        rounds.post(task, 0, 1, "root", 7, signatures);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotNewest.selector, 1));
        rounds.post(task, 1, 3, "root", 7, signatures);
        uint256 before = vm.snapshotState();
        roll(closed + 35);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotLate.selector, closed + 35, closed + 35));
        rounds.stand(task, 0);
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.RootPosted(task, 0, "root", 3, 7);
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.RoundOpened(task, 1, "root");
        rounds.post(task, 0, 3, "root", 7, signatures);
        RoundView memory view_ = roundOf(0);
        assertEq(uint256(view_.phase), uint256(Phase.POSTED), "posted");
        assertEq(view_.root, "root", "root");
        assertEq(view_.merged, 3, "merged");
        assertEq(view_.signers, 7, "signers");
        assertEq(view_.rootUntil, closed + 200, "contests");
        assertEq(roundOf(1).base, "root", "the next starts from it");
        vm.revertToState(before);
        roll(closed + 36);
        expectOutside(closed, closed + 35);
        rounds.post(task, 0, 3, "root", 7, signatures);
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.RootStood(task, 0);
        rounds.stand(task, 0);
        assertEq(roundOf(0).root, 0, "no root of its own");
        assertEq(roundOf(1).base, roundOf(0).base, "the base stands");
    }

    /// @dev Once nothing is undecided nobody waits for auditMax.
    function test_post_allDecided_atOnce() public {
        begin(3, 6, 3);
        playToDraw(0);
        acceptAll(0);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotLate.selector, roundOf(0).closed + 35, now_()));
        rounds.stand(task, 0);
        postAll(0);
        assertEq(roundOf(1).opened, now_(), "the next opens");
    }

    /// @dev Nothing to merge: the base stands at once.
    function test_stand_nothingMergeable_atOnce() public {
        begin(3, 6, 3);
        _halt();
        playToDraw(0);
        for (uint256 slot = 0; slot < 3; ++slot) {
            vote_(0, slot, 0, 0, ABSTAIN, false);
            vote_(0, slot, 0, 1, ABSTAIN, false);
        }
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.TaskStood(task);
        rounds.stand(task, 0);
        windUp();
    }

    // Falling -----------------------------------------------------------------------------------------------------
    function test_fall_postAgain_window() public {
        begin(3, 6, 3);
        playToDraw(0);
        acceptAll(0);
        post(0, 7, rootAfter(0), 3);
        uint256 before = vm.snapshotState();
        fall(0);
        uint256 fallen = now_();
        bytes memory signatures = signMerge(0, 1, "again", 4);
        roll(fallen + 6);
        expectOutside(fallen, fallen + 5);
        rounds.post(task, 0, 1, "again", 4, signatures);
        vm.revertToState(before);
        fall(0);
        signatures = signMerge(0, 1, "again", 4);
        rounds.post(task, 0, 1, "again", 4, signatures);
        assertEq(roundOf(0).root, "again", "root");
        assertEq(roundOf(0).rootUntil, fallen + 200, "from the new posting");
        assertEq(uint256(roundOf(1).phase), uint256(Phase.UNDONE), "still undone");
        assertEq(roundOf(1).root, 0, "without a root");
    }

    function test_modulesOnly() public {
        begin(3, 6, 3);
        bytes memory error_ = abi.encodeWithSelector(IRefusals.NotModule.selector, address(this));
        vm.expectRevert(error_);
        rounds.begin(task, "root");
        vm.expectRevert(error_);
        rounds.fall(task, 0, false);
    }

    // Views -------------------------------------------------------------------------------------------------------
    function test_heldRounds_andRosters() public {
        begin(3, 6, 3);
        asSeat(verifierSeat(3));
        tasks.leave(task, verifierSeat(3));
        join(SeatRole.VERIFIER, "new", 600);
        asSeat(solverSeat(1));
        tasks.leave(task, solverSeat(1));
        playRound(0);
        playRound(1);
        assertEq(tasks.heldRounds(task, verifierSeat(3), 0, 2), 3, "before it left");
        assertEq(tasks.heldRounds(task, verifierSeat(6), 0, 2), 4, "since it joined");
        assertEq(tasks.heldRounds(task, verifierSeat(6), 1, 2), 2, "from round 1");
        assertEq(tasks.heldRounds(task, solverSeat(1), 0, 2), 3, "a solver");
        assertEq(tasks.heldRounds(task, whistleblowerSeat(2), 0, 2), 7, "a whistleblower");
        assertEq(tasks.heldRounds(task, verifierSeat(256), 0, 2), 0, "beyond the words");
        commitAll(2);
        close(2);
        assertEq(rounds.heldTo(task), 4, "frozen, not open");
        assertEq(rounds.rosterOf(task, 1).pool, 7, "the last with solver 1");
        assertEq(rounds.rosterOf(task, 2).pool, 5, "no more");
        assertEq(tasks.heldRounds(task, solverSeat(0), 0, 3), 15, "the frozen one too");
        assertEq(rounds.nextRound(task), 3, "next");
        IRounds.Facts[] memory facts = rounds.factsOf(task, 1, 2);
        assertEq(facts.length, 2, "two");
        assertEq(facts[0].pool, 7, "pool");
        assertEq(facts[0].committed, 7, "committed");
        assertEq(facts[0].missing, 0, "none");
        assertTrue(!facts[0].isUndone && !facts[0].isShort, "nothing special");
    }

    /// @dev Two closing draws of one task: each round keeps its own.
    function test_sealClosing_twice_keepsBothSeeds() public {
        GameTerms memory wanted = _lateTerms();
        wanted.rounds = 8;
        begin(wanted, 2, 6, 3);
        asSeat(solverSeat(1));
        tasks.leave(task, solverSeat(1));
        playRound(0);
        playRound(1);
        roll(drawBlock(roundOf(1).closed + 30) + 1);
        rounds.sealClosing(task, PROOF);
        bytes32 first = roundOf(1).lateSeed;
        uint256 third = join(SeatRole.SOLVER, "third", 1000);
        startRounds();
        asSeat(third);
        tasks.leave(task, third);
        playRound(2);
        playRound(3);
        roll(drawBlock(roundOf(3).closed + 30) + 1);
        bytes32 value = randomness.valueAt(now_() - 1);
        rounds.sealClosing(task, PROOF);
        assertEq(roundOf(3).lateSeed, AuditDraw.roundSeed(tasks.domainOf(task), 4, value), "the second");
        assertEq(roundOf(1).lateSeed, first, "the first stays");
        assertTrue(roundOf(0).lateSeed == roundOf(1).seed, "round 0 has that of round 1");
        assertTrue(roundOf(2).lateSeed == roundOf(3).seed, "round 2 has that of round 3");
        vote_(1, 0, 2, 0, ACCEPT, true);
        assertEq(votes.votesOf(task, 1, 0, 2)[0], 5, "votes by the first");
        windUp();
    }

    /// @dev A draw takes what those before it have missed, until dispute is over; rounds without claims are passed over.
    function test_sealAudits_drawsAllThatAreMissing() public {
        begin(_lateTerms(), 3, 6, 3);
        playRound(0);
        roll(roundOf(1).opened + 81);
        rounds.stand(task, 1);
        assertEq(roundOf(0).lateFrom, 0, "not drawn");
        playToDraw(2);
        assertEq(roundOf(0).lateFrom, roundOf(2).closed, "behind one without claims");
        assertEq(roundOf(1).lateFrom, 0, "nothing to audit");
    }

    function test_sealAudits_behindDispute_drawsNoMore() public {
        begin(_lateTerms(), 3, 6, 3);
        playRound(0);
        uint256 closed = roundOf(0).closed;
        roll(roundOf(1).opened + 81);
        rounds.stand(task, 1);
        uint256 opened = roundOf(2).opened;
        commit(2, solverSeat(0));
        roll(opened + 80);
        uint256 last = close(2);
        assertTrue(last < closed + 200, "still in time");
        roll(drawBlock(last) + 1);
        rounds.sealAudits(task, 2, PROOF);
        assertEq(roundOf(0).lateFrom, last, "drawn");
    }
}
