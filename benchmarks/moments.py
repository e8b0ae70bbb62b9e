"""Should Adam's moments be carried over from round to round, or reset with a short inner warm-up?

DiLoCo carries them; resetting would remove a class of attacks (a claim would start from public numbers only).
Four shards, int8 pseudo-gradients, held-out loss after every outer step. Writes build/moments/report.json.
"""

import argparse
from dataclasses import dataclass, replace
from hashlib import sha256
from statistics import mean

from benchmarks.setting import (
    DEMO_MODEL,
    build_training,
    open_demo_corpus,
    read_standard_library,
    write_report,
)
from protocol.compute.data import Corpus, get_batch, get_heldout_batch
from protocol.compute.determinism import pin_kernels
from protocol.compute.evaluate import compute_heldout_loss
from protocol.compute.model import init_parameters
from protocol.compute.outer import begin_outer, encode_delta, merge
from protocol.compute.step import TrainingState, begin_round, train_segment
from protocol.spec.containers import ScheduleConfig, TrainingSpec
from protocol.spec.float32 import float_to_bits, nearest

HELDOUT_ROWS = 64


@dataclass(frozen=True)
class Setting:
    """One way to train: rates, warm-ups in steps, and what happens to the moments."""

    peak_learning_rate: float = 2e-3
    warmup_steps: int = 20
    inner_warmup_steps: int = 0
    outer_learning_rate: float = 0.7
    outer_momentum: float = 0.6
    carry_moments: bool = True
    rounds: int = 5
    inner_steps: int = 20
    shards: int = 4


def measure(setting: Setting, seed: int, data: bytes) -> list[float]:
    """Held-out loss (nats per byte) before the first and after every outer step."""
    total = setting.rounds * setting.inner_steps
    rates = ScheduleConfig(
        nearest(setting.peak_learning_rate),
        setting.warmup_steps,
        total,
        inner_warmup_steps=setting.inner_warmup_steps,
    )
    spec = build_training(data, rates)
    corpus = open_demo_corpus(data, spec)
    heldout = get_heldout_batch(corpus, spec, HELDOUT_ROWS)
    outer = begin_outer(init_parameters(spec.model, seed))
    last: list[TrainingState | None] = [None] * setting.shards
    losses = [compute_heldout_loss(outer.weights, heldout, spec.model)]
    bits = [float_to_bits(nearest(x)) for x in (setting.outer_learning_rate, setting.outer_momentum)]
    for round_number in range(setting.rounds):
        beacon = sha256(f"{seed}/{round_number}".encode()).digest()
        start = round_number * setting.inner_steps
        begun = [
            begin_round(outer.weights, start, state if setting.carry_moments else None) for state in last
        ]
        last = [train_round(state, spec, corpus, beacon, s, setting) for s, state in enumerate(begun)]
        deltas = [encode_delta(outer.weights, state.weights) for state in last if state]
        outer = merge(outer, deltas, bits[0], bits[1])
        losses.append(compute_heldout_loss(outer.weights, heldout, spec.model))
    return losses


def train_round(
    state: TrainingState, spec: TrainingSpec, corpus: Corpus, beacon: bytes, shard: int, setting: Setting
) -> TrainingState:
    """One shard's inner steps of one round."""
    return train_segment(
        state, spec, lambda step: get_batch(corpus, spec, beacon, shard, step), 0, setting.inner_steps
    )[0]


def main() -> None:
    """Compares the settings on several seeds and prints the report's path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()
    pin_kernels(1)
    data = read_standard_library()
    carried = Setting(rounds=arguments.rounds)
    settings = {"carried": carried, "reset": replace(carried, carry_moments=False, inner_warmup_steps=8)}
    curves = {
        name: [measure(setting, seed, data) for seed in range(arguments.seeds)]
        for name, setting in settings.items()
    }
    final = {name: mean(losses[-1] for losses in runs) for name, runs in curves.items()}
    report = {
        "heldout_loss_per_round": curves,
        "final_mean": final,
        "reset_minus_carried": final["reset"] - final["carried"],
        "every_round_falls": {
            n: all(a > b for run in runs for a, b in zip(run, run[1:], strict=False))
            for n, runs in curves.items()
        },
        "model": str(DEMO_MODEL),
    }
    print(write_report("moments", report))


if __name__ == "__main__":
    main()
