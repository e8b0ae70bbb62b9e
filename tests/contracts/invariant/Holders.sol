// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../contracts/Types.sol";
import {IShares} from "../../../contracts/game/interfaces/IShares.sol";
import {Pots} from "../../../contracts/game/libraries/Pots.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {ISharesToken} from "../game/SharesWorld.sol";
import {Court} from "./Court.sol";

/// @title Shares of the last task that came to its end: they move, revenue is paid in and claimed, and holders vote.
/// @dev What must hold: shares are minted by settled pay only; all that was ever paid in was claimed or lies in the pot, and what lies there is what
/// holders may claim, but for parts of a wei; no share votes twice.
abstract contract Holders is Court {
    TaskId private _ended;
    bool private _isAny;
    /// @dev By task: pay that seats have settled, and revenue that was claimed.
    mapping(TaskId => uint256) private _paidWei;
    mapping(TaskId => uint256) private _claimedWei;

    /// @dev A seat settled: so many shares are new, and the seat's account has them.
    function notePay(address account, uint256 wei_) internal {
        _paidWei[task] += wei_;
        ISharesToken found = ISharesToken(shares.sharesOf(task));
        _requireEqual(found.totalSupply(), _paidWei[task], "shares are minted by settled pay only");
        _require(found.balanceOf(account) >= wei_, "shares are the account's", wei_, found.balanceOf(account));
    }

    /// @dev The end of a task: its shares are those that move from now on. Of the one before all is claimed.
    function handOver() internal {
        if (_isAny) {
            for (uint256 i = 0; i < people.length; ++i) {
                _claim(people[i]);
            }
            checkHolders();
            uint256 leftWei = vault.potOf(Pots.revenue(_ended));
            _require(leftWei <= people.length, "parts of a wei are left", people.length, leftWei);
        }
        if (_paidWei[task] == 0) return;
        (_ended, _isAny) = (task, true);
        checkHolders();
    }

    /// @dev One move of a holder, or of who pays.
    function moveShares() internal returns (bool isDone) {
        if (!_isAny) return false;
        uint256 which = dice(5);
        address holder = people[dice(people.length)];
        uint256 held = ISharesToken(shares.sharesOf(_ended)).balanceOf(holder);
        if (which == 0) isDone = _pay();
        else if (which == 1) isDone = _claim(holder);
        else if (which == 2) isDone = held != 0 && _transfer(holder, 1 + dice(held));
        else if (which == 3) isDone = held != 0 && _vote(holder, dice(held + 1));
        else isDone = _tooMuch(holder, held);
        if (isDone) checkHolders();
    }

    function _pay() private returns (bool isDone) {
        uint256 wei_ = 1 + dice(1000);
        give(submitter, wei_);
        isDone = attempt(submitter, address(shares), abi.encodeCall(IShares.payRevenue, (_ended, wei_)));
        if (isDone) _count("revenue paid");
    }

    function _claim(address holder) private returns (bool isDone) {
        uint256 beforeWei = vault.creditOf(holder);
        uint256 dueWei = ISharesToken(shares.sharesOf(_ended)).claimableOf(holder);
        isDone = attempt(stranger, address(shares), abi.encodeCall(IShares.claimRevenue, (_ended, holder)));
        _require(isDone == (dueWei != 0), "what is earned can be claimed", dueWei, isDone ? 1 : 0);
        _requireEqual(vault.creditOf(holder) - beforeWei, dueWei, "a claim is paid");
        _claimedWei[_ended] += dueWei;
        if (isDone) _count("revenue claimed");
    }

    function _transfer(address holder, uint256 amount) private returns (bool isDone) {
        address found = shares.sharesOf(_ended);
        uint256 free = IERC20(found).balanceOf(holder) - ISharesToken(found).votesOf(holder);
        address to = people[dice(people.length)];
        isDone = attempt(holder, found, abi.encodeCall(IERC20.transfer, (to, amount)));
        _require(isDone == (amount <= free), "shares that do not vote move", free, amount);
        if (isDone) _count("shares moved");
    }

    function _vote(address holder, uint256 amount) private returns (bool isDone) {
        isDone = attempt(holder, address(shares), abi.encodeCall(IShares.voteHalt, (_ended, amount)));
        _require(isDone, "a holder may vote", 1, 0);
        _count("halt voted");
    }

    /// @dev More than there is, and a halt of a task that has ended: all of it is refused.
    function _tooMuch(address holder, uint256 held) private returns (bool) {
        address found = shares.sharesOf(_ended);
        bytes memory data = abi.encodeCall(IShares.voteHalt, (_ended, held + 1));
        _require(!attempt(holder, address(shares), data), "no vote without a share", held, held + 1);
        data = abi.encodeCall(IERC20.transfer, (stranger, held + 1));
        _require(!attempt(holder, found, data), "no transfer without a share", held, held + 1);
        data = abi.encodeCall(IShares.mint, (_ended, holder, 1));
        _require(!attempt(holder, address(shares), data), "nobody mints", 0, 1);
        data = abi.encodeCall(ISharesToken(found).takeEarned, (holder));
        _require(!attempt(holder, found, data), "nobody takes", 0, 1);
        data = abi.encodeCall(IShares.haltByVote, (_ended));
        _require(!attempt(holder, address(shares), data), "no halt before an epoch is settled", 0, 1);
        return true;
    }

    function checkHolders() internal view {
        ISharesToken found = ISharesToken(shares.sharesOf(_ended));
        (uint256 held, uint256 dueWei, uint256 voting) = (0, 0, 0);
        for (uint256 i = 0; i < people.length; ++i) {
            (uint256 has, uint256 votes_) = (found.balanceOf(people[i]), found.votesOf(people[i]));
            _require(votes_ <= has, "no more votes than shares", has, votes_);
            (held, dueWei, voting) = (held + has, dueWei + found.claimableOf(people[i]), voting + votes_);
        }
        _requireEqual(held, found.totalSupply(), "all shares are somebody's");
        _requireEqual(held, _paidWei[_ended], "shares are minted by settled pay only");
        uint256 potWei = vault.potOf(Pots.revenue(_ended));
        _requireEqual(potWei + _claimedWei[_ended], found.revenueWei(), "claims sum to what was paid in");
        bool isTheirs = dueWei <= potWei && potWei - dueWei <= people.length;
        _require(isTheirs, "what lies there is the holders'", potWei, dueWei);
        (uint256 counted, uint256 since,) = found.haltVote();
        _requireEqual(counted, voting, "each share votes once");
        _requireEqual(since == 0 ? 0 : 1, 2 * voting > held ? 1 : 0, "the majority is known");
    }
}
