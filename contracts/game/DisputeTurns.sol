// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {StateHeader, TaskId} from "../Types.sol";
import {NO_DRAW, Proof, SeatStatus, StatementRef} from "./GameTypes.sol";
import {QuestionModule} from "./QuestionModule.sol";
import {IDisputes} from "./interfaces/IDisputes.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";

/// @title Keeps disputes, says whose turn it is, and ends them.
abstract contract DisputeTurns is QuestionModule {
    /// @dev In place of a draw: the statement is the claim.
    uint8 internal constant CLAIM = type(uint8).max;

    // Turns (11.3)
    function _running(TaskId task, bytes32 id) internal view returns (Dispute storage dispute) {
        dispute = _disputes[task][id];
        if (dispute.stage == IDisputes.Stage.NONE || dispute.stage > IDisputes.Stage.LAST) {
            revert IRefusals.NothingOpen(id);
        }
    }

    /// @return dispute the dispute
    /// @return account of the accused seat
    function _onTurn(TaskId task, bytes32 id, IDisputes.Stage expected)
        private
        view
        returns (Dispute storage dispute, address account)
    {
        dispute = _running(task, id);
        if (dispute.stage != expected) revert IRefusals.WrongTurn(uint256(dispute.stage), uint256(expected));
        Record storage record = _tasks[task].seatAt[dispute.seat];
        if (record.status == SeatStatus.CONVICTED) revert IRefusals.SeatIsConvicted(dispute.seat);
        _requireWindow(0, dispute.clockBlock);
        account = record.account;
    }

    function _claimantsTurn(TaskId task, bytes32 id, IDisputes.Stage expected)
        internal
        view
        returns (Dispute storage dispute, address account)
    {
        (dispute, account) = _onTurn(task, id, expected);
        if (msg.sender != account) revert IRefusals.NotHolder(account, msg.sender);
    }

    function _openersTurn(TaskId task, bytes32 id, IDisputes.Stage expected)
        internal
        view
        returns (Dispute storage dispute)
    {
        (dispute,) = _onTurn(task, id, expected);
        if (msg.sender != dispute.opener) revert IDisputes.NotOpener(dispute.opener, msg.sender);
    }

    function _turnTo(Dispute storage dispute, IDisputes.Stage stage, uint256 respond)
        internal
        returns (uint256 clock)
    {
        clock = block.number + respond;
        (dispute.stage, dispute.clockBlock) = (stage, uint40(clock));
    }

    // The end (11.3)
    function _convict(TaskId task, bytes32 id, Dispute storage dispute) internal {
        _close(task, id, dispute, IDisputes.Stage.CONVICTED, address(0));
        game.punish(task, dispute.seat, dispute.opener, Proof.DISPUTED, _refOf(dispute));
    }

    /// @param claimant gets half of the bond where the dispute is CLEARED; else it goes back
    function _close(TaskId task, bytes32 id, Dispute storage dispute, IDisputes.Stage outcome, address claimant)
        internal
    {
        dispute.stage = outcome;
        emit IDisputes.DisputeEnded(task, id, outcome);
        (uint256 seat, uint256 round, uint256 number) = (dispute.seat, dispute.round, dispute.number);
        if (outcome == IDisputes.Stage.CLEARED) _forfeitBond(task, seat, round, number, claimant);
        else _returnBond(task, seat, round, number, dispute.opener);
    }

    // The statement, packed
    /// @dev Rounds are at most 65,535 and slots 64; a draw is at most 20, a rank at most 2, a segment below 65,536.
    function _keepStatement(Dispute storage dispute, StatementRef memory ref, uint256 segment) internal {
        (dispute.round, dispute.slot, dispute.rank) = (uint16(ref.round), uint8(ref.slot), uint8(ref.rank));
        (dispute.draw, dispute.segment) = (ref.draw == NO_DRAW ? CLAIM : uint8(ref.draw), uint16(segment));
    }

    function _refOf(Dispute storage dispute) private view returns (StatementRef memory) {
        return StatementRef(dispute.round, dispute.slot, dispute.draw == CLAIM ? NO_DRAW : dispute.draw, dispute.rank);
    }

    // What must fit
    function _requireBound(bytes32 what, bytes32 expected, bytes32 actual) internal pure {
        _requireBound(what, uint256(expected), uint256(actual));
    }

    function _requireBound(bytes32 what, uint256 expected, uint256 actual) internal pure {
        if (expected != actual) revert IDisputes.NotBound(what, expected, actual);
    }

    function _requireBelow(bytes32 what, uint256 end_, uint256 actual) internal pure {
        if (actual >= end_) revert IDisputes.NotBelow(what, end_, actual);
    }

    /// @dev The bias corrections go by the local step, learning rate and data by the global one.
    function _requireSteps(StateHeader calldata header, uint256 local, uint256 global) internal pure {
        if (header.localStep != local || header.globalStep != global) {
            revert IDisputes.WrongSteps(local, header.localStep, global, header.globalStep);
        }
    }

    function _hashOf(bytes32[] calldata roots) internal pure returns (bytes32) {
        return keccak256(abi.encodePacked(roots));
    }

    // Bonds
    function _questionsOn(Record storage record) internal view override returns (uint16[9] storage) {
        return record.disputes;
    }

    function _firstBondWei(TaskId task) internal view override returns (uint256) {
        return _tasks[task].terms.amounts.disputeBond;
    }
}
