"""The best play of a proposer who withholds, against closed forms and against the game played with hashes."""

from hashlib import sha256
from itertools import combinations

import pytest

from benchmarks import grinding
from benchmarks.grinding import play_drand, play_many, solve_block_hash, solve_prevrandao

E = 0.25
GAMES = 4_000


def picks(count: int) -> float:
    """Chance that one of `count` fair draws lets the cheat escape."""
    return 1 - (1 - E) ** count


@pytest.mark.parametrize(
    ("slots", "left", "values"),
    [
        ("", 1, 1),
        ("h", 1, 1),
        ("c", 1, 2),
        ("cc", 1, 3),
        ("cc", 2, 2),
        ("ccc", 2, 4),
        ("ccch", 2, 4),
        ("ch", 2, 1),
        ("hc", 2, 2),
        # Withholding the first moves the deciding block from the honest proposer into the run.
        ("chc", 2, 2),
        ("chc", 3, 2),
    ],
)
def test_the_best_play_has_as_many_values_to_choose_from(slots: str, left: int, values: int) -> None:
    owned = tuple(slot == "c" for slot in slots)
    assert solve_prevrandao(owned, left, E).escape == pytest.approx(picks(values))


def test_a_suiting_value_is_bought_with_the_fewest_blocks() -> None:
    assert solve_prevrandao((True,), 1, E).withheld == pytest.approx(1 - E)
    assert solve_prevrandao((False,), 1, E).withheld == 0


def test_the_game_played_with_hashes_agrees() -> None:
    """Three own slots, two blocks to come, then honest proposers: publish any two, or leave it to them."""
    escaped = 0
    for game in range(GAMES):
        published = [*combinations(range(3), 2)]
        mixes = [sha256(f"{game}/{subset}".encode()).digest() for subset in published]
        honest = sha256(f"{game}/honest".encode()).digest()
        suits = [mix[0] < 256 * E for mix in mixes]
        escaped += any(suits) or honest[0] < 256 * E
    expected = solve_prevrandao((True, True, True), 2, E).escape
    deviation = (expected * (1 - expected) / GAMES) ** 0.5
    assert abs(escaped / GAMES - expected) < 4 * deviation


@pytest.mark.parametrize("escape", [0.5, 1e-2])
def test_hashes_are_worse_than_prevrandao_and_drand_is_fair(escape: float) -> None:
    last = escape
    for share in (0.05, 0.3):
        play = play_many(solve_prevrandao, share, escape, ownerships=200)
        assert last < play.escape < play_many(solve_block_hash, share, escape, ownerships=200).escape
        last = play.escape
    assert play_drand(escape).escape == escape


@pytest.mark.parametrize(
    ("slots", "left", "chance", "withheld"),
    [
        ("c", 1, 1.0, 0),
        ("h", 1, E, 0),
        ("hc", 1, E, 0),
        ("chc", 2, 1.0, 1),
        ("cchc", 3, 1.0, 1),
        ("hc", 2, 1.0, 0),
    ],
)
def test_who_builds_the_block_has_its_hash(slots: str, left: int, chance: float, withheld: int) -> None:
    play = solve_block_hash(tuple(slot == "c" for slot in slots), left, E)
    assert play.escape == pytest.approx(chance) and play.withheld == withheld


def test_who_owns_no_slot_has_a_fair_draw() -> None:
    assert play_many(solve_prevrandao, 0.0, E, ownerships=10) == grinding.Play(E, 0.0)
