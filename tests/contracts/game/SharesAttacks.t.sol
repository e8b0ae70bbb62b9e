// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameTerms, Proof, SeatRole, SeatStatus} from "../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {IShares, ITaskShares} from "../../../contracts/game/interfaces/IShares.sol";
import {ISharesToken, SharesWorld} from "./SharesWorld.sol";
import {QuestionsStub} from "./Stubs.sol";

/// @title Votes for the halt that are not the majority's, and majorities that somebody else tries to end.
contract SharesAttacksTest is SharesWorld {
    /// @dev Of at most 16.7 million that a transaction may take.
    uint256 private constant HALT_GAS = 6_500_000;
    uint256 private _freed;

    function freedEpochs() internal view override returns (uint256) {
        return _freed;
    }

    // Helpers ----------------------------------------------------------------------------------------------------
    /// @dev Shares without rounds: as `Tasks` mints them when a seat settles.
    function mint(address holder, uint256 amount) private {
        vm.prank(address(tasks));
        shares.mint(task, holder, amount);
    }

    function since() private view returns (uint256 block_) {
        (, block_,) = sharesToken().haltVote();
    }

    function playUntil(uint256 round) private {
        while (liveIndex() < round) {
            idle(1);
        }
    }

    /// @dev The second epoch has ended and can be settled; all shares of the first one have voted before.
    function voteBeforeSecondEpochSettles() private returns (uint256 began) {
        settleEpoch();
        playUntil(2 * EPOCH + 1);
        voteAllShares();
        began = since();
        waitForDuties(EPOCH, 2 * EPOCH - 1);
    }

    // A rightful halt that others hinder ------------------------------------------------------------------------
    /// @dev Whoever votes with all it has also votes with what it settles later. Else any account ended the majority of everybody, by settling all seats
    /// together: the new shares are as many as the old ones, and nobody could vote with them in time.
    function test_settle_byAStranger_doesNotEndTheMajorityOfAll() public {
        uint256 began = voteBeforeSecondEpochSettles();
        vm.startPrank(stranger);
        settleAll(2 * EPOCH - 1);
        vm.stopPrank();
        (uint256 voting,,) = sharesToken().haltVote();
        assertEq(voting, sharesToken().totalSupply(), "new shares vote as their holders do");
        assertEq(since(), began, "the majority goes on");
        shares.haltByVote(task);
    }

    /// @dev Nor can dust that is sent to a voter make its vote one of a part of its shares.
    function test_transfer_ofDustToAVoter_leavesItsVoteWhole() public {
        postTask(sharesTerms());
        (address voter, address other) = (person("voter"), person("other"));
        mint(voter, 80);
        mint(other, 20);
        voteHalt(voter, 80);
        ISharesToken found = sharesToken();
        vm.prank(other);
        found.transfer(voter, 1);
        mint(voter, 100);
        assertEq(found.votesOf(voter), 180, "all but the dust");
        vm.prank(voter);
        found.transfer(other, 1);
        vm.expectRevert(abi.encodeWithSelector(ITaskShares.SharesVote.selector, voter, 0, 1));
        vm.prank(voter);
        found.transfer(other, 1);
    }

    /// @dev More than two thirds stay the majority in whichever order the seats of an epoch settle that is like the one before.
    function test_settle_othersFirst_doesNotEndTwoThirds() public {
        postTask(sharesTerms());
        (address voter, address other) = (person("voter"), person("other"));
        mint(other, 332);
        mint(voter, 668);
        voteHalt(voter, 668);
        uint256 began = since();
        for (uint256 epoch = 1; epoch < 5; ++epoch) {
            pass(1);
            mint(other, 332);
            assertEq(since(), began, "the others are first");
            mint(voter, 668);
        }
        assertEq(sharesToken().votesOf(voter), 5 * 668, "all of them vote");
        assertEq(since(), began, "it goes on");
    }

    /// @dev A vote with a part of one's shares is just that.
    function test_voteHalt_withAPart_newSharesDoNotVote() public {
        postTask(sharesTerms());
        address voter = person("voter");
        mint(voter, 100);
        voteHalt(voter, 99);
        mint(voter, 10);
        assertEq(sharesToken().votesOf(voter), 99, "a part");
        voteHalt(voter, 110);
        voteHalt(voter, 0);
        mint(voter, 10);
        assertEq(sharesToken().votesOf(voter), 0, "taken back");
        voteHalt(voter, 120);
        voteHalt(voter, 119);
        mint(voter, 10);
        assertEq(sharesToken().votesOf(voter), 119, "a part again");
    }

    /// @dev Voting with none of no shares promises nothing.
    function test_voteHalt_withoutShares_newSharesDoNotVote() public {
        postTask(sharesTerms());
        address voter = person("voter");
        voteHalt(voter, 0);
        mint(voter, 10);
        assertEq(sharesToken().votesOf(voter), 0, "it has not voted");
        ISharesToken found = sharesToken();
        vm.prank(voter);
        found.transfer(stranger, 10);
    }

    /// @dev A majority that new shares make begins once somebody asks for it, whoever that is, and not before.
    function test_mint_thatMakesAMajority_beginsWithTheNextVote() public {
        postTask(sharesTerms());
        (address voter, address other) = (person("voter"), person("other"));
        mint(voter, 40);
        mint(other, 60);
        voteHalt(voter, 40);
        mint(voter, 40);
        assertEq(since(), 0, "nobody has asked");
        pass(1000);
        vm.expectRevert(abi.encodeWithSelector(IShares.NoShareMajority.selector, task, 0, 0));
        shares.haltByVote(task);
        voteHalt(stranger, 0);
        assertEq(since(), now_(), "from now on");
    }

    /// @dev A member that asks itself keeps its seat from settling, and so the halt, until its question has ended; the majority does not end by it.
    function test_haltByVote_memberAsksItself_waitsForTheAnswer() public {
        playEpoch();
        uint256 seat = solverSeat(1);
        waitForDuties(0, EPOCH - 1);
        QuestionsStub(asks).open(task, seat, EPOCH - 1);
        settleAll(EPOCH - 1);
        voteAllShares();
        uint256 began = since();
        idle(terms.windows.dispute);
        vm.expectRevert(abi.encodeWithSelector(IShares.WorkUnsettled.selector, task, EPOCH, 0));
        shares.haltByVote(task);
        // Questions about later rounds hold nothing of the first epoch.
        QuestionsStub(disputes).open(task, seat, liveIndex());
        QuestionsStub(asks).end(task, seat, EPOCH - 1);
        settleOne(seat, EPOCH - 1);
        assertEq(since(), began, "its shares are not enough to end the majority");
        shares.haltByVote(task);
    }

    /// @dev Every number of a seat may be taken: the halt still fits a transaction.
    function test_haltByVote_allSeatsTaken_fitsATransaction() public {
        settleEpoch();
        for (uint256 i = 0; i < 1021; ++i) {
            join(SeatRole.VERIFIER, string.concat("v", vm.toString(i)), terms.amounts.auditorStake);
            join(SeatRole.WHISTLEBLOWER, string.concat("w", vm.toString(i)), terms.amounts.auditorStake);
        }
        for (uint256 i = 0; i < 62; ++i) {
            join(SeatRole.SOLVER, string.concat("s", vm.toString(i)), terms.amounts.solverStake + 1 + i);
        }
        voteAllShares();
        uint256 began = since();
        roll(began + terms.windows.dispute);
        shares.haltByVote(task);
        uint256 gas_ = vm.lastCallGas().gasTotalUsed;
        assertTrue(gas_ < HALT_GAS, vm.toString(gas_));
    }

    // A halt that nobody has a right to ----------------------------------------------------------------------------
    /// @dev Without a seat nobody has anything to settle. All the same the first epoch was not played, so it is not settled.
    function test_haltByVote_firstEpochNotPlayed_noSeatLeft_isRefused() public {
        begin(sharesTerms(), 2, 3, 3);
        for (uint256 role = 1; role <= 3; ++role) {
            uint256[] memory seats = seatsOf[SeatRole(role)];
            for (uint256 i = 0; i < seats.length; ++i) {
                asSeat(seats[i]);
                tasks.leave(task, seats[i]);
            }
        }
        (uint256 next, uint256 live,,,,,) = lineNow();
        while (live != 0) {
            playOne(live - 1);
            (next, live,,,,,) = lineNow();
        }
        passDuties();
        settleAll(next - 1);
        voteAllShares();
        for (uint256 role = 1; role <= 3; ++role) {
            uint256[] memory seats = seatsOf[SeatRole(role)];
            for (uint256 i = 0; i < seats.length; ++i) {
                tasks.payOut(task, seats[i]);
            }
        }
        assertTrue(since() != 0, "they own all shares");
        roll(since() + terms.windows.dispute);
        vm.expectRevert(abi.encodeWithSelector(IShares.WorkUnsettled.selector, task, EPOCH, next));
        shares.haltByVote(task);
    }

    /// @dev Shares that are lent within a block come back only without their vote.
    function test_voteHalt_withLentShares_cannotBeGivenBack() public {
        settleEpoch();
        ISharesToken found = sharesToken();
        (address owner, address borrower) = (accountOf(solverSeat(0)), person("borrower"));
        uint256 held = found.balanceOf(owner);
        vm.prank(owner);
        found.transfer(borrower, held);
        voteHalt(borrower, held);
        vm.expectRevert(abi.encodeWithSelector(ITaskShares.SharesVote.selector, borrower, 0, held));
        vm.prank(borrower);
        found.transfer(owner, held);
        voteHalt(borrower, 0);
        vm.prank(borrower);
        found.transfer(owner, held);
        (uint256 voting,,) = found.haltVote();
        assertEq(voting, 0, "no vote is left behind");
    }

    /// @dev Who buys all shares that there are just before others settle waits for their work, and has no majority then.
    function test_voteHalt_byABuyer_justBeforeOthersSettle_waitsForThem() public {
        playEpoch();
        waitForDuties(0, EPOCH - 1);
        settleOne(solverSeat(0), EPOCH - 1);
        address buyer = person("buyer");
        ISharesToken found = sharesToken();
        uint256 held = found.balanceOf(accountOf(solverSeat(0)));
        asSeat(solverSeat(0));
        found.transfer(buyer, held);
        voteHalt(buyer, held);
        assertEq(since(), now_(), "it holds all shares");
        idle(terms.windows.dispute);
        vm.expectRevert(abi.encodeWithSelector(IShares.WorkUnsettled.selector, task, EPOCH, 0));
        shares.haltByVote(task);
        settleAll(EPOCH - 1);
        assertEq(since(), 0, "others have worked as well");
        vm.expectRevert(abi.encodeWithSelector(IShares.NoShareMajority.selector, task, 0, 0));
        shares.haltByVote(task);
    }

    /// @dev Who leaves, settles early and joins again is paid once, and its new seat has nothing to settle before it.
    function test_join_again_afterSettlingEarly_mintsNothingTwice() public {
        postTask(sharesTerms());
        joinAll(2, 3, 3);
        startRounds();
        uint256 early = solverSeat(0);
        address holder = accountOf(early);
        asSeat(early);
        tasks.leave(task, early);
        playOne(0);
        playOne(1);
        playOne(2);
        waitForDuties(0, 2);
        settleOne(early, 2);
        uint256 held = sharesToken().balanceOf(holder);
        assertEq(held, purse.creditOf(holder), "a share for each wei of pay");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.AlreadySettled.selector, early, 2));
        settleOne(early, 2);
        tasks.payOut(task, early);
        join(SeatRole.SOLVER, "solver0", terms.amounts.solverStake);
        playUntil(EPOCH);
        waitForDuties(0, EPOCH - 1);
        settleAll(EPOCH - 1);
        uint256 stakeWei = terms.amounts.solverStake;
        assertEq(sharesToken().balanceOf(holder), purse.creditOf(holder) - stakeWei, "pay alone, again");
        assertTrue(tasks.settledBy(task) >= EPOCH, "all have settled");
    }

    /// @dev A conviction takes no shares that were minted before, and its slash mints none.
    function test_punish_afterSettling_leavesSharesAndVotes() public {
        settleEpoch();
        uint256 cheat = solverSeat(0);
        address holder = accountOf(cheat);
        ISharesToken found = sharesToken();
        (uint256 held, uint256 supply) = (found.balanceOf(holder), found.totalSupply());
        voteHalt(holder, held);
        uint256 round = liveIndex();
        commitAll(round);
        punish(cheat, Proof.DISPUTED, claimRef(round, slotOf(round, cheat)));
        requireStatus(cheat, SeatStatus.CLOSED);
        assertEq(found.totalSupply(), supply, "a slash mints nothing");
        assertEq(found.votesOf(holder), held, "it owns what it has earned");
        voteHalt(holder, 0);
        vm.prank(holder);
        found.transfer(stranger, held);
    }

    /// @dev Restitution for a round that was undone is no pay: it mints nothing.
    function test_settle_undoneRound_mintsNothingForRestitution() public {
        GameTerms memory wanted = sharesTerms();
        wanted.solverSeats = 3;
        begin(wanted, 3, 3, 3);
        playToDraw(0);
        acceptAll(0);
        post(0, rounds.fatesOf(task, 0).mergeable, rootAfter(0), bitsOf(2));
        playRound(1);
        haltTask();
        fall(0);
        pass(terms.windows.post);
        rounds.stand(task, 0);
        (uint256 next,,,,,,) = lineNow();
        passDuties();
        settleAll(next - 1);
        address holder = accountOf(solverSeat(2));
        assertEq(sharesToken().balanceOf(holder), terms.amounts.solverPay, "round 0 is paid");
        assertTrue(purse.creditOf(holder) > terms.amounts.solverPay, "and restitution came for round 1");
        assertEq(sharesToken().balanceOf(accountOf(solverSeat(0))), 0, "who signed has nothing");
        windUp();
    }

    /// @dev 128 rounds are kept, and no place is free: the majority halts the task all the same, and places can be freed after it.
    function test_haltByVote_ringFull_settlesEverybody() public {
        GameTerms memory wanted = sharesTerms();
        wanted.rounds = 200;
        begin(wanted, 2, 3, 3);
        for (uint256 round = 0; round < 128; ++round) {
            playOne(round);
        }
        vm.expectRevert(abi.encodeWithSelector(IRefusals.RingFull.selector, 128));
        rounds.start(task);
        passDuties();
        settleAll(127);
        voteAllShares();
        (,, uint256 round_) = sharesToken().haltVote();
        assertEq(round_, 128, "all eight epochs");
        pass(terms.windows.dispute);
        shares.haltByVote(task);
        rounds.freeEpoch(task);
        _freed = 1;
        vm.expectRevert(abi.encodeWithSelector(IRefusals.TaskHalted.selector, task));
        rounds.start(task);
        windUp();
    }
}
