"""Ends a task: frees epochs that all seats have settled, then closes the task."""

from touchstone.protocol.spec.game.calls import CloseGame, FreeEpoch
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.epochs import get_epoch_start
from touchstone.protocol.spec.game.events import EpochFreed, GameClosed
from touchstone.protocol.spec.game.purse import BURNED, ESCROW, credit_of, restitution_of
from touchstone.protocol.spec.game.rule_refusals import require
from touchstone.protocol.spec.game.settling import is_contested
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.game.timing import is_over


def is_epoch_done(state: GameState) -> bool:
    """Returns whether the oldest epoch is over and every seat has settled it."""
    end = get_epoch_start(state.freed_epochs + 1)
    is_settled = all(seat.settled >= end for seat in state.seats.values())
    return state.next_round >= end and is_settled and not is_contested(state, end - 1)


def apply_free_epoch(draft: Draft, call: FreeEpoch, sender: str) -> None:
    """Frees the places of an epoch, so that the ring has room for sixteen more rounds. Any account may send
    the call."""
    require(is_epoch_done(draft.state), "NotSettleable", "an epoch that all seats have settled")
    draft.emit(EpochFreed(draft.state.freed_epochs))


def is_closable(state: GameState, block: int) -> bool:
    """Returns whether no round is to come, every seat is paid out and no contest is open."""
    return is_over(state, block) and not state.seats and not state.contests


def apply_close(draft: Draft, call: CloseGame, sender: str) -> None:
    """Closes the task. The rest of the escrow goes to the submitter; unclaimed restitution is burned. Credits
    stay until their accounts withdraw them."""
    require(is_closable(draft.state, draft.block), "TaskRuns")
    for fall in draft.state.falls:
        pot = restitution_of(fall.number)
        draft.move(pot, BURNED, draft.state.purse.get_wei(pot))
    draft.move(ESCROW, credit_of(draft.state.terms.submitter), draft.state.purse.get_wei(ESCROW))
    draft.emit(GameClosed())
