"""Measures tokens a second on the card beside plain PyTorch, and where a step spends its time."""

import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import torch

from lab.benchmarks.card_run.kernel_bits import make_event
from lab.benchmarks.card_run.steps import (
    Subject,
    compute_loss,
    list_node_kernels,
    make_scalars,
    open_steps,
)
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.interpreter import Interpreter

Call = Callable[[], object]
WARM_UP = 2
DEAREST = 24
BUSY_CYCLES = 300_000
"""Busy cycles that last longer than a launch takes on the host."""


def make_plain_step(subject: Subject, device: str, compiles: bool = False) -> Call:
    """Makes a step of plain PyTorch in float32: autograd, clipping, fused AdamW."""
    module = subject.module
    for name, buffer in list(vars(getattr(module, "model", module)).items()):
        if isinstance(buffer, torch.Tensor):
            setattr(getattr(module, "model", module), name, buffer.to(device))
    module.to(device)
    optimizer = torch.optim.AdamW(
        module.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )
    tokens, labels = (part.to(device) for part in subject.batches[0])
    compute = torch.compile(compute_loss) if compiles else compute_loss

    def step() -> None:
        """Runs one step with the fastest kernels, even those that do not repeat their bits."""
        torch.set_deterministic_debug_mode("default")
        optimizer.zero_grad()
        # The decoder makes its positions and its mask anew, on the device that is the default.
        with torch.device(device):
            loss = compute(module, tokens, labels)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        torch.set_deterministic_debug_mode("error")

    return step


def make_program_step(subject: Subject, built: BuiltProgram, numeric_format: str, device: str) -> Call:
    """Makes a step of the program, captured as a graph."""
    steps = open_steps(built, numeric_format, device, is_captured=True)
    steps.begin(subject.vectors)
    tokens, labels = subject.batches[0]

    def step() -> None:
        """Runs one step; losses are not kept."""
        steps.step(tokens, labels, make_scalars(0))
        steps._losses.clear()

    step()
    if not steps.is_graph:
        print(f"{numeric_format}: no graph was taken", flush=True)
    return step


def time_turns(calls: Mapping[str, Call], turns: int) -> dict[str, float]:
    """Returns the median seconds of each call, run in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(turns + WARM_UP):
        for name, call in calls.items():
            torch.cuda.synchronize()
            started = time.perf_counter()
            call()
            torch.cuda.synchronize()
            if turn >= WARM_UP:
                seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(own) for name, own in seconds.items()}


def format_rates(subject: Subject, seconds: Mapping[str, float]) -> dict[str, float]:
    """Returns tokens a second, and the ratio of each format to plain PyTorch."""
    tokens = subject.batches[0][0].numel()
    rates = {f"{name} tokens/s": round(tokens / own) for name, own in seconds.items()}
    ratios = {
        f"{name} over plain": seconds["plain"] / own for name, own in seconds.items() if name != "plain"
    }
    return {**rates, **{name: round(ratio, 3) for name, ratio in ratios.items()}}


# Where the time goes
def profile(subject: Subject, built: BuiltProgram, numeric_format: str, device: str) -> dict[str, Any]:
    """Returns milliseconds of one step, kernel by kernel: by operation, and for the most expensive shapes.
    They are measured by events, so gaps between launches count."""
    interpreter = Interpreter(built.program, built.constants, numeric_format=numeric_format, device=device)
    interpreter.make_static()
    inputs = (*subject.vectors, *subject.batches[0], make_scalars(0))
    for number, tensor in enumerate(inputs):
        interpreter.put(number, tensor, lambda source, target: target.copy_(source))
    interpreter.launch()
    torch.cuda.synchronize()
    total, shapes, counts = Counter[str](), Counter[str](), Counter[str]()
    taken = []
    for node, kernel in list_node_kernels(interpreter):
        first, last = (make_event() for _ in range(2))
        # The card is kept busy, so that the event before a kernel does not wait for its launch.
        torch.cuda._sleep(BUSY_CYCLES)  # type: ignore[no-untyped-call]
        first.record()
        kernel()
        last.record()
        taken.append((node, first, last))
    torch.cuda.synchronize()
    elements = Counter[str]()
    for node, first, last in taken:
        milliseconds = first.elapsed_time(last)
        operation = node.operation.name
        label = f"{operation} {node.selected or ''} {node.sizes} {[one.strides for one in node.operands[:2]]}"
        total[operation] += milliseconds
        shapes[label] += milliseconds
        counts[label] += 1
        elements[label] += prod(node.sizes)
    return {
        "step_ms": round(sum(total.values()), 2),
        "operations_ms": {name: round(own, 2) for name, own in total.most_common()},
        "dearest_ms": [
            f"{own:8.2f} ms  {counts[name]:4d} x  {elements[name] / own / 1e6:8.1f} G/s  {name}"
            for name, own in shapes.most_common(DEAREST)
        ],
    }
