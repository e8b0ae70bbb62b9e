// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ExposureId, TaskId} from "../Types.sol";

/// @title Custody of all money: stakes, exposures, task escrows and credits.
/// @notice Invariants: token balance == sum of stakes + sum of escrows + sum of credits + burnPending;
/// locked[a] == sum of a's open exposures; a unit of stake backs one exposure; a slash takes at most its exposure and
/// happens once. Modules are fixed at construction: there is no owner and no upgrade. Payments are pulled.
interface IStakeVault {
    /// @notice Stake came in.
    /// @param account whose
    /// @param amountWei wei of the staked token
    event Deposited(address indexed account, uint256 amountWei);
    /// @notice Stake is to leave.
    /// @param account whose
    /// @param amountWei wei of the staked token
    /// @param readyBlock first block in which it can
    event UnbondingStarted(address indexed account, uint256 amountWei, uint256 readyBlock);
    /// @notice Stake left.
    /// @param account whose
    /// @param amountWei wei of the staked token
    event Withdrawn(address indexed account, uint256 amountWei);
    /// @notice Stake was locked behind something.
    /// @param exposure the name of the exposure
    /// @param account whose
    /// @param amountWei wei of the staked token
    event Exposed(ExposureId indexed exposure, address indexed account, uint256 amountWei);
    /// @notice What was left of an exposure was unlocked.
    /// @param exposure the name of the exposure
    /// @param account whose
    /// @param amountWei wei of the staked token
    event Released(ExposureId indexed exposure, address indexed account, uint256 amountWei);
    /// @notice An exposure was taken.
    /// @param exposure the name of the exposure
    /// @param account who loses it
    /// @param finder who found the fault; 0: nobody is paid
    /// @param amountWei all of it, wei of the staked token
    /// @param finderWei what the finder gets
    /// @param submitterWei what the submitter gets; the rest is burned
    /// @param reason why, as right-padded ASCII
    event Slashed(
        ExposureId indexed exposure,
        address indexed account,
        address indexed finder,
        uint256 amountWei,
        uint256 finderWei,
        uint256 submitterWei,
        bytes32 reason
    );
    /// @notice A fee was burned of an exposure.
    /// @param exposure the name of the exposure
    /// @param account who pays it
    /// @param amountWei wei of the staked token
    /// @param reason why, as right-padded ASCII
    event FeeBurned(ExposureId indexed exposure, address indexed account, uint256 amountWei, bytes32 reason);
    /// @notice A task's escrow came in.
    /// @param task the task
    /// @param amountWei wei of the staked token
    event EscrowFunded(TaskId indexed task, uint256 amountWei);
    /// @notice Escrow was credited to an account.
    /// @param task the task
    /// @param account who is paid
    /// @param amountWei wei of the staked token
    /// @param reason why, as right-padded ASCII
    event Paid(TaskId indexed task, address indexed account, uint256 amountWei, bytes32 reason);
    /// @notice A part of a task's escrow was burned.
    /// @param task the task
    /// @param amountWei wei of the staked token
    /// @param reason why, as right-padded ASCII
    event EscrowBurned(TaskId indexed task, uint256 amountWei, bytes32 reason);
    /// @notice What was left of an escrow was credited to the submitter.
    /// @param task the task
    /// @param submitter who posted and funds the task
    /// @param amountWei wei of the staked token
    event EscrowClosed(TaskId indexed task, address indexed submitter, uint256 amountWei);
    /// @notice An exposure was taken, and a part of it credited to another account; the rest is burned.
    /// @param exposure the name of the exposure
    /// @param from who loses the exposure
    /// @param to who gets the part
    /// @param amountWei that part, wei of the staked token
    /// @param reason why, as right-padded ASCII
    event CreditMoved(ExposureId indexed exposure, address indexed from, address indexed to, uint256 amountWei, bytes32 reason);
    /// @notice Credits were paid out.
    /// @param account whose
    /// @param amountWei wei of the staked token
    event Claimed(address indexed account, uint256 amountWei);
    /// @notice What was to be burned left the vault.
    /// @param amountWei wei of the staked token
    event Burned(uint256 amountWei);

    /// @notice Only a contract of the protocol may call this.
    /// @param caller who called
    error NotModule(address caller);
    /// @notice The account has not that much free stake.
    /// @param account whose
    /// @param freeWei what is free, wei of the staked token
    /// @param neededWei what it takes, wei of the staked token
    error TooLittleStake(address account, uint256 freeWei, uint256 neededWei);
    /// @notice There is an exposure of this name.
    /// @param exposure the name of the exposure
    error ExposureExists(ExposureId exposure);
    /// @notice There is no exposure of this name.
    /// @param exposure the name of the exposure
    error ExposureUnknown(ExposureId exposure);
    /// @notice Nothing has finished unbonding, or all of it is exposed.
    /// @param account whose
    /// @param readyBlock first block in which it is allowed
    /// @param blockNumber the block of the call
    error NothingToWithdraw(address account, uint256 readyBlock, uint256 blockNumber);
    /// @notice The escrow does not hold that much.
    /// @param task the task
    /// @param escrowWei what is left of the escrow, wei of the staked token
    /// @param neededWei what it takes, wei of the staked token
    error EscrowTooSmall(TaskId task, uint256 escrowWei, uint256 neededWei);
    /// @notice The token moved another amount than was asked for.
    /// @param expectedWei what was asked for
    /// @param receivedWei what came in
    error WrongReceipt(uint256 expectedWei, uint256 receivedWei);
    /// @notice Nothing to move.
    /// @param account whose
    error ZeroAmount(address account);

    /// @notice Adds stake for the caller; the token must be approved.
    /// @param amountWei wei of the staked token
    function deposit(uint256 amountWei) external;

    /// @notice Adds stake with an ERC-2612 permit in one call. A permit that was front-run does not hinder the deposit.
    /// @param amountWei wei of the staked token
    /// @param deadline last second in which the permit holds, Unix time
    /// @param v of the permit's signature
    /// @param r of the permit's signature
    /// @param s of the permit's signature
    function depositWithPermit(uint256 amountWei, uint256 deadline, uint8 v, bytes32 r, bytes32 s) external;

    /// @notice Announces that `amountWei` of the caller's stake leaves after `unbondingBlocks`. It backs no new exposure,
    /// and what is already exposed stays slashable.
    /// @param amountWei wei of the staked token
    function requestUnbond(uint256 amountWei) external;

    /// @notice Pays out what has finished unbonding and is not exposed.
    function withdraw() external;

    /// @notice Pays out the caller's credits.
    function claim() external;

    /// @notice Sends all that is to be burned to the dead address. Anybody may call.
    function burn() external;

    // Modules only ------------------------------------------------------------------------------------------------
    /// @notice Locks free stake of `account` under `exposure`. An exposure that has ended is forgotten; its name can be used again. At most 2^96 - 1.
    /// @param exposure the name of the exposure
    /// @param account whose stake
    /// @param amountWei wei of the staked token
    function expose(ExposureId exposure, address account, uint256 amountWei) external;

    /// @notice Unlocks what is left of an exposure; says whose it was.
    /// @param exposure the name of the exposure
    /// @return account whose it was
    function release(ExposureId exposure) external returns (address account);

    /// @notice Takes the whole of an exposure: to `finder` at most `finderCapWei` and at most a quarter, to `submitter` at most
    /// `submitterCapWei` and at most a quarter, the rest (at least half) burned. finder or submitter 0: its part is burned.
    /// @param exposure the name of the exposure
    /// @param finder who found the fault, or 0
    /// @param finderCapWei the most for it, wei of the staked token
    /// @param submitter the task's, or 0
    /// @param submitterCapWei the most for it, wei of the staked token
    /// @param reason why, as right-padded ASCII
    /// @return amountWei all that was taken
    function slash(ExposureId exposure, address finder, uint256 finderCapWei, address submitter, uint256 submitterCapWei, bytes32 reason)
        external
        returns (uint256 amountWei);

    /// @notice Burns min(amountWei, what is left) of an exposure and leaves the rest exposed.
    /// @param exposure the name of the exposure
    /// @param amountWei the fee, wei of the staked token
    /// @param reason why, as right-padded ASCII
    /// @return burnedWei what there was of it
    function burnFee(ExposureId exposure, uint256 amountWei, bytes32 reason) external returns (uint256 burnedWei);

    /// @notice Ends an exposure by moving `toWei` (at most all) of it to credits of `to` and burning the rest.
    /// @param exposure the name of the exposure
    /// @param to who gets the part
    /// @param toWei that part, wei of the staked token
    /// @param reason why, as right-padded ASCII
    function forfeit(ExposureId exposure, address to, uint256 toWei, bytes32 reason) external;

    /// @notice Moves the submitter's tokens (approved to the vault) into the task's escrow.
    /// @param task the task
    /// @param from who pays; it approved the vault
    /// @param amountWei wei of the staked token
    function fundEscrow(TaskId task, address from, uint256 amountWei) external;

    /// @notice Credits `account` from a task's escrow. From a closed escrow nothing is paid (0), so that a late settlement still releases stakes.
    /// @param task the task
    /// @param account who is paid
    /// @param amountWei wei of the staked token
    /// @param reason why, as right-padded ASCII
    /// @return paidWei what was credited
    function pay(TaskId task, address account, uint256 amountWei, bytes32 reason) external returns (uint256 paidWei);

    /// @notice Burns a part of a task's escrow. Of a closed escrow nothing is burned (0).
    /// @param task the task
    /// @param amountWei wei of the staked token
    /// @param reason why, as right-padded ASCII
    /// @return burnedWei what was burned
    function burnEscrow(TaskId task, uint256 amountWei, bytes32 reason) external returns (uint256 burnedWei);

    /// @notice Credits what is left of a task's escrow to its submitter, for good.
    /// @param task the task
    /// @param submitter who gets it
    /// @return amountWei what was left
    function closeEscrow(TaskId task, address submitter) external returns (uint256 amountWei);

    // Views -------------------------------------------------------------------------------------------------------
    /// @notice The token that is staked and paid.
    /// @return its contract
    function token() external view returns (address);
    /// @notice How long announced stake stays before it can leave.
    /// @return blocks
    function unbondingBlocks() external view returns (uint256);
    /// @notice Everything of an account that was not paid out, locked and unbonding stake included; credits not.
    /// @param account whose
    /// @return wei of the staked token
    function stakeOf(address account) external view returns (uint256);
    /// @notice Stake of an account that is exposed.
    /// @param account whose
    /// @return wei of the staked token
    function lockedOf(address account) external view returns (uint256);
    /// @notice Stake of an account that is announced to leave.
    /// @param account whose
    /// @return amountWei wei of the staked token
    /// @return readyBlock first block in which it can leave
    function unbondingOf(address account) external view returns (uint256 amountWei, uint256 readyBlock);
    /// @notice Stake that can be exposed now: total - locked - unbonding, at least 0.
    /// @param account whose
    /// @return wei of the staked token
    function freeOf(address account) external view returns (uint256);
    /// @notice Earnings and refunds of an account that wait to be claimed.
    /// @param account whose
    /// @return wei of the staked token
    function creditOf(address account) external view returns (uint256);
    /// @notice What is left of a task's escrow.
    /// @param task the task
    /// @return wei of the staked token
    function escrowOf(TaskId task) external view returns (uint256);
    /// @notice Whether an account is a contract of the protocol, which may move what lies here.
    /// @param account the one asked about
    /// @return fixed at construction
    function isModule(address account) external view returns (bool);
    /// @notice Whose an exposure is, and how much is left of it.
    /// @param exposure the name of the exposure
    /// @return account 0: there is none
    /// @return amountWei wei of the staked token
    function exposureOf(ExposureId exposure) external view returns (address account, uint256 amountWei);
    /// @notice What waits to be burned.
    /// @return wei of the staked token
    function burnPending() external view returns (uint256);
}
