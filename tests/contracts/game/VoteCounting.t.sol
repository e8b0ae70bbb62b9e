// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EXACT_FORMAT, FLOAT32_FORMAT} from "../../../contracts/Types.sol";
import {GameTerms, Proof} from "../../../contracts/game/GameTypes.sol";
import {IVotes} from "../../../contracts/game/interfaces/IVotes.sol";
import {Statements} from "../../../contracts/libraries/Statements.sol";
import {VoteWorld} from "./VoteWorld.sol";

/// @title Which votes count, until when, and which openings are paid.
contract VoteCountingTest is VoteWorld {
    // Counting ---------------------------------------------------------------------------------------------------
    function test_judge_words_areCounted() public {
        _drawn();
        vm.expectEmit(true, true, true, true, address(votes));
        emit IVotes.VotesCounted(task, 0, hex"01000001");
        vote_(0, 1, 0, 0, ACCEPT, false);
        _codes(1, 0, 1, 0, 0);
        vm.expectEmit(true, true, true, true, address(votes));
        emit IVotes.VotesCounted(task, 0, hex"01010006");
        vote_(0, 1, 1, 0, ABSTAIN, false);
        _codes(1, 1, 4, 0, 0);
        vm.expectEmit(true, true, true, true, address(votes));
        emit IVotes.VotesCounted(task, 0, hex"01010103");
        vm.expectEmit(true, true, true, true, address(votes));
        emit IVotes.VotesOpened(task, 0, hex"01010103");
        vote_(0, 1, 1, 1, REJECT_DELTA, true);
        _codes(1, 1, 4, 6, 0);
        vote_(0, 0, 0, 0, REJECT_START, false);
        _codes(0, 0, 2, 0, 0);
        vote_(0, 0, 1, 0, UNSERVED, false);
        _codes(0, 1, 3, 0, 0);
        assertEq(votes.lastVotedOf(task, drawnSeat(0, 0, 0, 0)), 1, "voted in round 0");
        assertEq(votes.lastVotedOf(task, drawnSeat(0, 2, 0, 0)), 0, "did not");
    }

    /// @dev Nothing of these is refused: the one good vote of the batch counts.
    function test_judge_badVotes_areSkipped() public {
        _drawn();
        IVotes.HandedVote[] memory all = new IVotes.HandedVote[](12);
        for (uint256 i = 0; i < all.length; ++i) {
            all[i] = hand(0, 0, 0, 0, ACCEPT, false);
        }
        Statements.Vote memory vote = voteOf(0, 0, 0, 0, ACCEPT);
        all[0] = handSigned(vote, false, stranger);
        all[1].place += 3 << 64;
        all[2].place += 2 << 56;
        all[3].place += 3 << 48;
        all[4].place += 6 << 40;
        all[5].place += 1;
        all[6].startLeaf = 0;
        all[7].a = bytes32(uint256(all[7].a) ^ 1);
        all[8].b = bytes32(uint256(all[8].b) ^ 1);
        all[9].r = 0;
        vote.seed = "another";
        all[10] = handSigned(vote, false, accountOf(drawnSeat(0, 0, 0, 0)));
        vm.expectEmit(true, true, true, true, address(votes));
        emit IVotes.VotesCounted(task, 0, hex"00000001");
        votes.judge(task, 0, all);
        _codes(0, 0, 1, 0, 0);
        _codes(1, 0, 0, 0, 0);
    }

    /// @dev A vote that does not say all that its word needs, signed as it is.
    function test_judge_votesThatAreNotWhole_areSkipped() public {
        _drawn();
        address auditor = accountOf(drawnSeat(0, 0, 0, 0));
        Statements.Vote memory vote = voteOf(0, 0, 0, 0, ACCEPT);
        vote.endLeaf = 0;
        judge(0, handSigned(vote, false, auditor));
        _codes(0, 0, 0, 0, 0);
        vote = voteOf(0, 0, 0, 0, ACCEPT);
        vote.namedLeaf = 5;
        judge(0, handSigned(vote, false, auditor));
        _codes(0, 0, 0, 0, 0);
        vote = voteOf(0, 0, 0, 0, REJECT_STATE);
        vote.namedLeaf = 5;
        judge(0, handSigned(vote, false, auditor));
        _codes(0, 0, 2, 0, 0);
    }

    function test_judge_twice_countsTheFirst() public {
        _drawn();
        vote_(0, 0, 0, 0, ABSTAIN, false);
        vote_(0, 0, 0, 0, ACCEPT, true);
        _codes(0, 0, 4, 0, 0);
        vote_(0, 0, 0, 0, ABSTAIN, true);
        _codes(0, 0, 4, 0, 0);
    }

    /// @dev An auditor has said REJECT, and opens an ACCEPT of the same draw: that is evidence against it, and no pay.
    function test_open_anotherWord_isNotPaid() public {
        _drawn();
        vote_(0, 0, 0, 0, REJECT_STATE, false);
        vote_(0, 0, 0, 1, ABSTAIN, false);
        vote_(0, 0, 0, 0, ACCEPT, true);
        _codes(0, 0, 2, 4, 0);
        vote_(0, 0, 0, 0, REJECT_STATE, true);
        _codes(0, 0, 6, 4, 0);
    }

    function test_judge_convictedAuditor_doesNotCount() public {
        _drawn();
        punish(drawnSeat(0, 0, 0, 0), Proof.ASKED, voteRef(0, 0, 0, 0));
        vote_(0, 0, 0, 0, ACCEPT, true);
        _codes(0, 0, 0, 0, 0);
    }

    // Windows ----------------------------------------------------------------------------------------------------
    /// @dev Reserves: once the primary has said something, or from a third of auditMax.
    function test_judge_reserves_waitForThePrimary() public {
        _drawn();
        uint256 closed = roundOf(0).closed;
        roll(closed + 9);
        vote_(0, 0, 0, 1, ACCEPT, false);
        _codes(0, 0, 0, 0, 0);
        vote_(0, 0, 1, 0, UNSERVED, false);
        vote_(0, 0, 1, 1, ACCEPT, false);
        _codes(0, 1, 3, 1, 0);
        roll(closed + 10);
        vote_(0, 0, 0, 2, ACCEPT, false);
        _codes(0, 0, 0, 0, 1);
    }

    function test_judge_decidedDraw_takesNoMore() public {
        _drawn();
        vote_(0, 0, 0, 0, ACCEPT, false);
        vote_(0, 0, 0, 1, REJECT_STATE, false);
        _codes(0, 0, 1, 0, 0);
        vote_(0, 0, 1, 0, ABSTAIN, false);
        vote_(0, 0, 1, 1, ABSTAIN, false);
        vote_(0, 0, 1, 2, ACCEPT, false);
        _codes(0, 1, 4, 4, 0);
    }

    function test_judge_lastBlockOfVotes() public {
        _drawn();
        uint256 closed = roundOf(0).closed;
        roll(closed + 30);
        vote_(0, 0, 0, 0, ACCEPT, false);
        vote_(0, 0, 1, 0, ACCEPT, false);
        vote_(0, 1, 0, 0, ACCEPT, false);
        assertEq(rounds.fatesOf(task, 0).mergeable, 1, "in time");
        assertEq(rounds.fatesOf(task, 0).undecided, 6, "the others may be");
        roll(closed + 31);
        assertEq(rounds.fatesOf(task, 0).undecided, 0, "too late for the merge");
        assertEq(rounds.fatesOf(task, 0).open, 6, "not for pay");
        vote_(0, 1, 1, 0, ACCEPT, false);
        assertEq(rounds.fatesOf(task, 0).accepted, 3, "accepted");
        assertEq(rounds.fatesOf(task, 0).mergeable, 1, "late");
        roll(closed + 60);
        assertEq(rounds.fatesOf(task, 0).open, 4, "slot 2");
        assertTrue(!votes.isDrawOver(task, 0, 2, 0), "not over");
        vote_(0, 2, 0, 0, ACCEPT, false);
        _codes(2, 0, 1, 0, 0);
        roll(closed + 61);
        assertEq(rounds.fatesOf(task, 0).open, 0, "void");
        assertTrue(votes.isDrawOver(task, 0, 2, 1), "over");
        vote_(0, 2, 1, 0, ACCEPT, false);
        _codes(2, 1, 0, 0, 0);
    }

    // Opening ----------------------------------------------------------------------------------------------------
    function test_open_lastBlock() public {
        _drawn();
        vote_(0, 0, 0, 0, ACCEPT, false);
        vote_(0, 0, 1, 0, ACCEPT, false);
        vote_(0, 1, 0, 0, REJECT_STATE, false);
        uint256 closed = roundOf(0).closed;
        roll(closed + 61);
        vote_(0, 1, 0, 0, REJECT_STATE, true);
        _codes(1, 0, 6, 0, 0);
        roll(closed + 90);
        vote_(0, 0, 0, 0, ACCEPT, true);
        _codes(0, 0, 5, 0, 0);
        roll(closed + 91);
        vote_(0, 0, 1, 0, ACCEPT, true);
        _codes(0, 1, 1, 0, 0);
    }

    /// @dev The opening makes the signed leaves; another one makes others, so the vote itself is not good.
    function test_open_anotherOpening_isSkipped() public {
        _drawn();
        vote_(0, 0, 0, 0, ACCEPT, false);
        IVotes.HandedVote memory handed = hand(0, 0, 0, 0, ACCEPT, true);
        handed.d = bytes32(uint256(handed.d) ^ 1);
        judge(0, handed);
        _codes(0, 0, 1, 0, 0);
        handed = hand(0, 0, 0, 0, ACCEPT, true);
        handed.b = bytes32(uint256(handed.b) ^ 1);
        judge(0, handed);
        _codes(0, 0, 1, 0, 0);
        judge(0, hand(0, 0, 0, 0, ACCEPT, false));
        _codes(0, 0, 1, 0, 0);
        judge(0, hand(0, 0, 0, 0, ACCEPT, true));
        _codes(0, 0, 5, 0, 0);
    }

    /// @dev Kept is that a rank rejects, not how: another REJECT of the same seat opens it. It is paid once, and both votes are on the chain, so that two
    /// statements can be proven.
    function test_open_anotherReject_isPaidOnceAndProvable() public {
        _drawn();
        vote_(0, 0, 0, 0, REJECT_STATE, false);
        vote_(0, 0, 0, 1, ABSTAIN, false);
        vote_(0, 0, 0, 0, REJECT_DELTA, true);
        _codes(0, 0, 6, 4, 0);
        vote_(0, 0, 0, 0, REJECT_STATE, true);
        _codes(0, 0, 6, 4, 0);
        Statements.Vote memory first = voteOf(0, 0, 0, 0, REJECT_STATE);
        assertTrue(Statements.differ(first, voteOf(0, 0, 0, 0, REJECT_DELTA)), "two votes of one draw");
    }

    bool private isOther;

    // Exact tasks ------------------------------------------------------------------------------------------------
    function ownEndRoot(uint256 round, uint256 slot, uint256 segment, uint256 word)
        internal
        view
        override
        returns (bytes32)
    {
        if (isOther) {
            return super.ownEndRoot(round, slot, segment, word == REJECT_STATE ? ACCEPT : REJECT_STATE);
        }
        return super.ownEndRoot(round, slot, segment, word);
    }

    function _exact(uint32 format) private {
        GameTerms memory wanted = soundTerms();
        wanted.format = format;
        begin(wanted, 3, 6, 3);
        playToDraw(0);
    }

    /// @dev Handed in without its opening it counts, is never paid, and can be proven false.
    function test_exact_acceptOfOtherRoots_isNotCounted() public {
        _exact(EXACT_FORMAT);
        vote_(0, 0, 0, 0, ACCEPT, true);
        _codes(0, 0, 5, 0, 0);
        isOther = true;
        vote_(0, 0, 1, 0, ACCEPT, true);
        _codes(0, 1, 0, 0, 0);
        vote_(0, 0, 1, 0, ACCEPT, false);
        vote_(0, 0, 1, 0, ACCEPT, true);
        _codes(0, 1, 1, 0, 0);
    }

    function test_exact_stateRejectOfEqualRoots_isNotCounted() public {
        _exact(EXACT_FORMAT);
        vote_(0, 0, 0, 0, ABSTAIN, false);
        vote_(0, 0, 0, 1, REJECT_STATE, true);
        _codes(0, 0, 4, 6, 0);
        isOther = true;
        vote_(0, 0, 1, 0, ABSTAIN, false);
        vote_(0, 0, 1, 1, REJECT_STATE, true);
        _codes(0, 1, 4, 0, 0);
        vote_(0, 1, 0, 0, ABSTAIN, false);
        vote_(0, 1, 0, 1, REJECT_DELTA, true);
        _codes(1, 0, 4, 6, 0);
        isOther = false;
        vote_(0, 1, 1, 0, ABSTAIN, false);
        vote_(0, 1, 1, 1, REJECT_START, true);
        _codes(1, 1, 4, 6, 0);
    }

    function test_inexact_rootsMayDiffer() public {
        _exact(FLOAT32_FORMAT);
        isOther = true;
        vote_(0, 0, 0, 0, ACCEPT, true);
        _codes(0, 0, 5, 0, 0);
    }

    // Drawing ----------------------------------------------------------------------------------------------------
    function test_late_windows() public {
        GameTerms memory wanted = soundTerms();
        wanted.lateChance = 65_536;
        begin(wanted, 3, 6, 3);
        playRound(0);
        playToDraw(1);
        uint256 from = roundOf(0).lateFrom;
        roll(from + 9);
        vote_(0, 0, 2, 1, ACCEPT, false);
        _codes(0, 2, 0, 0, 0);
        roll(from + 60);
        vote_(0, 0, 2, 0, ACCEPT, false);
        _codes(0, 2, 1, 0, 0);
        roll(from + 61);
        vote_(0, 1, 2, 0, ACCEPT, false);
        _codes(1, 2, 0, 0, 0);
        assertTrue(votes.isDrawOver(task, 0, 1, 2), "over");
        roll(from + 90);
        uint256 before = vm.snapshotState();
        vote_(0, 0, 2, 0, ACCEPT, true);
        _codes(0, 2, 5, 0, 0);
        vm.revertToState(before);
        roll(from + 91);
        vote_(0, 0, 2, 0, ACCEPT, true);
        _codes(0, 2, 1, 0, 0);
    }

    // Batches ----------------------------------------------------------------------------------------------------
    /// @dev Late UNSERVED: fees of both whistleblowers and of the solver, in the epoch of the round that is audited.
    function test_late_unserved_costsFees() public {
        GameTerms memory wanted = soundTerms();
        wanted.lateChance = 65_536;
        begin(wanted, 3, 6, 3);
        playRound(0);
        playToDraw(1);
        vote_(0, 1, 2, 0, UNSERVED, false);
        vote_(0, 1, 2, 1, UNSERVED, false);
        uint256 first = drawnSeat(0, 1, 2, 0);
        uint256 second = drawnSeat(0, 1, 2, 1);
        acceptAll(1);
        vm.prank(submitter);
        rounds.halt(task);
        postAll(1);
        if (roundOf(1).signers == 7) roll(now_() + 1);
        (, uint256 live,,,,,) = lineNow();
        assertEq(live, 0, "halted");
        passDuties();
        settleAll(1);
        assertEq(stakeOf(solverSeat(1)), 910, "solver");
        assertEq(creditOf(solverSeat(1)), 100, "round 1 alone");
        assertEq(stakeOf(first), 510, "primary");
        assertEq(stakeOf(second), 510, "reserve");
        assertEq(purse.burnPending(), 270, "fees alone");
        windUp();
    }
}
