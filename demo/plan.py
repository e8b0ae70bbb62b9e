"""Defines the demo's task: a small Llama on the sources of Python's standard library, in wide windows.

Blocks that nobody needs are skipped, so wide windows cost a slow machine nothing and a fast one little.
Honest parties train with kernels of different processors; the limits are ten times what these differ by.
"""

from dataclasses import dataclass
from fractions import Fraction

from touchstone.demo.choices import LEAST_AUDITORS
from touchstone.node.submit import RoundPlan
from touchstone.protocol.compute.audit.distance_survey import FLOORS, count_floor_units
from touchstone.protocol.spec.calibration_rules import make_limits
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.game.terms import GameAmounts, GameWindows
from touchstone.protocol.spec.params import LATE_RATE_ONE, TOKEN_WEI
from touchstone.protocol.spec.task_spec import Limits, ScheduleConfig
from touchstone.scripts.tasks.decoder_table import record_decoder
from touchstone.scripts.tasks.task_example import read_python_sources
from touchstone.step.optimizers import AdamW
from touchstone.step.plain_decoder import DecoderConfig
from touchstone.step.record_step import Shape

DATASET_BYTES = 1_000_000
HELDOUT_BYTES = 40_000
HONEST_MAXIMA = (1.9e-5, 8.4e-5, 3.1e-5)
"""First moment, second moment, weights: by how much honest replays of well-conditioned segments differ at
most (docs/decisions/0006-limits.md)."""
WINDOWS = GameWindows(
    delay=1, draw_grid=2, train_min=220, train_max=260, audit_max=150, post=40, respond=100, dispute=1_000,
    query=2_700,
)  # fmt: skip
AMOUNTS = GameAmounts(
    **{
        name: amount * TOKEN_WEI
        for name, amount in {
            "solver_stake": 2_000, "auditor_stake": 500, "solver_pay": 100, "audit_pay": 10, "late_pay": 20,
            "dropped_fee": 60, "unserved_fee": 70, "contest_bond": 300, "query_bond": 40, "dispute_bond": 80,
            "finder_cap": 150,
        }.items()
    }
)  # fmt: skip


@dataclass(frozen=True)
class Size:
    """How much there is to compute: `steps` in a round, `segment` in a segment, `sequences` in a batch."""

    model: DecoderConfig
    steps: int
    segment: int
    sequences: int
    peak_rate: float


DEFAULT = Size(DecoderConfig(256, 64, 176, 2, 4, 4, 64), steps=40, segment=10, sequences=8, peak_rate=4e-3)
"""133,000 parameters."""
QUICK = Size(DecoderConfig(256, 32, 64, 2, 2, 2, 32), steps=8, segment=2, sequences=4, peak_rate=5e-3)
"""37,000 parameters."""


def build_plan(
    size: Size,
    rounds: int,
    solvers: int,
    verifiers: int,
    watchers: int,
    seed: int,
    numeric_format: str = "float32",
) -> RoundPlan:
    """Returns the task for so many honest solvers and one more, which may cheat. It starts when all auditors
    are there, and goes on without the cheat."""
    steps = rounds * size.steps
    shape = Shape(size.sequences, size.model.context_tokens, numeric_format)
    return RoundPlan(
        step=record_decoder(size.model, AdamW(), shape),
        schedule=ScheduleConfig(nearest(size.peak_rate), warmup_steps=size.steps // 4, total_steps=steps),
        windows=WINDOWS,
        amounts=AMOUNTS,
        limits=make_honest_limits(),
        rounds=rounds,
        inner_steps=size.steps,
        segment_steps=size.segment,
        solver_seats=solvers + 1,
        draws=1,
        late_chance=LATE_RATE_ONE // 2 if watchers >= LEAST_AUDITORS else 0,
        least_solvers=solvers,
        least_verifiers=verifiers,
        least_whistleblowers=watchers,
        carry_moments=1,
        outer_learning_rate=nearest(0.7),
        outer_momentum=nearest(0.6),
        sequences_per_step=size.sequences,
        sequence_tokens=size.model.context_tokens,
        heldout_tokens=HELDOUT_BYTES,
        initial_seed=seed,
        numeric_format=numeric_format,
    )


def make_honest_limits() -> Limits:
    """Returns limits from `HONEST_MAXIMA`, by the rule of calibration."""
    first, second, weights = map(Fraction, HONEST_MAXIMA)
    return make_limits((first, second, weights), count_floor_units(FLOORS))


def read_dataset() -> bytes:
    """Returns sources of the running Python, held-out text at the end."""
    return read_python_sources(DATASET_BYTES)
