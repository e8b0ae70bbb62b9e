// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {AuditRef, AuditStatus, ClaimStatus, Role, RoundStatus, TaskId} from "../../../contracts/Types.sol";
import {Clock, Deadlines} from "../../../contracts/libraries/Clock.sol";
import {Court} from "./Court.sol";
import {Trees} from "../Trees.sol";

/// @title What each party does in a round when it is due: the honest, and the cheats by their character.
/// @dev Every function plays what is due now in the lap in play and returns whether anything was done. An honest move that is due must be taken.
abstract contract Bots is Court {
    uint8 internal constant SOLVER = 0;
    uint8 internal constant VERIFIER = 1;
    uint8 internal constant WHISTLEBLOWER = 2;
    uint8 internal constant KEEPER = 3;
    uint8 internal constant MERGER = 4;
    uint8 internal constant CHALLENGER = 5;
    uint8 internal constant ROLES = 6;

    /// @dev `honest`: whether honest parties of the role move, else the cheats.
    function _work(uint256 lap, uint8 role, bool honest) internal returns (bool did) {
        _enter(lap);
        if (role == KEEPER) return _keep();
        if (role == MERGER) return _workMerge(honest);
        if (role == CHALLENGER) return _workDisputes(honest);
        if (role == SOLVER) {
            for (uint32 slot = 0; slot < solvers.length && slot < _solverCount(); ++slot) {
                if (isHonest[solvers[slot]] == honest && _workSolver(slot)) did = true;
            }
            return did;
        }
        if (_workEnrolment(role, honest)) did = true;
        for (uint32 slot = 0; slot < _laps[_lap].solvers; ++slot) {
            if (role == WHISTLEBLOWER) {
                if (_workSeat(LATE, slot, LATE_DRAW, 0, honest)) did = true;
                continue;
            }
            for (uint32 rank = 0; rank < RANKS; ++rank) {
                if (_workSeat(rank == 0 ? PRIMARY : RESERVES, slot, 0, rank, honest)) did = true;
            }
        }
    }

    // Enrolment ---------------------------------------------------------------------------------------------------
    function _workEnrolment(uint8 role, bool honest) private returns (bool did) {
        Deadlines memory d = _deadlines();
        if (vm.getBlockNumber() >= d.enrolEnd) return false;
        bool verifies = role == VERIFIER;
        address[] storage group = verifies ? verifiers : whistleblowers;
        uint256 most = verifies ? _verifierCount() : _dice("whistleblowers", 0, 0) % 6;
        for (uint256 i = 0; i < group.length && i < most; ++i) {
            if (isHonest[group[i]] != honest || _isDone("enrol", role, i)) continue;
            if (vault.freeOf(group[i]) < REFILL_WEI) _refill(group[i]);
            Role kind = verifies ? Role.VERIFIER : Role.WHISTLEBLOWER;
            did = _due(group[i], abi.encodeCall(this.doEnrol, (group[i], kind)), "enrol") || did;
            _setDone("enrol", role, i);
            if (verifies) ++_laps[_lap].verifiers;
        }
    }

    function _deadlines() internal view returns (Deadlines memory) {
        return Clock.compute(_laps[_lap].startBlock, terms.windows);
    }

    // Solvers -----------------------------------------------------------------------------------------------------
    function _workSolver(uint32 slot) private returns (bool did) {
        Lap storage lap = _laps[_lap];
        address solver = solvers[slot];
        Solver memory p = _solver(slot);
        Deadlines memory d = _deadlines();
        // In the order of slots: the world knows a slot by its solver.
        if (vm.getBlockNumber() < d.enrolEnd) {
            if (lap.solvers != slot) return false;
            if (vault.freeOf(solver) < REFILL_WEI) _refill(solver);
            did = _due(solver, abi.encodeCall(this.doEnrol, (solver, Role.SOLVER)), "enrol");
            if (did) ++lap.solvers;
            return did;
        }
        if (slot >= lap.solvers || p.quitAt < 1) return false;
        if (_within(d.beaconBlock + 1, d.trainEnd) && !_isDone("commit", slot, 0) && _isTraining()) {
            _setDone("commit", slot, 0);
            return _due(solver, abi.encodeCall(this.doCommit, (slot)), "commit");
        }
        if (!_isDone("commit", slot, 0)) return false;
        did = _workPhase(slot, p, PRIMARY, 0);
        did = _workPhase(slot, p, RESERVES, 0) || did;
        did = _workPhase(slot, p, LATE, LATE_DRAW) || did;
    }

    function _isTraining() internal view returns (bool) {
        (RoundStatus status,,,,,) = registry.roundOf(task, round);
        return status == RoundStatus.TRAINING;
    }

    /// @dev quitAt 1: before the start, 2: before the end, 3: before the leaves, 4: before the late audit.
    function _workPhase(uint32 slot, Solver memory p, uint8 which, uint32 draw) private returns (bool did) {
        if (which == LATE && p.quitAt <= 4) return false;
        Phase memory w = _phase(which);
        if (w.opens == 0 || vm.getBlockNumber() <= w.opens || vm.getBlockNumber() >= w.openEnd) return false;
        Seat memory seat = _seat(slot, draw, 0);
        if (seat.auditor == address(0)) return false;
        AuditRef memory ref = refOf(slot, draw, 0);
        (bool start, bool end, bool leaves) = audits.openedOf(task, round, slot, draw, which);
        address solver = solvers[slot];
        if (which != RESERVES && !start && p.quitAt > 1 && vm.getBlockNumber() < w.startEnd) {
            return _due(solver, abi.encodeCall(this.doOpenStart, (ref)), "openStart");
        }
        if (which != RESERVES && start && !end && p.quitAt > 2 && _within(w.replayEnd, w.showEnd)) {
            return _due(solver, abi.encodeCall(this.doOpenEnd, (ref)), "openEnd");
        }
        if (!end || leaves || p.quitAt <= 3 || !_within(w.leavesBlock, w.openEnd)) return false;
        if (audits.leafSeedOf(task, round, which) == 0 || !_isWaiting(slot, which, draw)) return false;
        return _due(solver, abi.encodeCall(this.doOpenLeaves, (ref, which)), "openLeaves");
    }

    /// @dev Whether some auditor of the phase has shown another result.
    function _isWaiting(uint32 slot, uint8 which, uint32 draw) private view returns (bool) {
        if (which != RESERVES) return audits.statusOf(refOf(slot, draw, 0)) == AuditStatus.REVEALED;
        return audits.statusOf(refOf(slot, 0, 1)) == AuditStatus.REVEALED
            || audits.statusOf(refOf(slot, 0, 2)) == AuditStatus.REVEALED;
    }

    // Auditors ----------------------------------------------------------------------------------------------------
    function _workSeat(uint8 which, uint32 slot, uint32 draw, uint32 rank, bool honest)
        private
        returns (bool did)
    {
        Phase memory w = _phase(which);
        if (w.opens == 0 || vm.getBlockNumber() <= w.opens || vm.getBlockNumber() >= w.compareEnd) return false;
        if (which == RESERVES && !ledger.isEscalated(task, round, slot, draw)) return false;
        Seat memory seat = _seat(slot, draw, rank);
        if (seat.auditor == address(0) || isHonest[seat.auditor] != honest) return false;
        AuditRef memory ref = refOf(slot, draw, rank);
        Auditor memory p = _auditor(ref, seat.auditor);
        AuditStatus status = audits.statusOf(ref);
        (bool start,, bool leaves) = audits.openedOf(task, round, slot, draw, which);
        if (status == AuditStatus.NONE) {
            if (!start || p.word > 2 || !_within(w.opens, w.replayEnd)) return false;
            if (vault.freeOf(seat.auditor) < terms.amounts.auditStake) _refill(seat.auditor);
            return _say(ref, seat, p.word);
        }
        if (status == AuditStatus.COMMITTED && p.quitAt > 1 && _within(w.replayEnd, w.showEnd)) {
            State memory shown = _resultOf(ref, seat.segment, seat.auditor);
            return _due(seat.auditor, abi.encodeCall(this.doReveal, (ref, shown)), "reveal");
        }
        if (status != AuditStatus.REVEALED || !leaves || p.quitAt <= 2) return false;
        if (!_within(w.leavesBlock, w.compareEnd)) return false;
        State memory end = _resultOf(ref, seat.segment, seat.auditor);
        return _due(seat.auditor, abi.encodeCall(this.doCompare, (ref, end)), "compareLeaves");
    }

    function _say(AuditRef memory ref, Seat memory seat, uint8 word) private returns (bool) {
        State memory end = _resultOf(ref, seat.segment, seat.auditor);
        bool did = _due(seat.auditor, abi.encodeCall(this.doWord, (ref, word, end)), "word");
        if (did && word == 1) _count("unserved");
        return did;
    }

    // The keeper: whoever calls what nobody in particular must call -----------------------------------------------
    function _keep() private returns (bool did) {
        if (_awake("sleeps over the beacon", 16) && _sealBeacon()) did = true;
        if (_isTraining() || _laps[_lap].solvers > 0) {
            if (_awake("sleeps over the draw", 16) && _sealDraw()) did = true;
            for (uint8 which = 0; which <= LATE; ++which) {
                if (_awake("sleeps over the leaves", 12) && _sealLeaves(which)) did = true;
            }
            if (_awake("sleeps over the late draw", 16) && _sealLate()) did = true;
            if (_awake("sleeps over the verdicts", 20) && _judgeAll()) did = true;
        }
        if (_timeouts()) did = true;
        if (_settle()) did = true;
        if (_goOn()) did = true;
    }

    function _sealBeacon() private returns (bool) {
        Deadlines memory d = _deadlines();
        if (!_within(d.beaconBlock + 1, d.beaconEnd) || _isDone("beacon", 0, 0)) return false;
        _setDone("beacon", 0, 0);
        _draw(d.beaconBlock);
        return _must(address(registry), abi.encodeCall(registry.sealBeacon, (task, round, "")), "sealBeacon");
    }

    function _sealDraw() private returns (bool) {
        Deadlines memory d = _deadlines();
        if (!_within(d.drawBlock + 1, d.drawEnd) || _isDone("draw", 0, 0) || !_isTraining()) return false;
        _setDone("draw", 0, 0);
        _draw(d.drawBlock);
        return _must(address(ledger), abi.encodeCall(ledger.sealDraw, (task, round, "")), "sealDraw");
    }

    function _sealLeaves(uint8 which) private returns (bool) {
        Phase memory w = _phase(which);
        if (!_within(w.leavesBlock + 1, w.leavesEnd) || _isDone("leaves", which, 0)) return false;
        _setDone("leaves", which, 0);
        _draw(w.leavesBlock);
        return _must(address(audits), abi.encodeCall(audits.sealLeaves, (task, round, which, "")), "sealLeaves");
    }

    function _sealLate() private returns (bool) {
        Phase memory w = _phase(LATE);
        if (w.opens == 0 || !_within(w.opens + 1, w.opens - terms.windows.delay + terms.windows.seal)) {
            return false;
        }
        if (_isDone("late", 0, 0) || !_wasTrained()) return false;
        _setDone("late", 0, 0);
        _draw(w.opens);
        return _must(address(ledger), abi.encodeCall(ledger.sealLate, (task, round, "")), "sealLate");
    }

    function _wasTrained() internal view returns (bool) {
        (RoundStatus status,,,,,) = registry.roundOf(task, round);
        return status == RoundStatus.TRAINING || status == RoundStatus.MERGED;
    }

    /// @dev Some verdicts are due; which, the ledger knows.
    function _judgeAll() private returns (bool did) {
        if (vm.getBlockNumber() < _deadlines().trainEnd || !_wasTrained()) return false;
        for (uint32 slot = 0; slot < _laps[_lap].solvers; ++slot) {
            ClaimStatus status = statusOf(slot);
            bool open = status == ClaimStatus.NONE || status == ClaimStatus.COMMITTED
                || status == ClaimStatus.ESCALATED;
            if (!open) continue;
            uint256[] memory before = _stakes();
            if (_send(stranger, address(ledger), abi.encodeCall(ledger.judge, (task, round, slot)))) {
                did = true;
                _count("done judge");
                _checkVerdict(before, slot);
            }
        }
    }

    // Ends --------------------------------------------------------------------------------------------------------
    function _settle() private returns (bool did) {
        Lap storage lap = _laps[_lap];
        if (lap.ended || (lap.solvers > 0 && !_wasTrained() && !_isEmpty())) return false;
        if (!_isEmpty() && (!_wasTrained() || vm.getBlockNumber() < ledger.settleBlockOf(task, round))) {
            return false;
        }
        uint32 settled = 0;
        for (uint32 slot = 0; slot < lap.solvers; ++slot) {
            if (_settleClaim(slot)) did = true;
            if (_isDone("settle", slot, 0)) ++settled;
        }
        if (settled < lap.solvers) return did;
        if (!_isDone("release", 0, 0)) {
            _setDone("release", 0, 0);
            bytes memory data = abi.encodeCall(ledger.settleEnrolments, (task, round, 0, 100));
            did = _must(address(ledger), data, "settleEnrolments");
        }
        if (_settleMerge()) did = true;
        if (_isOver()) _endLap();
    }

    function _isEmpty() internal view returns (bool) {
        (RoundStatus status,,,,,) = registry.roundOf(task, round);
        return status == RoundStatus.EMPTY;
    }

    function _settleClaim(uint32 slot) private returns (bool) {
        if (_isDone("settle", slot, 0) || disputes.openCount(TaskId.unwrap(task), round, slot) != 0) return false;
        _setDone("settle", slot, 0);
        uint256[] memory before = _stakes();
        uint256 creditWei = vault.creditOf(solvers[slot]);
        _must(address(ledger), abi.encodeCall(ledger.settleClaim, (task, round, slot)), "settleClaim");
        _checkVerdict(before, slot);
        _checkPay(slot, creditWei);
        _checkCheat(slot);
        return true;
    }

    function _settleMerge() private returns (bool) {
        (address poster,,,, bool contested) = ledger.outerOf(task, round);
        if (poster == address(0) || contested || _isDone("settle merge", 0, 0)) return false;
        if (!ledger.isMerged(task, round)) return false;
        _setDone("settle merge", 0, 0);
        return _must(address(ledger), abi.encodeCall(ledger.settleMerge, (task, round)), "settleMerge");
    }

    /// @dev Nothing of the round is open: its root stands and its bond is back, or nobody will post one any more.
    function _isOver() private view returns (bool) {
        if (_isEmpty()) return true;
        (address poster,,,,) = ledger.outerOf(task, round);
        return ledger.isMerged(task, round) && (poster == address(0) || _isDone("settle merge", 0, 0));
    }

    function _endLap() private {
        Lap storage lap = _laps[_lap];
        lap.ended = true;
        _count(_isEmpty() ? "round EMPTY" : "round MERGED");
        for (uint32 slot = 0; slot < lap.solvers; ++slot) {
            _countClaim(statusOf(slot));
            for (uint32 rank = 0; rank < RANKS; ++rank) {
                _countAudit(audits.statusOf(refOf(slot, 0, rank)));
            }
            _countAudit(audits.statusOf(lateRef(slot)));
        }
        while (_firstLive < _laps.length && _laps[_firstLive].ended && _laps[_firstLive].advanced) ++_firstLive;
    }

    function _countClaim(ClaimStatus status) private {
        if (_isEmpty()) return;
        if (status == ClaimStatus.ACCEPTED) _count("claim ACCEPTED");
        else if (status == ClaimStatus.VOID) _count("claim VOID");
        else if (status == ClaimStatus.CONVICTED) _count("claim CONVICTED");
        else if (status == ClaimStatus.DROPPED) _count("claim DROPPED");
        else revert Broken("every claim ends", 0, uint256(status));
    }

    function _countAudit(AuditStatus status) private {
        if (status == AuditStatus.ACCEPTS) _count("audit ACCEPTS");
        else if (status == AuditStatus.REJECTS) _count("audit REJECTS");
        else if (status == AuditStatus.UNSERVED) _count("audit UNSERVED");
        else if (status == AuditStatus.ABSTAINED) _count("audit ABSTAINED");
        else if (status == AuditStatus.SLASHED) _count("audit SLASHED");
        else if (status == AuditStatus.REVEALED) _count("audit REVEALED");
        else if (status == AuditStatus.COMMITTED) revert Broken("every audit ends", 0, uint256(status));
    }

    /// @dev The next round, or the end of the task and the next task.
    function _goOn() internal returns (bool) {
        Lap storage lap = _laps[_lap];
        if (_resting || lap.advanced || (!_isEmpty() && !ledger.isMerged(task, round))) return false;
        if (!lap.isLast && vm.getBlockNumber() + vault.unbondingBlocks() <= registry.expiryBlock(task)) {
            lap.advanced = true;
            _must(address(registry), abi.encodeCall(registry.advance, (task)), "advance");
            ++round;
            _startLap();
            return true;
        }
        if (!lap.ended || !_othersEnded() || _isDone("close", 0, 0)) return false;
        _setDone("close", 0, 0);
        bool early = lap.isLast;
        if (early) _must(address(registry), abi.encodeCall(registry.closeTask, (task)), "closeTask");
        else if (!_send(stranger, address(registry), abi.encodeCall(registry.closeTask, (task)))) _openTasks.push(task);
        _count(early ? "task closed, all settled" : "task left behind");
        lap.advanced = true;
        _newTask();
        while (_firstLive < _laps.length && _laps[_firstLive].ended && _laps[_firstLive].advanced) ++_firstLive;
        return true;
    }

    /// @dev Nothing new starts meanwhile.
    bool internal _resting;
    TaskId[] internal _openTasks;

    function _othersEnded() private view returns (bool) {
        for (uint256 i = _firstLive; i < _laps.length; ++i) {
            if (i != _lap && TaskId.unwrap(_laps[i].task) == TaskId.unwrap(task) && !_laps[i].ended) return false;
        }
        return true;
    }

    // The last calls of a run -------------------------------------------------------------------------------------
    /// @dev Settles what can be settled by calls that anybody may make; where nobody posts a root any more there is nothing to wait for.
    function _finishLap() internal {
        Lap storage lap = _laps[_lap];
        if (lap.ended) return;
        _settle();
        if (lap.ended || !_isDone("release", 0, 0)) return;
        (,,, uint256 postedBlock,) = ledger.outerOf(task, round);
        if (postedBlock != 0) return;
        lap.ended = true;
        _count("round that nobody merges");
    }

    function _checkVerdict(uint256[] memory before, uint32 slot) internal virtual;
    function _checkPay(uint32 slot, uint256 creditWei) internal virtual;
    function _checkCheat(uint32 slot) internal virtual;
}
