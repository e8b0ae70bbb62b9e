"""Decides whose turn it is to send an upkeep call.

For each call the members take turns in a rotation; a hash decides who begins. So not all of them send at
once, and if one member is silent the next one sends. If the window of a call is known, the rotation takes at
most half of it, and every account may send in the rest.
"""

from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.round_draws import get_draw_audits_window, get_draw_round_window
from touchstone.protocol.spec.game.state import GameState, StatementRef
from touchstone.protocol.spec.game.terms import NUMBER_MAX
from touchstone.protocol.spec.game.timing import compute_draw_window, get_closing_from
from touchstone.protocol.spec.hashing import hash_words, tag_word

TAG_KEEPER = "touchstone.keeper"
SPREAD_BLOCKS = 16
"""Within this many blocks every member has a turn, so that dead nodes delay a task no longer."""
OUTSIDERS_ROUNDS = 4
"""An account without a seat has one turn in this many rotations of the members."""

Window = tuple[int, int]


def get_seal_window(state: GameState, call: GameCall, block: int) -> Window | None:
    """Returns the first and last block in which a draw can be recorded; None if the call records none, or
    there is nothing to record. The deciding block is the one before the first. `state` is as a call of
    `block` finds it (`get_state_at`)."""
    if isinstance(call, calls.DrawStart):
        start = state.start
        return None if start is None else _find_start_window(state, start.beacon_block)
    if isinstance(call, calls.DrawClosing):
        from_block = get_closing_from(state, block)
        return None if from_block is None else compute_draw_window(state, from_block)
    if not isinstance(call, calls.DrawRound | calls.DrawAudits) or call.round not in state.rounds:
        return None
    get_window = get_draw_round_window if isinstance(call, calls.DrawRound) else get_draw_audits_window
    return get_window(state, state.rounds[call.round])


def _find_start_window(state: GameState, beacon_block: int) -> Window:
    return beacon_block + 1, beacon_block + state.bounds.header_blocks


def find_turn(state: GameState, account: str, call: GameCall, block: int) -> int:
    """Returns the first block from `block` on in which it is the account's turn to send a due call. `state`
    is as a call of `block` finds it."""
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
    """Returns the accounts of all seats that were not convicted, in an order that all nodes agree on."""
    return tuple(sorted({s.account for s in state.seats.values() if s.status != SeatStatus.CONVICTED}))


def _compute_offset(state: GameState, call: GameCall) -> int:
    """Returns a number that depends on the call, so that each call has its own rotation."""
    numbers = [getattr(call, name, 0) for name in ("round", "seat", "contest", "query", "dispute")]
    ref: StatementRef | None = getattr(call, "statement", None)
    if ref is not None:
        numbers += [ref.round, ref.slot, NUMBER_MAX if ref.draw is None else ref.draw, ref.rank]
    words = hash_words(TAG_KEEPER, state.terms.domain, tag_word(type(call).__name__), *numbers)
    return int.from_bytes(words[:4], "big")


def _find_in_window(window: Window, place: int | None, count: int) -> int:
    """Returns the block from which an account may send. Accounts without a seat come after all members."""
    spread = max(1, min(SPREAD_BLOCKS, count, (window[1] - window[0]) // 2))
    return window[0] + (spread if place is None else place * spread // count)


def _find_in_rotation(block: int, place: int | None, count: int) -> int:
    """Returns the account's next turn for a call without a known window. No node knows since when the call is
    due, so the turn moves with the blocks."""
    groups = min(SPREAD_BLOCKS, count)
    if place is None:
        return block + -block % (OUTSIDERS_ROUNDS * groups)
    return block + (place * groups // count - block) % groups
