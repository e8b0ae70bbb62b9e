"""What this process's kernels make of awkward operands and of real steps, against checker and referee.

The checker takes IEEE's word for single additions and products, as it computes them by the same library.
Here these are compared with float64's as well, and the referee, in exact arithmetic, judges a sample of
everything.
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
"""Results whose error is counted in units in the last place: where neither flushing nor overflow is near."""
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
"""Terms of the elements of one node that the referee judges."""
JUDGED_ELEMENTS = 60
FINGERPRINT_SHRINK = 128


@dataclass(frozen=True)
class Seen:
    """Of one kind. outside: elements that the checker calls so; worst_ratio: error over bound; worst_ulp: of
    functions; misrounded: single operations that float64 rounds to something else; judged, convicted: by the
    referee."""

    elements: int = 0
    outside: int = 0
    worst_ratio: float = 0.0
    worst_ulp: float = 0.0
    misrounded: int = 0
    judged: int = 0
    convicted: int = 0

    def add(self, other: "Seen") -> "Seen":
        """Both."""
        sums = {name: getattr(self, name) + value for name, value in asdict(other).items()}
        largest = {
            name: max(getattr(self, name), getattr(other, name)) for name in ("worst_ratio", "worst_ulp")
        }
        return replace(self, **{**sums, **largest})


Kinds = Mapping[str, Seen]
"""By the kind's name."""


def merge(*parts: Kinds) -> dict[str, Seen]:
    """All together."""
    merged: dict[str, Seen] = {}
    for part in parts:
        for name, seen in part.items():
            merged[name] = merged.get(name, Seen()).add(seen)
    return merged


# --- Single nodes -------------------------------------------------------------------------------------------
def measure_kinds(seed: int, shrink: int, device: str = "cpu") -> dict[str, Seen]:
    """Every layout of every kind on operands of this seed, computed on a device."""
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
    """One node as the kernels computed it."""
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
    """Some for the referee."""
    count = min(node.elements, JUDGED_ELEMENTS, max(1, JUDGED_TERMS // node.terms))
    return random.sample(range(node.elements), count)


def _measure_ulp(sample: Sample, function: Callable[[Tensor], Tensor]) -> float:
    """The largest |claimed - exact| / ulp(exact), exact in float64."""
    exact = function(sample.operand(0).double())
    is_counted = (exact.abs() >= ULP_RANGE[0]) & (exact.abs() < ULP_RANGE[1])
    exact, claimed = exact[is_counted], sample.output[is_counted]
    ulp = torch.ldexp(torch.ones_like(exact), torch.frexp(exact).exponent - 24)
    return float(((claimed - exact).abs() / ulp).max())


def _count_misrounded(sample: Sample, function: Callable[..., Tensor]) -> int:
    """Elements other than float64's result, rounded (which is right: Figueroa, 1995)."""
    operands = [sample.operand(place).double() for place in range(len(sample.node.operands))]
    right, claimed = function(*operands).float(), sample.output
    return int(((right != claimed) & ~(right.isnan() & claimed.isnan())).sum())


def compute_fingerprints() -> dict[str, str]:
    """By kind: a hash of results from operands that are the same in every process, to tell kernels apart."""
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


# --- Traces -------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class TraceSeen:
    """faults: what the checker names."""

    kinds: Kinds
    faults: tuple[str, ...]


def measure_trace(model: str, step: Step, seed: int, device: str = "cpu") -> TraceSeen:
    """A step recorded on a device: every element by the checker, some of each kind by the referee."""
    built = build_step(model)
    buffers = step.record(built, device)
    report = TraceChecker(built.program).check(buffers.__getitem__)
    seen = {kind.name: Seen(r.elements, r.outside, r.worst_ratio) for kind, r in report.kinds.items()}
    judged = _judge_some(built.program.nodes, buffers, Random(seed))
    return TraceSeen(merge(seen, *judged), tuple(map(str, report.faults)))


def _judge_some(
    nodes: tuple[Node, ...], buffers: Mapping[int, Tensor], random: Random
) -> Iterator[dict[str, Seen]]:
    """One element of a node of each kind."""
    for kind in {node.operation for node in nodes}:
        node = random.choice([node for node in nodes if node.operation is kind])
        judgement = Sample(node, buffers).judge(random.randrange(node.elements))
        yield {kind.name: Seen(judged=1, convicted=int(judgement.is_fault))}
