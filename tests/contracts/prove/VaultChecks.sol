// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {ExposureId, TaskId} from "../../../contracts/Types.sol";
import {StakeVault} from "../../../contracts/StakeVault.sol";
import {Vm} from "../Vm.sol";

/// @title A token that does what a token says, and no more.
contract ProofToken {
    mapping(address => uint256) public balanceOf;

    function mint(address to, uint256 amountWei) external {
        balanceOf[to] += amountWei;
    }

    function transfer(address to, uint256 amountWei) external returns (bool) {
        return transferFrom(msg.sender, to, amountWei);
    }

    function transferFrom(address from, address to, uint256 amountWei) public returns (bool) {
        balanceOf[from] -= amountWei;
        balanceOf[to] += amountWei;
        return true;
    }
}

/// @notice One call to the vault: which, by or about whom, for which exposure, with which amounts.
struct Move {
    uint8 kind;
    uint8 account;
    uint8 finder;
    uint8 submitter;
    bool second;
    uint256 amountWei;
    uint256 finderCapWei;
    uint256 submitterCapWei;
}

/// @title What one call may do to the vault, whatever its state: the inductive steps of the money's invariants.
/// @dev Three accounts, two exposures and one task stand for all: a call names no more of them, and what it does not name it
/// must leave alone. `_enter` makes the state: any at all for the prover, a reachable one for the fuzzer. A call that reverts
/// changes nothing. The checks use `assert`: the prover looks for its panic.
abstract contract VaultChecks {
    Vm internal constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
    uint8 internal constant DEPOSIT = 0;
    uint8 internal constant UNBOND = 1;
    uint8 internal constant WITHDRAW = 2;
    uint8 internal constant CLAIM = 3;
    uint8 internal constant BURN = 4;
    uint8 internal constant EXPOSE = 5;
    uint8 internal constant RELEASE = 6;
    uint8 internal constant SLASH = 7;
    uint8 internal constant BURN_FEE = 8;
    uint8 internal constant FORFEIT = 9;
    uint8 internal constant FUND = 10;
    uint8 internal constant PAY = 11;
    uint8 internal constant BURN_ESCROW = 12;
    uint8 internal constant CLOSE = 13;
    uint8 internal constant KINDS = 14;

    /// @dev Far more than any token has; the books are not asked what they do beyond.
    uint256 internal constant MOST_WEI = type(uint120).max;

    ExposureId internal constant FIRST = ExposureId.wrap("first");
    ExposureId internal constant SECOND = ExposureId.wrap("second");
    TaskId internal constant TASK = TaskId.wrap("task");

    ProofToken internal token;
    StakeVault internal vault;

    function setUp() public virtual {
        token = new ProofToken();
        address[] memory modules = new address[](1);
        modules[0] = address(this);
        vault = new StakeVault(IERC20(address(token)), 50, modules);
    }

    function _enter() internal virtual;

    /// @dev Three accounts, and nobody: who finds nothing is paid nothing.
    function _account(uint8 index) internal pure returns (address) {
        if (index == 0) return address(0xa11ce);
        if (index == 1) return address(0xb0b);
        if (index == 2) return address(0xca501);
        return address(0);
    }

    function play(Move calldata m) external {
        require(msg.sender == address(this), "only through the checks");
        (address account, ExposureId exposure) = (_account(m.account), m.second ? SECOND : FIRST);
        bool own = m.kind <= CLAIM;
        if (own) vm.prank(account);
        if (m.kind == DEPOSIT) {
            vault.deposit(m.amountWei);
        } else if (m.kind == UNBOND) {
            vault.requestUnbond(m.amountWei);
        } else if (m.kind == WITHDRAW) {
            vault.withdraw();
        } else if (m.kind == CLAIM) {
            vault.claim();
        } else if (m.kind == BURN) {
            vault.burn();
        } else if (m.kind == EXPOSE) {
            vault.expose(exposure, account, m.amountWei);
        } else if (m.kind == RELEASE) {
            vault.release(exposure);
        } else if (m.kind == SLASH) {
            address finder = _account(m.finder);
            vault.slash(exposure, finder, m.finderCapWei, _account(m.submitter), m.submitterCapWei, "wrong");
        } else if (m.kind == BURN_FEE) {
            vault.burnFee(exposure, m.amountWei, "silent");
        } else if (m.kind == FORFEIT) {
            vault.forfeit(exposure, account, m.amountWei, "lost");
        } else if (m.kind == FUND) {
            vault.fundEscrow(TASK, account, m.amountWei);
        } else if (m.kind == PAY) {
            vault.pay(TASK, account, m.amountWei, "work");
        } else if (m.kind == BURN_ESCROW) {
            vault.burnEscrow(TASK, m.amountWei, "void");
        } else {
            vault.closeEscrow(TASK, account);
        }
    }

    /// @dev What the vault owes, one by one: stakes (free and locked), credits, escrow, and what is to be burned.
    function _owedWei() internal view returns (uint256[8] memory owedWei) {
        (owedWei[0], owedWei[1]) = (vault.escrowOf(TASK), vault.burnPending());
        for (uint8 i = 0; i < 3; ++i) {
            owedWei[2 + i] = vault.stakeOf(_account(i));
            owedWei[5 + i] = vault.creditOf(_account(i));
        }
    }

    /// @dev What the two exposures lock of one account.
    function _exposedWei(address account) internal view returns (uint256 sum) {
        (address first, uint256 firstWei) = vault.exposureOf(FIRST);
        (address second, uint256 secondWei) = vault.exposureOf(SECOND);
        if (first == account) sum += firstWei;
        if (second == account) sum += secondWei;
    }

    /// @dev Solvency: a call changes what the vault holds by just what it changes in what the vault owes. Differences are taken one by one, for what
    /// a call leaves alone is then gone from what the prover is asked; they are far smaller than the modulus.
    function _checkSolvency(Move memory m) internal {
        _enter();
        uint256 heldWei = token.balanceOf(address(vault));
        uint256[8] memory owedWei = _owedWei();
        try this.play(m) {}
        catch {
            return;
        }
        uint256[8] memory owesWei = _owedWei();
        unchecked {
            uint256 changeWei = 0;
            for (uint256 i = 0; i < owedWei.length; ++i) {
                changeWei += owesWei[i] - owedWei[i];
            }
            assert(token.balanceOf(address(vault)) - heldWei == changeWei);
        }
    }

    /// @dev Lock identity: what is locked beyond the two exposures named (by all others) does not change.
    function _checkLockIdentity(Move memory m) internal {
        _enter();
        uint256[3] memory others;
        for (uint8 i = 0; i < 3; ++i) {
            address account = _account(i);
            vm.assume(vault.lockedOf(account) >= _exposedWei(account));
            others[i] = vault.lockedOf(account) - _exposedWei(account);
        }
        try this.play(m) {}
        catch {
            return;
        }
        for (uint8 i = 0; i < 3; ++i) {
            address account = _account(i);
            assert(vault.lockedOf(account) == _exposedWei(account) + others[i]);
        }
    }

    /// @dev No rehypothecation: what is locked is there, and so is what is announced to leave.
    function _checkBacking(Move memory m) internal {
        _enter();
        for (uint8 i = 0; i < 3; ++i) {
            address account = _account(i);
            (uint256 unbondingWei,) = vault.unbondingOf(account);
            vm.assume(vault.lockedOf(account) <= vault.stakeOf(account));
            vm.assume(unbondingWei <= vault.stakeOf(account));
            vm.assume(vault.lockedOf(account) >= _exposedWei(account));
        }
        try this.play(m) {}
        catch {
            return;
        }
        for (uint8 i = 0; i < 3; ++i) {
            address account = _account(i);
            (uint256 unbondingWei,) = vault.unbondingOf(account);
            assert(vault.lockedOf(account) <= vault.stakeOf(account));
            assert(unbondingWei <= vault.stakeOf(account));
        }
    }

    /// @dev Slash once: an exposure that was slashed, forfeited or released has nothing left to take.
    function _checkSlashOnce(Move memory m, Move memory again) internal {
        if (m.kind != SLASH && m.kind != FORFEIT && m.kind != RELEASE) return;
        if (again.kind < RELEASE || again.kind > FORFEIT || again.second != m.second) return;
        _enter();
        try this.play(m) {}
        catch {
            return;
        }
        bool twice = true;
        try this.play(again) {}
        catch {
            twice = false;
        }
        assert(!twice);
    }

    /// @dev Slash bounded: a call takes no more than the exposure, from nobody but its account.
    function _checkSlashBounded(Move memory m) internal {
        if (m.kind != SLASH && m.kind != FORFEIT && m.kind != BURN_FEE) return;
        _enter();
        (address owner, uint256 exposedWei) = vault.exposureOf(m.second ? SECOND : FIRST);
        uint256[3] memory beforeWei;
        for (uint8 i = 0; i < 3; ++i) {
            beforeWei[i] = vault.stakeOf(_account(i));
        }
        try this.play(m) {}
        catch {
            return;
        }
        for (uint8 i = 0; i < 3; ++i) {
            uint256 takenWei = beforeWei[i] - vault.stakeOf(_account(i));
            if (owner != _account(i)) assert(takenWei == 0);
            else if (m.kind == BURN_FEE) assert(takenWei <= exposedWei);
            else assert(takenWei == exposedWei);
        }
    }
}
