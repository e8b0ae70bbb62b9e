"""What truthful UNSERVED votes can cost an honest seat, and when it says ABSTAIN."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.protocol.spec.game.simulation import Simulation, list_votes, make_terms, make_world, vote
from tests.protocol.spec.game.test_deciding import make_drawn
from tests.protocol.spec.game.test_settling import SETTLE, get_account, settle
from touchstone.protocol.spec.audit_draws import get_auditor_places
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.calls import GameCall
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole
from touchstone.protocol.spec.game.events import RoundClosed
from touchstone.protocol.spec.game.pending_draws import (
    count_pending_draws,
    count_pending_rounds,
    count_round_draws,
)
from touchstone.protocol.spec.game.pools import get_stake
from touchstone.protocol.spec.game.presets import WINDOWS_12S, WINDOWS_LOCAL
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.game.unserved_votes import compute_owed_fees, may_vote_unserved
from touchstone.protocol.spec.game.vote_judging import get_vote_flaw
from touchstone.protocol.spec.statements import VoteWord

A, U, X = VoteWord.ACCEPT, VoteWord.UNSERVED, VoteWord.ABSTAIN
VERIFIER, WHISTLEBLOWER, SOLVER = SeatRole.VERIFIER, SeatRole.WHISTLEBLOWER, SeatRole.SOLVER


# How many draws
@pytest.mark.parametrize(("pool", "solvers", "draws"), [(6, 4, 2), (7, 5, 2), (9, 64, 3), (20, 3, 1)])
def test_no_place_of_a_pool_has_more_draws(pool: int, solvers: int, draws: int) -> None:
    terms = make_terms(solver_seats=solvers, least_verifiers=pool, draws=draws)
    counts = [0] * pool
    for slot in range(solvers):
        for draw in range(draws):
            for place in get_auditor_places(pool, slot, draw, draws, solvers):
                counts[place] += 1
    most = count_round_draws(terms, VERIFIER)
    assert max(counts) <= most < max(counts) + 3


def test_rounds_before_fees_are_taken_by_hand() -> None:
    """Blocks of 12 s, rounds of 250 blocks: 16 of an epoch; a round later disputes open for 7,200 and last
    3,600, so 44 rounds close; two pools are frozen. Asks: 2 * 180 + 9,000. The ring has 128 places."""
    terms = make_terms(windows=WINDOWS_12S, solver_seats=4, least_verifiers=8, draws=2)
    assert count_pending_rounds(terms, 250) == 16 + 44 + 2
    assert count_pending_draws(terms, VERIFIER, 250) == 62 * 3
    assert count_pending_rounds(make_terms(windows=replace(WINDOWS_12S, query=9_000)), 250) == 16 + 52 + 2
    assert count_pending_rounds(make_terms(windows=replace(WINDOWS_12S, dispute=99_000)), 250) == 128


def test_no_seat_owes_for_more_rounds_than_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """Solver 0 serves nobody, and an auditor of its own disputes its claim of the epoch's last round when
    that could nearly be settled. All its fees are taken at once, and then no pool is frozen with it."""
    monkeypatch.setattr("tests.protocol.spec.game.simulation.get_training_blocks", lambda seat: 78)
    windows = replace(WINDOWS_LOCAL, dispute=800)
    world = make_world(solvers=2, verifiers=3, rounds=60, late_chance=0, windows=windows)
    world.unserving = {"solver0"}
    number = world.get_seat("solver0").number
    world.plans.append(hold_up)
    world.play(until=lambda w: w.state.seats[number].settled > 0)
    assert world.state.seats[number].settled == 16 and get_stake(world.state, number) < 2_000
    pools = {**world.pools, **world.state.pools}
    most = sum(number in pool.solvers for pool in pools.values())
    closes = [event.closing_block for _, event in world.log if isinstance(event, RoundClosed)]
    fastest = min(after - before for before, after in pairwise(closes))
    least = 16 + (800 + 60) // max(after - before for before, after in pairwise(closes))
    assert least < most <= count_pending_rounds(world.state.terms, fastest)


def hold_up(world: Simulation) -> Iterator[tuple[str, GameCall]]:
    last = world.get_now().rounds.get(15)
    is_due = last is not None and last.closed is not None and world.block > last.closed + 750
    if is_due and not world.state.disputes:
        yield "whistle0", calls.DisputeStatement(StatementRef(15, 0), 80)


def test_whistleblowers_have_draws_where_there_are_late_audits() -> None:
    assert count_round_draws(make_terms(solver_seats=4, least_whistleblowers=3), WHISTLEBLOWER) == 6
    assert count_round_draws(make_terms(late_chance=0), WHISTLEBLOWER) == 0
    assert count_round_draws(make_terms(), SOLVER) == 0


# What is owed
def get_number(world: Simulation, slot: int, rank: int) -> int:
    return world.get_seat(get_account(world, slot, rank)).number


def test_a_vote_is_owed_for_until_no_other_unserved_can_count() -> None:
    world = make_drawn(rounds=1)
    number = get_number(world, 0, 0)
    assert compute_owed_fees(world.state, number, world.block) == 0
    vote(world, 0, 0, 0, U)
    assert compute_owed_fees(world.state, number, world.block) == 70, "a reserve may say the same"
    vote(world, 0, 0, 1, X)
    assert compute_owed_fees(world.state, number, 163) == 70, "the draw has failed, the other may say so yet"
    assert compute_owed_fees(world.state, number, 164) == 0, "one said so alone"


def test_two_unserved_are_owed_for_until_they_are_settled() -> None:
    world = make_drawn(rounds=1)
    vote(world, 0, 0, 0, U), vote(world, 0, 0, 1, U)
    account, number = get_account(world, 0, 0), get_number(world, 0, 0)
    assert compute_owed_fees(world.state, number, 10_000) == 70
    world.jump(164)
    world.send(calls.LetStand(0), "x")
    assert compute_owed_fees(world.state, number, world.block) == 70
    settle(world, account, SETTLE)
    assert compute_owed_fees(world.state, number, world.block) == 0


def test_a_signed_vote_is_owed_for_unless_its_draw_ends_without_it() -> None:
    world = make_drawn(rounds=1)
    number, signed = get_number(world, 0, 1), {(0, 0, 0)}
    assert compute_owed_fees(world.state, number, world.block, signed) == 70
    vote(world, 0, 0, 0, A)
    assert compute_owed_fees(world.state, number, world.block, signed) == 0
    assert compute_owed_fees(world.state, number, world.block, {(9, 0, 0)}) == 0, "a round that is not open"


def test_who_has_signed_a_third_unserved_may_owe_for_it_until_its_time_is_over() -> None:
    """Anybody may hand it in, and then it costs its seat as much as the others."""
    world = make_drawn(rounds=1)
    vote(world, 0, 0, 0, U), vote(world, 0, 0, 1, U)
    numbers = [get_number(world, 0, r) for r in range(3)]
    for block, owed in ((163, [70, 70, 70]), (164, [70, 70, 0])):
        assert [compute_owed_fees(world.state, n, block, {(0, 0, 0)}) for n in numbers] == owed
    assert vote(world, 0, 0, 2, U)
    assert compute_owed_fees(world.state, numbers[2], 164) == 70


def test_fees_that_stood_when_a_round_was_undone_are_owed() -> None:
    """Those that did not, never will: no vote counts there any more."""
    world = make_drawn(rounds=1)
    vote(world, 0, 0, 0, U), vote(world, 0, 0, 1, U), vote(world, 1, 0, 0, U)
    two, one = get_number(world, 0, 0), get_number(world, 1, 0)
    undone = replace(world.state.rounds[0], phase=RoundPhase.UNDONE)
    state = replace(world.state, rounds={0: undone})
    assert (
        compute_owed_fees(world.state, two, world.block) == 70 == compute_owed_fees(state, two, world.block)
    )
    assert compute_owed_fees(world.state, one, world.block) - compute_owed_fees(state, one, world.block) == 70


# What a node says
def test_nobody_says_unserved_where_two_have_said_so() -> None:
    world = make_drawn(rounds=1)
    number = get_number(world, 0, 2)
    for rank in range(2):
        assert may_vote_unserved(world.state, number, (0, 0, 0), world.block)
        vote(world, 0, 0, rank, U)
    assert not may_vote_unserved(world.state, number, (0, 0, 0), world.block)


def test_a_node_says_unserved_for_half_of_its_stake() -> None:
    """Stake 500, F 70: three, not four."""
    world = make_drawn(rounds=1)
    number = get_number(world, 0, 0)
    signed: set[tuple[int, int, int]] = set()
    said = []
    for slot in range(4):
        said.append(may_vote_unserved(world.state, number, (0, slot, 0), world.block, signed))
        signed.add((0, slot, 0))
    assert said == [True, True, True, False]


def test_who_has_no_such_draw_says_nothing() -> None:
    world = make_drawn(rounds=1)
    solver, number = world.get_seat("solver0").number, get_number(world, 0, 0)
    assert not may_vote_unserved(world.state, solver, (0, 0, 0), world.block)
    assert not may_vote_unserved(world.state, 99, (0, 0, 0), world.block)
    assert not may_vote_unserved(world.state, number, (9, 0, 0), world.block)
    assert not may_vote_unserved(world.state, number, (0, 0, 1), world.block), "a late draw"


def play_unserving(is_asking: bool) -> Simulation:
    """Three solvers serve nobody for eight rounds of two draws a claim."""
    world = make_world(solvers=3, verifiers=6, rounds=8, draws=2, least_verifiers=6, late_chance=0)
    world.unserving = {f"solver{i}" for i in range(3)}
    auditors = [seat for seat in world.state.seats.values() if seat.role == VERIFIER]
    world.cheats = {seat.account for seat in auditors}  # They act by the plan below only.

    def plan(now: Simulation) -> Iterator[tuple[str, GameCall]]:
        for seat in auditors:
            current = now.state.seats.get(seat.number)
            for sender, call in list_votes(now, now.get_now(), current) if current else ():
                assert isinstance(call, calls.JudgeVotes)
                chosen = choose(now, seat.number, call) if is_asking else call
                if not chosen.votes or is_counting(now, chosen):
                    yield sender, chosen

    world.plans.append(plan)
    return world.play()


def is_counting(world: Simulation, call: calls.JudgeVotes) -> bool:
    now = world.get_now()
    return get_vote_flaw(now, now.rounds[call.round], call.votes[0], world.block) is None


def choose(world: Simulation, number: int, call: calls.JudgeVotes) -> calls.JudgeVotes:
    place = (call.round, call.votes[0].slot, call.votes[0].draw)
    if may_vote_unserved(world.get_now(), number, place, world.block):
        return call
    return replace(call, votes=tuple(replace(one, word=X) for one in call.votes))


def list_losses(world: Simulation) -> list[int]:
    world.withdraw_all()
    return [world.get_gain(f"verifier{i}") for i in range(6)]


def test_solvers_that_serve_nobody_cannot_take_an_honest_stake() -> None:
    """Without asking, auditors lose nearly all; with it half of the stake at most."""
    assert min(list_losses(play_unserving(is_asking=False))) < -400
    losses = list_losses(play_unserving(is_asking=True))
    assert all(-250 <= loss < 0 for loss in losses), losses
