"""Who plays for money, and how: honest roles, honest roles among cheats, and every cheat with its partners.

Half of the verifiers and of the whistleblowers may belong to a cheat: verifier-0, verifier-1 and watcher-0.
Slot 0 is the cheat's (or its victim's); slot 1 is an honest solver's unless a plot says otherwise.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks.economy.cards import VERIFIER_NAMES, WATCHER_NAMES, Draws, LabelDraws, LabelLate, Late
from benchmarks.economy.ground import SEGMENTS
from benchmarks.economy.market import Plot
from protocol.spec import calls

SOLVER, RIVAL = "solver-0", "solver-1"
VERIFIER, SECOND = VERIFIER_NAMES[:2]
WATCHER = WATCHER_NAMES[0]
SUBMITTER = "submitter"
OWNED = frozenset({SOLVER, VERIFIER, SECOND, WATCHER})
"""A solver with half of the verifiers and half of the whistleblowers."""
ALL = frozenset(range(SEGMENTS))
POISONED = frozenset({1})
"""The segment that is drawn least."""


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


def _honest() -> tuple[Agent, ...]:
    return (
        Agent("honest solver", True, (SOLVER,), rounds=3),
        Agent("honest verifier", True, (VERIFIER,), label_draws=count_primaries(VERIFIER), slots=2, rounds=5),
        Agent("honest whistleblower", True, (WATCHER,), label_late=draw_late(WATCHER), slots=2, rounds=3),
        Agent("honest solver who posts the outer root", True, (RIVAL,)),
        Agent("honest submitter", True, (SUBMITTER,), label_late=is_late),
    )


LAZY = Plot(spoiled=ALL)
LIAR = Plot(invents=True)
SERVANT = Plot(copies=frozenset({0, 1}), partners=frozenset({SOLVER, RIVAL}))
"""An auditor who takes every solver's root and hands it in."""


def _among_cheats() -> tuple[Agent, ...]:
    everybody = dict.fromkeys(VERIFIER_NAMES, LIAR)
    bribed = dict.fromkeys((*VERIFIER_NAMES, *WATCHER_NAMES), SERVANT)
    cheating = {SOLVER: LAZY, RIVAL: LAZY}
    return (
        Agent(
            "honest solver among auditors who lie",
            True,
            (SOLVER,),
            {**everybody, RIVAL: LAZY, **dict.fromkeys(WATCHER_NAMES, LIAR)},
            accepted=lambda label: False,
            convicted_by="the referee",
        ),
        Agent(
            "honest verifier among solvers who compute nothing and bribed auditors",
            True,
            (VERIFIER,),
            {**bribed, **cheating, VERIFIER: Plot()},
            label_draws=count_ranks(VERIFIER),
            accepted=lambda label: label.startswith("0"),
            slots=2,
            is_excluded=True,
            convicted_by="the referee",
        ),
        Agent(
            "honest whistleblower among solvers who compute nothing and bribed auditors",
            True,
            (WATCHER,),
            {**bribed, **cheating, WATCHER: Plot()},
            label_late=draw_late(WATCHER),
            slots=2,
            convicted_by="the referee",
        ),
        Agent(
            "honest submitter among solvers who compute nothing",
            True,
            (SUBMITTER,),
            cheating,
            accepted=lambda label: False,
            convicted_by="the referee",
        ),
    )


def _cheating_solvers() -> tuple[Agent, ...]:
    alone, owned = frozenset({SOLVER}), OWNED
    partner = Plot(copies=frozenset({0}), partners=owned)
    cartel = {VERIFIER: partner, SECOND: partner, WATCHER: partner}
    served = Plot(spoiled=ALL, serves=owned)
    return (
        Agent(
            "lazy solver",
            False,
            (SOLVER,),
            {SOLVER: LAZY},
            label_draws=meet(ALL, alone),
            accepted=lambda label: False,
            convicted_by="the referee",
        ),
        Agent(
            "poisoner",
            False,
            (SOLVER,),
            {SOLVER: Plot(spoiled=POISONED)},
            label_draws=meet(POISONED, alone),
            label_late=meet_late(POISONED, alone),
            accepted=lambda label: label == "unmet",
            convicted_by="the referee",
        ),
        Agent(
            "poisoner who is silent in its dispute",
            False,
            (SOLVER,),
            {SOLVER: Plot(spoiled=POISONED, defends=False)},
            label_draws=meet(POISONED, alone),
            label_late=meet_late(POISONED, alone),
            accepted=lambda label: label == "unmet",
            convicted_by="silence",
        ),
        Agent(
            "cartel: idle solver, half of the auditors",
            False,
            tuple(sorted(owned)),
            {SOLVER: LAZY, **cartel},
            label_draws=count_primaries(*owned),
            label_late=meet_late(ALL, owned),
            accepted=lambda label: label == "2",
            convicted_by="the referee",
        ),
        Agent(
            "bribery: poisoner and one verifier",
            False,
            (SOLVER, VERIFIER),
            {SOLVER: Plot(spoiled=POISONED), VERIFIER: partner},
            label_draws=meet(POISONED, frozenset({VERIFIER})),
            label_late=meet_late(POISONED, alone),
            accepted=lambda label: label == "unmet",
            convicted_by="the referee",
        ),
        Agent(
            "coalition that serves only its own auditors",
            False,
            tuple(sorted(owned)),
            {SOLVER: served, **cartel},
            label_draws=describe_served(owned),
            label_late=draw_late(WATCHER),
            accepted=lambda label: all(one in ("own", "reserves 2") for one in label.split(", ")),
            convicted_by="the fee",
        ),
        Agent(
            "self-challenger: idle solver, its own whistleblower and submitter",
            False,
            (SOLVER, WATCHER, SUBMITTER),
            {SOLVER: LAZY, WATCHER: Plot(accuses=((0, 0),))},
            accepted=lambda label: False,
            convicted_by="the referee, called by itself",
        ),
        Agent(
            "dropper of unfavourable shards",
            False,
            (SOLVER,),
            {SOLVER: Plot(silent=frozenset({"commit"}))},
            accepted=lambda label: False,
            convicted_by="the fee",
        ),
        Agent(
            "withholder: opens the start, not the end",
            False,
            (SOLVER,),
            {SOLVER: Plot(silent=frozenset({"openEnd"}))},
            accepted=lambda label: False,
            convicted_by="the fee",
        ),
        Agent(
            "withholder: serves nobody",
            False,
            (SOLVER,),
            {SOLVER: Plot(serves=frozenset())},
            accepted=lambda label: False,
            convicted_by="the fee",
        ),
    )


def _cheating_auditors() -> tuple[Agent, ...]:
    liars = {VERIFIER: LIAR, SECOND: LIAR}
    return (
        Agent(
            "inventing verifier",
            False,
            (VERIFIER,),
            {VERIFIER: LIAR},
            label_draws=count_primaries(VERIFIER),
            slots=2,
            is_excluded=True,
            convicted_by="the referee",
        ),
        Agent(
            "griefing pair: two verifiers reject honest work",
            False,
            (VERIFIER, SECOND),
            liars,
            label_draws=describe_pair,
            accepted=lambda label: "pair" not in label,
            is_excluded=True,
            convicted_by="the referee",
        ),
        Agent(
            "verifier who is silent after the draw",
            False,
            (VERIFIER,),
            {VERIFIER: Plot(silent=frozenset({"commitReplay.0", "commitReplay.1", "commitReplay.2"}))},
            label_draws=count_primaries(VERIFIER),
            slots=2,
            is_excluded=True,
            convicted_by="the fee",
        ),
        Agent(
            "verifier who commits and does not reveal",
            False,
            (VERIFIER,),
            {VERIFIER: Plot(invents=True, silent=frozenset({"reveal.0", "reveal.1", "reveal.2"}))},
            label_draws=count_primaries(VERIFIER),
            slots=2,
            is_excluded=True,
            convicted_by="silence",
        ),
        Agent(
            "inventing whistleblower",
            False,
            (WATCHER,),
            {WATCHER: LIAR},
            label_late=draw_late(WATCHER),
            slots=2,
            convicted_by="the referee",
        ),
        Agent(
            "verifier handed a false root",
            False,
            (VERIFIER,),
            {SOLVER: LAZY, VERIFIER: SERVANT},
            label_draws=count_primaries(VERIFIER),
            label_late=is_late,
            accepted=lambda label: label == "2",
            convicted_by="the referee, where another auditor's replay shows the solver",
        ),
    )


def _cheating_challengers() -> tuple[Agent, ...]:
    every = tuple((0, segment) for segment in range(SEGMENTS))
    bought = frozenset({SOLVER, WATCHER})
    return (
        Agent(
            "flooder: disputes every segment of an honest claim",
            False,
            (WATCHER,),
            {WATCHER: Plot(accuses=every)},
            label_late=draw_late(WATCHER),
            convicted_by="the bonds",
        ),
        Agent(
            "delayer: opens a dispute and never moves",
            False,
            (WATCHER,),
            {WATCHER: Plot(accuses=((0, 0),), moves=False)},
            label_late=draw_late(WATCHER),
            convicted_by="the bond",
        ),
        Agent(
            "poisoner who disputes its own right segment to look acquitted",
            False,
            (SOLVER, WATCHER),
            {SOLVER: Plot(spoiled=POISONED), WATCHER: Plot(accuses=((0, 0),), partners=bought)},
            label_draws=meet(POISONED, bought),
            label_late=meet_late(POISONED, bought),
            accepted=lambda label: label == "unmet",
            convicted_by="the referee, and the burned half of the bond",
        ),
        Agent(
            "cheating submitter: its verifiers reject honest work",
            False,
            (SUBMITTER, VERIFIER, SECOND),
            {VERIFIER: LIAR, SECOND: LIAR},
            label_draws=describe_pair,
            label_late=is_late,
            accepted=lambda label: "pair" not in label,
            is_excluded=True,
            convicted_by="the referee",
        ),
    )


def _short_of_the_aim() -> tuple[Agent, ...]:
    idle = Plot(words={0: calls.Abstain, 1: calls.Abstain})
    silent = Plot(silent=frozenset({"commitReplay.0", "commitReplay.1", "commitReplay.2"}))
    return (
        Agent(
            "verifier handed a right root by an honest solver",
            False,
            (VERIFIER,),
            {VERIFIER: SERVANT},
            label_draws=count_primaries(VERIFIER),
            slots=2,
            convicted_by="nothing",
        ),
        Agent(
            "cheating submitter: its verifiers abstain from honest work",
            False,
            (SUBMITTER, VERIFIER, SECOND),
            {VERIFIER: idle, SECOND: idle},
            label_draws=describe_pair,
            label_late=is_late,
            accepted=lambda label: "pair" not in label,
            is_excluded=True,
            convicted_by="nothing",
        ),
        Agent(
            "honest solver whose auditors are all silent",
            True,
            (SOLVER,),
            dict.fromkeys((*VERIFIER_NAMES, *WATCHER_NAMES), silent),
            accepted=lambda label: False,
        ),
        Agent(
            "honest verifier whom one of two solvers does not serve",
            True,
            (VERIFIER,),
            {SOLVER: Plot(serves=frozenset())},
            label_draws=count_ranks(VERIFIER),
            accepted=lambda label: False,
        ),
        Agent(
            "honest whistleblower where nothing is accepted",
            True,
            (WATCHER,),
            {SOLVER: Plot(silent=frozenset({"commit"})), RIVAL: Plot(silent=frozenset({"commit"}))},
            accepted=lambda label: False,
        ),
    )


AGENTS = (
    *_honest(),
    *_among_cheats(),
    *_cheating_solvers(),
    *_cheating_auditors(),
    *_cheating_challengers(),
    *_short_of_the_aim(),
)
