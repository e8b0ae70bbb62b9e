// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../contracts/Types.sol";
import {
    DeploymentBounds,
    GameTerms,
    GameWindows,
    Proof,
    Seat,
    SeatRole,
    SeatStatus
} from "../../../contracts/game/GameTypes.sol";
import {Modules} from "../../../contracts/game/Module.sol";
import {Vault} from "../../../contracts/game/Vault.sol";
import {QuestionModule} from "../../../contracts/game/QuestionModule.sol";
import {SeatLedger} from "../../../contracts/game/SeatLedger.sol";
import {Seats} from "../../../contracts/game/Seats.sol";
import {IVault} from "../../../contracts/game/interfaces/IVault.sol";
import {IShares} from "../../../contracts/game/interfaces/IShares.sol";
import {Pots} from "../../../contracts/game/libraries/Pots.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {Vm} from "../Vm.sol";
import {ProofToken} from "./VaultChecks.sol";

/// @title Stands for a contract that is made later: passes every call on.
contract Relay {
    address private _target;

    function set(address target) external {
        _target = target;
    }

    fallback(bytes calldata data) external returns (bytes memory) {
        (bool isDone, bytes memory answer) = _target.call(data);
        require(isDone, "refused");
        return answer;
    }
}

/// @title Shares of which nothing is asked here.
contract SharesStub {
    fallback() external {}
}

/// @title Seats of one task, and disputes that anybody opens and ends as it likes; of the rounds one, whose pool of solvers is given.
contract SeatHarness is Seats, SeatLedger, QuestionModule {
    constructor(Modules memory modules, DeploymentBounds memory bounds_) Seats(modules) {
        _bounds = bounds_;
    }

    function post(GameTerms memory terms) external returns (TaskId task) {
        task = TaskId.wrap("task");
        _tasks[task].terms = terms;
        _lines[task].pausedSince = uint40(block.number);
    }

    function open(TaskId task, uint256 seat, uint256 bondWei) external returns (uint256) {
        (uint256 number,) = _openQuestion(task, seat, 0, bondWei);
        return number;
    }

    function end(TaskId task, uint256 seat, uint256 number, bool isForfeit, address account) external {
        if (isForfeit) _forfeitBond(task, seat, 0, number, account);
        else _returnBond(task, seat, 0, number, account);
    }

    function _questionsOn(Record storage record) internal view override returns (uint16[9] storage) {
        return record.disputes;
    }

    function _firstBondWei(TaskId task) internal view override returns (uint256) {
        return _tasks[task].terms.amounts.disputeBond;
    }

    function convict(TaskId task, uint256[] memory seats, address finder, Proof proof) external returns (uint256) {
        return _convict(task, seats, finder, proof);
    }

    // Rounds
    /// @dev One round was opened, and nobody has settled it; a task that was halted is over.
    function set(TaskId task, uint64 pool, bool isHeld, bool isOver) external {
        RoundLine storage line = _lines[task];
        line.ring[0].pool = pool;
        (line.nextRound, line.isHalted) = (isHeld ? 1 : 0, isOver);
    }

    function sync(TaskId) external {}
}

/// @title One solver's seat with any stake: it is locked while something can be asked of it, slashed once and for its stake, and bonds come back.
/// @dev Stakes and bonds are any; the terms are one sound set.
abstract contract SeatChecks {
    Vm internal constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
    address internal constant HOLDER = address(0xa11ce);
    address internal constant OTHER = address(0xb0b);
    address internal constant FINDER = address(0xf1d3);
    uint256 internal constant SEAT = uint256(SeatRole.SOLVER) << 16;
    uint256 internal constant AMOUNT_MAX = 1 << 90;
    /// @dev No bond may be larger than the smallest stake.
    uint128 internal constant STAKE_MIN = 30;

    ProofToken internal token;
    Vault internal vault;
    SeatHarness internal tasks;
    address private _game;
    TaskId internal task;

    function setUp() public virtual {
        token = new ProofToken();
        // Contracts that know each other: who is made first knows the other by a relay.
        (Relay till, Relay door) = (new Relay(), new Relay());
        vault = new Vault(IERC20(address(token)), address(till), address(0));
        Modules memory m;
        (m.vault, m.game) = (IVault(address(till)), address(door));
        m.shares = IShares(address(new SharesStub()));
        GameWindows memory least = GameWindows(1, 1, 10, 10, 12, 2, 4, 76, 6);
        tasks = new SeatHarness(m, DeploymentBounds(least, 1_000_000, 1, uint128(AMOUNT_MAX), 200, 50, 1));
        till.set(address(vault));
        door.set(address(tasks));
        _game = address(door);
        task = tasks.post(_terms());
    }

    function _terms() internal pure returns (GameTerms memory t) {
        (t.submitter, t.initialWeightsRoot, t.zeroRoot, t.scheduleRoot, t.stepRoot) =
        (OTHER, "weights", "zero", "schedule", "step");
        (t.parameterCount, t.rounds, t.innerSteps, t.segmentSteps) = (1000, 4, 20, 5);
        (t.solverSeats, t.draws, t.leastSolvers, t.leastVerifiers) = (1, 1, 1, 3);
        (t.outerLearningRate, t.outerMomentum) = (0x3f333333, 0x3f666666);
        t.windows = GameWindows(1, 2, 40, 80, 30, 6, 10, 200, 720);
        (t.amounts.solverStake, t.amounts.auditorStake, t.amounts.finderCap) = (STAKE_MIN, STAKE_MIN, 120);
        (t.amounts.contestBond, t.amounts.queryBond, t.amounts.disputeBond) = (1, 1, 30);
    }

    function _fund(address account, uint256 wei_) internal {
        if (wei_ == 0) return;
        token.mint(account, wei_);
        vm.prank(account);
        vault.deposit(wei_);
    }

    function _join(uint256 stakeWei, bool isLeaving) internal {
        vm.assume(stakeWei >= STAKE_MIN && stakeWei <= AMOUNT_MAX);
        _fund(HOLDER, stakeWei);
        vm.prank(HOLDER);
        assert(tasks.join(task, SeatRole.SOLVER, stakeWei) == SEAT);
        if (!isLeaving) return;
        vm.prank(HOLDER);
        tasks.leave(task, SEAT);
    }

    function _stakes() internal view returns (uint256) {
        return vault.potOf(Pots.stakes(task));
    }

    function _convict() internal returns (uint256) {
        uint256[] memory seats = new uint256[](1);
        seats[0] = SEAT;
        vm.prank(_game);
        return tasks.convict(task, seats, FINDER, Proof.DISPUTED);
    }

    /// @dev Also of a seat that leaves: shares and rest are the stake, once; who has left has nothing to lose twice.
    function _checkSlash(uint256 stakeWei, bool isLeaving) internal {
        _join(stakeWei, isLeaving);
        uint256 restWei = _convict();
        uint256 sharesWei = vault.creditOf(FINDER) + vault.creditOf(OTHER);
        assert(sharesWei + restWei == stakeWei);
        assert(2 * sharesWei <= stakeWei);
        assert(_stakes() == restWei);
        Seat memory record = tasks.seatAt(task, SEAT);
        assert(record.status == SeatStatus.CONVICTED && record.stakeWei == 0);
        assert(_convict() == 0);
        assert(_stakes() == restWei && vault.creditOf(FINDER) + vault.creditOf(OTHER) == sharesWei);
        assert(vault.creditOf(HOLDER) == 0);
    }

    /// @dev What is paid out was not in a pool that may be asked, had no question, and left or the task is over; it is the whole stake, once.
    function _checkLocked(uint256 stakeWei, bool isLeaving, bool isHeld, bool isOver, bool isAsked) internal {
        _join(stakeWei, isLeaving);
        tasks.set(task, 1, isHeld, isOver);
        if (isAsked) {
            _fund(OTHER, 30);
            vm.prank(OTHER);
            tasks.open(task, SEAT, 30);
        }
        try tasks.payOut(task, SEAT) {
            assert(!isHeld && !isAsked && (isLeaving || isOver));
            assert(vault.creditOf(HOLDER) == stakeWei && _stakes() == 0);
        } catch {
            assert(isHeld || isAsked || !isLeaving && !isOver);
            assert(_stakes() == stakeWei);
            return;
        }
        try tasks.payOut(task, SEAT) {
            assert(false);
        } catch {}
    }

    /// @dev Of two questions on a seat the second costs twice the first; ended in any order, each way, no bond is left and none is made.
    function _checkBonds(bool firstFirst, bool isForfeit, bool isForfeitToo) internal {
        _join(STAKE_MIN, false);
        _fund(OTHER, 90);
        vm.prank(OTHER);
        uint256 first = tasks.open(task, SEAT, 30);
        vm.prank(OTHER);
        uint256 second = tasks.open(task, SEAT, 60);
        bytes32 pot = Pots.bonds(task);
        assert(vault.potOf(pot) == 90 && vault.creditOf(OTHER) == 0);
        tasks.end(task, SEAT, firstFirst ? first : second, isForfeit, isForfeit ? HOLDER : OTHER);
        assert(vault.potOf(pot) == (firstFirst ? 60 : 30));
        tasks.end(task, SEAT, firstFirst ? second : first, isForfeitToo, isForfeitToo ? HOLDER : OTHER);
        assert(vault.potOf(pot) == 0);
        uint256 lostWei =
            (isForfeit ? (firstFirst ? 30 : 60) : 0) + (isForfeitToo ? (firstFirst ? 60 : 30) : 0);
        assert(vault.creditOf(OTHER) == 90 - lostWei && vault.creditOf(HOLDER) == lostWei / 2);
        assert(vault.burnPending() == lostWei - lostWei / 2);
    }
}
