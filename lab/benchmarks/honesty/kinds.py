"""Compares this process's kernels with checker and referee, on awkward operands and real steps.

The checker trusts single additions and products, because it computes them with the same library. So they are
also compared with float64 here, and the referee judges a sample of everything in exact arithmetic.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from random import Random

import numpy as np
import torch
from torch import Tensor

from lab.benchmarks.honesty.cases import LAYOUTS, Sample, make_sample
from lab.benchmarks.honesty.planted import Step, build_step
from touchstone.protocol.compute.bounds.trace_check import TraceChecker
from touchstone.protocol.spec.program import Node
from touchstone.protocol.spec.program_operations import Operation

ULP_RANGE = (2.0**-125, 2.0**127)
"""The range of results whose error is counted in units in the last place: far from flushing and overflow."""
FUNCTIONS: dict[Operation, Callable[[Tensor], Tensor]] = {
    Operation.EXPONENTIAL: torch.exp,
    Operation.LOGARITHM: torch.log,
    Operation.RECIPROCAL_ROOT: torch.rsqrt,
    Operation.SIGMOID: torch.sigmoid,
}
ROUNDED: dict[Operation, Callable[..., Tensor]] = {
    Operation.ADD: torch.add,
    Operation.SUBTRACT: torch.sub,
    Operation.MULTIPLY: torch.mul,
    Operation.DIVIDE: torch.div,
    Operation.SQUARE_ROOT: torch.sqrt,
}
JUDGED_TERMS = 3000
"""The most terms of one node's elements that the referee judges."""
JUDGED_ELEMENTS = 60
FINGERPRINT_SHRINK = 128


@dataclass(frozen=True)
class Seen:
    """The results of one kind. `outside` counts elements that the checker finds outside their bounds.
    `worst_ratio` is error over bound, `worst_ulp` the largest error of functions in units in the last place.
    `misrounded` counts single operations that float64 rounds to something else. `judged` and `convicted` are
    counts of the referee."""

    elements: int = 0
    outside: int = 0
    worst_ratio: float = 0.0
    worst_ulp: float = 0.0
    misrounded: int = 0
    judged: int = 0
    convicted: int = 0

    def add(self, other: "Seen") -> "Seen":
        """Returns both results together."""
        sums = {name: getattr(self, name) + value for name, value in asdict(other).items()}
        largest = {
            name: max(getattr(self, name), getattr(other, name)) for name in ("worst_ratio", "worst_ulp")
        }
        return replace(self, **{**sums, **largest})


Kinds = Mapping[str, Seen]
"""Results by the name of the kind."""


def merge(*parts: Kinds) -> dict[str, Seen]:
    """Returns all results together."""
    merged: dict[str, Seen] = {}
    for part in parts:
        for name, seen in part.items():
            merged[name] = merged.get(name, Seen()).add(seen)
    return merged


# Single nodes
def measure_kinds(seed: int, shrink: int, device: str = "cpu") -> dict[str, Seen]:
    """Measures every layout of every kind on operands of this seed, computed on a device."""
    generator, random = torch.Generator().manual_seed(seed), Random(seed)
    kinds = {}
    with np.errstate(all="ignore"):
        for kind, layouts in LAYOUTS.items():
            seen = Seen()
            for layout in layouts:
                sample = make_sample(kind, layout.shrink(shrink), generator).move(device).compute()
                seen = seen.add(measure_sample(sample.move("cpu"), random))
            kinds[kind.name] = seen
    return kinds


def measure_sample(sample: Sample, random: Random) -> Seen:
    """Measures one node as the kernels computed it."""
    report, kind = sample.check(), sample.node.operation
    chosen = choose_elements(sample.node, random)
    judged = [sample.judge(element) for element in {report.element, *chosen}]
    return Seen(
        report.elements,
        report.outside,
        report.worst_ratio,
        _measure_ulp(sample, FUNCTIONS[kind]) if kind in FUNCTIONS else 0.0,
        _count_misrounded(sample, ROUNDED[kind]) if kind in ROUNDED else 0,
        len(judged),
        sum(judgement.is_fault for judgement in judged),
    )


def choose_elements(node: Node, random: Random) -> list[int]:
    """Chooses some elements for the referee."""
    count = min(node.elements, JUDGED_ELEMENTS, max(1, JUDGED_TERMS // node.terms))
    return random.sample(range(node.elements), count)


def _measure_ulp(sample: Sample, function: Callable[[Tensor], Tensor]) -> float:
    """Returns the largest |claimed - exact| / ulp(exact), with exact in float64."""
    exact = function(sample.operand(0).double())
    is_counted = (exact.abs() >= ULP_RANGE[0]) & (exact.abs() < ULP_RANGE[1])
    exact, claimed = exact[is_counted], sample.output[is_counted]
    ulp = torch.ldexp(torch.ones_like(exact), torch.frexp(exact).exponent - 24)
    return float(((claimed - exact).abs() / ulp).max())


def _count_misrounded(sample: Sample, function: Callable[..., Tensor]) -> int:
    """Counts elements that differ from float64's rounded result, which is right (Figueroa, 1995)."""
    operands = [sample.operand(place).double() for place in range(len(sample.node.operands))]
    right, claimed = function(*operands).float(), sample.output
    return int(((right != claimed) & ~(right.isnan() & claimed.isnan())).sum())


def compute_fingerprints() -> dict[str, str]:
    """Returns, by kind, a hash of results from operands that are the same in every process, to tell kernels
    apart."""
    prints = {}
    for kind, layouts in LAYOUTS.items():
        digest, generator = sha256(), torch.Generator().manual_seed(0)
        for layout in layouts:
            sample = make_sample(kind, layout.shrink(FINGERPRINT_SHRINK), generator)
            for buffer, values in sample.buffers.items():
                if values.is_floating_point():
                    drawn = np.random.default_rng(buffer).standard_normal(values.numel(), np.float32)
                    sample = sample.put(buffer, torch.from_numpy(np.abs(drawn) + np.float32(0.1)))
            digest.update(sample.compute().buffers[0].numpy().tobytes())
        prints[kind.name] = digest.hexdigest()
    return prints


# Traces
@dataclass(frozen=True)
class TraceSeen:
    """Results of a trace; `faults` are those that the checker names."""

    kinds: Kinds
    faults: tuple[str, ...]


def measure_trace(model: str, step: Step, seed: int, device: str = "cpu") -> TraceSeen:
    """Measures a step recorded on a device: the checker sees every element, the referee some of each kind."""
    built = build_step(model)
    buffers = step.record(built, device)
    report = TraceChecker(built.program).check(buffers.__getitem__)
    seen = {kind.name: Seen(r.elements, r.outside, r.worst_ratio) for kind, r in report.kinds.items()}
    judged = _judge_some(built.program.nodes, buffers, Random(seed))
    return TraceSeen(merge(seen, *judged), tuple(map(str, report.faults)))


def _judge_some(
    nodes: tuple[Node, ...], buffers: Mapping[int, Tensor], random: Random
) -> Iterator[dict[str, Seen]]:
    """Yields the referee's verdict on one element of a node of each kind."""
    for kind in {node.operation for node in nodes}:
        node = random.choice([node for node in nodes if node.operation is kind])
        judgement = Sample(node, buffers).judge(random.randrange(node.elements))
        yield {kind.name: Seen(judged=1, convicted=int(judgement.is_fault))}
