// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {ExposureId, TaskId} from "../../contracts/Types.sol";
import {StakeVault} from "../../contracts/StakeVault.sol";
import {IStakeVault} from "../../contracts/interfaces/IStakeVault.sol";
import {HostileToken, ITokenHook} from "./Mocks.sol";
import {Test} from "./Test.sol";

/// @title Where the vault says no: nothing to do, a name that is taken, a token that calls back.
contract StakeVaultEdgesTest is Test, ITokenHook {
    ExposureId private constant BOND = ExposureId.wrap("bond");
    TaskId private constant TASK = TaskId.wrap("task");

    HostileToken private token;
    StakeVault private vault;
    bytes private attack;
    uint256 private refusals;

    function setUp() public {
        token = new HostileToken();
        address[] memory modules = new address[](1);
        modules[0] = address(this);
        vault = new StakeVault(IERC20(address(token)), 5, modules);
        token.mint(address(this), 1000);
        token.approve(address(vault), 1000);
        vault.deposit(100);
    }

    function onTransfer(address, address) external {
        if (attack.length == 0) return;
        (bool ok, bytes memory answer) = address(vault).call(attack);
        bool guarded = bytes4(answer) == ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector;
        if (!ok && guarded) ++refusals;
    }

    function _zero(address account) private pure returns (bytes memory) {
        return abi.encodeWithSelector(IStakeVault.ZeroAmount.selector, account);
    }

    function test_zero_anything_reverts() public {
        vm.expectRevert(_zero(address(this)));
        vault.requestUnbond(0);
        vm.expectRevert(_zero(address(this)));
        vault.expose(BOND, address(this), 0);
        vm.expectRevert(_zero(vault.DEAD()));
        vault.burn();
        vm.expectRevert(_zero(address(this)));
        vault.claim();
    }

    function test_withdraw_nothingUnbonding_reverts() public {
        vm.roll(block.number + 5);
        vm.expectRevert(
            abi.encodeWithSelector(IStakeVault.NothingToWithdraw.selector, address(this), 0, block.number)
        );
        vault.withdraw();
    }

    function test_withdraw_atTheReadyBlock_pays() public {
        vault.requestUnbond(100);
        (, uint256 readyBlock) = vault.unbondingOf(address(this));
        assertEq(readyBlock, block.number + 5, "from now on");
        vm.roll(readyBlock);
        vault.withdraw();
        assertEq(token.balanceOf(address(this)), 1000, "all of it");
    }

    function test_requestUnbond_again_startsTheClockAgain() public {
        vault.requestUnbond(40);
        vm.roll(block.number + 4);
        vault.requestUnbond(60);
        (uint256 amountWei, uint256 readyBlock) = vault.unbondingOf(address(this));
        assertEq(amountWei, 100, "both");
        assertEq(readyBlock, block.number + 5, "one clock");
    }

    function test_slash_partly_leavesTheUnbondingThatIsLeft() public {
        vault.expose(BOND, address(this), 30);
        vault.requestUnbond(50);
        vault.slash(BOND, address(0), 0, address(0), 0, "wrong");
        (uint256 amountWei,) = vault.unbondingOf(address(this));
        assertEq(amountWei, 50, "there is enough left for what was announced");
        assertEq(vault.freeOf(address(this)), 20, "the rest is free");
    }

    function test_closeEscrow_twice_paysOnce() public {
        vault.fundEscrow(TASK, address(this), 100);
        vault.closeEscrow(TASK, address(this));
        assertTrue(vault.isClosed(TASK), "closed");
        assertEq(vault.closeEscrow(TASK, address(this)), 0, "nothing is left");
        assertEq(vault.creditOf(address(this)), 100, "paid once");
    }

    function test_pay_nobody_keepsTheEscrow() public {
        vault.fundEscrow(TASK, address(this), 100);
        assertEq(vault.pay(TASK, address(0), 60, "work"), 0, "nobody is paid");
        assertEq(vault.escrowOf(TASK), 100, "the escrow keeps it");
        assertEq(vault.pay(TASK, address(this), 100, "work"), 100, "all there is");
    }

    function test_burn_takesWhatIsPendingOnce() public {
        vault.expose(BOND, address(this), 10);
        vault.slash(BOND, address(0), 0, address(0), 0, "wrong");
        vault.burn();
        assertEq(token.balanceOf(vault.DEAD()), 10, "burned");
        assertEq(vault.burnPending(), 0, "nothing is pending");
    }

    /// @dev Whoever calls back into a move of tokens is refused, whichever move it is.
    function test_everyTokenCall_reentrant_isRefused() public {
        vault.expose(BOND, address(this), 50);
        vault.forfeit(BOND, address(this), 20, "lost");
        token.setHook(this);
        address dead = vault.DEAD();
        vm.prank(dead);
        token.setHook(this);
        attack = abi.encodeCall(vault.claim, ());
        vault.burn();
        assertEq(refusals, 1, "inside a burn");
        vault.depositWithPermit(10, block.timestamp, 0, 0, 0);
        assertEq(refusals, 2, "inside a deposit with permit");
        vault.fundEscrow(TASK, address(this), 10);
        assertEq(refusals, 3, "inside the funding of an escrow");
        vault.deposit(10);
        assertEq(refusals, 4, "inside a deposit");
        attack = abi.encodeCall(vault.burn, ());
        vault.claim();
        assertEq(refusals, 5, "inside a claim");
    }
}
