// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../contracts/Types.sol";
import {DeploymentLimits, SeatRole} from "../../../contracts/game/GameTypes.sol";
import {Modules} from "../../../contracts/game/Module.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {CodeVm, GameWorld} from "./GameWorld.sol";

/// @title Limits that fit their words, and tasks that nobody posted.
contract TaskStorageTest is GameWorld {
    // Tasks ------------------------------------------------------------------------------------------------------
    /// @dev A stake is kept in 96 bits.
    function test_limits_amountsThatDoNotFit_revert() public {
        Modules memory m;
        DeploymentLimits memory wanted = localLimits();
        wanted.amountMax = uint128(type(uint96).max) + 1;
        bytes memory code =
            bytes.concat(CodeVm(address(vm)).getCode("Tasks.sol:Tasks"), abi.encode(m, wanted));
        assertTrue(_made(code) == address(0), "too large");
        wanted.amountMax = type(uint96).max;
        code = bytes.concat(CodeVm(address(vm)).getCode("Tasks.sol:Tasks"), abi.encode(m, wanted));
        assertTrue(_made(code) != address(0), "it fits");
    }

    /// @dev A round counts its blocks from its opening in 24 bits: a window until its beacon, and another one until it closes.
    function test_limits_windowsThatDoNotFit_revert() public {
        Modules memory m;
        DeploymentLimits memory wanted = localLimits();
        wanted.windowMax = 1 << 23;
        bytes memory code =
            bytes.concat(CodeVm(address(vm)).getCode("Tasks.sol:Tasks"), abi.encode(m, wanted));
        assertTrue(_made(code) == address(0), "too long");
        wanted.windowMax = (1 << 23) - 1;
        code = bytes.concat(CodeVm(address(vm)).getCode("Tasks.sol:Tasks"), abi.encode(m, wanted));
        assertTrue(_made(code) != address(0), "it fits");
    }

    function _made(bytes memory code) private returns (address made) {
        assembly ("memory-safe") {
            made := create(0, add(code, 32), mload(code))
        }
    }

    function test_limits_areTheDeployments() public view {
        assertEq(abi.encode(tasks.limits()), abi.encode(localLimits()), "limits");
    }

    function test_unknownTask_reverts() public {
        bytes memory error_ = abi.encodeWithSelector(IRefusals.TaskUnknown.selector, bytes32("no"));
        TaskId no = TaskId.wrap("no");
        vm.expectRevert(error_);
        tasks.termsOf(no);
        vm.expectRevert(error_);
        tasks.isClosed(no);
        vm.expectRevert(error_);
        tasks.join(no, SeatRole.SOLVER, 1);
        vm.expectRevert(error_);
        tasks.topUp(no, 1, 1);
        vm.expectRevert(error_);
        tasks.leave(no, 1);
        vm.expectRevert(error_);
        tasks.payOut(no, 1);
        vm.expectRevert(error_);
        tasks.closeTask(no);
        vm.expectRevert(error_);
        rounds.start(no);
    }
}
