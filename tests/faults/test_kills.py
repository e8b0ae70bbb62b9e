"""A node of each role is killed at every write of its journal: before the record is there, and after it.
Nobody says two things, no stake and no claim is lost.

Audits, late audits, harassment that is answered, and in a second play cases and contests against the guilty.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cheating import allow_cheating, make_cheating_solver, make_drifting_compute
from tests.e2e.harassing import HARASSER
from tests.e2e.reading import list_closed
from tests.e2e.roles import SOLVER, make_cast
from tests.e2e.test_contest import spoil_first_merge
from tests.e2e.world import TINY_PLAN, Part, World, open_world, run_world
from tests.faults.killed_processes import Death, play_killed
from tests.faults.killing import AFTER, BEFORE, Mortal, make_mortal_journals, play_lives
from touchstone.demo.planted import make_planting_compute
from touchstone.node.kit.config import JOURNAL_FILE
from touchstone.node.loop.node import Node
from touchstone.node.records import record_kinds
from touchstone.node.records.audit_records import SealMade, SealTaken, VoteMade, VoteTaken
from touchstone.node.records.claim_records import ClaimFinished
from touchstone.node.submit import RoundPlan
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.spec.game.drawn_audits import get_place
from touchstone.protocol.spec.game.enums import RoundPhase, SeatStatus
from touchstone.protocol.spec.game.pools import get_required_stake, get_stake
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.game.terms import GameWindows
from touchstone.protocol.spec.program_operations import Operation

WINDOWS = GameWindows(
    delay=1, draw_grid=2, train_min=600, train_max=900, audit_max=400, post=100, respond=200, dispute=3_000,
    query=8_400,
)  # fmt: skip
"""For a node that is started again some hundred times."""


def shorten(rounds: int) -> RoundPlan:
    """A task of so many rounds."""
    schedule = replace(TINY_PLAN.schedule, total_steps=rounds * TINY_PLAN.inner_steps)
    return replace(TINY_PLAN, rounds=rounds, schedule=schedule, windows=WINDOWS)


PLAN = shorten(2)
MOST = 2
"""Deaths of one kind, on either side of the write."""
AUDITS = {"JournalBegun", "AuditsBegun", "SealMade", "VoteMade", "VoteTaken"}
KINDS = {
    "solver 0": {
        "JournalBegun", "ClaimSaltsDrawn", "ClaimBoundaryReached", "ClaimFinished", "MergeMade", "SealTaken",
        "VoteTaken",
    },
    "verifier 0": AUDITS,
    "watcher 0": AUDITS,
}  # fmt: skip
"""Records at which each is killed at least once."""


SIGKILLS: dict[str, tuple[Death, ...]] = {
    "solver 0": (
        ("ClaimBoundaryReached", AFTER), ("ClaimFinished", AFTER), ("SealTaken", BEFORE),
        ("VoteTaken", AFTER),
    ),
    "verifier 0": (("SealMade", AFTER), ("VoteMade", BEFORE)),
    "watcher 0": (("SealMade", BEFORE), ("VoteMade", AFTER)),
}  # fmt: skip
CASES = frozenset({"DisputePlanned", "DisputeDropped", "ContestMade"})
GUILTY_PLAN = replace(PLAN, solver_seats=5, least_solvers=1)


def make_mortals(
    world: World, monkeypatch: pytest.MonkeyPatch, cast: dict[str, Part], make: Callable[[Path], Mortal]
) -> dict[str, Mortal]:
    """Some of the cast become mortal: those that `cast` names."""
    mortals = {name: make(world.configure(name).home) for name in cast}
    make_mortal_journals(monkeypatch, {one.home: one for one in mortals.values()})
    for name, mortal in mortals.items():
        cast[name] = replace(cast[name], plays=partial(play_lives, mortal))
    return mortals


def tell(world: World, mortals: Mapping[str, Mortal]) -> None:
    """What a failing test shows."""
    print("\n".join(world.lines), {name: dict(one.deaths) for name, one in mortals.items()})


async def test_a_node_of_each_role_dies_at_every_record_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Round 0 is harassed: each claim and each primary's vote is disputed, and asked about."""
    cast = make_cast(3, 3, 3) | {"harasser": HARASSER}
    async with open_world(tmp_path, tuple(cast)) as world:
        played = {name: cast[name] for name in KINDS}
        watch = StakeWatch(world)
        mortals = make_mortals(world, monkeypatch, played, lambda home: Mortal(home, MOST))
        try:
            game, _ = await run_world(world, PLAN, cast | played, watch.get_view)
        finally:
            tell(world, mortals)
        for name, mortal in mortals.items():
            died = [{kind for kind, at in mortal.deaths if at == side} for side in (BEFORE, AFTER)]
            assert all(KINDS[name] <= kinds for kinds in died), name
        assert game.is_closed
        watch.check(game)
        check_claims(world, game)
    check_words(world)


async def test_who_dies_over_a_case_or_a_contest_still_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cheat: errs in one operation and defends it. drifter: lies inside the limits at each step. Both, and
    two more, sign a wrong root. All others are killed at what they write of it."""
    allow_cheating(monkeypatch)
    wrong = make_planting_compute(Operation.SUBTRACT)
    guilty = {
        "cheat": make_cheating_solver(wrong),
        "drifter": make_cheating_solver(make_drifting_compute(PLAN.limits)),
        "forger 0": SOLVER,
        "forger 1": SOLVER,
    }
    guilty = {name: replace(part, spoil=spoil_first_merge) for name, part in guilty.items()}
    honest = make_cast(1, 3, 3)
    async with open_world(tmp_path, (*guilty, *honest)) as world:
        watch = StakeWatch(world, frozenset(guilty))
        mortals = make_mortals(world, monkeypatch, honest, lambda home: Mortal(home, MOST, CASES))
        try:
            game, _ = await run_world(world, GUILTY_PLAN, honest | guilty, watch.get_view)
        finally:
            tell(world, mortals)
        for side in (BEFORE, AFTER):
            assert {kind for one in mortals.values() for kind, at in one.deaths if at == side} == CASES
        # The root is posted once three of the five have signed it: not all four have to be among them.
        closed = list_closed(world, game)
        assert "cheat" in closed and len(closed) >= 3 and closed <= watch.guilty and not watch.sunk
    check_words(world)


async def test_processes_that_kill_themselves_go_on_from_their_homes(tmp_path: Path) -> None:
    """SIGKILL in the call that writes: no handler runs, no file is closed, what was sent stays sent."""
    cast = make_cast(3, 3, 3)
    for name, deaths in SIGKILLS.items():
        cast[name] = replace(cast[name], plays=partial(play_killed, deaths))
    async with open_world(tmp_path, tuple(cast)) as world:
        watch, plan = StakeWatch(world), shorten(1)
        try:
            game, _ = await run_world(world, plan, cast, watch.get_view)
        finally:
            tell(world, {})
        watch.check(game)
        check_claims(world, game)
    check_words(world)


@dataclass
class StakeWatch:
    """Looks at all stakes while a play lasts, for they are paid out at its end. guilty: who may fall; where
    there are any, the play is over when they have. sunk: seats of others with less than they need."""

    world: World
    guilty: frozenset[str] = frozenset()
    sunk: set[int] = field(default_factory=set)

    def get_view(self, submitter: Node) -> bool:
        """Whether it is over."""
        game = submitter.state.games.get(self.world.task)
        if game is None:
            return False
        open_ = [seat for seat in game.seats.values() if seat.status != SeatStatus.CONVICTED]
        self.sunk |= {s.number for s in open_ if get_stake(game, s.number) < get_required_stake(game, s.role)}
        return bool(self.guilty) and self.guilty <= list_closed(self.world, game)

    def check(self, game: GameState) -> None:
        """Nobody else was convicted, and no stake sank."""
        assert list_closed(self.world, game) == self.guilty and self.sunk == set()


def check_claims(world: World, game: GameState) -> None:
    """Each round is posted with the killed solver's claim, which is the one of its journal."""
    account, seats = world.keys["solver 0"].address.lower(), {**game.former, **game.seats}
    finished = [one for one in read_journal(world, "solver 0") if isinstance(one, ClaimFinished)]
    assert [one.round for one in finished] == list(game.rounds)
    for record in finished:
        game_round = game.rounds[record.round]
        [slot] = [slot for slot, one in game_round.claims.items() if seats[one.seat].account == account]
        assert game_round.claims[slot].claim_root == record.claim_root
        assert game_round.phase == RoundPhase.POSTED and slot in game_round.merged


def check_words(world: World) -> None:
    """For one place one seal and one vote, whoever has it."""
    seals, votes = defaultdict[Any, set[Any]](set), defaultdict[Any, set[Any]](set)
    own = defaultdict[Any, int](int)
    for name in world.keys:
        for record in read_journal(world, name):
            match record:
                case SealMade():
                    seals[get_place(record.sealed)].add(record.sealed)
                    own[name, "seal", get_place(record.sealed)] += 1
                case VoteMade():
                    votes[get_place(record.vote)].add((record.vote, record.signature))
                    own[name, "vote", get_place(record.vote)] += 1
                case SealTaken():
                    seals[get_place(record.sealed)].add(record.sealed)
                case VoteTaken():
                    votes[get_place(record.vote)].add((record.vote, record.signature))
    assert seals and votes and {len(said) for said in [*seals.values(), *votes.values()]} == {1}
    assert set(own.values()) == {1}


def read_journal(world: World, name: str) -> Iterator[Any]:
    with Journal(world.folder / name / JOURNAL_FILE, record_kinds.RECORDS) as journal:
        yield from journal.replay()
