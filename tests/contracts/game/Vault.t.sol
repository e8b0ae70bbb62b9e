// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Vault} from "../../../contracts/game/Vault.sol";
import {IVault} from "../../../contracts/game/interfaces/IVault.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {HostileToken, ITokenHook} from "../Mocks.sol";
import {Test} from "../Test.sol";

/// @title Credits, pots and what is to be burned. This contract is the game.
contract VaultTest is Test, ITokenHook {
    address private constant ALICE = address(0xa11ce);
    address private constant BOB = address(0xb0b);
    address private constant DEAD = 0x000000000000000000000000000000000000dEaD;

    HostileToken private token;
    Vault private vault;
    bool private isGreedy;

    function setUp() public {
        token = new HostileToken();
        vault = new Vault(token, address(this), BOB);
        token.mint(ALICE, 1000);
        vm.prank(ALICE);
        token.approve(address(vault), 1000);
    }

    function _deposit(uint256 wei_) private {
        vm.prank(ALICE);
        vault.deposit(wei_);
    }

    function _check(uint256 credit, uint256 pot, uint256 burning) private view {
        assertEq(vault.creditOf(ALICE), credit, "credit");
        assertEq(vault.potOf("pot"), pot, "pot");
        assertEq(vault.burnPending(), burning, "to burn");
    }

    function onTransfer(address, address) external {
        if (!isGreedy) return;
        isGreedy = false;
        vault.withdraw();
    }

    function test_constructor_namesTokenAndModules() public view {
        assertEq(vault.token(), address(token), "token");
        assertTrue(vault.isModule(address(this)) && vault.isModule(BOB), "modules");
        assertTrue(!vault.isModule(ALICE), "no other account");
        assertTrue(!vault.isModule(address(0)), "nor the zero address");
        assertEq(vault.DEAD(), DEAD, "where burned tokens go");
    }

    function test_deposit_tokens_becomeCredit() public {
        vm.expectEmit(true, true, true, true, address(vault));
        emit IVault.Deposited(ALICE, 400);
        _deposit(400);
        _deposit(100);
        _check(500, 0, 0);
        assertEq(token.balanceOf(address(vault)), 500, "tokens");
    }

    function test_deposit_tokenWithFee_reverts() public {
        token.setFee(3);
        vm.expectRevert(abi.encodeWithSelector(IVault.WrongReceipt.selector, 100, 97));
        _deposit(100);
    }

    function test_withdraw_credit_leavesAll() public {
        _deposit(400);
        vm.expectEmit(true, true, true, true, address(vault));
        emit IVault.Withdrawn(ALICE, 400);
        vm.prank(ALICE);
        vault.withdraw();
        _check(0, 0, 0);
        assertEq(token.balanceOf(ALICE), 1000, "tokens");
        vm.expectRevert(IVault.NothingMoved.selector);
        vm.prank(ALICE);
        vault.withdraw();
    }

    function test_take_credit_goesIntoThePot() public {
        _deposit(400);
        vm.expectEmit(true, true, true, true, address(vault));
        emit IVault.Taken(ALICE, "pot", 150);
        vault.take(ALICE, "pot", 150);
        vault.take(ALICE, "pot", 250);
        _check(0, 400, 0);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.CreditTooSmall.selector, ALICE, 1, 0));
        vault.take(ALICE, "pot", 1);
        vault.take(ALICE, "pot", 0);
    }

    function test_give_pot_becomesCredit() public {
        _deposit(400);
        vault.take(ALICE, "pot", 300);
        vm.expectEmit(true, true, true, true, address(vault));
        emit IVault.Given("pot", ALICE, 120);
        vault.give("pot", ALICE, 120);
        _check(220, 180, 0);
        vm.expectRevert(abi.encodeWithSelector(IVault.PotTooSmall.selector, bytes32("pot"), 181, 180));
        vault.give("pot", ALICE, 181);
        vault.give("pot", ALICE, 180);
        vm.recordLogs();
        vault.give("pot", ALICE, 0);
        assertEq(vm.getRecordedLogs().length, 0, "nothing was given, and nothing says so");
        _check(400, 0, 0);
    }

    function test_move_pot_toAnother() public {
        _deposit(400);
        vault.take(ALICE, "pot", 300);
        vm.expectEmit(true, true, true, true, address(vault));
        emit IVault.Moved("pot", "other", 100);
        vault.move("pot", "other", 100);
        vault.move("pot", "other", 50);
        assertEq(vault.potOf("other"), 150, "other");
        _check(100, 150, 0);
        vm.expectRevert(abi.encodeWithSelector(IVault.PotTooSmall.selector, bytes32("pot"), 151, 150));
        vault.move("pot", "other", 151);
        vm.recordLogs();
        vault.move("none", "other", 0);
        assertEq(vm.getRecordedLogs().length, 0, "nothing to tell");
    }

    function test_discard_pot_waitsAndIsBurned() public {
        _deposit(400);
        vault.take(ALICE, "pot", 300);
        vm.expectEmit(true, true, true, true, address(vault));
        emit IVault.Discarded("pot", 70);
        vault.discard("pot", 70);
        vault.discard("pot", 30);
        vm.recordLogs();
        vault.discard("none", 0);
        assertEq(vm.getRecordedLogs().length, 0, "nothing to tell");
        _check(100, 200, 100);
        vm.expectRevert(abi.encodeWithSelector(IVault.PotTooSmall.selector, bytes32("pot"), 201, 200));
        vault.discard("pot", 201);
        vm.expectEmit(true, true, true, true, address(vault));
        emit IVault.Burned(100);
        vm.prank(ALICE);
        vault.burn();
        _check(100, 200, 0);
        assertEq(token.balanceOf(DEAD), 100, "burned");
        vm.expectRevert(IVault.NothingMoved.selector);
        vault.burn();
    }

    function test_moves_byOthers_revert() public {
        bytes memory error_ = abi.encodeWithSelector(IRefusals.NotModule.selector, ALICE);
        vm.startPrank(ALICE);
        vm.expectRevert(error_);
        vault.take(ALICE, "pot", 0);
        vm.expectRevert(error_);
        vault.give("pot", ALICE, 0);
        vm.expectRevert(error_);
        vault.move("pot", "other", 0);
        vm.expectRevert(error_);
        vault.discard("pot", 0);
        vm.stopPrank();
    }

    /// @dev A token that calls back finds the door closed.
    function test_withdraw_again_reverts() public {
        token.mint(address(this), 100);
        token.approve(address(vault), 100);
        vault.deposit(100);
        token.setHook(this);
        isGreedy = true;
        vm.expectRevert(bytes4(keccak256("ReentrancyGuardReentrantCall()")));
        vault.withdraw();
        isGreedy = true;
        token.mint(address(0xdead), 0);
        assertEq(vault.creditOf(address(this)), 100, "nothing moved");
    }

    function test_depositAndBurn_callBack_revert() public {
        token.mint(address(this), 100);
        token.approve(address(vault), 100);
        vault.deposit(60);
        token.setHook(this);
        isGreedy = true;
        vm.expectRevert(bytes4(keccak256("ReentrancyGuardReentrantCall()")));
        vault.deposit(40);
        isGreedy = false;
        token.setHook(ITokenHook(address(0)));
        vm.prank(DEAD);
        token.setHook(this);
        vault.take(address(this), "pot", 10);
        vault.discard("pot", 10);
        isGreedy = true;
        vm.expectRevert(bytes4(keccak256("ReentrancyGuardReentrantCall()")));
        vault.burn();
    }
}
