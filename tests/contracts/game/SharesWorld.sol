// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameTerms} from "../../../contracts/game/GameTypes.sol";
import {ITaskShares} from "../../../contracts/game/interfaces/IShares.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IERC20Metadata} from "@openzeppelin/contracts/token/ERC20/extensions/IERC20Metadata.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {GameWorld} from "./GameWorld.sol";

/// @dev What a wallet sees of the token, and what this protocol adds.
interface ISharesToken is IERC20Metadata, ITaskShares {}

/// @title A task whose first epoch is settled: two solvers, three verifiers and three whistleblowers hold shares.
/// @dev Every second round is void, so that 16 rounds are played in little time.
abstract contract SharesWorld is GameWorld {
    uint256 internal constant EPOCH = 16;
    /// @dev Long enough for three rounds to cover the dispute window, short enough to commit in time.
    uint256 internal constant SLOW_BLOCKS = 75;

    function sharesToken() internal view returns (ISharesToken) {
        return ISharesToken(shares.sharesOf(task));
    }

    function sharesTerms() internal view returns (GameTerms memory wanted) {
        wanted = soundTerms();
        (wanted.rounds, wanted.draws, wanted.lateChance) = (60, 1, 65_536);
        (wanted.solverSeats, wanted.leastSolvers, wanted.leastVerifiers) = (2, 1, 3);
    }

    /// @dev Void claims: the base root stands.
    function skipRound(uint256 round) internal {
        commitAll(round);
        roll(close(round) + 10);
        rounds.stand(task, round);
    }

    /// @dev Even rounds are played, odd ones void.
    function playOne(uint256 round) internal {
        if (round % 2 == 1) skipRound(round);
        else playRound(round);
    }

    /// @dev Rounds pass until `blocks` have.
    function idle(uint256 blocks) internal {
        uint256 until = now_() + blocks;
        while (now_() < until) {
            roll(now_() + SLOW_BLOCKS);
            playOne(liveIndex());
        }
    }

    /// @dev Round 16 runs, and nothing is settled.
    function playEpoch() internal {
        begin(sharesTerms(), 2, 3, 3);
        for (uint256 round = 0; round < EPOCH; ++round) {
            playOne(round);
        }
    }

    /// @dev A later round runs, and all have settled the first epoch.
    function settleEpoch() internal {
        playEpoch();
        waitForDuties(0, EPOCH - 1);
        settleAll(EPOCH - 1);
    }

    /// @dev Later rounds pass until these can be settled, as far as no later one of their epoch holds the seat. A late draw makes it later.
    function waitForDuties(uint256 first, uint256 last) internal {
        for (uint256 round = first; round <= last;) {
            uint256 until = rounds.factsOf(task, round, round)[0].dutyUntil;
            if (now_() <= until) idle(until + 1 - now_());
            else ++round;
        }
    }

    function liveIndex() internal view returns (uint256) {
        (, uint256 live,,,,,) = lineNow();
        return live - 1;
    }

    /// @dev What all holders could claim.
    function claimable() internal view returns (uint256 sumWei) {
        for (uint256 i = 0; i < people.length; ++i) {
            sumWei += sharesToken().claimableOf(people[i]);
        }
    }

    function payRevenue(uint256 wei_) internal {
        give(stranger, wei_);
        vm.prank(stranger);
        shares.payRevenue(task, wei_);
    }

    function voteHalt(address holder, uint256 amount) internal {
        vm.prank(holder);
        shares.voteHalt(task, amount);
    }

    /// @dev All shares of all members vote.
    function voteAllShares() internal {
        for (uint256 i = 0; i < people.length; ++i) {
            uint256 held = sharesToken().balanceOf(people[i]);
            if (held != 0) voteHalt(people[i], held);
        }
    }
}
