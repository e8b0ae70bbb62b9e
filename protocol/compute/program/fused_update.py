"""Elementwise nodes that run together: tile by tile, and the optimizer's update as compiled loops.

As passes of their own these nodes read and write every parameter some forty times. Numba compiles IEEE
operations one by one, without contracting them, so the bits are those of separate passes. A run of nodes is
recognised by its operations and by what each hands to the next; any other run goes node by node.

Runs of elementwise nodes that go together, tile by tile; and parts of nodes that go one by one.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import torch

from touchstone.protocol.compute.program.exact_loops import Floats, compile_loop
from touchstone.protocol.compute.program.kernels import Kernel
from touchstone.protocol.compute.program.layout import MakeView, sort_loops
from touchstone.protocol.compute.program.tensor_allocator import compute_lifetimes, relax
from touchstone.protocol.spec.program import INDEXED, REDUCTIONS, Access, Node, Operation, Program

# --- Runs of elementwise nodes ------------------------------------------------------------------------------
TILE_ELEMENTS = 1 << 16
"""Elements of one tile: what lives at a time stays in the cache, and a call costs less than its pass."""
PART_ELEMENTS = 1 << 24
"""Elements, with the terms of sums, that a node goes through at once."""


@dataclass(frozen=True)
class FlatRun:
    """Consecutive elementwise nodes over the same `size` flat elements. hidden: tensors that only they
    touch."""

    nodes: tuple[Node, ...]
    size: int
    hidden: frozenset[int]


def find_flat_runs(program: Program) -> Iterator[tuple[int, FlatRun]]:
    """(number of the first node, run), for runs longer than a tile."""
    lifetimes, number = compute_lifetimes(program), 0
    while number < len(program.nodes):
        stop, size = number, program.nodes[number].elements
        written: set[int] = set()
        while stop < len(program.nodes) and _is_flat(program.nodes[stop], size, written):
            written.add(program.nodes[stop].output.buffer)
            stop += 1
        if size > TILE_ELEMENTS and stop > number + 1:
            nodes = program.nodes[number:stop]
            hidden = frozenset(
                buffer
                for buffer in written
                if number <= lifetimes[buffer].first
                and lifetimes[buffer].last < stop
                and program.buffers[buffer].size == size
            )
            yield number, FlatRun(nodes, size, hidden)
        number = max(stop, number + 1)


def _is_flat(node: Node, size: int, written: Set[int]) -> bool:
    """Elementwise over the same run of elements, from the start of each buffer that the run writes, or over
    single numbers; these not of the tensors that the run has `written`, for they may lie in a later tile."""
    accesses = (node.output, *node.operands)
    return (
        node.sizes == (size,)
        and not node.reduced
        and node.operation not in INDEXED | REDUCTIONS
        and node.operation is not Operation.QUANTIZE
        and all(a.strides in ((0,), (1,)) for a in accesses)
        and not any(a.strides == (1,) and a.offset and a.buffer in written for a in node.operands)
        and node.output.offset == 0
        and not any(a.strides == (0,) and a.buffer in written for a in node.operands)
    )


def cut_long(node: Node) -> Iterator[Node]:
    """A node, in parts where it goes through more elements than a process may want in memory at once, and its
    elements do not share operands as those of a matrix product do. In parts a library may sum in another
    order: steps that are trained and steps that are traced are cut alike."""
    is_matrix = node.operation is Operation.PRODUCT_SUM and sort_loops(node).is_matrix
    if is_matrix or node.operation in INDEXED or not node.output_sizes:
        yield node
        return
    rows = node.sizes[0]
    height = max(1, PART_ELEMENTS * rows // prod(node.sizes))
    for start in range(0, rows, height):
        yield cut_node(node, start, min(height, rows - start))


def cut_node(node: Node, start: int, length: int, loop: int = 0) -> Node:
    """Some of a loop, the first one."""

    def move(access: Access) -> Access:
        """The access, that many of the loop further on."""
        return replace(access, offset=access.offset + start * access.strides[loop])

    sizes = (*node.sizes[:loop], length, *node.sizes[loop + 1 :])
    return replace(node, sizes=sizes, output=move(node.output), operands=tuple(map(move, node.operands)))


PIECE_ELEMENTS = 1 << 15
"""Elements that go through all loops before the next: what the loops hand on stays in the cache."""

_OLD, _NEW = ("w", "m", "v"), ("new_w", "new_m", "new_v")
_TENSORS = (*_OLD, "g", *_NEW)
_NUMBERS = (
    "beta1", "first_scale", "beta2", "second_scale", "least_m", "least_v", "epsilon", "decay", "rate", "norm",
    "zero",
)  # fmt: skip
UPDATE = (
    (Operation.MULTIPLY, ("kept_m", "m", "beta1")),
    (Operation.MULTIPLY, ("share_m", "g", "first_scale")),
    (Operation.ADD, ("sum_m", "kept_m", "share_m")),
    (Operation.FLUSH, ("first", "sum_m", "least_m")),
    (Operation.MULTIPLY, ("kept_v", "v", "beta2")),
    (Operation.MULTIPLY, ("square", "g", "g")),
    (Operation.MULTIPLY, ("share_v", "square", "second_scale")),
    (Operation.ADD, ("sum_v", "kept_v", "share_v")),
    (Operation.FLUSH, ("second", "sum_v", "least_v")),
    (Operation.MULTIPLY, ("kept_w", "w", "decay")),
    (Operation.SQUARE_ROOT, ("root", "second")),
    (Operation.ADD, ("divisor", "root", "epsilon")),
    (Operation.DIVIDE, ("direction", "first", "divisor")),
    (Operation.MULTIPLY, ("move", "direction", "rate")),
    (Operation.SUBTRACT, ("stepped", "kept_w", "move")),
    (Operation.FINITE_SELECT, ("stayed_w", "norm", "stepped", "w")),
    (Operation.FINITE_SELECT, ("stayed_m", "norm", "first", "m")),
    (Operation.FINITE_SELECT, ("stayed_v", "norm", "second", "v")),
    (Operation.FINITE_SELECT, ("new_w", "stayed_w", "stayed_w", "zero")),
    (Operation.FINITE_SELECT, ("new_m", "stayed_m", "stayed_m", "zero")),
    (Operation.FINITE_SELECT, ("new_v", "stayed_v", "stayed_v", "zero")),
)
"""`optimizers.AdamW` as it is recorded: operation, output, operands."""
UPDATE_NODES = len(UPDATE)


def match_update(program: Program, run: FlatRun) -> Mapping[str, Access] | None:
    """What is what in a run of `program` that is the optimizer's update; None for any other run. It is one
    where the old vectors are the program's inputs, the new ones its results, which nobody else writes, and
    all else lies apart from them: loops write new vectors over old ones."""
    if len(run.nodes) != len(UPDATE):
        return None
    found: dict[str, Access] = {}
    for node, (operation, names) in zip(run.nodes, UPDATE, strict=True):
        accesses = (node.output, *node.operands)
        if node.operation is not operation or len(accesses) != len(names):
            return None
        if any(
            found.setdefault(name, access) != access for name, access in zip(names, accesses, strict=True)
        ):
            return None
    inner = found.keys() - {*_TENSORS, *_NUMBERS}
    is_it = (
        all(found[name].strides == (0,) for name in _NUMBERS)
        and all(found[name].strides == (1,) for name in (*_TENSORS, *inner))
        and all(found[name].buffer in run.hidden for name in inner)
    )
    return found if is_it and _lies_apart(program, run, found, inner) else None


def _lies_apart(program: Program, run: FlatRun, found: Mapping[str, Access], inner: Set[str]) -> bool:
    outputs = program.outputs
    results = (outputs.weights, outputs.first_moment, outputs.second_moment)
    old, new = ([found[name] for name in names] for names in (_OLD, _NEW))
    writers = Counter(node.output.buffer for node in program.nodes)
    # A worker's part of W begins at its own leaves.
    are_inputs = [one.buffer for one in old] == [0, 1, 2] and not (old[1].offset or old[2].offset)
    are_results = tuple(one.buffer for one in new) == results and all(writers[one] == 1 for one in results)
    are_whole = all(program.buffers[one].size == run.size for one in results)
    tensors = [found[name].buffer for name in (*_TENSORS, *inner)]
    are_numbers = not {found[name].buffer for name in _NUMBERS} & {0, 1, 2, *run.hidden, *results}
    return are_inputs and are_results and are_whole and len({*tensors}) == len(tensors) and are_numbers


def find_successors(
    program: Program, first: int, run: FlatRun, found: Mapping[str, Access]
) -> Mapping[int, int]:
    """Buffers of new W, m and v, and those of the old ones whose memory they may take: no node after the
    update, the run that begins at node `first`, reads an old one."""
    old, new = ([found[name].buffer for name in names] for names in (_OLD, _NEW))
    rest = program.nodes[first + len(run.nodes) :]
    if found["w"].offset or any(operand.buffer in old for node in rest for operand in node.operands):
        return {}
    return dict(zip(new, old, strict=True))


def make_update(run: FlatRun, found: Mapping[str, Access], view: MakeView) -> Kernel:
    """The kernel of an update on the CPU, on views of the buffers as they are now. New W, m and v may lie
    where the old ones do."""
    numbers = [view(found[name], (1,), (1,)) for name in _NUMBERS]
    old, new = ([view(found[name], (run.size,), (1,)) for name in names] for names in (_OLD, _NEW))
    gradient = view(found["g"], (run.size,), (1,))

    def compute() -> None:
        """Compute the nodes once, piece by piece."""
        shared, g = torch.cat(numbers).numpy(), gradient.numpy()
        states = [tensor.numpy() for tensor in new]
        moved = [
            (a.numpy(), b.numpy()) for a, b in zip(old, new, strict=True) if a.data_ptr() != b.data_ptr()
        ]
        for start in range(0, run.size, PIECE_ELEMENTS):
            piece = slice(start, start + PIECE_ELEMENTS)
            for source, target in moved:
                target[piece] = source[piece]
            w, m, v = (state[piece] for state in states)
            _update(w, m, v, g[piece], shared)
            relax()

    return compute


def _update(w: Floats, m: Floats, v: Floats, g: Floats, numbers: Floats) -> None:
    beta1, first_scale, beta2, second_scale, least_m, least_v, epsilon, decay, rate, norm, zero = numbers
    if np.isfinite(norm):
        _update_first(m, g, beta1, first_scale, least_m)
        _update_second(v, g, beta2, second_scale, least_v)
        _move(w, m, v, decay, epsilon, rate)
    for state in (w, m, v):
        _keep_finite(state, zero)


# Loops, each called from here: a compiler that sees all of them at once gives up to compute several
# elements at a time, for it cannot know that the tensors lie apart.
@compile_loop
def _update_first(m: Floats, g: Floats, beta: np.float32, scale: np.float32, least: np.float32) -> None:
    for i in range(len(m)):
        moment = m[i] * beta + g[i] * scale
        m[i] = np.float32(0) if abs(moment) < least else moment


@compile_loop
def _update_second(v: Floats, g: Floats, beta: np.float32, scale: np.float32, least: np.float32) -> None:
    for i in range(len(v)):
        moment = v[i] * beta + g[i] * g[i] * scale
        v[i] = np.float32(0) if abs(moment) < least else moment


@compile_loop
def _move(w: Floats, m: Floats, v: Floats, decay: np.float32, epsilon: np.float32, rate: np.float32) -> None:
    for i in range(len(w)):
        w[i] = w[i] * decay - m[i] / (np.sqrt(v[i]) + epsilon) * rate


@compile_loop
def _keep_finite(x: Floats, zero: np.float32) -> None:
    for i in range(len(x)):
        x[i] = x[i] if np.isfinite(x[i]) else zero
