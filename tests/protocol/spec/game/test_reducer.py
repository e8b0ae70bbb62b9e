"""The state after an event: exactly what the call did, on values of its own."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from tests.protocol.spec.game.simulation import (
    START_BLOCK,
    make_quiet_world,
    make_terms,
    make_word,
    post,
    solver,
)
from tests.protocol.spec.game.test_posting import A, judge, make_fall, make_judged
from touchstone.protocol.spec.game import calls, events
from touchstone.protocol.spec.game.assignments import get_drawn_seat
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import ContestTurn, GameOutcome, RoundPhase
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.reducer import fold
from touchstone.protocol.spec.game.round_machine import fold_all
from touchstone.protocol.spec.game.rule_refusals import GameRefusal
from touchstone.protocol.spec.game.state import (
    CountedVote,
    GameState,
    PendingStart,
    Pool,
    RootContest,
    create_game,
)
from touchstone.protocol.spec.game.vault import ESCROW, OUTSIDE, Vault, credit_of, stake_of
from touchstone.protocol.spec.round_seeds import compute_round_beacon, compute_round_seed
from touchstone.protocol.spec.statements import VoteWord

RANDOM = make_word("randomness")


def test_a_node_that_folds_the_log_has_the_state_and_keeps_the_ones_before() -> None:
    """Seats, rounds, a contest, a fall, a stake that is paid out: no event changes what it was given."""
    world = make_fall()
    world.jump(world.block + 6)
    world.send(calls.LetStand(0), "x")
    world.jump(3_000)
    world.send(calls.SettleSeat(solver(2), 2), "x")
    world.send(calls.PayOut(solver(2)), "x")
    state = create_game(make_terms(rounds=5), BOUNDS_LOCAL, START_BLOCK)
    for block, event in world.log:
        kept = deepcopy(state)
        after = fold(state, event, block)
        assert state == kept and after != state, "each event tells something"
        state = after
    assert state == world.state


@pytest.mark.parametrize("counted", [1, 2, 3, 4, 5, 6])
def test_two_thirds_are_reached_once_and_the_last_claim_fills_the_round(counted: int) -> None:
    """Of those that were not convicted when the round opened; a third is rounded up."""
    state = make_quiet_world(solvers=6, solver_seats=6).state
    state = replace(state, rounds={0: replace(state.rounds[0], counted=counted)})
    needed = -(-2 * counted // 3)
    for slot in range(counted):
        state = fold(state, events.ClaimTaken(0, slot, make_word(slot), 6), 110 + slot)
        game_round = state.rounds[0]
        assert game_round.two_thirds == (None if slot + 1 < needed else 110 + needed - 1)
        assert game_round.filled == (110 + slot if slot + 1 == counted else None)
        assert state.seats[solver(slot)].last_commit == 0


def test_a_fall_undoes_what_was_built_on_the_root_and_nothing_before() -> None:
    """A round that still ran closes now; what was frozen, dealt or asked for later ones is dropped."""
    world = make_judged()
    for index in (0, 1):
        assert post(world, (0, 1), (0, 1, 2), index) is None
        judge(world, (A, A, A), 1) if index == 0 else None
    before = replace(world.state, start=PendingStart(3, 120))
    assert set(before.pools) == {0, 1, 2, 3} and before.rounds[2].closed is None
    state = fold(before, events.RootFell(1), 150)
    assert state.rounds[0] == before.rounds[0] and state.root == before.rounds[1].base_root
    fallen, undone = state.rounds[1], state.rounds[2]
    assert (fallen.phase, fallen.fallen, fallen.root, fallen.merged, fallen.signers) == (
        RoundPhase.FALLEN, 150, None, (), (),
    )  # fmt: skip
    assert (undone.phase, undone.closed) == (RoundPhase.UNDONE, 150)
    assert set(state.pools) == set(state.beacons) == {0, 1, 2} and state.start is None
    again = fold(fold(state, events.RootPosted(1, b"r", (0,), ()), 160), events.RootFell(0), 170)
    assert again.rounds[2].closed == 150 and again.rounds[1].phase == RoundPhase.UNDONE


@pytest.mark.parametrize("outcome", [GameOutcome.HOLDS, GameOutcome.FALLS, GameOutcome.MOOT])
def test_after_a_lost_contest_there_is_time_for_another(outcome: GameOutcome) -> None:
    """`respond` from the end of one that stood. A number is used once, however many contests move."""
    contests = [RootContest(number, 0, b"root", 300, "x", ContestTurn.ANSWER, clock=120) for number in (4, 5)]
    state = replace(make_quiet_world().state, contested_until=107)
    for contest in (*contests, replace(contests[0], turn=ContestTurn.CONTESTER)):
        state = fold(state, events.ContestMoved(contest), 110)
    assert state.next_number == 6 and state.contests[4].turn == ContestTurn.CONTESTER
    state = fold(state, events.ContestOver(5, outcome), 150)
    assert set(state.contests) == {4} and state.next_number == 6
    assert state.contested_until == (160 if outcome == GameOutcome.HOLDS else 107)


def test_a_seed_deals_two_rounds_on_and_draws_each_earlier_claim_late_once() -> None:
    """Round 1 is drawn. Of round 0 the claim that was accepted gets a late audit; what is void gets none."""
    state = make_two_closed()
    other, earlier = make_word("another seed"), state.rounds[0]
    state = replace(state, rounds={**state.rounds, 0: replace(earlier, late_seed=None)}, pools=make_pools(5))
    drawn = fold(state, events.AuditsDrawn(1, RANDOM), 160)
    domain, first = state.terms.domain, drawn.rounds[0]
    assert drawn.rounds[1].seed == first.late_seed == compute_round_seed(domain, 1, RANDOM)
    assert (first.late_slots, first.late_from) == (frozenset({1}), 150)
    assert drawn.rounds[1].late_seed is None, "its own late audits are drawn by a later seed"
    assert drawn.beacons[3] == compute_round_beacon(domain, 3, RANDOM) and 4 not in drawn.beacons
    assert drawn.beacons[2] == state.beacons[2], "it was dealt before"
    had = replace(state, rounds={**state.rounds, 0: replace(earlier, late_seed=other)})
    assert fold(had, events.AuditsDrawn(1, RANDOM), 160).rounds[0].late_seed == other


def make_two_closed() -> GameState:
    """Claim 0 of round 0 is void, 1 accepted; round 1 closed in 150; round 2 is dealt."""
    state = make_judged((VoteWord.REJECT_STATE, A, None)).state
    claims = {slot: claim for slot, claim in state.rounds[0].claims.items() if slot < 2}
    first = replace(state.rounds[0], claims=claims)
    second = replace(first, index=1, closed=150, seed=None, votes={}, phase=RoundPhase.RUNNING)
    beacons = {index: make_word("beacon", index) for index in range(3)}
    return replace(state, rounds={0: first, 1: second}, next_round=2, beacons=beacons)


def make_pools(count: int) -> dict[int, Pool]:
    return {index: Pool() for index in range(count)}


@pytest.mark.parametrize(("voted", "after"), [(-1, 0), (0, 0), (3, 3)])
def test_a_seats_last_sign_never_goes_back(voted: int, after: int) -> None:
    """A vote on an older round counts late; who voted in a newer one since was heard of since."""
    world = make_judged((None, None, None))
    number = get_drawn_seat(world.state, world.state.rounds[0], slot=0, draw=0, rank=0)
    assert number is not None
    seat = world.state.seats[number]
    state = replace(world.state, seats={**world.state.seats, number: replace(seat, last_voted=voted)})
    counted = fold_all(state, (events.VoteCounted(0, 0, 0, 0, A), events.VoteOpened(0, 0, 0, 0)), 110)
    assert counted.seats[number].last_voted == after
    assert counted.rounds[0].votes == {(0, 0): {0: CountedVote(A, 110, is_opened=True)}}


@pytest.mark.parametrize(("wei", "name"), [(0, None), (40, None), (41, "CreditTooSmall")])
def test_a_draft_takes_what_there_is_or_refuses_and_the_state_it_began_with_stays(
    wei: int, name: str | None
) -> None:
    """What it logs is what it did; a movement of nothing is not logged."""
    state = replace(make_quiet_world().state, vault=Vault({ESCROW: 9, credit_of("a"): 40}))
    kept, draft, facts = deepcopy(state), Draft(state, 110), dict[str, Any]()
    try:
        draft.take("a", stake_of(1), wei)
    except GameRefusal as refusal:
        facts = {"name": refusal.name, "expected": refusal.expected, "actual": refusal.actual}
    assert facts == ({} if name is None else {"name": name, "expected": f"{wei} wei", "actual": 40})
    moved = events.WeiMoved(credit_of("a"), stake_of(1), wei)
    assert draft.events == ([moved] if wei and name is None else [])
    draft.move(OUTSIDE, ESCROW, 2)
    assert fold_all(state, tuple(draft.events), 110) == draft.state != state == kept
