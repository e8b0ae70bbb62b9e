// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {NO_DRAW, Phase, Proof, RoundView, SeatRole, SeatStatus, StatementRef} from "../../../contracts/game/GameTypes.sol";
import {IVault} from "../../../contracts/game/interfaces/IVault.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {ISeats} from "../../../contracts/game/interfaces/ISeats.sol";
import {ISettlement} from "../../../contracts/game/interfaces/ISettlement.sol";
import {IVotes} from "../../../contracts/game/interfaces/IVotes.sol";
import {Pots} from "../../../contracts/game/libraries/Pots.sol";
import {Slots} from "../../../contracts/game/libraries/Slots.sol";
import {Properties} from "./Properties.sol";

/// @title What the fuzzer calls: each role, honest and not, adversaries without a role, and the clock.
/// @dev A handler that has nothing to do lets the task go on for a while. Every call ends with every property.
contract Handler is Properties {
    uint256 private constant PATIENCE = 12;
    /// @dev How often the late draw is waited for before a task is closed.
    uint256 private constant AFTERMATH = 6;
    uint256 private _aftermath;

    modifier counted(string memory name, uint256 seed) {
        shake(seed);
        _count(string.concat("calls ", name));
        _;
        checkAll();
    }

    function _play(string memory name, function() internal returns (bool) move) private {
        for (uint256 i = 0; i < PATIENCE; ++i) {
            endQuestions();
            if (move()) return _count(string.concat("success ", name));
            _goOn();
        }
    }

    /// @dev What is due next; behind the end of a task another one.
    function _goOn() private {
        if (advance()) return;
        bytes memory data = abi.encodeCall(IRounds.drawClosing, (task, PROOF));
        if (++_aftermath < AFTERMATH) {
            if (attempt(stranger, address(rounds), data)) _count("closing drawn");
            if (_voteLate()) return;
            passTo(now_() + (_aftermath == 1 ? terms.windows.auditMax : 3));
            return;
        }
        _aftermath = 0;
        closeLap();
        beginLap();
    }

    function _voteLate() private returns (bool isAny) {
        for (uint256 round = 0; round < rounds.nextRound(task); ++round) {
            for (uint256 i = 0; i < 6; ++i) {
                isAny = voteOne(round, true, true) || voteOne(round, true, false) || isAny;
            }
        }
    }

    // Roles
    function honestSolver(uint256 seed) external counted("honestSolver", seed) {
        _play("honestSolver", _commitHonest);
    }

    function _commitHonest() private returns (bool) {
        return commitOne(true);
    }

    function cheatingSolver(uint256 seed) external counted("cheatingSolver", seed) {
        _play("cheatingSolver", _commitFalse);
    }

    function _commitFalse() private returns (bool) {
        return commitOne(false);
    }

    function honestAuditor(uint256 seed) external counted("honestAuditor", seed) {
        _play("honestAuditor", _voteHonest);
    }

    function _voteHonest() private returns (bool) {
        return _vote(true);
    }

    function cheatingAuditor(uint256 seed) external counted("cheatingAuditor", seed) {
        _play("cheatingAuditor", _voteFalse);
    }

    function _voteFalse() private returns (bool) {
        return _vote(false);
    }

    /// @dev Of any round, first or late.
    function _vote(bool honest) private returns (bool) {
        uint256 next = rounds.nextRound(task);
        for (uint256 round = next; round > 0; --round) {
            if (voteOne(round - 1, false, honest) || voteOne(round - 1, true, honest)) return true;
        }
        return false;
    }

    function honestMerger(uint256 seed) external counted("honestMerger", seed) {
        _play("honestMerger", _postHonest);
    }

    function _postHonest() private returns (bool) {
        return postOne(true);
    }

    function forgingMerger(uint256 seed) external counted("forgingMerger", seed) {
        _play("forgingMerger", _postFalse);
    }

    function _postFalse() private returns (bool) {
        return postOne(false) || openContest();
    }

    // Quarrels
    function fairOpener(uint256 seed) external counted("fairOpener", seed) {
        _play("fairOpener", _openFair);
    }

    function _openFair() private returns (bool) {
        return dice(2) == 0 && openDispute(true) || _prosecuteOne() || openDispute(true);
    }

    function bully(uint256 seed) external counted("bully", seed) {
        _play("bully", _openUnfair);
    }

    function _openUnfair() private returns (bool) {
        return dice(3) == 0 && openDispute(false) || _prosecuteOne() || openDispute(false);
    }

    function _prosecuteOne() private returns (bool) {
        uint256 first = quarrels.length == 0 ? 0 : dice(quarrels.length);
        for (uint256 i = 0; i < quarrels.length; ++i) {
            if (prosecute((first + i) % quarrels.length)) return true;
        }
        return false;
    }

    function accused(uint256 seed) external counted("accused", seed) {
        _play("accused", _respond);
    }

    function _respond() private returns (bool) {
        return _respondOne() || openDispute(dice(2) == 0) && _respondOne();
    }

    function _respondOne() private returns (bool) {
        for (uint256 i = 0; i < quarrels.length; ++i) {
            if ((isHonest(quarrels[i].seat) || dice(3) != 0) && respond(quarrels[i])) return true;
        }
        return false;
    }

    function querier(uint256 seed) external counted("querier", seed) {
        _play("querier", queryOne);
    }

    function answerer(uint256 seed) external counted("answerer", seed) {
        _play("answerer", _answerOne);
    }

    function _answerOne() private returns (bool) {
        for (uint256 i = 0; i < openQueries.length; ++i) {
            bool isHonest_ = isHonest(openQueries[i].place.seat);
            if ((isHonest_ || dice(3) != 0) && answerAsk(i)) return true;
        }
        return openQueries.length < 2 && queryOne();
    }

    function contester(uint256 seed) external counted("contester", seed) {
        _play("contester", _contestOne);
    }

    function _contestOne() private returns (bool) {
        if (dice(3) == 0 && openContest()) return true;
        for (uint256 i = 0; i < openContests.length; ++i) {
            if (pursue(openContests[i])) return true;
            if (dice(4) != 0 && defend(openContests[i])) return true;
        }
        return openContest();
    }

    function finder(uint256 seed) external counted("finder", seed) {
        _play("finder", accuse);
    }

    // Adversaries without a role, and who goes
    function leaver(uint256 seed) external counted("leaver", seed) {
        _play("leaver", _leave);
    }

    /// @dev A cheat leaves and stays slashable, or tops up; a mute one is retired; the submitter halts; a page is settled.
    function _leave() private returns (bool) {
        uint256 which = dice(12);
        if (which == 0) {
            bool isHalted_ = attempt(submitter, address(rounds), abi.encodeCall(IRounds.halt, (task)));
            if (isHalted_) _count("task halted");
            return isHalted_;
        }
        if (which < 4) return _silence();
        SeatRole role = SeatRole(1 + dice(3));
        uint256 seat = seatsOf[role][dice(seatsOf[role].length)];
        if (which < 7) return settleChecked(seat);
        if (isHonest(seat)) return false;
        if (which < 9) {
            give(accountOf(seat), 3);
            return attempt(accountOf(seat), address(tasks), abi.encodeCall(ISeats.topUp, (task, seat, 3)));
        }
        bool isLeft = attempt(accountOf(seat), address(tasks), abi.encodeCall(ISeats.leave, (task, seat)));
        if (isLeft) _count("seat left");
        return isLeft;
    }

    function _silence() private returns (bool) {
        uint256 next = rounds.nextRound(task);
        if (next < ROUNDS) return false;
        ISettlement.MissedPlace[] memory missed = new ISettlement.MissedPlace[](ROUNDS);
        for (uint256 i = 0; i < ROUNDS; ++i) {
            missed[i].round = uint32(i);
        }
        for (uint256 i = 0; i < SOLVERS; ++i) {
            bytes memory data = abi.encodeCall(ISettlement.markSilent, (task, solverSeat(i), missed));
            if (!attempt(stranger, address(settlement), data)) continue;
            _count("seat silent");
            return true;
        }
        return false;
    }

    function holder(uint256 seed) external counted("holder", seed) {
        _play("holder", moveShares);
    }

    /// @dev Calls that only modules may make, others' money, and a copied vote: all of it is refused.
    function thief(uint256 seed) external counted("thief", seed) {
        address who = person("thief");
        bytes32 pot = Pots.stakes(task);
        _refused(who, address(vault), abi.encodeCall(IVault.give, (pot, who, 1)));
        _refused(who, address(vault), abi.encodeCall(IVault.take, (submitter, pot, 1)));
        _refused(who, address(vault), abi.encodeCall(IVault.move, (pot, Pots.escrow(task), 1)));
        _refused(who, address(vault), abi.encodeCall(IVault.discard, (pot, 1)));
        _refused(who, address(vault), abi.encodeCall(IVault.withdraw, ()));
        _refused(who, address(settlement), abi.encodeCall(ISettlement.fall, (task, 0, who)));
        _refused(who, address(rounds), abi.encodeCall(IRounds.fall, (task, 0, 0)));
        _refused(who, address(rounds), abi.encodeCall(IRounds.halt, (task)));
        _refused(who, address(tasks), abi.encodeCall(ISeats.leave, (task, solverSeat(0))));
        StatementRef memory ref = StatementRef(0, 0, NO_DRAW, 0);
        bytes memory data = abi.encodeCall(ISettlement.punish, (task, solverSeat(0), who, Proof.DISPUTED, ref));
        _refused(who, address(settlement), data);
        copyOne();
        _count("success thief");
    }

    function _refused(address who, address target, bytes memory data) private {
        _require(!attempt(who, target, data), "a call of a stranger is refused", 0, uint32(bytes4(data)));
    }

    function keeper(uint256 seed) external counted("keeper", seed) {
        endQuestions();
        _goOn();
        _count("success keeper");
    }

    function waiting(uint256 seed) external counted("waiting", seed) {
        passTo(now_() + 1 + dice(15));
        endQuestions();
        _count("success waiting");
    }

    /// @dev Everybody falls silent but for honest answers: every task comes to its end all the same.
    function finish() external {
        for (uint256 i = 0; i < 60 && _isGoing(); ++i) {
            endQuestions();
        }
        closeLap();
    }

    function _isGoing() private returns (bool) {
        (bool isLive, uint256 round) = liveRound();
        if (isLive) {
            passTo(now_() + terms.windows.trainMax + HEADER_BLOCKS);
            attempt(stranger, address(rounds), abi.encodeCall(IRounds.stand, (task, round)));
            return true;
        }
        if (rounds.isOver(task)) return false;
        passTo(now_() + terms.windows.dispute);
        return true;
    }

    /// @dev The run's name follows from its calls: one that is played again has the same.
    function counts() external view returns (string memory) {
        string memory name = vm.toString(runName());
        return string.concat('{"run": "', name, '", "counts": ', _countsLine(this.asText), "}");
    }

    function asText(uint256 value) external pure returns (string memory) {
        return vm.toString(value);
    }
}
