"""Checks whether a deployment allows a task's terms: windows, amounts and numbers. Twin of
`GameTermsCheck.sol`.

A node checks the same bounds as the contract before it stakes, because a task with a window of one block
would convict an honest seat (findings, C2).
"""

from collections.abc import Iterator
from dataclasses import asdict

from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.game.rule_refusals import GameRefusal
from touchstone.protocol.spec.game.terms import (
    AUDITOR_SEATS_MAX,
    NUMBER_MAX,
    ROUNDS_UNDER_WAY,
    SOLVER_SEATS_MAX,
    DeploymentBounds,
    GameAmounts,
    GameTerms,
    compute_late_reach,
)
from touchstone.protocol.spec.params import LATE_RATE_ONE, MAX_SEGMENT_DRAWS


def check_terms(terms: GameTerms, bounds: DeploymentBounds) -> GameRefusal | None:
    """Returns the first rule that the terms break, or None. Contracts and nodes use the same rules."""
    return next(_find_faults(terms, bounds), None)


def _find_faults(terms: GameTerms, bounds: DeploymentBounds) -> Iterator[GameRefusal]:
    windows = asdict(terms.windows)
    for name, least in asdict(bounds.least).items():
        yield from _bound(name, windows[name], least, bounds.window_max, "Window", ("Short", "Long"))
    yield from _bound_sums(terms, bounds)
    yield from _bound_amounts(terms.amounts, bounds)
    yield from _bound_numbers(terms)
    yield from _bound_contest(terms)


def _bound(
    name: str, actual: int, least: int, greatest: int, what: str, words: tuple[str, str]
) -> Iterator[GameRefusal]:
    if actual < least:
        yield GameRefusal(name=f"{what}Too{words[0]}", expected=f"{name} >= {least}", actual=actual)
    if actual > greatest:
        yield GameRefusal(name=f"{what}Too{words[1]}", expected=f"{name} <= {greatest}", actual=actual)


def _bound_sums(terms: GameTerms, bounds: DeploymentBounds) -> Iterator[GameRefusal]:
    """Yields a refusal for each window that is shorter than the sum of the windows that must pass in it."""
    w = terms.windows
    seal = w.delay + w.draw_grid
    leasts = {
        "train_max >= train_min": (w.train_max, w.train_min),
        "train_min >= delay + draw_grid + audit_max + post": (w.train_min, seal + w.audit_max + w.post),
        "audit_max / 3 >= delay + draw_grid + draw_margin": (w.audit_max // 3, seal + bounds.draw_margin),
        "dispute >= 6 audit_max + least respond": (w.dispute, 6 * w.audit_max + bounds.least.respond),
        "dispute >= until the next round's draw": (w.dispute, compute_late_reach(w)),
        "query >= six rounds": (w.query, ROUNDS_UNDER_WAY * (w.train_max + w.audit_max + w.post)),
    }
    for rule, (actual, least) in leasts.items():
        if actual < least:
            yield GameRefusal(name="WindowTooShort", expected=f"{rule} ({least})", actual=actual)


def _bound_amounts(amounts: GameAmounts, bounds: DeploymentBounds) -> Iterator[GameRefusal]:
    """Yields a refusal for each amount that is too small or too large. A bond is at most the price of a seat,
    so that an account that could take a seat can also challenge."""
    seat = min(amounts.solver_stake, amounts.auditor_stake)
    for name, wei in asdict(amounts).items():
        least = bounds.least_bond_wei if name.endswith(("_bond", "_stake")) else 0
        greatest = seat if name.endswith("_bond") else bounds.amount_max
        yield from _bound(name, wei, least, greatest, "Amount", ("Small", "Large"))


def _bound_contest(terms: GameTerms) -> Iterator[GameRefusal]:
    """Yields a refusal if a contest could last longer than the window `dispute`. Every seat's settlement
    waits for the end of a contest."""
    least = 2 * terms.contest_levels * terms.windows.respond
    if terms.windows.dispute < least:
        rule = f"dispute >= 2 contest_levels respond ({least})"
        yield GameRefusal(name="WindowTooShort", expected=rule, actual=terms.windows.dispute)


def _bound_numbers(terms: GameTerms) -> Iterator[GameRefusal]:
    late = RANKS if terms.late_chance else 0
    bounds = {
        "rounds": (terms.rounds, 1, NUMBER_MAX),
        "segment_count": (terms.segment_count, 1, NUMBER_MAX),
        "draws": (terms.draws, 1, MAX_SEGMENT_DRAWS),
        "late_chance": (terms.late_chance, 0, LATE_RATE_ONE),
        "solver_seats": (terms.solver_seats, 1, SOLVER_SEATS_MAX),
        "least_solvers": (terms.least_solvers, 1, terms.solver_seats),
        "least_verifiers": (terms.least_verifiers, RANKS * terms.draws, AUDITOR_SEATS_MAX),
        "least_whistleblowers": (terms.least_whistleblowers, late, AUDITOR_SEATS_MAX),
        "contest_levels": (terms.contest_levels, 1, 16),
    }
    for name, (actual, least, greatest) in bounds.items():
        yield from _bound(name, actual, least, greatest, "Amount", ("Small", "Large"))
