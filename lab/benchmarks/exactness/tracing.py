"""Checks every element of honest traces, and whether each changed bit of a trace is found.

Each way in which this machine can compute records whole traces of some steps, in its own process. The right
results are computed in NumPy from the specification alone, and the referee judges a sample of them. Then
single bits of an honest trace are flipped, and a challenger looks for them.

    ways --> traces --> digest of each buffer --> equal to NumPy's: so is each element
"""

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from lab.benchmarks.exactness.walking import Run, Walk, Way, begin, load, name_state, open_run, start_worker
from tests.protocol.compute.bounds.exact_trace import Step, Trace, change, record_step
from tests.protocol.compute.conftest import TOKENS, build_tiny_training
from tests.protocol.compute.program.numpy_exact import Array, compute_buffers
from tests.task_models import draw_first
from touchstone.protocol.compute.batches import open_corpus
from touchstone.protocol.compute.bounds.fault_proof import OperationFault
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.exact.product_families import FAMILIES, force_family
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step import begin_round, compute_scalars
from touchstone.protocol.spec.exact_elementwise import canonicalize
from touchstone.protocol.spec.program import COMPUTED_ROLES, ELEMENT_BYTES, Node, Program
from touchstone.protocol.spec.program_addressing import locate, unravel
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.referee import Fetch, judge_element

AT_ONCE = 2
"""Workers at the same time; nothing is timed."""
KEPT = 10
"""The most differences that are named."""
Digests = dict[int, str]
"""Digests over all elements of each buffer that nodes compute, by its number."""


# One step
@dataclass(frozen=True)
class Inputs:
    """The inputs of a step; `tensors` are buffers 0 to 5."""

    built: BuiltProgram
    tensors: tuple[Tensor, ...]
    numeric_format: str


def open_step(job: Walk, folder: Path) -> Inputs:
    """Opens the step where a walk begins: from a stored state, or the first one."""
    spec, get_batch = open_run(job.run)
    state = load(name_state(folder, job.run, job.start)) if job.start else begin(job.run)
    scalars = compute_scalars(spec, state.local_step, state.global_step)
    built = get_program(spec)
    return Inputs(built, (*state.vectors, *get_batch(job.start), scalars), spec.numeric_format)


def record(step: Inputs) -> Digests:
    """Records the trace by the product's kernels, as digests."""
    built, digests = step.built, Digests()
    traced = Interpreter(built.program, built.constants, is_traced=True, numeric_format=step.numeric_format)
    weights, first, second, tokens, labels, scalars = step.tensors
    keep: Callable[[int, Tensor], None] = lambda n, tensor: digests.update({n: digest(tensor.numpy())})  # noqa: E731
    traced.run((weights, first, second), tokens, labels, scalars, keep)
    return digests


def compute(step: Inputs) -> list[Array]:
    """Computes all buffers by NumPy."""
    constants = {number: tensor.numpy() for number, tensor in step.built.constants.items()}
    return compute_buffers(step.built.program, constants, [tensor.numpy() for tensor in step.tensors])


def digest(values: Array) -> str:
    """Returns a hash of all elements, in which each NaN counts as the NaN of trees."""
    is_nan = np.isnan(values) if values.dtype == np.float32 else np.zeros(0, bool)
    if is_nan.any():
        values = np.where(is_nan, np.float32(np.nan), values)
    return sha256(np.ascontiguousarray(values).data).hexdigest()


def list_computed(program: Program) -> list[int]:
    """Returns the buffers that nodes write."""
    return [number for number, buffer in enumerate(program.buffers) if buffer.role in COMPUTED_ROLES]


# Workers
def main() -> None:
    """Records the steps that the arguments name, and prints the digests of each."""
    folder, family, threads, onednn, *jobs = sys.argv[1:]
    pin_kernels(int(threads), onednn == "True")
    force_family(family)
    for text in jobs:
        content = json.loads(text)
        print(json.dumps(record(open_step(Walk(Run(**content.pop("run")), **content), Path(folder)))))


def start_tracer(folder: Path, jobs: Sequence[Walk], way: Way) -> list[Digests]:
    """Runs a worker to its end; returns the digests by job. Raises CalledProcessError if it fails."""
    chosen = way.configuration
    command = [way.python, "-m", "lab.benchmarks.exactness.tracing", str(folder), way.family]
    command += [str(chosen.threads), str(chosen.onednn), *(json.dumps(asdict(job)) for job in jobs)]
    done = subprocess.run(command, env=chosen.environment, check=True, stdout=subprocess.PIPE, text=True)
    lines = map(json.loads, done.stdout.splitlines())
    return [{int(number): found for number, found in line.items()} for line in lines]


# Honest elements
def compare_elements(ways: Sequence[Way], jobs: Sequence[Walk], folder: Path, judged: int) -> dict[str, Any]:
    """Compares the first step of each walk in each way. `elements` counts the elements that all ways
    computed, `refused` those in buffers that differ from NumPy's. `judged` and `convicted` count elements of
    NumPy's steps that the referee judged."""
    own = [way for way in ways if way.family in FAMILIES]
    keep_starts(own[0], folder, jobs)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(partial(start_tracer, folder, jobs), own))
    report: Counter[str] = Counter(elements=0, refused=0, judged=0, convicted=0)
    differing = list[str]()
    for place, job in enumerate(jobs):
        step = open_step(job, folder)
        buffers, program = compute(step), step.built.program
        report.update(judge_sample(program, buffers, step.numeric_format, judged))
        right = {number: digest(buffers[number]) for number in list_computed(program)}
        for way, digests in zip(own, found, strict=True):
            wrong = [number for number in right if digests[place].get(number) != right[number]]
            report["elements"] += sum(program.buffers[number].size for number in right)
            report["refused"] += sum(program.buffers[number].size for number in wrong)
            differing += [f"{way.name}: {job} buffer {number}" for number in wrong]
    return {**report, "ways": len(own), "steps": len(own) * len(jobs), "first_refused": differing[:KEPT]}


def keep_starts(way: Way, folder: Path, jobs: Sequence[Walk]) -> None:
    """Trains, and stores the states where walks begin."""
    walks = []
    for run in dict.fromkeys(job.run for job in jobs):
        if starts := sorted({job.start for job in jobs if job.run == run} - {0}):
            walks.append(Walk(run, 0, starts[-1], tuple(starts)))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(partial(start_worker, way, folder), walks))


def judge_sample(
    program: Program, buffers: Sequence[Array], numeric_format: str, count: int
) -> dict[str, int]:
    """Lets the referee judge `count` elements of each node from their operands."""
    chance, fetch, judged, convicted = random.Random(0), make_fetch(buffers.__getitem__), 0, 0
    for node in program.nodes:
        for element in chance.sample(range(node.elements), min(count, node.elements)):
            judged += 1
            convicted += is_fault(node, element, fetch, numeric_format)
    return {"judged": judged, "convicted": convicted}


def is_fault(node: Node, element: int, fetch: Fetch, numeric_format: str) -> bool:
    """Returns the referee's verdict on an element of a trace."""
    claimed = fetch(node.output.buffer, locate(node.output, unravel(element, node.output_sizes)))
    return judge_element(node, element, fetch, claimed, numeric_format).is_fault


def make_fetch(get: Callable[[int], Array]) -> Fetch:
    """Returns a function that gives elements as the referee reads them."""

    def fetch(buffer: int, element: int) -> int:
        """Returns the bits of a float32, or an integer."""
        values = get(buffer)
        is_float = values.dtype == np.float32
        return canonicalize(int(values.view(np.uint32)[element])) if is_float else int(values[element])

    return fetch


# Planted bits
def plant_bits(formats: Sequence[str], count: int) -> dict[str, Any]:
    """Flips `count` bits of each kind of operation in honest traces of each format, one at a time. `found`
    counts those where the challenger proves that very element and the referee calls it a fault."""
    tried, found, missed = Counter[str](), Counter[str](), list[str]()
    for numeric_format in formats:
        spec = build_tiny_training(numeric_format=numeric_format)
        state = begin_round(draw_first(spec), 0)
        step = record_step(spec, open_corpus(TOKENS, spec), state)
        for number, element, bit in _draw_places(step.built.program, count):
            kind = step.built.program.nodes[number].operation.name
            tried[kind] += 1
            if _is_found(step, number, element, bit):
                found[kind] += 1
            else:
                missed.append(f"{numeric_format}: node {number} {kind}, element {element}, bit {bit}")
    by_kind = {kind: [found[kind], tried[kind]] for kind in tried}
    return {"planted": tried.total(), "found": found.total(), "missed": missed[:KEPT], "by_kind": by_kind}


def _draw_places(program: Program, count: int) -> Iterator[tuple[int, int, int]]:
    """Yields (node, element, bit)."""
    chance = random.Random(1)
    for operation in Operation:
        numbers = [n for n, node in enumerate(program.nodes) if node.operation is operation]
        for number in chance.choices(numbers, k=count) if numbers else ():
            node = program.nodes[number]
            width = ELEMENT_BYTES[program.buffers[node.output.buffer].role]
            yield number, chance.randrange(node.elements), chance.randrange(8 * width)


def _is_found(step: Step, number: int, element: int, bit: int) -> bool:
    node = step.built.program.nodes[number]
    buffer, at = node.output.buffer, locate(node.output, unravel(element, node.output_sizes))
    changed = step.tensors[buffer].clone()
    change(changed, at, bit)
    trace = Trace(step.built, {**step.tensors, buffer: changed}, [])
    roots = [*step.roots]
    roots[buffer] = trace.build(buffer).root
    fault = step.find(trace, roots)
    is_proven = isinstance(fault, OperationFault) and (fault.node.number, fault.element) == (number, element)
    fetch = make_fetch(lambda n: trace.tensors[n].numpy())
    return is_proven and is_fault(node, element, fetch, step.numeric_format)


if __name__ == "__main__":
    main()
