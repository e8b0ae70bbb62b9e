"""Is training by the program the training that PyTorch would do?

One small model is trained for 200 steps on the same data by the program and by plain PyTorch with autograd,
and by plain PyTorch from other seeds. The two must lie much nearer to each other than two seeds do. Writes
build/agreement/report.json.
"""

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.program import MODELS
from benchmarks.setting import (
    build_training,
    open_demo_corpus,
    read_standard_library,
    train_plainly,
    write_report,
)
from protocol.compute.data import Corpus, get_batch, get_heldout_batch
from protocol.compute.determinism import pin_kernels
from protocol.compute.evaluate import compute_heldout_loss
from protocol.compute.model import init_parameters
from protocol.compute.program import with_program
from protocol.compute.step import GetBatch, TrainingState, begin_round, train_segment
from protocol.spec.containers import ScheduleConfig, TrainingSpec
from protocol.spec.float32 import nearest

SEEDS = (1, 2, 3, 4)
STRIDE_STEPS = 20
"""Steps between two looks at the held-out loss."""


def get_batches(corpus: Corpus, spec: TrainingSpec, seed: int) -> GetBatch:
    """The data of a run from this seed."""
    return lambda step: get_batch(corpus, spec, bytes([seed]) * 32, 0, step)


def iterate_states(
    spec: TrainingSpec, corpus: Corpus, seed: int, steps: int, is_plain: bool
) -> Iterator[TrainingState]:
    """The state after every STRIDE_STEPS steps."""
    state = begin_round(init_parameters(spec.model, seed), 0)
    batches = get_batches(corpus, spec, seed)
    for start in range(0, steps, STRIDE_STEPS):
        if is_plain:
            state = train_plainly(state, spec, batches, start, STRIDE_STEPS)
        else:
            state, _ = train_segment(state, spec, batches, start, STRIDE_STEPS)
        yield state


def main() -> None:
    """Measures and prints the report's path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()
    pin_kernels(1)
    data = read_standard_library()
    schedule = ScheduleConfig(nearest(2e-3), warmup_steps=20, total_steps=arguments.steps)
    spec = with_program(replace(build_training(data, schedule), model=MODELS["0.2M"]))
    corpus = open_demo_corpus(data, spec)
    heldout = get_heldout_batch(corpus, spec, 32)

    def curve(seed: int, is_plain: bool) -> list[float]:
        states = iterate_states(spec, corpus, seed, arguments.steps, is_plain)
        losses = [compute_heldout_loss(state.weights, heldout, spec.model) for state in states]
        print("plain" if is_plain else "program", seed, [round(loss, 4) for loss in losses], flush=True)
        return losses

    program = curve(SEEDS[0], is_plain=False)
    plain = [curve(seed, is_plain=True) for seed in SEEDS]
    report = {
        "steps": arguments.steps,
        "largest_difference_nats": max(abs(a - b) for a, b in zip(program, plain[0], strict=True)),
        "seed_spread_nats": max(statistics.stdev(losses) for losses in zip(*plain, strict=True)),
        "program": program,
        "plain_by_seed": plain,
    }
    print(write_report("agreement", report))


if __name__ == "__main__":
    main()
