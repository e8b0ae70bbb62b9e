"""Who is somebody in a round for money, and which of the cards matter to it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks.economy.cards import VERIFIER_NAMES, WATCHER_NAMES, Draws, LabelDraws, LabelLate, Late
from benchmarks.economy.ground import SEGMENTS
from benchmarks.economy.market import Plot

SOLVER, RIVAL = "solver-0", "solver-1"
VERIFIER, SECOND = VERIFIER_NAMES[:2]
WATCHER = WATCHER_NAMES[0]
SUBMITTER = "submitter"
OWNED = frozenset({SOLVER, VERIFIER, SECOND, WATCHER})
"""A solver with half of the verifiers and half of the whistleblowers."""
ALL = frozenset(range(SEGMENTS))
POISONED = frozenset({1})
"""The segment that is drawn least."""
LAZY = Plot(spoiled=ALL)
SILENT = Plot(silent=frozenset({"commitReplay.0", "commitReplay.1", "commitReplay.2"}))


def always(_: object) -> str:
    """One outcome."""
    return ""


def count_primaries(*names: str) -> LabelDraws:
    """How often one of these is drawn first."""
    return lambda draws: str(sum(draw.auditors[0] in names for draw in draws))


def count_ranks(name: str) -> LabelDraws:
    """How often somebody is drawn first, and how often as a reserve."""

    def label(draws: Draws) -> str:
        reserves = sum(name in draw.auditors[1:] for draw in draws)
        return f"{count_primaries(name)(draws)} and {reserves}"

    return label


def meet(spoiled: frozenset[int], partners: frozenset[str]) -> LabelDraws:
    """Whether a primary who is no partner meets a spoiled segment."""

    def label(draws: Draws) -> str:
        met = [one for one in draws if one.segment in spoiled and one.auditors[0] not in partners]
        return "met" if met else "unmet"

    return label


def meet_late(spoiled: frozenset[int], partners: frozenset[str]) -> LabelLate:
    """Whether a late auditor who is no partner does."""

    def label(late: Late | None) -> str:
        is_met = late is not None and late.segment in spoiled and late.watcher not in partners
        return "late" if is_met else ""

    return label


def draw_late(name: str) -> LabelLate:
    """Whether somebody is drawn late."""
    return lambda late: "drawn" if late is not None and late.watcher == name else ""


def is_late(late: Late | None) -> str:
    """Whether there is a late audit."""
    return "late" if late else ""


def describe_served(partners: frozenset[str]) -> LabelDraws:
    """Of each draw: how many of its auditors are partners, and whether the first is."""

    def label(draws: Draws) -> str:
        kinds = []
        for draw in draws:
            reserves = sum(one in partners for one in draw.auditors[1:])
            kinds.append("own" if draw.auditors[0] in partners else f"reserves {reserves}")
        return ", ".join(sorted(kinds))

    return label


def describe_pair(draws: Draws) -> str:
    """Of each draw: whether a pair of verifiers was drawn first, and once more as a reserve, which makes a
    majority of the three."""
    owned, kinds = {VERIFIER, SECOND}, []
    for draw in draws:
        is_first = draw.auditors[0] in owned
        kinds.append("none" if not is_first else "pair" if owned & set(draw.auditors[1:]) else "one")
    return ", ".join(sorted(kinds))


@dataclass(frozen=True)
class Agent:
    """Somebody whose profit is counted. members: whose money it is; plots: of everybody who is not honest, by
    name; label_draws, label_late: what of slot 0's cards matters; accepted: after which of them the claim of
    slot 0 is accepted; slots: over how many slots an auditor's work is counted (its share of slot 0 twice);
    is_excluded: verifier-0 is not drawn in slot 1 at all; convicted_by: how it falls where it does;
    rounds: of each outcome, more where a profit is small beside who happens to send what anybody may."""

    name: str
    honest: bool
    members: tuple[str, ...]
    plots: Mapping[str, Plot] = field(default_factory=dict)
    label_draws: LabelDraws = always
    label_late: LabelLate = always
    accepted: Callable[[str], bool] = lambda label: True
    slots: int = 1
    is_excluded: bool = False
    convicted_by: str = ""
    rounds: int = 1
