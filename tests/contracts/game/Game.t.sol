// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../contracts/Types.sol";
import {Game, Part} from "../../../contracts/game/Game.sol";
import {DeploymentBounds, NO_DRAW, Proof, StatementRef} from "../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {ISeats} from "../../../contracts/game/interfaces/ISeats.sol";
import {ISettlement} from "../../../contracts/game/interfaces/ISettlement.sol";
import {ITasks} from "../../../contracts/game/interfaces/ITasks.sol";
import {Pots} from "../../../contracts/game/libraries/Pots.sol";
import {Address} from "@openzeppelin/contracts/utils/Address.sol";
import {CodeVm, GameWorld} from "./GameWorld.sol";

/// @title Which part has which call, and bounds of a deployment that fit their words.
contract GameTest is GameWorld {
    // Parts
    function test_fallback_callThatNoPartHas_reverts() public {
        (bool isDone, bytes memory answer) = game.call(abi.encodePacked(bytes4(0xdeadbeef)));
        assertTrue(!isDone, "nobody has it");
        assertEq(answer, abi.encodeWithSelector(Game.CallUnknown.selector, bytes4(0xdeadbeef)), "by name");
    }

    /// @dev Neither coin nor a call without data is taken.
    function test_fallback_bareCalls_revert() public {
        (bool isDone,) = game.call("");
        assertTrue(!isDone, "no selector");
        (isDone,) = game.call{value: 1}(abi.encodeCall(ITasks.bounds, ()));
        assertTrue(!isDone, "coin");
    }

    function test_constructor_aCallOfTwoParts_reverts() public {
        Part[] memory parts = new Part[](2);
        bytes4[] memory selectors = new bytes4[](1);
        selectors[0] = ITasks.bounds.selector;
        (parts[0], parts[1]) = (Part(address(1), selectors), Part(address(2), selectors));
        vm.expectRevert(abi.encodeWithSelector(Game.CallTaken.selector, ITasks.bounds.selector));
        new Game(parts, localBounds());
    }

    function test_constructor_aPartWithACallTwice_reverts() public {
        Part[] memory parts = new Part[](1);
        bytes4[] memory selectors = new bytes4[](2);
        (selectors[0], selectors[1]) = (ITasks.bounds.selector, ITasks.bounds.selector);
        parts[0] = Part(address(1), selectors);
        vm.expectRevert(abi.encodeWithSelector(Game.CallTaken.selector, ITasks.bounds.selector));
        new Game(parts, localBounds());
    }

    /// @dev A call that runs no code must not pass for one that succeeded.
    function test_fallback_aPartWithoutCode_reverts() public {
        Part[] memory parts = new Part[](1);
        bytes4[] memory selectors = new bytes4[](1);
        selectors[0] = ISeats.leave.selector;
        parts[0] = Part(address(0xbeef), selectors);
        ISeats bare = ISeats(address(new Game(parts, localBounds())));
        vm.expectRevert(abi.encodeWithSelector(Address.AddressEmptyCode.selector, address(0xbeef)));
        bare.leave(TaskId.wrap("task"), 0);
    }

    /// @dev A part that is called by itself has no task, no seat and no money.
    function test_parts_calledThemselves_haveNothing() public {
        begin(2, 6, 3);
        bytes32 place = keccak256(abi.encode(ISeats.seatAt.selector, 0));
        address alone = address(uint160(uint256(vm.load(game, place))));
        assertTrue(alone.code.length != 0, "the part that has seatAt");
        assertEq(ISeats(alone).seatAt(task, solverSeat(0)).account, address(0), "no seat");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.TaskUnknown.selector, TaskId.unwrap(task)));
        ISeats(alone).leave(task, solverSeat(0));
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotModule.selector, alone));
        vm.prank(alone);
        vault.give(Pots.stakes(task), alone, 1);
    }

    /// @dev What the game calls of itself nobody else may call: no account, no part, not the vault and not the shares.
    function test_ownCalls_ofOthers_areRefused() public {
        begin(2, 6, 3);
        bytes32 place = keccak256(abi.encode(ISettlement.punish.selector, 0));
        address part = address(uint160(uint256(vm.load(game, place))));
        address[4] memory callers = [stranger, part, address(vault), address(shares)];
        for (uint256 i = 0; i < 4; ++i) {
            bytes memory refusal = abi.encodeWithSelector(IRefusals.NotModule.selector, callers[i]);
            vm.startPrank(callers[i]);
            vm.expectRevert(refusal);
            settlement.punish(task, solverSeat(0), stranger, Proof.DISPUTED, StatementRef(0, 0, NO_DRAW, 0));
            vm.expectRevert(refusal);
            settlement.fall(task, 0, stranger);
            vm.expectRevert(refusal);
            rounds.fall(task, 0, 0);
            vm.stopPrank();
        }
    }

    // Tasks
    /// @dev A stake is kept in 96 bits.
    function test_bounds_amountsThatDoNotFit_revert() public {
        DeploymentBounds memory wanted = localBounds();
        wanted.amountMax = uint128(type(uint96).max) + 1;
        assertTrue(_made(wanted) == address(0), "too large");
        wanted.amountMax = type(uint96).max;
        assertTrue(_made(wanted) != address(0), "it fits");
    }

    /// @dev A round counts its blocks from its opening in 24 bits: a window until its beacon, and another one until it closes.
    function test_bounds_windowsThatDoNotFit_revert() public {
        DeploymentBounds memory wanted = localBounds();
        wanted.windowMax = 1 << 23;
        assertTrue(_made(wanted) == address(0), "too long");
        wanted.windowMax = (1 << 23) - 1;
        assertTrue(_made(wanted) != address(0), "it fits");
    }

    function _made(DeploymentBounds memory bounds) private returns (address made) {
        bytes memory code =
            bytes.concat(CodeVm(address(vm)).getCode("Game.sol:Game"), abi.encode(new Part[](0), bounds));
        assembly ("memory-safe") {
            made := create(0, add(code, 32), mload(code))
        }
    }

    function test_bounds_areTheDeployments() public view {
        assertEq(abi.encode(tasks.bounds()), abi.encode(localBounds()), "bounds");
    }
}
