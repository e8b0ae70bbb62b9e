// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {AuditStatus, ClaimStatus, ExposureId, TaskId} from "../../../contracts/Types.sol";
import {Hashing} from "../../../contracts/libraries/Hashing.sol";
import {Bots} from "./Bots.sol";

/// @title What must hold in every state that a run reaches. Each check is named after its property; docs/decisions/0021-invariants.md lists them.
abstract contract Properties is Bots {
    /// @notice What the last check saw of a claim.
    struct SeenClaim {
        ClaimStatus status;
        bool settled;
        bytes32 claimRoot;
    }

    /// @notice What the last check saw of a round.
    struct SeenRound {
        bytes32 beacon;
        bytes32 drawSeed;
        bytes32 lateSeed;
        bytes32 standingRoot;
    }

    mapping(uint256 => mapping(uint32 => SeenClaim)) private _claims;
    mapping(uint256 => SeenRound) private _rounds;
    /// @dev What the verdicts on a claim cost everybody together.
    mapping(uint256 => mapping(uint32 => uint256)) private _verdictLossWei;
    uint256 private _burnedWei;
    uint256 private _settledClaims;
    TaskId private _settledTask;

    // Money -------------------------------------------------------------------------------------------------------
    /// @dev The vault holds exactly what it owes: stakes, credits, escrows, and what is to be burned.
    function checkSolvency() public view {
        uint256 owedWei = vault.burnPending() + vault.escrowOf(_laps[_laps.length - 1].task);
        for (uint256 i = 0; i < _openTasks.length; ++i) {
            owedWei += vault.escrowOf(_openTasks[i]);
        }
        for (uint256 i = 0; i < everybody.length; ++i) {
            owedWei += vault.stakeOf(everybody[i]) + vault.creditOf(everybody[i]);
        }
        _requireEqual(token.balanceOf(address(vault)), owedWei, "solvency");
    }

    /// @dev Stake that is locked or leaving is there.
    function checkNoRehypothecation() public view {
        for (uint256 i = 0; i < everybody.length; ++i) {
            (uint256 stakeWei, uint256 lockedWei) = (vault.stakeOf(everybody[i]), vault.lockedOf(everybody[i]));
            _require(lockedWei <= stakeWei, "no rehypothecation", stakeWei, lockedWei);
            (uint256 leavingWei,) = vault.unbondingOf(everybody[i]);
            _require(leavingWei <= stakeWei, "no rehypothecation", stakeWei, leavingWei);
        }
    }

    /// @dev Every lock belongs to an exposure that is open, and to one only.
    function checkLockIdentity() public {
        uint256 entered = _lap;
        uint256[] memory exposed = new uint256[](everybody.length);
        for (uint256 i = _firstLive; i < _laps.length; ++i) {
            _enter(i);
            _addExposures(exposed);
        }
        for (uint256 i = 0; i < _openCases.length; ++i) {
            _addExposure(exposed, Hashing.disputeExposure(_cases[_openCases[i]].id));
        }
        for (uint256 i = 0; i < everybody.length; ++i) {
            _requireEqual(vault.lockedOf(everybody[i]), exposed[i], "lock identity");
        }
        _enter(entered);
    }

    function _addExposures(uint256[] memory exposed) private {
        for (uint256 i = 0; i < everybody.length; ++i) {
            _addExposure(exposed, Hashing.enrolmentExposure(task, round, everybody[i]));
        }
        for (uint32 slot = 0; slot < _laps[_lap].solvers; ++slot) {
            for (uint32 rank = 0; rank < RANKS; ++rank) {
                _addExposure(exposed, Hashing.auditExposure(refOf(slot, 0, rank)));
            }
            _addExposure(exposed, Hashing.auditExposure(lateRef(slot)));
        }
        ExposureId[] storage bonds = _bonds[_lap];
        for (uint256 i = 0; i < bonds.length; ++i) {
            _addExposure(exposed, bonds[i]);
        }
    }

    function _addExposure(uint256[] memory exposed, ExposureId exposure) private view {
        (address account, uint256 amountWei) = vault.exposureOf(exposure);
        if (account == address(0)) return;
        for (uint256 i = 0; i < everybody.length; ++i) {
            if (everybody[i] == account) exposed[i] += amountWei;
        }
    }

    /// @dev What is burned never comes back; settled claims of a task only become more.
    function checkMonotone() public {
        uint256 burnedWei = _burned();
        _require(burnedWei >= _burnedWei, "cumulative figures are monotone", _burnedWei, burnedWei);
        _burnedWei = burnedWei;
        TaskId latest = _laps[_laps.length - 1].task;
        (uint256 settledClaims,) = ledger.progressOf(latest);
        if (TaskId.unwrap(latest) == TaskId.unwrap(_settledTask)) {
            _require(settledClaims >= _settledClaims, "cumulative figures are monotone", _settledClaims, settledClaims);
        }
        (_settledTask, _settledClaims) = (latest, settledClaims);
    }

    /// @dev Whatever anybody did: what the honest paid in is theirs still, but for fees that the rules name.
    function checkHonestNeverLose() public view {
        for (uint256 i = 0; i < everybody.length; ++i) {
            address account = everybody[i];
            if (!isHonest[account] || account == submitter) continue;
            uint256 hasWei = vault.stakeOf(account) + vault.creditOf(account) + paidOutWei[account];
            uint256 leastWei = paidInWei[account] - allowedWei[account];
            _require(hasWei >= leastWei, "an honest party never loses", leastWei, hasWei);
        }
    }

    function _burned() internal view returns (uint256) {
        return vault.burnPending() + token.balanceOf(vault.DEAD());
    }

    // Rounds ------------------------------------------------------------------------------------------------------
    /// @dev Verdicts are final but for convictions, commitments and seeds are there once, a root that stands stays.
    function checkFinality() public {
        uint256 entered = _lap;
        for (uint256 i = _firstLive; i < _laps.length; ++i) {
            _enter(i);
            _checkRound();
            for (uint32 slot = 0; slot < _laps[i].solvers; ++slot) {
                _checkClaim(slot);
            }
        }
        _enter(entered);
    }

    function _checkClaim(uint32 slot) private {
        SeenClaim storage seen = _claims[_lap][slot];
        (, ClaimStatus status, bool settled, bytes32 claimRoot,) = ledger.claimOf(task, round, slot);
        if (seen.claimRoot != 0) _require(claimRoot == seen.claimRoot, "one irrevocable commitment", 0, slot);
        _require(settled || !seen.settled, "no double payout", 1, 0);
        if (seen.settled) _requireEqual(uint8(status), uint8(seen.status), "no move after resolution");
        bool final_ = seen.status == ClaimStatus.ACCEPTED || seen.status == ClaimStatus.VOID
            || seen.status == ClaimStatus.DROPPED || seen.status == ClaimStatus.CONVICTED;
        if (final_ && status != seen.status) {
            bool convicted = status == ClaimStatus.CONVICTED && seen.status != ClaimStatus.DROPPED;
            _require(convicted, "no path changes a final outcome", uint8(seen.status), uint8(status));
        }
        (seen.status, seen.settled, seen.claimRoot) = (status, settled, claimRoot);
    }

    function _checkRound() private {
        SeenRound storage seen = _rounds[_lap];
        (,, bytes32 beacon,,,) = registry.roundOf(task, round);
        (bytes32 drawSeed, bytes32 lateSeed) = ledger.drawSeedOf(task, round);
        _require(seen.beacon == 0 || beacon == seen.beacon, "a seed cannot be drawn twice", 0, 0);
        _require(seen.drawSeed == 0 || drawSeed == seen.drawSeed, "a seed cannot be drawn twice", 0, 1);
        _require(seen.lateSeed == 0 || lateSeed == seen.lateSeed, "a seed cannot be drawn twice", 0, 2);
        (seen.beacon, seen.drawSeed, seen.lateSeed) = (beacon, drawSeed, lateSeed);
        if (!_wasTrained() || !ledger.isMerged(task, round)) {
            _require(seen.standingRoot == 0, "no path changes a final outcome", 1, 0);
            return;
        }
        (, bytes32 weightsRoot, bytes32 momentumRoot,,) = ledger.outerOf(task, round);
        bytes32 standing = keccak256(abi.encode(weightsRoot, momentumRoot));
        _require(seen.standingRoot == 0 || seen.standingRoot == standing, "no path changes a final outcome", 0, 1);
        seen.standingRoot = standing;
    }

    function checkDraws(uint256 seed) public {
        if (_firstLive >= _laps.length) return;
        uint256 entered = _lap;
        _enter(_firstLive + seed % (_laps.length - _firstLive));
        for (uint32 slot = 0; slot < _laps[_lap].solvers; ++slot) {
            _checkSeat(slot, 0, uint32(seed % RANKS));
            _checkSeat(slot, LATE_DRAW, 0);
        }
        _enter(entered);
    }

    // Ends that take something ------------------------------------------------------------------------------------
    /// @dev Of everybody, in their order; the last one is what is burned.
    function _stakes() internal view override returns (uint256[] memory stakes) {
        stakes = new uint256[](everybody.length + 1);
        for (uint256 i = 0; i < everybody.length; ++i) {
            stakes[i] = vault.stakeOf(everybody[i]);
        }
        stakes[everybody.length] = _burned();
    }

    /// @dev Only `loser` loses, and at least half of it burns: nobody gains by disputing himself, whoever is in league with whom.
    function _checkLoss(uint256[] memory before, address loser) internal override {
        uint256[] memory now_ = _stakes();
        uint256 burnedWei = now_[everybody.length] - before[everybody.length];
        for (uint256 i = 0; i < everybody.length; ++i) {
            if (now_[i] == before[i]) continue;
            _require(now_[i] < before[i], "a slash only takes", before[i], now_[i]);
            _requireEqual(uint160(everybody[i]), uint160(loser), "nobody is slashed for another's claim");
            uint256 lostWei = before[i] - now_[i];
            _require(2 * burnedWei >= lostWei, "a full self-challenge loses at least the burn", lostWei, burnedWei);
            _require(_silent || !isHonest[loser], "an honest party never loses", 0, lostWei);
            _count("slashes");
        }
    }

    /// @dev A verdict takes fees and the stakes of silent auditors: of the honest only F, where two auditors call the round unserved.
    function _checkVerdict(uint256[] memory before, uint32 slot) internal override {
        uint256[] memory now_ = _stakes();
        uint256 lostWei = 0;
        for (uint256 i = 0; i < everybody.length; ++i) {
            if (now_[i] >= before[i]) continue;
            uint256 lost = before[i] - now_[i];
            lostWei += lost;
            if (_silent || !isHonest[everybody[i]]) continue;
            _require(lost <= terms.amounts.noShowFee, "an honest party never loses", terms.amounts.noShowFee, lost);
            _require(_unserved(slot) >= 2, "an honest party pays no fee", uint160(everybody[i]), slot);
            allowedWei[everybody[i]] += lost;
            _count("F of an honest party, two of three unserved");
        }
        uint256 burnedWei = now_[everybody.length] - before[everybody.length];
        _require(2 * burnedWei >= lostWei, "at least half is burned", lostWei, burnedWei);
        _verdictLossWei[_lap][slot] += lostWei;
    }

    /// @dev Where too few accept, the solver gets at most half of what its auditors' silence cost them: none of its own pay it.
    function _checkPay(uint32 slot, uint256 creditWei) internal override {
        uint256 paidWei = vault.creditOf(solvers[slot]) - creditWei;
        if (paidWei == 0 || statusOf(slot) == ClaimStatus.ACCEPTED) return;
        _requireEqual(uint8(statusOf(slot)), uint8(ClaimStatus.VOID), "only accepted work and silence are paid");
        uint256 lossWei = _verdictLossWei[_lap][slot];
        _require(2 * paidWei <= lossWei, "silence costs twice what it pays", lossWei, paidWei);
        _count("silence that paid its solver");
    }

    function _unserved(uint32 slot) private view returns (uint256 count) {
        for (uint32 rank = 0; rank < RANKS; ++rank) {
            if (audits.statusOf(refOf(slot, 0, rank)) == AuditStatus.UNSERVED) ++count;
        }
    }

    /// @dev With the hunter awake no lie is accepted in the end.
    function _checkCheat(uint32 slot) internal override {
        if (_silent || !_hunterWakes() || _isEmpty()) return;
        Solver memory p = _solver(slot);
        if (p.lieShift == 0 && !p.deltaLie) return;
        _require(statusOf(slot) != ClaimStatus.ACCEPTED, "a cheat never finalises while one honest party is awake", 0, slot);
        _count("cheats that did not finalise");
    }
}
