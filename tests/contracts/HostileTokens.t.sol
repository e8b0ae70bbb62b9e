// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {ExposureId, TaskId} from "../../contracts/Types.sol";
import {StakeVault} from "../../contracts/StakeVault.sol";
import {IStakeVault} from "../../contracts/interfaces/IStakeVault.sol";
import {HostileToken, ITokenHook} from "./Mocks.sol";
import {Test} from "./Test.sol";

/// @title A token of which every transfer can fail: by a revert, by the answer false, or for one account alone.
contract StubbornToken {
    enum Mood {
        FINE,
        REVERTS,
        FALSE,
        SILENT
    }

    error Stubborn(address to);

    mapping(address => uint256) public balanceOf;
    Mood public mood;
    address public blocked;

    function mint(address to, uint256 amountWei) external {
        balanceOf[to] += amountWei;
    }

    function setMood(Mood mood_) external {
        mood = mood_;
    }

    function setBlocked(address blocked_) external {
        blocked = blocked_;
    }

    function transfer(address to, uint256 amountWei) external returns (bool) {
        return _move(msg.sender, to, amountWei);
    }

    function transferFrom(address from, address to, uint256 amountWei) external returns (bool) {
        return _move(from, to, amountWei);
    }

    /// @dev SILENT: moves and returns nothing at all, as some tokens of the first years do.
    function _move(address from, address to, uint256 amountWei) private returns (bool) {
        if (mood == Mood.REVERTS || to == blocked) revert Stubborn(to);
        if (mood == Mood.FALSE) return false;
        balanceOf[from] -= amountWei;
        balanceOf[to] += amountWei;
        if (mood == Mood.FINE) return true;
        assembly ("memory-safe") {
            return(0, 0)
        }
    }
}

/// @title A token nobody should have chosen costs whoever moves it, and nobody else: what it refuses is refused by name, and the books go on.
contract HostileTokensTest is Test, ITokenHook {
    ExposureId private constant BOND = ExposureId.wrap("bond");
    TaskId private constant TASK = TaskId.wrap("task");

    StubbornToken private token;
    StakeVault private vault;
    HostileToken private hooked;
    StakeVault private hookedVault;
    address private alice = actor("alice");
    address private bob = actor("bob");
    bytes[] private attacks;
    uint256 private refusals;

    function setUp() public {
        (token, hooked) = (new StubbornToken(), new HostileToken());
        (vault, hookedVault) = (_vaultOf(address(token)), _vaultOf(address(hooked)));
        _deposit(alice, 100);
        _deposit(bob, 100);
        vault.expose(BOND, alice, 50);
    }

    function _vaultOf(address token_) private returns (StakeVault) {
        address[] memory modules = new address[](1);
        modules[0] = address(this);
        return new StakeVault(IERC20(token_), 1, modules);
    }

    function _deposit(address account, uint256 amountWei) private {
        token.mint(account, amountWei);
        vm.prank(account);
        vault.deposit(amountWei);
    }

    function _unbond(address account, uint256 amountWei) private {
        vm.prank(account);
        vault.requestUnbond(amountWei);
        vm.roll(vm.getBlockNumber() + 1);
    }

    function _refused(address account, bytes memory call, bytes memory reason) private {
        vm.prank(account);
        vm.expectRevert(reason);
        (bool ok,) = address(vault).call(call);
        assertTrue(ok, "the expectation was met");
    }

    // Tokens that answer false ------------------------------------------------------------------------------------
    function test_deposit_falseToken_reverts() public {
        token.setMood(StubbornToken.Mood.FALSE);
        bytes memory reason = abi.encodeWithSelector(SafeERC20.SafeERC20FailedOperation.selector, token);
        _refused(alice, abi.encodeCall(vault.deposit, (1)), reason);
        vm.expectRevert(reason);
        vault.fundEscrow(TASK, alice, 1);
        assertEq(vault.stakeOf(alice), 100, "nothing was counted");
    }

    function test_withdraw_falseToken_keepsTheBooks_succeeds() public {
        _unbond(bob, 100);
        token.setMood(StubbornToken.Mood.FALSE);
        bytes memory reason = abi.encodeWithSelector(SafeERC20.SafeERC20FailedOperation.selector, token);
        _refused(bob, abi.encodeCall(vault.withdraw, ()), reason);
        token.setMood(StubbornToken.Mood.FINE);
        vm.prank(bob);
        vault.withdraw();
        assertEq(token.balanceOf(bob), 100, "paid in the end");
    }

    // Tokens that revert ------------------------------------------------------------------------------------------
    /// @dev No verdict, slash or payment moves a token: none can be held up by it.
    function test_slash_revertingToken_goesOn_succeeds() public {
        vault.fundEscrow(TASK, bob, 0);
        token.setMood(StubbornToken.Mood.REVERTS);
        vault.slash(BOND, bob, 10, address(0), 0, "wrong");
        vault.expose(BOND, bob, 50);
        vault.forfeit(BOND, alice, 20, "lost");
        vault.pay(TASK, alice, 0, "work");
        vault.closeEscrow(TASK, alice);
        _refused(alice, abi.encodeCall(vault.claim, ()), abi.encodeWithSelector(StubbornToken.Stubborn.selector, alice));
        assertEq(vault.creditOf(alice), 20, "the credit stays");
        token.setMood(StubbornToken.Mood.FINE);
        vm.prank(alice);
        vault.claim();
        vault.burn();
        assertEq(token.balanceOf(address(vault)), vault.stakeOf(alice) + vault.stakeOf(bob) + vault.creditOf(bob), "solvency");
    }

    /// @dev A token that refuses one account, be it the one where burned tokens go, hinders nobody else.
    function test_burn_blockedAddress_hindersNobody_succeeds() public {
        vault.slash(BOND, bob, 10, address(0), 0, "wrong");
        token.setBlocked(vault.DEAD());
        vm.expectRevert(abi.encodeWithSelector(StubbornToken.Stubborn.selector, vault.DEAD()));
        vault.burn();
        assertEq(vault.burnPending(), 40, "what is to be burned stays so");
        _unbond(alice, 50);
        vm.prank(alice);
        vault.withdraw();
        vm.prank(bob);
        vault.claim();
        assertEq(token.balanceOf(alice) + token.balanceOf(bob), 60, "both were paid");
    }

    /// @dev Tokens of the first years answer nothing.
    function test_deposit_silentToken_succeeds() public {
        token.setMood(StubbornToken.Mood.SILENT);
        _deposit(alice, 7);
        _unbond(bob, 100);
        vm.prank(bob);
        vault.withdraw();
        assertEq(vault.stakeOf(alice), 107, "counted");
        assertEq(token.balanceOf(bob), 100, "paid");
    }

    // Tokens with hooks -------------------------------------------------------------------------------------------
    function onTransfer(address, address) external {
        for (uint256 i = 0; i < attacks.length; ++i) {
            (bool ok, bytes memory answer) = address(hookedVault).call(attacks[i]);
            if (!ok && bytes4(answer) == ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector) ++refusals;
        }
    }

    /// @dev From within each call that moves tokens, every other call that does is refused.
    function test_everyTokenMove_reentrant_isRefused() public {
        hooked.mint(address(this), 1000);
        hooked.approve(address(hookedVault), 1000);
        hookedVault.deposit(300);
        hookedVault.expose(BOND, address(this), 100);
        hookedVault.forfeit(BOND, address(this), 100, "lost");
        hookedVault.requestUnbond(100);
        vm.roll(vm.getBlockNumber() + 1);
        attacks.push(abi.encodeCall(hookedVault.deposit, (1)));
        attacks.push(abi.encodeCall(hookedVault.withdraw, ()));
        attacks.push(abi.encodeCall(hookedVault.claim, ()));
        attacks.push(abi.encodeCall(hookedVault.burn, ()));
        attacks.push(abi.encodeCall(hookedVault.fundEscrow, (TASK, address(this), 1)));
        hooked.setHook(this);
        hookedVault.deposit(100);
        hookedVault.withdraw();
        hookedVault.claim();
        hookedVault.fundEscrow(TASK, address(this), 50);
        assertEq(refusals, 4 * attacks.length, "all of them");
        uint256 owedWei = hookedVault.stakeOf(address(this)) + hookedVault.escrowOf(TASK);
        assertEq(hooked.balanceOf(address(hookedVault)), owedWei, "solvency");
    }

    /// @dev A hook that gives the vault more than was asked for spoils its own deposit alone.
    function test_deposit_feeToken_inEscrowAndStake_reverts() public {
        hooked.mint(address(this), 1000);
        hooked.approve(address(hookedVault), 1000);
        hooked.setFee(1);
        vm.expectRevert(abi.encodeWithSelector(IStakeVault.WrongReceipt.selector, 10, 9));
        hookedVault.deposit(10);
        vm.expectRevert(abi.encodeWithSelector(IStakeVault.WrongReceipt.selector, 10, 9));
        hookedVault.fundEscrow(TASK, address(this), 10);
        assertEq(hookedVault.stakeOf(address(this)), 0, "nothing was counted");
    }
}
