"""The task of the utilisation benchmark, and in which rounds a verifier or a solver fails.

The model has 0.2 M parameters, a round eight segments, and windows fit the training time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from tests.task_plans import make_plan
from tests.training_setting import propose_limits
from touchstone.demo.plan import AMOUNTS, HELDOUT_BYTES, HONEST_MAXIMA
from touchstone.node.submit import RoundPlan
from touchstone.protocol.compute.tolerance.compare import Distances
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.terms import ROUNDS_UNDER_WAY, GameWindows
from touchstone.protocol.spec.task_spec import ScheduleConfig
from touchstone.step.plain_decoder import DecoderConfig

HONEST, SILENT_VERIFIER, FALSE_SOLVER = "honest", "silent_verifier", "false_solver"


@dataclass(frozen=True)
class Phase:
    """A phase of the run: its first and last round."""

    name: str
    first: int
    last: int


@dataclass(frozen=True)
class Play:
    """The settings. `train_s` is the training time of a round, which each party draws up to `spread` off.
    `segment_steps` is k; a round has `SEGMENTS` times as many steps."""

    train_s: float
    counts: tuple[int, int, int]
    segment_steps: int
    block_s: int = 2
    spread: float = 0.02
    seed: int = 1

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases, in order."""
        return list_phases(self.counts)

    @property
    def rounds(self) -> int:
        """The rounds of all phases."""
        return sum(self.counts)

    @property
    def first_false(self) -> int:
        """The round of the first false claim."""
        return self.phases[-1].first

    @property
    def last_with_all(self) -> int:
        """The last round that has all verifiers."""
        return self.phases[0].last


def list_phases(counts: Sequence[int]) -> tuple[Phase, ...]:
    """Returns the phases with these numbers of rounds."""
    found, first = [], 0
    for name, count in zip((HONEST, SILENT_VERIFIER, FALSE_SOLVER), counts, strict=True):
        found.append(Phase(name, first, first + count - 1))
        first += count
    return tuple(found)


FULL = Play(train_s=180.0, counts=(8, 6, 6), segment_steps=4)
QUICK = Play(train_s=12.0, counts=(2, 1, 2), segment_steps=2)


SOLVERS, VERIFIERS, WHISTLEBLOWERS = 4, 8, 1
DRAWS = 2
"""The audited segments of a claim (q)."""
SEGMENTS = 8
"""The segments of a round (n): a replay takes an eighth of a round."""
MODEL = DecoderConfig(256, 64, 192, 3, 4, 4, 64)
SEQUENCES = 4
DELAY, GRID, POST, RESPOND = 1, 2, 15, 60
SLACK = 10
"""Blocks for what an audit sends, besides its replay."""
CONTEST_LEVELS = 4
"""How often a contester names a child in a tensor of this size."""


def fit_windows(play: Play) -> GameWindows:
    """Returns the least windows that hold the training time of a round and the replay of a segment. A primary
    has the time of one replay before reserves count, and two reserves have as much again, twice."""
    slowest = ceil(play.train_s * (1 + play.spread) / play.block_s)
    third = DELAY + GRID + BOUNDS_LOCAL.draw_margin + ceil(slowest / SEGMENTS) + SLACK
    audit_max = 3 * third
    train_min = max(slowest + SLACK, DELAY + GRID + audit_max + POST)
    train_max = 2 * train_min
    dispute = max(
        6 * audit_max + BOUNDS_LOCAL.least.respond,
        2 * (audit_max + DELAY + GRID) + POST + train_max + audit_max // 3,
        2 * CONTEST_LEVELS * RESPOND,
    )
    ask = ROUNDS_UNDER_WAY * (train_max + audit_max + POST)
    return GameWindows(DELAY, GRID, train_min, train_max, audit_max, POST, RESPOND, dispute, ask)


def build_plan(play: Play) -> RoundPlan:
    """Returns the task. It starts with all members (the whistleblower joins last), and goes on without the
    verifier that stops and the solver that is convicted. Late audits are off, because they need three
    whistleblowers."""
    inner_steps = SEGMENTS * play.segment_steps
    return make_plan(
        MODEL,
        schedule=ScheduleConfig(
            nearest(2e-3), warmup_steps=inner_steps, total_steps=play.rounds * inner_steps
        ),
        windows=fit_windows(play),
        amounts=AMOUNTS,
        limits=propose_limits([Distances(*HONEST_MAXIMA, 0, 0, 0)]),
        rounds=play.rounds,
        inner_steps=inner_steps,
        segment_steps=play.segment_steps,
        solver_seats=SOLVERS,
        draws=DRAWS,
        late_chance=0,
        least_solvers=SOLVERS - 1,
        least_verifiers=3 * DRAWS,
        least_whistleblowers=WHISTLEBLOWERS,
        carry_moments=1,
        outer_learning_rate=nearest(0.7),
        outer_momentum=nearest(0.6),
        sequences_per_step=SEQUENCES,
        sequence_tokens=MODEL.context_tokens,
        heldout_tokens=HELDOUT_BYTES,
        initial_seed=play.seed,
    )
