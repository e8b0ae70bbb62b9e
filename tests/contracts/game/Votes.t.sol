// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameTerms} from "../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {IVotes} from "../../../contracts/game/interfaces/IVotes.sol";
import {GameWorld} from "./GameWorld.sol";

/// @title Majorities of merge signatures, other contracts' calls, and gas.
contract VotesTest is GameWorld {
    // Majorities
    /// @dev Of whom the signatures count, and that more than half must.
    function test_post_signers_areCounted() public {
        begin(3, 6, 3);
        playToDraw(0);
        acceptAll(0);
        bytes memory three = signMerge(0, 7, "root", 7);
        _posts(7, three, 7);
        _posts(6, signMerge(0, 7, "root", 6), 6);
        _noMajority(1, signMerge(0, 7, "root", 1), 1);
        _noMajority(7, signMerge(0, 7, "other", 7), 0);
        _noMajority(6, signMerge(0, 7, "root", 3), 0);
        _noMajority(7, signMerge(0, 7, "root", 1), 1);
        bytes memory cut = signMerge(0, 7, "root", 3);
        assembly ("memory-safe") {
            mstore(cut, 127)
        }
        _noMajority(3, cut, 1);
        _noMajority(0x70, three, 0);
        bytes memory spoilt = signMerge(0, 7, "root", 7);
        spoilt[70] = bytes1(uint8(spoilt[70]) ^ 1);
        _posts(7, spoilt, 5);
    }

    function _posts(uint64 signers, bytes memory signatures, uint64 good) private {
        uint256 before = vm.snapshotState();
        rounds.post(task, 0, 7, "root", signers, signatures);
        assertEq(roundOf(0).signers, good, "signers");
        vm.revertToState(before);
    }

    function _noMajority(uint64 signers, bytes memory signatures, uint256 good) private {
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NoMajority.selector, 7, good));
        rounds.post(task, 0, 7, "root", signers, signatures);
    }

    // Gas
    /// @dev Figures of the call alone: what the transaction's data cost comes on top.
    function _measure(uint256 solvers, uint256 round) private returns (uint256 commitGas, uint256 postGas) {
        GameTerms memory wanted = soundTerms();
        (wanted.solverSeats, wanted.leastVerifiers, wanted.lateChance) = (uint32(solvers), 6, 0);
        begin(wanted, solvers, 3 * solvers, 3);
        for (uint256 i = 0; i < round; ++i) {
            playRound(i);
        }
        commit(round, solverSeat(0));
        bytes32 root = claimRoot(round, solverSeat(1));
        (bytes32 base, bytes32 beacon) = (roundOf(round).base, rounds.beaconOf(task, round));
        asSeat(solverSeat(1));
        commitGas = gasleft();
        rounds.commit(task, round, base, beacon, root, 4);
        commitGas -= gasleft();
        for (uint256 i = 2; i < solvers; ++i) {
            commit(round, solverSeat(i));
        }
        drawAudits(round);
        IVotes.HandedVote[] memory all = acceptances(round);
        bytes memory signatures = signMerge(round, bitsOf(solvers), "root", bitsOf(solvers));
        // Directly, as a node does.
        vm.prank(stranger, stranger);
        postGas = gasleft();
        votes.judge(task, round, all);
        rounds.post(task, round, bitsOf(solvers), "root", bitsOf(solvers), signatures);
        postGas -= gasleft();
    }

    event Measured(string what, uint256 gas_);

    function test_gas_fourSolvers() public {
        (uint256 commitGas, uint256 postGas) = _measure(4, 1);
        emit Measured("commit, 4", commitGas);
        emit Measured("judge and post a solver, 4", postGas / 4);
        assertTrue(commitGas < 75_000 && postGas / 4 < 150_000, "within the targets");
    }

    function test_gas_tenSolvers() public {
        (uint256 commitGas, uint256 postGas) = _measure(10, 1);
        emit Measured("commit, 10", commitGas);
        emit Measured("judge and post a solver, 10", postGas / 10);
        assertTrue(commitGas < 75_000 && postGas / 10 < 130_000, "within the targets");
    }
}
