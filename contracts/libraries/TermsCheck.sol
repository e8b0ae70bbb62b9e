// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Amounts, Limits, TaskTerms, Windows} from "../Types.sol";
import {ITaskRegistry} from "../interfaces/ITaskRegistry.sol";
import {Clock} from "./Clock.sol";
import {Draw} from "./Draw.sol";

/// @title Whether the terms of a task can be played: every rule a task must keep so that all its rounds end and all its slashes burn.
library TermsCheck {
    uint256 internal constant MAX_SOLVERS = 64;
    uint256 internal constant MAX_AUDITORS = 999;
    uint256 internal constant MAX_SEGMENT_STEPS = 20;
    /// @dev Judging a leaf costs up to 0.9 M gas and its proofs 0.2 M: nine of them (one of the auditor's choice) fit a transaction.
    uint256 internal constant MAX_LEAF_DRAWS = 8;
    /// @dev Settling a claim of 20 draws, everybody silent, costs 14.6 M gas; of 23 it would fit no transaction.
    uint256 internal constant MAX_SEGMENT_DRAWS = 20;
    uint256 internal constant MAX_PARAMETERS = 1 << 31;
    uint256 private constant FLOAT_ONE = 0x3f800000;
    uint256 private constant FLOAT_FOUR = 0x40800000;
    /// @dev blockhash forgets after 256 blocks; the rest is room for a chain that is busy when the seal is due.
    uint256 internal constant MAX_SEAL = 200;
    /// @dev Seven weeks of seconds a window: sums of windows stay far from any overflow.
    uint256 internal constant MAX_WINDOW = 1 << 22;

    /// @notice Reverts with BadTerms(field, value) on the first rule that is broken.
    function check(TaskTerms memory terms, uint256 unbondingBlocks) internal pure {
        _checkSizes(terms);
        _checkSteps(terms);
        _checkDraws(terms);
        _checkOuter(terms);
        _checkWindows(terms.windows, unbondingBlocks);
        _checkAmounts(terms.amounts);
        _checkLimits(terms.accept, terms.reject);
    }

    function _checkSizes(TaskTerms memory terms) private pure {
        _require(terms.initialWeightsRoot != 0, "initialWeightsRoot", 0);
        _require(terms.zeroRoot != 0, "zeroRoot", 0);
        _require(terms.scheduleRoot != 0, "scheduleRoot", 0);
        _require(terms.stepRoot != 0, "stepRoot", 0);
        _requireRange("parameterCount", terms.parameterCount, 1, MAX_PARAMETERS);
        _requireRange("maxSolvers", terms.maxSolvers, 1, MAX_SOLVERS);
        _requireRange("maxVerifiers", terms.maxVerifiers, Draw.MIN_VERIFIERS, MAX_AUDITORS);
        _requireRange("maxWhistleblowers", terms.maxWhistleblowers, 0, MAX_AUDITORS);
    }

    function _checkSteps(TaskTerms memory terms) private pure {
        _requireRange("segmentSteps", terms.segmentSteps, 1, MAX_SEGMENT_STEPS);
        _require(
            terms.innerSteps > 0 && terms.innerSteps % terms.segmentSteps == 0, "innerSteps", terms.innerSteps
        );
        // The global step of the last state must fit its 32 bits.
        bool fits = uint256(terms.rounds) * terms.innerSteps <= type(uint32).max;
        _require(terms.rounds > 0 && fits, "rounds", terms.rounds);
    }

    function _checkDraws(TaskTerms memory terms) private pure {
        uint256 segments = terms.innerSteps / terms.segmentSteps;
        _requireRange("segmentDraws", terms.segmentDraws, 1, MAX_SEGMENT_DRAWS);
        _require(segments >= 2 * uint256(terms.segmentDraws) - 1, "segmentDraws", terms.segmentDraws);
        _requireRange("leafDraws", terms.leafDraws, 1, MAX_LEAF_DRAWS);
        _requireRange("lateRate", terms.lateRate, 0, Draw.LATE_RATE_ONE);
        _requireRange("carryMoments", terms.carryMoments, 0, 1);
    }

    /// @dev In (0, 4) and in [0, 1), so that the outer step does not leave the finite numbers by design. Positive patterns order as
    /// their numbers do; -0 and everything negative, infinite or NaN lie beyond.
    function _checkOuter(TaskTerms memory terms) private pure {
        _requireRange("outerLearningRate", terms.outerLearningRate, 1, FLOAT_FOUR - 1);
        _requireRange("outerMomentum", terms.outerMomentum, 0, FLOAT_ONE - 1);
    }

    function _checkWindows(Windows memory w, uint256 unbondingBlocks) private pure {
        _checkWindow("enrol", w.enrol);
        _requireRange("seal", w.seal, 1, MAX_SEAL);
        _require(w.delay >= 1 && w.delay < w.seal, "delay", w.delay);
        _checkWindow("train", w.train);
        _checkWindow("start", w.start);
        _checkWindow("replay", w.replay);
        _checkWindow("show", w.show);
        _checkWindow("open", w.open);
        _checkWindow("merge", w.merge);
        _checkWindow("dispute", w.dispute);
        _checkWindow("respond", w.respond);
        _checkWindow("name", w.name);
        _checkWindow("prove", w.prove);
        uint256 span = Clock.worstSpan(w);
        _require(span < unbondingBlocks, "span", span);
    }

    function _checkWindow(bytes32 field, uint256 value) private pure {
        _requireRange(field, value, 1, MAX_WINDOW);
    }

    /// @dev Whatever is exposed must be something, and must hold the fee that is burned of it.
    function _checkAmounts(Amounts memory a) private pure {
        _require(a.solverStake > 0, "solverStake", a.solverStake);
        _require(a.auditStake > 0, "auditStake", a.auditStake);
        _require(a.enrolStake > 0, "enrolStake", a.enrolStake);
        _require(a.mergeBond > 0, "mergeBond", a.mergeBond);
        _require(a.disputeBond > 0, "disputeBond", a.disputeBond);
        _require(a.demandFee > 0, "demandFee", a.demandFee);
        _require(a.noShowFee <= a.enrolStake && a.noShowFee <= a.solverStake, "noShowFee", a.noShowFee);
    }

    function _checkLimits(Limits memory accept, Limits memory reject) private pure {
        _require(accept.tauM <= reject.tauM, "accept.tauM", accept.tauM);
        _require(accept.epsM <= reject.epsM, "accept.epsM", accept.epsM);
        _require(accept.tauV <= reject.tauV, "accept.tauV", accept.tauV);
        _require(accept.floorV <= reject.floorV, "accept.floorV", accept.floorV);
        _require(accept.tauW <= reject.tauW, "accept.tauW", accept.tauW);
        _require(accept.tauR <= reject.tauR, "accept.tauR", accept.tauR);
    }

    function _requireRange(bytes32 field, uint256 value, uint256 least, uint256 most) private pure {
        _require(least <= value && value <= most, field, value);
    }

    function _require(bool holds, bytes32 field, uint256 value) private pure {
        if (!holds) revert ITaskRegistry.BadTerms(field, value);
    }
}
