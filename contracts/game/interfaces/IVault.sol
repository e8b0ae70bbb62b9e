// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @title The one place where tokens lie.
/// @notice The balance of the token is the sum of all credits, all pots and burnPending. Tokens that were sent without `deposit` come on top: nobody can ever
/// move them.
interface IVault {
    /// @notice Tokens came in.
    /// @param account whose it is
    /// @param wei_ amount in the smallest unit of the token
    event Deposited(address indexed account, uint256 wei_);
    /// @notice Tokens went out.
    /// @param account whose it is
    /// @param wei_ amount in the smallest unit of the token
    event Withdrawn(address indexed account, uint256 wei_);
    /// @notice Tokens went to 0x...dEaD.
    /// @param wei_ amount in the smallest unit of the token
    event Burned(uint256 wei_);
    /// @notice Credit went into a pot: a stake, a bond or an escrow.
    /// @param account whose it is
    /// @param pot which part of the money (`Pots`)
    /// @param wei_ amount in the smallest unit of the token
    event Taken(address indexed account, bytes32 indexed pot, uint256 wei_);
    /// @notice Money of a pot became credit.
    /// @param pot which part of the money (`Pots`)
    /// @param account whose it is
    /// @param wei_ amount in the smallest unit of the token
    event Given(bytes32 indexed pot, address indexed account, uint256 wei_);
    /// @notice Money went from pot to pot.
    /// @param from where it comes from
    /// @param to where it goes
    /// @param wei_ amount in the smallest unit of the token
    event Moved(bytes32 indexed from, bytes32 indexed to, uint256 wei_);
    /// @notice Money of a pot waits to be burned.
    /// @param pot which part of the money (`Pots`)
    /// @param wei_ amount in the smallest unit of the token
    event Discarded(bytes32 indexed pot, uint256 wei_);

    /// @notice There is nothing to move.
    /// @custom:remedy Name an amount above 0; a withdrawal needs credit.
    error NothingMoved();
    /// @notice A pot holds less than is asked of it: a bug of `Game` or `Shares`.
    /// @param pot which part of the money (`Pots`)
    /// @param expectedWei what is needed
    /// @param actualWei what there is
    /// @custom:remedy Report it.
    error PotTooSmall(bytes32 pot, uint256 expectedWei, uint256 actualWei);
    /// @notice The token delivered another amount than was sent.
    /// @param expectedWei what is needed
    /// @param actualWei what there is
    /// @custom:remedy Use a token without fees on transfers.
    error WrongReceipt(uint256 expectedWei, uint256 actualWei);

    /// @notice Moves tokens of the sender, who has allowed it, into its credit.
    /// @param wei_ amount in the smallest unit of the token
    function deposit(uint256 wei_) external;

    /// @notice Pays all credit of the sender out.
    function withdraw() external;

    /// @notice Sends what waits to be burned to 0x...dEaD. Anybody may call it.
    function burn() external;

    /// @notice Credit of an account into a pot. `Game` and `Shares` only, as all moves below.
    /// @param account whose it is
    /// @param pot which part of the money (`Pots`)
    /// @param wei_ amount in the smallest unit of the token
    function take(address account, bytes32 pot, uint256 wei_) external;

    /// @notice Money of a pot to an account's credit.
    /// @param pot which part of the money (`Pots`)
    /// @param account whose it is
    /// @param wei_ amount in the smallest unit of the token
    function give(bytes32 pot, address account, uint256 wei_) external;

    /// @notice Money from pot to pot.
    /// @param from where it comes from
    /// @param to where it goes
    /// @param wei_ amount in the smallest unit of the token
    function move(bytes32 from, bytes32 to, uint256 wei_) external;

    /// @notice Money of a pot to be burned.
    /// @param pot which part of the money (`Pots`)
    /// @param wei_ amount in the smallest unit of the token
    function discard(bytes32 pot, uint256 wei_) external;

    /// @notice Whether an account is the deployment's `Game` or `Shares`.
    /// @param account whose it is
    /// @return true: it is
    function isModule(address account) external view returns (bool);

    /// @notice What an account may withdraw or stake, in wei.
    /// @param account whose it is
    /// @return wei
    function creditOf(address account) external view returns (uint256);

    /// @notice What a pot holds, in wei.
    /// @param pot which part of the money (`Pots`)
    /// @return wei
    function potOf(bytes32 pot) external view returns (uint256);

    /// @notice What waits to be burned, in wei.
    /// @return wei
    function burnPending() external view returns (uint256);

    /// @notice The token that everything is paid in.
    /// @return its address
    function token() external view returns (address);
}
