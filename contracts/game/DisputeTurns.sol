// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {NO_DRAW, Proof, SeatStatus, StatementRef} from "./GameTypes.sol";
import {QuestionModule} from "./QuestionModule.sol";
import {IDisputes} from "./interfaces/IDisputes.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";

/// @title Keeps disputes, says whose turn it is, and ends them.
abstract contract DisputeTurns is QuestionModule, IDisputes {
    /// @dev In place of a draw: the statement is the claim.
    uint8 internal constant CLAIM = type(uint8).max;

    // Turns -----------------------------------------------------------------------------------------------------------
    function _running(TaskId task, bytes32 id) internal view returns (Dispute storage dispute) {
        dispute = _disputes[task][id];
        if (dispute.stage == Stage.NONE || dispute.stage > Stage.LAST) revert IRefusals.NothingOpen(id);
    }

    /// @return dispute the dispute
    /// @return account of the accused seat
    function _onTurn(TaskId task, bytes32 id, Stage expected)
        private
        view
        returns (Dispute storage dispute, address account)
    {
        dispute = _running(task, id);
        if (dispute.stage != expected) revert IRefusals.WrongTurn(uint256(dispute.stage), uint256(expected));
        Record storage record = _tasks[task].seatAt[dispute.seat];
        if (record.status == SeatStatus.CLOSED) revert IRefusals.SeatClosed(dispute.seat);
        _requireWindow(0, dispute.clockBlock);
        account = record.account;
    }

    function _claimantsTurn(TaskId task, bytes32 id, Stage expected)
        internal
        view
        returns (Dispute storage dispute, address account)
    {
        (dispute, account) = _onTurn(task, id, expected);
        if (msg.sender != account) revert IRefusals.NotHolder(account, msg.sender);
    }

    function _openersTurn(TaskId task, bytes32 id, Stage expected) internal view returns (Dispute storage dispute) {
        (dispute,) = _onTurn(task, id, expected);
        if (msg.sender != dispute.opener) revert NotOpener(dispute.opener, msg.sender);
    }

    function _turnTo(Dispute storage dispute, Stage stage, uint256 respond) internal returns (uint256 clock) {
        clock = block.number + respond;
        (dispute.stage, dispute.clockBlock) = (stage, uint40(clock));
    }

    // The end ---------------------------------------------------------------------------------------------------------
    /// @inheritdoc IDisputes
    function end(TaskId task, bytes32 id) external {
        Dispute storage dispute = _running(task, id);
        Record storage record = _tasks[task].seatAt[dispute.seat];
        if (record.status == SeatStatus.CLOSED) return _close(task, id, dispute, Stage.MOOT, address(0));
        if (block.number <= dispute.clockBlock) revert IRefusals.NotLate(dispute.clockBlock, block.number);
        Stage stage = dispute.stage;
        if (stage == Stage.ROOTS || stage == Stage.TRACE || stage == Stage.LEAVES) _convict(task, id, dispute);
        else _close(task, id, dispute, Stage.CLEARED, record.account);
    }

    function _convict(TaskId task, bytes32 id, Dispute storage dispute) internal {
        _close(task, id, dispute, Stage.CONVICTED, address(0));
        settlement.punish(task, dispute.seat, dispute.opener, Proof.DISPUTED, _refOf(dispute));
    }

    /// @param claimant gets half of the bond where the dispute is CLEARED; else it goes back
    function _close(TaskId task, bytes32 id, Dispute storage dispute, Stage outcome, address claimant) private {
        dispute.stage = outcome;
        emit DisputeEnded(task, id, outcome);
        if (outcome == Stage.CLEARED) _forfeitBond(task, dispute.seat, dispute.round, dispute.number, claimant);
        else _returnBond(task, dispute.seat, dispute.round, dispute.number, dispute.opener);
    }

    // The statement, packed -------------------------------------------------------------------------------------------
    /// @dev Rounds are at most 65,535 and slots 64; a draw is at most 20, a rank at most 2, a segment below 65,536.
    function _keepStatement(Dispute storage dispute, StatementRef memory ref, uint256 segment) internal {
        (dispute.round, dispute.slot, dispute.rank) = (uint16(ref.round), uint8(ref.slot), uint8(ref.rank));
        (dispute.draw, dispute.segment) = (ref.draw == NO_DRAW ? CLAIM : uint8(ref.draw), uint16(segment));
    }

    function _refOf(Dispute storage dispute) private view returns (StatementRef memory) {
        return StatementRef(dispute.round, dispute.slot, dispute.draw == CLAIM ? NO_DRAW : dispute.draw, dispute.rank);
    }

    /// @inheritdoc IDisputes
    function disputeOf(TaskId task, bytes32 id)
        external
        view
        returns (Stage stage, uint256 clockBlock, uint256 step, bytes32 origin, bytes32 result, uint256 shown)
    {
        Dispute storage dispute = _disputes[task][id];
        return (dispute.stage, dispute.clockBlock, dispute.step, dispute.origin, dispute.result, dispute.shown);
    }

    // What must fit ---------------------------------------------------------------------------------------------------
    function _requireBound(bytes32 what, bytes32 expected, bytes32 actual) internal pure {
        _requireBound(what, uint256(expected), uint256(actual));
    }

    function _requireBound(bytes32 what, uint256 expected, uint256 actual) internal pure {
        if (expected != actual) revert NotBound(what, expected, actual);
    }

    function _requireBelow(bytes32 what, uint256 end_, uint256 actual) internal pure {
        if (actual >= end_) revert NotBelow(what, end_, actual);
    }

    function _hashOf(bytes32[] calldata roots) internal pure returns (bytes32) {
        return keccak256(abi.encodePacked(roots));
    }
}
