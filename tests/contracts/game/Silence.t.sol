// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {GameTerms, SeatRole, SeatStatus} from "../../../contracts/game/GameTypes.sol";
import {IRefusals} from "../../../contracts/game/interfaces/IRefusals.sol";
import {ISettlement} from "../../../contracts/game/interfaces/ISettlement.sol";
import {GameWorld} from "./GameWorld.sol";
import {ContestsStub} from "./Stubs.sol";

/// @title Seats that miss rounds or draws again and again.
contract SilenceTest is GameWorld {
    // Silence ----------------------------------------------------------------------------------------------------
    function _missed(uint256 count) private pure returns (ISettlement.MissedPlace[] memory missed) {
        missed = new ISettlement.MissedPlace[](count);
        for (uint256 i = 0; i < count; ++i) {
            missed[i].round = uint32(i);
        }
    }

    function _notSilent(uint256 seat, ISettlement.MissedPlace[] memory missed) private {
        vm.expectRevert(abi.encodeWithSelector(IRefusals.NotSilent.selector, seat));
        settlement.markSilent(task, seat, missed);
    }

    function test_markSilent_solver_threeMissedRounds() public {
        begin(3, 6, 3);
        for (uint256 round = 0; round < 3; ++round) {
            commit(round, solverSeat(0));
            commit(round, solverSeat(1));
            if (round == 2) _notSilent(solverSeat(2), _missed(3));
            roll(roundOf(round).opened + 41);
            sealAudits(round);
            acceptAll(round);
            postAll(round);
        }
        _notSilent(solverSeat(2), _missed(2));
        _notSilent(solverSeat(2), _missed(0));
        _notSilent(solverSeat(2), _missed(4));
        _notSilent(solverSeat(1), _missed(3));
        ISettlement.MissedPlace[] memory missed = _missed(3);
        missed[1].round = 0;
        _notSilent(solverSeat(2), missed);
        missed = _missed(3);
        (missed[0].round, missed[1].round) = (1, 0);
        _notSilent(solverSeat(2), missed);
        missed = _missed(3);
        missed[1].slot = 1;
        _notSilent(solverSeat(2), missed);
        missed = _missed(3);
        missed[2].draw = 1;
        _notSilent(solverSeat(2), missed);
        missed[0].round = 7;
        _notSilent(solverSeat(2), missed);
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatUnknown.selector, solverSeat(3)));
        settlement.markSilent(task, solverSeat(3), _missed(3));
        ContestsStub(contests).open(task, 2);
        _notSilent(solverSeat(2), _missed(3));
        ContestsStub(contests).end(task, 2);
        ContestsStub(contests).lose(task, now_());
        _notSilent(solverSeat(2), _missed(3));
        pass(1);
        settlement.markSilent(task, solverSeat(2), _missed(3));
        assertEq(uint256(tasks.seatAt(task, solverSeat(2)).status), uint256(SeatStatus.LEAVING), "it leaves");
        assertEq(stakeOf(solverSeat(2)), 1000, "unharmed");
        vm.expectRevert(abi.encodeWithSelector(IRefusals.SeatClosed.selector, solverSeat(2)));
        settlement.markSilent(task, solverSeat(2), _missed(3));
        playRound(3);
        windUp();
    }

    /// @dev The pool after next is as it was in the closing block: a seat that is retired later still sits in it.
    function test_markSilent_afterAClose_freezesThePoolFirst() public {
        GameTerms memory wanted = soundTerms();
        wanted.rounds = 8;
        begin(wanted, 3, 6, 3);
        for (uint256 round = 0; round < 4; ++round) {
            commit(round, solverSeat(0));
            commit(round, solverSeat(1));
            roll(roundOf(round).opened + 41);
            if (round == 3) break;
            sealAudits(round);
            acceptAll(round);
            postAll(round);
        }
        assertEq(roundOf(3).closed, 0, "no call has recorded that it is closed");
        settlement.markSilent(task, solverSeat(2), _missed(3));
        sealAudits(3);
        acceptAll(3);
        postAll(3);
        (uint256 pool,,) = rounds.poolsOf(task, 5);
        assertEq(pool, 7, "frozen before");
    }

    /// @dev A round whose pool does not hold the seat says nothing about it: there its slot is another's.
    function test_markSilent_solver_waitingSince() public {
        GameTerms memory wanted = soundTerms();
        (wanted.solverSeats, wanted.rounds) = (3, 5);
        begin(wanted, 3, 6, 3);
        for (uint256 round = 0; round < 3; ++round) {
            commit(round, solverSeat(0));
            commit(round, solverSeat(1));
            if (round == 1) join(SeatRole.SOLVER, "larger", 1500);
            roll(roundOf(round).opened + 41);
            sealAudits(round);
            acceptAll(round);
            postAll(round);
        }
        assertEq(uint256(roundOf(3).pool), 11, "its place is taken");
        for (uint256 number = 0; number < 4; ++number) {
            if (number != 2) commit(3, solverSeat(number));
        }
        settlement.markSilent(task, solverSeat(2), _missed(3));
        assertEq(uint256(tasks.seatAt(task, solverSeat(2)).status), uint256(SeatStatus.LEAVING), "it leaves");
    }

    /// @dev A commitment since the first of them shows that the seat is there.
    function test_markSilent_solverThatCommitted_reverts() public {
        begin(3, 6, 3);
        for (uint256 round = 0; round < 4; ++round) {
            commit(round, solverSeat(0));
            commit(round, solverSeat(1));
            if (round == 3) commit(round, solverSeat(2));
            if (round == 3) break;
            roll(roundOf(round).opened + 41);
            sealAudits(round);
            acceptAll(round);
            postAll(round);
        }
        _notSilent(solverSeat(2), _missed(3));
    }

    /// @dev A verifier is the primary of one draw a round.
    function _drawsOf(uint256 seat, uint256 count)
        private
        view
        returns (ISettlement.MissedPlace[] memory missed)
    {
        missed = _missed(count);
        for (uint256 round = 0; round < count; ++round) {
            for (uint32 place = 0; place < 6; ++place) {
                if (drawnSeat(round, place / 2, place % 2, 0) != seat) continue;
                (missed[round].slot, missed[round].draw) = (place / 2, place % 2);
            }
        }
    }

    /// @dev The seat that is drawn first in round 0 says nothing; both reserves accept instead.
    function _playWithout(uint256 round, uint256 seat) private {
        playToDraw(round);
        roll(roundOf(round).closed + 10);
        for (uint256 slot = 0; slot < 3; ++slot) {
            for (uint256 draw = 0; draw < 2; ++draw) {
                if (drawnSeat(round, slot, draw, 0) != seat) {
                    vote_(round, slot, draw, 0, ACCEPT, true);
                } else {
                    for (uint256 rank = 1; rank < 3; ++rank) {
                        vote_(round, slot, draw, rank, ACCEPT, true);
                    }
                }
            }
        }
        postAll(round);
    }

    function test_markSilent_verifier_threeMissedDraws() public {
        begin(3, 6, 3);
        // Reserves clear silence too: a seat that never votes must never be a reserve of the other. So all vote but one.
        uint256 seat = verifierSeat(4);
        _playWithout(0, seat);
        _playWithout(1, seat);
        _notSilent(seat, _drawsOf(seat, 2));
        _playWithout(2, seat);
        ISettlement.MissedPlace[] memory missed = _drawsOf(seat, 3);
        uint32 round = missed[1].round;
        missed[1].round = 3;
        _notSilent(seat, missed);
        missed[1].round = uint32(rounds.nextRound(task));
        _notSilent(seat, missed);
        missed[1].round = 9;
        _notSilent(seat, missed);
        missed[1].round = round;
        (missed[0], missed[1]) = (missed[1], missed[0]);
        _notSilent(seat, missed);
        (missed[0], missed[1]) = (missed[0], missed[0]);
        _notSilent(seat, missed);
        missed = _drawsOf(seat, 3);
        missed[1].draw ^= 1;
        _notSilent(seat, missed);
        missed = _drawsOf(seat, 3);
        _notSilent(verifierSeat(3), _drawsOf(verifierSeat(3), 3));
        settlement.markSilent(task, seat, missed);
        assertEq(uint256(tasks.seatAt(task, seat).status), uint256(SeatStatus.LEAVING), "it leaves");
        playRound(3);
        windUp();
    }

    /// @dev Late draws of whistleblowers; each audits one claim a round first. A draw without two thirds against is over behind 2 auditMax.
    function test_markSilent_whistleblower_threeMissedLateDraws() public {
        GameTerms memory wanted = soundTerms();
        wanted.lateChance = 65_536;
        begin(wanted, 3, 6, 3);
        for (uint256 round = 0; round < 4; ++round) {
            playRound(round);
        }
        uint256 seat = drawnSeat(0, 0, 2, 0);
        ISettlement.MissedPlace[] memory missed = _missed(3);
        for (uint32 round = 0; round < 3; ++round) {
            for (uint32 slot = 0; slot < 3; ++slot) {
                if (drawnSeat(round, slot, 2, 0) == seat) missed[round].slot = slot;
            }
            missed[round].draw = 2;
        }
        uint256 until = roundOf(3).closed + 60;
        if (now_() < until) roll(until);
        _notSilent(seat, missed);
        roll(until + 1);
        settlement.markSilent(task, seat, missed);
        windUp();
    }

    // Edges ------------------------------------------------------------------------------------------------------
    /// @dev What was missed in a round that is undone does not count; nor what was missed before the seat settled.
    function test_markSilent_undoneRound_doesNotCount() public {
        begin(4, 6, 3);
        for (uint256 round = 0; round < 3; ++round) {
            for (uint256 i = 0; i < 3; ++i) {
                commit(round, solverSeat(i));
            }
            roll(roundOf(round).opened + 41);
            sealAudits(round);
            acceptAll(round);
            if (round == 0) post(0, 7, rootAfter(0), 7);
            else postAll(round);
        }
        ISettlement.MissedPlace[] memory missed = _missed(3);
        uint256 before = vm.snapshotState();
        settlement.markSilent(task, solverSeat(3), missed);
        vm.revertToState(before);
        fall(0);
        _notSilent(solverSeat(3), missed);
    }

    function test_markSilent_verifiersUndoneDraws_doNotCount() public {
        begin(4, 8, 3);
        uint256 seat;
        for (uint256 round = 0; round < 4; ++round) {
            playToDraw(round);
            seat = drawnSeat(0, 0, 0, 0);
            roll(roundOf(round).closed + 10);
            for (uint256 slot = 0; slot < 4; ++slot) {
                for (uint256 draw = 0; draw < 2; ++draw) {
                    if (drawnSeat(round, slot, draw, 0) != seat) {
                        vote_(round, slot, draw, 0, ACCEPT, true);
                    } else {
                        vote_(round, slot, draw, 1, ACCEPT, true);
                        vote_(round, slot, draw, 2, ACCEPT, true);
                    }
                }
            }
            if (round == 0) post(0, 15, rootAfter(0), 7);
            else if (round < 3) postAll(round);
        }
        ISettlement.MissedPlace[] memory missed = _missed(3);
        for (uint32 round = 0; round < 3; ++round) {
            for (uint32 place = 0; place < 8; ++place) {
                if (drawnSeat(round, place / 2, place % 2, 0) != seat) continue;
                (missed[round].slot, missed[round].draw) = (place / 2, place % 2);
            }
        }
        uint256 before = vm.snapshotState();
        settlement.markSilent(task, seat, missed);
        vm.revertToState(before);
        fall(0);
        _notSilent(seat, missed);
    }
}
