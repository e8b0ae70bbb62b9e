"""Permissionless upkeep: which calls are due, who sends each first, and when to look again.

Any account may send an upkeep call. The members send them, so that their task goes on. An account that sends
all of them drives the task to its end, even if every other account is silent.

For each call the members take turns in a rotation, whose start a hash decides. So not all of them send at
once, and where one member is silent the next one sends. Where the window of a call is known, the rotation
takes at most half of it, and every account may send in the rest.
"""

from collections.abc import Iterator

from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.contests import is_moot
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.ledger import get_state_at
from touchstone.protocol.spec.game.pools import is_closed, is_enough
from touchstone.protocol.spec.game.rounds import (
    get_post_window,
    get_seal_audits_window,
    get_seal_round_window,
    get_start_flaw,
    get_waiting_round,
    is_stand_due,
)
from touchstone.protocol.spec.game.seats import find_silent_seats, get_pay_out_flaw
from touchstone.protocol.spec.game.settling import get_settled_until, is_closable, is_epoch_done
from touchstone.protocol.spec.game.state import GameRound, GameState, StatementRef
from touchstone.protocol.spec.game.terms import NUMBER_MAX, SILENCES_MAX
from touchstone.protocol.spec.game.timing import (
    compute_closing_block,
    compute_draw_window,
    compute_reserve_block,
    get_closing_from,
    get_duty_until,
    get_live_round,
    is_start_alive,
)
from touchstone.protocol.spec.hashing import hash_words, tag_word

TAG_KEEPER = "touchstone.keeper"
SPREAD_BLOCKS = 16
"""A task must not wait long for dead nodes: after so many blocks every member has had a turn."""
OUTSIDERS_ROUNDS = 4
"""An account without a seat has one turn while the members' rotation goes round so often."""

Window = tuple[int, int]

SETTLE_SEATS = 24
"""Seats that are settled in one transaction."""


def get_seal_window(state: GameState, call: GameCall, block: int) -> Window | None:
    """First and last block in which a seal counts; None where the call is no seal, or nothing is to be
    sealed. The block whose randomness it takes is the one before the first. state: as a call of `block` finds
    it (`get_state_at`)."""
    if isinstance(call, calls.SealStart):
        start = state.start
        return None if start is None else _find_start_window(state, start.beacon_block)
    if isinstance(call, calls.SealClosing):
        from_block = get_closing_from(state, block)
        return None if from_block is None else compute_draw_window(state, from_block)
    if not isinstance(call, calls.SealRound | calls.SealAudits) or call.round not in state.rounds:
        return None
    get_window = get_seal_round_window if isinstance(call, calls.SealRound) else get_seal_audits_window
    return get_window(state, state.rounds[call.round])


def _find_start_window(state: GameState, beacon_block: int) -> Window:
    return beacon_block + 1, beacon_block + state.limits.seal_blocks


def find_turn(state: GameState, account: str, call: GameCall, block: int) -> int:
    """The first block from `block` on in which it is the account's turn to send a call that is due. state: as
    a call of `block` finds it."""
    members = list_members(state)
    if not members:
        return block
    offset = _compute_offset(state, call)
    place = (members.index(account) - offset) % len(members) if account in members else None
    window = get_seal_window(state, call, block)
    if window is not None:
        return max(block, _find_in_window(window, place, len(members)))
    return _find_in_rotation(block, place, len(members))


def list_members(state: GameState) -> tuple[str, ...]:
    """Accounts of the seats that were not convicted, in an order that all nodes agree on."""
    return tuple(sorted({s.account for s in state.seats.values() if s.status != SeatStatus.CLOSED}))


def _compute_offset(state: GameState, call: GameCall) -> int:
    """Which call it is: each has a rotation of its own."""
    numbers = [getattr(call, name, 0) for name in ("round", "seat", "contest", "ask", "dispute")]
    ref: StatementRef | None = getattr(call, "statement", None)
    if ref is not None:
        numbers += [ref.round, ref.slot, NUMBER_MAX if ref.draw is None else ref.draw, ref.rank]
    words = hash_words(TAG_KEEPER, state.terms.domain, tag_word(type(call).__name__), *numbers)
    return int.from_bytes(words[:4], "big")


def _find_in_window(window: Window, place: int | None, count: int) -> int:
    """The block from which on an account may send. Accounts without a seat come after all members."""
    spread = max(1, min(SPREAD_BLOCKS, count, (window[1] - window[0]) // 2))
    return window[0] + (spread if place is None else place * spread // count)


def _find_in_rotation(block: int, place: int | None, count: int) -> int:
    """No node knows since when such a call is due, so the turn goes round with the blocks."""
    groups = min(SPREAD_BLOCKS, count)
    if place is None:
        return block + -block % (OUTSIDERS_ROUNDS * groups)
    return block + (place * groups // count - block) % groups


def list_upkeep(state: GameState, block: int) -> tuple[GameCall, ...]:
    """Every such call that passes at `block`, taken alone. The randomness of a seal is left out: the contract
    takes it from the header."""
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
        yield calls.SealStart()
    for index, game_round in state.rounds.items():
        if _is_in(get_seal_round_window(state, game_round), block):
            yield calls.SealRound(index)
        if _is_in(get_seal_audits_window(state, game_round), block):
            yield calls.SealAudits(index)
    from_block = get_closing_from(state, block)
    if from_block is not None and _is_in(compute_draw_window(state, from_block), block):
        yield calls.SealClosing()


def _get_start_window(state: GameState, block: int) -> tuple[int, int] | None:
    start = state.start
    if start is None or not is_start_alive(state, block) or not _is_pool_enough(state):
        return None
    return start.beacon_block + 1, start.beacon_block + state.limits.seal_blocks


def _is_pool_enough(state: GameState) -> bool:
    return state.start is not None and is_enough(state, state.pools[state.start.first_round])


def _list_roots(state: GameState, block: int) -> Iterator[GameCall]:
    waiting = get_waiting_round(state)
    if waiting is not None and is_stand_due(state, waiting, block):
        yield calls.LetStand(waiting.index)


def _list_ends(state: GameState, block: int) -> Iterator[GameCall]:
    """Clocks that have run out, and what has no object any more."""
    for number, contest in state.contests.items():
        if block > contest.clock or is_moot(state, contest):
            yield calls.EndRootContest(number)
    for number, ask in state.asks.items():
        if block > ask.clock or is_closed(state, ask.seat):
            yield calls.EndAsk(number)
    for number, dispute in state.disputes.items():
        if block > dispute.clock or is_closed(state, dispute.seat):
            yield calls.EndDispute(number)


def _list_settlements(state: GameState, block: int) -> Iterator[GameCall]:
    for number, seat in state.seats.items():
        until = get_settled_until(state, seat, block)
        if until >= seat.settled:
            yield calls.SettleSeat(number, until)
    if is_epoch_done(state):
        yield calls.FreeEpoch()
    if is_closable(state, block):
        yield calls.CloseGame()


def _list_pay_outs(state: GameState, block: int) -> Iterator[GameCall]:
    for number, seat in state.seats.items():
        if get_pay_out_flaw(state, seat, block) is None:
            yield calls.PayOut(number)


def _list_silent(state: GameState, block: int) -> Iterator[GameCall]:
    for number, missed in find_silent_seats(state, block).items():
        if len(missed) >= SILENCES_MAX:
            yield calls.MarkSilent(number, missed[:SILENCES_MAX])


# --- When to look again -------------------------------------------------------------------------------------
def get_next_block(state: GameState, block: int) -> int | None:
    """The first block after `block` in which something may become due or possible by the clock alone; None
    where the clock changes nothing any more."""
    later = {one for one in _list_blocks(get_state_at(state, block), block) if one > block}
    return min(later, default=None)


def _list_blocks(state: GameState, block: int) -> Iterator[int]:
    if state.is_closed:
        return
    if state.start is not None:
        yield state.start.beacon_block + 1
        yield state.start.beacon_block + state.limits.seal_blocks + 1
    for game_round in state.rounds.values():
        yield from _list_round_blocks(state, game_round, block)
    yield state.contested_until + 1
    for open_ones in (state.contests, state.asks, state.disputes):
        yield from (one.clock + 1 for one in open_ones.values())
    from_block = get_closing_from(state, block)
    if from_block is not None:
        yield from compute_draw_window(state, from_block)
    if get_live_round(state) is None:
        yield state.stands_since + state.terms.windows.dispute


def _list_round_blocks(state: GameState, game_round: GameRound, block: int) -> Iterator[int]:
    windows, closing = state.terms.windows, compute_closing_block(state, game_round)
    yield closing + 1
    for window in (get_seal_round_window(state, game_round), get_seal_audits_window(state, game_round)):
        if window is not None:
            yield from (window[0], window[1] + 1)
    for start in {game_round.closed, game_round.late_from} - {None}:
        assert start is not None
        yield compute_reserve_block(state, start)
        yield from (start + k * windows.audit_max + 1 for k in (1, 2, 3))
    if game_round.closed is not None:
        yield get_post_window(state, game_round, block)[0]
        yield get_post_window(state, game_round, block)[1] + 1
    until = get_duty_until(state, game_round)
    if until is not None:
        yield until + 1
