// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Purse} from "../../../contracts/game/Purse.sol";
import {IPurse} from "../../../contracts/game/interfaces/IPurse.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {HostileToken, ITokenHook} from "../Mocks.sol";
import {Test} from "../Test.sol";

/// @title Credits, pots and what is to be burned. This contract is the game.
contract PurseTest is Test, ITokenHook {
    address private constant ALICE = address(0xa11ce);
    address private constant BOB = address(0xb0b);
    address private constant DEAD = 0x000000000000000000000000000000000000dEaD;

    HostileToken private token;
    Purse private purse;
    bool private isGreedy;

    function setUp() public {
        token = new HostileToken();
        purse = new Purse(token, address(this), BOB);
        token.mint(ALICE, 1000);
        vm.prank(ALICE);
        token.approve(address(purse), 1000);
    }

    function _deposit(uint256 wei_) private {
        vm.prank(ALICE);
        purse.deposit(wei_);
    }

    function _check(uint256 credit, uint256 pot, uint256 burning) private view {
        assertEq(purse.creditOf(ALICE), credit, "credit");
        assertEq(purse.potOf("pot"), pot, "pot");
        assertEq(purse.burnPending(), burning, "to burn");
    }

    function onTransfer(address, address) external {
        if (!isGreedy) return;
        isGreedy = false;
        purse.withdraw();
    }

    function test_constructor_namesTokenAndModules() public view {
        assertEq(purse.token(), address(token), "token");
        assertTrue(purse.isModule(address(this)) && purse.isModule(BOB), "modules");
        assertTrue(!purse.isModule(ALICE), "no other account");
        assertTrue(!purse.isModule(address(0)), "nor the zero address");
        assertEq(purse.DEAD(), DEAD, "where burned tokens go");
    }

    function test_deposit_tokens_becomeCredit() public {
        vm.expectEmit(true, true, true, true, address(purse));
        emit IPurse.Deposited(ALICE, 400);
        _deposit(400);
        _deposit(100);
        _check(500, 0, 0);
        assertEq(token.balanceOf(address(purse)), 500, "tokens");
    }

    function test_deposit_tokenWithFee_reverts() public {
        token.setFee(3);
        vm.expectRevert(abi.encodeWithSelector(IPurse.WrongReceipt.selector, 100, 97));
        _deposit(100);
    }

    function test_withdraw_credit_leavesAll() public {
        _deposit(400);
        vm.expectEmit(true, true, true, true, address(purse));
        emit IPurse.Withdrawn(ALICE, 400);
        vm.prank(ALICE);
        purse.withdraw();
        _check(0, 0, 0);
        assertEq(token.balanceOf(ALICE), 1000, "tokens");
        vm.expectRevert(IPurse.NothingMoved.selector);
        vm.prank(ALICE);
        purse.withdraw();
    }

    function test_take_credit_goesIntoThePot() public {
        _deposit(400);
        vm.expectEmit(true, true, true, true, address(purse));
        emit IPurse.Taken(ALICE, "pot", 150);
        purse.take(ALICE, "pot", 150);
        purse.take(ALICE, "pot", 250);
        _check(0, 400, 0);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.CreditTooSmall.selector, ALICE, 1, 0));
        purse.take(ALICE, "pot", 1);
        purse.take(ALICE, "pot", 0);
    }

    function test_give_pot_becomesCredit() public {
        _deposit(400);
        purse.take(ALICE, "pot", 300);
        vm.expectEmit(true, true, true, true, address(purse));
        emit IPurse.Given("pot", ALICE, 120);
        purse.give("pot", ALICE, 120);
        _check(220, 180, 0);
        vm.expectRevert(abi.encodeWithSelector(IPurse.PotTooSmall.selector, bytes32("pot"), 181, 180));
        purse.give("pot", ALICE, 181);
        purse.give("pot", ALICE, 180);
        vm.recordLogs();
        purse.give("pot", ALICE, 0);
        assertEq(vm.getRecordedLogs().length, 0, "nothing was given, and nothing says so");
        _check(400, 0, 0);
    }

    function test_move_pot_toAnother() public {
        _deposit(400);
        purse.take(ALICE, "pot", 300);
        vm.expectEmit(true, true, true, true, address(purse));
        emit IPurse.Moved("pot", "other", 100);
        purse.move("pot", "other", 100);
        purse.move("pot", "other", 50);
        assertEq(purse.potOf("other"), 150, "other");
        _check(100, 150, 0);
        vm.expectRevert(abi.encodeWithSelector(IPurse.PotTooSmall.selector, bytes32("pot"), 151, 150));
        purse.move("pot", "other", 151);
        vm.recordLogs();
        purse.move("none", "other", 0);
        assertEq(vm.getRecordedLogs().length, 0, "nothing to tell");
    }

    function test_discard_pot_waitsAndIsBurned() public {
        _deposit(400);
        purse.take(ALICE, "pot", 300);
        vm.expectEmit(true, true, true, true, address(purse));
        emit IPurse.Discarded("pot", 70);
        purse.discard("pot", 70);
        purse.discard("pot", 30);
        vm.recordLogs();
        purse.discard("none", 0);
        assertEq(vm.getRecordedLogs().length, 0, "nothing to tell");
        _check(100, 200, 100);
        vm.expectRevert(abi.encodeWithSelector(IPurse.PotTooSmall.selector, bytes32("pot"), 201, 200));
        purse.discard("pot", 201);
        vm.expectEmit(true, true, true, true, address(purse));
        emit IPurse.Burned(100);
        vm.prank(ALICE);
        purse.burn();
        _check(100, 200, 0);
        assertEq(token.balanceOf(DEAD), 100, "burned");
        vm.expectRevert(IPurse.NothingMoved.selector);
        purse.burn();
    }

    function test_moves_byOthers_revert() public {
        bytes memory error_ = abi.encodeWithSelector(IRefusals.NotModule.selector, ALICE);
        vm.startPrank(ALICE);
        vm.expectRevert(error_);
        purse.take(ALICE, "pot", 0);
        vm.expectRevert(error_);
        purse.give("pot", ALICE, 0);
        vm.expectRevert(error_);
        purse.move("pot", "other", 0);
        vm.expectRevert(error_);
        purse.discard("pot", 0);
        vm.stopPrank();
    }

    /// @dev A token that calls back finds the door closed.
    function test_withdraw_again_reverts() public {
        token.mint(address(this), 100);
        token.approve(address(purse), 100);
        purse.deposit(100);
        token.setHook(this);
        isGreedy = true;
        vm.expectRevert(bytes4(keccak256("ReentrancyGuardReentrantCall()")));
        purse.withdraw();
        isGreedy = true;
        token.mint(address(0xdead), 0);
        assertEq(purse.creditOf(address(this)), 100, "nothing moved");
    }

    function test_depositAndBurn_callBack_revert() public {
        token.mint(address(this), 100);
        token.approve(address(purse), 100);
        purse.deposit(60);
        token.setHook(this);
        isGreedy = true;
        vm.expectRevert(bytes4(keccak256("ReentrancyGuardReentrantCall()")));
        purse.deposit(40);
        isGreedy = false;
        token.setHook(ITokenHook(address(0)));
        vm.prank(DEAD);
        token.setHook(this);
        purse.take(address(this), "pot", 10);
        purse.discard("pot", 10);
        isGreedy = true;
        vm.expectRevert(bytes4(keccak256("ReentrancyGuardReentrantCall()")));
        purse.burn();
    }
}
