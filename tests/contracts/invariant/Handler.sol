// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {AuditRef, ClaimRef, ExposureId, Role} from "../../../contracts/Types.sol";
import {Hashing} from "../../../contracts/libraries/Hashing.sol";
import {Clock, Deadlines, LateDeadlines} from "../../../contracts/libraries/Clock.sol";
import {Properties} from "./Properties.sol";

/// @title What the fuzzer calls: each role, honest and not, adversaries without a role, and the clock.
/// @dev Before time passes a deadline everybody awake has moved; a handler that has nothing to do lets time pass to the next one.
abstract contract Handler is Properties {
    uint256 private constant PATIENCE = 4;
    /// @dev Deadlines that a handler waits for whose role has little to do in a round.
    uint256 private constant LONG_PATIENCE = 12;
    uint256 private constant FULL_CHECK = 16;
    uint256 private constant IDLE_BLOCKS = 50;
    /// @dev Calls that only modules may make.
    uint256 private constant FORBIDDEN = 15;
    uint256 private _calls;
    /// @dev Which roles moved while time passed: bit 2 role for cheats, 2 role + 1 for the honest.
    uint256 private _moved;
    /// @dev Of all calls of the run: no two runs have the same.
    bytes32 private _trail;

    modifier counted(string memory name, uint256 seed) {
        if (_seed == 0) _seed = seed | 1;
        _trail = keccak256(abi.encode(_trail, name, seed));
        _count(string.concat("calls ", name));
        _;
        ++_calls;
        checkNoRehypothecation();
        checkHonestNeverLose();
        checkMonotone();
        checkSolvency();
        if (_calls % FULL_CHECK == 0) {
            checkLockIdentity();
            checkFinality();
            checkDraws(seed);
        }
    }

    function _success(string memory name, bool did) private {
        if (did) _count(string.concat("success ", name));
    }

    // Roles -------------------------------------------------------------------------------------------------------
    function honestSolver(uint256 seed) external counted("honestSolver", seed) {
        _success("honestSolver", _role(SOLVER, true, PATIENCE));
    }

    function cheatingSolver(uint256 seed) external counted("cheatingSolver", seed) {
        _success("cheatingSolver", _role(SOLVER, false, PATIENCE));
    }

    function honestVerifier(uint256 seed) external counted("honestVerifier", seed) {
        _success("honestVerifier", _role(VERIFIER, true, PATIENCE));
    }

    function cheatingVerifier(uint256 seed) external counted("cheatingVerifier", seed) {
        _success("cheatingVerifier", _role(VERIFIER, false, PATIENCE));
    }

    function honestWhistleblower(uint256 seed) external counted("honestWhistleblower", seed) {
        _success("honestWhistleblower", _role(WHISTLEBLOWER, true, LONG_PATIENCE));
    }

    function cheatingWhistleblower(uint256 seed) external counted("cheatingWhistleblower", seed) {
        _success("cheatingWhistleblower", _role(WHISTLEBLOWER, false, LONG_PATIENCE));
    }

    function honestMerger(uint256 seed) external counted("honestMerger", seed) {
        _success("honestMerger", _role(MERGER, true, LONG_PATIENCE));
    }

    function forgingMerger(uint256 seed) external counted("forgingMerger", seed) {
        _success("forgingMerger", _role(MERGER, false, LONG_PATIENCE));
    }

    function honestChallenger(uint256 seed) external counted("honestChallenger", seed) {
        _success("honestChallenger", _role(CHALLENGER, true, LONG_PATIENCE));
    }

    function cheatingClaimant(uint256 seed) external counted("cheatingClaimant", seed) {
        _success("cheatingClaimant", _role(CHALLENGER, false, LONG_PATIENCE));
    }

    function keeper(uint256 seed) external counted("keeper", seed) {
        _success("keeper", _role(KEEPER, true, PATIENCE));
    }

    /// @dev What is due now, or else in its last block before one of the next deadlines.
    function _role(uint8 role, bool honest, uint256 patience) private returns (bool) {
        for (uint256 lap = _firstLive; lap < _laps.length; ++lap) {
            if (_work(lap, role, honest)) return true;
        }
        uint256 own = 1 << (2 * role + (honest ? 1 : 0));
        _moved = 0;
        for (uint256 i = 0; i < patience && _moved & own == 0; ++i) {
            _pass();
        }
        return _moved & own != 0;
    }

    // Adversaries without a role ----------------------------------------------------------------------------------
    /// @dev Disputes without a case, also one cheat against its accomplice; demands; proofs of what is right.
    function bullying(uint256 seed) external counted("bullying", seed) {
        _success("bullying", _bully(seed));
    }

    function _bully(uint256 seed) private returns (bool did) {
        address[3] memory openers = [bully, solvers[1], solvers[2]];
        for (uint256 i = 0; i < openers.length; ++i) {
            if (_openSealed(openers[i])) did = true;
        }
        for (uint256 i = _openCases.length; i > 0; --i) {
            Case storage c = _cases[_openCases[i - 1]];
            _enter(c.lap);
            if (seed % 2 == 0 && _demand(c, c.claimant == bully ? stranger : bully)) did = true;
            if (_proveFalsely(c, bully)) did = true;
            _watch(c);
        }
        if (_isCrowded()) return did;
        return _sealAny(seed, openers[(seed >> 8) % 3]) || did;
    }

    function _sealAny(uint256 seed, address opener) private returns (bool) {
        for (uint256 lap = _laps.length; lap > _firstLive; --lap) {
            _enter(lap - 1);
            if (_laps[_lap].ended || _isEmpty() || !_wasTrained()) continue;
            for (uint32 slot = 0; slot < _laps[_lap].solvers; ++slot) {
                bool bySolver = (seed >> 16) % 3 != 0;
                uint32 draw = (seed >> 24) % 4 == 0 ? LATE_DRAW : 0;
                AuditRef memory ref = bySolver ? refOf(slot, 0, 0) : refOf(slot, draw, 0);
                Seat memory seat = _seat(slot, bySolver ? 0 : draw, 0);
                Solver memory p = _solver(slot);
                uint32 segment = p.lieShift > 0 ? p.lieSegment : uint32((seed >> 32) % 2);
                ClaimRef memory claim = ClaimRef(ref, bySolver ? segment : seat.segment, bySolver);
                if ((bySolver ? solvers[slot] : seat.auditor) == opener || !_isOpenTo(claim)) continue;
                if ((seed >> 40) % 3 == slot) return _seal(claim, opener);
            }
        }
        return false;
    }

    /// @dev What nobody may do, and what was done already: refused, whatever the arguments.
    function thief(uint256 seed) external counted("thief", seed) {
        _enter(_firstLive + seed % (_laps.length - _firstLive));
        address sender = everybody[(seed >> 8) % everybody.length];
        (address target, bytes memory data) = _forbidden(seed >> 16, sender);
        _require(!_send(sender, target, data), "only modules, and each move once", 0, (seed >> 16) % FORBIDDEN);
        _success("thief", true);
    }

    function _forbidden(uint256 seed, address sender) private view returns (address, bytes memory) {
        uint32 slot = uint32(seed >> 128) % 3;
        address victim = everybody[(seed >> 64) % everybody.length];
        ExposureId exposure = Hashing.enrolmentExposure(task, round, victim);
        uint256 kind = seed % FORBIDDEN;
        if (kind == 0) return (address(vault), abi.encodeCall(vault.expose, (exposure, sender, 1)));
        if (kind == 1) return (address(vault), abi.encodeCall(vault.release, (exposure)));
        if (kind == 2) {
            return (address(vault), abi.encodeCall(vault.slash, (exposure, sender, 1e9, sender, 1e9, "mine")));
        }
        if (kind == 3) return (address(vault), abi.encodeCall(vault.burnFee, (exposure, 1, "mine")));
        if (kind == 4) return (address(vault), abi.encodeCall(vault.forfeit, (exposure, sender, 1e9, "mine")));
        if (kind == 5) return (address(vault), abi.encodeCall(vault.pay, (task, sender, 1, "mine")));
        if (kind == 6) return (address(vault), abi.encodeCall(vault.closeEscrow, (task, sender)));
        if (kind == 7) return (address(vault), abi.encodeCall(vault.fundEscrow, (task, sender, 1)));
        if (kind == 8) {
            return (address(ledger), abi.encodeCall(ledger.convictSolver, (task, round, slot, sender, "mine")));
        }
        if (kind == 9) {
            return (address(ledger), abi.encodeCall(ledger.replaceOuter, (task, round, sender, "mine", "mine")));
        }
        if (kind == 10) return (address(ledger), abi.encodeCall(ledger.setContested, (task, round, true)));
        AuditRef memory ref = refOf(slot, uint32(seed >> 160) % 2, uint32(seed >> 170) % 3);
        if (kind == 11) return (address(audits), abi.encodeCall(audits.enforce, (ref)));
        if (kind == 12) return (address(audits), abi.encodeCall(audits.settle, (task, round, slot)));
        if (kind == 13) return (address(vault), abi.encodeCall(vault.burnEscrow, (task, 1, "mine")));
        return (address(audits), abi.encodeCall(audits.convictAuditor, (ref, sender, "mine")));
    }

    /// @dev What was done once is not done again, nor by another, nor too late.
    function repeating(uint256 seed) external counted("repeating", seed) {
        bool did = false;
        for (uint256 i = 0; i < PATIENCE && !did; ++i) {
            _enter(_firstLive + seed % (_laps.length - _firstLive));
            did = _repeat(seed >> 8);
            if (!did) _pass();
            seed = uint256(keccak256(abi.encode(seed)));
        }
        _success("repeating", did);
    }

    function _repeat(uint256 seed) private returns (bool) {
        uint32 slot = uint32((seed >> 8) % 3);
        uint256 kind = seed % 9;
        AuditRef memory ref = refOf(slot, 0, 0);
        if (kind == 0 && _isDone("commit", slot, 0)) return _refused(abi.encodeCall(this.doCommit, (slot)));
        if (kind == 1 && _isDone("settle", slot, 0)) {
            bytes memory data = abi.encodeCall(ledger.settleClaim, (task, round, slot));
            return _refused(abi.encodeCall(this.doCall, (stranger, address(ledger), data)));
        }
        if (kind == 2 && _isDone("beacon", 0, 0)) {
            bytes memory data = abi.encodeCall(registry.sealBeacon, (task, round, ""));
            return _refused(abi.encodeCall(this.doCall, (stranger, address(registry), data)));
        }
        if (kind == 3 && _isDone("draw", 0, 0)) {
            bytes memory data = abi.encodeCall(ledger.sealDraw, (task, round, ""));
            return _refused(abi.encodeCall(this.doCall, (stranger, address(ledger), data)));
        }
        if (kind == 4 && slot < _laps[_lap].solvers) {
            return _refused(abi.encodeCall(this.doEnrol, (solvers[slot], Role.VERIFIER)));
        }
        if (kind == 5 && _isDone("settle merge", 0, 0)) {
            bytes memory data = abi.encodeCall(ledger.settleMerge, (task, round));
            return _refused(abi.encodeCall(this.doCall, (stranger, address(ledger), data)));
        }
        Seat memory seat = _seat(slot, 0, 0);
        if (seat.auditor == address(0)) return false;
        if (kind == 6) {
            (bool start,,) = audits.openedOf(task, round, slot, 0, 0);
            return start && _refused(abi.encodeCall(this.doOpenStart, (ref)));
        }
        if (uint8(audits.statusOf(ref)) == 0) return false;
        State memory end = _resultOf(ref, seat.segment, seat.auditor);
        return _refused(abi.encodeCall(this.doWord, (ref, uint8(seed % 3), end)));
    }

    function _refused(bytes memory call) private returns (bool) {
        _require(!_try(call), "nothing is done twice", 0, 1);
        return true;
    }

    // Accounts ----------------------------------------------------------------------------------------------------
    /// @dev Early exits and late ones: what is exposed stays, what is free leaves after its time.
    function leaving(uint256 seed) external counted("leaving", seed) {
        address account = everybody[seed % everybody.length];
        if (account == submitter) account = bully;
        _success("leaving", _leave(account, seed >> 8));
    }

    function _leave(address account, uint256 seed) private returns (bool did) {
        uint256 before = token.balanceOf(account);
        (uint256 leavingWei, uint256 readyBlock) = vault.unbondingOf(account);
        if (leavingWei > 0) {
            uint256 openWei = vault.stakeOf(account) - vault.lockedOf(account);
            bool may = openWei > 0 && vm.getBlockNumber() >= readyBlock;
            did = _send(account, address(vault), abi.encodeCall(vault.withdraw, ()));
            _require(did == may, "withdrawal completes when it is due, not before", may ? 1 : 0, did ? 1 : 0);
            if (did) _count("done withdraw");
        }
        if (vault.creditOf(account) > 0) {
            _require(_send(account, address(vault), abi.encodeCall(vault.claim, ())), "credits are paid", 1, 0);
            _count("done claim");
            did = true;
        }
        paidOutWei[account] += token.balanceOf(account) - before;
        if (vault.burnPending() > 0 && seed % 4 == 0) {
            did = _send(stranger, address(vault), abi.encodeCall(vault.burn, ()));
            _require(did, "burns are burned", 1, 0);
        }
        (leavingWei,) = vault.unbondingOf(account);
        uint256 mostWei = vault.stakeOf(account) - leavingWei;
        // The honest keep what they work with.
        if (isHonest[account]) mostWei = mostWei > WEALTH_WEI ? mostWei - WEALTH_WEI : 0;
        if (leavingWei == 0 && mostWei > 0) {
            uint256 wishWei = bound(seed >> 8, 1, mostWei);
            did = _send(account, address(vault), abi.encodeCall(vault.requestUnbond, (wishWei)));
            _count("done requestUnbond");
        }
    }

    // Time --------------------------------------------------------------------------------------------------------
    /// @dev Some blocks; now and then everything ends, and then the unbonding time passes without a new round.
    function waiting(uint256 seed) external counted("waiting", seed) {
        bool rests = (seed >> 8) % 64 == 0;
        uint256 target = vm.getBlockNumber() + (rests ? UNBONDING_BLOCKS : 1 + seed % 12);
        _resting = rests;
        for (uint256 i = 0; i < 100 && vm.getBlockNumber() < target && !(rests && _isIdle()); ++i) {
            _passTo(target);
        }
        if (rests && _isIdle()) vm.roll(target);
        _resting = false;
        _success("waiting", true);
    }

    function _isIdle() private view returns (bool) {
        for (uint256 lap = _firstLive; lap < _laps.length; ++lap) {
            if (!_laps[lap].ended) return false;
        }
        return _openCases.length == 0;
    }

    function _pass() internal {
        _passTo(type(uint256).max);
    }

    /// @dev To the next deadline, or to `most` before it. Whoever must move before that deadline, and is awake, does.
    function _passTo(uint256 most) internal {
        uint256 now_ = vm.getBlockNumber();
        uint256 next = _nextBoundary(now_);
        if (next > most) {
            vm.roll(most);
            return;
        }
        if (next > now_ + 1) vm.roll(next - 1);
        uint256 count = _laps.length;
        for (uint256 lap = _firstLive; lap < count; ++lap) {
            if (_laps[lap].ended && _laps[lap].advanced) continue;
            _enter(lap);
            uint256 roles = _closing(next);
            if (roles & (1 << KEEPER) != 0) _workAndNote(lap, KEEPER, true);
            for (uint8 role = 0; role < ROLES; ++role) {
                if (role == KEEPER || roles & (1 << role) == 0) continue;
                // The forger is there before the merger, but the world knows solvers in the order of slots.
                _workAndNote(lap, role, role == SOLVER);
                _workAndNote(lap, role, role != SOLVER);
            }
        }
        vm.roll(next);
    }

    function _workAndNote(uint256 lap, uint8 role, bool honest) private {
        if (_work(lap, role, honest)) _moved |= 1 << (2 * role + (honest ? 1 : 0));
    }

    // The roles whose time to do something ends with a deadline, by its place in Deadlines and LateDeadlines: a bit each.
    uint256 private constant S = 1 << SOLVER;
    uint256 private constant V = 1 << VERIFIER;
    uint256 private constant W = 1 << WHISTLEBLOWER;
    uint256 private constant K = 1 << KEEPER;
    uint256 private constant M = 1 << MERGER;
    uint256 private constant C = 1 << CHALLENGER;

    function _closing(uint256 next) private returns (uint256 roles) {
        uint256[19] memory closing = [
            S | V | W, 0, K, S, 0, K, S, V, S | V, K, K | C | M, S, V | C, K | V | M, V, 0, K | M, S, V | C
        ];
        Deadlines memory d = Clock.compute(_laps[_lap].startBlock, terms.windows);
        for (uint256 i = 0; i < closing.length; ++i) {
            if (_wordOf(d, i) == next) roles |= closing[i];
        }
        if (next > d.reserveCompareEnd) roles |= K | M;
        uint256 merged = _mergedBlock();
        if (merged != 0) {
            roles |= K | M;
            uint256[10] memory late = [0, K, S, W, S | W, 0, K, S, W | C, K | C];
            LateDeadlines memory l = Clock.computeLate(merged, terms.windows);
            for (uint256 i = 0; i < late.length; ++i) {
                if (_wordOf(l, i) == next) roles |= late[i];
            }
        }
        for (uint256 i = 0; i < _openCases.length; ++i) {
            if (_cases[_openCases[i]].lap == _lap) roles |= K | C;
        }
    }

    function _nextBoundary(uint256 now_) private returns (uint256 next) {
        next = now_ + IDLE_BLOCKS;
        for (uint256 lap = _firstLive; lap < _laps.length; ++lap) {
            if (_laps[lap].ended && _laps[lap].advanced) continue;
            _enter(lap);
            Deadlines memory d = Clock.compute(_laps[lap].startBlock, terms.windows);
            for (uint256 i = 0; i < 19; ++i) {
                next = _sooner(next, now_, _wordOf(d, i));
            }
            if (now_ < d.showEnd) continue;
            uint256 merged = _mergedBlock();
            LateDeadlines memory l = Clock.computeLate(merged, terms.windows);
            for (uint256 i = 0; merged != 0 && i < 10; ++i) {
                next = _sooner(next, now_, _wordOf(l, i));
            }
            next = _sooner(next, now_, d.reserveCompareEnd + terms.windows.merge);
            next = _soonerContest(next, now_);
        }
        for (uint256 i = 0; i < _openCases.length; ++i) {
            (, uint256 clockBlock,,) = disputes.stageOf(_cases[_openCases[i]].id);
            next = _sooner(next, now_, clockBlock);
        }
    }

    function _soonerContest(uint256 next, uint256 now_) private view returns (uint256) {
        (address poster,,, uint256 postedBlock,) = ledger.outerOf(task, round);
        if (poster == address(0)) return next;
        next = _sooner(next, now_, postedBlock + terms.windows.merge);
        address[3] memory rivals = [merger, forger, bully];
        for (uint256 i = 0; i < rivals.length; ++i) {
            (, uint256 clockBlock,,,,) = contest.contestOf(task, round, rivals[i]);
            next = _sooner(next, now_, clockBlock);
        }
        return next;
    }

    function _sooner(uint256 next, uint256 now_, uint256 candidate) private pure returns (uint256) {
        return candidate > now_ && candidate < next ? candidate : next;
    }

    /// @dev The structs are words only.
    function _wordOf(Deadlines memory d, uint256 i) private pure returns (uint256 word) {
        assembly ("memory-safe") {
            word := mload(add(d, mul(32, i)))
        }
    }

    function _wordOf(LateDeadlines memory d, uint256 i) private pure returns (uint256 word) {
        assembly ("memory-safe") {
            word := mload(add(d, mul(32, i)))
        }
    }

    // The end of a run --------------------------------------------------------------------------------------------
    /// @dev Everybody falls silent but for calls that anybody may make: everything ends, nothing stays locked, everything can leave.
    function finish() public {
        _silent = true;
        for (uint256 i = 0; i < 600 && !_isIdle(); ++i) {
            vm.roll(_nextBoundary(vm.getBlockNumber()));
            for (uint256 lap = _firstLive; lap < _laps.length; ++lap) {
                _enter(lap);
                _timeouts();
                _finishLap();
            }
        }
        _require(_isIdle(), "every task, round, audit and dispute ends", 1, 0);
        checkSolvency();
        for (uint256 i = 0; i < everybody.length; ++i) {
            _requireEqual(vault.lockedOf(everybody[i]), 0, "nothing stays locked");
        }
        _count("runs finished");
    }

    /// @notice All counts of the run, as JSON.
    function counts() external view returns (string memory) {
        return string.concat('{"run": "', vm.toString(uint256(_trail)), '", "counts": ', _countsLine(vm.toString), "}");
    }
}

contract ProtocolHandler is Handler {}
