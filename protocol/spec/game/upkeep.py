"""Lists the due calls that any account may send.

The members send them, so that their task goes on (`upkeep_turns.py` decides which member sends each call
first). A single account that sends all of them brings the task to its end, even if every other account is
silent.
"""

from collections.abc import Iterator

from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.contests import is_moot
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.epochs import get_epoch
from touchstone.protocol.spec.game.pools import is_convicted, is_enough
from touchstone.protocol.spec.game.root_posting import get_waiting_round, is_stand_due
from touchstone.protocol.spec.game.round_draws import get_draw_audits_window, get_draw_round_window
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.round_opening import get_start_flaw
from touchstone.protocol.spec.game.seat_payments import get_pay_out_flaw
from touchstone.protocol.spec.game.settling import get_settled_until
from touchstone.protocol.spec.game.silence import find_silent_seats
from touchstone.protocol.spec.game.state import GameState, Seat
from touchstone.protocol.spec.game.task_closing import is_closable, is_epoch_done, is_idle
from touchstone.protocol.spec.game.terms import SILENCES_LEAST
from touchstone.protocol.spec.game.timing import (
    compute_draw_window,
    get_closing_from,
    is_over,
    is_start_alive,
)

SETTLE_SEATS = 24
"""The seats that are settled in one transaction."""


def list_upkeep(state: GameState, block: int) -> tuple[GameCall, ...]:
    """Returns every upkeep call that would pass at `block` if it were sent alone. The randomness of a draw is
    left out, because the contract takes it from the header."""
    now = get_state_at(state, block)
    if now.is_closed:
        return ()
    kinds = (_list_seals, _list_roots, _list_ends, _list_settlements, _list_pay_outs, _list_silent)
    return tuple(call for kind in kinds for call in kind(now, block))


def _is_in(window: tuple[int, int] | None, block: int) -> bool:
    return window is not None and window[0] <= block <= window[1]


def _list_seals(state: GameState, block: int) -> Iterator[GameCall]:
    if get_start_flaw(state, block) is None:
        yield calls.StartRounds()
    if _is_in(_get_start_window(state, block), block):
        yield calls.DrawStart()
    for index, game_round in state.rounds.items():
        if _is_in(get_draw_round_window(state, game_round), block):
            yield calls.DrawRound(index)
        if _is_in(get_draw_audits_window(state, game_round), block):
            yield calls.DrawAudits(index)
    from_block = get_closing_from(state, block)
    if from_block is not None and _is_in(compute_draw_window(state, from_block), block):
        yield calls.DrawClosing()


def _get_start_window(state: GameState, block: int) -> tuple[int, int] | None:
    start = state.start
    if start is None or not is_start_alive(state, block) or not _is_pool_enough(state):
        return None
    return start.beacon_block + 1, start.beacon_block + state.bounds.header_blocks


def _is_pool_enough(state: GameState) -> bool:
    return state.start is not None and is_enough(state, state.pools[state.start.first_round])


def _list_roots(state: GameState, block: int) -> Iterator[GameCall]:
    waiting = get_waiting_round(state)
    if waiting is not None and is_stand_due(state, waiting, block):
        yield calls.LetStand(waiting.index)


def _list_ends(state: GameState, block: int) -> Iterator[GameCall]:
    """Yields calls that end games whose time is over, or whose subject is gone."""
    for number, contest in state.contests.items():
        if block > contest.clock or is_moot(state, contest):
            yield calls.EndRootContest(number)
    for number, query in state.queries.items():
        if block > query.clock or is_convicted(state, query.seat):
            yield calls.EndQuery(number)
    for number, dispute in state.disputes.items():
        if block > dispute.clock or is_convicted(state, dispute.seat):
            yield calls.EndDispute(number)


def _list_settlements(state: GameState, block: int) -> Iterator[GameCall]:
    for number, seat in state.seats.items():
        until = get_settled_until(state, seat, block)
        if until >= seat.settled and is_worth_settling(state, seat, until, block):
            yield calls.SettleSeat(number, until)
    if is_epoch_done(state):
        yield calls.FreeEpoch()
    if is_closable(state, block):
        yield calls.CloseTask()


def is_worth_settling(state: GameState, seat: Seat, until: int, block: int) -> bool:
    """Returns whether a settlement moves money or lets a seat go. If not, nobody waits for it."""
    epochs = range(get_epoch(seat.settled), get_epoch(until) + 1)
    is_leaving = seat.status != SeatStatus.ACTIVE or is_over(state, block)
    return is_leaving or not all(is_idle(state, seat, epoch) for epoch in epochs)


def _list_pay_outs(state: GameState, block: int) -> Iterator[GameCall]:
    for number, seat in state.seats.items():
        if get_pay_out_flaw(state, seat, block) is None:
            yield calls.PayOut(number)


def _list_silent(state: GameState, block: int) -> Iterator[GameCall]:
    for number, missed in find_silent_seats(state, block).items():
        if len(missed) >= SILENCES_LEAST:
            yield calls.MarkSilent(number, missed[:SILENCES_LEAST])
