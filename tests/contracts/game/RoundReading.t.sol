// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../contracts/Types.sol";
import {GameWindows, Phase} from "../../../contracts/game/GameTypes.sol";
import {Module, Modules} from "../../../contracts/game/Module.sol";
import {RoundReading} from "../../../contracts/game/RoundReading.sol";
import {IVault} from "../../../contracts/game/interfaces/IVault.sol";
import {IShares} from "../../../contracts/game/interfaces/IShares.sol";
import {IRandomness} from "../../../contracts/interfaces/IRandomness.sol";
import {Test} from "../Test.sol";

/// @title Windows of a round, field by field.
contract RoundReadingTest is RoundReading, Test {
    Round private _round;
    GameWindows private _windows;

    constructor()
        Module(Modules(IVault(address(0)), address(0), IShares(address(0)), IRandomness(address(0))))
    {}

    function setUp() public {
        (_windows.delay, _windows.drawGrid) = (1, 8);
        (_windows.trainMin, _windows.trainMax) = (40, 80);
        (_windows.auditMax, _windows.post, _windows.dispute, _windows.query) = (30, 6, 200, 720);
        _bounds.headerBlocks = 200;
        (_round.opened, _round.sharded) = (1003, 1003);
    }

    function test_closingBlock_untilTwoThirds_isTrainMax() public {
        assertEq(_closingBlock(_round, _windows), 1083, "from OPEN");
        _round.sharded = 1013;
        assertEq(_closingBlock(_round, _windows), 1093, "from when shards are known");
        _round.sharded = 0;
        assertEq(_closingBlock(_round, _windows), 1208, "while its beacon can be sealed: 1008 decides");
    }

    function test_closingBlock_twoThirds_waitForTrainMin() public {
        uint40[5] memory enough = [uint40(1007), 1043, 1044, 1083, 1085];
        uint256[5] memory closing = [uint256(1043), 1043, 1044, 1083, 1083];
        for (uint256 i = 0; i < 5; ++i) {
            _round.enough = enough[i];
            assertEq(_closingBlock(_round, _windows), closing[i], "between trainMin and trainMax");
        }
    }

    function test_closingBlock_allCommitted_isThatBlock() public {
        (_round.enough, _round.closing) = (1007, 1011);
        assertEq(_closingBlock(_round, _windows), 1011, "closing");
        assertEq(_closedAt(_round), 0, "not written down");
        _round.isClosed = true;
        assertEq(_closedAt(_round), 1011, "written down");
    }

    function test_beaconBlock_isOfTheGrid() public view {
        assertEq(_beaconBlock(_round, _windows), 1008, "first of the grid from 1004");
    }

    function test_drawWindow_isCutWhereReservesBegin() public {
        (uint256 first, uint256 last) = _drawWindow(1007, _windows);
        assertEq(first, 1009, "1008 decides");
        assertEq(last, 1016, "reserves from 1017");
        _windows.auditMax = 900;
        (first, last) = _drawWindow(1008, _windows);
        assertEq(first, 1017, "1016 decides");
        assertEq(last, 1216, "as long as it can be sealed");
        _windows.auditMax = 627;
        (, last) = _drawWindow(1008, _windows);
        assertEq(last, 1216, "both at once");
        _windows.auditMax = 624;
        (, last) = _drawWindow(1008, _windows);
        assertEq(last, 1215, "one before");
    }

    function test_dutyUntil_phases_areThoseOfTheRule() public {
        (_round.closing, _round.rootUntil) = (8, 300);
        _round.phase = Phase.RUNNING;
        assertEq(_dutyUntil(_round, _windows), type(uint256).max, "no root yet");
        _round.phase = Phase.FALLEN;
        assertEq(_dutyUntil(_round, _windows), type(uint256).max, "none any more");
        _round.phase = Phase.STANDING;
        assertEq(_dutyUntil(_round, _windows), 208, "closed in 8, dispute 200");
        _round.phase = Phase.POSTED;
        assertEq(_dutyUntil(_round, _windows), 300, "a root that is contested until then");
        _round.isDrawn = true;
        assertEq(_dutyUntil(_round, _windows), 788, "asks: twice auditMax 30, and 720");
        _round.lateFrom = 20;
        assertEq(_dutyUntil(_round, _windows), 800, "late votes from 20");
    }

    /// @dev A start that has lapsed holds nobody; a task that was halted has none.
    function test_isStartAlive_untilItsSealIsLate() public {
        RoundLine storage line = _lines[TaskId.wrap("task")];
        assertTrue(!_isStartAlive(line), "none was asked for");
        line.startBlock = 1008;
        vm.roll(1208);
        assertTrue(_isStartAlive(line), "the last block");
        vm.roll(1209);
        assertTrue(!_isStartAlive(line), "too late");
        vm.roll(1008);
        line.isHalted = true;
        assertTrue(!_isStartAlive(line), "halted");
    }
}
