// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameTerms, Phase, RoundView, SeatRole} from "../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {IVotes} from "../../../contracts/game/interfaces/IVotes.sol";
import {GameWorld} from "./GameWorld.sol";
import {ContestsStub, QuestionsStub} from "./Stubs.sol";

interface CoolVm {
    function cool(address target) external;
}

/// @title The ring: 128 rounds have places, 16 of them are freed at once, and a new round shows nothing of the one whose place it takes.
/// @dev One solver, three verifiers and three whistleblowers; one draw a claim, a late one for each.
contract RingTest is GameWorld {
    /// @dev Of at most 16.7 million that a transaction may take.
    uint256 private constant FREE_GAS = 6_000_000;
    uint256 private freed;
    uint256 private lastPlayed;

    function freedEpochs() internal view override returns (uint256) {
        return freed;
    }

    function _terms(uint256 rounds_) private view returns (GameTerms memory wanted) {
        wanted = soundTerms();
        (wanted.rounds, wanted.draws, wanted.lateChance) = (uint32(rounds_), 1, 65_536);
        (wanted.solverSeats, wanted.leastSolvers, wanted.leastVerifiers) = (2, 1, 3);
    }

    /// @dev Its one claim is void: nobody draws.
    function _skip(uint256 round) private {
        commit(round, solverSeat(0));
        roll(close(round) + 10);
        rounds.stand(task, round);
    }

    /// @dev One that was drawn: the next two have beacons. Round 1 of three is.
    function _play(uint256 from, uint256 to) private {
        for (uint256 round = from; round < to; ++round) {
            if (round % 2 == 1) _skip(round);
            else playRound(round);
        }
    }

    function _settleEpoch(uint256 epoch) private {
        uint256 last = 16 * epoch + 15;
        IRounds.Facts[] memory facts = rounds.factsOf(task, 16 * epoch, last);
        for (uint256 i = 0; i < 16; ++i) {
            if (now_() <= facts[i].dutyUntil) roll(facts[i].dutyUntil + 1);
        }
        for (uint256 i = 0; i < 3; ++i) {
            if (i == 0) settleOne(solverSeat(i), last);
            settleOne(verifierSeat(i), last);
            settleOne(whistleblowerSeat(i), last);
        }
    }

    function test_ring_full_waitsForAnEpoch() public {
        begin(_terms(200), 1, 3, 3);
        _play(0, 126);
        (,, uint256 frozenTo,,,,) = lineNow();
        assertEq(frozenTo, 128, "two rounds ahead");
        _play(126, 127);
        (,, frozenTo,,,,) = lineNow();
        assertEq(frozenTo, 128, "the ring is full");
        _play(127, 128);
        (uint256 next, uint256 live,,,,,) = lineNow();
        assertEq(next, 128, "next");
        assertEq(live, 0, "it stands");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.RingFull.selector, 128));
        rounds.start(task);
        _settleEpoch(0);
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.EpochFreed(task, 0);
        rounds.freeEpoch(task);
        freed = 1;
        vm.expectRevert(abi.encodeWithSelector(IRefusals.RoundUnknown.selector, 15));
        rounds.roundOf(task, 15);
        rounds.roundOf(task, 16);
        startRounds();
        _play(128, 142);
        (,, frozenTo,,,,) = lineNow();
        assertEq(frozenTo, 144, "16 more");
        vm.prank(submitter);
        rounds.halt(task);
        _play(142, 143);
        passDuties();
        assertEq(purse.creditOf(accountOf(solverSeat(0))), 800, "eight of the first epoch");
        windUp();
        assertEq(
            token.balanceOf(vm.addr(uint256(keccak256("solver0")))),
            1000 + 100 * 72,
            "every second round of 143"
        );
    }

    /// @dev Only one of two rounds has a place: it alone is frozen and dealt. The other's place is still that of round 0.
    function test_start_lastPlaceOfTheRing_freezesOne() public {
        begin(_terms(200), 1, 3, 3);
        bytes32 first = rounds.beaconOf(task, 0);
        asSeat(solverSeat(0));
        tasks.leave(task, solverSeat(0));
        _play(0, 2);
        uint256 seat = join(SeatRole.SOLVER, "second", 1000);
        startRounds();
        for (uint256 round = 2; round < 127; ++round) {
            if (round == 125) {
                asSeat(seat);
                tasks.leave(task, seat);
            }
            commit(round, seat);
            if (round % 2 == 0) {
                sealAudits(round);
                acceptAll(round);
                postAll(round);
            } else {
                roll(close(round) + 10);
                rounds.stand(task, round);
            }
        }
        (uint256 next,,,,,,) = lineNow();
        assertEq(next, 127, "next");
        join(SeatRole.SOLVER, "third", 1000);
        startRounds();
        (,, uint256 frozenTo,,,,) = lineNow();
        assertEq(frozenTo, 128, "one");
        assertEq(rounds.beaconOf(task, 128), 0, "not dealt");
        assertTrue(rounds.beaconOf(task, 127) != 0, "dealt");
        assertEq(rounds.beaconOf(task, 0), first, "kept");
    }

    function _refuse(uint256 last) private {
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotSettleable.selector, 0, last));
        rounds.freeEpoch(task);
    }

    function test_freeEpoch_whileItIsNeeded_reverts() public {
        begin(_terms(200), 1, 3, 3);
        _play(0, 15);
        _refuse(15);
        _play(15, 17);
        _refuse(15);
        _settleEpoch(0);
        uint256 late = join(SeatRole.VERIFIER, "late", 600);
        assertEq(tasks.seatAt(task, late).settled, 18, "it has nothing to settle");
        assertEq(tasks.settledBy(task), 16, "the others have");
        ContestsStub(contests).open(task, 15);
        _refuse(15);
        ContestsStub(contests).end(task, 15);
        ContestsStub(contests).open(task, 16);
        rounds.freeEpoch(task);
        _refuse(31);
        ContestsStub(contests).end(task, 16);
    }

    /// @dev Its last round is the epoch's last: no later one has to be opened first.
    function test_freeEpoch_ofATaskOfSixteenRounds() public {
        begin(_terms(16), 1, 3, 3);
        _play(0, 16);
        _settleEpoch(0);
        (uint256 next,,,,,,) = lineNow();
        assertEq(next, 16, "no round is to come");
        rounds.freeEpoch(task);
    }

    /// @dev 13 seats settled round 15, one did not: it alone blocks.
    function test_freeEpoch_oneSeatBehind_reverts() public {
        begin(_terms(200), 1, 3, 3);
        _play(0, 17);
        passTo(15);
        settleOne(solverSeat(0), 15);
        for (uint256 i = 0; i < 3; ++i) {
            settleOne(verifierSeat(i), 15);
            if (i != 1) settleOne(whistleblowerSeat(i), 15);
        }
        _refuse(15);
        settleOne(whistleblowerSeat(1), 15);
        rounds.freeEpoch(task);
    }

    /// @dev Everybody who can be there is: 1,024 verifiers, 1,024 whistleblowers, two solvers of which one plays. All but three of each join when the
    /// epoch is over. The call looks at each of them, cold.
    function test_freeEpoch_allSeatsTaken_fitsATransaction() public {
        begin(_terms(200), 1, 3, 3);
        _play(0, 17);
        _settleEpoch(0);
        for (uint256 i = 3; i < 1024; ++i) {
            _joinQuietly(SeatRole.VERIFIER, i);
            _joinQuietly(SeatRole.WHISTLEBLOWER, i);
        }
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatsTaken.selector, 0));
        vm.prank(stranger);
        tasks.join(task, SeatRole.VERIFIER, 600);
        CoolVm(address(vm)).cool(address(tasks));
        CoolVm(address(vm)).cool(address(rounds));
        uint256 before = gasleft();
        rounds.freeEpoch(task);
        uint256 used = before - gasleft() + 21_000;
        assertTrue(used < FREE_GAS, string.concat("gas ", vm.toString(used)));
        assertTrue(used > 4_000_000, string.concat("gas ", vm.toString(used)));
    }

    function _joinQuietly(SeatRole role, uint256 number) private {
        address account = address(uint160(uint256(role) << 16 | number));
        token.mint(account, 600);
        vm.startPrank(account);
        token.approve(address(purse), 600);
        purse.deposit(600);
        tasks.join(task, role, 600);
        vm.stopPrank();
    }

    function passTo(uint256 round) private {
        roll(rounds.factsOf(task, round, round)[0].dutyUntil + 1);
    }

    /// @dev Counts of epoch 16 have the place of epoch 0: they must not be taken for those of an old one.
    function test_settle_contestOfALaterEpoch_doesNotBlock() public {
        begin(_terms(400), 1, 3, 3);
        uint256 round = 0;
        while (round < 257) {
            (, uint256 live,,,,,) = lineNow();
            if (live == 0) {
                for (uint256 i = 0; i < 4; ++i) {
                    _settleEpoch(freed);
                    rounds.freeEpoch(task);
                    ++freed;
                }
                startRounds();
            }
            _play(round, round + 1);
            ++round;
        }
        while (freed < 15) {
            _settleEpoch(freed);
            rounds.freeEpoch(task);
            ++freed;
        }
        ContestsStub(contests).open(task, 256);
        _settleEpoch(15);
        assertEq(tasks.settledBy(task), 256, "settled");
        ContestsStub(contests).end(task, 256);
        ContestsStub(contests).open(task, 240);
        vm.prank(submitter);
        rounds.halt(task);
        rounds.stand(task, 257);
        passDuties();
        vm.expectRevert(abi.encodeWithSelector(IRefusals.ContestRuns.selector, 257));
        settleOne(solverSeat(0), 257);
        ContestsStub(contests).end(task, 240);
        windUp();
    }

    /// @dev Counts of epoch 9 have the place of epoch 0: what is open there must not hold epoch 7, or whoever keeps a question open on a seat, also on its
    /// own, holds all older epochs, and so the ring.
    function test_settle_openTwoEpochsLater_doesNotBlock() public {
        begin(_terms(400), 1, 3, 3);
        _play(0, 128);
        for (uint256 i = 0; i < 7; ++i) {
            _settleEpoch(freed);
            rounds.freeEpoch(task);
            ++freed;
        }
        startRounds();
        _play(128, 145);
        QuestionsStub(asks).open(task, verifierSeat(0), 144);
        ContestsStub(contests).open(task, 144);
        _settleEpoch(7);
        assertEq(tasks.settledBy(task), 128, "settled");
        rounds.freeEpoch(task);
        ++freed;
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotSettleable.selector, verifierSeat(0), 144));
        settlement.settle(task, _only(verifierSeat(0)), 144);
        QuestionsStub(asks).end(task, verifierSeat(0), 144);
        ContestsStub(contests).end(task, 144);
        vm.prank(submitter);
        rounds.halt(task);
        pass(100);
        rounds.stand(task, 145);
        passDuties();
        windUp();
    }

    function _only(uint256 seat) private pure returns (uint256[] memory seats) {
        seats = new uint256[](1);
        seats[0] = seat;
    }

    /// @dev Both seats play; in round 4 the first claim is short, not served, and the second fails late. Round 132 takes its place.
    function test_ring_newLap_showsNothingOfTheOld() public {
        GameTerms memory wanted = _terms(300);
        (wanted.amounts.unservedFee, wanted.amounts.droppedFee) = (1, 0);
        (wanted.amounts.solverStake, wanted.amounts.auditorStake) = (500, 500);
        postTask(wanted);
        for (uint256 i = 0; i < 2; ++i) {
            join(SeatRole.SOLVER, string.concat("solver", vm.toString(i)), 1000);
        }
        for (uint256 i = 0; i < 3; ++i) {
            join(SeatRole.VERIFIER, string.concat("verifier", vm.toString(i)), 1000);
            join(SeatRole.WHISTLEBLOWER, string.concat("whistleblower", vm.toString(i)), 1000);
        }
        startRounds();
        _playBoth(0, 4);
        commitShort(4, solverSeat(0), 2);
        commit(4, solverSeat(1));
        sealAudits(4);
        vote_(4, 0, 0, 0, UNSERVED, false);
        vote_(4, 0, 0, 1, UNSERVED, false);
        voteAll(4, 1, 0, ACCEPT);
        postAll(4);
        _playBoth(5, 7);
        vote_(4, 1, 1, 0, REJECT_STATE, true);
        vote_(4, 1, 1, 1, REJECT_STATE, true);
        IVotes.Ends memory end = votes.endsOf(task, 4, 4)[0];
        assertEq(end.unserved, 1, "not served");
        assertEq(end.lateRejected, 2, "rejected late");
        assertEq(end.accepted, 2, "accepted");
        assertEq(roundOf(4).lateFrom, roundOf(6).closed, "late");
        _playBoth(7, 128);
        for (uint256 role = 1; role <= 3; ++role) {
            uint256[] memory seats = seatsOf[SeatRole(role)];
            passTo(15);
            settlement.settle(task, seats, 15);
        }
        rounds.freeEpoch(task);
        freed = 1;
        startRounds();
        _playBoth(128, 131);
        commitAll(131);
        roll(close(131) + 10);
        rounds.stand(task, 131);
        RoundView memory view_ = roundOf(132);
        assertEq(view_.committed, 0, "no claims");
        assertEq(view_.closed, 0, "open");
        assertEq(view_.lateFrom + view_.lateSlots, 0, "no late draw");
        assertEq(view_.seed, 0, "no seed");
        assertEq(view_.merged + view_.signers, 0, "no root");
        (bytes32[] memory roots, uint256[] memory segments) = rounds.claimsOf(task, 132);
        assertEq(roots[0], 0, "no root");
        assertEq(segments[0], 0, "no segments");
        commitAll(132);
        (,, uint256 count) = rounds.claimOf(task, 132, 0);
        assertEq(count, 4, "whole");
        sealAudits(132);
        for (uint256 slot = 0; slot < 2; ++slot) {
            for (uint256 draw = 0; draw < 2; ++draw) {
                uint256[3] memory codes = votes.votesOf(task, 132, slot, draw);
                assertEq(codes[0] + codes[1] + codes[2], 0, "no votes");
            }
        }
        IRounds.Fates memory fates = rounds.fatesOf(task, 132);
        assertEq(fates.accepted | fates.mergeable | fates.convicted, 0, "nothing decided");
        assertEq(fates.open, 3, "both undecided");
        end = votes.endsOf(task, 132, 132)[0];
        assertEq(end.accepted | end.convicted | end.unserved | end.lateRejected, 0, "no troubles");
        assertEq(votes.countUnserved(task, 132, 0), 0, "served");
        voteAll(132, 0, 0, ACCEPT);
        vote_(132, 1, 0, 0, UNSERVED, false);
        vote_(132, 1, 0, 1, UNSERVED, false);
        assertEq(rounds.fatesOf(task, 132).mergeable, 1, "one accepted");
        end = votes.endsOf(task, 132, 132)[0];
        assertEq(end.unserved, 2, "its own trouble alone");
        assertEq(end.lateRejected, 0, "nothing of the lap before");
        postAll(132);
        vm.prank(submitter);
        rounds.halt(task);
        commitAll(133);
        roll(close(133) + 10);
        rounds.stand(task, 133);
        passDuties();
        settleAll(133);
        // 66 drawn rounds of 0, 2 .. 132, and 128 is dealt by a start: 67. Round 4 pays neither, round 132 the first.
        assertEq(creditOf(solverSeat(0)), 6600, "not round 4");
        assertEq(creditOf(solverSeat(1)), 6500, "failed late in round 4, not served in round 132");
        assertEq(stakeOf(solverSeat(0)), 999, "one fee");
        assertEq(stakeOf(solverSeat(1)), 999, "one fee");
        windUp();
    }

    function _playBoth(uint256 from, uint256 to) private {
        for (uint256 round = from; round < to; ++round) {
            if (round % 2 == 0) {
                playRound(round);
            } else {
                commitAll(round);
                roll(close(round) + 10);
                rounds.stand(task, round);
            }
        }
    }

    /// @dev Round 0 fell and was posted again; round 128 takes its place and has the root that was posted for it, and its base.
    function test_ring_newLap_forgetsAFall() public {
        GameTerms memory wanted = _terms(300);
        wanted.solverSeats = 3;
        begin(wanted, 3, 3, 3);
        playToDraw(0);
        acceptAll(0);
        post(0, 7, rootAfter(0), 3);
        fall(0);
        post(0, 1, rootAfter(1000), 4);
        assertEq(roundOf(0).root, rootAfter(1000), "posted again");
        startRounds();
        for (uint256 round = 2; round < 128; ++round) {
            _alone(round);
        }
        for (uint256 role = 1; role <= 3; ++role) {
            IRounds.Facts[] memory facts = rounds.factsOf(task, 0, 15);
            for (uint256 i = 0; i < 16; ++i) {
                if (now_() <= facts[i].dutyUntil) roll(facts[i].dutyUntil + 1);
            }
            settlement.settle(task, seatsOf[SeatRole(role)], 15);
        }
        for (uint256 i = 0; i < 2; ++i) {
            tasks.payOut(task, solverSeat(i));
        }
        rounds.freeEpoch(task);
        freed = 1;
        startRounds();
        _alone(128);
        RoundView memory view_ = roundOf(128);
        assertEq(view_.root, rootAfter(128), "its own root");
        assertEq(view_.rootUntil, view_.closed + 200, "its own window");
        assertEq(roundOf(129).base, rootAfter(128), "the next starts from it");
        assertEq(uint256(view_.phase), uint256(Phase.POSTED), "posted");
        vm.prank(submitter);
        rounds.halt(task);
        commit(129, solverSeat(2));
        roll(close(129) + 10);
        rounds.stand(task, 129);
        windUp();
    }

    function _alone(uint256 round) private {
        commit(round, solverSeat(2));
        if (round % 2 == 0) {
            sealAudits(round);
            acceptAll(round);
            postAll(round);
        } else {
            roll(close(round) + 10);
            rounds.stand(task, round);
        }
    }

    /// @dev Freed while round 127 runs: round 128 was not frozen at its time, so 129 is not either, and the task stands.
    function test_ring_freedTooLate_stands() public {
        begin(_terms(200), 1, 3, 3);
        _play(0, 20);
        for (uint256 round = 20; round < 36; ++round) {
            pass(60);
            _play(round, round + 1);
        }
        _play(36, 127);
        uint256 opened = roundOf(127).opened;
        _settleEpoch(0);
        assertEq(now_(), opened, "round 127 runs");
        rounds.freeEpoch(task);
        freed = 1;
        (,, uint256 frozenTo,,,,) = lineNow();
        assertEq(frozenTo, 128, "as before");
        _skip(127);
        (uint256 next, uint256 live,,,,,) = lineNow();
        assertEq(next, 128, "next");
        assertEq(live, 0, "it stands");
        startRounds();
        (,, frozenTo,,,,) = lineNow();
        assertEq(frozenTo, 130, "both");
    }
}
