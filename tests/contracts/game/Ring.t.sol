// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameTerms, SeatRole} from "../../../contracts/game/GameTypes.sol";
import {IContests} from "../../../contracts/game/interfaces/IContests.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {IRounds} from "../../../contracts/game/interfaces/IRounds.sol";
import {GameWorld} from "./GameWorld.sol";

/// @title Freeing an epoch: with every seat taken, and with contests where the rules let none be.
/// @dev One solver, three verifiers and three whistleblowers; one draw a claim, a late one for each.
contract RingTest is GameWorld {
    /// @dev Of `_contestsOpen`.
    uint256 private constant CONTESTS_SLOT = 15;
    /// @dev Of at most 16.7 million that a transaction may take.
    uint256 private constant FREE_GAS = 6_000_000;

    /// @dev Round 17 runs, and all have settled the first epoch. Claims of every second round are void.
    function setUp() public override {
        super.setUp();
        GameTerms memory wanted = soundTerms();
        (wanted.rounds, wanted.draws, wanted.lateChance) = (200, 1, 65_536);
        (wanted.solverSeats, wanted.leastSolvers, wanted.leastVerifiers) = (2, 1, 3);
        begin(wanted, 1, 3, 3);
        for (uint256 round = 0; round < 17; ++round) {
            if (round % 2 == 0) {
                playRound(round);
                continue;
            }
            commit(round, solverSeat(0));
            roll(close(round) + 10);
            rounds.stand(task, round);
        }
        IRounds.Facts[] memory facts = rounds.factsOf(task, 0, 15);
        for (uint256 i = 0; i < 16; ++i) {
            if (now_() <= facts[i].dutyUntil) roll(facts[i].dutyUntil + 1);
        }
        for (uint256 role = 1; role <= 3; ++role) {
            settlement.settle(task, seatsOf[SeatRole(role)], 15);
        }
    }

    /// @dev Nobody settles an epoch while a root of it is contested. Were one contested afterwards, the epoch would stay.
    function test_freeEpoch_contested_reverts() public {
        _setContests(1);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotSettleable.selector, 0, 15));
        rounds.freeEpoch(task);
        _setContests(1 << 16);
        rounds.freeEpoch(task);
    }

    /// @param counts of nine epochs, 16 bits each
    function _setContests(uint256 counts) private {
        vm.store(game, keccak256(abi.encode(task, CONTESTS_SLOT)), bytes32(counts));
        assertEq(IContests(game).openOf(task), 1, "tests/contracts/storage.txt has the slot");
    }

    /// @dev Everybody who can be there is: 1,024 verifiers, 1,024 whistleblowers, two solvers of which one plays. All but three of each join when the
    /// epoch is over. The call looks at each of them, cold.
    function test_freeEpoch_allSeatsTaken_fitsATransaction() public {
        for (uint256 i = 3; i < 1024; ++i) {
            _joinQuietly(SeatRole.VERIFIER, i);
            _joinQuietly(SeatRole.WHISTLEBLOWER, i);
        }
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatsTaken.selector, 0));
        vm.prank(stranger);
        seatBook.join(task, SeatRole.VERIFIER, 600);
        cool();
        uint256 before = gasleft();
        rounds.freeEpoch(task);
        uint256 used = before - gasleft() + 21_000;
        assertTrue(used < FREE_GAS, string.concat("gas ", vm.toString(used)));
        assertTrue(used > 4_000_000, string.concat("gas ", vm.toString(used)));
    }

    function _joinQuietly(SeatRole role, uint256 number) private {
        address account = address(uint160(uint256(role) << 16 | number));
        token.mint(account, 600);
        vm.startPrank(account);
        token.approve(address(vault), 600);
        vault.deposit(600);
        seatBook.join(task, role, 600);
        vm.stopPrank();
    }
}
