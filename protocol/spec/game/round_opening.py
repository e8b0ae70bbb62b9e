"""Starts and opens rounds, and halts a task. Twin of `RoundOpening.sol`."""

from collections.abc import Callable

from touchstone.protocol.spec.game.calls import DrawStart, HaltTask, StartRounds
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.epochs import has_place
from touchstone.protocol.spec.game.events import RoundOpened, StartAsked, StartDrawn, TaskHalted, TaskPaused
from touchstone.protocol.spec.game.pools import freeze_pool, is_enough
from touchstone.protocol.spec.game.rule_refusals import require, require_window
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.game.timing import get_live_round, is_start_alive
from touchstone.protocol.spec.round_seeds import compute_grid_block


def get_start_flaw(state: GameState, block: int) -> str | None:
    """Returns why rounds cannot be started at `block`; None if they can be."""
    flaws: dict[str, Callable[[], bool]] = {
        "TaskHalted": lambda: state.is_halted,
        "TaskOver": lambda: state.next_round >= state.terms.rounds,
        "NotPaused": lambda: get_live_round(state) is not None,
        "StartPending": lambda: is_start_alive(state, block),
        "RingFull": lambda: not has_place(state, state.next_round),
        "PoolTooSmall": lambda: not is_enough(state, freeze_pool(state)),
    }
    return next((name for name, is_there in flaws.items() if is_there()), None)


def apply_start(draft: Draft, call: StartRounds, sender: str) -> None:
    """Freezes the pools of the next two rounds, or of one if no second follows, and asks for a beacon."""
    flaw = get_start_flaw(draft.state, draft.block)
    require(flaw is None, flaw or "")
    windows = draft.state.terms.windows
    beacon_block = compute_grid_block(draft.block + windows.delay, windows.draw_grid)
    draft.emit(StartAsked(draft.state.next_round, beacon_block))


def apply_draw_start(draft: Draft, call: DrawStart, sender: str) -> None:
    """Gives the frozen rounds their beacon and opens the first."""
    start = draft.state.start
    require(start is not None, "NoDrawDue")
    assert start is not None
    require(not draft.state.is_halted, "TaskHalted")
    require_window(start.beacon_block + 1, start.beacon_block + draft.state.bounds.header_blocks, draft.block)
    require(is_enough(draft.state, draft.state.pools[start.first_round]), "PoolTooSmall")
    draft.emit(StartDrawn(call.randomness))
    draft.emit(RoundOpened(start.first_round, draft.state.root))


def open_next(draft: Draft) -> None:
    """Opens the next round after a round got its root. If none opens, the task pauses until it is started."""
    state = draft.state
    pool = state.pools.get(state.next_round)
    if pool is not None and not state.is_halted and is_enough(state, pool):
        draft.emit(RoundOpened(state.next_round, state.root))
    else:
        draft.emit(TaskPaused())


SHARES = "shares"
"""The account of the shares' contract, which halts a task for the majority."""


def apply_halt(draft: Draft, call: HaltTask, sender: str) -> None:
    """Halts the task, because the submitter, or the majority of the shares, wants no later round."""
    may_halt = sender in (draft.state.terms.submitter, SHARES)
    require(may_halt, "NotSubmitter", draft.state.terms.submitter, sender)
    require(not draft.state.is_halted, "TaskHalted")
    draft.emit(TaskHalted())
