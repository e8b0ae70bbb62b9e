// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ExposureId} from "../../../contracts/Types.sol";
import {Move, VaultChecks} from "./VaultChecks.sol";

/// @title What halmos alone understands. Source: its cheatcodes, `svm`.
interface Svm {
    function enableSymbolicStorage(address target) external;
}

struct Names {
    bool ofSame;
    uint8 account;
    uint8 finder;
    uint8 submitter;
}

struct Amounts {
    uint256 amountWei;
    uint256 finderCapWei;
    uint256 submitterCapWei;
}

/// @title The inductive steps of VaultChecks from any state of the vault and the token, for halmos: `./dev prove`.
contract VaultProof is VaultChecks {
    Svm private constant svm = Svm(address(uint160(uint256(keccak256("svm cheat code")))));

    uint8 private _kind;
    bool private _ofSame;

    /// @dev Any storage at all, as far as amounts are such as a token can have. The exposure that is about to be made is not there yet,
    /// one that is called upon is the first account's; the other exposure is that account's or the second's.
    function _enter() internal override {
        svm.enableSymbolicStorage(address(vault));
        svm.enableSymbolicStorage(address(token));
        vm.assume(vault.isModule(address(this)));
        vm.assume(token.balanceOf(address(vault)) <= MOST_WEI);
        vm.assume(vault.escrowOf(TASK) <= MOST_WEI);
        vm.assume(vault.burnPending() <= MOST_WEI);
        for (uint8 i = 0; i < 3; ++i) {
            address account = _account(i);
            vm.assume(token.balanceOf(account) <= MOST_WEI);
            vm.assume(vault.stakeOf(account) <= MOST_WEI);
            vm.assume(vault.creditOf(account) <= MOST_WEI);
            vm.assume(vault.lockedOf(account) <= MOST_WEI);
        }
        _enterExposure(FIRST, _kind == EXPOSE ? address(0) : _account(0));
        _enterExposure(SECOND, _account(_ofSame ? 0 : 1));
    }

    function _enterExposure(ExposureId exposure, address expected) private view {
        (address owner, uint256 amountWei) = vault.exposureOf(exposure);
        vm.assume(owner == expected);
        vm.assume(amountWei <= (expected == address(0) ? 0 : MOST_WEI));
    }

    /// @dev Accounts have no order, so they are named by what they do: the first is the one that calls, or that the exposure is about;
    /// a finder is that one, another, or nobody. What is chosen here is a constant on each path: the prover forks once a choice.
    function _name(uint8 kind, Names calldata n, Amounts calldata a) private returns (Move memory m) {
        m = Move(_pick(kind, KINDS), 0, 3, 3, false, a.amountWei, a.finderCapWei, a.submitterCapWei);
        (_kind, _ofSame) = (m.kind, n.ofSame);
        if (m.kind == SLASH) {
            uint8 finder = _pick(n.finder, 3);
            (m.finder, m.submitter) = (finder == 2 ? 3 : finder, _pick(n.submitter, 4));
        } else if (m.kind == FORFEIT || m.kind == PAY) {
            uint8 paid = _pick(n.account, 3);
            m.account = paid == 2 ? 3 : paid;
        } else if (m.kind == CLOSE) {
            m.account = _pick(n.account, 2);
        }
    }

    function _pick(uint8 index, uint8 most) private pure returns (uint8) {
        for (uint8 i = 0; i < most; ++i) {
            if (index == i) return i;
        }
        vm.assume(false);
        return 0;
    }

    function check_solvency(uint8 kind, Names calldata n, Amounts calldata a) external {
        _checkSolvency(_name(kind, n, a));
    }

    function check_lockIdentity(uint8 kind, Names calldata n, Amounts calldata a) external {
        _checkLockIdentity(_name(kind, n, a));
    }

    function check_backing(uint8 kind, Names calldata n, Amounts calldata a) external {
        _checkBacking(_name(kind, n, a));
    }

    /// @dev To whom a slash goes does not matter here: one choice for all.
    function check_slashOnce(uint8 kind, uint8 again, Amounts calldata a) external {
        Move memory m =
            Move(_pick(kind, KINDS), 0, 0, 1, false, a.amountWei, a.finderCapWei, a.submitterCapWei);
        _kind = m.kind;
        Move memory second =
            Move(_pick(again, KINDS), 0, 0, 1, false, a.amountWei, a.finderCapWei, a.submitterCapWei);
        _checkSlashOnce(m, second);
    }

    function check_slashBounded(uint8 kind, Names calldata n, Amounts calldata a) external {
        _checkSlashBounded(_name(kind, n, a));
    }

    /// @dev Must not be proved: were no call to go through, everything above would be true of nothing.
    function refute_everyCallFails(uint8 kind, Names calldata n, Amounts calldata a) external {
        Move memory m = _name(kind, n, a);
        _enter();
        try this.play(m) {}
        catch {
            return;
        }
        assert(false);
    }
}
