"""Lists what a seat owes now, and until which block: a claim, votes, answers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from touchstone.explorer.names import Names
from touchstone.protocol.economics.duty_ends import estimate_release
from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.game.assignments import list_draws
from touchstone.protocol.spec.game.audit_deadlines import get_due_block, get_start, is_wanted
from touchstone.protocol.spec.game.dispute_moves import CLAIMANT_MOVES, OPENER_MOVES
from touchstone.protocol.spec.game.drawn_audits import get_drawn
from touchstone.protocol.spec.game.enums import ContestTurn, SeatStatus
from touchstone.protocol.spec.game.inner_dispute import InnerBook, InnerDispute
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import GameState, Seat
from touchstone.protocol.spec.game.timing import compute_closing_block, get_live_round

AUDITED_ROUNDS = 4
"""The newest rounds in which a vote may still be due."""


@dataclass(frozen=True)
class Duty:
    """Something that an account owes. `until` is the last block for it."""

    what: str
    until: int | None

    def to_json(self) -> dict[str, Any]:
        """Returns the duty as the pages show it."""
        return {"what": self.what, "until_block": self.until}


def list_duties(
    now: GameState, inner: InnerBook | None, account: str, block: int, names: Names
) -> Iterator[Duty]:
    """Yields what an account owes in a task, the nearest kind first. `now` is as a call of `block` finds
    it."""
    seat = find_seat(now, account)
    for dispute in () if inner is None else inner.disputes.values():
        duty = _find_move(now, dispute, seat, account, names) if dispute.is_open else None
        if duty is not None:
            yield duty
    if seat is None or seat.status == SeatStatus.CONVICTED:
        return
    for query in now.queries.values():
        if query.seat == seat.number:
            asker, index = names.of(query.asker), query.statement.round
            yield Duty(f"show {asker} the data behind its vote in round {index}", query.clock)
    for contest in now.contests.values():
        signers = now.rounds[contest.round].signers if contest.round in now.rounds else ()
        if seat.number in signers and contest.turn != ContestTurn.CONTESTER:
            yield Duty(f"defend the root of round {contest.round} that it signed", contest.clock)
    yield from _list_claims(now, seat)
    yield from _list_votes(now, seat, block, names)
    yield Duty(
        "stay reachable, and answer who queries or disputes its work", estimate_release(now, seat, block)
    )


def _find_move(
    now: GameState, dispute: InnerDispute, seat: Seat | None, account: str, names: Names
) -> Duty | None:
    """Returns the move that an account owes in a dispute; None if it is not the account's turn."""
    about = names.of_statement(now, dispute.statement)
    if seat is not None and dispute.seat == seat.number and dispute.stage in CLAIMANT_MOVES:
        (move,) = CLAIMANT_MOVES[dispute.stage]
        opener = names.of(dispute.opener)
        return Duty(f"{move.value}: {opener} disputes {about}; silence costs the stake", dispute.clock)
    if dispute.opener == account and dispute.stage in OPENER_MOVES and dispute.stage not in CLAIMANT_MOVES:
        moves = " or ".join(move.value for move in OPENER_MOVES[dispute.stage])
        return Duty(f"{moves} in its dispute about {about}; silence costs the bond", dispute.clock)
    return None


def _list_claims(now: GameState, seat: Seat) -> Iterator[Duty]:
    live = get_live_round(now)
    if live is None or live.closed is not None or seat.number not in live.pool.solvers:
        return
    if live.pool.solvers.index(seat.number) not in live.claims:
        until = None if live.trained_from is None else compute_closing_block(now, live)
        yield Duty(f"train round {live.index} and commit to it", until)


def _list_votes(now: GameState, seat: Seat, block: int, names: Names) -> Iterator[Duty]:
    audit_max = now.terms.windows.audit_max
    for index in sorted(now.rounds)[-AUDITED_ROUNDS:]:
        for slot, draw in list_draws(now, now.rounds[index]):
            for rank in range(RANKS):
                drawn = get_drawn(now, index, slot, draw, rank)
                if drawn is None or drawn.seat.number != seat.number:
                    continue
                if is_wanted(now, drawn.place, block) and get_due_block(now, drawn.place) <= block:
                    start = get_start(now, drawn.place)
                    until = start + (audit_max if block <= start + audit_max else 2 * audit_max)
                    solver = names.of(drawn.solver)
                    yield Duty(f"audit segment {drawn.segment} of {solver} in round {index}, and vote", until)
