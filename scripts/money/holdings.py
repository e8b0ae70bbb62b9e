"""Describes for an operator what holds the stake of a seat, and until when.

A stake is released once the seat has left, or the task is over, and nothing that the seat did can cost it any
more. Then running nodes of the task settle it and pay it out; so does `touchstone withdraw`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.explorer.task_documents import describe_phase
from touchstone.protocol.adapters.chain.pace import Pace
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.open_questions import list_questions
from touchstone.protocol.spec.game.pools import get_stake, is_held
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.seats import is_outbid
from touchstone.protocol.spec.game.settling import is_in_pool
from touchstone.protocol.spec.game.state import GameState, Seat
from touchstone.protocol.spec.game.timing import get_duty_until, get_live_round, is_over, is_start_alive


@dataclass(frozen=True)
class Holding:
    """A seat's stake in wei, and what holds it, the oldest first (empty: it can be paid out now)."""

    seat: Seat
    stake_wei: int
    held_by: tuple[str, ...]


def find_holding(game: GameState, seat: Seat, pace: Pace) -> Holding:
    """Returns what a seat has at stake, and what holds it."""
    block = pace.head_block + 1
    now = get_state_at(game, block)
    seat = now.seats[seat.number]
    return Holding(seat, get_stake(now, seat.number), tuple(_list_holds(now, seat, block, pace)))


def _list_holds(now: GameState, seat: Seat, block: int, pace: Pace) -> Iterator[str]:
    if seat.status == SeatStatus.CONVICTED:
        yield "it was convicted: there is nothing left"
        return
    yield from _list_roles(now, seat, block)
    yield from _list_rounds(now, seat, block, pace)
    for question in list_questions(now, seat.number):
        yield f"a question on round {question.statement.round}, until {pace.show_block(question.clock)}"
    for contest in now.contests.values():
        if contest.round >= seat.settled:
            yield f"a contest of round {contest.round}, until {pace.show_block(contest.clock)} or longer"


def _list_roles(now: GameState, seat: Seat, block: int) -> Iterator[str]:
    """Yields what keeps an open seat in the task."""
    if seat.status == SeatStatus.ACTIVE and not is_over(now, block) and not is_outbid(now, seat):
        yield f"the seat is active (task: {describe_phase(now, block)}); `touchstone leave` ends that"


def _list_rounds(now: GameState, seat: Seat, block: int, pace: Pace) -> Iterator[str]:
    """Yields rounds that hold the seat: rounds whose statements can still be challenged (if there are many,
    only the last to end), running rounds, and frozen pools."""
    waiting, dated = list[int](), dict[int, int]()
    for index, game_round in sorted(now.rounds.items()):
        if index < seat.settled or not is_in_pool(game_round, seat):
            continue
        until = get_duty_until(now, game_round)
        if until is None:
            waiting.append(index)
        elif until >= block:
            dated[index] = until
    if dated:
        last = pace.show_block(max(dated.values()))
        first = min(dated)
        yield (
            f"round {first}, until {last}"
            if len(dated) == 1
            else f"rounds {first} to {max(dated)}, until {last}"
        )
    yield from (f"round {index} has no root yet" for index in waiting)
    may_open = get_live_round(now) is not None or is_start_alive(now, block)
    for index, pool in sorted(now.pools.items()):
        if may_open and now.next_round <= index < now.terms.rounds and is_held(pool, seat):
            yield f"round {index} is to come, and its pool is frozen"


def describe_release(holding: Holding) -> str:
    """Describes when the stake can be taken out."""
    if holding.held_by:
        return "; ".join(holding.held_by)
    return "now: touchstone withdraw"
