// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ExposureId} from "../../../contracts/Types.sol";
import {Move, VaultChecks} from "./VaultChecks.sol";

/// @title The checks that halmos proves, on states that calls can reach: they compile, they are reached, and no call breaks them.
contract VaultChecksTest is VaultChecks {
    bool public constant IS_TEST = true;
    ExposureId private constant OTHER = ExposureId.wrap("other");
    uint256 private constant STAKE_WEI = 1_000_000;

    uint256 private _seed;

    /// @dev Stakes, exposures of two accounts, some stake on its way out, an escrow, credits and a pending burn.
    function _enter() internal override {
        vault.fundEscrow(TASK, _rich(3), _draw(STAKE_WEI));
        for (uint8 i = 0; i < 3; ++i) {
            vm.prank(_rich(i));
            vault.deposit(STAKE_WEI);
        }
        vault.expose(FIRST, _account(0), _draw(STAKE_WEI / 2));
        vault.expose(SECOND, _account(uint8(_seed % 2)), _draw(STAKE_WEI / 2));
        vault.expose(OTHER, _account(2), _draw(STAKE_WEI / 2));
        for (uint8 i = 0; i < 3; ++i) {
            vm.prank(_account(i));
            vault.requestUnbond(_draw(STAKE_WEI));
        }
        vault.slash(OTHER, _account(0), _draw(STAKE_WEI), _account(1), _draw(STAKE_WEI), "before");
        if (_seed % 3 > 0) vm.roll(vm.getBlockNumber() + 50);
    }

    /// @dev An account with tokens of its own: the one that has no number funds the escrow.
    function _rich(uint8 index) private returns (address account) {
        account = index < 3 ? _account(index) : address(0xf00d);
        token.mint(account, 4 * STAKE_WEI);
    }

    /// @dev A number in 1 .. most, another one each time.
    function _draw(uint256 most) private returns (uint256) {
        _seed = uint256(keccak256(abi.encode(_seed)));
        return 1 + _seed % most;
    }

    function _fit(Move memory m, uint256 seed) private {
        _seed = seed;
        (m.kind, m.account, m.finder, m.submitter) =
        (m.kind % KINDS, m.account % 3, m.finder % 4, m.submitter % 4);
        (m.amountWei, m.finderCapWei) = (m.amountWei % STAKE_WEI, m.finderCapWei % STAKE_WEI);
        m.submitterCapWei %= STAKE_WEI;
    }

    function _fitEnd(Move memory m) private pure {
        uint8[3] memory ends = [RELEASE, SLASH, FORFEIT];
        m.kind = ends[m.kind % 3];
    }

    function testFuzz_solvency_anyCall_holds(uint256 seed, Move memory m) external {
        _fit(m, seed);
        _checkSolvency(m);
    }

    function testFuzz_lockIdentity_anyCall_holds(uint256 seed, Move memory m) external {
        _fit(m, seed);
        _checkLockIdentity(m);
    }

    function testFuzz_backing_anyCall_holds(uint256 seed, Move memory m) external {
        _fit(m, seed);
        _checkBacking(m);
    }

    function testFuzz_slashOnce_endedExposure_isGone(uint256 seed, Move memory m, Move memory again)
        external
    {
        _fit(again, seed);
        _fit(m, seed);
        _fitEnd(m);
        (again.kind, again.second) = (RELEASE + again.kind % 4, m.second);
        _checkSlashOnce(m, again);
    }

    function testFuzz_slashBounded_exposure_isAllThereIs(uint256 seed, Move memory m) external {
        _fit(m, seed);
        m.kind = SLASH + m.kind % 3;
        _checkSlashBounded(m);
    }

    /// @dev The checks pass over calls that revert: here every kind of call goes through.
    function test_everyKind_somewhere_succeeds() external {
        _seed = 1;
        _enter();
        for (uint8 kind = 0; kind < KINDS; ++kind) {
            vm.roll(vm.getBlockNumber() + 50);
            if (kind == EXPOSE) vault.release(SECOND);
            if (kind == SLASH) vault.expose(FIRST, _account(2), 1);
            this.play(Move(kind, kind == CLAIM ? 0 : 2, 0, 1, kind == EXPOSE || kind >= BURN_FEE, 1, 1, 1));
        }
    }
}
