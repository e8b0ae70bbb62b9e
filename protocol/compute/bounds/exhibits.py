"""Makes the examples of a rehearsal for a referee: elements as computed, and falsified."""

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from touchstone.protocol.compute.bounds.fault_proof import OperationFault, prove_operation
from touchstone.protocol.compute.bounds.rehearsal_samples import Run, Sample, find_output, list_sample_runs
from touchstone.protocol.compute.bounds.rehearsal_trace import Excerpt, refuse_bits, refuse_excess
from touchstone.protocol.compute.bounds.trace_check import Fault
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import is_finite, round_to_bits
from touchstone.protocol.spec.merkle import compute_levels, fold_path, hash_leaf
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.program import ELEMENT_BYTES, leaf_bytes
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.referee import Judgement, judge_element

SPOILED_BOUNDS = 3
"""A falsified element is off by this many bounds, plus the larger of its own size and 1."""


class Exhibit(NamedTuple):
    """A part of a trace for the contract's `Referee.judge`, and the verdict that the referee must give."""

    operation: Operation
    trace_root: bytes
    proof: OperationFault
    is_fault: bool


def make_exhibits(excerpt: Excerpt, sample: Sample, numeric_format: str) -> Iterator[Exhibit]:
    """Yields two exhibits of the first candidate element that can be judged. Raises InvalidInput if none can,
    because the step begins with numbers that are not finite."""
    operation = excerpt.program.nodes[sample.node].operation
    for element in sample.elements:
        wrong = _find_wrong(excerpt, sample.node, element, numeric_format)
        if wrong is None:
            continue
        spoiled = _spoil(excerpt, find_output(excerpt.program, sample.node, element), wrong)
        for trace, is_fault in ((excerpt, False), (spoiled, True)):
            proof = prove_operation(trace, sample.node, element)
            yield Exhibit(operation, trace.root, proof, is_fault)
        return
    raise InvalidInput(
        what="no element of an operation can be judged",
        expected="finite operands in the task's first step",
        actual=f"none in {len(sample.elements)} elements",
        where=f"node {sample.node} ({operation.name})",
        remedy="Do not stake on this task; tell its submitter.",
    )


def _find_wrong(excerpt: Excerpt, number: int, element: int, numeric_format: str) -> int | None:
    """Returns bits that a referee must convict in this element; None if any bits are allowed. Raises
    EnvironmentFault if Python's referee convicts a value that this machine computed."""
    node, output = excerpt.program.nodes[number], find_output(excerpt.program, number, element)
    runs = list_sample_runs(excerpt.program, Sample(number, (element,)), excerpt.get)
    values = {place: bits for run in runs for place, bits in excerpt.read(run).items()}

    def judge(claimed: int) -> Judgement:
        """Returns the verdict of Python's referee on these bits."""
        return judge_element(node, element, lambda *place: values[place], claimed, numeric_format)

    honest = judge(values[output[:2]])
    if honest.is_fault:
        fault = Fault(number, node.operation, element, _measure(honest))
        raise refuse_bits(fault) if numeric_format in PRODUCT_BITS else refuse_excess(fault)
    if numeric_format in PRODUCT_BITS:
        return values[output[:2]] ^ 1
    wrong = _choose_wrong(honest)
    return wrong if is_finite(wrong) and judge(wrong).is_fault else None


def _choose_wrong(honest: Judgement) -> int:
    """Returns bits of a value well outside the bound, or the bits of 0 if no value is right."""
    exact = honest.exact or Fraction(0)
    return round_to_bits(exact + SPOILED_BOUNDS * honest.bound + max(abs(exact), Fraction(1)))


def _measure(judged: Judgement) -> float:
    if judged.distance is None or not judged.bound:
        return float("inf")
    return float(judged.distance / judged.bound)


def _spoil(excerpt: Excerpt, output: Run, bits: int) -> Excerpt:
    """Returns the trace of a claimant that claims `bits` for one element. Only its leaf and the roots above
    it differ."""
    buffer, first, _ = output
    leaves, path = excerpt.open_run(*output)
    width = ELEMENT_BYTES[excerpt.program.buffers[buffer].role]
    index, place = divmod(width * first, leaf_bytes(excerpt.program, buffer))
    element = (bits % (1 << 8 * width)).to_bytes(width, "little")
    spoiled = leaves[:place] + element + leaves[place + width :]
    roots = list(excerpt.roots)
    roots[buffer] = fold_path(hash_leaf(spoiled), index, path)
    runs = {**excerpt.runs, output: (spoiled, path)}
    return Excerpt(excerpt.program, compute_levels(roots), excerpt.get, runs)
