// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {PoolFreezing} from "./PoolFreezing.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IRounds} from "./interfaces/IRounds.sol";

/// @title Closes a round when its time is over, and freezes the pools of the round after next.
/// @dev Twin of `protocol/spec/game/timing.py`.
abstract contract RoundClosing is PoolFreezing, IRounds {
    /// @inheritdoc IRounds
    function sync(TaskId task) external {
        _sync(task, _lines[task]);
    }

    /// @dev The rounds of a task, after a round was closed whose closing block is past.
    function _syncedLine(TaskId task) internal returns (RoundLine storage line) {
        line = _lines[task];
        // `postTask` sets it: so there is no such task.
        if (line.pausedSince == 0) revert IRefusals.TaskUnknown(TaskId.unwrap(task));
        _sync(task, line);
    }

    /// @dev Every call that changes seats calls this first. So the pools that it freezes are those at the end of the closing block.
    function _sync(TaskId task, RoundLine storage line) private {
        if (line.live == 0) return;
        uint256 number = line.live - 1;
        Round storage round = _roundAt(task, number);
        if (round.isClosed) return;
        uint256 closing = _closingBlock(round, _tasks[task].terms.windows);
        if (block.number <= closing) return;
        (round.closing, round.isClosed) = (uint40(closing), true);
        emit RoundClosed(task, number, closing);
        // Pools are frozen in their order: where that of the next round is not, as the ring was full or a start froze one alone, this one is not either.
        if (line.frozenTo == number + 2) _freeze(task, line, number + 2, number + 3);
    }
}
