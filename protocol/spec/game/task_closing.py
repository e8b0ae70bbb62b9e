"""Ends a task: frees epochs that all seats have settled, then closes the task."""

from touchstone.protocol.spec.game.calls import CloseTask, FreeEpoch
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.epochs import get_epoch, get_epoch_start
from touchstone.protocol.spec.game.events import EpochFreed, TaskClosed
from touchstone.protocol.spec.game.round_pay import sum_audits
from touchstone.protocol.spec.game.rule_refusals import require
from touchstone.protocol.spec.game.settling import is_contested
from touchstone.protocol.spec.game.state import GameState, Seat
from touchstone.protocol.spec.game.timing import is_over
from touchstone.protocol.spec.game.vault import BURNED, ESCROW, HELD, RESTITUTION, credit_of


def is_epoch_done(state: GameState) -> bool:
    """Returns whether the oldest epoch is over, nothing about it is open, and every seat has settled it. An
    auditor to which nothing was paid or charged in it need not: it would cost others its settlement."""
    epoch = state.freed_epochs
    end = get_epoch_start(epoch + 1)
    is_settled = all(seat.settled >= end or is_idle(state, seat, epoch) for seat in state.seats.values())
    asked = [one.statement.round for one in state.queries.values()]
    asked += [one.statement.round for one in state.disputes.values()]
    is_questioned = any(get_epoch(index) == epoch for index in asked)
    is_open = is_contested(state, end - 1) or is_questioned
    return state.next_round >= end and is_settled and not is_open


def is_idle(state: GameState, seat: Seat, epoch: int) -> bool:
    """Returns whether a seat is an auditor that has no pay and no fee left to settle in an epoch."""
    left = (one for one in state.rounds.values() if one.index >= seat.settled)
    rounds = [one for one in left if get_epoch(one.index) == epoch]
    is_auditor = seat.role != SeatRole.SOLVER
    return is_auditor and all(seat.number not in sum_audits(state, one) for one in rounds)


def apply_free_epoch(draft: Draft, call: FreeEpoch, sender: str) -> None:
    """Frees the places of an epoch, so that the ring has room for sixteen more rounds. Any account may send
    the call."""
    require(is_epoch_done(draft.state), "NotSettleable", "an epoch that is settled")
    draft.emit(EpochFreed(draft.state.freed_epochs))


def is_closable(state: GameState, block: int) -> bool:
    """Returns whether no round is to come, every seat is paid out and no contest is open."""
    return is_over(state, block) and not state.seats and not state.contests


def apply_close(draft: Draft, call: CloseTask, sender: str) -> None:
    """Closes the task. The rest of the escrow goes to the submitter. What is held, and restitution that
    nobody took, is burned. Credits stay until their accounts withdraw them."""
    require(is_closable(draft.state, draft.block), "TaskRuns")
    for pot in (HELD, RESTITUTION):
        draft.move(pot, BURNED, draft.state.vault.get_wei(pot))
    draft.move(ESCROW, credit_of(draft.state.terms.submitter), draft.state.vault.get_wei(ESCROW))
    draft.emit(TaskClosed())
