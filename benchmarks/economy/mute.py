"""Who says nothing, or abstains, and whom it helps or hurts: claims for which too few accept, and which
nobody rejects."""

from benchmarks.economy.agent import (
    LAZY,
    SECOND,
    SILENT,
    SOLVER,
    SUBMITTER,
    VERIFIER,
    Agent,
    describe_pair,
    is_late,
)
from benchmarks.economy.cards import VERIFIER_NAMES, WATCHER_NAMES
from benchmarks.economy.market import Plot
from protocol.spec import calls


def list_mute_auditors() -> tuple[Agent, ...]:
    """Claims for which too few auditors accept, and which nobody rejects."""
    idle = Plot(words={0: calls.Abstain, 1: calls.Abstain})
    return (
        Agent(
            "honest solver whose auditors are all silent",
            True,
            (SOLVER,),
            dict.fromkeys((*VERIFIER_NAMES, *WATCHER_NAMES), SILENT),
            accepted=lambda label: False,
        ),
        hire_verifiers("abstain from", idle, "the burned pay"),
        hire_verifiers("are silent on", SILENT, "the fee, and the burned pay"),
        Agent(
            "idle solver and all auditors, who say nothing",
            False,
            (SOLVER, *VERIFIER_NAMES),
            {SOLVER: LAZY, **dict.fromkeys(VERIFIER_NAMES, SILENT)},
            accepted=lambda label: False,
            convicted_by="the fee",
        ),
        Agent(
            "idle solver and all auditors, who abstain to hurt the submitter",
            False,
            (SOLVER, *VERIFIER_NAMES),
            {SOLVER: LAZY, **dict.fromkeys(VERIFIER_NAMES, idle)},
            accepted=lambda label: False,
            convicted_by="the gas",
        ),
    )


def hire_verifiers(what: str, plot: Plot, convicted_by: str) -> Agent:
    """A submitter with half of the verifiers, who do the same in all of their audits."""
    return Agent(
        f"cheating submitter: its verifiers {what} honest work",
        False,
        (SUBMITTER, VERIFIER, SECOND),
        {VERIFIER: plot, SECOND: plot},
        label_draws=describe_pair,
        label_late=is_late,
        accepted=lambda label: "pair" not in label,
        is_excluded=True,
        convicted_by=convicted_by,
    )
