"""How fast this machine trains, and windows that suit it: slowness must slash nobody in the demo.

The demo measures one training step before it starts anybody. Windows are counted in blocks, and the devnet
clock skips blocks that nobody needs, so wide windows cost little time.
"""

import math
import time
from dataclasses import fields, replace
from functools import partial

from benchmarks.setting import build_training
from protocol.compute.data import get_batch, open_corpus
from protocol.compute.determinism import pin_kernels
from protocol.compute.model import init_parameters
from protocol.compute.step import begin_round, train_segment
from protocol.spec.containers import Windows
from protocol.spec.economics import compute_worst_span_blocks
from protocol.spec.params import MAX_ROUND_SPAN_BLOCKS, MAX_SEAL_BLOCKS
from tests.e2e.plan import build_plan, read_dataset

TIMED_STEPS = 3
REFERENCE_STEP_S = 0.15
"""seconds of a training step of the demo's model, one thread, where `plan.WINDOWS` were seen to hold eleven
times the demo's work."""
REFERENCE_CORES = 2
LEAST_FACTOR = 2
"""so there the windows of a run hold 22 times its work."""
BEACON = bytes(32)


def measure_step_s() -> float:
    """Seconds of the slowest of the demo's first training steps, one thread, on a machine as busy as it is
    now. What a process builds once, before its first step, does not count."""
    pin_kernels(1)
    data = read_dataset()
    training = build_training(data, build_plan().schedule)
    batches = partial(get_batch, open_corpus(data, training), training, BEACON, 0)
    state = begin_round(init_parameters(training.model, training.initial_seed), 0)
    times_s = []
    for step in range(1 + TIMED_STEPS):
        started_s = time.monotonic()
        state, _ = train_segment(state, training, batches, step, 1)
        times_s.append(time.monotonic() - started_s)
    return max(times_s[1:])


def compute_factor(step_s: float, cores: int, windows: Windows) -> int:
    """How many times as long as `windows` those of a run must be on a machine of so many cores that trains a
    step in `step_s` seconds. At most what keeps a round within MAX_ROUND_SPAN_BLOCKS."""
    slowness = step_s / REFERENCE_STEP_S * max(1.0, REFERENCE_CORES / cores)
    most = MAX_ROUND_SPAN_BLOCKS // compute_worst_span_blocks(windows)
    return min(max(LEAST_FACTOR, math.ceil(LEAST_FACTOR * slowness)), most)


def widen(windows: Windows, factor: int) -> Windows:
    """All windows so many times as long, but for `delay`, in which nobody has anything to do, and `seal`,
    which is as long as the contracts allow. Blocks."""
    longer = {field.name: factor * getattr(windows, field.name) for field in fields(Windows)}
    return replace(windows, **{**longer, "delay": windows.delay, "seal": MAX_SEAL_BLOCKS})
