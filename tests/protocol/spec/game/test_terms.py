"""A task's windows and amounts against a deployment's limits: the least passes, one less does not."""

from dataclasses import fields, replace

import pytest

from tests.protocol.spec.game.simulation import AMOUNTS, make_terms
from touchstone.protocol.spec.game.presets import BOUNDS, BOUNDS_12S, BOUNDS_LOCAL, GAME_WINDOWS
from touchstone.protocol.spec.game.state import create_game
from touchstone.protocol.spec.game.terms import (
    GameAmounts,
    GameTerms,
    GameWindows,
    compute_escrow,
    compute_late_reach,
)
from touchstone.protocol.spec.game.terms_check import check_terms
from touchstone.protocol.spec.params import TOKEN_WEI


def get_name(terms: GameTerms) -> tuple[str, str] | None:
    fault = check_terms(terms, BOUNDS_LOCAL)
    return None if fault is None else (fault.name, str(fault.expected))


def with_windows(**changes: int) -> GameTerms:
    terms = make_terms()
    return replace(terms, windows=replace(terms.windows, **changes))


@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_presets_pass_their_limits(name: str) -> None:
    amounts = GameAmounts(**{one.name: TOKEN_WEI for one in fields(GameAmounts)})
    assert check_terms(make_terms(windows=GAME_WINDOWS[name], amounts=amounts), BOUNDS[name]) is None


@pytest.mark.parametrize("name", [one.name for one in fields(GameWindows)])
def test_a_window_below_the_least_is_refused(name: str) -> None:
    least = getattr(BOUNDS_LOCAL.least, name)
    assert get_name(with_windows(**{name: least - 1})) == ("WindowTooShort", f"{name} >= {least}")


@pytest.mark.parametrize("name", [one.name for one in fields(GameWindows)])
def test_a_window_beyond_the_greatest_is_refused(name: str) -> None:
    fault = get_name(with_windows(**{name: BOUNDS_LOCAL.window_max + 1}))
    assert fault == ("WindowTooLong", f"{name} <= {BOUNDS_LOCAL.window_max}")


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"train_max": 39}, "train_max >= train_min (40)"),
        ({"train_min": 38}, "train_min >= delay + draw_grid + audit_max + post (39)"),
        (
            {"delay": 4, "draw_grid": 6, "train_min": 46},
            "audit_max / 3 >= delay + draw_grid + draw_margin (11)",
        ),
        ({"dispute": 183}, "dispute >= 6 audit_max + least respond (184)"),
        ({"train_max": 160, "query": 9999}, "dispute >= until the next round's draw (242)"),
        ({"query": 695}, "query >= six rounds (696)"),
    ],
)  # fmt: skip
def test_windows_must_fit_into_one_another(changes: dict[str, int], rule: str) -> None:
    assert get_name(with_windows(**changes)) == ("WindowTooShort", rule)
    fits = {"train_max": 40, "train_min": 39, "dispute": 184, "query": 696}
    for name, least in fits.items():
        assert get_name(with_windows(**{name: least})) is None


def test_the_next_draw_comes_within() -> None:
    assert compute_late_reach(make_terms().windows) == 2 * 30 + 6 + 2 * (1 + 2) + 80 + 10


BONDS = ("contest_bond", "query_bond", "dispute_bond")


@pytest.mark.parametrize("name", BONDS)
@pytest.mark.parametrize("stake", ["solver_stake", "auditor_stake"])
def test_a_bond_above_the_stake_of_a_seat_is_refused(name: str, stake: str) -> None:
    """A task with bonds beyond everybody's means is one in which nobody challenges."""
    stakes = {"solver_stake": 2_000, "auditor_stake": 2_000, stake: 900}
    for wei, expected in ((900, None), (901, ("AmountTooLarge", f"{name} <= 900"))):
        amounts = replace(AMOUNTS, **stakes, **{name: wei})
        assert get_name(make_terms(amounts=amounts)) == expected


def test_a_contest_fits_into_the_window_of_its_root() -> None:
    """Answers and children of a contest, each at the last block: longer, and one contest holds up the
    settlement of all for as long as it likes."""
    for levels, respond, expected in ((2, 50, None), (2, 51, 204), (4, 25, None), (5, 25, 250)):
        terms = replace(with_windows(respond=respond), contest_levels=levels)
        rule = ("WindowTooShort", f"dispute >= 2 contest_levels respond ({expected})")
        assert get_name(terms) == (rule if expected else None)


@pytest.mark.parametrize("name", [one.name for one in fields(GameAmounts) if one.name not in BONDS])
def test_amounts_beyond_the_greatest_are_refused(name: str) -> None:
    for wei, expected in ((1 << 90, None), ((1 << 90) + 1, "AmountTooLarge")):
        fault = check_terms(make_terms(amounts=replace(AMOUNTS, **{name: wei})), BOUNDS_LOCAL)
        assert (None if fault is None else fault.name) == expected


@pytest.mark.parametrize("name", ["contest_bond", "query_bond", "dispute_bond", "solver_stake"])
def test_a_bond_of_one_wei_is_refused_where_wei_are_worth_something(name: str) -> None:
    """Findings, H2."""
    terms = make_terms(windows=GAME_WINDOWS["12s"])
    amounts = GameAmounts(**{one.name: TOKEN_WEI for one in fields(GameAmounts)})
    fault = check_terms(replace(terms, amounts=replace(amounts, **{name: 1})), BOUNDS_12S)
    assert fault is not None and (fault.name, fault.expected) == ("AmountTooSmall", f"{name} >= {TOKEN_WEI}")


@pytest.mark.parametrize(
    "changes",
    [
        {"rounds": 0}, {"segment_count": 0}, {"draws": 0}, {"draws": 2, "least_verifiers": 5},
        {"solver_seats": 65}, {"least_solvers": 0}, {"least_solvers": 5}, {"least_whistleblowers": 2},
        {"late_chance": (1 << 16) + 1}, {"contest_levels": 0},
    ],
)  # fmt: skip
def test_numbers_out_of_range_are_refused(changes: dict[str, int]) -> None:
    assert check_terms(make_terms(**changes), BOUNDS_LOCAL) is not None


def test_without_late_audits_no_whistleblower_is_needed() -> None:
    assert check_terms(make_terms(late_chance=0, least_whistleblowers=0), BOUNDS_LOCAL) is None


def test_the_escrow_covers_all_that_can_be_paid() -> None:
    terms = make_terms(rounds=3, solver_seats=4, draws=2)
    assert compute_escrow(terms) == 3 * 4 * (100 + 3 * 2 * 10 + 3 * 20)
    assert compute_escrow(replace(terms, late_chance=0)) == 3 * 4 * (100 + 60)
    assert create_game(terms, BOUNDS_LOCAL, 7).vault.compute_total() == compute_escrow(terms)
