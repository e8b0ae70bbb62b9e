"""Trains a few steps of a task file on this machine, to see whether its learning rate diverges.

The steps are those that follow the task's warm-up: the peak rate, after the short warm-up that each round
begins with. A task that diverges there pays for rounds whose models get worse.
"""

import time
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from statistics import fmean

import numpy as np
import torch

from touchstone.node.submit import RoundPlan, sketch_task
from touchstone.protocol.compute.batches import WholeCorpus, get_batch
from touchstone.protocol.compute.drawn_weights import draw_weights
from touchstone.protocol.compute.program.step import advance, begin_round
from touchstone.protocol.spec.schedule import compute_learning_rate
from touchstone.scripts.tasks.task_file import TaskFile

STEPS_AT_PEAK = 24
COMPARED = 6
"""The mean of this many last losses is compared with the first loss."""
LONGEST_S = 60.0
"""Seconds after which no further step begins: a trial of a large model is shorter."""
BEACON = sha256(b"trial").digest()


@dataclass(frozen=True)
class Trial:
    """Losses of successive steps, in nats, before each step. `rate` is the rate of the last one."""

    losses: tuple[float, ...]
    rate: float

    @property
    def end(self) -> float:
        """The mean of the last losses."""
        return fmean(self.losses[-COMPARED:])

    @property
    def is_diverging(self) -> bool:
        """Whether the loss got worse, or is no finite number."""
        return not all(map(isfinite, self.losses)) or self.end > self.losses[0]


def try_training(file: TaskFile, longest_s: float = LONGEST_S) -> Trial | None:
    """Trains until some steps are trained at the peak rate, or the task has no more. Returns None if the time
    allowed too few for a judgement."""
    plan = file.plan
    training = sketch_task(plan, file.packed.size_bytes).training
    if file.weights is None:
        weights = draw_weights(plan.step.layout, plan.initial_seed)
    else:
        weights = file.weights.read()
    tokens = torch.from_numpy(np.memmap(file.dataset, f"<u{training.token_bytes}", "c"))
    usual = plan.schedule.inner_warmup_steps + STEPS_AT_PEAK
    corpus, wanted = WholeCorpus(tokens), min(usual, plan.schedule.total_steps)
    state = begin_round(weights, find_first_peak(plan, wanted))
    losses, until_s, rate = list[float](), time.monotonic() + longest_s, 0.0
    for step in range(wanted):
        rate = compute_learning_rate(training.schedule, state.global_step, state.local_step)
        batch = get_batch(corpus, training, BEACON, 0, step)
        state, loss = advance(state, batch, training, overwrites=step > 0)
        losses.append(loss)
        if not isfinite(loss) or time.monotonic() > until_s:
            break
    is_enough = len(losses) >= 2 * COMPARED or not isfinite(losses[-1])
    return Trial(tuple(losses), rate) if is_enough else None


def find_first_peak(plan: RoundPlan, steps: int) -> int:
    """Returns the first step of the task at the peak rate that leaves room for `steps` more; a task that is
    shorter is tried from its start."""
    schedule = plan.schedule
    return max(0, min(schedule.warmup_steps, schedule.total_steps - steps))


def describe_trial(trial: Trial | None) -> str:
    """Describes a trial, with a warning if the loss got worse."""
    if trial is None:
        return "the learning rate was not tried: a step takes too long on this machine"
    count, first = len(trial.losses), trial.losses[0]
    if trial.is_diverging:
        return (
            f"WARNING: the learning rate is too high: in {count} trial steps up to rate {trial.rate:g} the "
            f"loss went from {first:.2f} to {trial.end:.2f}. Lower peak_learning_rate in [schedule]: rounds "
            "are paid whether the model gets better or not"
        )
    return f"tried {count} steps up to rate {trial.rate:g}: the loss went from {first:.2f} to {trial.end:.2f}"
