"""Every party silent at every point of a play: where the points are, and what must hold at the end.

A point is an act of the play in which nobody is silent. There its party falls silent for good, or leaves out
this one act and goes on. What comes before the point is played once, for all.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.protocol.spec.game.faulty_simulation import HONEST, Act, FaultySimulation, make_faulty, name_act
from touchstone.protocol.spec.game.assignments import list_draws
from touchstone.protocol.spec.game.calls import CommitRound, GameCall, JudgeVotes
from touchstone.protocol.spec.game.claim_status import get_claim_status, get_votes, is_unserved
from touchstone.protocol.spec.game.enums import ClaimStatus, GameOutcome, ProofKind, RoundPhase, SeatRole
from touchstone.protocol.spec.game.events import (
    ContestMoved,
    ContestOver,
    DisputeOver,
    GameEvent,
    QueryOpened,
    QueryOver,
    SeatConvicted,
    StatementDisputed,
    WeiMoved,
)
from touchstone.protocol.spec.game.silence import is_missed, is_silence
from touchstone.protocol.spec.game.state import GameRound, GameState, MissedPlace, Seat
from touchstone.protocol.spec.game.terms import compute_escrow
from touchstone.protocol.spec.game.vault import BURNED, SLASHED, PotKind
from touchstone.protocol.spec.statements import VoteWord

FOR_GOOD: Act = ("everything",)
"""What a party leaves out that does nothing any more."""
SILENCE_PROOFS = frozenset({ProofKind.DISPUTED, ProofKind.QUERIED})
"""As what a seat is closed that answers nothing."""
LOST = (GameOutcome.HOLDS, GameOutcome.CLEARED)


@dataclass(frozen=True)
class Silence:
    """At the count-th act of the play `party` leaves out `act`, or all from there on (FOR_GOOD)."""

    count: int
    party: str
    act: Act


@dataclass
class Points:
    """The play without silence, and the worlds from which the others go on, by number of acts."""

    silences: list[Silence] = field(default_factory=list)
    worlds: dict[int, FaultySimulation] = field(default_factory=dict)


class PointsSimulation(FaultySimulation):
    """Keeps a copy of itself before each act."""

    points: Points

    def _play_call(self, sender: str, call: GameCall) -> None:
        before, count = self.fork(), len(self.acts)
        super()._play_call(sender, call)
        if len(self.acts) > count:
            self.points.worlds[count] = before
            acts = list_acts(before, sender, call)
            self.points.silences += [Silence(count, sender, act) for act in (FOR_GOOD, *acts)]
            self.points.silences += [Silence(count, *one) for one in list_defences(before, self)]


def list_acts(world: FaultySimulation, sender: str, call: GameCall) -> Iterator[Act]:
    """What can be left out alone where a call is made: the call; of a vote its opening; with a claim that it
    is served, and that the round's merge is signed."""
    act = name_act(world, call)
    yield act
    if isinstance(call, JudgeVotes) and call.votes and call.openings:
        yield ("open", *act[1:])
    if isinstance(call, CommitRound):
        yield ("serve", call.round)
        yield ("sign", call.round)


def list_defences(before: FaultySimulation, after: FaultySimulation) -> Iterator[tuple[str, Act]]:
    """Who has to defend itself in a dispute that was opened now."""
    for number in after.state.disputes.keys() - before.state.disputes.keys():
        yield after.accounts[after.state.disputes[number].seat], ("defend", number)


def find_points(make: Callable[[], FaultySimulation] = make_faulty) -> Points:
    """Plays without silence. Its end is kept too, behind the last act."""
    world = make()
    world.__class__ = PointsSimulation
    assert isinstance(world, PointsSimulation)
    world.points = Points()
    world.play()
    world.points.worlds[len(world.acts)] = world
    return world.points


def play_silence(points: Points, silence: Silence) -> FaultySimulation:
    """The play as it goes on from the point."""
    world = points.worlds[silence.count].fork()
    world.__class__ = FaultySimulation
    if silence.act == FOR_GOOD:
        world.silenced = {silence.party: world.block}
    else:
        world.left_out = {(silence.party, silence.act)}
    world.play()
    return world


# What must hold whoever was silent
def list_flaws(world: FaultySimulation, silent: str | None) -> list[str]:
    """What does not hold at the end of a play; each names what was expected."""
    losses = Losses(world)
    return [*_list_open(world), *_list_unpaid(world, silent), *losses.list_flaws(silent)]


def _list_open(world: FaultySimulation) -> Iterator[str]:
    """The task is closed, nothing is open, no pot but credits holds anything, and no money was made."""
    state = world.state
    if not state.is_closed:
        yield f"open: the task is not closed at block {world.block}"
    for name in ("contests", "queries", "disputes", "seats"):
        if left := getattr(state, name):
            yield f"open: {name} {sorted(left)}"
    stuck = {
        pot: wei for pot, wei in state.vault.wei.items() if pot.kind not in (PotKind.CREDIT, PotKind.BURNED)
    }
    if stuck:
        yield f"stuck: {stuck}"
    came = compute_escrow(state.terms) + sum(world.deposited.values()) - sum(world.withdrawn.values())
    if state.vault.compute_total() != came:
        yield f"stuck: {came} wei came in, {state.vault.compute_total()} are there"


def _list_unpaid(world: FaultySimulation, silent: str | None) -> Iterator[str]:
    """Accepted work was paid, by what each party got in all: the settlements were checked one by one."""
    for party in HONEST:
        least, gain = compute_least_gain(world, party), compute_gain(world, party)
        if party not in (silent, "submitter") and gain < least:
            yield f"unpaid: {party} has {gain} wei of at least {least}"


def compute_gain(world: FaultySimulation, party: str) -> int:
    """Wei that a party has more than it brought."""
    credit = sum(wei for pot, wei in world.state.vault.wei.items() if pot == (PotKind.CREDIT, party))
    return credit + world.withdrawn.get(party, 0) - world.deposited.get(party, 0)


def compute_least_gain(world: FaultySimulation, party: str) -> int:
    """Pay for all accepted work and for every opened vote, less F for a truthful UNSERVED that stands."""
    state, amounts, gain = world.state, world.state.terms.amounts, 0
    for game_round in state.rounds.values():
        if game_round.phase != RoundPhase.UNDONE:
            slots = (s for s in game_round.claims if world.claimants[game_round.index, s] == party)
            gain += sum(amounts.solver_pay for slot in slots if _is_earned(world, game_round, slot))
    for (index, slot, draw, _), (voter, word) in world.voters.items():
        if voter != party:
            continue
        votes = get_votes(state.rounds[index], slot, draw)
        if word == VoteWord.UNSERVED:
            gain -= amounts.unserved_fee * is_unserved(votes)
        else:
            gain += amounts.late_pay if draw == state.terms.draws else amounts.audit_pay
    return gain


def _is_earned(world: FaultySimulation, game_round: GameRound, slot: int) -> bool:
    """Accepted, and no two auditors were left without service."""
    status = get_claim_status(world.state, game_round, slot, world.block)
    votes = (one for place, one in game_round.votes.items() if place[0] == slot)
    return status == ClaimStatus.ACCEPTED and not any(is_unserved(one) for one in votes)


@dataclass
class Losses:
    """What left stakes and bonds for anybody but their owner, by party, from the log alone."""

    world: FaultySimulation
    slashed: dict[str, int] = field(default_factory=dict)
    fees: dict[str, int] = field(default_factory=dict)
    bonds: dict[str, int] = field(default_factory=dict)
    lost_cases: dict[str, int] = field(default_factory=dict)
    proofs: dict[str, set[ProofKind]] = field(default_factory=dict)
    owners: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for _, event in self.world.log:
            self._read(event)

    def _read(self, event: GameEvent) -> None:
        if isinstance(event, ContestMoved):
            self.owners[event.contest.number] = event.contest.contester
        if isinstance(event, StatementDisputed):
            self.owners[event.dispute.number] = event.dispute.opener
        if isinstance(event, QueryOpened):
            self.owners[event.query.number] = event.query.asker
        if isinstance(event, SeatConvicted):
            self.proofs.setdefault(self.world.accounts[event.seat], set()).add(event.proof)
        if isinstance(event, ContestOver | QueryOver | DisputeOver) and event.outcome in LOST:
            number = getattr(event, "contest", getattr(event, "query", getattr(event, "dispute", None)))
            _add(self.lost_cases, self.owners[number or 0], 1)
        if isinstance(event, WeiMoved):
            self._read_move(event)

    def _read_move(self, event: WeiMoved) -> None:
        key = int(event.source.key) if event.source.kind in (PotKind.STAKE, PotKind.BOND) else 0
        if event.source.kind == PotKind.STAKE and event.target in (SLASHED, BURNED):
            book = self.slashed if event.target == SLASHED else self.fees
            _add(book, self.world.accounts[key], event.wei)
        if event.source.kind == PotKind.BOND and event.target.key != self.owners[key]:
            _add(self.bonds, self.owners[key], event.wei)

    def list_flaws(self, silent: str | None) -> Iterator[str]:
        for party in HONEST:
            fees, least = self.fees.get(party, 0), self._count_unserved_words(party)
            if party == silent:
                yield from self._list_silent_flaws(party, fees)
            elif self.slashed.get(party) or self.bonds.get(party) or fees > least:
                yield f"lost: {party}, who was not silent, lost {self._describe(party)}, fees due {least}"

    def _list_silent_flaws(self, party: str, fees: int) -> Iterator[str]:
        """A silent party loses no more than fees for missed rounds, for draws that it did not serve and for
        its own UNSERVED, its stake for an answer that it owed, bonds of cases that it gave up."""
        due = self._compute_silent_fees(party) + self._count_unserved_words(party)
        proofs = self.proofs.get(party, set())
        if fees > due:
            yield f"lost: {party}, silent, paid fees of {fees}, due were {due}"
        if not proofs <= SILENCE_PROOFS or (self.slashed.get(party, 0) > 0) != bool(proofs):
            yield f"lost: {party}, silent, lost its stake by {proofs}"
        if self.bonds.get(party, 0) and not self.lost_cases.get(party):
            yield f"lost: {party}, silent, lost {self._describe(party)} in no case that it gave up"

    def _describe(self, party: str) -> str:
        books = {"stake": self.slashed, "fees": self.fees, "bonds": self.bonds}
        return ", ".join(f"{name} {book.get(party, 0)}" for name, book in books.items())

    def _count_unserved_words(self, party: str) -> int:
        """Fees for own UNSERVED votes, which were true."""
        state = self.world.state
        words = [
            key
            for key, (voter, word) in self.world.voters.items()
            if voter == party and word == VoteWord.UNSERVED
        ]
        stood = sum(is_unserved(get_votes(state.rounds[key[0]], *key[1:3])) for key in words)
        return stood * state.terms.amounts.unserved_fee

    def _compute_silent_fees(self, party: str) -> int:
        state, amounts = self.world.state, self.world.state.terms.amounts
        missed = sum(is_missed_by(self.world, one, party) for one in state.rounds.values())
        unserved = sum(_count_unserved_draws(self.world, state, one, party) for one in state.rounds.values())
        return missed * amounts.dropped_fee + unserved * amounts.unserved_fee


def _add(book: dict[str, int], party: str, wei: int) -> None:
    book[party] = book.get(party, 0) + wei


def is_missed_by(world: FaultySimulation, game_round: GameRound, party: str) -> bool:
    """Whether a round's pool had the party, and it brought nothing."""
    former = {**world.state.former, **world.state.seats}
    seats = (former.get(number) for number in game_round.pool.solvers)
    return any(seat and seat.account == party and is_missed(game_round, seat) for seat in seats)


def _count_unserved_draws(
    world: FaultySimulation, state: GameState, game_round: GameRound, party: str
) -> int:
    own = {s for s in game_round.claims if world.claimants[game_round.index, s] == party}
    return sum(is_unserved(votes) for (slot, _), votes in game_round.votes.items() if slot in own)


def find_silences(state: GameState, seat: Seat, block: int) -> tuple[MissedPlace, ...]:
    """All that one seat has missed since it was last heard of, as the rule says it: what `find_silent_seats`
    finds in one walk."""
    places = [MissedPlace(index) for index in state.rounds]
    if seat.role != SeatRole.SOLVER:
        voted = [one for index, one in state.rounds.items() if index > seat.last_voted]
        places = [MissedPlace(one.index, *draw) for one in voted for draw in list_draws(state, one)]
    return tuple(sorted(place for place in places if is_silence(state, seat, place, block)))
