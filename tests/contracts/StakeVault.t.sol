// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {ExposureId, TaskId} from "../../contracts/Types.sol";
import {StakeVault} from "../../contracts/StakeVault.sol";
import {DevToken} from "../../contracts/devnet/DevToken.sol";
import {IStakeVault} from "../../contracts/interfaces/IStakeVault.sol";
import {HostileToken, ITokenHook} from "./Mocks.sol";
import {Test} from "./Test.sol";

contract StakeVaultTest is Test {
    uint256 private constant UNBONDING = 100;
    ExposureId private constant BOND = ExposureId.wrap("bond");
    ExposureId private constant OTHER = ExposureId.wrap("other");
    TaskId private constant TASK = TaskId.wrap("task");

    DevToken private token;
    StakeVault private vault;
    address private alice = actor("alice");
    address private finder = actor("finder");
    address private submitter = actor("submitter");

    function setUp() public {
        token = new DevToken();
        address[] memory modules = new address[](1);
        modules[0] = address(this);
        vault = new StakeVault(token, UNBONDING, modules);
    }

    function _deposit(address account, uint256 amountWei) private {
        token.mint(account, amountWei);
        vm.startPrank(account);
        token.approve(address(vault), amountWei);
        vault.deposit(amountWei);
        vm.stopPrank();
    }

    function _unbond(address account, uint256 amountWei) private {
        vm.prank(account);
        vault.requestUnbond(amountWei);
    }

    function _withdraw(address account) private {
        vm.prank(account);
        vault.withdraw();
    }

    // Accounts ----------------------------------------------------------------------------------------------------
    function testFuzz_deposit_anyAmount_isFree(uint128 amountWei) public {
        vm.assume(amountWei > 0);
        _deposit(alice, amountWei);
        assertEq(vault.stakeOf(alice), amountWei, "stake");
        assertEq(vault.freeOf(alice), amountWei, "free");
        assertEq(token.balanceOf(address(vault)), amountWei, "balance");
    }

    function test_deposit_zero_reverts() public {
        vm.prank(alice);
        vm.expectRevert(abi.encodeWithSelector(IStakeVault.ZeroAmount.selector, alice));
        vault.deposit(0);
    }

    function _signPermit(uint256 key, uint256 amountWei)
        private
        view
        returns (uint8 v, bytes32 r, bytes32 s)
    {
        bytes32 permit = keccak256(
            "Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)"
        );
        address owner = vm.addr(key);
        bytes32 message = keccak256(
            abi.encode(permit, owner, address(vault), amountWei, token.nonces(owner), block.timestamp)
        );
        return vm.sign(key, keccak256(abi.encodePacked(hex"1901", token.DOMAIN_SEPARATOR(), message)));
    }

    function testFuzz_depositWithPermit_frontRun_stillDeposits(uint128 amountWei, bool frontRun) public {
        vm.assume(amountWei > 0);
        uint256 key = 0xa11ce;
        address owner = vm.addr(key);
        token.mint(owner, amountWei);
        (uint8 v, bytes32 r, bytes32 s) = _signPermit(key, amountWei);
        if (frontRun) token.permit(owner, address(vault), amountWei, block.timestamp, v, r, s);
        vm.prank(owner);
        vault.depositWithPermit(amountWei, block.timestamp, v, r, s);
        assertEq(vault.stakeOf(owner), amountWei, "deposited");
    }

    function testFuzz_withdraw_afterUnbonding_paysOut(uint128 amountWei, uint256 part) public {
        vm.assume(amountWei > 0);
        _deposit(alice, amountWei);
        part = bound(part, 1, amountWei);
        _unbond(alice, part);
        assertEq(vault.freeOf(alice), amountWei - part, "backs nothing new");
        vm.roll(block.number + UNBONDING);
        _withdraw(alice);
        assertEq(token.balanceOf(alice), part, "paid");
        assertEq(vault.stakeOf(alice), amountWei - part, "left");
    }

    function testFuzz_withdraw_early_reverts(uint256 blocks) public {
        _deposit(alice, 10);
        _unbond(alice, 10);
        uint256 readyBlock = block.number + UNBONDING;
        vm.roll(block.number + bound(blocks, 0, UNBONDING - 1));
        vm.expectRevert(
            abi.encodeWithSelector(IStakeVault.NothingToWithdraw.selector, alice, readyBlock, block.number)
        );
        _withdraw(alice);
    }

    function test_requestUnbond_moreThanStake_reverts() public {
        _deposit(alice, 10);
        _unbond(alice, 4);
        vm.expectRevert(abi.encodeWithSelector(IStakeVault.TooLittleStake.selector, alice, 6, 7));
        _unbond(alice, 7);
    }

    function testFuzz_withdraw_exposedStake_cannotLeave(uint96 stakeWei, uint256 exposedWei) public {
        vm.assume(stakeWei > 1);
        exposedWei = bound(exposedWei, 1, stakeWei);
        _deposit(alice, stakeWei);
        vault.expose(BOND, alice, exposedWei);
        _unbond(alice, stakeWei);
        vm.roll(block.number + UNBONDING);
        if (exposedWei == stakeWei) vm.expectRevert();
        _withdraw(alice);
        assertEq(vault.stakeOf(alice) >= exposedWei, true, "exposed stake stays");
        vault.release(BOND);
        _withdraw(alice);
        assertEq(token.balanceOf(alice), stakeWei, "all of it once released");
    }

    /// @dev Livepeer #162 (unbonded stake became unslashable), EigenLayer (a withdrawal that reverts after a slash).
    function testFuzz_slash_unbondingStake_staysSlashable(
        uint96 stakeWei,
        uint256 exposedWei,
        uint256 unbondWei
    ) public {
        vm.assume(stakeWei > 0);
        exposedWei = bound(exposedWei, 1, stakeWei);
        unbondWei = bound(unbondWei, 1, stakeWei);
        _deposit(alice, stakeWei);
        vault.expose(BOND, alice, exposedWei);
        _unbond(alice, unbondWei);
        assertEq(vault.slash(BOND, address(0), 0, address(0), 0, "wrong"), exposedWei, "the whole exposure");
        vm.roll(block.number + UNBONDING);
        uint256 leftWei = stakeWei - exposedWei;
        if (leftWei == 0) return;
        _withdraw(alice);
        assertEq(
            token.balanceOf(alice), unbondWei < leftWei ? unbondWei : leftWei, "what is left of it leaves"
        );
    }

    function test_slash_allUnbonding_doesNotEatTheNextDeposit() public {
        _deposit(alice, 100);
        vault.expose(BOND, alice, 80);
        _unbond(alice, 100);
        vault.slash(BOND, address(0), 0, address(0), 0, "wrong");
        _deposit(alice, 50);
        assertEq(vault.freeOf(alice), 50, "new stake is free");
    }

    // Exposures ---------------------------------------------------------------------------------------------------
    function testFuzz_expose_twoExposures_shareNothing(uint96 stakeWei, uint256 first, uint256 second)
        public
    {
        first = bound(first, 1, uint256(stakeWei) + 1);
        second = bound(second, 1, uint256(stakeWei) + 1);
        if (stakeWei > 0) _deposit(alice, stakeWei);
        if (first > stakeWei) {
            vm.expectRevert(
                abi.encodeWithSelector(IStakeVault.TooLittleStake.selector, alice, stakeWei, first)
            );
        }
        vault.expose(BOND, alice, first);
        if (first > stakeWei) return;
        uint256 free = stakeWei - first;
        if (second > free) {
            vm.expectRevert(abi.encodeWithSelector(IStakeVault.TooLittleStake.selector, alice, free, second));
        }
        vault.expose(OTHER, alice, second);
        assertTrue(vault.lockedOf(alice) <= stakeWei, "no unit backs two exposures");
    }

    function test_expose_sameName_reverts() public {
        _deposit(alice, 10);
        vault.expose(BOND, alice, 1);
        vm.expectRevert(abi.encodeWithSelector(IStakeVault.ExposureExists.selector, BOND));
        vault.expose(BOND, alice, 1);
    }

    function test_end_twice_reverts() public {
        _deposit(alice, 10);
        vault.expose(BOND, alice, 4);
        vault.slash(BOND, finder, 10, submitter, 10, "wrong");
        bytes memory unknown = abi.encodeWithSelector(IStakeVault.ExposureUnknown.selector, BOND);
        vm.expectRevert(unknown);
        vault.slash(BOND, finder, 10, submitter, 10, "wrong");
        vm.expectRevert(unknown);
        vault.release(BOND);
        vm.expectRevert(unknown);
        vault.forfeit(BOND, finder, 1, "again");
        vm.expectRevert(unknown);
        vault.burnFee(BOND, 1, "again");
    }

    /// @dev An exposure is one word. More of one has no room, and is refused rather than cut.
    function test_expose_beyond96Bits_reverts() public {
        uint256 most = type(uint96).max;
        _deposit(alice, 2 * most);
        vm.expectRevert(
            abi.encodeWithSelector(SafeCast.SafeCastOverflowedUintDowncast.selector, 96, most + 1)
        );
        vault.expose(OTHER, alice, most + 1);
        vault.expose(BOND, alice, most);
        assertEq(vault.lockedOf(alice), most, "all of it");
        vault.slash(BOND, address(0), 0, address(0), 0, "wrong");
        assertEq(vault.burnPending(), most, "all of it");
    }

    function testFuzz_slash_anySplit_burnsAtLeastHalf(
        uint96 amountWei,
        uint256 finderCap,
        uint256 submitterCap
    ) public {
        vm.assume(amountWei > 0);
        _deposit(alice, uint256(amountWei) + 7);
        vault.expose(BOND, alice, amountWei);
        vault.slash(BOND, finder, finderCap, submitter, submitterCap, "wrong");
        uint256 paidWei = vault.creditOf(finder) + vault.creditOf(submitter);
        assertTrue(vault.creditOf(finder) <= finderCap && vault.creditOf(submitter) <= submitterCap, "caps");
        assertTrue(vault.burnPending() * 2 >= amountWei, "half is burned");
        assertEq(vault.burnPending() + paidWei, amountWei, "conservation");
        assertEq(vault.stakeOf(alice), 7, "nothing else is touched");
        assertEq(vault.lockedOf(alice), 0, "nothing stays locked");
    }

    function test_slash_nobodyToPay_burnsAll() public {
        _deposit(alice, 100);
        vault.expose(BOND, alice, 100);
        vault.slash(BOND, address(0), 100, address(0), 100, "silent");
        assertEq(vault.burnPending(), 100, "burned");
        vault.burn();
        assertEq(token.balanceOf(vault.DEAD()), 100, "gone");
    }

    function testFuzz_burnFee_thenSlash_takesOnlyTheExposure(uint96 amountWei, uint256 feeWei) public {
        vm.assume(amountWei > 0);
        _deposit(alice, amountWei);
        vault.expose(BOND, alice, amountWei);
        uint256 burnedWei = vault.burnFee(BOND, feeWei, "no-show");
        assertEq(burnedWei, feeWei < amountWei ? feeWei : amountWei, "at most what is left");
        assertEq(vault.slash(BOND, address(0), 0, address(0), 0, "wrong"), amountWei - burnedWei, "the rest");
        assertEq(vault.stakeOf(alice), 0, "never more than the exposure");
    }

    function testFuzz_forfeit_part_goesToTheOther(uint96 amountWei, uint256 toWei) public {
        vm.assume(amountWei > 0);
        _deposit(alice, amountWei);
        vault.expose(BOND, alice, amountWei);
        vault.forfeit(BOND, finder, toWei, "lost");
        assertEq(vault.creditOf(finder), toWei < amountWei ? toWei : amountWei, "moved");
        assertEq(vault.creditOf(finder) + vault.burnPending(), amountWei, "conservation");
    }

    function test_modulesOnly_strangers_revert() public {
        bytes memory refused = abi.encodeWithSelector(IStakeVault.NotModule.selector, alice);
        vm.startPrank(alice);
        vm.expectRevert(refused);
        vault.expose(BOND, alice, 1);
        vm.expectRevert(refused);
        vault.release(BOND);
        vm.expectRevert(refused);
        vault.slash(BOND, alice, 1, alice, 1, "");
        vm.expectRevert(refused);
        vault.burnFee(BOND, 1, "");
        vm.expectRevert(refused);
        vault.forfeit(BOND, alice, 1, "");
        vm.expectRevert(refused);
        vault.fundEscrow(TASK, alice, 1);
        vm.expectRevert(refused);
        vault.pay(TASK, alice, 1, "");
        vm.expectRevert(refused);
        vault.burnEscrow(TASK, 1, "");
        vm.expectRevert(refused);
        vault.closeEscrow(TASK, alice);
        vm.stopPrank();
    }

    // Escrows -----------------------------------------------------------------------------------------------------
    function testFuzz_escrow_paidAndClosed_isConserved(uint128 escrowWei, uint256 payWei) public {
        payWei = bound(payWei, 0, escrowWei);
        token.mint(submitter, escrowWei);
        vm.prank(submitter);
        token.approve(address(vault), escrowWei);
        vault.fundEscrow(TASK, submitter, escrowWei);
        assertEq(vault.pay(TASK, alice, payWei, "work"), payWei, "paid");
        assertEq(vault.closeEscrow(TASK, submitter), escrowWei - payWei, "the rest");
        assertEq(vault.creditOf(alice) + vault.creditOf(submitter), escrowWei, "conservation");
        assertEq(vault.pay(TASK, alice, 1, "late"), 0, "a closed escrow pays nothing and does not revert");
    }

    function testFuzz_burnEscrow_burnsItAndNoMore(uint128 escrowWei, uint256 burnWei) public {
        burnWei = bound(burnWei, 0, escrowWei);
        token.mint(submitter, escrowWei);
        vm.prank(submitter);
        token.approve(address(vault), escrowWei);
        vault.fundEscrow(TASK, submitter, escrowWei);
        vm.expectEmit(true, true, true, true, address(vault));
        emit IStakeVault.EscrowBurned(TASK, burnWei, "void");
        assertEq(vault.burnEscrow(TASK, burnWei, "void"), burnWei, "burned");
        assertEq(vault.burnPending(), burnWei, "to be burned");
        assertEq(vault.escrowOf(TASK), escrowWei - burnWei, "the rest stays");
        assertEq(vault.closeEscrow(TASK, submitter), escrowWei - burnWei, "the rest");
        assertEq(vault.burnEscrow(TASK, 1, "late"), 0, "of a closed escrow nothing, and it does not revert");
        assertEq(vault.burnPending(), burnWei, "and nothing more");
    }

    function test_burnEscrow_tooMuch_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(IStakeVault.EscrowTooSmall.selector, TASK, 0, 1));
        vault.burnEscrow(TASK, 1, "void");
    }

    function test_pay_tooMuch_reverts() public {
        vm.expectRevert(abi.encodeWithSelector(IStakeVault.EscrowTooSmall.selector, TASK, 0, 1));
        vault.pay(TASK, alice, 1, "work");
    }

    function test_claim_once_paysOnce() public {
        _deposit(alice, 100);
        vault.expose(BOND, alice, 100);
        vault.forfeit(BOND, finder, 60, "lost");
        vm.startPrank(finder);
        vault.claim();
        assertEq(token.balanceOf(finder), 60, "paid");
        vm.expectRevert(abi.encodeWithSelector(IStakeVault.ZeroAmount.selector, finder));
        vault.claim();
        vm.stopPrank();
    }
}

/// @dev The vault under a token that nobody should have chosen.
contract HostileTokenTest is Test, ITokenHook {
    HostileToken private token;
    StakeVault private vault;
    bytes private attack;
    bool private refused;

    function setUp() public {
        token = new HostileToken();
        address[] memory modules = new address[](1);
        modules[0] = address(this);
        vault = new StakeVault(IERC20(address(token)), 1, modules);
        token.mint(address(this), 1000);
        token.approve(address(vault), 1000);
    }

    function onTransfer(address, address) external {
        if (attack.length == 0) return;
        (bool ok, bytes memory answer) = address(vault).call(attack);
        refused = !ok && bytes4(answer) == ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector;
    }

    function test_deposit_feeToken_reverts() public {
        token.setFee(1);
        vm.expectRevert(abi.encodeWithSelector(IStakeVault.WrongReceipt.selector, 100, 99));
        vault.deposit(100);
        vm.expectRevert(abi.encodeWithSelector(IStakeVault.WrongReceipt.selector, 100, 99));
        vault.fundEscrow(TaskId.wrap("task"), address(this), 100);
    }

    function _prepareCredit() private {
        vault.deposit(100);
        vault.expose(ExposureId.wrap("bond"), address(this), 50);
        vault.forfeit(ExposureId.wrap("bond"), address(this), 50, "lost");
        vault.requestUnbond(50);
        vm.roll(block.number + 1);
        token.setHook(this);
    }

    function test_claim_reentrant_paysOnce() public {
        _prepareCredit();
        attack = abi.encodeCall(vault.claim, ());
        vault.claim();
        assertTrue(refused, "second entry refused");
        assertEq(token.balanceOf(address(this)), 950, "paid once");
    }

    function test_withdraw_reentrant_paysOnce() public {
        _prepareCredit();
        attack = abi.encodeCall(vault.withdraw, ());
        vault.withdraw();
        assertTrue(refused, "second entry refused");
        assertEq(token.balanceOf(address(this)), 950, "paid once");
    }

    function test_deposit_reentrant_countsOnce() public {
        _prepareCredit();
        attack = abi.encodeCall(vault.claim, ());
        vault.deposit(10);
        assertTrue(refused, "no claim inside a deposit");
        assertEq(vault.stakeOf(address(this)), 60, "counted once");
    }
}
