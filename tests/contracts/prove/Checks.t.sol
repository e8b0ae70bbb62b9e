// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {Move, VaultChecks} from "./VaultChecks.sol";
import {SeatChecks} from "./SeatChecks.sol";

/// @title The checks that halmos proves, on states that calls can reach: they compile, they are reached, and no call breaks them.
contract VaultChecksTest is VaultChecks {
    bool public constant IS_TEST = true;
    uint256 private constant WEI = 1_000_000;

    function _enter() internal override {
        for (uint8 i = 0; i < 2; ++i) {
            token.mint(_account(i), 4 * WEI);
            vm.prank(_account(i));
            vault.deposit(2 * WEI);
            vault.take(_account(i), _pot(i), WEI);
        }
        vault.discard(_pot(0), 7);
    }

    function _fit(Move memory m) private pure {
        (m.kind, m.account, m.from, m.to) = (m.kind % KINDS, m.account % 2, m.from % 2, m.to % 2);
        m.wei_ %= 2 * WEI;
    }

    function testFuzz_solvency_anyCall_holds(Move memory m) external {
        _fit(m);
        _checkSolvency(m);
    }

    function testFuzz_strangers_anyCall_isRefused(Move memory m) external {
        _fit(m);
        _checkStrangers(m);
    }

    function testFuzz_bounded_anyCall_holds(Move memory m) external {
        _fit(m);
        _checkBounded(m);
    }

    /// @dev The checks pass over calls that revert: here every kind of call goes through.
    function test_everyKind_somewhere_succeeds() external {
        _enter();
        for (uint8 kind = 0; kind < KINDS; ++kind) {
            this.play(Move(kind, 0, kind == DISCARD ? 1 : 0, 1, true, 1));
            if (kind == WITHDRAW) {
                vm.prank(_account(0));
                vault.deposit(WEI);
            }
        }
    }
}

contract SeatChecksTest is SeatChecks {
    bool public constant IS_TEST = true;

    function testFuzz_slash_anyStake_onceAndAtMostThat(uint256 stakeWei, bool isLeaving) external {
        _checkSlash(STAKE_MIN + stakeWei % (AMOUNT_MAX - STAKE_MIN), isLeaving);
    }

    function testFuzz_payOut_whileHeldOrAsked_isRefused(
        uint256 stakeWei,
        bool isLeaving,
        bool isHeld,
        bool isOver,
        bool isAsked
    ) external {
        _checkLocked(STAKE_MIN + stakeWei % (AMOUNT_MAX - STAKE_MIN), isLeaving, isHeld, isOver, isAsked);
    }

    function testFuzz_bonds_anyEnds_areConserved(bool firstFirst, bool isForfeit, bool isForfeitToo)
        external
    {
        _checkBonds(firstFirst, isForfeit, isForfeitToo);
    }
}
