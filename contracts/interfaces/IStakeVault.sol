// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ExposureId, TaskId} from "../Types.sol";

/// @title Custody of all money: stakes, exposures, task escrows and credits.
/// @notice Invariants: token balance == sum of stakes + sum of escrows + sum of credits + burnPending;
/// locked[a] == sum of a's open exposures; a unit of stake backs one exposure; a slash takes at most its exposure and
/// happens once. Modules are fixed at construction: there is no owner and no upgrade. Payments are pulled.
interface IStakeVault {
    event Deposited(address indexed account, uint256 amountWei);
    event UnbondingStarted(address indexed account, uint256 amountWei, uint256 readyBlock);
    event Withdrawn(address indexed account, uint256 amountWei);
    event Exposed(ExposureId indexed exposure, address indexed account, uint256 amountWei);
    event Released(ExposureId indexed exposure, address indexed account, uint256 amountWei);
    event Slashed(
        ExposureId indexed exposure,
        address indexed account,
        address indexed finder,
        uint256 amountWei,
        uint256 finderWei,
        uint256 submitterWei,
        bytes32 reason
    );
    event FeeBurned(ExposureId indexed exposure, address indexed account, uint256 amountWei, bytes32 reason);
    event EscrowFunded(TaskId indexed task, uint256 amountWei);
    event Paid(TaskId indexed task, address indexed account, uint256 amountWei, bytes32 reason);
    event EscrowClosed(TaskId indexed task, address indexed submitter, uint256 amountWei);
    event CreditMoved(ExposureId indexed exposure, address indexed from, address indexed to, uint256 amountWei, bytes32 reason);
    event Claimed(address indexed account, uint256 amountWei);
    event Burned(uint256 amountWei);

    error NotModule(address caller);
    error TooLittleStake(address account, uint256 freeWei, uint256 neededWei);
    error ExposureExists(ExposureId exposure);
    error ExposureUnknown(ExposureId exposure);
    error NothingToWithdraw(address account, uint256 readyBlock, uint256 blockNumber);
    error EscrowTooSmall(TaskId task, uint256 escrowWei, uint256 neededWei);
    error WrongReceipt(uint256 expectedWei, uint256 receivedWei);
    error ZeroAmount(address account);

    /// @notice Adds stake for the caller; the token must be approved.
    function deposit(uint256 amountWei) external;

    /// @notice Adds stake with an ERC-2612 permit in one call. A permit that was front-run does not hinder the deposit.
    function depositWithPermit(uint256 amountWei, uint256 deadline, uint8 v, bytes32 r, bytes32 s) external;

    /// @notice Announces that `amountWei` of the caller's stake leaves after `unbondingBlocks`. It backs no new exposure,
    /// and what is already exposed stays slashable.
    function requestUnbond(uint256 amountWei) external;

    /// @notice Pays out what has finished unbonding and is not exposed.
    function withdraw() external;

    /// @notice Pays out the caller's credits.
    function claim() external;

    /// @notice Sends all that is to be burned to the dead address. Anybody may call.
    function burn() external;

    // Modules only ------------------------------------------------------------------------------------------------
    /// @notice Locks free stake of `account` under `exposure`. An exposure that has ended is forgotten; its name can be used again. At most 2^96 - 1.
    function expose(ExposureId exposure, address account, uint256 amountWei) external;

    /// @notice Unlocks what is left of an exposure; says whose it was.
    function release(ExposureId exposure) external returns (address account);

    /// @notice Takes the whole of an exposure: to `finder` at most `finderCapWei` and at most a quarter, to `submitter` at most
    /// `submitterCapWei` and at most a quarter, the rest (at least half) burned. finder or submitter 0: its part is burned.
    function slash(ExposureId exposure, address finder, uint256 finderCapWei, address submitter, uint256 submitterCapWei, bytes32 reason)
        external
        returns (uint256 amountWei);

    /// @notice Burns min(amountWei, what is left) of an exposure and leaves the rest exposed.
    function burnFee(ExposureId exposure, uint256 amountWei, bytes32 reason) external returns (uint256 burnedWei);

    /// @notice Ends an exposure by moving `toWei` (at most all) of it to credits of `to` and burning the rest.
    function forfeit(ExposureId exposure, address to, uint256 toWei, bytes32 reason) external;

    /// @notice Moves the submitter's tokens (approved to the vault) into the task's escrow.
    function fundEscrow(TaskId task, address from, uint256 amountWei) external;

    /// @notice Credits `account` from a task's escrow. From a closed escrow nothing is paid (0), so that a late settlement still releases stakes.
    function pay(TaskId task, address account, uint256 amountWei, bytes32 reason) external returns (uint256 paidWei);

    /// @notice Credits what is left of a task's escrow to its submitter, for good.
    function closeEscrow(TaskId task, address submitter) external returns (uint256 amountWei);

    // Views -------------------------------------------------------------------------------------------------------
    function token() external view returns (address);
    function unbondingBlocks() external view returns (uint256);
    function stakeOf(address account) external view returns (uint256);
    function lockedOf(address account) external view returns (uint256);
    function unbondingOf(address account) external view returns (uint256 amountWei, uint256 readyBlock);
    /// @notice Stake that can be exposed now: total - locked - unbonding, at least 0.
    function freeOf(address account) external view returns (uint256);
    function creditOf(address account) external view returns (uint256);
    function escrowOf(TaskId task) external view returns (uint256);
    function isModule(address account) external view returns (bool);
    function exposureOf(ExposureId exposure) external view returns (address account, uint256 amountWei);
    function burnPending() external view returns (uint256);
}
