"""Measures the cost of training by a program, and of recording, hashing and checking its trace.

For three sizes of model, steps of the program alternate with plain PyTorch on the same data: parameters of a
module, autograd, `clip_grad_norm_`, fused AdamW. At the demo's size a step's whole trace is recorded, hashed
into Merkle trees, checked against its bounds and searched for a lie; costs are in steps of that program.
Results on honest machines and planted lies come from the last report of `honest.py`; if there is none, its
short form runs. Writes build/program/report.json.
"""

import argparse
import resource
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from lab.benchmarks.reports import read_report, write_report
from tests.task_models import (
    DecoderStep,
    build_program,
    init_parameters,
    parameter_count,
    split_parameters,
)
from tests.training_setting import DEMO_MODEL, build_trace_tree
from touchstone.protocol.compute.bounds.trace_check import TraceChecker
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.tensor_allocator import allocate_vector
from touchstone.protocol.compute.program.training_state import Batch
from touchstone.protocol.spec.program import CHUNK_TERMS, DEFAULT_CHUNK_TERMS, Role
from touchstone.step.optimizers import AdamW
from touchstone.step.plain_decoder import Decoder, DecoderConfig
from touchstone.step.record_step import next_token_loss

SEQUENCES, TOKENS = 8, 128
MODELS = {
    "0.2M": DecoderConfig(256, 64, 192, 3, 4, 4, TOKENS),
    "1M": DEMO_MODEL,
    "6M": DecoderConfig(256, 256, 768, 7, 4, 4, TOKENS),
}
LARGE_MODEL = DecoderConfig(256, 1024, 2816, 12, 16, 16, 512)
SCALARS = torch.tensor([1e-3, 0.4, 0.2])
COSTS = ("record", "hash", "check")
WARM_UP_STEPS = 2


@dataclass(frozen=True)
class Setting:
    """A model with a batch of random tokens, and moments as in the middle of training."""

    model: DecoderConfig
    batch: Batch
    vectors: tuple[torch.Tensor, torch.Tensor, torch.Tensor]

    def build(self, chunk_terms: int = DEFAULT_CHUNK_TERMS, numeric_format: str = "float32") -> BuiltProgram:
        """Builds the program of its step."""
        shape = (*self.batch.tokens_BT.shape, chunk_terms, numeric_format)
        return build_program(DecoderStep(self.model, AdamW(), *shape))

    def run(self, interpreter: Interpreter) -> Callable[[], object]:
        """Returns a step of a segment, which starts from the state of the last one, in its memory."""
        state = [tuple(allocate_vector(vector.numel()).copy_(vector) for vector in self.vectors)]

        def step() -> None:
            """Runs the program once."""
            weights, first, second = state.pop()
            result = interpreter.run((weights, first, second), *self.batch, SCALARS, overwrites=True)
            state.append(result[:3])

        return step


def make_setting(model: DecoderConfig, sequences: int = SEQUENCES, tokens: int = TOKENS) -> Setting:
    """Makes a setting from a fixed seed."""
    generator = torch.Generator().manual_seed(0)
    batch = (torch.randint(model.vocabulary_size, (sequences, tokens), generator=generator) for _ in range(2))
    count = parameter_count(model)
    first = 1e-3 * torch.randn(count, generator=generator)
    second = 1e-6 * torch.rand(count, generator=generator)
    return Setting(model, Batch(*batch), (init_parameters(model, 1), first, second))


def make_plain_step(setting: Setting) -> Callable[[], object]:
    """Returns one step of ordinary PyTorch with its own parameters."""
    module = Decoder(setting.model)
    module.load_state_dict(split_parameters(setting.vectors[0], setting.model))
    optimizer = torch.optim.AdamW(
        module.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )

    def step() -> None:
        optimizer.zero_grad()
        next_token_loss(module, *setting.batch).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()

    return step


def time_in_turn(steps: int, **calls: Callable[[], object]) -> dict[str, list[float]]:
    """Returns the wall seconds of `steps` calls of each, run in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(steps + WARM_UP_STEPS):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            if number >= WARM_UP_STEPS:
                seconds[name].append(time.perf_counter() - started)
    return seconds


def compare_speed(setting: Setting, steps: int) -> dict[str, float]:
    """Returns tokens a second over those of plain PyTorch at each chunk length, as medians of the steps'
    ratios."""
    calls: dict[str, Callable[[], object]] = {"plain": make_plain_step(setting)}
    for chunk_terms in CHUNK_TERMS:
        built = setting.build(chunk_terms)
        calls[str(chunk_terms)] = setting.run(Interpreter(built.program, built.constants))
    seconds = time_in_turn(steps, **calls)
    plain = seconds.pop("plain")
    return {
        name: statistics.median(p / own for p, own in zip(plain, times, strict=True))
        for name, times in seconds.items()
    }


def measure_trace(setting: Setting, steps: int) -> dict[str, float]:
    """Returns the time to record, hash and check a step's trace, in steps, and the trace's size."""
    built = setting.build()
    trained = Interpreter(built.program, built.constants)
    kept = Interpreter(built.program, built.constants, keeps_all=True)
    checker = TraceChecker(built.program)
    tensors = [n for n, buffer in enumerate(built.program.buffers) if buffer.role is Role.TENSOR]

    seconds = time_in_turn(
        steps,
        step=setting.run(trained),
        record=setting.run(kept),
        hash=lambda: build_trace_tree(built.program, kept.tensors.__getitem__),
        check=lambda: checker.check(lambda number: kept.tensors[number]),
    )
    step = statistics.median(seconds["step"])
    size = 4 * sum(built.program.buffers[number].size for number in tensors)
    costs = {f"{name}_steps": statistics.median(seconds[name]) / step for name in COSTS}
    return {**costs, "trace_mb_per_m_params": size / parameter_count(setting.model), "step_ms": 1e3 * step}


def measure_large() -> dict[str, float]:
    """Builds the program of a large step, runs it once, and checks every node as soon as it is computed;
    nothing is kept longer than the step needs it. Peak memory in GB is this process's."""
    setting = make_setting(LARGE_MODEL, 1, LARGE_MODEL.context_tokens)
    started = time.perf_counter()
    built = setting.build()
    seconds = {"build_s": time.perf_counter() - started}
    interpreter = Interpreter(built.program, built.constants, is_traced=True)
    checker, outside, elements = TraceChecker(built.program), 0, 0
    for number in interpreter.iterate(setting.vectors, *setting.batch, SCALARS):
        seen = checker.check(lambda buffer: interpreter.tensors[buffer], range(number, number + 1))
        elements += sum(kind.elements for kind in seen.kinds.values())
        outside += sum(kind.outside for kind in seen.kinds.values())
    return {
        **seconds,
        "run_and_check_s": time.perf_counter() - started - seconds["build_s"],
        "params": parameter_count(LARGE_MODEL),
        "nodes": len(built.program.nodes),
        "elements": elements,
        "outside": outside,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
    }


def summarize_honest() -> dict[str, Any]:
    """Returns how many elements of honest machines were judged and how many were outside, and how many
    planted lies were found."""
    report = read_report("honest", "--short")
    honest = {name: report[name] for name in ("elements", "outside")}
    counts = {"configurations": len(report["configurations"]), "traces": report["traces"]["count"]}
    return {
        "honest": {**honest, **counts},
        "planted": {name: report["planted"][name] for name in ("tried", "found")},
    }


def main() -> None:
    """Measures, and prints the report's path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--large", action="store_true", help="measure only the large step")
    arguments = parser.parse_args()
    pin_kernels(1)
    if arguments.large:
        large = measure_large()
        print(large)
        print(write_report("program-large", large))
        return
    speed = {}
    for name, model in MODELS.items():
        speed[name] = compare_speed(make_setting(model), arguments.steps)
        print(name, parameter_count(model), speed[name], flush=True)
    setting = make_setting(DEMO_MODEL)
    nodes = setting.build().program.nodes
    kinds = Counter(node.operation.name.lower() for node in nodes)
    report = {
        "kinds": dict(kinds),
        "nodes": len(nodes),
        "tokens_per_s_vs_plain": {name: ratios[str(DEFAULT_CHUNK_TERMS)] for name, ratios in speed.items()},
        "tokens_per_s_vs_plain_by_chunk": speed,
        **measure_trace(setting, max(3, arguments.steps // 3)),
        **summarize_honest(),
    }
    print(report)
    print(write_report("program", report))


if __name__ == "__main__":
    main()
