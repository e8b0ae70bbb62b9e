// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {DisputeOpening} from "./DisputeOpening.sol";
import {SeatStatus} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {IDisputes} from "./interfaces/IDisputes.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";

/// @title Opens disputes, narrows each down to one step, and ends each where a clock has run out. What is said of the named step is in `Steps`.
/// @notice Seen from outside it is `protocol/spec/game/disputes.py`; inside only computation and silence convict.
/// @dev The claimant posts k + 1 words. Step roots are kept as one hash, and of the named step the two roots that count; who needs more finds it in the
/// events.
contract Disputes is DisputeOpening {
    constructor(Modules memory modules) Module(modules) {}

    /// @inheritdoc IDisputes
    function endDispute(TaskId task, bytes32 id) external {
        Dispute storage dispute = _running(task, id);
        Record storage record = _tasks[task].seatAt[dispute.seat];
        if (record.status == SeatStatus.CONVICTED) return _close(task, id, dispute, Stage.MOOT, address(0));
        if (block.number <= dispute.clockBlock) revert IRefusals.NotLate(dispute.clockBlock, block.number);
        Stage stage = dispute.stage;
        if (stage == Stage.ROOTS || stage == Stage.TRACE || stage == Stage.LEAVES) _convict(task, id, dispute);
        else _close(task, id, dispute, Stage.CLEARED, record.account);
    }

    /// @inheritdoc IDisputes
    function disputeOf(TaskId task, bytes32 id)
        external
        view
        returns (Stage stage, uint256 clockBlock, uint256 step, bytes32 startRoot, bytes32 traceRoot, uint256 shown)
    {
        Dispute storage dispute = _disputes[task][id];
        return (dispute.stage, dispute.clockBlock, dispute.step, dispute.startRoot, dispute.traceRoot, dispute.shown);
    }
}
