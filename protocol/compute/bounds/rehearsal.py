"""One step of a task on this machine, before anything is at stake: is every element inside its bound?

Exact programs have no bounds: a second run by other kernels has to give the same bits everywhere. A referee
is asked as well, about elements as they were computed and spoiled.

    start, batch --> traced run, node by node --> bounds or second run: an element outside refuses the machine
                                             '--> what drawn nodes touch, each into its tree --> opened leaves
                 --> for each kind of operation one element: two exhibits, right and wrong

A referee looks at what a proof opens and at the paths above it, never at the rest of a trace. So no more is
hashed than the drawn nodes touch, no more is kept than is opened, and for all other buffers stands the hash
of nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import NamedTuple

import torch
from torch import Tensor

from touchstone.protocol.compute.bounds.check import Fault, Provider, TraceChecker
from touchstone.protocol.compute.bounds.fault import OperationFault, find_writer, prove_operation
from touchstone.protocol.compute.bounds.trace import TraceTree, build_buffer_tree
from touchstone.protocol.compute.determinism import get_device
from touchstone.protocol.compute.digest import state_header
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step import Batch, TrainingState, compute_scalars, train_segment
from touchstone.protocol.compute.program.tensor_allocator import list_written
from touchstone.protocol.spec.containers import StateHeader, TrainingSpec
from touchstone.protocol.spec.drawing import draw_uniform
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.float32 import is_finite, round_to_bits
from touchstone.protocol.spec.merkle import compute_levels, fold_path, hash_leaf
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.program import (
    ELEMENT_BYTES,
    INTEGER_ROLES,
    Operation,
    Program,
    iterate_runs,
    leaf_bytes,
    leaf_elements,
    locate,
    unravel,
)
from touchstone.protocol.spec.referee import Judgement, judge_element

TRACED_ALIKE = 2
"""Steps that are trained and traced: the second begins with moments that are not zero."""
CANDIDATES = 4
"""Elements that are drawn of a node: the first that a referee would convict where it is wrong is shown."""
SPOILED_BOUNDS = 3
"""A spoiled element lies so many bounds off, and its own size or 1 more."""
UNHASHED = hash_leaf(b"")
"""In the place of the root of a buffer that nothing is opened of."""

Run = tuple[int, int, int]
"""Buffer, first element, count: what one opening shows."""


class Exhibit(NamedTuple):
    """What `Referee.judge` is shown of a trace, and what it must say."""

    operation: Operation
    trace_root: bytes
    proof: OperationFault
    is_fault: bool


class Rehearsal(NamedTuple):
    """A step whose every element lies inside its bound, and its exhibits: of each kind an honest and a
    spoiled one. start: the state before it."""

    start: StateHeader
    exhibits: tuple[Exhibit, ...]


class Sample(NamedTuple):
    """A drawn node, and candidates among its elements."""

    node: int
    elements: tuple[int, ...]


@dataclass(frozen=True)
class Excerpt(TraceTree):
    """A trace of which only these runs are kept; `get` has the inputs alone."""

    runs: Mapping[Run, tuple[bytes, list[bytes]]]

    def open_run(self, buffer: int, first_element: int, count: int) -> tuple[bytes, list[bytes]]:
        """As TraceTree's. Raises KeyError for a run that is not kept."""
        return self.runs[buffer, first_element, count]

    def read(self, run: Run) -> dict[tuple[int, int], int]:
        """The bits of a kept run's elements, or its quantized values, by buffer and element."""
        buffer, first, count = run
        role, data = self.program.buffers[buffer].role, self.open_run(*run)[0]
        width, skipped = ELEMENT_BYTES[role], first % leaf_elements(self.program, buffer)
        pieces = (data[width * n : width * (n + 1)] for n in range(skipped, skipped + count))
        values = [int.from_bytes(one, "little", signed=role in INTEGER_ROLES) for one in pieces]
        return {(buffer, first + n): value for n, value in enumerate(values)}


def rehearse(state: TrainingState, spec: TrainingSpec, batch: Batch, seed: bytes) -> Rehearsal:
    """Trace one step; check all of it, and take from it what `seed` draws. Raises EnvironmentFault where an
    element lies outside its bound: a solver that claims such a step can be convicted. Raises InvalidInput
    where a referee could judge nothing of it."""
    built = get_program(spec)
    scalars = compute_scalars(spec, state.local_step, state.global_step)
    vectors = (state.weights, state.first_moment, state.second_moment)
    inputs = (*vectors, *(tensor.reshape(-1) for tensor in batch), scalars)
    samples = draw_samples(built.program, seed)
    runs = {run for sample in samples for run in _list_runs(built.program, sample, inputs.__getitem__)}
    excerpt = _trace(built, inputs, runs, spec.numeric_format)
    exhibits = [exhibit for sample in samples for exhibit in _exhibit(excerpt, sample, spec.numeric_format)]
    _require_traced_alike(state, spec, batch)
    return Rehearsal(state_header(state), tuple(exhibits))


def _require_traced_alike(state: TrainingState, spec: TrainingSpec, batch: Batch) -> None:
    """Some steps as training takes them, over the memory of those before, and each traced. A claim is
    trained in one way and shown in the other. Raises EnvironmentFault where bits differ."""
    trained, _ = train_segment(state, spec, lambda _: batch, 0, TRACED_ALIKE)
    built = get_program(spec)
    interpreter = Interpreter(
        built.program, built.constants, is_traced=True, numeric_format=spec.numeric_format
    )
    for _ in range(TRACED_ALIKE):
        scalars = compute_scalars(spec, state.local_step, state.global_step)
        result = interpreter.run(state.vectors, *batch, scalars)
        weights, first_moment, second_moment = (vector.clone() for vector in result[:3])
        state = TrainingState(
            weights, first_moment, second_moment, state.local_step + 1, state.global_step + 1
        )
    pairs = zip(trained.bring_home().vectors, state.bring_home().vectors, strict=True)
    for name, (one, other) in zip(("weights", "first_moment", "second_moment"), pairs, strict=True):
        if not torch.equal(one.view(torch.int32), other.view(torch.int32)):
            raise EnvironmentFault(
                what="a step gives other bits when it is trained than when it is traced",
                expected=f"equal bits of {TRACED_ALIKE} steps",
                actual="others",
                where=name,
                remedy="Do not stake on this task from this machine: its claims could not be shown in a "
                "dispute. Tell its submitter, and whoever makes this software.",
                retryable=False,
            )


# --- Drawing ------------------------------------------------------------------------------------------------
def draw_samples(program: Program, seed: bytes) -> list[Sample]:
    """A node of each kind of operation that the program has, and some of its elements. It must not read the
    buffer that it writes to: a spoiled element would be an operand."""
    kinds: dict[Operation, list[int]] = defaultdict(list)
    for number, node in enumerate(program.nodes):
        if node.output.buffer not in {operand.buffer for operand in node.operands}:
            kinds[node.operation].append(number)
    samples = []
    for kind, numbers in sorted(kinds.items()):
        counter = (1 + CANDIDATES) * kind
        number = numbers[draw_uniform(seed, counter, len(numbers))]
        count = program.nodes[number].elements
        draws = (draw_uniform(seed, counter + place, count) for place in range(1, 1 + CANDIDATES))
        samples.append(Sample(number, tuple(dict.fromkeys(draws))))
    return samples


def _list_runs(program: Program, sample: Sample, get: Provider) -> Iterator[Run]:
    """Of all candidates; `get` need only know the inputs, for all indices are among them."""
    for element in sample.elements:
        yield _find_output(program, sample.node, element)
        yield from iterate_runs(program.nodes[sample.node], element, get)


def _find_output(program: Program, number: int, element: int) -> Run:
    node = program.nodes[number]
    return node.output.buffer, locate(node.output, unravel(element, node.output_sizes)), 1


# --- Tracing ------------------------------------------------------------------------------------------------
def _trace(built: BuiltProgram, inputs: Sequence[Tensor], runs: set[Run], numeric_format: str) -> Excerpt:
    """Run the step once. Raises EnvironmentFault at the first node with an element outside its bound, or of
    an exact program with other bits than other kernels give."""
    program, keeper = built.program, _Keeper(built.program, runs)
    interpreter = Interpreter(program, built.constants, is_traced=True, numeric_format=numeric_format)
    is_exact = numeric_format in PRODUCT_BITS
    check = (
        _compare_kernels(built, inputs, numeric_format)
        if is_exact
        else _check_bounds(program, numeric_format)
    )
    known = {**dict(enumerate(inputs)), **built.constants}
    for buffer in known.keys() & keeper.wanted.keys():
        keeper.keep(buffer, known[buffer])
    written = list_written(program)
    weights, first, second, tokens, labels, scalars = inputs
    for number in interpreter.iterate((weights, first, second), tokens, labels, scalars):
        for fault in check(number, interpreter.tensors):
            raise _refuse_bits(fault) if is_exact else _refuse(fault)
        for buffer in keeper.wanted.keys() & written.get(number, ()):
            keeper.keep(buffer, interpreter.tensors[buffer])
    return Excerpt(program, compute_levels(keeper.roots), inputs.__getitem__, keeper.opened)


_Check = Callable[[int, Mapping[int, Tensor]], Iterable[Fault]]
"""(node that has just been computed, buffers) to what is wrong with it."""


def _check_bounds(program: Program, numeric_format: str) -> _Check:
    checker = TraceChecker(program, numeric_format)
    return lambda number, tensors: checker.check(tensors.__getitem__, range(number, number + 1)).faults


def _compare_kernels(built: BuiltProgram, inputs: Sequence[Tensor], numeric_format: str) -> _Check:
    """Beside the run another one on the processor: by its compiled loops where this process has another
    device, else by `device_kernels.py`."""
    program, written = built.program, list_written(built.program)
    other = Interpreter(
        program,
        built.constants,
        is_traced=True,
        numeric_format=numeric_format,
        device="cpu",
        by_tensors=get_device().type == "cpu",
    )
    weights, first, second, tokens, labels, scalars = inputs
    steps = other.iterate((weights, first, second), tokens, labels, scalars)

    def check(number: int, tensors: Mapping[int, Tensor]) -> Iterator[Fault]:
        """Whole buffers, when their last node has been computed."""
        next(steps)
        for buffer in written.get(number, ()):
            at = _find_differing(tensors[buffer], other.tensors[buffer])
            if at is not None:
                node, element = find_writer(program, buffer, at)
                yield Fault(node, program.nodes[node].operation, element, inf)

    return check


def _find_differing(a: Tensor, b: Tensor) -> int | None:
    """The first element with other bits; NaN has one pattern."""
    if a.dtype is not torch.float32:
        is_other = a != b
    else:
        is_other = (a.view(torch.int32) != b.view(torch.int32)) & ~(a.isnan() & b.isnan())
    return int(is_other.int().argmax()) if bool(is_other.any()) else None


class _Keeper:
    """Opens the wanted runs of each buffer while its values are there."""

    def __init__(self, program: Program, runs: set[Run]) -> None:
        self.wanted: dict[int, list[Run]] = defaultdict(list)
        for run in runs:
            self.wanted[run[0]].append(run)
        self.roots = [UNHASHED] * len(program.buffers)
        self.opened: dict[Run, tuple[bytes, list[bytes]]] = {}
        self._program = program

    def keep(self, buffer: int, tensor: Tensor) -> None:
        """All of a buffer has been computed."""
        tree = build_buffer_tree(self._program, lambda _: tensor, buffer)
        self.roots[buffer], elements = tree.root, leaf_elements(self._program, buffer)
        for _, first, count in self.wanted[buffer]:
            opened = tree.open_run(first // elements, (first + count - 1) // elements)
            self.opened[buffer, first, count] = opened


def _refuse(fault: Fault) -> EnvironmentFault:
    return EnvironmentFault(
        what="this machine computes outside of the bounds, and could be convicted for it",
        expected="each element of a step within its bound",
        actual=f"element {fault.element} at {fault.ratio:.3g} times its bound",
        where=f"node {fault.node} ({fault.operation.name})",
        remedy="Do not stake from this machine; use another one, or another build of torch.",
        retryable=False,
    )


def _refuse_bits(fault: Fault) -> EnvironmentFault:
    """The same of an exact program, which has no bounds."""
    return EnvironmentFault(
        what="this machine does not compute the bits of an exact task, and could be convicted for it",
        expected="the same bits from two kinds of kernels, those of the referee",
        actual=f"element {fault.element} has others",
        where=f"node {fault.node} ({fault.operation.name})",
        remedy="Do not stake from this machine; use another one, or another build of torch.",
        retryable=False,
    )


# --- Exhibits -----------------------------------------------------------------------------------------------
def _exhibit(excerpt: Excerpt, sample: Sample, numeric_format: str) -> Iterator[Exhibit]:
    """Two of the first candidate that can be judged. Raises InvalidInput where none can: a step that begins
    with numbers that are not finite."""
    operation = excerpt.program.nodes[sample.node].operation
    for element in sample.elements:
        wrong = _find_wrong(excerpt, sample.node, element, numeric_format)
        if wrong is None:
            continue
        spoiled = _spoil(excerpt, _find_output(excerpt.program, sample.node, element), wrong)
        for trace, is_fault in ((excerpt, False), (spoiled, True)):
            proof = prove_operation(trace, sample.node, element)
            yield Exhibit(operation, trace.root, proof, is_fault)
        return
    raise InvalidInput(
        what="nothing of an operation can be judged",
        expected="finite operands in the task's first step",
        actual=f"none in {len(sample.elements)} elements",
        where=f"node {sample.node} ({operation.name})",
        remedy="Do not stake on this task; tell its submitter.",
    )


def _find_wrong(excerpt: Excerpt, number: int, element: int, numeric_format: str) -> int | None:
    """Bits that the element must not have; None where it may have any. Raises EnvironmentFault where Python's
    referee convicts what this machine computed."""
    node, output = excerpt.program.nodes[number], _find_output(excerpt.program, number, element)
    runs = _list_runs(excerpt.program, Sample(number, (element,)), excerpt.get)
    values = {place: bits for run in runs for place, bits in excerpt.read(run).items()}

    def judge(claimed: int) -> Judgement:
        """What Python's referee says of these bits."""
        return judge_element(node, element, lambda *place: values[place], claimed, numeric_format)

    honest = judge(values[output[:2]])
    if honest.is_fault:
        fault = Fault(number, node.operation, element, _measure(honest))
        raise _refuse_bits(fault) if numeric_format in PRODUCT_BITS else _refuse(fault)
    if numeric_format in PRODUCT_BITS:
        return values[output[:2]] ^ 1
    wrong = _choose_wrong(honest)
    return wrong if is_finite(wrong) and judge(wrong).is_fault else None


def _choose_wrong(honest: Judgement) -> int:
    """Bits of a value well outside the bound; those of 0 where there is no right one."""
    exact = honest.exact or Fraction(0)
    return round_to_bits(exact + SPOILED_BOUNDS * honest.bound + max(abs(exact), Fraction(1)))


def _measure(judged: Judgement) -> float:
    if judged.distance is None or not judged.bound:
        return float("inf")
    return float(judged.distance / judged.bound)


def _spoil(excerpt: Excerpt, output: Run, bits: int) -> Excerpt:
    """The trace of a claimant that claims `bits` for one element. Only its leaf and the roots above the leaf
    differ."""
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
