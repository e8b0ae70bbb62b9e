"""What a round's block hashes deal to one claim, and the exact chance of every deal: all equally likely draws
are counted, none is sampled."""

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations, permutations, product
from typing import NamedTuple

from benchmarks.economy.ground import DRAWS, LATE_RATE, SEGMENTS, VERIFIERS, WHISTLEBLOWERS
from protocol.spec.drawn import compute_late_draw, compute_slot_draws
from protocol.spec.params import LATE_RATE_ONE, MIN_VERIFIERS
from protocol.spec.round import RoundState

VERIFIER_NAMES = tuple(f"verifier-{i}" for i in range(VERIFIERS))
WATCHER_NAMES = tuple(f"watcher-{i}" for i in range(WHISTLEBLOWERS))


class Draw(NamedTuple):
    """One drawn segment and its auditors by rank."""

    segment: int
    auditors: tuple[str, ...]


class Late(NamedTuple):
    """A late audit."""

    segment: int
    watcher: str


Draws = tuple[Draw, ...]
LabelDraws = Callable[[Draws], str]
LabelLate = Callable[[Late | None], str]


def read_draws(state: RoundState, slot: int, names: dict[str, str]) -> Draws:
    """The sealed draws of a slot. names: by account."""
    found = compute_slot_draws(state, slot)
    return tuple(Draw(one.segment, tuple(names[account] for account in one.auditors)) for one in found)


def read_late(state: RoundState, slot: int, names: dict[str, str]) -> Late | None:
    """The sealed late audit of a slot, None where there is none."""
    found = compute_late_draw(state, slot)
    return None if found is None else Late(found.segment, names[found.primary])


def list_draws() -> Iterator[Draws]:
    """All draws, each as likely as the others."""
    every = combinations(range(SEGMENTS), DRAWS)
    segments = [one for one in every if all(b - a > 1 for a, b in zip(one, one[1:], strict=False))]
    auditors = list(permutations(VERIFIER_NAMES, MIN_VERIFIERS))
    for chosen, ranks in product(segments, product(auditors, repeat=DRAWS)):
        yield tuple(Draw(segment, names) for segment, names in zip(chosen, ranks, strict=True))


def list_lates(draws: Draws) -> Iterator[tuple[Late | None, Fraction]]:
    """All late audits after a draw, with their chances."""
    rate = Fraction(LATE_RATE, LATE_RATE_ONE)
    yield None, 1 - rate
    drawn = {draw.segment for draw in draws}
    undrawn = [segment for segment in range(SEGMENTS) if segment not in drawn]
    for segment, watcher in product(undrawn, WATCHER_NAMES):
        yield Late(segment, watcher), rate / (len(undrawn) * WHISTLEBLOWERS)


def count_outcomes(
    label_draws: LabelDraws, label_late: LabelLate, is_accepted: Callable[[str], bool]
) -> dict[tuple[str, str], Fraction]:
    """The chance of every outcome, by its labels. Only what is accepted is audited late."""
    chances: Counter[tuple[str, str]] = Counter()
    draws = list(list_draws())
    for one in draws:
        label = label_draws(one)
        lates = list_lates(one) if is_accepted(label) else [(None, Fraction(1))]
        for late, chance in lates:
            chances[label, label_late(late)] += chance / len(draws)  # type: ignore[assignment]
    return dict(chances)  # type: ignore[arg-type]
