// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Limits} from "../../../../contracts/Types.sol";
import {
    DeploymentBounds,
    GameAmounts,
    GameTerms,
    GameWindows
} from "../../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../../contracts/game/interfaces/IRefusals.sol";
import {GameTermsCheck} from "../../../../contracts/game/libraries/GameTermsCheck.sol";
import {Test} from "../../Test.sol";

/// @dev A field at a time: its edges pass, one beyond is refused by name. Terms are 49 words; a word is changed by its number.
contract GameTermsCheckTest is Test {
    function check(GameTerms memory terms) external pure {
        GameTermsCheck.check(terms, _bounds());
    }

    function _bounds() private pure returns (DeploymentBounds memory) {
        GameWindows memory least = GameWindows(1, 1, 10, 10, 12, 2, 4, 76, 6);
        return DeploymentBounds(least, 1_000_000, 3, 1 << 90, 200, 50, 1);
    }

    function _sound() private pure returns (GameTerms memory t) {
        (t.submitter, t.initialWeightsRoot, t.zeroRoot) = (address(1), "weights", "zero");
        (t.scheduleRoot, t.stepRoot) = ("schedule", "step");
        (t.parameterCount, t.rounds, t.innerSteps, t.segmentSteps) = (1000, 4, 20, 5);
        (t.solverSeats, t.draws, t.lateChance) = (4, 2, 0);
        (t.leastSolvers, t.leastVerifiers, t.leastWhistleblowers) = (2, 6, 3);
        (t.outerLearningRate, t.outerMomentum) = (0x3f333333, 0x3f666666);
        t.windows = GameWindows(1, 2, 40, 80, 30, 6, 10, 200, 720);
        t.amounts = GameAmounts(1000, 600, 100, 10, 7, 40, 90, 50, 20, 30, 120);
        t.limits = Limits(1, 2, 3, 4, 5, 6);
    }

    function _with(uint256 field, uint256 value) private pure returns (GameTerms memory) {
        bytes memory encoded = abi.encode(_sound());
        assembly ("memory-safe") {
            mstore(add(encoded, mul(32, add(field, 1))), value)
        }
        return abi.decode(encoded, (GameTerms));
    }

    function _refuse(uint256 field, uint256 value, bytes4 error_, bytes32 what, uint256 bound_) private {
        vm.expectRevert(abi.encodeWithSelector(error_, what, bound_, value));
        this.check(_with(field, value));
    }

    function _small(uint256 field, bytes32 what, uint256 least) private {
        this.check(_with(field, least));
        _refuse(field, least - 1, IRefusals.AmountTooSmall.selector, what, least);
    }

    function _large(uint256 field, bytes32 what, uint256 greatest) private {
        this.check(_with(field, greatest));
        _refuse(field, greatest + 1, IRefusals.AmountTooLarge.selector, what, greatest);
    }

    function _short(uint256 field, bytes32 what, uint256 least) private {
        this.check(_with(field, least));
        _refuse(field, least - 1, IRefusals.WindowTooShort.selector, what, least);
    }

    function _long(uint256 field, bytes32 what) private {
        _refuse(field, 1_000_001, IRefusals.WindowTooLong.selector, what, 1_000_000);
    }

    function test_check_soundTerms_pass() public view {
        this.check(_sound());
    }

    function test_check_windowsBelowTheLeast_reverts() public {
        _refuse(23, 0, IRefusals.WindowTooShort.selector, "delay", 1);
        _refuse(24, 0, IRefusals.WindowTooShort.selector, "drawGrid", 1);
        _refuse(25, 9, IRefusals.WindowTooShort.selector, "trainMin", 10);
        _refuse(26, 9, IRefusals.WindowTooShort.selector, "trainMax", 10);
        _refuse(27, 11, IRefusals.WindowTooShort.selector, "auditMax", 12);
        _refuse(28, 1, IRefusals.WindowTooShort.selector, "post", 2);
        _refuse(29, 3, IRefusals.WindowTooShort.selector, "respond", 4);
        _refuse(30, 75, IRefusals.WindowTooShort.selector, "dispute", 76);
        _refuse(31, 5, IRefusals.WindowTooShort.selector, "query", 6);
        this.check(_with(28, 2));
        this.check(_with(29, 4));
        this.check(_with(24, 1));
    }

    function test_check_windowsAboveTheGreatest_reverts() public {
        _long(23, "delay");
        _long(24, "drawGrid");
        _long(25, "trainMin");
        _long(26, "trainMax");
        _long(27, "auditMax");
        _long(28, "post");
        _long(29, "respond");
        _long(30, "dispute");
        _long(31, "query");
        this.check(_with(30, 1_000_000));
    }

    /// @dev 1,000 parameters are four leaves: an answer and a child for the two roots, then one of each for the leaf. Sixteen leaves more are a level of
    /// sixteen more.
    function test_check_contestLongerThanDispute_reverts() public {
        this.check(_with(29, 50));
        _refuseContest(1000, 51, 204);
        _refuseContest(256, 101, 202);
        _refuseContest(257, 51, 204);
        _refuseContest(4096, 51, 204);
        _refuseContest(4097, 34, 204);
        _refuseContest(1 << 31, 15, 210);
    }

    /// @dev A block less for each turn is let pass.
    function _refuseContest(uint32 parameters, uint32 respond, uint256 least) private {
        GameTerms memory t = _sound();
        (t.parameterCount, t.windows.respond) = (parameters, respond);
        vm.expectRevert(
            abi.encodeWithSelector(IRefusals.WindowTooShort.selector, bytes32("dispute"), least, 200)
        );
        this.check(t);
        --t.windows.respond;
        this.check(t);
    }

    function test_check_sums_edges() public {
        GameTerms memory t = _sound();
        _refuse(26, 39, IRefusals.WindowTooShort.selector, "trainMax", 40);
        this.check(_with(26, 40));
        _short(25, "trainMin", 39);
        // delay + drawGrid + drawMargin in a third of auditMax.
        (t.windows.drawGrid, t.windows.trainMin) = (8, 80);
        this.check(t);
        (t.windows.drawGrid, t.windows.delay) = (8, 2);
        vm.expectRevert(
            abi.encodeWithSelector(IRefusals.WindowTooShort.selector, bytes32("auditMax / 3"), 11, 10)
        );
        this.check(t);
        // 6 auditMax + 4, and 2 * 30 + 6 + 2 * (1 + 2) + 80 + 10.
        _short(30, "dispute", 184);
        t = _sound();
        (t.windows.trainMax, t.windows.query) = (118, 2000);
        this.check(t);
        t.windows.trainMax = 119;
        vm.expectRevert(
            abi.encodeWithSelector(IRefusals.WindowTooShort.selector, bytes32("dispute"), 201, 200)
        );
        this.check(t);
        // Six times 80 + 30 + 6.
        _short(31, "query", 696);
    }

    function test_check_amounts_edges() public {
        bytes32[11] memory names = [
            bytes32("solverStake"),
            "auditorStake",
            "solverPay",
            "auditPay",
            "latePay",
            "droppedFee",
            "unservedFee",
            "contestBond",
            "queryBond",
            "disputeBond",
            "finderCap"
        ];
        for (uint256 i = 0; i < 11; ++i) {
            bool isStake = i < 2 || i >= 7 && i < 10;
            if (i < 2) _refuse(32 + i, 2, IRefusals.AmountTooSmall.selector, names[i], 3);
            else if (isStake) _small(32 + i, names[i], 3);
            else this.check(_with(32 + i, 0));
            if (i < 7 || i == 10) _large(32 + i, names[i], 1 << 90);
        }
    }

    /// @dev Who could take a seat can challenge: a bond is at most the smaller stake.
    function test_check_bondsAboveAStake_revert() public {
        bytes32[3] memory names = [bytes32("contestBond"), "queryBond", "disputeBond"];
        for (uint256 i = 0; i < 3; ++i) {
            _large(39 + i, names[i], 600);
        }
        GameTerms memory t = _sound();
        t.amounts.solverStake = 49;
        vm.expectRevert(
            abi.encodeWithSelector(IRefusals.AmountTooLarge.selector, bytes32("contestBond"), 49, 50)
        );
        this.check(t);
    }

    function test_check_numbers_edges() public {
        _small(11, "rounds", 1);
        _large(11, "rounds", 65_535);
        _refuse(15, 0, IRefusals.AmountTooSmall.selector, "draws", 1);
        this.check(_with(15, 1));
        GameTerms memory t = _sound();
        (t.draws, t.leastVerifiers) = (20, 60);
        this.check(t);
        _refuse(15, 21, IRefusals.AmountTooLarge.selector, "draws", 20);
        _large(16, "lateChance", 65_536);
        _refuse(14, 0, IRefusals.AmountTooSmall.selector, "solverSeats", 1);
        _large(14, "solverSeats", 64);
        _small(17, "leastSolvers", 1);
        _large(17, "leastSolvers", 4);
        _small(18, "leastVerifiers", 6);
        _large(18, "leastVerifiers", 1024);
        this.check(_with(19, 0));
        _large(19, "leastWhistleblowers", 1024);
        t = _sound();
        (t.lateChance, t.leastWhistleblowers) = (1, 2);
        vm.expectRevert(
            abi.encodeWithSelector(IRefusals.AmountTooSmall.selector, bytes32("leastWhistleblowers"), 3, 2)
        );
        this.check(t);
    }

    function test_check_model_edges() public {
        this.check(_with(6, 0));
        _large(6, "format", 1);
        _large(7, "encoding", 0);
        _large(8, "aggregation", 0);
        _large(9, "audit", 0);
        _small(10, "parameterCount", 1);
        _large(10, "parameterCount", 1 << 31);
        _refuse(13, 0, IRefusals.AmountTooSmall.selector, "segmentSteps", 1);
        this.check(_with(13, 1));
        this.check(_with(13, 20));
        _refuse(13, 21, IRefusals.AmountTooLarge.selector, "segmentSteps", 20);
        this.check(_with(20, 1));
        _large(20, "carryMoments", 1);
        _small(21, "outerLearningRate", 1);
        _large(21, "outerLearningRate", 0x407fffff);
        this.check(_with(22, 0));
        _large(22, "outerMomentum", 0x3f7fffff);
    }

    function _refuseSteps(GameTerms memory t, bytes4 error_, uint256 bound_, uint256 actual) private {
        vm.expectRevert(abi.encodeWithSelector(error_, bytes32("innerSteps"), bound_, actual));
        this.check(t);
    }

    function test_check_steps_edges() public {
        GameTerms memory t = _sound();
        t.innerSteps = 5;
        this.check(t);
        t.innerSteps = 4;
        _refuseSteps(t, IRefusals.AmountTooSmall.selector, 1, 0);
        t.innerSteps = 6;
        _refuseSteps(t, IRefusals.AmountTooLarge.selector, 0, 1);
        t.innerSteps = 5 * 65_535;
        this.check(t);
        t.innerSteps = 5 * 65_536;
        _refuseSteps(t, IRefusals.AmountTooLarge.selector, 65_535, 65_536);
        (t.innerSteps, t.rounds, t.segmentSteps) = (17 * 3855, 65_535, 17);
        this.check(t);
        // 65,535 rounds of 65,552 steps are 2^32 + 983,024 steps.
        (t.innerSteps, t.segmentSteps) = (65_552, 16);
        _refuseSteps(t, IRefusals.AmountTooLarge.selector, type(uint32).max, uint256(65_535) * 65_552);
    }

    function test_check_roots_mustBeThere() public {
        for (uint256 field = 2; field <= 5; ++field) {
            vm.expectRevert(abi.encodeWithSelector(IRefusals.AmountTooSmall.selector, bytes32("root"), 1, 0));
            this.check(_with(field, 0));
        }
        this.check(_with(1, 0));
        this.check(_with(0, 0));
    }
}
