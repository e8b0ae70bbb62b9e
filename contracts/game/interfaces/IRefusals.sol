// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

/// @title Refusals that several modules share; `protocol/spec/game/rule_refusals.py` has the same names.
/// @dev `custom:remedy` is what the caller does about it: programs show it.
interface IRefusals {
    /// @notice A seat has committed to this round already.
    /// @param slot the claim: its solver's place in the pool
    /// @custom:remedy A seat commits once a round; wait for the next round.
    error AlreadyCommitted(uint256 slot);
    /// @notice The account holds a seat of the task.
    /// @param account whose it is
    /// @custom:remedy An account holds one seat of a task; use it, or wait until its number is free.
    error AlreadySeated(address account);
    /// @notice The seat has settled the round that was asked for.
    /// @param seat id of the seat
    /// @param untilRound index of the round that was asked for
    /// @custom:remedy Nothing is left to settle up to this round.
    error AlreadySettled(uint256 seat, uint256 untilRound);
    /// @notice An amount or a number is above its greatest value.
    /// @param what which one, as right-padded ASCII
    /// @param greatest the greatest that is allowed
    /// @param actual what was given
    /// @custom:remedy Choose a smaller one, within the deployment's bounds.
    error AmountTooLarge(bytes32 what, uint256 greatest, uint256 actual);
    /// @notice An amount or a number is below its least value.
    /// @param what which one, as right-padded ASCII
    /// @param least the least that is allowed
    /// @param actual what was given
    /// @custom:remedy Choose a larger one, as the deployment's bounds ask.
    error AmountTooSmall(bytes32 what, uint256 least, uint256 actual);
    /// @notice The claim, or the draw of the vote, is not decided yet.
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: its solver's place in the pool
    /// @custom:remedy Wait until the claim and, for a vote, its draw are decided.
    error ClaimUndecided(uint256 round, uint256 slot);
    /// @notice A contest of an earlier root is open.
    /// @param round index of the round in its task, from 0
    /// @custom:remedy Wait until the contest has ended.
    error ContestRuns(uint256 round);
    /// @notice The account's credit is too small.
    /// @param account whose it is
    /// @param expectedWei what is needed
    /// @param actualWei what there is
    /// @custom:remedy Deposit the rest first.
    error CreditTooSmall(address account, uint256 expectedWei, uint256 actualWei);
    /// @notice The task is closed.
    /// @param task the task
    /// @custom:remedy Only the credit is left to be withdrawn.
    error TaskIsClosed(bytes32 task);
    /// @notice Too few have signed this merge.
    /// @param seats numbers of the round's solver seats that are not CONVICTED, as a bitmap
    /// @param signers numbers of those whose signature is good, as a bitmap
    /// @custom:remedy Bring merge signatures of more than half of the round's solver seats that are not CONVICTED.
    error NoMajority(uint256 seats, uint256 signers);
    /// @notice The sender is not in the round's pool.
    /// @param account whose it is
    /// @custom:remedy Use the account of a seat in this round's pool.
    error NotCommitter(address account);
    /// @notice The sender did not open the contest.
    /// @param expected account of the contester
    /// @param actual account of the sender
    /// @custom:remedy Only who opened the contest names the child.
    error NotContester(address expected, address actual);
    /// @notice Its clock still runs.
    /// @param lastBlock the last block of the clock or window that has to run out
    /// @param blockNumber the block of the call
    /// @custom:remedy Wait until the clock has run out.
    error NotLate(uint256 lastBlock, uint256 blockNumber);
    /// @notice These claims cannot be merged.
    /// @param mergeable slots that may be merged, as a bitmap
    /// @param merged slots of the merged claims, as a bitmap
    /// @custom:remedy Merge claims that were accepted in time, at least one, each once.
    error NotMergeable(uint256 mergeable, uint256 merged);
    /// @notice Only the deployment's own contracts may call it.
    /// @param caller who called
    /// @custom:remedy Call the module that offers this to everybody.
    error NotModule(address caller);
    /// @notice Another round waits for its root, or none does, or the round still takes commitments.
    /// @param round index of the round in its task, from 0
    /// @custom:remedy Only the round that has no root yet can be posted or stand, after its closing block.
    error NotNewest(uint256 round);
    /// @notice The seat is somebody else's.
    /// @param expected account of the seat
    /// @param actual account of the sender
    /// @custom:remedy Send it from the seat's account.
    error NotHolder(address expected, address actual);
    /// @notice Something about the seat can still change its pay; or an epoch cannot be freed, as somebody has not settled it or something about it is open.
    /// @param seat id of the seat; 0: the epoch of the round cannot be freed
    /// @param round index of the round in its task, from 0
    /// @custom:remedy Wait until the round's windows are over and nothing on the seat is open.
    error NotSettleable(uint256 seat, uint256 round);
    /// @notice The seat is not silent by this evidence.
    /// @param seat id of the seat
    /// @custom:remedy A seat is silent after three rounds, or three primary draws, without a sign of it.
    error NotSilent(uint256 seat);
    /// @notice A round runs.
    /// @param round index of the round in its task, from 0
    /// @custom:remedy Wait until the running round has ended.
    error NotPaused(uint256 round);
    /// @notice The sender is not the task's submitter.
    /// @param expected account of the submitter
    /// @param actual account of the sender
    /// @custom:remedy Only the submitter can do this.
    error NotSubmitter(address expected, address actual);
    /// @notice There is nothing open of this name; or the round that was to be contested has no posted root.
    /// @param id its name, or the index of the round
    /// @custom:remedy It has ended already, or never was.
    error NothingOpen(bytes32 id);
    /// @notice No draw waits for its randomness.
    /// @param round index of the round in its task, from 0
    /// @custom:remedy Wait for the block whose randomness is asked for; a late draw counts no more.
    error NoDrawDue(uint256 round);
    /// @notice The call came before or after its window.
    /// @param firstBlock the first block in which it is open
    /// @param lastBlock the last block in which it is
    /// @param blockNumber the block of the call
    /// @custom:remedy Send it while the window is open.
    error OutsideWindow(uint256 firstBlock, uint256 lastBlock, uint256 blockNumber);
    /// @notice The sender made the statement itself.
    /// @param account whose it is
    /// @custom:remedy Send it from another account than the one that made the statement.
    error OwnStatement(address account);
    /// @notice Too few seats are funded.
    /// @param task the task
    /// @custom:remedy Wait until more seats have joined.
    error PoolTooSmall(bytes32 task);
    /// @notice The proof does not hold.
    /// @param what which one, as right-padded ASCII
    /// @custom:remedy Bring a proof that holds.
    error ProofInvalid(bytes32 what);
    /// @notice The storage of an old round is still needed.
    /// @param round index of the round in its task, from 0
    /// @custom:remedy Settle the seats of the oldest rounds, then free their epoch.
    error RingFull(uint256 round);
    /// @notice The round was not opened, or is too old.
    /// @param round index of the round in its task, from 0
    /// @custom:remedy Name a round that has been opened.
    error RoundUnknown(uint256 round);
    /// @notice The round does not run: it has its root, its base root stands, its root fell, or it was undone.
    /// @param round index of the round in its task, from 0
    /// @custom:remedy Go on with the round that runs now.
    error RoundNotRunning(uint256 round);
    /// @notice An earlier root fell and undid the round: nothing of it is merged.
    /// @param round index of the round in its task, from 0
    /// @custom:remedy Go on with the round that runs now.
    error RoundUndone(uint256 round);
    /// @notice The proof was not committed, or not at the right time.
    /// @param digest what was to be committed
    /// @custom:remedy Commit the proof's digest first, and bring the proof within proofCommitBlocks.
    error ProofNotCommitted(bytes32 digest);
    /// @notice The seat was convicted.
    /// @param seat id of the seat
    /// @custom:remedy Of a convicted seat nothing counts any more.
    error SeatIsConvicted(uint256 seat);
    /// @notice The seat is leaving, or was convicted.
    /// @param seat id of the seat
    /// @custom:remedy A seat that leaves is paid out when its rounds are settled; of a convicted one nothing counts any more.
    error SeatNotActive(uint256 seat);
    /// @notice There is no such seat.
    /// @param seat id of the seat
    /// @custom:remedy Name a seat of this task.
    error SeatUnknown(uint256 seat);
    /// @notice All seats of the role are taken.
    /// @param leastWei the least that is taken
    /// @custom:remedy Bring more stake than the smallest solver seat has, or wait for a free number.
    error SeatsTaken(uint256 leastWei);
    /// @notice A round still holds the seat, or something on it is open.
    /// @param seat id of the seat
    /// @custom:remedy Wait until all rounds that hold the seat are settled and nothing on it is open.
    error SeatBusy(uint256 seat);
    /// @notice The stake is not what a seat takes.
    /// @param leastWei the least that is taken
    /// @param greatestWei the most that is taken
    /// @param actualWei what there is
    /// @custom:remedy Bring at least the task's stake, and no more than the greatest amount.
    error StakeWrong(uint256 leastWei, uint256 greatestWei, uint256 actualWei);
    /// @notice A start was asked for already.
    /// @param lastBlock the last block in which it can be drawn
    /// @custom:remedy Draw it, or wait until it has lapsed.
    error StartPending(uint256 lastBlock);
    /// @notice Nobody made this statement, or nobody answers for it any more. In a dispute also: the vote claims no state, or the call is not for this kind
    /// of statement.
    /// @param round index of the round in its task, from 0
    /// @param slot the claim: its solver's place in the pool
    /// @custom:remedy Name a claim that was committed, or bring a vote that a seat has signed.
    error StatementUnknown(uint256 round, uint256 slot);
    /// @notice The task is halted: by its submitter, or by the majority of its shares.
    /// @param task the task
    /// @custom:remedy No later round opens; settle and leave.
    error TaskHalted(bytes32 task);
    /// @notice No round is to come: all have been used. `join` refuses also where the task has paused for `dispute` blocks, without a start that can still be
    /// drawn.
    /// @param task the task
    /// @custom:remedy Settle and leave. A task that only pauses can be started again.
    error TaskOver(bytes32 task);
    /// @notice The task is not over.
    /// @param task the task
    /// @custom:remedy A task closes once it pauses, all seats are paid out and nothing is open.
    error TaskRuns(bytes32 task);
    /// @notice There is no such task.
    /// @param task the task
    /// @custom:remedy Check the task's id.
    error TaskUnknown(bytes32 task);
    /// @notice A window is too long.
    /// @param what which one, as right-padded ASCII
    /// @param greatest the greatest that is allowed
    /// @param actual what was given
    /// @custom:remedy Choose a shorter window.
    error WindowTooLong(bytes32 what, uint256 greatest, uint256 actual);
    /// @notice A window is too short.
    /// @param what which one, as right-padded ASCII
    /// @param least the least that is allowed
    /// @param actual what was given
    /// @custom:remedy Choose a longer window.
    error WindowTooShort(bytes32 what, uint256 least, uint256 actual);
    /// @notice Nobody is asked about this word, or about any in an exact task.
    /// @param word what the vote says
    /// @custom:remedy Only an ACCEPT or a REJECT of a state leaf can be asked.
    error WordNotQueried(uint256 word);
    /// @notice The claim starts from another root than the chain gives.
    /// @param expected base root of the round
    /// @param actual base root that the call named
    /// @custom:remedy Train from the root that the chain gives.
    error WrongBase(bytes32 expected, bytes32 actual);
    /// @notice The claim was trained on another shard than the chain assigns, or the round has no beacon yet.
    /// @param expected beacon of the round; 0: none yet
    /// @param actual beacon that the call named
    /// @custom:remedy Train the shard that the chain's beacon assigns.
    error WrongBeacon(bytes32 expected, bytes32 actual);
    /// @notice The bond is more than the call pays at most.
    /// @param expectedWei what is needed
    /// @param actualWei the limit that the call named
    /// @custom:remedy Name a greater limit: the k-th that is open costs k bonds, and others may come before.
    error WrongBond(uint256 expectedWei, uint256 actualWei);
    /// @notice The claim has an impossible number of segments.
    /// @param least the least that is allowed
    /// @param greatest the greatest that is allowed
    /// @param actual what was given
    /// @custom:remedy Claim as many segments as all audits of a claim need, and at most the round's number.
    error WrongSegments(uint256 least, uint256 greatest, uint256 actual);
    /// @notice The call is for another turn.
    /// @param running number of the turn or stage that runs
    /// @param called number of the one that the call is for
    /// @custom:remedy Wait for your turn.
    error WrongTurn(uint256 running, uint256 called);
}
