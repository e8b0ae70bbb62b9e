// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IPurse} from "./interfaces/IPurse.sol";
import {IRefusals} from "./interfaces/IRefusals.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";

/// @title The one place where tokens lie: credits of accounts, pots of modules, and what is to be burned.
/// @notice Tokens come in by `deposit` and go out by `withdraw` and `burn`. Everything else moves numbers, so no token is called while a rule runs.
/// @dev Twin of `protocol/spec/game/purse.py`.
contract Purse is IPurse, ReentrancyGuardTransient {
    using SafeERC20 for IERC20;

    /// @notice Where burned tokens go; not every token can be burned.
    address public constant DEAD = 0x000000000000000000000000000000000000dEaD;

    IERC20 private immutable _token;
    /// @inheritdoc IPurse
    mapping(address => bool) public isModule;
    /// @inheritdoc IPurse
    mapping(address => uint256) public creditOf;
    /// @inheritdoc IPurse
    mapping(bytes32 => uint256) public potOf;
    /// @inheritdoc IPurse
    uint256 public burnPending;

    modifier onlyModule() {
        if (!isModule[msg.sender]) revert IRefusals.NotModule(msg.sender);
        _;
    }

    constructor(IERC20 token_, address[] memory modules) {
        _token = token_;
        for (uint256 i = 0; i < modules.length; ++i) {
            isModule[modules[i]] = true;
        }
    }

    /// @inheritdoc IPurse
    function deposit(uint256 wei_) external nonReentrant {
        if (wei_ == 0) revert NothingMoved();
        creditOf[msg.sender] += wei_;
        emit Deposited(msg.sender, wei_);
        uint256 before = _token.balanceOf(address(this));
        _token.safeTransferFrom(msg.sender, address(this), wei_);
        uint256 received = _token.balanceOf(address(this)) - before;
        if (received != wei_) revert WrongReceipt(wei_, received);
    }

    /// @inheritdoc IPurse
    function withdraw() external nonReentrant {
        uint256 wei_ = creditOf[msg.sender];
        if (wei_ == 0) revert NothingMoved();
        creditOf[msg.sender] = 0;
        emit Withdrawn(msg.sender, wei_);
        _token.safeTransfer(msg.sender, wei_);
    }

    /// @inheritdoc IPurse
    function burn() external nonReentrant {
        uint256 wei_ = burnPending;
        if (wei_ == 0) revert NothingMoved();
        burnPending = 0;
        emit Burned(wei_);
        _token.safeTransfer(DEAD, wei_);
    }

    // Moves ---------------------------------------------------------------------------------------------------------
    /// @inheritdoc IPurse
    function take(address account, bytes32 pot, uint256 wei_) external onlyModule {
        uint256 held = creditOf[account];
        if (held < wei_) revert IRefusals.CreditTooSmall(account, wei_, held);
        unchecked {
            creditOf[account] = held - wei_;
        }
        potOf[pot] += wei_;
        emit Taken(account, pot, wei_);
    }

    /// @inheritdoc IPurse
    function give(bytes32 pot, address account, uint256 wei_) external onlyModule {
        if (wei_ == 0) return;
        _takeOut(pot, wei_);
        creditOf[account] += wei_;
        emit Given(pot, account, wei_);
    }

    /// @inheritdoc IPurse
    function move(bytes32 from, bytes32 to, uint256 wei_) external onlyModule {
        if (wei_ == 0) return;
        _takeOut(from, wei_);
        potOf[to] += wei_;
        emit Moved(from, to, wei_);
    }

    /// @inheritdoc IPurse
    function discard(bytes32 pot, uint256 wei_) external onlyModule {
        if (wei_ == 0) return;
        _takeOut(pot, wei_);
        burnPending += wei_;
        emit Discarded(pot, wei_);
    }

    function _takeOut(bytes32 pot, uint256 wei_) private {
        uint256 held = potOf[pot];
        if (held < wei_) revert PotTooSmall(pot, wei_, held);
        unchecked {
            potOf[pot] = held - wei_;
        }
    }

    /// @inheritdoc IPurse
    function token() external view returns (address) {
        return address(_token);
    }
}
