// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {NO_DRAW, Proof, Seat, SeatStatus, StatementRef} from "./GameTypes.sol";
import {QuestionModule} from "./QuestionModule.sol";
import {IDisputes} from "./interfaces/IDisputes.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";

/// @title Keeps disputes, says whose turn it is, and ends them.
abstract contract DisputeTurns is QuestionModule, IDisputes {
    /// @dev In place of a draw: the statement is the claim.
    uint8 internal constant CLAIM = type(uint8).max;

    // Turns -----------------------------------------------------------------------------------------------------------
    function _running(TaskId task, bytes32 id) internal view returns (Dispute storage d) {
        d = _disputes[task][id];
        if (d.stage == Stage.NONE || d.stage > Stage.LAST) revert IRefusals.NothingOpen(id);
    }

    /// @return d the dispute
    /// @return account of the accused seat
    function _onTurn(TaskId task, bytes32 id, Stage expected)
        private
        view
        returns (Dispute storage d, address account)
    {
        d = _running(task, id);
        if (d.stage != expected) revert IRefusals.WrongTurn(uint256(d.stage), uint256(expected));
        Seat memory record = _seatAt(task, d.seat);
        if (record.status == SeatStatus.CLOSED) revert IRefusals.SeatClosed(d.seat);
        _requireWindow(0, d.clockBlock);
        account = record.account;
    }

    function _claimantsTurn(TaskId task, bytes32 id, Stage expected)
        internal
        view
        returns (Dispute storage d, address account)
    {
        (d, account) = _onTurn(task, id, expected);
        if (msg.sender != account) revert IRefusals.NotHolder(account, msg.sender);
    }

    function _openersTurn(TaskId task, bytes32 id, Stage expected) internal view returns (Dispute storage d) {
        (d,) = _onTurn(task, id, expected);
        if (msg.sender != d.opener) revert NotOpener(d.opener, msg.sender);
    }

    function _turnTo(Dispute storage d, Stage stage, uint256 respond) internal returns (uint256 clock) {
        clock = block.number + respond;
        (d.stage, d.clockBlock) = (stage, uint40(clock));
    }

    // The end ---------------------------------------------------------------------------------------------------------
    /// @inheritdoc IDisputes
    function end(TaskId task, bytes32 id) external {
        Dispute storage d = _running(task, id);
        Seat memory record = _seatAt(task, d.seat);
        if (record.status == SeatStatus.CLOSED) return _close(task, id, d, Stage.MOOT, address(0));
        if (block.number <= d.clockBlock) revert IRefusals.NotLate(d.clockBlock, block.number);
        Stage stage = d.stage;
        if (stage == Stage.ROOTS || stage == Stage.TRACE || stage == Stage.LEAVES) _convict(task, id, d);
        else _close(task, id, d, Stage.CLEARED, record.account);
    }

    function _convict(TaskId task, bytes32 id, Dispute storage d) internal {
        _close(task, id, d, Stage.CONVICTED, address(0));
        settlement.punish(task, d.seat, d.opener, Proof.DISPUTED, _refOf(d));
    }

    /// @param claimant gets half of the bond where the dispute is CLEARED; else it goes back
    function _close(TaskId task, bytes32 id, Dispute storage d, Stage outcome, address claimant) private {
        d.stage = outcome;
        emit DisputeEnded(task, id, outcome);
        if (outcome == Stage.CLEARED) _forfeitBond(task, d.seat, d.round, d.number, claimant);
        else _returnBond(task, d.seat, d.round, d.number, d.opener);
    }

    // The statement, packed -------------------------------------------------------------------------------------------
    /// @dev Rounds are at most 65,535 and slots 64; a draw is at most 20, a rank at most 2, a segment below 65,536.
    function _keepStatement(Dispute storage d, StatementRef memory ref, uint256 segment) internal {
        (d.round, d.slot, d.rank) = (uint16(ref.round), uint8(ref.slot), uint8(ref.rank));
        (d.draw, d.segment) = (ref.draw == NO_DRAW ? CLAIM : uint8(ref.draw), uint16(segment));
    }

    function _refOf(Dispute storage d) private view returns (StatementRef memory) {
        return StatementRef(d.round, d.slot, d.draw == CLAIM ? NO_DRAW : d.draw, d.rank);
    }

    /// @inheritdoc IDisputes
    function disputeOf(TaskId task, bytes32 id)
        external
        view
        returns (Stage stage, uint256 clockBlock, uint256 step, bytes32 origin, bytes32 result, uint256 shown)
    {
        Dispute storage d = _disputes[task][id];
        return (d.stage, d.clockBlock, d.step, d.origin, d.result, d.shown);
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
