// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {TaskId} from "../../../contracts/Types.sol";
import {Module, Modules} from "../../../contracts/game/Module.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {Test} from "../Test.sol";

/// @dev What modules inherit, callable.
contract BareModule is Module {
    constructor(Modules memory modules) Module(modules) {}

    function guarded() external onlyGame {}

    function digest(bytes32 structHash) external view returns (bytes32) {
        return _digest(structHash);
    }

    function domain(TaskId task) external view returns (bytes32) {
        return _domain(task);
    }

    function requireWindow(uint256 firstBlock, uint256 lastBlock) external view {
        _requireWindow(firstBlock, lastBlock);
    }
}

/// @title What all modules share: who may call, what is signed, and windows.
contract ModuleTest is Test {
    address private constant GAME = address(0x6a3e);
    bytes32 private constant HASH = keccak256("struct");
    BareModule private module;

    function setUp() public {
        Modules memory modules;
        modules.game = GAME;
        module = new BareModule(modules);
    }

    /// @dev By the text of EIP-712.
    function _expected(uint256 chainId) private pure returns (bytes32) {
        bytes32 separator = keccak256(
            abi.encode(
                keccak256(
                    "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
                ),
                keccak256("Touchstone"),
                keccak256("3"),
                chainId,
                GAME
            )
        );
        return keccak256(abi.encodePacked(hex"1901", separator, HASH));
    }

    function test_digest_isThatOfEIP712() public view {
        assertEq(module.digest(HASH), _expected(block.chainid), "digest");
    }

    /// @dev A signature of one chain is none on a chain that has split off.
    function test_digest_chainThatSplitOff_isAnother() public {
        vm.chainId(77);
        assertEq(module.digest(HASH), _expected(77), "digest of the other chain");
    }

    function test_domain_namesChainTasksAndTask() public {
        bytes32 one = module.domain(TaskId.wrap("one"));
        assertTrue(one != module.domain(TaskId.wrap("two")), "another task");
        vm.chainId(77);
        assertTrue(one != module.domain(TaskId.wrap("one")), "another chain");
    }

    function test_onlyGame_others_areRefused() public {
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotModule.selector, address(this)));
        module.guarded();
        vm.prank(GAME);
        module.guarded();
    }

    function test_requireWindow_edges_belongToIt() public {
        for (uint256 number = 99; number <= 103; ++number) {
            vm.roll(number);
            if (number == 99 || number == 103) {
                vm.expectRevert(abi.encodeWithSelector(IRefusals.OutsideWindow.selector, 100, 102, number));
            }
            module.requireWindow(100, 102);
        }
    }
}
