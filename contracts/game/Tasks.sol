// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {Hashing} from "../libraries/Hashing.sol";
import {DeploymentBounds, GameTerms, RANKS} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {RoundReading} from "./RoundReading.sol";
import {SeatReading} from "./SeatReading.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {ITasks} from "./interfaces/ITasks.sol";
import {GameTermsCheck} from "./libraries/GameTermsCheck.sol";
import {OpenCounts} from "./libraries/OpenCounts.sol";
import {Pots} from "./libraries/Pots.sol";

/// @title Posts and closes tasks, and says what other contracts and nodes need of a task and its members.
contract Tasks is SeatReading, RoundReading, ITasks {
    using OpenCounts for uint16[9];

    constructor(Modules memory modules) Module(modules) {}

    // Tasks (3, 12.4)
    /// @inheritdoc ITasks
    function announce(string calldata url, bytes32 certificateSha256) external {
        _peers[msg.sender] = Peer(url, certificateSha256);
        emit Announced(msg.sender, url, certificateSha256);
    }

    /// @inheritdoc ITasks
    function postTask(GameTerms calldata terms, bytes calldata training) external returns (TaskId task) {
        if (msg.sender != terms.submitter) revert IRefusals.NotSubmitter(terms.submitter, msg.sender);
        GameTermsCheck.check(terms, _bounds);
        task = TaskId.wrap(sha256(bytes.concat(abi.encode(terms), training)));
        if (_tasks[task].terms.submitter != address(0)) revert TaskExists(task);
        _tasks[task].terms = terms;
        uint256 escrowWei = escrowFor(terms);
        emit TaskPosted(task, msg.sender, terms, training, escrowWei);
        shares.create(task);
        _lines[task].pausedSince = uint40(block.number);
        _lines[task].root = Hashing.outerRoot(terms.initialWeightsRoot, terms.zeroRoot);
        vault.take(msg.sender, Pots.escrow(task), escrowWei);
    }

    /// @inheritdoc ITasks
    /// @dev Every solver seat accepted in every round, three counted votes in every draw and in every late audit.
    function escrowFor(GameTerms calldata terms) public pure returns (uint256) {
        uint256 claimWei = terms.amounts.solverPay + RANKS * terms.draws * uint256(terms.amounts.auditPay);
        if (terms.lateChance != 0) claimWei += RANKS * uint256(terms.amounts.latePay);
        return uint256(terms.rounds) * terms.solverSeats * claimWei;
    }

    /// @inheritdoc ITasks
    function closeTask(TaskId task) external {
        Task storage entry = _open(task);
        if (entry.seats != 0 || _contestsOpen[task].total() != 0 || !_isOver(task)) {
            revert IRefusals.TaskRuns(TaskId.unwrap(task));
        }
        entry.isClosed = true;
        uint256 refundWei = vault.potOf(Pots.escrow(task));
        emit TaskClosed(task, refundWei);
        vault.give(Pots.escrow(task), entry.terms.submitter, refundWei);
        _burn(Pots.held(task));
        _burn(Pots.restitution(task));
    }

    function _burn(bytes32 pot) private {
        vault.discard(pot, vault.potOf(pot));
    }

    // What a task is
    /// @inheritdoc ITasks
    function termsOf(TaskId task) external view returns (GameTerms memory) {
        return _known(task).terms;
    }

    /// @inheritdoc ITasks
    function domainOf(TaskId task) external view returns (bytes32) {
        return Hashing.domain(block.chainid, address(this), task);
    }

    /// @inheritdoc ITasks
    function bounds() external view returns (DeploymentBounds memory) {
        return _bounds;
    }

    /// @inheritdoc ITasks
    function isClosed(TaskId task) external view returns (bool) {
        return _known(task).isClosed;
    }

    /// @inheritdoc ITasks
    function peerOf(address account) external view returns (string memory url, bytes32 certificateSha256) {
        Peer storage peer = _peers[account];
        return (peer.url, peer.certificateSha256);
    }
}
