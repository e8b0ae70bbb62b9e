// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../Types.sol";
import {EPOCH_ROUNDS} from "./GameTypes.sol";
import {Module, Modules} from "./Module.sol";
import {TaskShares} from "./TaskShares.sol";
import {IVault} from "./interfaces/IVault.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IShares, ITaskShares} from "./interfaces/IShares.sol";
import {Pots} from "./libraries/Pots.sol";
import {LibClone} from "solady/utils/LibClone.sol";

/// @title Gives each task a token of shares, moves the revenue that is paid in for them, and halts a task for their majority.
/// @dev The token of a task knows who holds and votes; this contract alone may change it, and the vault moves money for this contract.
contract Shares is Module, IShares {
    address private immutable _implementation;

    constructor(Modules memory modules) Module(modules) {
        _implementation = address(new TaskShares());
    }

    // Tokens (12.5)
    /// @inheritdoc IShares
    function sharesOf(TaskId task) public view returns (address) {
        (bytes memory arguments, bytes32 salt) = _cloneOf(task);
        return LibClone.predictDeterministicAddress(_implementation, arguments, salt, address(this));
    }

    function _cloneOf(TaskId task) private pure returns (bytes memory arguments, bytes32 salt) {
        return (abi.encode(task), TaskId.unwrap(task));
    }

    function _existing(TaskId task) private view returns (ITaskShares) {
        address token = sharesOf(task);
        if (token.code.length == 0) revert IRefusals.TaskUnknown(TaskId.unwrap(task));
        return ITaskShares(token);
    }

    /// @inheritdoc IShares
    function create(TaskId task) external onlyGame {
        (bytes memory arguments, bytes32 salt) = _cloneOf(task);
        LibClone.cloneDeterministic(_implementation, arguments, salt);
    }

    /// @inheritdoc IShares
    function mint(TaskId task, address holder, uint256 amount) external onlyGame {
        ITaskShares(sharesOf(task)).mint(holder, amount);
    }

    // Revenue (12.5)
    /// @inheritdoc IShares
    function payRevenue(TaskId task, uint256 wei_) external {
        ITaskShares token = _existing(task);
        if (wei_ == 0) revert IVault.NothingMoved();
        token.distribute(wei_);
        emit RevenuePaid(task, msg.sender, wei_);
        vault.take(msg.sender, Pots.revenue(task), wei_);
    }

    /// @inheritdoc IShares
    function claimRevenue(TaskId task, address holder) external {
        uint256 wei_ = _existing(task).takeEarned(holder);
        if (wei_ == 0) revert IVault.NothingMoved();
        emit RevenueClaimed(task, holder, wei_);
        vault.give(Pots.revenue(task), holder, wei_);
    }

    // The vote (12.5)
    /// @inheritdoc IShares
    function voteHalt(TaskId task, uint256 amount) external {
        ITaskShares token = _existing(task);
        uint256 round = game.nextRound(task) / EPOCH_ROUNDS * EPOCH_ROUNDS;
        uint256 since = token.setVotes(msg.sender, amount, _max(round, EPOCH_ROUNDS));
        emit HaltVoted(task, msg.sender, amount, since);
    }

    /// @inheritdoc IShares
    /// @dev Shares that are lent for one block halt nothing. Nor do the first seats that settle: they hold all shares until others settle, so all must have
    /// settled.
    function haltByVote(TaskId task) external {
        (, uint256 since, uint256 round) = _existing(task).haltVote();
        uint256 firstBlock = since == 0 ? 0 : since + game.termsOf(task).windows.dispute;
        if (since == 0 || block.number < firstBlock) revert NoShareMajority(task, since, firstBlock);
        // Rounds that never opened are not settled, also where no seat is left that could have to settle them.
        uint256 settled = _min(game.settledBy(task), game.nextRound(task));
        if (settled < round) revert WorkUnsettled(task, round, settled);
        game.halt(task);
    }
}
