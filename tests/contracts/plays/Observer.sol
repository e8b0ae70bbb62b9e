// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../contracts/Types.sol";
import {EPOCH_ROUNDS, Phase, RANKS, RoundView, Seat, SeatStatus} from "../../../contracts/game/GameTypes.sol";
import {IContests} from "../../../contracts/game/interfaces/IContests.sol";
import {IVault} from "../../../contracts/game/interfaces/IVault.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {ISeats} from "../../../contracts/game/interfaces/ISeats.sol";
import {ITasks} from "../../../contracts/game/interfaces/ITasks.sol";
import {IShares, ITaskShares} from "../../../contracts/game/interfaces/IShares.sol";
import {IVotes} from "../../../contracts/game/interfaces/IVotes.sol";
import {Pots} from "../../../contracts/game/libraries/Pots.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {LibBit} from "solady/utils/LibBit.sol";

/// @title What machine and contracts must have alike after a call, as words. Twin of tests/kit/observing.py: the same words in the same order.
contract Observer {
    uint256 private constant ROUNDS_SEEN = 3;

    IVault private immutable _vault;
    ITasks private immutable _tasks;
    ISeats private immutable _seatBook;
    IRounds private immutable _rounds;
    IVotes private immutable _votes;
    IContests private immutable _contests;
    IShares private immutable _shares;
    uint256[] private _words;

    constructor(
        IVault vault,
        ITasks tasks,
        ISeats seatBook,
        IRounds rounds,
        IVotes votes,
        IContests contests,
        IShares shares
    ) {
        (_vault, _tasks, _rounds, _votes, _contests) = (vault, tasks, rounds, votes, contests);
        (_seatBook, _shares) = (seatBook, shares);
    }

    /// @dev A round whose closing block is past is closed first: the machine closes it with every call. Take it back afterwards, or it hides a call that
    /// should have closed the round itself.
    function observe(TaskId task, address[] memory accounts, uint256[] memory seats)
        external
        returns (uint256[] memory words)
    {
        delete _words;
        _rounds.sync(task);
        _observeMoney(task, accounts);
        _observeShares(task, accounts);
        for (uint256 i = 0; i < seats.length; ++i) {
            _observeSeat(task, seats[i]);
        }
        (uint256 first, uint256 next) = _observeTask(task);
        for (uint256 round = first; round < next; ++round) {
            _observeRound(task, round);
        }
        return _words;
    }

    function _put(uint256 word) private {
        _words.push(word);
    }

    function _observeMoney(TaskId task, address[] memory accounts) private {
        for (uint256 i = 0; i < accounts.length; ++i) {
            _put(_vault.creditOf(accounts[i]));
        }
        _put(_vault.burnPending());
        _put(_vault.potOf(Pots.escrow(task)));
        _put(_vault.potOf(Pots.stakes(task)));
        _put(_vault.potOf(Pots.bonds(task)));
        _put(_vault.potOf(Pots.held(task)));
        _put(_vault.potOf(Pots.restitution(task)));
    }

    function _observeShares(TaskId task, address[] memory accounts) private {
        ITaskShares token = ITaskShares(_shares.sharesOf(task));
        (uint256 supply, IERC20 shares) = (IERC20(address(token)).totalSupply(), IERC20(address(token)));
        (uint256 votes, uint256 since, uint256 round) = token.haltVote();
        _put(supply);
        _put(token.revenueWei());
        _put(_vault.potOf(Pots.revenue(task)));
        _put(votes);
        _put(since);
        if (since != 0) _put(round);
        if (supply == 0) return;
        for (uint256 i = 0; i < accounts.length; ++i) {
            _put(shares.balanceOf(accounts[i]));
            _put(token.claimableOf(accounts[i]));
            _put(token.votesOf(accounts[i]));
        }
    }

    function _observeSeat(TaskId task, uint256 number) private {
        Seat memory seat = _seatBook.seatAt(task, number);
        _put(uint256(seat.status));
        if (seat.status == SeatStatus.NONE) return;
        _put(uint160(seat.account));
        _put(seat.stakeWei);
        _put(seat.settled);
        _put(seat.joined);
    }

    function _observeTask(TaskId task) private returns (uint256 first, uint256 next) {
        (IRounds.Line memory line, bytes32 root) = _rounds.lineOf(task);
        _put(line.nextRound);
        _put(line.live);
        _put(line.startBlock);
        _put(line.freedEpochs);
        _put(line.isHalted ? 1 : 0);
        _put(_tasks.isClosed(task) ? 1 : 0);
        _put(_contests.contestedUntil(task));
        _put(uint256(root));
        _put(_rounds.isOver(task) ? 1 : 0);
        if (line.live == 0) _put(line.pausedSince);
        (first, next) = (uint256(line.freedEpochs) * EPOCH_ROUNDS, line.nextRound);
        if (next > first + ROUNDS_SEEN) first = next - ROUNDS_SEEN;
    }

    function _observeRound(TaskId task, uint256 round) private {
        RoundView memory view_ = _rounds.roundOf(task, round);
        _put(uint256(view_.phase));
        _put(view_.pool);
        _put(view_.opened);
        _put(uint256(view_.base));
        _put(uint256(_rounds.beaconOf(task, round)));
        _put(view_.committed);
        if (view_.phase == Phase.UNDONE) return;
        _put(view_.closed);
        _put(uint256(view_.seed));
        _put(view_.lateFrom);
        _put(view_.lateSlots);
        _put(_rounds.factsOf(task, round, round)[0].dutyUntil);
        if (view_.phase == Phase.POSTED) {
            _put(view_.merged);
            _put(view_.signers);
            _put(view_.rootUntil);
            _put(uint256(view_.root));
        }
        if (view_.closed != 0) _observeFates(task, round);
        _observeVotes(task, round, LibBit.popCount(view_.pool));
    }

    function _observeFates(TaskId task, uint256 round) private {
        IRounds.ClaimStatuses memory statuses = _rounds.statusesOf(task, round);
        _put(statuses.accepted);
        _put(statuses.mergeable);
        _put(statuses.undecided);
        _put(statuses.open);
    }

    function _observeVotes(TaskId task, uint256 round, uint256 slots) private {
        uint256 draws = _tasks.termsOf(task).draws;
        for (uint256 slot = 0; slot < slots; ++slot) {
            for (uint256 draw = 0; draw <= draws; ++draw) {
                uint256[3] memory codes = _votes.votesOf(task, round, slot, draw);
                uint256 word = 0;
                for (uint256 rank = 0; rank < RANKS; ++rank) {
                    word |= codes[rank] << 3 * rank;
                }
                _put(word);
            }
        }
    }
}
