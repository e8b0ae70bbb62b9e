// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {EXACT_FORMAT} from "../../Types.sol";
import {
    AUDITOR_SEATS_MAX,
    DeploymentBounds,
    DRAWS_MAX,
    GameAmounts,
    GameTerms,
    GameWindows,
    NUMBER_MAX,
    RANKS,
    ROUNDS_UNDER_WAY,
    SEGMENT_STEPS_MAX,
    SOLVER_SEATS_MAX
} from "../GameTypes.sol";
import {IRefusals} from "../interfaces/IRefusals.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";

/// @title Whether the terms of a task keep the bounds of the deployment and can be played to their end.
/// @dev Twin of `check_terms` in `protocol/spec/game/terms_check.py`: nodes ask the same before they join.
library GameTermsCheck {
    uint256 internal constant CHANCE_ONE = 1 << 16;
    uint256 private constant PARAMETERS_MAX = 1 << 31;
    uint256 private constant FLOAT_ONE = 0x3f800000;
    uint256 private constant FLOAT_FOUR = 0x40800000;

    function check(GameTerms memory terms, DeploymentBounds memory bounds) internal pure {
        _checkWindows(terms.windows, bounds);
        _checkSums(terms.windows, bounds);
        _checkAmounts(terms.amounts, bounds);
        _checkNumbers(terms);
        _checkModel(terms);
        _checkContest(terms);
    }

    function _checkWindows(GameWindows memory windows, DeploymentBounds memory bounds) private pure {
        GameWindows memory least = bounds.least;
        uint256 most = bounds.windowMax;
        _window("delay", windows.delay, least.delay, most);
        _window("drawGrid", windows.drawGrid, least.drawGrid, most);
        _window("trainMin", windows.trainMin, least.trainMin, most);
        _window("trainMax", windows.trainMax, least.trainMax, most);
        _window("auditMax", windows.auditMax, least.auditMax, most);
        _window("post", windows.post, least.post, most);
        _window("respond", windows.respond, least.respond, most);
        _window("dispute", windows.dispute, least.dispute, most);
        _window("query", windows.query, least.query, most);
    }

    /// @dev Windows that must fit into one another. `drawn` is the most blocks from what asks for a draw to the block after the deciding one.
    function _checkSums(GameWindows memory windows, DeploymentBounds memory bounds) private pure {
        (uint256 auditMax, uint256 trainMax) = (windows.auditMax, windows.trainMax);
        uint256 drawn = uint256(windows.delay) + windows.drawGrid;
        // The latest close is not before the earliest one (7.3).
        _least("trainMax", trainMax, windows.trainMin);
        _least("trainMin", windows.trainMin, drawn + auditMax + windows.post);
        // A draw is recorded before reserves may vote, from auditMax / 3 on (7.4, 7.7). After the deciding block drawMargin blocks at least are left for it.
        _least("auditMax / 3", auditMax / 3, drawn + bounds.drawMargin);
        _least("dispute", windows.dispute, 6 * auditMax + bounds.least.respond);
        // Late audits can be drawn until closed + dispute (7.9). So the draw of the next round draws them, however late it is recorded: also where convictions
        // let the root come later, or the task pauses between the two, and a start comes before the closing seed can be drawn, whose place it takes. Anybody
        // may record the start's block at once. A fall is not counted.
        _least("dispute", windows.dispute, 2 * auditMax + windows.post + 2 * drawn + trainMax + auditMax / 3);
        _least("query", windows.query, ROUNDS_UNDER_WAY * (trainMax + auditMax + windows.post));
    }

    function _checkAmounts(GameAmounts memory amounts, DeploymentBounds memory bounds) private pure {
        (uint256 least, uint256 most) = (bounds.leastBondWei, bounds.amountMax);
        _range("solverStake", amounts.solverStake, least, most);
        _range("auditorStake", amounts.auditorStake, least, most);
        _range("solverPay", amounts.solverPay, 0, most);
        _range("auditPay", amounts.auditPay, 0, most);
        _range("latePay", amounts.latePay, 0, most);
        _range("droppedFee", amounts.droppedFee, 0, most);
        _range("unservedFee", amounts.unservedFee, 0, most);
        // Who could take a seat can challenge.
        uint256 seat = FixedPointMathLib.min(amounts.solverStake, amounts.auditorStake);
        _range("contestBond", amounts.contestBond, least, seat);
        _range("queryBond", amounts.queryBond, least, seat);
        _range("disputeBond", amounts.disputeBond, least, seat);
        _range("finderCap", amounts.finderCap, 0, most);
    }

    function _checkNumbers(GameTerms memory terms) private pure {
        _range("rounds", terms.rounds, 1, NUMBER_MAX);
        _range("draws", terms.draws, 1, DRAWS_MAX);
        _range("lateChance", terms.lateChance, 0, CHANCE_ONE);
        _range("solverSeats", terms.solverSeats, 1, SOLVER_SEATS_MAX);
        _range("leastSolvers", terms.leastSolvers, 1, terms.solverSeats);
        _range("leastVerifiers", terms.leastVerifiers, RANKS * terms.draws, AUDITOR_SEATS_MAX);
        uint256 late = terms.lateChance == 0 ? 0 : RANKS;
        _range("leastWhistleblowers", terms.leastWhistleblowers, late, AUDITOR_SEATS_MAX);
    }

    /// @dev The outer rates are in (0, 4) and in [0, 1): positive patterns of float32 order as their numbers do.
    function _checkModel(GameTerms memory terms) private pure {
        _range("format", terms.format, 0, EXACT_FORMAT);
        _range("encoding", terms.encoding, 0, 0);
        _range("aggregation", terms.aggregation, 0, 0);
        _range("audit", terms.audit, 0, 0);
        _range("parameterCount", terms.parameterCount, 1, PARAMETERS_MAX);
        _range("segmentSteps", terms.segmentSteps, 1, SEGMENT_STEPS_MAX);
        uint256 segments = terms.innerSteps / terms.segmentSteps;
        _range("innerSteps", segments, 1, NUMBER_MAX);
        _range("innerSteps", terms.innerSteps % terms.segmentSteps, 0, 0);
        _range("innerSteps", uint256(terms.rounds) * terms.innerSteps, 1, type(uint32).max);
        _range("carryMoments", terms.carryMoments, 0, 1);
        _range("outerLearningRate", terms.outerLearningRate, 1, FLOAT_FOUR - 1);
        _range("outerMomentum", terms.outerMomentum, 0, FLOAT_ONE - 1);
        bool isRooted = terms.initialWeightsRoot != 0 && terms.zeroRoot != 0 && terms.scheduleRoot != 0;
        if (!isRooted || terms.stepRoot == 0) revert IRefusals.AmountTooSmall("root", 1, 0);
    }

    /// @dev How long a contest can take, but for its last turn, LEAF: an answer and a child for the two roots, then for every four levels of the tree over a
    /// tensor's leaves of 256 elements (7.10). Nobody settles the round before its contest has ended.
    function _checkContest(GameTerms memory terms) private pure {
        uint256 turns = 2;
        for (uint256 left = uint256(terms.parameterCount - 1) >> 8; left != 0; left >>= 4) {
            turns += 2;
        }
        _least("dispute", terms.windows.dispute, turns * terms.windows.respond);
    }

    function _window(bytes32 name, uint256 actual, uint256 least, uint256 greatest) private pure {
        _least(name, actual, least);
        if (actual > greatest) revert IRefusals.WindowTooLong(name, greatest, actual);
    }

    function _least(bytes32 name, uint256 actual, uint256 least) private pure {
        if (actual < least) revert IRefusals.WindowTooShort(name, least, actual);
    }

    function _range(bytes32 name, uint256 actual, uint256 least, uint256 greatest) private pure {
        if (actual < least) revert IRefusals.AmountTooSmall(name, least, actual);
        if (actual > greatest) revert IRefusals.AmountTooLarge(name, greatest, actual);
    }
}
