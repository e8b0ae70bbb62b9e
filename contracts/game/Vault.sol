// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IVault} from "./interfaces/IVault.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";

/// @title The one place where tokens lie: credits of accounts, pots of modules, and what is to be burned.
/// @notice Tokens come in by `deposit` and go out by `withdraw` and `burn`. Everything else moves numbers, so no token is called while a rule runs.
/// @dev Twin of `protocol/spec/game/vault.py`.
contract Vault is IVault, ReentrancyGuardTransient {
    using SafeERC20 for IERC20;

    /// @notice Where burned tokens go; not every token can be burned.
    address public constant DEAD = 0x000000000000000000000000000000000000dEaD;

    IERC20 private immutable _token;
    address private immutable _game;
    address private immutable _shares;

    /// @inheritdoc IVault
    mapping(address => uint256) public creditOf;
    /// @dev The amount of a pot, plus one wei once something was put in. So a pot that is emptied is not 0 in storage, and costs less gas when it is filled
    /// again.
    mapping(bytes32 => uint256) private _pots;
    /// @inheritdoc IVault
    uint256 public burnPending;

    modifier onlyModule() {
        _requireModule();
        _;
    }

    function _requireModule() private view {
        if (!isModule(msg.sender)) revert IRefusals.NotModule(msg.sender);
    }

    constructor(IERC20 token_, address game, address shares) {
        (_token, _game, _shares) = (token_, game, shares);
    }

    /// @inheritdoc IVault
    function isModule(address account) public view returns (bool) {
        return account == _game || account == _shares;
    }

    /// @inheritdoc IVault
    function deposit(uint256 wei_) external nonReentrant {
        if (wei_ == 0) revert NothingMoved();
        // Before the tokens come: a call back meets the lock, and WrongReceipt undoes all.
        creditOf[msg.sender] += wei_;
        emit Deposited(msg.sender, wei_);
        uint256 before = _token.balanceOf(address(this));
        _token.safeTransferFrom(msg.sender, address(this), wei_);
        uint256 received = _token.balanceOf(address(this)) - before;
        if (received != wei_) revert WrongReceipt(wei_, received);
    }

    /// @inheritdoc IVault
    function withdraw() external nonReentrant {
        uint256 wei_ = creditOf[msg.sender];
        if (wei_ == 0) revert NothingMoved();
        creditOf[msg.sender] = 0;
        emit Withdrawn(msg.sender, wei_);
        _token.safeTransfer(msg.sender, wei_);
    }

    /// @inheritdoc IVault
    function burn() external nonReentrant {
        uint256 wei_ = burnPending;
        if (wei_ == 0) revert NothingMoved();
        burnPending = 0;
        emit Burned(wei_);
        _token.safeTransfer(DEAD, wei_);
    }

    // Moves
    /// @inheritdoc IVault
    function take(address account, bytes32 pot, uint256 wei_) external onlyModule {
        uint256 held = creditOf[account];
        if (held < wei_) revert IRefusals.CreditTooSmall(account, wei_, held);
        creditOf[account] = held - wei_;
        _putIn(pot, wei_);
        emit Taken(account, pot, wei_);
    }

    /// @inheritdoc IVault
    function give(bytes32 pot, address account, uint256 wei_) external onlyModule {
        if (wei_ == 0) return;
        _takeOut(pot, wei_);
        creditOf[account] += wei_;
        emit Given(pot, account, wei_);
    }

    /// @inheritdoc IVault
    function move(bytes32 from, bytes32 to, uint256 wei_) external onlyModule {
        if (wei_ == 0) return;
        _takeOut(from, wei_);
        _putIn(to, wei_);
        emit Moved(from, to, wei_);
    }

    /// @inheritdoc IVault
    function discard(bytes32 pot, uint256 wei_) external onlyModule {
        if (wei_ == 0) return;
        _takeOut(pot, wei_);
        burnPending += wei_;
        emit Discarded(pot, wei_);
    }

    function _takeOut(bytes32 pot, uint256 wei_) private {
        uint256 held = potOf(pot);
        if (held < wei_) revert PotTooSmall(pot, wei_, held);
        _pots[pot] -= wei_;
    }

    /// @dev The sum does not overflow: all pots together are at most what the token has in all.
    function _putIn(bytes32 pot, uint256 wei_) private {
        uint256 held = _pots[pot];
        _pots[pot] = held + wei_ + (held == 0 ? 1 : 0);
    }

    /// @inheritdoc IVault
    function potOf(bytes32 pot) public view returns (uint256) {
        uint256 held = _pots[pot];
        return held == 0 ? 0 : held - 1;
    }

    /// @inheritdoc IVault
    function token() external view returns (address) {
        return address(_token);
    }
}
