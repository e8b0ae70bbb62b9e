// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ExposureId, TaskId} from "../../contracts/Types.sol";
import {StakeVault} from "../../contracts/StakeVault.sol";
import {DevToken} from "../../contracts/devnet/DevToken.sol";
import {Test} from "./Test.sol";

/// @title Accounts and a module that do everything the vault allows, in any order.
/// @dev Every call is shaped so that it succeeds: a run that mostly reverts proves nothing.
contract VaultHandler is Test {
    uint256 private constant UNBONDING = 50;
    uint256 private constant ACTORS = 4;
    TaskId public constant TASK = TaskId.wrap("task");

    DevToken public immutable token = new DevToken();
    StakeVault public immutable vault;
    ExposureId[] public exposures;
    uint256 public names;
    uint256 public burnedWei;
    mapping(string => uint256) public done;

    constructor() {
        address[] memory modules = new address[](1);
        modules[0] = address(this);
        vault = new StakeVault(token, UNBONDING, modules);
    }

    function actorAt(uint256 seed) public pure returns (address) {
        return address(uint160(0xbeef00 + seed % ACTORS));
    }

    function exposureCount() external view returns (uint256) {
        return exposures.length;
    }

    function deposit(uint256 seed, uint96 amountWei) external {
        address account = actorAt(seed);
        uint256 wei_ = uint256(amountWei) + 1;
        token.mint(account, wei_);
        vm.startPrank(account);
        token.approve(address(vault), wei_);
        vault.deposit(wei_);
        vm.stopPrank();
        ++done["deposit"];
    }

    function requestUnbond(uint256 seed, uint256 amountWei) external {
        address account = actorAt(seed);
        (uint256 unbondingWei,) = vault.unbondingOf(account);
        uint256 most = vault.stakeOf(account) - unbondingWei;
        if (most == 0) return;
        vm.prank(account);
        vault.requestUnbond(bound(amountWei, 1, most));
        ++done["requestUnbond"];
    }

    function withdraw(uint256 seed, uint8 blocks) external {
        vm.roll(block.number + blocks);
        address account = actorAt(seed);
        (uint256 unbondingWei, uint256 readyBlock) = vault.unbondingOf(account);
        bool nothing = unbondingWei == 0 || vault.stakeOf(account) == vault.lockedOf(account);
        if (nothing || block.number < readyBlock) return;
        vm.prank(account);
        vault.withdraw();
        ++done["withdraw"];
    }

    function expose(uint256 seed, uint256 amountWei) external {
        address account = actorAt(seed);
        uint256 free = vault.freeOf(account);
        if (free == 0) return;
        ExposureId name = ExposureId.wrap(bytes32(++names));
        vault.expose(name, account, bound(amountWei, 1, free));
        exposures.push(name);
        ++done["expose"];
    }

    function _take(uint256 seed) private returns (ExposureId name) {
        uint256 index = seed % exposures.length;
        name = exposures[index];
        exposures[index] = exposures[exposures.length - 1];
        exposures.pop();
    }

    function release(uint256 seed) external {
        if (exposures.length == 0) return;
        vault.release(_take(seed));
        ++done["release"];
    }

    function slash(uint256 seed, uint256 finderCapWei, uint256 submitterCapWei) external {
        if (exposures.length == 0) return;
        address finder = seed % 3 == 0 ? address(0) : actorAt(seed);
        vault.slash(_take(seed), finder, finderCapWei, actorAt(seed + 1), submitterCapWei, "wrong");
        ++done["slash"];
    }

    function burnFee(uint256 seed, uint256 amountWei) external {
        if (exposures.length == 0) return;
        vault.burnFee(exposures[seed % exposures.length], amountWei, "no-show");
        ++done["burnFee"];
    }

    function forfeit(uint256 seed, uint256 toWei) external {
        if (exposures.length == 0) return;
        vault.forfeit(_take(seed), actorAt(seed), toWei, "lost");
        ++done["forfeit"];
    }

    function fundEscrow(uint256 seed, uint96 amountWei) external {
        address account = actorAt(seed);
        token.mint(account, amountWei);
        vm.prank(account);
        token.approve(address(vault), amountWei);
        vault.fundEscrow(TASK, account, amountWei);
        ++done["fundEscrow"];
    }

    function pay(uint256 seed, uint256 amountWei) external {
        vault.pay(TASK, actorAt(seed), bound(amountWei, 0, vault.escrowOf(TASK)), "work");
        ++done["pay"];
    }

    function burnEscrow(uint256 amountWei) external {
        vault.burnEscrow(TASK, bound(amountWei, 0, vault.escrowOf(TASK)), "void");
        ++done["burnEscrow"];
    }

    function claim(uint256 seed) external {
        address account = actorAt(seed);
        if (vault.creditOf(account) == 0) return;
        vm.prank(account);
        vault.claim();
        ++done["claim"];
    }

    function burn() external {
        if (vault.burnPending() == 0) return;
        vault.burn();
        ++done["burn"];
    }

    function sumOf(function(address) external view returns (uint256) part)
        private
        view
        returns (uint256 sum)
    {
        for (uint256 i = 0; i < ACTORS; ++i) {
            sum += part(actorAt(i));
        }
    }

    function owedWei() external view returns (uint256) {
        return sumOf(vault.stakeOf) + sumOf(vault.creditOf) + vault.escrowOf(TASK) + vault.burnPending();
    }

    function exposedWei(address owner) external view returns (uint256 sum) {
        for (uint256 i = 0; i < exposures.length; ++i) {
            (address account, uint256 amountWei) = vault.exposureOf(exposures[i]);
            if (account == owner) sum += amountWei;
        }
    }
}

contract StakeVaultInvariantTest is Test {
    VaultHandler private handler;
    StakeVault private vault;

    function setUp() public {
        handler = new VaultHandler();
        vault = handler.vault();
    }

    function targetContracts() external view returns (address[] memory targets) {
        targets = new address[](1);
        targets[0] = address(handler);
    }

    function invariant_solvency() public view {
        assertEq(
            handler.token().balanceOf(address(vault)),
            handler.owedWei(),
            "balance == stakes + credits + escrows + burns"
        );
    }

    function invariant_lockIdentity() public view {
        for (uint256 i = 0; i < 4; ++i) {
            address account = handler.actorAt(i);
            assertEq(vault.lockedOf(account), handler.exposedWei(account), "locked == sum of exposures");
        }
    }

    function invariant_noRehypothecation() public view {
        for (uint256 i = 0; i < 4; ++i) {
            address account = handler.actorAt(i);
            (uint256 unbondingWei,) = vault.unbondingOf(account);
            assertTrue(vault.lockedOf(account) <= vault.stakeOf(account), "locked stake is there");
            assertTrue(unbondingWei <= vault.stakeOf(account), "unbonding stake is there");
        }
    }

    /// @dev The handler's moves must happen, or the invariants above were never tried.
    function test_handler_everyMove_succeeds() public {
        for (uint256 i = 0; i < 400; ++i) {
            uint256 seed = uint256(keccak256(abi.encode(i)));
            if (i % 4 == 0) handler.deposit(seed, uint96(seed));
            if (i % 3 == 0) handler.fundEscrow(seed, uint96(seed >> 8));
            handler.expose(seed >> 1, seed % 1e18);
            if (i % 5 == 0) handler.requestUnbond(seed >> 2, seed % 1e9);
            if (i % 6 == 0) handler.release(seed);
            if (i % 7 == 0) handler.slash(seed, seed >> 3, seed >> 4);
            if (i % 8 == 0) handler.forfeit(seed, seed >> 5);
            handler.burnFee(seed, seed % 1e6);
            handler.pay(seed, seed % 1e9);
            handler.burnEscrow(seed % 1e9);
            handler.withdraw(seed, uint8(seed));
            handler.claim(seed);
            handler.burn();
        }
        string[13] memory moves = [
            "deposit",
            "requestUnbond",
            "withdraw",
            "expose",
            "release",
            "slash",
            "burnFee",
            "forfeit",
            "fundEscrow",
            "pay",
            "burnEscrow",
            "claim",
            "burn"
        ];
        for (uint256 i = 0; i < moves.length; ++i) {
            assertTrue(handler.done(moves[i]) >= 20, moves[i]);
        }
        invariant_solvency();
        invariant_lockIdentity();
        invariant_noRehypothecation();
    }
}
