"""Makes a seat leave, without a loss, if it has stopped acting. Twin of `Silence.sol`.

The account that reports the silence names the rounds or draws that the seat has missed.
"""

from collections.abc import Iterator

from touchstone.protocol.spec.game.assignments import get_drawn_seat, list_draws
from touchstone.protocol.spec.game.calls import MarkSilent
from touchstone.protocol.spec.game.claim_status import get_votes, is_draw_over
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.events import SeatLeft
from touchstone.protocol.spec.game.rule_refusals import require
from touchstone.protocol.spec.game.seats import get_seat
from touchstone.protocol.spec.game.state import GameRound, GameState, MissedPlace, Seat
from touchstone.protocol.spec.game.terms import SILENCES_LEAST


def is_missed(game_round: GameRound, seat: Seat) -> bool:
    """Returns whether a seat owed the round a commitment and made none. Then it pays `dropped_fee`, unless it
    was convicted. Without a beacon no seat could commit."""
    is_due = game_round.closed is not None and game_round.beacon is not None
    if not is_due or seat.number not in game_round.pool.solvers:
        return False
    slot = game_round.pool.solvers.index(seat.number)
    return slot not in game_round.claims and game_round.phase != RoundPhase.UNDONE


def _list_missed_rounds(state: GameState, seat: Seat, block: int) -> Iterator[MissedPlace]:
    places = (MissedPlace(index) for index in state.rounds)
    yield from (place for place in places if is_silence(state, seat, place, block))


def find_silent_seats(state: GameState, block: int) -> dict[int, tuple[MissedPlace, ...]]:
    """Returns all open seats that have missed something since they last acted, with what they missed,
    ascending: rounds of a solver, draws of an auditor. It walks over the draws once."""
    seats = [seat for seat in state.seats.values() if seat.status == SeatStatus.ACTIVE]
    found = {s.number: list(_list_missed_rounds(state, s, block)) for s in seats if s.role == SeatRole.SOLVER}
    since = min((s.last_voted for s in seats if s.role != SeatRole.SOLVER), default=state.next_round)
    for index, game_round in state.rounds.items():
        for slot, draw in list_draws(state, game_round) if index > since else ():
            if 0 in get_votes(game_round, slot, draw):
                continue
            seat = state.seats.get(get_drawn_seat(state, game_round, slot, draw, 0) or 0)
            place = MissedPlace(index, slot, draw)
            if seat and seat.status == SeatStatus.ACTIVE and is_silence(state, seat, place, block):
                found.setdefault(seat.number, []).append(place)
    return {number: tuple(sorted(places)) for number, places in found.items() if places}


def is_silence(state: GameState, seat: Seat, place: MissedPlace, block: int) -> bool:
    """Returns whether a seat has missed a round or a draw, has not settled that round, and has not acted
    since. While a contest runs, and for `respond` blocks after one was lost, no solver counts as silent,
    because an honest one does not train on a wrong root."""
    game_round = state.rounds.get(place.round)
    if game_round is None or place.round < seat.settled:
        return False
    if seat.role == SeatRole.SOLVER:
        is_round = (place.slot, place.draw) == (0, 0)
        is_due = is_round and not state.contests and block > state.contested_until
        return is_due and place.round > seat.last_commit and is_missed(game_round, seat)
    return place.round > seat.last_voted and _is_draw_missed(state, game_round, seat, place, block)


def _is_draw_missed(
    state: GameState, game_round: GameRound, seat: Seat, place: MissedPlace, block: int
) -> bool:
    """Returns whether a draw with this seat as primary is over without its vote."""
    slot, draw = place.slot, place.draw
    if game_round.phase == RoundPhase.UNDONE or not is_draw_over(state, game_round, slot, draw, block):
        return False
    is_primary = get_drawn_seat(state, game_round, slot, draw, 0) == seat.number
    return is_primary and 0 not in get_votes(game_round, slot, draw)


def apply_mark_silent(draft: Draft, call: MarkSilent, sender: str) -> None:
    """Makes a silent seat leave, without a loss."""
    seat, missed = get_seat(draft.state, call.seat), call.missed
    require(seat.status == SeatStatus.ACTIVE, "SeatNotActive", actual=call.seat)
    require(len(missed) >= SILENCES_LEAST, "NotSilent", SILENCES_LEAST, len(missed))
    require(all(a < b for a, b in zip(missed, missed[1:], strict=False)), "NotSilent", "ascending", missed)
    silent = all(is_silence(draft.state, seat, place, draft.block) for place in missed)
    require(silent, "NotSilent", "what the seat has missed", missed)
    draft.emit(SeatLeft(call.seat))
