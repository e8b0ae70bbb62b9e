// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../Types.sol";

/// @title Who owns a task's model: shares, what is paid in for it, and the vote that halts the task.
/// @notice A share is minted for each wei of pay that a seat settles, and for nothing else. Shares are an ERC-20 token of the task (`ITaskShares`).
/// Whoever uses the model pays revenue in; each holder may claim it in proportion to the shares that it held at that moment. Holders of more than half of
/// all shares halt the task: no later round opens, and everything that is open settles as always.
interface IShares {
    /// @notice Revenue came in.
    /// @param task the task
    /// @param payer who paid
    /// @param wei_ amount in the smallest unit of the token
    event RevenuePaid(TaskId indexed task, address indexed payer, uint256 wei_);
    /// @notice Revenue of a holder became its credit in the vault.
    /// @param task the task
    /// @param holder whose shares earned it
    /// @param wei_ amount in the smallest unit of the token
    event RevenueClaimed(TaskId indexed task, address indexed holder, uint256 wei_);
    /// @notice A holder votes for the halt with so many of its shares, instead of with those that it voted with before.
    /// @param task the task
    /// @param holder whose shares they are
    /// @param shares that vote now; 0 takes the vote back
    /// @param since the block from which on more than half of all shares vote for the halt; 0 where they do not
    event HaltVoted(TaskId indexed task, address indexed holder, uint256 shares, uint256 since);

    /// @notice The vote has no majority, or not for the task's whole `dispute` window.
    /// @param task the task
    /// @param since the block from which on more than half of all shares vote for the halt; 0 where they do not
    /// @param firstBlock the first block in which the vote halts the task; 0 where it has no majority
    /// @custom:remedy Wait until more than half of all shares have voted for the halt for the task's dispute window.
    error NoShareMajority(TaskId task, uint256 since, uint256 firstBlock);
    /// @notice Seats have not settled all rounds whose shares count in this vote, or not all of these rounds have been opened.
    /// @param task the task
    /// @param expectedRound every seat settles all rounds before it
    /// @param actualRound all rounds before it are settled
    /// @custom:remedy Settle all seats of the task up to that round first.
    error WorkUnsettled(TaskId task, uint256 expectedRound, uint256 actualRound);

    /// @notice The ERC-20 token of a task's shares. It exists from `postTask` on; its address follows from the task's id.
    /// @param task the task
    /// @return token address of the token
    function sharesOf(TaskId task) external view returns (address token);

    /// @notice Pays revenue for the holders of this moment, out of the sender's credit. Refused while there are no shares.
    /// @param task the task
    /// @param wei_ amount in the smallest unit of the token
    function payRevenue(TaskId task, uint256 wei_) external;

    /// @notice Turns all whole wei of revenue that a holder has earned into its credit. Anybody may call it.
    /// @param task the task
    /// @param holder whose shares earned it
    function claimRevenue(TaskId task, address holder) external;

    /// @notice Votes for the halt with so many of the sender's shares; 0 takes the vote back. Shares that vote cannot be transferred. Who votes with all of its
    /// shares votes also with those that its seat settles later, until it votes anew. Where more than half of all shares vote already, and it is not known
    /// since when, any call makes it known, also one by an account without shares.
    /// @param task the task
    /// @param amount shares that vote from now on, at most what the sender holds
    function voteHalt(TaskId task, uint256 amount) external;

    /// @notice Halts the task. Anybody may call it, once more than half of all shares have voted for it, without a pause, for the task's `dispute` window,
    /// and once the first epoch has ended, and all seats have settled it and every epoch that had ended when the majority began.
    /// @param task the task
    function haltByVote(TaskId task) external;

    // Modules
    /// @notice Creates the token of a new task. The game only.
    /// @param task the task
    function create(TaskId task) external;

    /// @notice A seat settled so much pay. The game only.
    /// @param task the task
    /// @param holder the seat's account
    /// @param amount shares, one a wei
    function mint(TaskId task, address holder, uint256 amount) external;
}

/// @title The shares of one task: an ERC-20 token that keeps what its holders have earned and how they vote.
/// @dev It holds no money: that lies in the vault (`Pots.revenue`).
interface ITaskShares {
    /// @notice Shares that vote cannot be transferred.
    /// @param holder whose shares they are
    /// @param free the most that can be transferred now
    /// @param actual what was to be transferred
    /// @custom:remedy Take the vote back first, or transfer fewer shares.
    error SharesVote(address holder, uint256 free, uint256 actual);
    /// @notice A holder cannot vote with more shares than it has.
    /// @param holder whose vote it is
    /// @param held shares that it has
    /// @param actual shares that were to vote
    /// @custom:remedy Vote with fewer shares.
    error TooManyVotes(address holder, uint256 held, uint256 actual);
    /// @notice Nobody holds a share yet, so nobody could claim what is paid in.
    /// @custom:remedy Pay once a seat of the task has settled work.
    error NoShares();
    /// @notice All revenue of one task together stays below 2^128 wei.
    /// @param greatest the greatest amount that can still be paid
    /// @param actual what was to be paid
    /// @custom:remedy Pay less.
    error RevenueTooLarge(uint256 greatest, uint256 actual);
    /// @notice Only the deployment's Shares may call it.
    /// @param sender who called
    /// @custom:remedy Call the function of the same purpose of Shares.
    error NotShares(address sender);

    /// @notice The task whose shares these are.
    /// @return task its id
    function task() external view returns (bytes32 task);

    /// @notice What a holder could claim now.
    /// @param holder whose shares earned it
    /// @return wei_ whole wei
    function claimableOf(address holder) external view returns (uint256 wei_);

    /// @notice Shares with which a holder votes for the halt.
    /// @param holder whose vote it is
    /// @return shares that vote
    function votesOf(address holder) external view returns (uint256 shares);

    /// @notice Where the vote stands.
    /// @return shares that vote for the halt
    /// @return since the block from which on they are more than half of all; 0 where they are not
    /// @return round every seat must have settled all rounds before it
    function haltVote() external view returns (uint256 shares, uint256 since, uint256 round);

    /// @notice All revenue that was ever paid in.
    /// @return wei_ amount in the smallest unit of the token
    function revenueWei() external view returns (uint256 wei_);

    // Shares
    /// @notice New shares; they vote where their holder voted with all that it had. Shares only.
    /// @param holder who gets them
    /// @param shares how many
    function mint(address holder, uint256 shares) external;

    /// @notice Revenue for the holders of this moment. Shares only.
    /// @param wei_ amount in the smallest unit of the token
    function distribute(uint256 wei_) external;

    /// @notice Forgets the whole wei that a holder has earned. Shares only.
    /// @param holder whose shares earned it
    /// @return wei_ what it has earned
    function takeEarned(address holder) external returns (uint256 wei_);

    /// @notice A holder votes with so many shares from now on; where they are all that it has, with those as well that are minted to it. Shares only.
    /// @param holder whose vote it is
    /// @param shares that vote
    /// @param round all rounds before it must be settled, where a majority begins with this vote
    /// @return since the block from which on more than half of all shares vote; 0 where they do not
    function setVotes(address holder, uint256 shares, uint256 round) external returns (uint256 since);
}
