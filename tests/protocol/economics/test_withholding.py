"""What withholding data gains, what the fee takes, and what the machine lets a cheat do about it."""

from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product
from math import comb

import pytest

from tests.protocol.spec.game.simulation import AMOUNTS, Simulation, make_terms, make_vote, vote
from tests.protocol.spec.game.test_deciding import make_drawn
from tests.protocol.spec.game.test_settling import SETTLE, get_account, settle
from touchstone.protocol.economics.assumptions import Figures
from touchstone.protocol.economics.owned_auditors import DECIDING, compute_deciding_chance
from touchstone.protocol.economics.withholding import (
    Withholding,
    compute_fee_stake,
    compute_least_fee,
    compute_taken_fees,
    list_withholdings,
)
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.claim_status import count_unserved
from touchstone.protocol.spec.game.presets import WINDOWS_12S
from touchstone.protocol.spec.game.round_machine import apply, fold_all
from touchstone.protocol.spec.game.terms import GameTerms
from touchstone.protocol.spec.statements import VoteWord

A, U, X = VoteWord.ACCEPT, VoteWord.UNSERVED, VoteWord.ABSTAIN
THIRD = Fraction(1, 3)
FIGURES = Figures(cost=30, gain=100, round_blocks=180, owned=THIRD)


def make(segment_count: int = 1, **amounts: int) -> GameTerms:
    return make_terms(
        segment_count=segment_count,
        least_verifiers=6,
        late_chance=0,
        windows=WINDOWS_12S,
        amounts=replace(AMOUNTS, **amounts),
    )


def test_an_own_reserve_that_abstains_first_saves_a_cheat_nothing() -> None:
    """The draw has failed by then. The honest reserve's word counts until its time is over, in 163."""
    world = make_drawn(rounds=1)
    assert vote(world, 0, 0, 0, U)
    assert vote(world, 0, 0, 1, X), "the cheat's"
    world.jump(163)
    assert vote(world, 0, 0, 2, U), "the draw has failed"
    honest = [get_account(world, 0, rank) for rank in (0, 2)]
    world.jump(164)
    world.send(calls.LetStand(0), "x")
    assert settle(world, "solver0", SETTLE) == -70
    assert [settle(world, account, SETTLE) for account in honest] == [-70, -70]


@pytest.mark.parametrize("own", [*product((False, True), repeat=3)], ids=str)
def test_the_fee_is_due_unless_own_auditors_accept(own: tuple[bool, ...]) -> None:
    """Honest auditors say UNSERVED; whatever own ones say, in whatever order all of them come."""
    world = make_drawn(rounds=1)
    world.jump(113)
    words = product(*((A, U, X) if is_own else (U,) for is_own in own))
    fees = [count_fees(world, one, order) for one in words for order in permutations(range(3))]
    is_deciding = own[0] or (own[1] and own[2])
    assert min(fees) == (0 if is_deciding else 1)


def count_fees(world: Simulation, words: tuple[VoteWord, ...], order: tuple[int, ...]) -> int:
    votes = tuple(make_vote(world, world.state, (0, 0, 0, rank), words[rank]) for rank in order)
    events = apply(world.state, calls.JudgeVotes(0, votes), "x", world.block)
    state = fold_all(world.state, events, world.block)
    return count_unserved(state.rounds[0], 0)


def test_the_ways_in_which_own_auditors_accept_are_counted() -> None:
    ways = [0] * 4
    for own in product((False, True), repeat=3):
        ways[sum(own)] += own[0] or (own[1] and own[2])
    assert tuple(ways) == DECIDING


def test_the_least_fee_by_hand() -> None:
    """One segment, one draw. Who computes nothing is accepted with chance m and paid B and V, its auditors
    have 1/3 + 2/3 * 2 * 2/5 pays of 10 at most, and the fee is due where it is not accepted."""
    m = compute_deciding_chance(THIRD, 6, 1)
    audits = 10 * (THIRD + Fraction(2, 3) * 2 * Fraction(2, 5))
    assert compute_least_fee(make(), FIGURES) == int((m * 200 + audits) / (1 - m)) + 1


def test_a_smaller_gain_that_is_stated_needs_a_smaller_fee() -> None:
    m = compute_deciding_chance(THIRD, 6, 1)
    audits = 10 * (THIRD + Fraction(2, 3) * 2 * Fraction(2, 5))
    small = replace(FIGURES, withholding_gain=7)
    assert compute_least_fee(make(), small) == int((m * 107 + audits) / (1 - m)) + 1


def test_one_spoiled_segment_that_is_not_served_bounds_the_gain() -> None:
    """10 segments, one draw: it is hit in one of ten rounds, and honest work is forgone."""
    terms = make(10)
    voided = (1 - compute_deciding_chance(THIRD, 6, 1)) / 10
    one = next(r for r in list_withholdings(terms, FIGURES) if r.fees == voided)
    assert abs(one.accepted - (1 - voided)) < Fraction(1, 1 << 31)
    gain = (1 - voided) * 200 - 27 - 70
    assert abs(one.compute_gain(100) - gain) < Fraction(1, 1_000_000)
    assert compute_least_fee(terms, FIGURES) >= int(gain / voided)


def test_every_refusal_loses_at_the_least_fee_and_one_gains_below() -> None:
    for count in (1, 5, 10, 40):
        terms = make(count)
        least = compute_least_fee(terms, FIGURES)
        for fee, is_safe in ((least, True), (least - 1, False)):
            refusals = list_withholdings(terms, FIGURES)
            assert all(one.compute_gain(100) < fee * one.fees for one in refusals) == is_safe


def test_no_fee_deters_whose_auditors_decide_every_draw() -> None:
    """Five of six own: the one honest seat is a reserve, or both reserves outvote it."""
    with pytest.raises(InvalidInput, match="no fee deters"):
        compute_least_fee(make(), replace(FIGURES, owned=Fraction(5, 6)))


def test_who_computes_nothing_claims_the_whole_round() -> None:
    """40 segments of which one is drawn: no shorter claim of nothing is paid more."""
    first = next(list_withholdings(make(40), FIGURES))
    assert first.earned == 100 and first.most_fees == 1


# Fees that a stake cannot pay
def take_exactly(fee: int, stake: int, draws: int, chance: Fraction) -> Fraction:
    """E min(S, F N) for a binomial N."""
    ways = (
        comb(draws, n) * chance**n * (1 - chance) ** (draws - n) * min(stake, fee * n)
        for n in range(draws + 1)
    )
    return sum(ways, start=Fraction(0))


@pytest.mark.parametrize(("fee", "stake"), [(70, 2_000), (70, 330), (500, 2_000), (50, 10_000), (900, 300)])
def test_taken_fees_are_no_more_than_the_stake_gives(fee: int, stake: int) -> None:
    """79 rounds until the first settle, one draw each, a fifth of them refused in vain."""
    terms = make(unserved_fee=fee, solver_stake=stake)
    taken = compute_taken_fees(
        terms, FIGURES, Withholding(THIRD, Fraction(1, 5), 1, Fraction(0), Fraction(0))
    )
    assert 79 * taken <= take_exactly(fee, stake, 79, Fraction(1, 5))
    assert taken <= Fraction(fee, 5)


@pytest.mark.parametrize("margin", [Fraction(5, 4), Fraction(2), Fraction(7)])
def test_the_least_stake_for_fees_lets_them_be_taken(margin: Fraction) -> None:
    fee = int(margin * compute_least_fee(make(4), FIGURES))
    terms = make(4, unserved_fee=fee)
    stake = compute_fee_stake(terms, FIGURES)
    for wei, is_safe in ((stake, True), (stake - stake // 100, False)):
        rich = make(4, unserved_fee=fee, solver_stake=wei)
        safe = (
            compute_taken_fees(rich, FIGURES, one) >= one.compute_gain(100)
            for one in list_withholdings(rich, FIGURES)
        )
        assert all(safe) == is_safe
