"""Accepted work is paid, to the wei: a bookkeeper counts by itself what each settlement of a play owes.

It knows the rules in the words of the design, and nothing of the machine but its state and its events.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.protocol.spec.game.simulation import Simulation
from touchstone.protocol.spec.audit_draws import count_draws
from touchstone.protocol.spec.game.assignments import get_drawn_seat
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole, SeatStatus
from touchstone.protocol.spec.game.epochs import get_epoch_start
from touchstone.protocol.spec.game.events import EpochFreed, GameEvent, SeatJoined, SeatSettled, WeiMoved
from touchstone.protocol.spec.game.state import CountedVote, GameRound, GameState, Seat
from touchstone.protocol.spec.game.vault import ESCROW, PotKind
from touchstone.protocol.spec.statements import VoteWord

A, U = VoteWord.ACCEPT, VoteWord.UNSERVED
AGAINST = {VoteWord.REJECT_STATE, VoteWord.REJECT_DELTA, VoteWord.REJECT_START, U}


@dataclass
class Bookkeeper:
    """settled: by seat the first round that it has not settled; got: wei that left the escrow in this call;
    count: settlements that owed something; rounds: those before the last event."""

    settled: dict[int, int] = field(default_factory=dict)
    rounds: Mapping[int, GameRound] = field(default_factory=dict)
    got: int = 0
    count: int = 0

    def watch(self, world: Simulation, event: GameEvent) -> None:
        """Checks each settlement of a seat that was not convicted."""
        if isinstance(event, SeatJoined):
            self.settled[event.seat] = world.state.seats[event.seat].settled
        if isinstance(event, WeiMoved) and event.source == ESCROW and event.target.kind == PotKind.CREDIT:
            self.got += event.wei
        if isinstance(event, SeatSettled):
            self._check(world.state, world.state.seats[event.seat], event.until_round)
        if isinstance(event, EpochFreed):
            self._forget(world.state, get_epoch_start(event.epoch + 1))
        self.rounds = world.state.rounds
        if not isinstance(event, WeiMoved):
            self.got = 0

    def _check(self, state: GameState, seat: Seat, until: int) -> None:
        indices = range(self.settled[seat.number], until + 1)
        owed = sum(compute_pay(state, seat, state.rounds[index]) for index in indices)
        assert self.got == (0 if seat.status == SeatStatus.CONVICTED else owed), "accepted work is paid"
        self.settled[seat.number] = until + 1
        self.count += owed > 0

    def _forget(self, state: GameState, end: int) -> None:
        """An epoch that is forgotten owes nothing to whoever has not settled it."""
        for number, seat in state.seats.items():
            left = range(self.settled[number], end)
            owed = sum(compute_pay(state, seat, self.rounds[index]) for index in left)
            assert owed == 0 or seat.status == SeatStatus.CONVICTED, "nothing that is owed is forgotten"
            self.settled[number] = max(self.settled[number], end)


def compute_pay(state: GameState, seat: Seat, game_round: GameRound) -> int:
    """What the escrow owes a seat for a round."""
    pool = game_round.pool.get_seats(seat.role)
    if seat.number not in pool:
        return 0
    if seat.role == SeatRole.SOLVER:
        return _compute_solver_pay(state, game_round, pool.index(seat.number))
    amounts = state.terms.amounts
    late = seat.role == SeatRole.WHISTLEBLOWER
    votes = (one for one in list_votes(state, game_round, seat.number) if one.is_opened)
    return sum(amounts.late_pay if late else amounts.audit_pay for _ in votes)


def list_votes(state: GameState, game_round: GameRound, number: int) -> list[CountedVote]:
    """Counted votes of a seat in a round."""
    return [
        vote
        for (slot, draw), votes in game_round.votes.items()
        for rank, vote in votes.items()
        if get_drawn_seat(state, game_round, slot, draw, rank) == number
    ]


def _compute_solver_pay(state: GameState, game_round: GameRound, slot: int) -> int:
    claim, terms = game_round.claims.get(slot), state.terms
    if claim is None or claim.is_void or claim.is_convicted or game_round.phase == RoundPhase.UNDONE:
        return 0
    draws = range(count_draws(terms.draws, claim.segments))
    words = {d: _read_words(game_round, slot, d) for d in range(terms.draws + 1)}
    is_accepted = game_round.seed is not None and all(_is_accepted(words[d]) for d in draws)
    is_unserved = any(list(one.values()).count(U) >= 2 for one in words.values())
    late = words[terms.draws]
    is_rejected = _is_failed(late) and sum(word in AGAINST for word in late.values()) >= 2
    is_paid = is_accepted and not is_unserved and not is_rejected
    return terms.amounts.solver_pay * claim.segments // terms.segment_count if is_paid else 0


def _read_words(game_round: GameRound, slot: int, draw: int) -> dict[int, VoteWord]:
    return {rank: vote.word for rank, vote in game_round.votes.get((slot, draw), {}).items()}


def _is_accepted(words: dict[int, VoteWord]) -> bool:
    return words.get(0) == A or words.get(1) == words.get(2) == A


def _is_failed(words: dict[int, VoteWord]) -> bool:
    others = [words[rank] for rank in (1, 2) if rank in words]
    return words.get(0, A) != A and any(word != A for word in others)
