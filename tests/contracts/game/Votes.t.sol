// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../contracts/Types.sol";
import {GameTerms, Phase, Proof, RoundView, SeatRole} from "../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {IVotes} from "../../../contracts/game/interfaces/IVotes.sol";
import {AuditDraw} from "../../../contracts/libraries/AuditDraw.sol";
import {Statements} from "../../../contracts/libraries/Statements.sol";
import {Vm} from "../Vm.sol";
import {GameWorld} from "./GameWorld.sol";
import {ForwardStub} from "./Stubs.sol";

/// @title Which votes and openings count, and what they decide.
contract VotesTest is GameWorld {
    function _codes(uint256 slot, uint256 draw, uint256 primary, uint256 first, uint256 second) private view {
        uint256[3] memory codes = votes.votesOf(task, 0, slot, draw);
        assertEq(codes[0], primary, "primary");
        assertEq(codes[1], first, "first reserve");
        assertEq(codes[2], second, "second reserve");
    }

    function _drawn() private {
        begin(3, 6, 3);
        playToDraw(0);
    }

    // Counting ----------------------------------------------------------------------------------------------------
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

    function test_judge_beforeTheDraw_countsNothing() public {
        begin(3, 6, 3);
        commitAll(0);
        close(0);
        IVotes.HandedVote memory handed;
        judge(0, handed);
        assertEq(drawnSeat(0, 0, 0, 0), 0, "nobody is drawn");
        _codes(0, 0, 0, 0, 0);
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

    /// @dev Three segments have room for one draw, though the terms say two: a vote in the second counts nothing, and stops no other.
    function test_judge_drawThatClaimsLack_isSkipped() public {
        GameTerms memory wanted = soundTerms();
        wanted.innerSteps = 15;
        begin(wanted, 3, 6, 3);
        playToDraw(0);
        IVotes.HandedVote[] memory all = new IVotes.HandedVote[](2);
        (all[0], all[1]) = (hand(0, 2, 0, 0, ACCEPT, true), hand(0, 2, 0, 0, ACCEPT, true));
        all[0].place += 1 << 56;
        votes.judge(task, 0, all);
        _codes(2, 0, 5, 0, 0);
        _codes(2, 1, 0, 0, 0);
        assertEq(rounds.fatesOf(task, 0).accepted, 4, "the one draw decides");
        assertEq(drawnSeat(0, 2, 1, 0), 0, "nobody is drawn");
        assertTrue(!votes.isDrawOver(task, 0, 2, 1), "nor is it over");
    }

    function test_judge_twice_countsTheFirst() public {
        _drawn();
        vote_(0, 0, 0, 0, ABSTAIN, false);
        vote_(0, 0, 0, 0, ACCEPT, true);
        _codes(0, 0, 4, 0, 0);
        vote_(0, 0, 0, 0, ABSTAIN, true);
        _codes(0, 0, 4, 0, 0);
    }

    function test_judge_convictedAuditor_doesNotCount() public {
        _drawn();
        punish(drawnSeat(0, 0, 0, 0), Proof.ASKED, voteRef(0, 0, 0, 0));
        vote_(0, 0, 0, 0, ACCEPT, true);
        _codes(0, 0, 0, 0, 0);
    }

    // Relayed -----------------------------------------------------------------------------------------------------
    /// @dev Sends a call to `votes` by way of a contract.
    function _relay(bytes memory data) private {
        ForwardStub relay = new ForwardStub();
        relay.forward(address(votes), data);
    }

    /// @dev The votes that were logged since `recordLogs`, encoded; empty where none were.
    function _relayed(uint256 round) private returns (bytes memory data) {
        Vm.Entry[] memory entries = vm.getRecordedLogs();
        for (uint256 i = 0; i < entries.length; ++i) {
            Vm.Entry memory entry = entries[i];
            if (entry.emitter != address(votes) || entry.topics[0] != IVotes.VotesRelayed.selector) continue;
            assertEq(entry.topics[1], TaskId.unwrap(task), "task");
            assertEq(uint256(entry.topics[2]), round, "round");
            assertEq(data.length, 0, "once a round");
            data = entry.data;
        }
    }

    function _assertRelayed(IVotes.HandedVote[] memory all) private {
        assertEq(keccak256(_relayed(0)), keccak256(abi.encode(all)), "as handed in");
    }

    function test_judge_byAContract_isLoggedWhole() public {
        _drawn();
        bytes memory data = abi.encodeCall(IVotes.judge, (task, 0, acceptances(0)));
        vm.recordLogs();
        _relay(data);
        _assertRelayed(acceptances(0));
        _codes(0, 0, 5, 0, 0);
        _relay(data);
        assertEq(_relayed(0).length, 0, "nothing of it counted");
    }

    /// @dev An opening tells as much as a vote.
    function test_judge_openingByAContract_isLoggedWhole() public {
        _drawn();
        vote_(0, 0, 0, 0, ACCEPT, false);
        IVotes.HandedVote[] memory one = new IVotes.HandedVote[](1);
        one[0] = hand(0, 0, 0, 0, ACCEPT, true);
        vm.recordLogs();
        _relay(abi.encodeCall(IVotes.judge, (task, 0, one)));
        _assertRelayed(one);
    }

    /// @dev Else anybody could make nodes read long logs with one vote of its own.
    function test_judge_byAContract_logsOnlyWhatItTakes() public {
        _drawn();
        IVotes.HandedVote[] memory one = new IVotes.HandedVote[](1);
        one[0] = hand(0, 0, 0, 0, ACCEPT, true);
        IVotes.HandedVote[] memory all = new IVotes.HandedVote[](20);
        for (uint256 i = 0; i < 20; ++i) {
            all[i] = i == 7 || i == 9 ? one[0] : hand(0, 0, 0, 0, ABSTAIN, false);
            if (i != 7 && i != 9) all[i].place |= uint256(i + 1) << 64;
        }
        bytes memory data = abi.encodeCall(IVotes.judge, (task, 0, all));
        vm.recordLogs();
        _relay(bytes.concat(data, new bytes(4_096)));
        _assertRelayed(one);
    }

    /// @dev Delegated code (EIP-7702) may be called by a transaction that its own account sends.
    function test_judge_byAnAccountWithCode_isLoggedWhole() public {
        _drawn();
        IVotes.HandedVote[] memory all = acceptances(0);
        vm.etch(stranger, hex"ef0100000000000000000000000000000000000000dead");
        vm.recordLogs();
        vm.prank(stranger, stranger);
        votes.judge(task, 0, all);
        _assertRelayed(all);
    }

    /// @dev Votes of the round that is judged, late votes of the one before it, and the root, in one call.
    function test_judgeAndPost_lateVotes_count() public {
        GameTerms memory wanted = soundTerms();
        wanted.lateChance = 65_536;
        begin(wanted, 3, 6, 3);
        playRound(0);
        playToDraw(1);
        IVotes.HandedVote[] memory late = new IVotes.HandedVote[](1);
        late[0] = hand(0, 1, 2, 0, ACCEPT, true);
        bytes32 root = rootAfter(1);
        bytes memory signatures = signMerge(1, 7, root, 7);
        votes.judgeAndPost(task, 1, acceptances(1), late, 7, root, 7, signatures);
        _codes(1, 2, 5, 0, 0);
        assertEq(uint256(roundOf(1).phase), uint256(Phase.POSTED), "posted");
    }

    /// @dev Before the first round there is none: late votes that come with it are not looked at.
    function test_judgeAndPost_lateVotesInTheFirstRound_areIgnored() public {
        _drawn();
        IVotes.HandedVote[] memory late = new IVotes.HandedVote[](1);
        late[0] = hand(0, 1, 0, 0, ACCEPT, true);
        bytes32 root = rootAfter(0);
        bytes memory signatures = signMerge(0, 7, root, 7);
        votes.judgeAndPost(task, 0, acceptances(0), late, 7, root, 7, signatures);
        assertEq(uint256(roundOf(0).phase), uint256(Phase.POSTED), "posted");
    }

    function test_judgeAndPost_byAContract_isLoggedWhole() public {
        _drawn();
        IVotes.HandedVote[] memory none = new IVotes.HandedVote[](0);
        IVotes.HandedVote[] memory all = acceptances(0);
        bytes memory signatures = signMerge(0, 7, "root", 7);
        vm.recordLogs();
        _relay(abi.encodeCall(IVotes.judgeAndPost, (task, 0, all, none, 7, "root", 7, signatures)));
        _assertRelayed(all);
    }

    function test_judge_directly_isNotLogged() public {
        _drawn();
        IVotes.HandedVote[] memory all = acceptances(0);
        vm.recordLogs();
        vm.prank(stranger, stranger);
        votes.judge(task, 0, all);
        assertEq(_relayed(0).length, 0, "it is the transaction's data");
        _codes(0, 0, 5, 0, 0);
    }

    // Windows -----------------------------------------------------------------------------------------------------
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

    /// @dev In one batch the primary's vote makes way for the reserves'.
    function test_judge_oneBatch_countsInItsOrder() public {
        _drawn();
        IVotes.HandedVote[] memory all = new IVotes.HandedVote[](4);
        all[0] = hand(0, 0, 0, 1, ACCEPT, true);
        all[1] = hand(0, 0, 0, 0, ABSTAIN, false);
        all[2] = all[0];
        all[3] = hand(0, 0, 0, 2, ACCEPT, true);
        votes.judge(task, 0, all);
        _codes(0, 0, 4, 5, 5);
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

    // Opening -----------------------------------------------------------------------------------------------------
    function test_open_afterTheDecision_isPaidOnce() public {
        _drawn();
        vote_(0, 0, 0, 0, REJECT_STATE, true);
        _codes(0, 0, 2, 0, 0);
        vote_(0, 0, 0, 1, ABSTAIN, true);
        _codes(0, 0, 2, 0, 0);
        vote_(0, 0, 0, 1, ABSTAIN, false);
        _codes(0, 0, 2, 4, 0);
        vote_(0, 0, 0, 0, REJECT_DELTA, true);
        _codes(0, 0, 6, 4, 0);
        vote_(0, 0, 0, 0, REJECT_STATE, true);
        _codes(0, 0, 6, 4, 0);
    }

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

    // Exact tasks -------------------------------------------------------------------------------------------------
    bool private isOther;

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
        _exact(3);
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
        _exact(3);
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
        _exact(2);
        isOther = true;
        vote_(0, 0, 0, 0, ACCEPT, true);
        _codes(0, 0, 5, 0, 0);
    }

    // Deciding ----------------------------------------------------------------------------------------------------
    function test_fates_eachDrawMustAccept() public {
        _drawn();
        IRounds.Fates memory fates = rounds.fatesOf(task, 0);
        assertEq(fates.undecided, 7, "all");
        vote_(0, 0, 0, 0, ACCEPT, false);
        assertEq(rounds.fatesOf(task, 0).accepted, 0, "one of two");
        vote_(0, 0, 1, 0, REJECT_STATE, false);
        assertEq(rounds.fatesOf(task, 0).open, 7, "one against");
        vote_(0, 0, 1, 1, ACCEPT, false);
        vote_(0, 0, 1, 2, ACCEPT, false);
        fates = rounds.fatesOf(task, 0);
        assertEq(fates.accepted, 1, "both reserves");
        assertEq(fates.mergeable, 1, "in time");
        assertEq(fates.open, 6, "the others");
        vote_(0, 1, 0, 0, REJECT_STATE, false);
        vote_(0, 1, 0, 2, REJECT_STATE, false);
        assertEq(rounds.fatesOf(task, 0).open, 4, "slot 1 is void");
        vote_(0, 1, 1, 0, ACCEPT, false);
        assertEq(rounds.fatesOf(task, 0).accepted, 1, "and stays");
        assertEq(votes.endsOf(task, 0, 0)[0].accepted, 1, "ends");
    }

    function test_fates_openRound_isUndecided() public {
        begin(3, 6, 3);
        assertEq(rounds.fatesOf(task, 0).open, 0, "no claims");
        commit(0, solverSeat(1));
        assertEq(rounds.fatesOf(task, 0).open, 2, "one");
        assertEq(rounds.fatesOf(task, 0).undecided, 2, "undecided");
        assertTrue(!votes.isDrawOver(task, 0, 1, 0), "not drawn");
    }

    function test_judge_undoneRound_countsNothing() public {
        begin(3, 6, 3);
        playToDraw(0);
        acceptAll(0);
        post(0, 7, rootAfter(0), 3);
        playToDraw(1);
        IVotes.HandedVote[] memory all = acceptances(1);
        fall(0);
        votes.judge(task, 1, all);
        assertEq(rounds.fatesOf(task, 1).accepted, 0, "nothing");
        assertEq(votes.votesOf(task, 1, 0, 0)[0], 0, "no vote");
    }

    // Drawing -----------------------------------------------------------------------------------------------------
    /// @dev Against the library: six draws in a pool of seven.
    function test_drawnOf_everyRank_isTheLibrarys() public {
        begin(3, 7, 3);
        playToDraw(0);
        bytes32 seed = roundOf(0).seed;
        bytes32 value = randomness.valueAt(drawBlock(roundOf(0).closed));
        assertEq(seed, AuditDraw.roundSeed(tasks.domainOf(task), 0, value), "seed");
        uint256[] memory order = AuditDraw.permutation(seed, AuditDraw.VERIFIER_POOL, 7, 7);
        for (uint256 slot = 0; slot < 3; ++slot) {
            uint256[] memory segments = AuditDraw.circleSegments(seed, slot, 2, 4);
            for (uint256 draw = 0; draw < 2; ++draw) {
                for (uint256 rank = 0; rank < 3; ++rank) {
                    (uint256 seat, uint256 segment) = votes.drawnOf(task, 0, slot, draw, rank);
                    uint256 place = (2 * slot + draw + 2 * rank) % 7;
                    assertEq(seat, verifierSeat(order[place]), "seat");
                    assertEq(segment, segments[draw], "segment");
                }
            }
        }
        assertEq(drawnSeat(0, 0, 2, 0), 0, "no late draw");
        assertEq(drawnSeat(0, 3, 0, 0), 0, "no such slot");
        assertEq(drawnSeat(0, 0, 3, 0), 0, "no such draw");
        assertEq(drawnSeat(0, 0, 0, 3), 0, "no such rank");
        assertEq(drawnSeat(0, 0, 256, 0), 0, "nor one cut short");
        assertEq(drawnSeat(0, 0, 0, 256), 0, "nor here");
        assertTrue(!votes.isDrawOver(task, 0, 0, 256), "nor over");
        assertTrue(!votes.isDrawOver(task, 0, 3, 0), "nor here");
    }

    /// @dev With chance one half; and none in a pool of two.
    function test_drawnOf_late_isTheLibrarys() public {
        GameTerms memory wanted = soundTerms();
        wanted.lateChance = 32_768;
        begin(wanted, 4, 6, 5);
        playRound(0);
        playToDraw(1);
        bytes32 seed = roundOf(0).lateSeed;
        uint256[] memory order = AuditDraw.permutation(seed, AuditDraw.WHISTLEBLOWER_POOL, 5, 5);
        uint256 found;
        for (uint256 slot = 0; slot < 4; ++slot) {
            uint256[] memory first = AuditDraw.circleSegments(roundOf(0).seed, slot, 2, 4);
            (bool isDue, uint256 expected) = AuditDraw.late(seed, slot, 32_768, first, 4);
            (uint256 seat, uint256 segment) = votes.drawnOf(task, 0, slot, 2, 1);
            assertEq(seat != 0, isDue, "due");
            if (!isDue) continue;
            ++found;
            assertEq(segment, expected, "segment");
            assertEq(seat, whistleblowerSeat(order[(slot + 1) % 5]), "a step of one");
        }
        assertTrue(found != 0 && found != 4, "some of four");
    }

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

    // Majorities --------------------------------------------------------------------------------------------------
    function test_requireMajority_signers_areCounted() public {
        _drawn();
        acceptAll(0);
        Statements.MergeSignature memory merge = mergeOf(0, 7, "root");
        bytes memory three = signMerge(0, 7, "root", 7);
        assertEq(votes.requireMajority(task, merge, 7, 7, three), 7, "all");
        assertEq(votes.requireMajority(task, merge, 7, 6, signMerge(0, 7, "root", 6)), 6, "two of three");
        assertEq(votes.requireMajority(task, merge, 3, 7, three), 3, "those of the seats");
        _noMajority(merge, 7, 1, signMerge(0, 7, "root", 1), 1);
        _noMajority(merge, 3, 1, signMerge(0, 7, "root", 1), 1);
        _noMajority(merge, 7, 7, signMerge(0, 7, "other", 7), 0);
        _noMajority(merge, 7, 6, signMerge(0, 7, "root", 3), 0);
        _noMajority(merge, 7, 7, signMerge(0, 7, "root", 1), 1);
        bytes memory cut = signMerge(0, 7, "root", 3);
        assembly ("memory-safe") {
            mstore(cut, 127)
        }
        _noMajority(merge, 7, 3, cut, 1);
        _noMajority(merge, 7, 0x70, three, 0);
        bytes memory spoilt = signMerge(0, 7, "root", 7);
        spoilt[70] = bytes1(uint8(spoilt[70]) ^ 1);
        assertEq(votes.requireMajority(task, merge, 7, 7, spoilt), 5, "the second is not good");
    }

    function _noMajority(
        Statements.MergeSignature memory merge,
        uint64 seats,
        uint64 signers,
        bytes memory signatures,
        uint256 good
    ) private {
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NoMajority.selector, seats, good));
        votes.requireMajority(task, merge, seats, signers, signatures);
    }

    // Modules -----------------------------------------------------------------------------------------------------
    function test_modulesOnly() public {
        _drawn();
        bytes memory error_ = abi.encodeWithSelector(IRefusals.NotModule.selector, address(this));
        vm.expectRevert(error_);
        votes.markConvicted(task, 0, 0);
        vm.expectRevert(error_);
        votes.markRestored(task, voteRef(0, 0, 0, 0), 1);
        vm.expectRevert(error_);
        votes.takeBucket(task, 1, 0);
    }

    function test_unknownRound_reverts() public {
        begin(3, 6, 3);
        bytes memory error_ = abi.encodeWithSelector(IRefusals.RoundUnknown.selector, 1);
        IVotes.HandedVote[] memory none = new IVotes.HandedVote[](0);
        vm.expectRevert(error_);
        votes.judge(task, 1, none);
        vm.expectRevert(error_);
        rounds.fatesOf(task, 1);
        votes.judge(task, 0, none);
    }

    // Gas ---------------------------------------------------------------------------------------------------------
    /// @dev Figures of the call alone: what the transaction's data cost comes on top.
    function _measure(uint256 solvers, uint256 round) private returns (uint256 commitGas, uint256 postGas) {
        GameTerms memory wanted = soundTerms();
        (wanted.solverSeats, wanted.leastVerifiers, wanted.lateChance) = (uint32(solvers), 6, 0);
        begin(wanted, solvers, 3 * solvers, 3);
        for (uint256 i = 0; i < round; ++i) {
            playRound(i);
        }
        commit(round, solverSeat(0));
        bytes32 root = claimRoot(round, solverSeat(1));
        (bytes32 base, bytes32 beacon) = (roundOf(round).base, rounds.beaconOf(task, round));
        asSeat(solverSeat(1));
        commitGas = gasleft();
        rounds.commit(task, round, base, beacon, root, 4);
        commitGas -= gasleft();
        for (uint256 i = 2; i < solvers; ++i) {
            commit(round, solverSeat(i));
        }
        sealAudits(round);
        IVotes.HandedVote[] memory all = acceptances(round);
        bytes memory signatures = signMerge(round, bitsOf(solvers), "root", bitsOf(solvers));
        // Directly, as a node does.
        vm.prank(stranger, stranger);
        postGas = gasleft();
        votes.judge(task, round, all);
        rounds.post(task, round, bitsOf(solvers), "root", bitsOf(solvers), signatures);
        postGas -= gasleft();
    }

    event Measured(string what, uint256 gas_);

    function test_gas_fourSolvers() public {
        (uint256 commitGas, uint256 postGas) = _measure(4, 1);
        emit Measured("commit, 4", commitGas);
        emit Measured("judge and post a solver, 4", postGas / 4);
        assertTrue(commitGas < 75_000 && postGas / 4 < 150_000, "within the targets");
    }

    function test_gas_tenSolvers() public {
        (uint256 commitGas, uint256 postGas) = _measure(10, 1);
        emit Measured("commit, 10", commitGas);
        emit Measured("judge and post a solver, 10", postGas / 10);
        assertTrue(commitGas < 75_000 && postGas / 10 < 130_000, "within the targets");
    }

    // Batches -----------------------------------------------------------------------------------------------------
    /// @dev Slots, late draws and primaries in any order: each vote finds its own draw again.
    function test_judge_mixedBatch_countsAll() public {
        GameTerms memory wanted = soundTerms();
        wanted.lateChance = 65_536;
        begin(wanted, 3, 6, 3);
        playToDraw(0);
        voteAll(0, 0, 0, ACCEPT);
        roll(roundOf(0).closed + 30);
        vote_(0, 2, 0, 0, ABSTAIN, false);
        vote_(0, 2, 0, 1, ABSTAIN, false);
        post(0, 1, rootAfter(0), 7);
        commitAll(1);
        sealAudits(1);
        assertEq(roundOf(0).lateSlots, 3, "slot 2 was void");
        assertEq(drawnSeat(0, 2, 2, 0), 0, "so it has no late draw");
        IVotes.HandedVote[] memory all = new IVotes.HandedVote[](6);
        all[0] = hand(0, 1, 0, 0, ACCEPT, true);
        all[1] = hand(0, 0, 2, 0, REJECT_STATE, true);
        all[2] = hand(0, 1, 1, 0, ACCEPT, true);
        all[3] = hand(0, 1, 2, 0, ACCEPT, true);
        all[4] = hand(0, 0, 2, 1, UNSERVED, false);
        all[5] = hand(0, 0, 2, 1, UNSERVED, false);
        all[5].place = 2 << 64 | uint256(all[5].place & type(uint64).max);
        votes.judge(task, 0, all);
        _codes(1, 0, 5, 0, 0);
        _codes(1, 1, 5, 0, 0);
        _codes(1, 2, 5, 0, 0);
        _codes(0, 2, 6, 3, 0);
        _codes(2, 2, 0, 0, 0);
        assertEq(votes.endsOf(task, 0, 0)[0].accepted, 3, "slot 1 late");
        assertEq(rounds.fatesOf(task, 0).mergeable, 1, "too late to be merged");
        assertEq(votes.endsOf(task, 0, 0)[0].lateRejected, 1, "slot 0 rejected late");
        assertEq(votes.lastVotedOf(task, drawnSeat(0, 1, 2, 0)), 1, "a whistleblower voted");
    }

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
