"""The demo's task: one million parameters on the standard library's sources, four rounds of four segments.

Windows are many times what a phase takes on two cores, since slowness must slash nobody; the devnet clock
skips what nobody needs. Limits come from `python -m benchmarks.limits --steps 5`; moments are reset at each
round's start (docs/decisions/0002-moments.md).
"""

from dataclasses import replace

from benchmarks.setting import DEMO_MODEL, HELDOUT_BYTES, read_standard_library
from node.submit import TaskPlan
from protocol.spec.containers import Limits, ScheduleConfig, Windows
from protocol.spec.float32 import nearest
from protocol.spec.params import DEVNET

LEAST_ROUNDS = 4
INNER_STEPS = 20
SEGMENT_STEPS = 5
SEGMENT_DRAWS = 2
INNER_WARMUP_STEPS = 8
LATE_RATE = 1 << 15
"""Half of the accepted claims are audited a second time."""
WINDOWS = Windows(
    enrol=400, delay=2, seal=200, train=900, start=200, replay=600, show=200, open=300,
    merge=200, dispute=200, respond=200, name=200, prove=200,
)  # fmt: skip
"""Blocks: a second each in real time, sooner where transactions come. Enrolment holds the start of all
processes."""
ACCEPT = Limits(
    tau_m=1_989_845_344_662_116,
    eps_m=7_136_238_463_529_799_989_057_529_622_759_611_564_032,
    tau_v=9_592_296_972_398_926,
    floor_v=1 << 102,
    tau_w=91_314_436_349_593_808,
    floor_w=1 << 127,
)
"""Four times the most that six honest kernel configurations differed by; floors 1e-5, 2^-47 and 2^-22."""
REJECT = replace(
    ACCEPT, tau_m=4_974_613_361_655_289, tau_v=23_980_742_430_997_315, tau_w=228_286_090_873_984_520
)
"""Ten times as much."""


def build_plan(rounds: int = LEAST_ROUNDS, solvers: int = 5, verifiers: int = 5) -> TaskPlan:
    """The demo's plan for so many rounds and enrolled accounts."""
    total_steps = rounds * INNER_STEPS
    return TaskPlan(
        model=DEMO_MODEL,
        schedule=ScheduleConfig(
            nearest(2e-3),
            warmup_steps=INNER_STEPS,
            total_steps=total_steps,
            inner_warmup_steps=INNER_WARMUP_STEPS,
        ),
        windows=WINDOWS,
        amounts=DEVNET.amounts,
        accept=ACCEPT,
        reject=REJECT,
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
        outer_learning_rate=nearest(0.7),
        outer_momentum=nearest(0.6),
        sequences_per_step=8,
        sequence_tokens=128,
        heldout_tokens=HELDOUT_BYTES,
        initial_seed=1,
    )


def read_dataset() -> bytes:
    """The running Python's standard library as bytes, held-out text at the end; the same in every process."""
    return read_standard_library()
