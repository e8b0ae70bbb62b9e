"""The demo's task: one million parameters on the standard library's sources, four rounds of four segments.

The demo chooses the windows by the speed of the machine (`pace.py`). Limits come from `./dev bench limits`;
moments are reset at each round's start (docs/decisions/0002-moments.md).
"""

from dataclasses import replace

from benchmarks.setting import (
    DEMO_MODEL,
    HELDOUT_BYTES,
    INITIAL_SEED,
    INNER_STEPS,
    OUTER_LEARNING_RATE,
    OUTER_MOMENTUM,
    ROUNDS,
    SEGMENT_STEPS,
    SEQUENCES_PER_STEP,
    build_demo_schedule,
    read_standard_library,
)
from node.submit import TaskPlan
from protocol.compute.calibrate import propose_limits
from protocol.compute.compare import Distances
from protocol.spec.containers import Windows
from protocol.spec.params import DEVNET

LEAST_ROUNDS = ROUNDS
WINDOWS = replace(DEVNET.windows, enrol=450, dispute=150, respond=150, name=100, prove=100)
"""Blocks. In the first enrolment everybody fetches the data and checks one step; in a dispute's clocks a step
is traced and searched. These windows are longer than the preset's, which other tests skip many times."""
SEGMENT_DRAWS = 2
LATE_RATE = 1 << 15
"""Half of the accepted claims are audited a second time."""
HONEST_MAXIMA = (1.9e-5, 8.4e-5, 3.1e-5)
"""First moment, second moment, weights: the most by which honest replays of well-conditioned segments of this
model have ever differed (docs/decisions/0006-limits.md)."""


def build_plan(
    rounds: int = LEAST_ROUNDS, solvers: int = 5, verifiers: int = 5, windows: Windows = WINDOWS
) -> TaskPlan:
    """The demo's plan for so many rounds and enrolled accounts, with these windows."""
    limits = propose_limits([Distances(*HONEST_MAXIMA, 0, 0, 0)])
    return TaskPlan(
        model=DEMO_MODEL,
        schedule=build_demo_schedule(rounds),
        windows=windows,
        amounts=DEVNET.amounts,
        accept=limits.accept,
        reject=limits.reject,
        rounds=rounds,
        inner_steps=INNER_STEPS,
        segment_steps=SEGMENT_STEPS,
        max_solvers=solvers,
        max_verifiers=verifiers,
        max_whistleblowers=2,
        segment_draws=SEGMENT_DRAWS,
        leaf_draws=2,
        late_rate=LATE_RATE,
        carry_moments=0,
        outer_learning_rate=OUTER_LEARNING_RATE,
        outer_momentum=OUTER_MOMENTUM,
        sequences_per_step=SEQUENCES_PER_STEP,
        sequence_tokens=DEMO_MODEL.context_tokens,
        heldout_tokens=HELDOUT_BYTES,
        initial_seed=INITIAL_SEED,
    )


def read_dataset() -> bytes:
    """The running Python's standard library as bytes, held-out text at the end; the same in every process."""
    return read_standard_library()
