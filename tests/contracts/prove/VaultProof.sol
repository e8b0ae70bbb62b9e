// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Move, VaultChecks} from "./VaultChecks.sol";

/// @title What halmos alone understands. Source: its cheatcodes, `svm`.
interface Svm {
    function enableSymbolicStorage(address target) external;
}

/// @title The inductive steps of VaultChecks from any state of the vault and the token, for halmos: `./dev prove`.
contract VaultProof is VaultChecks {
    Svm private constant svm = Svm(address(uint160(uint256(keccak256("svm cheat code")))));

    function _enter() internal override {
        svm.enableSymbolicStorage(address(vault));
        svm.enableSymbolicStorage(address(token));
        uint256[5] memory owed = _owed();
        for (uint256 i = 0; i < owed.length; ++i) {
            vm.assume(owed[i] <= MOST_WEI);
        }
        vm.assume(token.balanceOf(address(vault)) <= MOST_WEI);
        vm.assume(token.balanceOf(_account(0)) <= MOST_WEI);
        vm.assume(token.balanceOf(_account(1)) <= MOST_WEI);
    }

    /// @dev What is chosen here is a constant on each path: the prover forks once a choice. Accounts have no order: the first is the one that is named.
    function _name(Move calldata m) private pure returns (Move memory named) {
        named = Move(_pick(m.kind, KINDS), 0, _pick(m.from, 2), _pick(m.to, 2), m.byModule, m.wei_);
    }

    function _pick(uint8 index, uint8 most) private pure returns (uint8) {
        for (uint8 i = 0; i < most; ++i) {
            if (index == i) return i;
        }
        vm.assume(false);
        return 0;
    }

    function check_solvency(Move calldata m) external {
        _checkSolvency(_name(m));
    }

    function check_strangers(Move calldata m) external {
        _checkStrangers(_name(m));
    }

    function check_bounded(Move calldata m) external {
        _checkBounded(_name(m));
    }

    /// @dev Must not be proved: were no call to go through, everything above would be true of nothing.
    function refute_everyMoveFails(Move calldata m) external {
        _enter();
        if (_try(_name(m))) assert(false);
    }
}
