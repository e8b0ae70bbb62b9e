"""A step cut over several workers of one node: rows of the batch forward and backward, leaves in the update.

The program stays the task's. Here each worker gets its part of it: the nodes that go through the batch with a
part of that loop, and all other nodes whole. A tensor that a part of a loop writes lies in parts, one with
each worker. Where a node needs all of it (the partial sums of a gradient, which the program adds in its own
order), the parts are put together first. Each number is computed by the same operation from the same
operands as by one worker. Moments lie with the workers, cut into leaves; new weights are put together.

    tokens --> own rows --> own partial sums --> all partial sums --> gradient --> own leaves --> all weights
                                            exchange                                        exchange
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

from torch import Tensor

from touchstone.protocol.compute.program.fused_update import UPDATE_NODES, FlatRun, match_update
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.layout import fold
from touchstone.protocol.compute.program.step import Batch, TrainingState, compute_scalars
from touchstone.protocol.compute.program.tensor_allocator import allocate, allocate_zeros
from touchstone.protocol.spec.containers import TrainingSpec
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import LEAF_ELEMENTS
from touchstone.protocol.spec.program import (
    INDEX_ROLES,
    INTEGER_ROLES,
    Access,
    Buffer,
    Node,
    Operation,
    Program,
    lay_row_major,
)

_SELECTING = (Operation.SELECTED_SUM, Operation.EQUAL_SELECT)
"""Operations that compare an index with the number of a loop: that loop stays as it is."""
_STATE = ("m", "v", "new_w", "new_m", "new_v")
"""What lies with the workers in the update (`fused_update`)."""


@dataclass(frozen=True)
class CutProgram:
    """What one worker runs. exchanges: by buffer, the period in which it lies: each has a part of each
    worker; leaves: the elements of W, m and v that this worker updates."""

    program: Program
    exchanges: Mapping[int, int]
    leaves: range


def deal_leaves(elements: int, workers: int) -> list[range]:
    """Which elements of W, m and v each worker updates: whole leaves, as even as can be."""
    leaves = -(-elements // LEAF_ELEMENTS)
    ends = [min(elements, leaves * n // workers * LEAF_ELEMENTS) for n in range(workers + 1)]
    return [range(start, stop) for start, stop in pairwise(ends)]


def cut_program(program: Program, workers: int, worker: int) -> CutProgram:
    """The part of a folded program (`contiguous.fold`) of one of so many workers. Raises InvalidInput where
    the update is none that can be cut, or there are more workers than leaves."""
    plan = _Plan(program, workers)
    while not plan.try_all():
        pass
    return _Cutter(plan, worker).cut()


# --- Which loop of a node is cut ----------------------------------------------------------------------------
@dataclass(frozen=True)
class _Cut:
    """node: with loops split where parts begin; loop: the one that is cut; period: of its output."""

    node: Node
    loop: int
    period: int


@dataclass
class _Plan:
    """periods: of the buffers that lie in parts; kept: buffers that do not, since some node needs or writes
    them whole."""

    program: Program
    workers: int
    kept: set[int] = field(default_factory=set)
    periods: dict[int, int] = field(default_factory=dict)
    cuts: dict[int, _Cut] = field(default_factory=dict)

    def try_all(self) -> bool:
        """Cut what can be cut. False where a buffer turned out to be needed whole: then all begins anew."""
        self.periods, self.cuts = {}, {}
        whole: set[int] = set()
        for number, node in enumerate(self.program.nodes):
            out, cut = node.output.buffer, self._find_cut(node)
            if cut is None:
                whole.add(out)
            else:
                self.cuts[number] = cut
                self.periods.setdefault(out, cut.period)
            is_torn = out in self.periods and (out in whole or cut is None or self.periods[out] != cut.period)
            if is_torn:
                self.kept.add(out)
                return False
            if cut is None:
                # Quantized values have an order of their own in memory: they are not put together.
                integers = {one for one in self.list_parted(node) if self._is_integer(one)}
                if integers:
                    self.kept |= integers
                    return False
        return True

    def list_parted(self, node: Node) -> list[int]:
        """The buffers in parts that a node reads."""
        return [operand.buffer for operand in node.operands if operand.buffer in self.periods]

    def _is_integer(self, buffer: int) -> bool:
        return self.program.buffers[buffer].role in INTEGER_ROLES

    def _get_period(self, access: Access) -> int | None:
        """Of a buffer that leads a node to be cut: in parts, or of indices, whose rows are the batch's."""
        buffer = self.program.buffers[access.buffer]
        return buffer.size if buffer.role in INDEX_ROLES else self.periods.get(access.buffer)

    def _find_cut(self, node: Node) -> _Cut | None:
        """None where no operand lies in parts, or no loop goes through all that do part by part."""
        if node.output.buffer in self.kept:
            return None
        for place, operand in enumerate(node.operands):
            period = self._get_period(operand)
            if period is not None:
                node = _split(node, place, period)
        led = [(one, period) for one in node.operands if (period := self._get_period(one)) is not None]
        for loop in range(len(node.output_sizes)) if led else ():
            if self._is_cut(node, loop, led):
                return _Cut(node, loop, node.output.strides[loop] * node.sizes[loop])
        return None

    def _is_cut(self, node: Node, loop: int, led: Sequence[tuple[Access, int]]) -> bool:
        period = node.output.strides[loop] * node.sizes[loop]
        if node.sizes[loop] % self.workers or (node.operation in _SELECTING and loop == node.selected):
            return False
        if not period or self.program.buffers[node.output.buffer].size % period:
            return False
        if not self._stays(node.output, node.output_sizes, loop, period):
            return False
        # The index of a GATHER moves inside of one step of the loop, as a label does in its row.
        is_gather = node.operation is Operation.GATHER and node.operands[1].buffer in self.periods
        if is_gather and node.operands[1].strides[loop] % node.selected:
            return False
        # Kernels take quantized values and scales from the beginning of their buffers on.
        if any(one.strides[loop] and one.buffer not in self.periods for one in _list_quantized(node)):
            return False
        return all(self._stays(access, node.sizes, loop, own) for access, own in led)

    def _stays(self, access: Access, sizes: Sequence[int], loop: int, period: int) -> bool:
        """Whether a part of the loop goes through that part of each period, and nothing else."""
        if access.strides[loop] * sizes[loop] != period:
            return False
        reach = access.offset % period
        for n, (size, stride) in enumerate(zip(sizes, access.strides, strict=False)):
            count = size // self.workers if n == loop else size
            if stride % period:
                reach += (count - 1) * stride
        return reach < period // self.workers


def _list_quantized(node: Node) -> Sequence[Access]:
    """Quantized values and their scales among the operands."""
    if node.operation is Operation.QUANTIZED_PRODUCT_SUM:
        return node.operands
    return node.operands[1:] if node.operation is Operation.QUANTIZE else ()


def _split(node: Node, place: int, period: int) -> Node:
    """The node with each loop that goes over several periods of an operand, at equal steps, as two."""
    number = 0
    while number < len(node.output_sizes):
        stride, size = node.operands[place].strides[number], node.sizes[number]
        inner = period // stride if stride and not period % stride else 0
        is_compared = node.operation in _SELECTING and number == node.selected
        if inner and inner < size and not size % inner and not is_compared:
            node = _split_loop(node, number, inner)
            number += 1
        number += 1
    return node


def _split_loop(node: Node, loop: int, inner: int) -> Node:
    def split(access: Access) -> Access:
        """The access with a stride more."""
        before, stride, after = access.strides[:loop], access.strides[loop], access.strides[loop + 1 :]
        return replace(access, strides=(*before, stride * inner, stride, *after))

    selected = node.selected + (node.operation in _SELECTING and node.selected > loop)
    sizes = (*node.sizes[:loop], node.sizes[loop] // inner, inner, *node.sizes[loop + 1 :])
    operands = tuple(map(split, node.operands))
    return replace(node, sizes=sizes, output=split(node.output), operands=operands, selected=selected)


# --- The part of one worker ---------------------------------------------------------------------------------
class _Cutter:
    """Writes one worker's program from the plan."""

    def __init__(self, plan: _Plan, worker: int) -> None:
        self._plan, self._worker = plan, worker
        program, workers = plan.program, plan.workers
        self._buffers = [
            replace(buffer, size=buffer.size // workers) if number in plan.periods else buffer
            for number, buffer in enumerate(program.buffers)
        ]
        self._nodes: list[Node] = []
        self._whole: dict[int, int] = {}
        """By buffer in parts: the one in which they are put together, as long as it has all of it."""
        self._exchanges: dict[int, int] = {}

    def cut(self) -> CutProgram:
        """The program."""
        plan, program = self._plan, self._plan.program
        update, found = _find_update(program)
        leaves = deal_leaves(program.buffers[found["w"].buffer].size, plan.workers)[self._worker]
        if not leaves or any(out in plan.periods for out in _list_results(program)):
            raise _refuse("a step whose results no part of a batch writes", "another", program.outputs)
        for number, node in enumerate(program.nodes[:update]):
            cut = plan.cuts.get(number)
            self._nodes.append(self._narrow(cut) if cut else self._read_whole(node))
            # Several nodes may write a buffer, and what was put together before lacks this one's share.
            self._whole.pop(node.output.buffer, None)
        owned = {found[name].buffer for name in _STATE}
        owned |= {node.output.buffer for node in program.nodes[update:]}
        for buffer in owned:
            self._buffers[buffer] = replace(self._buffers[buffer], size=len(leaves))
        for node in program.nodes[update:]:
            self._nodes.append(_own_leaves(self._read_whole(node), owned, leaves))
        cut_one = replace(program, buffers=tuple(self._buffers), nodes=tuple(self._nodes))
        return CutProgram(cut_one, self._exchanges, leaves)

    def _narrow(self, cut: _Cut) -> Node:
        """A cut node: the own part of its loop."""
        node, part = cut.node, cut.node.sizes[cut.loop] // self._plan.workers

        def move(access: Access) -> Access:
            """Where the own part begins."""
            period = self._plan.periods.get(access.buffer)
            if period is None:
                return replace(access, offset=access.offset + self._worker * part * access.strides[cut.loop])
            workers, (before, inside) = self._plan.workers, divmod(access.offset, period)
            strides = tuple(s if s % period else s // workers for s in access.strides)
            return Access(access.buffer, before * (period // workers) + inside, strides)

        sizes = (*node.sizes[: cut.loop], part, *node.sizes[cut.loop + 1 :])
        return replace(node, sizes=sizes, output=move(node.output), operands=tuple(map(move, node.operands)))

    def _read_whole(self, node: Node) -> Node:
        """A node that goes through all: what it reads in parts is put together before."""
        for buffer in self._plan.list_parted(node):
            if buffer not in self._whole:
                self._whole[buffer] = self._gather(buffer)
        operands = (replace(one, buffer=self._whole.get(one.buffer, one.buffer)) for one in node.operands)
        return replace(node, operands=tuple(operands))

    def _gather(self, buffer: int) -> int:
        """A new buffer for all parts, into which a node copies the own one; the exchange follows."""
        before, period = self._plan.program.buffers[buffer], self._plan.periods[buffer]
        length = period // self._plan.workers
        self._buffers.append(Buffer(before.role, before.size))
        sizes = (before.size // period, length)
        output = Access(len(self._buffers) - 1, self._worker * length, (period, 1))
        source = Access(buffer, 0, lay_row_major(sizes))
        self._exchanges[output.buffer] = period
        self._nodes.append(Node(Operation.COPY, sizes, 0, output, (source,)))
        return output.buffer


def _list_results(program: Program) -> tuple[int, ...]:
    """The buffers of a program's results."""
    outputs = program.outputs
    return outputs.loss, outputs.weights, outputs.first_moment, outputs.second_moment


def _find_update(program: Program) -> tuple[int, Mapping[str, Access]]:
    """The first node of the optimizer's update, which comes last, and what is what in it."""
    first = len(program.nodes) - UPDATE_NODES
    nodes = program.nodes[max(0, first) :]
    inner = frozenset(node.output.buffer for node in nodes) - set(_list_results(program))
    found = match_update(program, FlatRun(nodes, nodes[-1].elements, inner))
    read = {operand.buffer for node in program.nodes[: max(0, first)] for operand in node.operands}
    # A worker has its own leaves of old moments alone.
    if found is None or read & {found["m"].buffer, found["v"].buffer}:
        raise _refuse("a step that ends with the optimizer's update", f"its {UPDATE_NODES} nodes", len(nodes))
    return first, found


def _own_leaves(node: Node, owned: set[int], leaves: range) -> Node:
    def move(access: Access) -> Access:
        """From the first own leaf on, in what lies whole."""
        is_whole = access.strides == (1,) and access.buffer not in owned
        return replace(access, offset=access.offset + leaves.start) if is_whole else access

    operands = tuple(map(move, node.operands))
    return replace(node, sizes=(len(leaves),), output=move(node.output), operands=operands)


# --- Steps of one worker ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Workers:
    """own: the number of this one of `count` workers; gather: the tensors of all, each of the own one's
    shape, by number. All call it in the same order."""

    count: int
    own: int
    gather: Callable[[Tensor], Sequence[Tensor]]


class CutStep:
    """The steps of a task by one of several workers."""

    def __init__(self, spec: TrainingSpec, workers: Workers) -> None:
        """Raises as `cut_program` does."""
        built = get_program(spec)
        self._spec, self._workers = spec, workers
        self._cut = cut_program(fold(built.program, keeps_copies=False), workers.count, workers.own)
        self._interpreter = Interpreter(
            self._cut.program,
            built.constants,
            numeric_format=spec.numeric_format,
            after={buffer: partial(self._exchange, period) for buffer, period in self._cut.exchanges.items()},
        )

    @property
    def leaves(self) -> range:
        """The elements of m and v that lie with this worker."""
        return self._cut.leaves

    def own(self, state: TrainingState) -> TrainingState:
        """What this worker keeps of a whole state: W itself, and a copy of its leaves of m and v."""
        first, second = (vector[self.leaves.start : self.leaves.stop].clone() for vector in state.vectors[1:])
        return replace(state, first_moment=first, second_moment=second)

    def advance(self, state: TrainingState, batch: Batch) -> tuple[TrainingState, float]:
        """As `step.advance`, from what this worker keeps to that. batch: of all workers."""
        scalars = compute_scalars(self._spec, state.local_step, state.global_step)
        result = self._interpreter.run(state.vectors, *batch, scalars)
        weights, counters = self._join(result.weights), (state.local_step + 1, state.global_step + 1)
        stepped = TrainingState(weights, result.first_moment, result.second_moment, *counters)
        return stepped, float(result.loss)

    def _join(self, own: Tensor) -> Tensor:
        """All leaves, each from its worker, in memory of their own."""
        elements = self._cut.program.buffers[0].size
        dealt = deal_leaves(elements, self._workers.count)
        padded, whole = allocate_zeros(max(map(len, dealt))), allocate(elements)
        padded[: len(own)] = own
        for part, leaves in zip(self._workers.gather(padded), dealt, strict=True):
            whole[leaves.start : leaves.stop] = part[: len(leaves)]
        return whole

    def _exchange(self, period: int, whole: Tensor) -> None:
        """Fill in the parts of the others: each period has one of each worker, one after the other."""
        parts = whole.view(-1, self._workers.count, period // self._workers.count)
        for number, part in enumerate(self._workers.gather(parts[:, self._workers.own].contiguous())):
            parts[:, number] = part


def _refuse(what: str, expected: object, actual: object) -> InvalidInput:
    return InvalidInput(
        what=f"a program cannot be cut over workers: it is not {what}",
        expected=expected,
        actual=actual,
        remedy="Train with one worker, or with no more workers than leaves.",
    )
