// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {GameWindows, Phase} from "./GameTypes.sol";
import {RoundReading} from "./RoundReading.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {Slots} from "./libraries/Slots.sol";

/// @title What settlement needs of rounds.
abstract contract RoundFacts is RoundReading {
    /// @dev Of the rounds `first` .. `last`, in their order.
    function _factsOf(TaskId task, uint256 first, uint256 last) internal view returns (IRounds.Facts[] memory facts) {
        GameWindows storage windows = _tasks[task].terms.windows;
        facts = new IRounds.Facts[](last + 1 - first);
        for (uint256 i = 0; i < facts.length; ++i) {
            _fillFacts(facts[i], _roundOf(task, first + i), windows);
        }
    }

    function _fillFacts(IRounds.Facts memory fact, Round storage round, GameWindows storage windows) private view {
        (fact.isUndone, fact.isDrawn) = (round.phase == Phase.UNDONE, round.isDrawn);
        (fact.pool, fact.committed) = (round.pool, round.committed);
        (fact.verifiers, fact.whistleblowers) = (round.verifiers, round.whistleblowers);
        // Before its shards were known nobody could commit.
        bool isOwed = round.isClosed && round.sharded != 0 && !fact.isUndone;
        if (isOwed) fact.missing = uint64(Slots.all(fact.pool)) & ~fact.committed;
        fact.dutyUntil = _dutyUntil(round, windows);
        fact.convicted = round.convicted;
        fact.accepted = round.accepted & ~fact.convicted;
        if (!round.isMarked) return;
        (fact.unserved, fact.lateRejected, fact.restored) = (round.unserved, round.lateRejected, round.restored);
    }
}
