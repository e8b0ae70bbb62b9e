// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameTerms} from "../../../contracts/game/GameTypes.sol";
import {IVotes} from "../../../contracts/game/interfaces/IVotes.sol";
import {VoteWorld} from "./VoteWorld.sol";

/// @title Words of votes and books that the votes of one call share.
contract VoteStorageTest is VoteWorld {
    // Windows ----------------------------------------------------------------------------------------------------
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

    // Batches ----------------------------------------------------------------------------------------------------
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
}
