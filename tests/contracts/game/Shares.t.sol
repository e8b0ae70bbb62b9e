// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../contracts/Types.sol";
import {Proof, SeatRole, SeatStatus} from "../../../contracts/game/GameTypes.sol";
import {IPurse} from "../../../contracts/game/interfaces/IPurse.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {IShares, ITaskShares} from "../../../contracts/game/interfaces/IShares.sol";
import {Pots} from "../../../contracts/game/libraries/Pots.sol";
import {ContestsStub, QuestionsStub} from "./Stubs.sol";
import {ISharesToken, SharesWorld} from "./SharesWorld.sol";

/// @title Shares: minted by settled work only, revenue in proportion to them, and a halt by their majority that takes nothing from anybody.
contract SharesTest is SharesWorld {
    // Minting -----------------------------------------------------------------------------------------------------
    function test_sharesOf_newTask_isAToken() public {
        postTask(soundTerms());
        ISharesToken found = sharesToken();
        assertEq(found.task(), TaskId.unwrap(task), "its task");
        assertEq(bytes(found.name()).length, bytes("Touchstone task 01234567").length, "name");
        assertEq(bytes(found.symbol()).length, bytes("TASK-01234567").length, "symbol");
        assertEq(found.decimals(), 18, "decimals");
        assertEq(found.totalSupply(), 0, "nobody has worked");
        // The token's own permits, and no contract that may move shares without one.
        assertEq(found.allowance(submitter, 0x000000000022D473030F116dDEE9F6B43aC78BA3), 0, "Permit2");
    }

    function test_settle_mintsOneShareForEachWeiOfPay() public {
        playEpoch();
        assertEq(sharesToken().totalSupply(), 0, "nothing is settled");
        waitForDuties(0, EPOCH - 1);
        settleAll(EPOCH - 1);
        uint256 paidWei;
        for (uint256 role = 1; role <= 3; ++role) {
            uint256[] memory seats = seatsOf[SeatRole(role)];
            for (uint256 i = 0; i < seats.length; ++i) {
                uint256 creditWei = creditOf(seats[i]);
                assertEq(
                    sharesToken().balanceOf(accountOf(seats[i])), creditWei, "a share for each wei of pay"
                );
                paidWei += creditWei;
            }
        }
        assertTrue(paidWei >= 16 * terms.amounts.solverPay, "eight rounds of two solvers, and audits");
        assertEq(sharesToken().totalSupply(), paidWei, "supply");
        assertEq(heldShares(), paidWei, "all of it is theirs");
    }

    /// @dev Its accepted rounds are not settled when it is convicted: their pay is burned, so nobody gets shares for them.
    function test_settle_convictedSeat_mintsNothing() public {
        playEpoch();
        uint256 cheat = seatIn(0, 0);
        waitForDuties(0, EPOCH - 1);
        punish(cheat, Proof.DISPUTED, claimRef(0, 0));
        settleAll(EPOCH - 1);
        assertEq(sharesToken().balanceOf(accountOf(cheat)), 0, "no shares");
        assertTrue(sharesToken().balanceOf(accountOf(seatIn(0, 1))) != 0, "the other one has");
    }

    function test_mint_byOthers_isRefused() public {
        postTask(soundTerms());
        bytes memory error_ = abi.encodeWithSelector(IRefusals.NotModule.selector, stranger);
        vm.startPrank(stranger);
        vm.expectRevert(error_);
        shares.mint(task, stranger, 1);
        vm.expectRevert(error_);
        shares.create(TaskId.wrap("other"));
        ISharesToken found = sharesToken();
        error_ = abi.encodeWithSelector(ITaskShares.NotShares.selector, stranger);
        vm.expectRevert(error_);
        found.mint(stranger, 1);
        vm.expectRevert(error_);
        found.distribute(1);
        vm.expectRevert(error_);
        found.takeEarned(stranger);
        vm.expectRevert(error_);
        found.setVotes(stranger, 0, 0);
        vm.stopPrank();
    }

    // Revenue -----------------------------------------------------------------------------------------------------
    function test_payRevenue_isClaimedInProportion() public {
        settleEpoch();
        uint256 supply = sharesToken().totalSupply();
        give(stranger, 7 * supply);
        vm.expectEmit(true, true, true, true, address(shares));
        emit IShares.RevenuePaid(task, stranger, 7 * supply);
        vm.prank(stranger);
        shares.payRevenue(task, 7 * supply);
        for (uint256 i = 0; i < people.length; ++i) {
            uint256 held = sharesToken().balanceOf(people[i]);
            assertEq(sharesToken().claimableOf(people[i]), 7 * held, "seven a share");
            if (held == 0) continue;
            uint256 beforeWei = purse.creditOf(people[i]);
            vm.expectEmit(true, true, true, true, address(shares));
            emit IShares.RevenueClaimed(task, people[i], 7 * held);
            shares.claimRevenue(task, people[i]);
            assertEq(purse.creditOf(people[i]) - beforeWei, 7 * held, "credit");
            vm.expectRevert(IPurse.NothingMoved.selector);
            shares.claimRevenue(task, people[i]);
        }
        assertEq(purse.potOf(Pots.revenue(task)), 0, "all of it is claimed");
        assertEq(sharesToken().revenueWei(), 7 * supply, "what ever came in");
        assertBooks();
    }

    /// @dev What cannot be divided waits for the next revenue and belongs to the holders: after as many payments as there are shares nothing is left.
    function test_payRevenue_partsOfAWei_areNeverLost() public {
        settleEpoch();
        uint256 supply = sharesToken().totalSupply();
        assertTrue(supply > 1000 && supply < 10_000, "a wei is less than a share's wei");
        for (uint256 i = 0; i < supply; ++i) {
            payRevenue(1);
            if (i % 97 != 0) continue;
            address some = people[i / 97 % people.length];
            if (sharesToken().claimableOf(some) != 0) shares.claimRevenue(task, some);
            assertTrue(claimable() <= purse.potOf(Pots.revenue(task)), "never more than there is");
        }
        for (uint256 i = 0; i < people.length; ++i) {
            if (sharesToken().claimableOf(people[i]) != 0) shares.claimRevenue(task, people[i]);
        }
        assertEq(purse.potOf(Pots.revenue(task)), 0, "one wei a share");
    }

    /// @dev Revenue of before a transfer is the old holder's, what comes later the new one's.
    function test_transfer_movesLaterRevenueOnly() public {
        settleEpoch();
        (address from, address to) = (accountOf(solverSeat(0)), stranger);
        (uint256 supply, uint256 held) = (sharesToken().totalSupply(), sharesToken().balanceOf(from));
        payRevenue(supply);
        ISharesToken found = sharesToken();
        vm.prank(from);
        found.transfer(to, held);
        assertEq(found.claimableOf(from), held, "earned before");
        assertEq(found.claimableOf(to), 0, "nothing yet");
        payRevenue(2 * supply);
        assertEq(found.claimableOf(from), held, "no share, no more");
        assertEq(found.claimableOf(to), 2 * held, "earned since");
        // Shares that come back bring nothing along.
        vm.prank(to);
        found.approve(from, held);
        vm.prank(from);
        found.transferFrom(to, from, held);
        vm.prank(from);
        found.transfer(from, held);
        assertEq(found.claimableOf(from), held, "as before");
        assertEq(found.claimableOf(to), 2 * held, "as before");
        assertEq(claimable(), 3 * supply, "all that came in");
    }

    /// @dev Work that is settled later has no part in revenue of before.
    function test_settle_later_takesNothingOfEarlierRevenue() public {
        playEpoch();
        waitForDuties(0, EPOCH - 1);
        settleOne(solverSeat(0), EPOCH - 1);
        uint256 held = sharesToken().balanceOf(accountOf(solverSeat(0)));
        payRevenue(held);
        settleOne(solverSeat(1), EPOCH - 1);
        assertEq(sharesToken().claimableOf(accountOf(solverSeat(1))), 0, "came later");
        assertEq(sharesToken().claimableOf(accountOf(solverSeat(0))), held, "all of it");
        payRevenue(2 * held);
        assertEq(sharesToken().claimableOf(accountOf(solverSeat(1))), held, "half of what came since");
    }

    function test_payRevenue_refusals() public {
        postTask(soundTerms());
        give(stranger, 100);
        vm.startPrank(stranger);
        vm.expectRevert(IPurse.NothingMoved.selector);
        shares.payRevenue(task, 0);
        vm.expectRevert(ITaskShares.NoShares.selector);
        shares.payRevenue(task, 1);
        TaskId no = TaskId.wrap("no");
        bytes memory error_ = abi.encodeWithSelector(IRefusals.TaskUnknown.selector, TaskId.unwrap(no));
        vm.expectRevert(error_);
        shares.payRevenue(no, 1);
        vm.expectRevert(error_);
        shares.claimRevenue(no, stranger);
        vm.expectRevert(error_);
        shares.voteHalt(no, 0);
        vm.expectRevert(error_);
        shares.haltByVote(no);
        vm.expectRevert(IPurse.NothingMoved.selector);
        shares.claimRevenue(task, stranger);
        vm.stopPrank();
    }

    function test_payRevenue_greatest() public {
        settleEpoch();
        payRevenue(1);
        uint256 greatest = type(uint128).max - 1;
        give(stranger, greatest + 1);
        vm.expectRevert(abi.encodeWithSelector(ITaskShares.RevenueTooLarge.selector, greatest, greatest + 1));
        vm.prank(stranger);
        shares.payRevenue(task, greatest + 1);
        vm.prank(stranger);
        shares.payRevenue(task, greatest);
        uint256 sumWei = claimable();
        assertTrue(sumWei <= type(uint128).max && sumWei + people.length > type(uint128).max, "all of it");
    }

    // The vote ----------------------------------------------------------------------------------------------------
    function test_voteHalt_majorityForTheWindow_halts() public {
        settleEpoch();
        voteAllShares();
        (uint256 votes_, uint256 since, uint256 round) = sharesToken().haltVote();
        assertEq(votes_, sharesToken().totalSupply(), "all");
        assertEq(since, now_(), "from now on");
        assertEq(round, EPOCH, "what must be settled");
        uint256 first = now_() + terms.windows.dispute;
        idle(terms.windows.dispute - 100);
        roll(first - 1);
        vm.expectRevert(abi.encodeWithSelector(IShares.NoShareMajority.selector, task, since, first));
        shares.haltByVote(task);
        roll(first);
        vm.expectEmit(true, true, true, true, address(rounds));
        emit IRounds.TaskHalted(task);
        vm.prank(stranger);
        shares.haltByVote(task);
        (,,,,, bool isHalted,) = lineNow();
        assertTrue(isHalted, "halted");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.TaskHalted.selector, task));
        shares.haltByVote(task);
    }

    function test_voteHalt_half_isNoMajority() public {
        settleEpoch();
        address one = accountOf(solverSeat(0));
        ISharesToken found = sharesToken();
        uint256 supply = found.totalSupply();
        for (uint256 i = 0; i < people.length; ++i) {
            uint256 held = found.balanceOf(people[i]);
            if (held == 0 || people[i] == one) continue;
            vm.prank(people[i]);
            found.transfer(one, held);
        }
        voteHalt(one, supply / 2);
        (, uint256 since,) = found.haltVote();
        assertEq(since, 0, "half");
        vm.expectRevert(abi.encodeWithSelector(IShares.NoShareMajority.selector, task, 0, 0));
        shares.haltByVote(task);
        vm.expectEmit(true, true, true, true, address(shares));
        emit IShares.HaltVoted(task, one, supply / 2 + 1, now_());
        voteHalt(one, supply / 2 + 1);
        (, since,) = found.haltVote();
        assertEq(since, now_(), "more than half");
        pass(1);
        voteHalt(one, supply);
        (, uint256 later,) = found.haltVote();
        assertEq(later, since, "more votes do not begin it anew");
        voteHalt(one, 0);
        (, later,) = found.haltVote();
        assertEq(later, 0, "taken back");
        vm.expectRevert(abi.encodeWithSelector(ITaskShares.TooManyVotes.selector, one, supply, supply + 1));
        voteHalt(one, supply + 1);
    }

    /// @dev Shares that vote stay where they are: they cannot vote twice.
    function test_transfer_ofVotingShares_isRefused() public {
        settleEpoch();
        (address from, ISharesToken found) = (accountOf(solverSeat(0)), sharesToken());
        uint256 held = found.balanceOf(from);
        voteHalt(from, held - 3);
        assertEq(found.votesOf(from), held - 3, "votes");
        vm.startPrank(from);
        vm.expectRevert(abi.encodeWithSelector(ITaskShares.SharesVote.selector, from, 3, 4));
        found.transfer(stranger, 4);
        found.approve(stranger, held);
        found.transfer(stranger, 3);
        vm.stopPrank();
        vm.expectRevert(abi.encodeWithSelector(ITaskShares.SharesVote.selector, from, 0, 1));
        vm.prank(stranger);
        found.transferFrom(from, stranger, 1);
        voteHalt(from, 0);
        vm.prank(stranger);
        found.transferFrom(from, stranger, held - 3);
        assertEq(found.balanceOf(stranger), held, "free again");
        bytes4 tooFew = bytes4(keccak256("InsufficientBalance()"));
        vm.expectRevert(tooFew);
        vm.prank(from);
        found.transfer(stranger, 1);
    }

    /// @dev A seat that left settles first and holds all shares there are; it cannot halt the task before the others have settled.
    function test_haltByVote_beforeOthersSettle_isRefused() public {
        postTask(sharesTerms());
        joinAll(2, 3, 3);
        startRounds();
        uint256 early = solverSeat(0);
        asSeat(early);
        tasks.leave(task, early);
        for (uint256 round = 0; round < 4; ++round) {
            playOne(round);
        }
        waitForDuties(0, 3);
        settleOne(early, 3);
        address holder = accountOf(early);
        ISharesToken found = sharesToken();
        settleAll(3);
        uint256 supply = found.totalSupply();
        assertTrue(supply != 0, "it has worked");
        assertEq(found.balanceOf(holder), supply, "nobody else could settle: it holds all shares");
        voteHalt(holder, supply);
        idle(terms.windows.dispute);
        uint256 settled = tasks.settledBy(task);
        vm.expectRevert(abi.encodeWithSelector(IShares.WorkUnsettled.selector, task, EPOCH, settled));
        shares.haltByVote(task);
        while (liveIndex() < EPOCH) {
            idle(1);
        }
        waitForDuties(0, EPOCH - 1);
        settleAll(EPOCH - 1);
        (, uint256 since,) = found.haltVote();
        assertEq(since, 0, "new shares ended the majority");
        vm.expectRevert(abi.encodeWithSelector(IShares.NoShareMajority.selector, task, 0, 0));
        shares.haltByVote(task);
    }

    /// @dev A majority of a later epoch waits until every epoch that had ended is settled.
    function test_voteHalt_secondEpoch_countsWorkOfTheFirst() public {
        settleEpoch();
        while (liveIndex() <= 2 * EPOCH) {
            idle(1);
        }
        voteAllShares();
        (,, uint256 round) = sharesToken().haltVote();
        assertEq(round, 2 * EPOCH, "both epochs");
        idle(terms.windows.dispute);
        vm.expectRevert(abi.encodeWithSelector(IShares.WorkUnsettled.selector, task, 2 * EPOCH, EPOCH));
        shares.haltByVote(task);
        waitForDuties(EPOCH, 2 * EPOCH - 1);
        // Who gets shares votes with them at once: the majority goes on.
        for (uint256 role = 1; role <= 3; ++role) {
            uint256[] memory seats = seatsOf[SeatRole(role)];
            for (uint256 i = 0; i < seats.length; ++i) {
                settleOne(seats[i], 2 * EPOCH - 1);
                voteAllShares();
            }
        }
        (, uint256 since,) = sharesToken().haltVote();
        assertTrue(since != 0 && since < now_() - terms.windows.dispute, "since the first vote");
        shares.haltByVote(task);
    }

    // A halt at each phase ----------------------------------------------------------------------------------------
    /// @dev The vote stands long enough; round `round` runs and nobody has committed.
    function _readyToHalt() private returns (uint256 round) {
        settleEpoch();
        voteAllShares();
        idle(terms.windows.dispute);
        return liveIndex();
    }

    /// @dev No round opens after the last one; everybody gets its stake, and accepted work of the last round is paid.
    function _requireSettled(uint256 last, uint256 paidSolvers) private {
        (uint256 next, uint256 live,,,, bool isHalted,) = lineNow();
        assertTrue(isHalted, "halted");
        assertEq(next, last + 1, "no later round");
        assertEq(live, 0, "none runs");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.TaskHalted.selector, task));
        rounds.start(task);
        uint256[] memory beforeWei = new uint256[](2);
        passDuties();
        settleAll(last);
        for (uint256 i = 0; i < 2; ++i) {
            beforeWei[i] = creditOf(solverSeat(i));
        }
        uint256 supply = sharesToken().totalSupply();
        uint256 heldWei;
        for (uint256 i = 0; i < 2; ++i) {
            heldWei += beforeWei[i];
        }
        // Two solvers in each even round before the last one.
        uint256 claims = (last + 1) / 2 * 2 + paidSolvers;
        assertEq(heldWei, claims * terms.amounts.solverPay, "accepted work is paid");
        assertTrue(supply >= heldWei, "and shares for it");
        windUp();
    }

    function test_haltByVote_nobodyHasCommitted_settlesEverybody() public {
        uint256 round = _readyToHalt();
        shares.haltByVote(task);
        playRound(round);
        _requireSettled(round, 2);
    }

    function test_haltByVote_oneHasCommitted_settlesEverybody() public {
        uint256 round = _readyToHalt();
        commit(round, solverSeat(0));
        shares.haltByVote(task);
        commit(round, solverSeat(1));
        sealAudits(round);
        acceptAll(round);
        postAll(round);
        _requireSettled(round, 2);
    }

    function test_haltByVote_closed_settlesEverybody() public {
        uint256 round = _readyToHalt();
        commitAll(round);
        close(round);
        shares.haltByVote(task);
        sealAudits(round);
        acceptAll(round);
        postAll(round);
        _requireSettled(round, 2);
    }

    function test_haltByVote_drawn_settlesEverybody() public {
        uint256 round = _readyToHalt();
        playToDraw(round);
        shares.haltByVote(task);
        acceptAll(round);
        postAll(round);
        _requireSettled(round, 2);
    }

    function test_haltByVote_oneVoteIsIn_settlesEverybody() public {
        uint256 round = _readyToHalt();
        playToDraw(round);
        voteAll(round, 0, 0, ACCEPT);
        shares.haltByVote(task);
        voteAll(round, 1, 0, ACCEPT);
        postAll(round);
        _requireSettled(round, 2);
    }

    function test_haltByVote_allVotesAreIn_settlesEverybody() public {
        uint256 round = _readyToHalt();
        playToDraw(round);
        acceptAll(round);
        shares.haltByVote(task);
        postAll(round);
        _requireSettled(round, 2);
    }

    /// @dev Nobody merges: the round stands, and its accepted work is paid all the same.
    function test_haltByVote_nobodyPosts_settlesEverybody() public {
        uint256 round = _readyToHalt();
        playToDraw(round);
        acceptAll(round);
        shares.haltByVote(task);
        pass(terms.windows.auditMax + terms.windows.post);
        rounds.stand(task, round);
        _requireSettled(round, 2);
    }

    /// @dev The last root falls after the halt: its signers are slashed, all others are settled and get their stakes.
    function test_haltByVote_rootFalls_settlesTheOthers() public {
        uint256 round = _readyToHalt();
        playRound(round);
        shares.haltByVote(task);
        skipRound(round + 1);
        fall(round);
        pass(terms.windows.post);
        rounds.stand(task, round);
        passDuties();
        settleAll(round);
        for (uint256 i = 0; i < 2; ++i) {
            requireStatus(solverSeat(i), SeatStatus.CLOSED);
        }
        for (uint256 i = 0; i < 3; ++i) {
            assertEq(stakeOf(verifierSeat(i)), terms.amounts.auditorStake, "a verifier's stake");
            assertEq(stakeOf(whistleblowerSeat(i)), terms.amounts.auditorStake, "a whistleblower's stake");
        }
        windUp();
    }

    /// @dev A credit that is too small pays no revenue.
    function test_payRevenue_withoutCredit_isRefused() public {
        settleEpoch();
        uint256 creditWei = purse.creditOf(stranger);
        vm.expectRevert(
            abi.encodeWithSelector(IRefusals.CreditTooSmall.selector, stranger, creditWei + 1, creditWei)
        );
        vm.prank(stranger);
        shares.payRevenue(task, creditWei + 1);
        assertEq(sharesToken().revenueWei(), 0, "nothing came in");
    }

    /// @dev Questions that are open when the vote halts hold who they are about, and nobody else, until they end.
    function test_haltByVote_questionsOpen_settlesEverybody() public {
        uint256 round = _readyToHalt();
        playToDraw(round);
        acceptAll(round);
        QuestionsStub(asks).open(task, verifierSeat(0), round);
        QuestionsStub(disputes).open(task, solverSeat(0), round);
        ContestsStub(contests).open(task, round);
        shares.haltByVote(task);
        postAll(round);
        ContestsStub(contests).end(task, round);
        passDuties();
        settleAll(round);
        assertTrue(tasks.seatAt(task, solverSeat(0)).settled <= round, "held by the dispute");
        assertTrue(tasks.seatAt(task, solverSeat(1)).settled == round + 1, "not held");
        QuestionsStub(asks).end(task, verifierSeat(0), round);
        QuestionsStub(disputes).end(task, solverSeat(0), round);
        windUp();
    }

    /// @dev No round runs: the task stands still, and everybody leaves.
    function test_haltByVote_taskStands_settlesEverybody() public {
        settleEpoch();
        voteAllShares();
        asSeat(solverSeat(0));
        tasks.leave(task, solverSeat(0));
        asSeat(solverSeat(1));
        tasks.leave(task, solverSeat(1));
        for (uint256 i = 0; i < 3; ++i) {
            (, uint256 live,,,,,) = lineNow();
            if (live != 0) skipRound(live - 1);
        }
        (uint256 next, uint256 stands,,,,,) = lineNow();
        assertEq(stands, 0, "it stands");
        // A start of new seats would not be refused before the halt.
        join(SeatRole.SOLVER, "late solver", terms.amounts.solverStake);
        (, uint256 since,) = sharesToken().haltVote();
        roll(since + terms.windows.dispute);
        shares.haltByVote(task);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.TaskHalted.selector, task));
        rounds.start(task);
        assertTrue(next > EPOCH, "after the first epoch");
        windUp();
    }
}
