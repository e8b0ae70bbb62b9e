// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ITaskShares} from "./interfaces/IShares.sol";
import {ERC20} from "solady/tokens/ERC20.sol";
import {LibClone} from "solady/utils/LibClone.sol";
import {LibString} from "solady/utils/LibString.sol";

/// @title The shares of one task: an ERC-20 token that keeps what its holders have earned and how they vote.
/// @notice What a holder earns is kept in parts of a wei, 2^96 of them: so no division loses anything, and all that was paid in is somebody's.
/// @dev `Shares` creates one clone a task; the task's id is the clone's argument. Sum of all that is earned and not taken, of `_rest` too ==
/// (revenueWei - what was taken) * PARTS: `tests/contracts/invariant` holds it.
contract TaskShares is ERC20, ITaskShares {
    uint256 private constant PARTS = 1 << 96;

    /// @dev seenParts: `_parts` when `earnedParts` was last brought up to date; votes: of its shares, those that vote for the halt; isWhole: it voted with all
    /// that it had, so shares that are minted to it vote as well.
    struct Holder {
        uint256 seenParts;
        uint256 earnedParts;
        uint192 votes;
        bool isWhole;
    }

    address private immutable _shares;
    /// @dev What one share has earned since the first, in parts.
    uint256 private _parts;
    /// @dev Parts that could not be divided among the shares; the next revenue takes them along.
    uint256 private _rest;
    /// @inheritdoc ITaskShares
    uint256 public revenueWei;
    /// @dev A task pays less than 2^128 wei in all (`DeploymentBounds.amountMax`), so it has fewer shares.
    uint192 private _votes;
    uint40 private _since;
    /// @dev Of meaning while `_since` is not 0.
    uint24 private _round;
    mapping(address => Holder) private _holders;

    constructor() {
        _shares = msg.sender;
    }

    modifier onlyShares() {
        if (msg.sender != _shares) revert NotShares(msg.sender);
        _;
    }

    // What it is
    /// @inheritdoc ITaskShares
    function task() public view returns (bytes32) {
        return abi.decode(LibClone.argsOnClone(address(this), 0, 32), (bytes32));
    }

    /// @notice The token's name.
    /// @return text with the first four bytes of the task's id
    function name() public view override returns (string memory) {
        return string.concat("Touchstone task ", _label());
    }

    /// @notice The token's symbol.
    /// @return text with the first four bytes of the task's id
    function symbol() public view override returns (string memory) {
        return string.concat("TASK-", _label());
    }

    function _label() private view returns (string memory) {
        return LibString.toHexStringNoPrefix(uint256(task()) >> 224, 4);
    }

    /// @dev No contract may move shares that their holder has not approved.
    function _givePermit2InfiniteAllowance() internal pure override returns (bool) {
        return false;
    }

    // What holders earn (12.5)
    /// @inheritdoc ITaskShares
    function claimableOf(address holder) external view returns (uint256) {
        return _earnedOf(holder) / PARTS;
    }

    /// @dev All revenue together is below 2^128 wei, and a holder never has more shares than there are: what it earned stays below 2^224 parts.
    function _earnedOf(address holder) private view returns (uint256) {
        Holder storage record = _holders[holder];
        return record.earnedParts + balanceOf(holder) * (_parts - record.seenParts);
    }

    function _update(address holder) private {
        Holder storage record = _holders[holder];
        if (record.seenParts == _parts) return;
        record.earnedParts = _earnedOf(holder);
        record.seenParts = _parts;
    }

    /// @inheritdoc ITaskShares
    function distribute(uint256 wei_) external onlyShares {
        uint256 shares = totalSupply();
        if (shares == 0) revert NoShares();
        uint256 greatest = type(uint128).max - revenueWei;
        if (wei_ > greatest) revert RevenueTooLarge(greatest, wei_);
        revenueWei += wei_;
        uint256 parts = wei_ * PARTS + _rest;
        _parts += parts / shares;
        _rest = parts % shares;
    }

    /// @inheritdoc ITaskShares
    function takeEarned(address holder) external onlyShares returns (uint256 wei_) {
        _update(holder);
        uint256 earned = _holders[holder].earnedParts;
        wei_ = earned / PARTS;
        _holders[holder].earnedParts = earned % PARTS;
    }

    // Shares that move (12.5)
    /// @inheritdoc ITaskShares
    /// @dev Shares of who votes with all it has vote at once: else whoever settles many seats in one call ended the majority of all of them.
    function mint(address holder, uint256 shares) external onlyShares {
        _mint(holder, shares);
        if (_votes == 0) return;
        Holder storage record = _holders[holder];
        if (record.isWhole) {
            (record.votes, _votes) = (uint192(record.votes + shares), uint192(_votes + shares));
        }
        // New shares of others may end a majority: then its time begins anew.
        if (_since != 0 && !_isMajority()) _since = 0;
    }

    /// @dev Revenue that was paid before is the old holder's, also where its shares go.
    function _beforeTokenTransfer(address from, address to, uint256 shares) internal override {
        if (from != address(0)) {
            uint256 votes = _holders[from].votes;
            // Without a vote the token's own check refuses.
            if (votes != 0 && shares > balanceOf(from) - votes) {
                revert SharesVote(from, balanceOf(from) - votes, shares);
            }
            _update(from);
        }
        _update(to);
    }

    // The vote (12.5)
    /// @inheritdoc ITaskShares
    function votesOf(address holder) external view returns (uint256) {
        return _holders[holder].votes;
    }

    /// @inheritdoc ITaskShares
    function haltVote() external view returns (uint256 shares, uint256 since, uint256 round) {
        return (_votes, _since, _round);
    }

    /// @inheritdoc ITaskShares
    function setVotes(address holder, uint256 shares, uint256 round) external onlyShares returns (uint256) {
        uint256 held = balanceOf(holder);
        if (shares > held) revert TooManyVotes(holder, held, shares);
        Holder storage record = _holders[holder];
        _votes = uint192(_votes - record.votes + shares);
        (record.votes, record.isWhole) = (uint192(shares), shares != 0 && shares == held);
        if (!_isMajority()) _since = 0;
        else if (_since == 0) (_since, _round) = (uint40(block.number), uint24(round));
        return _since;
    }

    function _isMajority() private view returns (bool) {
        return 2 * uint256(_votes) > totalSupply();
    }
}
