// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {DeploymentLimits} from "../../../contracts/game/GameTypes.sol";
import {Modules} from "../../../contracts/game/Module.sol";
import {CodeVm, GameWorld} from "./GameWorld.sol";

/// @title Limits of a deployment that fit their words.
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
}
