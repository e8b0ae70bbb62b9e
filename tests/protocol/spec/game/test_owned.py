"""What own auditors decide, against every way in which they can fall on a claim's places."""

from fractions import Fraction
from itertools import combinations, product

import pytest

from touchstone.protocol.economics.owned_auditors import (
    compute_blind_chance,
    compute_deciding_chance,
    compute_deciding_exact,
    compute_fee_chance,
    compute_paid_votes,
    count_owned,
)
from touchstone.protocol.spec.audit_draws import compute_permutation, get_auditor_places
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.claim_status import compute_draw_status
from touchstone.protocol.spec.game.enums import DrawStatus
from touchstone.protocol.spec.game.state import CountedVote
from touchstone.protocol.spec.statements import VoteWord

THIRD, HALF = Fraction(1, 3), Fraction(1, 2)


def list_hands(owned: int, pool: int) -> list[frozenset[int]]:
    return [frozenset(hand) for hand in combinations(range(pool), owned)]


def is_accepting(hand: frozenset[int], places: tuple[int, ...]) -> bool:
    """By the machine's own rule: own auditors accept, honest ones do not."""
    words = [VoteWord.ACCEPT if place in hand else VoteWord.UNSERVED for place in places]
    return (
        compute_draw_status({r: CountedVote(word, 1) for r, word in enumerate(words)}) == DrawStatus.ACCEPTED
    )


@pytest.mark.parametrize(("owned", "pool", "audits"), [*product((0, 1, 2, 3, 4), (6, 7, 9), (1, 2))])
def test_own_seats_decide_as_often_as_counting_all_hands_says(owned: int, pool: int, audits: int) -> None:
    places = [get_auditor_places(pool, 0, draw, audits, 1) for draw in range(audits)]
    hands = list_hands(owned, pool)
    deciding = sum(all(is_accepting(hand, place) for place in places) for hand in hands)
    assert compute_deciding_exact(owned, pool, audits) == Fraction(deciding, len(hands))


def test_the_figures_of_the_design() -> None:
    """Two draws, a large pool: 17 % at a third, 39 % at half of the verifiers."""
    figures = [compute_deciding_exact(count_owned(share, 600), 600, 2) for share in (THIRD, HALF)]
    assert [round(float(figure), 2) for figure in figures] == [0.17, 0.39]


def test_a_pool_of_six_by_hand() -> None:
    """Two of six own: the primary is (1/3), or both reserves of an honest one (2/3 * 2/5 * 1/4)."""
    assert compute_deciding_exact(2, 6, 1) == THIRD + Fraction(2, 3) * Fraction(2, 5) * Fraction(1, 4)
    assert compute_deciding_exact(2, 6, 2) == Fraction(1, 15), "both draws: both primaries"


@pytest.mark.parametrize("share", [Fraction(1, 5), THIRD, Fraction(2, 5), HALF])
@pytest.mark.parametrize("audits", [1, 2, 3])
def test_the_worst_pool_bounds_every_pool(share: Fraction, audits: int) -> None:
    worst = compute_deciding_chance(share, 9, audits)
    for pool in (9, 10, 12, 20, 72, 73, 75, 80, 300, 3_000):
        assert compute_deciding_exact(count_owned(share, pool), pool, audits) <= worst
    assert worst <= (share + (1 - share) * (share * 9 / 8) ** 2) ** audits


def test_nobody_honest_looks_where_all_primaries_are_own() -> None:
    hands = list_hands(3, 9)
    blind = Fraction(sum({0, 1} <= hand for hand in hands), len(hands))
    assert blind == Fraction(1, 12) < compute_blind_chance(THIRD, 2) == Fraction(1, 9)


def test_the_fee_is_due_wherever_own_seats_do_not_decide() -> None:
    """In every pool at least so often, and in the worst of them not a hundredth more."""
    for share in (Fraction(0), THIRD, HALF):
        least = compute_fee_chance(share, 6)
        due = [1 - compute_deciding_exact(count_owned(share, pool), pool, 1) for pool in range(6, 200)]
        assert least <= min(due) < least + Fraction(1, 100)
    assert compute_fee_chance(Fraction(5, 6), 6) == 0, "one honest seat of six never stands alone"


def test_paid_votes_by_hand() -> None:
    """Half of six: the primary's one, or of an honest primary's two reserves 3 in 5 each."""
    assert compute_paid_votes(HALF, 6) == HALF + HALF * 2 * Fraction(3, 5)


def test_the_permutation_spreads_own_seats_evenly() -> None:
    """Seats 0 and 1 of 6 are own: over 3,000 seeds they decide one draw in two fifths of the cases."""
    seeds = [i.to_bytes(32, "big") for i in range(3_000)]
    places = get_auditor_places(6, 0, 0, 1, 1)
    hits = 0
    for seed in seeds:
        order = compute_permutation(seed, "role", 6, 3)
        hits += is_accepting(frozenset(place for place in range(3) if order[place] < 2), places)
    assert abs(hits / 3_000 - 0.4) < 0.04


def test_pools_that_do_not_exist_are_refused() -> None:
    with pytest.raises(InvalidInput, match="no such pool"):
        compute_deciding_exact(2, 5, 2)
