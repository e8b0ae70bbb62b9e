"""Compares a graphics card with the CPU: bounds, functions, replays, a node's work, speed.

The card computes nodes of every kind over awkward operands, and whole traces of real steps; checker and
referee judge them. Functions run over all float32 numbers. Segments are replayed on both: for float32 with
their distances, for the exact formats with equal bits. As a node does, the card trains segments, repeats and
traces them, and they are audited on the CPU by the limits of the example task; several threads of a process
train there at once. Tokens per second are compared with compiled PyTorch on the same card, and steps as one
graph with steps kernel by kernel. Writes build/device/report.json; without a card it says so and ends.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lab.benchmarks.exactness.speed import CHUNK_TERMS, SIZES, Call
from lab.benchmarks.exactness.walking import CPU, Run, begin, digest, open_run
from lab.benchmarks.honesty.kinds import FUNCTIONS, measure_kinds, measure_trace
from lab.benchmarks.honesty.planted import STAGES, open_training
from lab.benchmarks.program import SCALARS, Setting, make_setting, time_in_turn
from lab.benchmarks.reports import write_report
from tests.task_models import split_parameters
from tests.training_setting import read_standard_library
from touchstone.protocol.compute.audit.distance_survey import FLOORS
from touchstone.protocol.compute.audit.kernel_configurations import list_devices
from touchstone.protocol.compute.bounds.retrace import retrace
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.digest import state_header
from touchstone.protocol.compute.program.devices import KINDS, DeviceSteps, open_device
from touchstone.protocol.compute.program.exact import device_functions, function_loops
from touchstone.protocol.compute.program.exact.product_families import FAMILIES, force_family
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.step import advance, replay_segment, train_segment
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.compute.tolerance.compare import judge_state, measure_distances
from touchstone.protocol.spec.operation_bounds import ULPS
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.schedule import compute_learning_rate, compute_learning_rate_sum
from touchstone.protocol.spec.task_spec import Limits
from touchstone.scripts.tasks.task_example import write_example
from touchstone.scripts.tasks.task_file import read_task_file
from touchstone.step.plain_decoder import Decoder
from touchstone.step.record_step import next_token_loss

PIECE = 1 << 26
"""The float32 numbers that are taken at a time; all of them are 64 pieces."""
EVERY = 1 << 32
LEAST, LARGEST = 2.0**-125, 2.0**127
"""The range of results whose error is counted in units in the last place."""


def take_reciprocal_roots(x: Any, _: Any, out: Any, __: Any) -> None:
    """Computes as the CPU's kernel: the processor's square root, then its division."""
    np.divide(np.float32(1), np.sqrt(x), out=out)


EXACT: dict[Operation, tuple[Callable[[Tensor], Tensor], Callable[..., None]]] = {
    Operation.EXPONENTIAL: (device_functions.take_exponentials, function_loops.take_exponentials),
    Operation.LOGARITHM: (device_functions.take_logarithms, function_loops.take_logarithms),
    Operation.SIGMOID: (device_functions.take_sigmoids, function_loops.take_sigmoids),
    Operation.RECIPROCAL_ROOT: (device_functions.take_reciprocal_roots, take_reciprocal_roots),
}


# Functions over all float32 numbers
def sweep_functions(device: str, numbers: int = EVERY) -> dict[str, Any]:
    """Returns, by function, the worst error of the card's own function in units in the last place, the bound,
    and in how many numbers the card's exact function differs from the CPU's."""
    found = {kind: {"worst_ulp": 0.0, "bound_ulp": float(ULPS[kind]), "bits_differ": 0} for kind in FUNCTIONS}
    for x in _iterate_numbers(device, numbers):
        for kind, seen in found.items():
            seen["worst_ulp"] = max(seen["worst_ulp"], _measure_ulp(kind, x))
        with ThreadPoolExecutor() as pool:
            for kind, differing in zip(EXACT, pool.map(partial(_count_differing, x), EXACT), strict=True):
                found[kind]["bits_differ"] += differing
    return {kind.name: seen for kind, seen in found.items()}


def _iterate_numbers(device: str, numbers: int) -> Iterator[Tensor]:
    """Yields all bit patterns, or `numbers` of them with equal gaps."""
    gap, piece = EVERY // numbers, min(PIECE, numbers)
    for start in range(-(EVERY // 2), EVERY // 2, gap * piece):
        patterns = torch.arange(start, start + gap * piece, gap, device=device)
        yield patterns.to(torch.int32).view(torch.float32)


def _measure_ulp(kind: Operation, x: Tensor) -> float:
    exact, claimed = FUNCTIONS[kind](x.double()), FUNCTIONS[kind](x)
    is_counted = (exact.abs() >= LEAST) & (exact.abs() < LARGEST)
    exact, claimed = exact[is_counted], claimed[is_counted]
    power = torch.frexp(exact).exponent.to(torch.int64) - 24
    ulp = ((power + 1023) << 52).view(torch.float64)
    return float(((claimed.double() - exact).abs() / ulp).max()) if exact.numel() else 0.0


def _count_differing(x: Tensor, kind: Operation) -> int:
    """Counts numbers whose bits differ; all NaN count as equal, as in trees."""
    on_device, on_cpu = EXACT[kind]
    values, own = x.cpu().numpy(), on_device(x).cpu().numpy()
    right = np.empty_like(own)
    with np.errstate(all="ignore"):
        on_cpu(values, values.view(np.int32), right, right.view(np.int32))
    is_other = (own.view(np.int32) != right.view(np.int32)) & ~(np.isnan(own) & np.isnan(right))
    return int(is_other.sum())


# Bounds
def judge_bounds(device: str, shrink: int, models: tuple[str, ...]) -> dict[str, Any]:
    """Returns the elements that checker and referee judged, and those outside their bounds."""
    kinds = measure_kinds(0, shrink, device)
    traces = [
        measure_trace(model, step, 0, device)
        for model in models
        for stage in STAGES
        for step in open_training(model, read_standard_library()).choose(stage, 1)
    ]
    every = [*kinds.values(), *(seen for trace in traces for seen in trace.kinds.values())]
    sums = {name: sum(getattr(seen, name) for seen in every) for name in ("elements", "outside")}
    sums |= {
        name: sum(getattr(seen, name) for seen in every) for name in ("misrounded", "judged", "convicted")
    }
    return {
        **sums,
        "traces": len(traces),
        "faults": [fault for trace in traces for fault in trace.faults],
        "single_nodes": {name: asdict(seen) for name, seen in kinds.items()},
    }


# Replays
Steps = Callable[[TrainingState, Any, Any], tuple[TrainingState, float]]


def replay(run: Run, steps: int, step: Steps) -> Iterator[TrainingState]:
    """Yields the state after each step, on the CPU."""
    spec, get_batch = open_run(run)
    state = begin(run)
    for number in range(steps):
        state, _ = step(state, get_batch(number), spec)
        yield state.move(CPU)


def compare_replays(device: str, size: str, steps: int) -> dict[str, Any]:
    """Returns the largest distances of a segment in float32, by quantity: between card and CPU, and between
    two kinds of CPU kernels. By exact format and family of products, it also returns the steps after which
    the card's bits differ from the CPU's."""
    run = Run(size, "float32")
    spec, _ = open_run(run)
    rates = sum(compute_learning_rate(spec.schedule, n, n) for n in range(steps))
    own, other = (
        list(replay(run, steps, advance))[-1],
        list(replay(run, steps, partial(advance, device=device)))[-1],
    )
    torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
    native = list(replay(run, steps, advance))[-1]
    torch.backends.mkldnn.set_flags(True)  # type: ignore[no-untyped-call]
    pairs = {"device": other, "cpu": native}
    distances = {name: asdict(measure_distances(own, end, rates, FLOORS)) for name, end in pairs.items()}
    return {"distances": distances, "exact": _compare_bits(device, size, steps)}


def _compare_bits(device: str, size: str, steps: int) -> dict[str, dict[str, int]]:
    found = {}
    for name in PRODUCT_BITS:
        right = [digest(state) for state in replay(Run(size, name), steps, advance)]
        for family in FAMILIES:
            force_family(family)
            own = [digest(state) for state in replay(Run(size, name), steps, partial(advance, device=device))]
            differ = sum(a != b for a, b in zip(own, right, strict=True))
            found[f"{name} {family}"] = {"steps": steps, "differ": differ}
        force_family(None)
    return found


# A node's path
def read_example_limits() -> Limits:
    """Returns the limits that the example task compares its replays by."""
    with tempfile.TemporaryDirectory() as folder:
        write_example(Path(folder) / "task")
        return read_task_file(Path(folder) / "task" / "task.toml").plan.limits


def follow_node(device: str, run: Run, segments: int, steps: int, limits: Limits) -> dict[str, int | float]:
    """Trains a claim on the card. Counts segments whose end differs when they are repeated there, or when
    their last step is traced. Returns those that an auditor on the CPU finds beyond `limits`, the worst
    excess (0 or less: within), and tokens per second of training with hashing."""
    spec, get_batch = open_run(run)
    places = [(number * steps, steps) for number in range(segments)]
    pin_kernels(1, device=device)
    state, kept, started = begin(run), list[Future[TrainingState]](), time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        for place in places:
            state, _ = train_segment(state, spec, get_batch, *place)
            kept.append(pool.submit(_keep, state))
    seconds = time.monotonic() - started
    ends = [one.result() for one in kept]
    claimed = list(zip([begin(run), *ends], ends, places, strict=False))
    repeated = [replay_segment(start, spec, get_batch, *place)[0] for start, _, place in claimed]
    traced = []
    for start, _, (first, _) in claimed:
        before, _ = replay_segment(start, spec, get_batch, first, steps - 1)
        traced.append(retrace(before, spec, get_batch, first + steps - 1).end)
    pin_kernels(1)
    verdicts = []
    for start, end, place in claimed:
        rates = compute_learning_rate_sum(spec.schedule, place[0] // steps, steps, segments * steps)
        replayed, _ = replay_segment(start, spec, get_batch, *place)
        verdicts.append(judge_state(end, replayed, rates, limits))
    return {
        "segments": segments,
        "repeats_differ": sum(digest(a) != digest(b) for a, b in zip(ends, repeated, strict=True)),
        "traces_differ": sum(digest(a) != digest(b) for a, b in zip(ends, traced, strict=True)),
        "beyond_limits": sum(verdict.exceeds_limits for verdict in verdicts),
        "worst_excess": max(verdict.excess for verdict in verdicts),
        "tokens_per_s": segments * steps * get_batch(0).tokens_BT.numel() / seconds,
    }


def _keep(state: TrainingState) -> TrainingState:
    """Does what a solver does with a boundary beside its training, except storing it."""
    home = state.bring_home()
    state_header(home)
    return home


def follow_nodes(device: str, size: str, segments: int, steps: int) -> dict[str, dict[str, int | float]]:
    """Returns `follow_node` by numeric format. For exact states the limits allow no difference."""
    nothing, example = Limits(0, 0, 0, 0, 0, 0), read_example_limits()
    return {
        name: follow_node(device, Run(size, name), segments, steps, nothing if bits else example)
        for name, bits in {"float32": 0, **PRODUCT_BITS}.items()
    }


def follow_threads(device: str, size: str, numeric_format: str, threads: int, steps: int) -> dict[str, int]:
    """Trains one segment in each thread of a process, all at once, as a node does that trains and replays;
    all but one begin with a capture. `differ` counts threads whose end differs from the end of the same
    segment alone."""
    runs = [Run(size, numeric_format, seed) for seed in range(threads)]

    def train(run: Run) -> str:
        spec, get_batch = open_run(run)
        return digest(replay_segment(begin(run), spec, get_batch, 0, steps)[0])

    for run in runs:
        open_run(run)
    pin_kernels(1, device=device)
    alone = [train(run) for run in runs]
    with ThreadPoolExecutor(threads) as pool:
        together = list(pool.map(train, runs))
    pin_kernels(1)
    return {"threads": threads, "differ": sum(a != b for a, b in zip(together, alone, strict=True))}


def compare_graphs(device: str, size: str, steps: int) -> dict[str, dict[str, float]]:
    """Returns, by numeric format, tokens per second kernel by kernel and as one graph (medians of turns), and
    whether the graph gave the same bits and was used."""
    setting, found = make_setting(SIZES[size]), {}
    for name in ("float32", *PRODUCT_BITS):
        runners = {kind: _open_steps(setting, device, name, kind == "graph") for kind in ("kernels", "graph")}
        turns = {kind: partial(_take_steps, runner, setting, steps) for kind, runner in runners.items()}
        for turn in turns.values():
            turn()
        seconds = time_in_turn(3, **turns)
        tokens = steps * setting.batch.tokens_BT.numel()
        rates = {f"{kind}_tokens_per_s": tokens / statistics.median(own) for kind, own in seconds.items()}
        found[name] = {**rates, "is_graph": float(runners["graph"].is_graph)}
    return found


def _open_steps(setting: Setting, device: str, numeric_format: str, is_captured: bool) -> DeviceSteps:
    interpreter = _make_interpreter(setting, device, numeric_format)
    moved = open_device(torch.device(device))
    if moved is None:
        raise LookupError(f"no graphs on {device}: expected a device of {', '.join(KINDS)}")
    return DeviceSteps(interpreter, moved, is_captured)


def _take_steps(runner: DeviceSteps, setting: Setting, steps: int) -> None:
    runner.begin(setting.vectors)
    for _ in range(steps):
        runner.step(*setting.batch, SCALARS)
    runner.end()


# Speed
def compare_speed(device: str, size: str, steps: int, compiles: bool = True) -> dict[str, float]:
    """Returns tokens per second over those of compiled PyTorch with fused AdamW on the same device, as
    medians."""
    setting = make_setting(SIZES[size])
    calls = {"plain": _make_plain_step(setting, device, compiles)}
    for name in ("float32", *PRODUCT_BITS):
        calls[name] = _make_step(setting, device, name)
    seconds = time_in_turn(steps, **calls)
    plain = seconds.pop("plain")
    tokens = setting.batch.tokens_BT.numel()
    return {"plain_tokens_per_s": tokens / statistics.median(plain)} | {
        name: statistics.median(p / own for p, own in zip(plain, times, strict=True))
        for name, times in seconds.items()
    }


def _make_interpreter(setting: Setting, device: str, numeric_format: str) -> Interpreter:
    built = setting.build(CHUNK_TERMS, numeric_format)
    return Interpreter(built.program, built.constants, numeric_format=numeric_format, device=device)


def _make_step(setting: Setting, device: str, numeric_format: str) -> Call:
    return _finish(setting.run(_make_interpreter(setting, device, numeric_format)), device)


def _make_plain_step(setting: Setting, device: str, compiles: bool) -> Call:
    module = Decoder(setting.model)
    module.load_state_dict(split_parameters(setting.vectors[0], setting.model))
    module.to(device)
    module.model.speeds = module.model.speeds.to(device)
    optimizer = torch.optim.AdamW(
        module.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )
    tokens, labels = (part.to(device) for part in setting.batch)
    compute = torch.compile(next_token_loss) if compiles else next_token_loss

    def step() -> None:
        optimizer.zero_grad()
        # The decoder makes its positions and its mask anew, on the device that is the default.
        with torch.device(device):
            loss = compute(module, tokens, labels)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()

    return _finish(step, device)


def _finish(call: Call, device: str) -> Call:
    def run() -> None:
        """Runs one step to its end."""
        call()
        if device != CPU:
            torch.cuda.synchronize()

    return run


# The whole
def measure(device: str, parts: list[str], is_quick: bool) -> dict[str, Any]:
    """Returns the content of the report."""
    sizes = ("0.2M",) if is_quick else ("0.2M", "1M", "6M")
    jobs: dict[str, Callable[[], Any]] = {
        "functions": lambda: sweep_functions(device, 1 << 16 if is_quick else EVERY),
        "bounds": lambda: judge_bounds(
            device, 64 if is_quick else 4, ("tiny",) if is_quick else ("small", "demo")
        ),
        "replays": lambda: {size: compare_replays(device, size, 2 if is_quick else 20) for size in sizes},
        "node": lambda: {size: follow_nodes(device, size, 3, 2 if is_quick else 10) for size in sizes},
        "threads": lambda: {
            name: follow_threads(device, "0.2M", name, 4, 2 if is_quick else 20)
            for name in ("float32", *PRODUCT_BITS)
        },
        "graphs": lambda: {
            size: compare_graphs(device, size, 2 if is_quick else 20)
            for size in (("1M",) if is_quick else SIZES)
        },
        "speed": lambda: {
            size: compare_speed(device, size, 2 if is_quick else 10, not is_quick)
            for size in (("1M",) if is_quick else SIZES)
        },
    }
    report: dict[str, Any] = {"device": torch.cuda.get_device_name() if device != CPU else CPU}
    started = time.monotonic()
    for part in parts:
        report[part] = jobs[part]()
        print(f"{time.monotonic() - started:6.0f} s  {part}: {report[part]}", file=sys.stderr, flush=True)
    return report


PARTS = ("functions", "bounds", "replays", "node", "threads", "graphs", "speed")


def main() -> None:
    """Runs the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="a small sample of each part")
    parser.add_argument("--device", default=next(iter(list_devices()), ""), help="PyTorch's name of the card")
    parser.add_argument("--name", default="device", help="name of the report's folder")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    arguments = parser.parse_args()
    if not arguments.device:
        print("This machine has no graphics card that PyTorch can use: nothing was measured.")
        return
    pin_kernels(1)
    report = measure(arguments.device, arguments.parts.split(","), arguments.quick)
    print(write_report(arguments.name, report))


if __name__ == "__main__":
    main()
