"""Computes the optimizer's update as compiled loops, in one pass over the parameters.

Numba compiles IEEE operations one by one, without contracting them, so the bits are those of separate passes.
The update is recognised by its operations and by how they feed each other; any other run of nodes is computed
node by node.
"""

from collections import Counter
from collections.abc import Mapping, Set

import numpy as np
import torch

from touchstone.protocol.compute.program.compiled_loops import Floats, compile_loop
from touchstone.protocol.compute.program.kernels.kernel import Kernel
from touchstone.protocol.compute.program.planning.flat_runs import FlatRun
from touchstone.protocol.compute.program.planning.node_views import MakeView
from touchstone.protocol.compute.program.tensor_allocator import relax
from touchstone.protocol.spec.program import Access, Program
from touchstone.protocol.spec.program_operations import Operation

PIECE_ELEMENTS = 1 << 15
"""How many elements go through all loops before the next ones, so that intermediate values stay in the
cache."""

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
    """Returns the roles of the buffers if a run of `program` is the optimizer's update, else None. The old
    vectors must be the program's inputs, and the new ones its results, which no other node writes. All other
    buffers must lie apart from these vectors, because loops write new vectors over old ones."""
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
    """Returns the buffers of new W, m and v, and of the old ones whose memory they may take. No node after
    the update, which begins at node `first`, may read an old one."""
    old, new = ([found[name].buffer for name in names] for names in (_OLD, _NEW))
    rest = program.nodes[first + len(run.nodes) :]
    if found["w"].offset or any(operand.buffer in old for node in rest for operand in node.operands):
        return {}
    return dict(zip(new, old, strict=True))


def make_update(run: FlatRun, found: Mapping[str, Access], view: MakeView) -> Kernel:
    """Returns the kernel of an update on the CPU, on views of the present buffers. New W, m and v may
    overwrite the old ones."""
    numbers = [view(found[name], (1,), (1,)) for name in _NUMBERS]
    old, new = ([view(found[name], (run.size,), (1,)) for name in names] for names in (_OLD, _NEW))
    gradient = view(found["g"], (run.size,), (1,))

    def compute() -> None:
        """Computes the nodes once, piece by piece."""
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


# The loops are called separately from here. If a compiler saw all of them at once, it would not compute
# several elements at a time, because it could not know that the tensors lie apart.
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
