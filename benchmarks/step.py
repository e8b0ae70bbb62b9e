"""What does it cost that the training step is a pure function of separate IEEE operations?

Alternates our step with plain PyTorch on the same forward pass: parameters of a module, autograd,
`clip_grad_norm_`, fused AdamW. Writes build/step/report.json.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.setting import (
    DEMO_MODEL,
    build_demo_schedule,
    build_training,
    open_demo_corpus,
    read_standard_library,
    write_report,
)
from protocol.compute.data import get_batch
from protocol.compute.determinism import pin_kernels
from protocol.compute.model import compute_loss, init_parameters, parameter_count, split_parameters
from protocol.compute.step import Batch, StepResult, compute_scalars, training_step
from protocol.compute.tables import build_tables
from protocol.spec.containers import TrainingSpec


def make_plain_step(spec: TrainingSpec, weights: Tensor, batch: Batch) -> Callable[[], None]:
    """One step of ordinary PyTorch on parameters of its own."""
    params = {
        name: torch.nn.Parameter(p.clone()) for name, p in split_parameters(weights, spec.model).items()
    }
    optimizer = torch.optim.AdamW(params.values(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        compute_loss(params, *batch, build_tables(spec.model), spec.model).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(list(params.values()), 1.0)
        optimizer.step()

    return step


def make_our_step(spec: TrainingSpec, weights: Tensor, batch: Batch) -> Callable[[], StepResult]:
    """One step of `training_step` from fixed vectors."""
    vectors = (weights, torch.zeros_like(weights), torch.zeros_like(weights))
    tables, scalars = build_tables(spec.model), compute_scalars(spec, 5, 5)
    return lambda: training_step(*vectors, *batch, scalars, tables, spec.model, spec.optimizer)


def time_once(step: Callable[[], object]) -> float:
    """Wall seconds of one call."""
    started = time.perf_counter()
    step()
    return time.perf_counter() - started


def main() -> None:
    """Measures and prints the report's path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30)
    arguments = parser.parse_args()
    pin_kernels(1)
    data = read_standard_library()
    spec = build_training(data, build_demo_schedule())
    batch = get_batch(open_demo_corpus(data, spec), spec, bytes(32), 0, 0)
    weights = init_parameters(DEMO_MODEL, 1)
    plain, ours = make_plain_step(spec, weights, batch), make_our_step(spec, weights, batch)
    times = [(time_once(plain), time_once(ours)) for _ in range(arguments.steps + 3)][3:]
    report = {
        "params": parameter_count(DEMO_MODEL),
        "tokens_per_step": spec.tokens_per_step,
        "plain_ms": 1e3 * statistics.median(a for a, _ in times),
        "ours_ms": 1e3 * statistics.median(b for _, b in times),
        "ours_vs_plain": statistics.median(b / a for a, b in times),
    }
    print(report)
    print(write_report("step", report))


if __name__ == "__main__":
    main()
