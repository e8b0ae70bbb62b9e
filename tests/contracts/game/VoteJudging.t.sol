// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../contracts/Types.sol";
import {GameTerms, Phase} from "../../../contracts/game/GameTypes.sol";
import {IVotes} from "../../../contracts/game/interfaces/IVotes.sol";
import {Vm} from "../Vm.sol";
import {ForwardStub} from "./Stubs.sol";
import {VoteWorld} from "./VoteWorld.sol";

/// @title What the votes of one call decide, and what is logged of them.
contract VoteJudgingTest is VoteWorld {
    // Relayed ----------------------------------------------------------------------------------------------------
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
}
