"""Makes the part of a program that one of several workers runs.

The task's program stays the same. Each worker gets the nodes that walk the batch with a part of that loop,
and all other nodes whole. A tensor that a part of a loop writes lies in parts, one with each worker. If a
node needs all of it (the partial sums of a gradient, which the program adds in a fixed order), the parts are
put together first. Each number is computed by the same operation from the same operands as with one worker.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from touchstone.protocol.compute.program.kernels.fused_update import UPDATE_NODES, match_update
from touchstone.protocol.compute.program.planning.cut_plan import CutPlan, LoopCut
from touchstone.protocol.compute.program.planning.flat_runs import FlatRun
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import LEAF_ELEMENTS
from touchstone.protocol.spec.program import Access, Buffer, Node, Program
from touchstone.protocol.spec.program_addressing import lay_row_major
from touchstone.protocol.spec.program_operations import Operation

_STATE = ("m", "v", "new_w", "new_m", "new_v")
"""The roles of the state in the update, which lie with the workers (`fused_update`)."""


@dataclass(frozen=True)
class CutProgram:
    """The program of one worker. `exchanges` maps a buffer whose parts are put together to its period, which
    has a part of each worker. `leaves` are the elements of W, m and v that this worker updates."""

    program: Program
    exchanges: Mapping[int, int]
    leaves: range


def assign_leaves(elements: int, workers: int) -> list[range]:
    """Returns which elements of W, m and v each worker updates: whole leaves, shared as evenly as
    possible."""
    leaves = -(-elements // LEAF_ELEMENTS)
    ends = [min(elements, leaves * n // workers * LEAF_ELEMENTS) for n in range(workers + 1)]
    return [range(start, stop) for start, stop in pairwise(ends)]


def cut_program(program: Program, workers: int, worker: int) -> CutProgram:
    """Returns the part of a folded program (`fold`) for one of several workers. Raises InvalidInput if the
    update cannot be cut, or there are more workers than leaves."""
    plan = CutPlan(program, workers)
    while not plan.try_all():
        pass
    return _Cutter(plan, worker).cut()


class _Cutter:
    """Writes one worker's program from the plan."""

    def __init__(self, plan: CutPlan, worker: int) -> None:
        self._plan, self._worker = plan, worker
        program, workers = plan.program, plan.workers
        self._buffers = [
            replace(buffer, size=buffer.size // workers) if number in plan.periods else buffer
            for number, buffer in enumerate(program.buffers)
        ]
        self._nodes: list[Node] = []
        self._whole: dict[int, int] = {}
        """For each buffer in parts, the buffer in which they are put together, while that is complete."""
        self._exchanges: dict[int, int] = {}

    def cut(self) -> CutProgram:
        """Returns the program."""
        plan, program = self._plan, self._plan.program
        update, found = _find_update(program)
        leaves = assign_leaves(program.buffers[found["w"].buffer].size, plan.workers)[self._worker]
        if not leaves or any(out in plan.periods for out in _list_results(program)):
            raise _refuse("a step whose results no part of a batch writes", "another", program.outputs)
        for number, node in enumerate(program.nodes[:update]):
            cut = plan.cuts.get(number)
            self._nodes.append(self._narrow(cut) if cut else self._read_whole(node))
            # Several nodes may write a buffer; an earlier joined copy lacks this node's share.
            self._whole.pop(node.output.buffer, None)
        owned = {found[name].buffer for name in _STATE}
        owned |= {node.output.buffer for node in program.nodes[update:]}
        for buffer in owned:
            self._buffers[buffer] = replace(self._buffers[buffer], size=len(leaves))
        for node in program.nodes[update:]:
            self._nodes.append(_own_leaves(self._read_whole(node), owned, leaves))
        cut_one = replace(program, buffers=tuple(self._buffers), nodes=tuple(self._nodes))
        return CutProgram(cut_one, self._exchanges, leaves)

    def _narrow(self, cut: LoopCut) -> Node:
        """Returns a cut node, limited to this worker's part of its loop."""
        node, part = cut.node, cut.node.sizes[cut.loop] // self._plan.workers

        def move(access: Access) -> Access:
            """Moves an access to the start of this worker's part."""
            period = self._plan.periods.get(access.buffer)
            if period is None:
                return replace(access, offset=access.offset + self._worker * part * access.strides[cut.loop])
            workers, (before, inside) = self._plan.workers, divmod(access.offset, period)
            strides = tuple(s if s % period else s // workers for s in access.strides)
            return Access(access.buffer, before * (period // workers) + inside, strides)

        sizes = (*node.sizes[: cut.loop], part, *node.sizes[cut.loop + 1 :])
        return replace(node, sizes=sizes, output=move(node.output), operands=tuple(map(move, node.operands)))

    def _read_whole(self, node: Node) -> Node:
        """Returns a node that runs whole; the parts that it reads are put together before."""
        for buffer in self._plan.list_parted(node):
            if buffer not in self._whole:
                self._whole[buffer] = self._gather(buffer)
        operands = (replace(one, buffer=self._whole.get(one.buffer, one.buffer)) for one in node.operands)
        return replace(node, operands=tuple(operands))

    def _gather(self, buffer: int) -> int:
        """Returns a new buffer for all parts. A node copies this worker's part into it; the exchange
        follows."""
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
    """Returns the buffers of a program's results."""
    outputs = program.outputs
    return outputs.loss, outputs.weights, outputs.first_moment, outputs.second_moment


def _find_update(program: Program) -> tuple[int, Mapping[str, Access]]:
    """Returns the first node of the optimizer's update, which comes last, and the roles of its buffers."""
    first = len(program.nodes) - UPDATE_NODES
    nodes = program.nodes[max(0, first) :]
    inner = frozenset(node.output.buffer for node in nodes) - set(_list_results(program))
    found = match_update(program, FlatRun(nodes, nodes[-1].elements, inner))
    read = {operand.buffer for node in program.nodes[: max(0, first)] for operand in node.operands}
    # A worker has only its own leaves of the old moments.
    if found is None or read & {found["m"].buffer, found["v"].buffer}:
        raise _refuse("a step that ends with the optimizer's update", f"its {UPDATE_NODES} nodes", len(nodes))
    return first, found


def _own_leaves(node: Node, owned: set[int], leaves: range) -> Node:
    def move(access: Access) -> Access:
        """Moves an access to this worker's first leaf of a whole tensor."""
        is_whole = access.strides == (1,) and access.buffer not in owned
        return replace(access, offset=access.offset + leaves.start) if is_whole else access

    operands = tuple(map(move, node.operands))
    return replace(node, sizes=(len(leaves),), output=move(node.output), operands=operands)


def _refuse(what: str, expected: object, actual: object) -> InvalidInput:
    return InvalidInput(
        what=f"a program cannot be cut over workers: it is not {what}",
        expected=expected,
        actual=actual,
        remedy="Train with one worker, or with no more workers than leaves.",
    )
