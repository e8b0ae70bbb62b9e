"""Who plays for money, and how: honest roles, honest roles among cheats, and every cheat with its partners.

Half of the verifiers and of the whistleblowers may belong to a cheat: verifier-0, verifier-1 and watcher-0.
Slot 0 is the cheat's (or its victim's); slot 1 is an honest solver's unless a plot says otherwise.
"""

from benchmarks.economy.agent import (
    ALL,
    LAZY,
    OWNED,
    POISONED,
    RIVAL,
    SECOND,
    SILENT,
    SOLVER,
    SUBMITTER,
    VERIFIER,
    WATCHER,
    Agent,
    count_primaries,
    count_ranks,
    describe_pair,
    describe_served,
    draw_late,
    is_late,
    meet,
    meet_late,
)
from benchmarks.economy.cards import VERIFIER_NAMES, WATCHER_NAMES
from benchmarks.economy.ground import SEGMENTS
from benchmarks.economy.market import Plot
from benchmarks.economy.mute import hire_verifiers, list_mute_auditors
from protocol.spec import calls

LATER = Plot(silent=frozenset({"postOuter"}))
"""Leaves the outer root to others."""


def _honest() -> tuple[Agent, ...]:
    others = (SOLVER, *VERIFIER_NAMES, *WATCHER_NAMES)
    return (
        Agent("honest solver", True, (SOLVER,), rounds=3),
        Agent("honest verifier", True, (VERIFIER,), label_draws=count_primaries(VERIFIER), slots=2, rounds=5),
        Agent("honest whistleblower", True, (WATCHER,), label_late=draw_late(WATCHER), slots=2, rounds=3),
        Agent("honest solver who posts the outer root", True, (RIVAL,), dict.fromkeys(others, LATER)),
        Agent("honest submitter", True, (SUBMITTER,), label_late=is_late),
    )


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
            {VERIFIER: SILENT},
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
        hire_verifiers("reject", LIAR, "the referee"),
    )


def _short_of_the_aim() -> tuple[Agent, ...]:
    mute = Plot(words={0: calls.Abstain})
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
            "honest submitter among an idle solver and auditors who all abstain from its claim",
            True,
            (SUBMITTER,),
            {SOLVER: LAZY, **dict.fromkeys(VERIFIER_NAMES, mute)},
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
    *list_mute_auditors(),
    *_short_of_the_aim(),
)
