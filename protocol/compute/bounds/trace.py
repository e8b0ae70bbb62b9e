"""The trace of a step: its root, runs of elements with proofs, running the step again, its layers.

The root of a trace, and the proofs of runs, are those of docs/spec.md, section 8.

    buffers --> a tree each, in leaves as long as a run --> their roots in order --> the trace's tree

A trace is hashed only when its step is challenged, but then all of it. Only the roots are kept. To open a run
its buffer is hashed again, which takes some milliseconds.

A dispute about a training step asks for the step to be run again with all its tensors shown.

    state, batch --> traced run --> each tensor into its tree, then forgotten --> roots in order --> trace

Here too only the roots are kept, because a trace is many times as large as a state. To open a run, the step
is run once more and that one buffer is kept.

A program is cut into layers: a challenger computes a claimed step piece by piece between the cuts. A cut is a
tensor that a challenger fetches whole. From the cuts, the state before the step and the constants it computes
everything else. What the next cut follows from, back to the cuts before it, is a layer.

    cuts, state --> nodes of a layer --> own values of the next cut, compared with the claimed ones

Honest machines differ in the results of some operations only: sums, and functions that are not correctly
rounded (docs/spec.md, section 9). Every other tensor follows bit by bit from its operands, and its root tells
whether it is the claimant's. So to look at each node of a layer, the results of those operations are fetched
and no others: their bytes are the layer's price.

The cuts are chosen from the program alone, whatever its model. A walk over the nodes places one where a node
follows from more than a layer may cost. A backward layer follows from what its forward layer computed, which
is computed again from the cut before that: as training with checkpoints does (Chen et al., 2016).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from touchstone.protocol.compute.bounds.check import Provider, fetch_buffer
from touchstone.protocol.compute.bounds.element_bounds import require_index
from touchstone.protocol.compute.digest import ByteTree, build_byte_tree, tensor_bytes
from touchstone.protocol.compute.program.interpreter import Interpreter, Keep, StepResult
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.layout import find_foldable
from touchstone.protocol.compute.program.step import Batch, GetBatch, TrainingState, compute_scalars
from touchstone.protocol.compute.program.tensor_allocator import compute_lifetimes
from touchstone.protocol.spec.containers import TrainingSpec
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.exact import NAN
from touchstone.protocol.spec.merkle import Levels, compute_levels, compute_path
from touchstone.protocol.spec.program import (
    ELEMENT_BYTES,
    INDEX_ROLES,
    INPUTS,
    Operation,
    Program,
    get_constant_roots,
    leaf_bytes,
    leaf_elements,
)

INDEX_LIMIT = 1 << 32
"""Indices are uint32 in trees."""


@dataclass(frozen=True)
class TraceTree:
    """The tree over the roots of all buffers, and where their values come from. known: the buffers' roots,
    where a claimant lists others for some that no proof takes from its list; else those of the tree."""

    program: Program
    levels: Levels
    get: Provider
    known: Sequence[bytes] = field(default=(), kw_only=True)

    @property
    def root(self) -> bytes:
        """The trace's 32-byte root."""
        return self.levels[-1][0]

    @property
    def roots(self) -> Sequence[bytes]:
        """The root of each buffer's tree, 32 bytes, in order."""
        return self.known or self.levels[0]

    def open_root(self, buffer: int) -> list[bytes]:
        """The path of a buffer's root upwards. Raises InvalidInput if there is no such buffer."""
        return compute_path(self.levels, buffer)

    def open_run(self, buffer: int, first_element: int, count: int) -> tuple[bytes, list[bytes]]:
        """The whole leaves that hold `count` >= 1 elements from `first_element` on, and their siblings
        (`merkle.compute_range_path`). Raises InvalidInput where the buffer has no such elements, or is not
        what was hashed any more."""
        size = self.program.buffers[buffer].size
        if count < 1 or not 0 <= first_element <= first_element + count <= size:
            raise InvalidInput(
                what="no such run of elements",
                expected=f"1 or more of {size}",
                actual=f"{count} from {first_element} on",
                where=f"buffer {buffer}",
                remedy="Pass a run that the program reads.",
            )
        tensor = self.get(buffer)
        tree = build_buffer_tree(self.program, lambda _: tensor, buffer)
        if tree.root != self.roots[buffer]:  # Another node may have hashed a NaN of other bits.
            tree = build_buffer_tree(self.program, lambda _: tensor, buffer, is_shown=True)
        if tree.root != self.roots[buffer]:
            raise InvalidInput(
                what="a tensor has changed since the trace was hashed",
                expected=self.roots[buffer].hex(),
                actual=tree.root.hex(),
                where=f"buffer {buffer}",
                remedy="Record the step again, and keep all of it.",
            )
        elements = leaf_elements(self.program, buffer)
        return tree.open_run(first_element // elements, (first_element + count - 1) // elements)


def build_buffer_tree(program: Program, get: Provider, number: int, is_shown: bool = False) -> ByteTree:
    """The tree of one buffer, in its own leaves; indices as uint32, each NaN as `exact.NAN`, or with its own
    bits where another node has shown it. Raises InvalidInput where the tensor is not the program's."""
    tensor = fetch_buffer(program, get, number)
    if program.buffers[number].role in INDEX_ROLES:
        require_index(tensor, INDEX_LIMIT)
        tensor = _take_low_halves(tensor)
    elif not is_shown and tensor.dtype == torch.float32 and bool((is_nan := tensor.isnan()).any()):
        tensor = tensor.view(torch.int32).masked_fill(is_nan, NAN)
    return build_byte_tree(tensor_bytes(tensor), leaf_bytes(program, number))


def _take_low_halves(indices: Tensor) -> Tensor:
    """int64 as uint32, under the name of int32; memory is little-endian. A copy always: one element of two
    counts as contiguous, with a stride that is not."""
    return indices.view(torch.int32)[::2].clone(memory_format=torch.contiguous_format)


Show = Callable[[int, memoryview, Levels], None]
"""(buffer, its little-endian elements, all levels of its tree), while the elements are in memory."""


def ignore(number: int, data: memoryview, levels: Levels) -> None:
    """The `Show` of a caller that needs no trees."""


class Retraced(NamedTuple):
    """The trace of a step, from which runs of any buffer can be opened, and the state that it ends in."""

    tree: TraceTree
    end: TrainingState


@dataclass(frozen=True)
class _Step:
    """A step of a task that can be run again."""

    spec: TrainingSpec
    start: TrainingState
    batch: Batch

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Buffers 0 to 5, flat."""
        start, scalars = self.start, compute_scalars(self.spec, self.start.local_step, self.start.global_step)
        data = (tensor.reshape(-1) for tensor in self.batch)
        return start.weights, start.first_moment, start.second_moment, *data, scalars

    def run(self, keep: Keep) -> StepResult:
        """Run it and show each tensor once."""
        built = get_program(self.spec)
        weights, first, second, tokens, labels, scalars = self.inputs
        interpreter = Interpreter(
            built.program, built.constants, is_traced=True, numeric_format=self.spec.numeric_format
        )
        return interpreter.run((weights, first, second), tokens, labels, scalars, keep=keep)

    def get(self, buffer: int) -> Tensor:
        """All elements of one buffer."""
        constants = get_program(self.spec).constants
        if buffer < len(INPUTS):
            return self.inputs[buffer]
        if buffer in constants:
            return constants[buffer]
        kept: list[Tensor] = []

        def keep(number: int, tensor: Tensor) -> None:
            """Copy the buffer that is asked for."""
            if number == buffer:
                kept.append(tensor.clone())

        self.run(keep)
        return kept[0]


def retrace(
    start: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, show: Show = ignore
) -> Retraced:
    """Run one step from `start` on its batch and hash all of it; `inner_step` is its number in the round. The
    bits are those of `step.advance` on the same machine with the same kernels. Each tree is shown once."""
    step, program = _Step(spec, start, get_batch(inner_step)), get_program(spec).program
    roots = get_constant_roots(program)

    def keep(number: int, tensor: Tensor) -> None:
        """Hash a buffer and show its tree."""
        tree = build_buffer_tree(program, lambda _: tensor, number)
        roots[number] = tree.root
        show(number, tree.data, tree.levels)

    for number, tensor in enumerate(step.inputs):
        keep(number, tensor)
    result = step.run(keep)
    levels = compute_levels([roots[number] for number in range(len(program.buffers))])
    end = TrainingState(*result[:3], start.local_step + 1, start.global_step + 1).move("cpu")
    return Retraced(TraceTree(program, levels, step.get), end)


Retrace = Callable[[TrainingState, TrainingSpec, GetBatch, int, Show], Retraced]
"""The shape of `retrace`."""

# --- Layers -------------------------------------------------------------------------------------------------
ROUNDED_FREELY = frozenset({
    Operation.PRODUCT_SUM, Operation.SUM, Operation.SELECTED_SUM, Operation.RECIPROCAL_ROOT,
    Operation.EXPONENTIAL, Operation.LOGARITHM, Operation.SIGMOID,
})  # fmt: skip
"""Operations of which honest machines give different results from the same operands."""
PRICE_SHARES = (1 / 16, 1 / 24, 1 / 32, 1 / 48, 1 / 64)
"""What a layer may cost, of the bytes of a trace. The share is taken with which all cuts and the dearest
layer together are the fewest bytes."""
LEAST_SAVED = 0.5
"""Of what a layer may cost: a tensor that saves less is no cut."""
MOST_STEPS = 1 << 25
"""Of a search for cuts from node to node; a decoder of 40 layers needs a million. A program that needs more
gets no more cuts: its layers are dear, and are searched all the same."""


@dataclass(frozen=True)
class Layer:
    """What one target follows from. target: a node that writes to a cut, or to a tensor that no node reads;
    price: in bytes; is_cut: whether the target's tensor is a cut."""

    target: int
    price: int
    is_cut: bool
    paths: "_Paths" = field(repr=False)

    @property
    def nodes(self) -> frozenset[int]:
        """The target, and all that it follows from, back to the cuts. Found anew each time: those of all
        layers of a long program together may not fit into memory."""
        return frozenset(self.paths.go_back([self.target]))

    @property
    def cuts(self) -> frozenset[int]:
        """The cuts that these nodes read; found anew each time."""
        return frozenset(self.paths.list_read(self.nodes))


def find_sources(layers: Sequence[Layer]) -> tuple[frozenset[int], frozenset[int]]:
    """The nodes of all these layers of a program, and the cuts that they read."""
    if not layers:
        return frozenset(), frozenset()
    paths = layers[0].paths
    nodes = frozenset(paths.go_back([layer.target for layer in layers]))
    return nodes, frozenset(paths.list_read(nodes))


def list_layers(program: Program) -> list[Layer]:
    """The layers in the order of their targets. Every node is in one of them at least."""
    trace_bytes = sum(ELEMENT_BYTES[buffer.role] * buffer.size for buffer in program.buffers)
    choices = (_cut(program, share * trace_bytes) for share in PRICE_SHARES)
    return min(choices, key=lambda layers: _measure_worst(program, layers))


def _measure_worst(program: Program, layers: Sequence[Layer]) -> int:
    """Bytes of all cuts and of the dearest layer."""
    cuts = {program.nodes[layer.target].output.buffer for layer in layers if layer.is_cut}
    return sum(4 * program.buffers[cut].size for cut in cuts) + max(layer.price for layer in layers)


def _cut(program: Program, limit: float) -> list[Layer]:
    cutting = _Cutting(program, limit)
    cuts, layers = cutting.choose(), list[Layer]()
    reach, paths = _Reach(program, cuts, cutting.readers), _Paths(program, cuts)
    for number, node in enumerate(program.nodes):
        price, buffer = reach.add(number), node.output.buffer
        if buffer in cuts or not cutting.readers[buffer]:
            layers.append(Layer(number, price, buffer in cuts, paths))
    return layers


class _Paths:
    """The ways from nodes back to the cuts; more cuts may be added."""

    def __init__(self, program: Program, cuts: set[int]) -> None:
        self.program, self.cuts = program, cuts
        self._writers: dict[int, list[int]] = {}
        for number, node in enumerate(program.nodes):
            self._writers.setdefault(node.output.buffer, []).append(number)

    def list_read(self, nodes: Iterable[int]) -> set[int]:
        """The cuts that these nodes read."""
        read = (access.buffer for one in nodes for access in self.program.nodes[one].operands)
        return self.cuts.intersection(read)

    def go_back(self, targets: Sequence[int]) -> set[int]:
        """The nodes that these nodes follow from, themselves among them."""
        found, waiting, seen = {*targets}, [*targets], set[int]()
        while waiting:
            for access in self.program.nodes[waiting.pop()].operands:
                if access.buffer not in self.cuts and access.buffer not in seen:
                    seen.add(access.buffer)
                    writers = self._writers.get(access.buffer, ())
                    found.update(writers)
                    waiting += writers
        return found


class _Reach:
    """The nodes with a price that a node follows from, as bits of an integer, and their sum. It goes back to
    the cuts. Nodes are added in order; what no later node reads is forgotten."""

    def __init__(self, program: Program, cuts: set[int], readers: Sequence[Sequence[int]]) -> None:
        self._program, self._cuts, self._readers = program, cuts, readers
        prices = _list_prices(program)
        self._places = {number: place for place, number in enumerate(n for n, p in enumerate(prices) if p)}
        self._prices = np.array([prices[number] for number in self._places], dtype=np.int64)
        self._written: dict[int, tuple[int, int]] = {}

    def add(self, number: int) -> int:
        """What node `number` follows from, itself included, in bytes."""
        node, found = self._program.nodes[number], (0, 0)
        for access in node.operands:
            if access.buffer not in self._cuts:
                found = self._join(found, self._written.get(access.buffer, (0, 0)))
        if number in self._places:
            place = self._places[number]
            found = found[0] | 1 << place, found[1] + int(self._prices[place])
        if self._readers[node.output.buffer]:
            earlier = self._written.get(node.output.buffer, (0, 0))
            self._written[node.output.buffer] = self._join(earlier, found)
        for access in node.operands:
            if self._readers[access.buffer][-1] == number:
                self._written.pop(access.buffer, None)
        return found[1]

    def _join(self, one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        """Bits and price of both."""
        bits = one[0] | other[0]
        if bits == one[0]:
            return one
        if bits == other[0]:
            return other
        return bits, self._price(bits) if one[0] & other[0] else one[1] + other[1]

    def _price(self, bits: int) -> int:
        count = len(self._prices)
        packed = np.frombuffer(bits.to_bytes(-(-count // 8), "little"), dtype=np.uint8)
        return int(self._prices[np.unpackbits(packed, count=count, bitorder="little").astype(bool)].sum())


class _Cutting:
    """The choice of cuts for layers of at most `limit` bytes, as far as tensors save enough."""

    def __init__(self, program: Program, limit: float) -> None:
        self._program, self._limit, self._steps = program, limit, 0
        self._prices, self.readers = _list_prices(program), _list_readers(program)
        lifetimes, copied = compute_lifetimes(program), find_foldable(program)
        self._candidates = {
            buffer
            for buffer, life in lifetimes.items()
            if buffer not in copied and self.readers[buffer] and self.readers[buffer][0] > life.written
        }
        """Tensors that are whole before any node reads them. No copies: kernels read what was copied."""

    def choose(self) -> set[int]:
        """The buffers that are cuts."""
        cuts, number = set[int](), 0
        reach, paths = _Reach(self._program, cuts, self.readers), _Paths(self._program, cuts)
        while number < len(self._program.nodes):
            is_dear = reach.add(number) > self._limit and self._steps < MOST_STEPS
            cut = self._find_best(paths, number) if is_dear else None
            if cut is None:
                number += 1
                continue
            cuts.add(cut)
            self._steps += number
            reach = _Reach(self._program, cuts, self.readers)
            for earlier in range(number):
                reach.add(earlier)
        return cuts

    def _find_best(self, paths: _Paths, last: int) -> int | None:
        """The smallest tensor whose cut saves enough of what node `last` follows from, of equal ones the one
        that saves most; None where none does."""
        least, sizes = LEAST_SAVED * self._limit, self._program.buffers
        saved = self._list_saved(sorted(paths.go_back([last])))
        enough = [(sizes[b].size, -bytes_, b) for b, bytes_ in saved.items() if bytes_ >= least]
        return min(enough)[2] if enough else None

    def _list_saved(self, nodes: Sequence[int]) -> dict[int, int]:
        """By tensor: bytes that lead to the last of `nodes` through it alone. They are those below it in the
        tree of post-dominators (Cooper, Harvey and Kennedy, A Simple, Fast Dominance Algorithm, 2001); a
        program has no cycles, so one walk backwards gives the tree. -2 - buffer stands for a tensor in it.
        Nothing is saved where it takes too many steps."""
        last = nodes[-1]
        above, depth = {last: -1}, {last: 0}
        saved: dict[int, int] = {last: 0}
        self._steps += len(nodes)

        def join(one: int, other: int) -> int:
            """The lowest that stands above both, or is one of them."""
            while one != other:
                self._steps += 1
                one, other = (above[one], other) if depth[one] >= depth[other] else (one, above[other])
            return one

        for number in reversed(nodes[:-1]):
            buffer = self._program.nodes[number].output.buffer
            if -2 - buffer not in above:
                users = [user for user in self.readers[buffer] if user in above]
                self._steps += len(self.readers[buffer])
                if self._steps >= MOST_STEPS:
                    return {}
                top = users[0] if users else last
                for user in users[1:]:
                    top = join(top, user)
                above[-2 - buffer], depth[-2 - buffer], saved[-2 - buffer] = top, depth[top] + 1, 0
            above[number], depth[number], saved[number] = (
                -2 - buffer, depth[-2 - buffer] + 1, self._prices[number],
            )  # fmt: skip
        for name in sorted(above, key=lambda one: -depth[one])[:-1]:
            saved[above[name]] += saved[name]
        return {-2 - name: bytes_ for name, bytes_ in saved.items() if -2 - name in self._candidates}


def _list_prices(program: Program) -> list[int]:
    return [4 * node.elements if node.operation in ROUNDED_FREELY else 0 for node in program.nodes]


def _list_readers(program: Program) -> list[list[int]]:
    """By buffer: the numbers of the nodes that read it, in order."""
    readers: list[list[int]] = [[] for _ in program.buffers]
    for number, node in enumerate(program.nodes):
        for access in node.operands:
            readers[access.buffer].append(number)
    return readers
