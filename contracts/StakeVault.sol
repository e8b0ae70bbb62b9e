// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/IERC20Permit.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {ExposureId, TaskId} from "./Types.sol";
import {IStakeVault} from "./interfaces/IStakeVault.sol";

/// @title The one place where tokens lie. It knows accounts, exposures and escrows; why something is locked or slashed is the modules' business.
/// @dev Books first, token last, and no entry while a token call runs: a token with hooks finds nothing to exploit.
contract StakeVault is IStakeVault, ReentrancyGuardTransient {
    using SafeCast for uint256;
    using SafeERC20 for IERC20;

    /// @notice Where burned tokens go.
    /// @dev Not every token has a burn function.
    address public constant DEAD = 0x000000000000000000000000000000000000dEaD;
    /// @notice Finder and submitter get at most one part in so many of a slash, each.
    /// @dev So at least half of every slash is burned.
    uint256 public constant SHARE_DIVISOR = 4;

    /// @dev `staked` holds everything of the account that was not paid out; `locked` and `unbonding` are parts of it and may overlap.
    /// Two words, the first of which every exposure moves.
    struct Account {
        uint128 staked;
        uint128 locked;
        uint128 unbonding;
        uint128 readyBlock;
    }

    /// @dev One word: 2^96 of the smallest unit are 79 thousand million tokens of 18 decimals.
    struct Exposure {
        address account;
        uint96 amountWei;
    }

    IERC20 private immutable _token;
    /// @inheritdoc IStakeVault
    uint256 public immutable unbondingBlocks;
    /// @inheritdoc IStakeVault
    uint256 public burnPending;

    /// @inheritdoc IStakeVault
    mapping(address => bool) public isModule;
    mapping(address => Account) private _accounts;
    mapping(ExposureId => Exposure) private _exposures;
    /// @inheritdoc IStakeVault
    mapping(TaskId => uint256) public escrowOf;
    /// @notice Whether what was left of a task's escrow has gone back.
    mapping(TaskId => bool) public isClosed;
    /// @inheritdoc IStakeVault
    mapping(address => uint256) public creditOf;

    modifier onlyModule() {
        if (!isModule[msg.sender]) revert NotModule(msg.sender);
        _;
    }

    constructor(IERC20 token_, uint256 unbondingBlocks_, address[] memory modules) {
        (_token, unbondingBlocks) = (token_, unbondingBlocks_);
        for (uint256 i = 0; i < modules.length; ++i) {
            isModule[modules[i]] = true;
        }
    }

    // Accounts ----------------------------------------------------------------------------------------------------
    /// @inheritdoc IStakeVault
    function deposit(uint256 amountWei) external nonReentrant {
        _deposit(amountWei);
    }

    /// @inheritdoc IStakeVault
    function depositWithPermit(uint256 amountWei, uint256 deadline, uint8 v, bytes32 r, bytes32 s)
        external
        nonReentrant
    {
        // Whoever saw the permit may have used it already; then the allowance is there and the deposit goes on.
        try IERC20Permit(address(_token)).permit(msg.sender, address(this), amountWei, deadline, v, r, s) {}
            catch {}
        _deposit(amountWei);
    }

    function _deposit(uint256 amountWei) private {
        if (amountWei == 0) revert ZeroAmount(msg.sender);
        _accounts[msg.sender].staked += amountWei.toUint128();
        emit Deposited(msg.sender, amountWei);
        _receive(msg.sender, amountWei);
    }

    /// @inheritdoc IStakeVault
    function requestUnbond(uint256 amountWei) external {
        if (amountWei == 0) revert ZeroAmount(msg.sender);
        Account storage account = _accounts[msg.sender];
        uint256 most = account.staked - account.unbonding;
        if (amountWei > most) revert TooLittleStake(msg.sender, most, amountWei);
        account.unbonding += amountWei.toUint128();
        // One clock an account: a second request starts it again for all.
        account.readyBlock = (block.number + unbondingBlocks).toUint128();
        emit UnbondingStarted(msg.sender, amountWei, account.readyBlock);
    }

    /// @inheritdoc IStakeVault
    function withdraw() external nonReentrant {
        Account storage account = _accounts[msg.sender];
        uint256 amountWei = _min(account.unbonding, account.staked - account.locked);
        if (amountWei == 0 || block.number < account.readyBlock) {
            revert NothingToWithdraw(msg.sender, account.readyBlock, block.number);
        }
        account.unbonding -= amountWei.toUint128();
        account.staked -= amountWei.toUint128();
        emit Withdrawn(msg.sender, amountWei);
        _token.safeTransfer(msg.sender, amountWei);
    }

    /// @inheritdoc IStakeVault
    function claim() external nonReentrant {
        uint256 amountWei = creditOf[msg.sender];
        if (amountWei == 0) revert ZeroAmount(msg.sender);
        creditOf[msg.sender] = 0;
        emit Claimed(msg.sender, amountWei);
        _token.safeTransfer(msg.sender, amountWei);
    }

    /// @inheritdoc IStakeVault
    function burn() external nonReentrant {
        uint256 amountWei = burnPending;
        if (amountWei == 0) revert ZeroAmount(DEAD);
        burnPending = 0;
        emit Burned(amountWei);
        _token.safeTransfer(DEAD, amountWei);
    }

    // Exposures ---------------------------------------------------------------------------------------------------
    /// @inheritdoc IStakeVault
    function expose(ExposureId exposure, address account, uint256 amountWei) external onlyModule {
        if (amountWei == 0) revert ZeroAmount(account);
        if (_exposures[exposure].account != address(0)) revert ExposureExists(exposure);
        uint256 free = freeOf(account);
        if (free < amountWei) revert TooLittleStake(account, free, amountWei);
        _exposures[exposure] = Exposure(account, amountWei.toUint96());
        _accounts[account].locked += amountWei.toUint128();
        emit Exposed(exposure, account, amountWei);
    }

    /// @inheritdoc IStakeVault
    function release(ExposureId exposure) external onlyModule returns (address account) {
        uint256 amountWei;
        (account, amountWei) = _end(exposure);
        emit Released(exposure, account, amountWei);
    }

    /// @inheritdoc IStakeVault
    function slash(
        ExposureId exposure,
        address finder,
        uint256 finderCapWei,
        address submitter,
        uint256 submitterCapWei,
        bytes32 reason
    ) external onlyModule returns (uint256 amountWei) {
        address account;
        (account, amountWei) = _end(exposure);
        _takeStake(account, amountWei);
        uint256 finderWei = _credit(finder, _min(finderCapWei, amountWei / SHARE_DIVISOR));
        uint256 submitterWei = _credit(submitter, _min(submitterCapWei, amountWei / SHARE_DIVISOR));
        burnPending += amountWei - finderWei - submitterWei;
        emit Slashed(exposure, account, finder, amountWei, finderWei, submitterWei, reason);
    }

    /// @inheritdoc IStakeVault
    function burnFee(ExposureId exposure, uint256 amountWei, bytes32 reason)
        external
        onlyModule
        returns (uint256 burnedWei)
    {
        Exposure storage entry = _existing(exposure);
        burnedWei = _min(amountWei, entry.amountWei);
        entry.amountWei -= burnedWei.toUint96();
        _accounts[entry.account].locked -= burnedWei.toUint128();
        _takeStake(entry.account, burnedWei);
        burnPending += burnedWei;
        emit FeeBurned(exposure, entry.account, burnedWei, reason);
    }

    /// @inheritdoc IStakeVault
    function forfeit(ExposureId exposure, address to, uint256 toWei, bytes32 reason) external onlyModule {
        (address account, uint256 amountWei) = _end(exposure);
        _takeStake(account, amountWei);
        uint256 paidWei = _credit(to, _min(toWei, amountWei));
        burnPending += amountWei - paidWei;
        emit CreditMoved(exposure, account, to, paidWei, reason);
    }

    /// @dev Unlocks and forgets an exposure, so that nothing can be done to it twice.
    function _end(ExposureId exposure) private returns (address account, uint256 amountWei) {
        Exposure storage entry = _existing(exposure);
        (account, amountWei) = (entry.account, entry.amountWei);
        delete _exposures[exposure];
        _accounts[account].locked -= amountWei.toUint128();
    }

    function _existing(ExposureId exposure) private view returns (Exposure storage entry) {
        entry = _exposures[exposure];
        if (entry.account == address(0)) revert ExposureUnknown(exposure);
    }

    /// @dev Stake that was just unlocked leaves the account; what was announced to leave cannot be more than what is left.
    function _takeStake(address owner, uint256 amountWei) private {
        Account storage account = _accounts[owner];
        account.staked -= amountWei.toUint128();
        if (account.unbonding > account.staked) account.unbonding = account.staked;
    }

    function _credit(address to, uint256 amountWei) private returns (uint256) {
        if (to == address(0)) return 0;
        creditOf[to] += amountWei;
        return amountWei;
    }

    // Escrows -----------------------------------------------------------------------------------------------------
    /// @inheritdoc IStakeVault
    function fundEscrow(TaskId task, address from, uint256 amountWei) external onlyModule nonReentrant {
        escrowOf[task] += amountWei;
        emit EscrowFunded(task, amountWei);
        _receive(from, amountWei);
    }

    /// @inheritdoc IStakeVault
    function pay(TaskId task, address account, uint256 amountWei, bytes32 reason)
        external
        onlyModule
        returns (uint256 paidWei)
    {
        if (isClosed[task]) return 0;
        uint256 escrowWei = _requireEscrow(task, amountWei);
        paidWei = _credit(account, amountWei);
        escrowOf[task] = escrowWei - paidWei;
        emit Paid(task, account, paidWei, reason);
    }

    /// @inheritdoc IStakeVault
    function burnEscrow(TaskId task, uint256 amountWei, bytes32 reason)
        external
        onlyModule
        returns (uint256 burnedWei)
    {
        if (isClosed[task]) return 0;
        escrowOf[task] = _requireEscrow(task, amountWei) - amountWei;
        burnedWei = amountWei;
        burnPending += burnedWei;
        emit EscrowBurned(task, burnedWei, reason);
    }

    function _requireEscrow(TaskId task, uint256 amountWei) private view returns (uint256 escrowWei) {
        escrowWei = escrowOf[task];
        if (escrowWei < amountWei) revert EscrowTooSmall(task, escrowWei, amountWei);
    }

    /// @inheritdoc IStakeVault
    function closeEscrow(TaskId task, address submitter) external onlyModule returns (uint256 amountWei) {
        amountWei = escrowOf[task];
        escrowOf[task] = 0;
        isClosed[task] = true;
        _credit(submitter, amountWei);
        emit EscrowClosed(task, submitter, amountWei);
    }

    /// @dev A token that keeps a fee, or moves anything else meanwhile, is refused: the books would not match the balance.
    function _receive(address from, uint256 amountWei) private {
        uint256 before = _token.balanceOf(address(this));
        _token.safeTransferFrom(from, address(this), amountWei);
        uint256 received = _token.balanceOf(address(this)) - before;
        if (received != amountWei) revert WrongReceipt(amountWei, received);
    }

    // Views -------------------------------------------------------------------------------------------------------
    /// @inheritdoc IStakeVault
    function token() external view returns (address) {
        return address(_token);
    }

    /// @inheritdoc IStakeVault
    function stakeOf(address account) external view returns (uint256) {
        return _accounts[account].staked;
    }

    /// @inheritdoc IStakeVault
    function lockedOf(address account) external view returns (uint256) {
        return _accounts[account].locked;
    }

    /// @inheritdoc IStakeVault
    function unbondingOf(address account) external view returns (uint256 amountWei, uint256 readyBlock) {
        return (_accounts[account].unbonding, _accounts[account].readyBlock);
    }

    /// @inheritdoc IStakeVault
    function freeOf(address owner) public view returns (uint256) {
        Account storage account = _accounts[owner];
        uint256 bound = uint256(account.locked) + account.unbonding;
        return account.staked > bound ? account.staked - bound : 0;
    }

    /// @inheritdoc IStakeVault
    function exposureOf(ExposureId exposure) external view returns (address account, uint256 amountWei) {
        Exposure storage entry = _exposures[exposure];
        return (entry.account, entry.amountWei);
    }

    function _min(uint256 a, uint256 b) private pure returns (uint256) {
        return a < b ? a : b;
    }
}
