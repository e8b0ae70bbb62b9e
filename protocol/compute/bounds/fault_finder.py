"""Finds a false number in a claimed step, for tasks with limits, and fetches little of its trace.

A challenger computes the step itself, from the claimant's own start state, and compares roots of tensors.
Tensors with equal roots are right. On a machine like the claimant's, that leaves the false tensor and those
after it. On another machine, nearly all tensors have float noise. So it searches in this order:

    1. the first tensor that differs    on a machine like the claimant's that is the fault
    2. in layers (trace_layers.py)      the cuts are fetched in order, and each is computed from the cuts
                                        before it. A layer whose cut differs by more than noise is searched
                                        at once; then layers that cost almost nothing; then those whose cuts
                                        differ most
    3. everything, in order

To search nodes, it computes them in order from the claimant's own values. If a tensor's root differs from the
claimed one, the tensor is fetched, the nodes that wrote it are checked (node_check.py), and the computation
goes on from the claimed values. So a tensor that follows bit by bit from others is never fetched if it is
right. If it is wrong, its first differing leaf is checked; the whole is fetched only if that leaf proves
nothing.

A number is called a fault only if a node's bound excludes it. Layers decide where to look first; step 3 finds
the faults that they miss or cannot fetch. Memory holds no more than one run of a step, because a claimed
tensor replaces this machine's own.
"""

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite

import torch
from torch import Tensor

from touchstone.protocol.compute.bounds.claimed_node import LEAST_NORMAL, TILE_ELEMENTS
from touchstone.protocol.compute.bounds.fault_proof import (
    STATE_INPUTS,
    ClaimedLeaf,
    ClaimedTrace,
    InputFault,
    OperationFault,
    Vectors,
    prove_operation,
    refuse_trace,
)
from touchstone.protocol.compute.bounds.node_check import check_node
from touchstone.protocol.compute.bounds.step_openings import open_buffer
from touchstone.protocol.compute.bounds.trace_check import Provider, fetch_buffer
from touchstone.protocol.compute.bounds.trace_layers import ROUNDED_FREELY, Layer, find_sources, list_layers
from touchstone.protocol.compute.bounds.trace_tree import TraceTree, build_buffer_tree
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.planning.lifetimes import compute_lifetimes, list_written
from touchstone.protocol.compute.program.planning.node_views import look
from touchstone.protocol.compute.program.training_state import Batch
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.program import INPUTS, Access, leaf_elements
from touchstone.protocol.spec.program_addressing import locate, unravel

NOISE = 2.0**-13
"""The largest |own - claimed| / (|claimed| + its mean magnitude) of a cut that may be float noise; such a
layer is searched later. It is twelve times what honest kernels were seen to differ by (decision 0044). No
verdict depends on it."""
MOST_LAYERS = 6
"""How many layers are searched, cheap ones not counted, before the whole step is searched."""
CHEAP_SHARE = 1 / 1000
"""A layer that costs less than this share of a trace's bytes is always searched."""

log = logging.getLogger(__name__)
Inputs = tuple[Vectors, Tensor, Tensor, Tensor]
"""(W, m, v; tokens; labels; scalars)"""


class FaultFinder:
    """Finds faults in traces of one program of a float32 task."""

    def __init__(self, built: BuiltProgram) -> None:
        self.program = built.program
        self.interpreter = Interpreter(built.program, built.constants, is_traced=True)
        self.lifetimes = compute_lifetimes(built.program)
        self.written = list_written(built.program)
        self.writers = Counter(node.output.buffer for node in built.program.nodes)

    def find(
        self, vectors: Vectors, batch: Batch, scalars: Tensor, claimed: ClaimedTrace
    ) -> OperationFault | InputFault | None:
        """Returns a fault of a claimed step from the state `vectors`, on the task's data; None if every
        element is within its bound. Raises InvalidInput if the trace is of another state or program, and
        whatever `claimed.fetch` raises."""
        inputs = (vectors, *batch, scalars)
        different = self._compare(inputs, claimed.roots)
        if wrong := sorted(different)[:1]:
            if wrong[0] < len(INPUTS):
                return self._prove_input(wrong[0], claimed)
            return _Search(self, inputs, claimed, different).run()
        return None

    def get_own(self, buffer: int) -> Tensor:
        """Returns a buffer as the last computation left it, with its own or with claimed values."""
        return self.interpreter.tensors[buffer]

    def compute_own_root(self, buffer: int) -> bytes:
        """Returns the root of a buffer as `get_own` returns it."""
        return build_buffer_tree(self.program, self.get_own, buffer).root

    def _compare(self, inputs: Inputs, roots: Sequence[bytes]) -> frozenset[int]:
        """Returns the numbers of the buffers whose root differs from this machine's own. It fetches
        nothing."""
        if len(roots) != len(self.program.buffers):
            raise refuse_trace("a trace of another program", len(self.program.buffers), len(roots), "roots")
        different = set[int]()
        for number in self.interpreter.iterate(*inputs):
            due = [*range(len(INPUTS))] if number == 0 else []
            due += self.written.get(number, ())
            different |= {buffer for buffer in due if self.compute_own_root(buffer) != roots[buffer]}
        for buffer in range(len(STATE_INPUTS)):
            if buffer in different:
                raise refuse_trace(
                    "a trace from another state", "the start state's root", roots[buffer].hex(), buffer
                )
        return frozenset(different)

    def _prove_input(self, buffer: int, claimed: ClaimedTrace) -> InputFault:
        own, theirs = self.get_own(buffer), fetch_buffer(self.program, claimed.fetch, buffer)
        # Compare bits, so that a NaN equals itself.
        is_other = own.view(torch.int32) != theirs.view(torch.int32)
        element = int(is_other.nonzero()[0]) * 4 // own.element_size()
        trace = TraceTree(self.program, claimed.levels, lambda _: theirs, known=claimed.roots)
        return InputFault(buffer, element, open_buffer(trace, buffer, element, 1))


@dataclass(frozen=True)
class _LeafTrace(TraceTree):
    """A claimed trace that shows one leaf of one buffer; all other opened buffers are in memory."""

    shown: int
    leaf: ClaimedLeaf

    def open_run(self, buffer: int, first_element: int, count: int) -> tuple[bytes, list[bytes]]:
        """Opens a run as `TraceTree` does; of buffer `shown`, only the one leaf."""
        if buffer != self.shown:
            return super().open_run(buffer, first_element, count)
        return self.leaf.data, list(self.leaf.path)


@dataclass
class _Search:
    """The search of one claimed trace. `different` are the buffers whose root differs from this machine's
    own."""

    finder: FaultFinder
    inputs: Inputs
    claimed: ClaimedTrace
    different: frozenset[int]
    _has_parted: bool = field(init=False, default=False)
    """Whether the values in memory differ from this machine's own run."""
    _asked: set[int] = field(init=False, default_factory=set)
    """The buffers for which the claimant was already asked for a leaf."""
    _shows_leaves: bool = field(init=False, default=True)

    def __post_init__(self) -> None:
        self._program, self._fetch = self.finder.program, self.claimed.fetch

    def run(self) -> OperationFault | None:
        """Returns the fault that is found first, in the order at the top of this module."""
        first = min(self.finder.lifetimes[buffer].written for buffer in self.different)
        fault = self._look_through(range(first + 1))
        if fault is None:
            try:
                self._fetch = self.claimed.fetch_cut or self.claimed.fetch
                fault = self._search_layers()
            except (ProtocolFault, EnvironmentFault) as withheld:
                log.info("a search in layers ends: %s", withheld)
            finally:
                self._fetch = self.claimed.fetch
        return fault or self._look_through(range(len(self._program.nodes)))

    def _search_layers(self) -> OperationFault | None:
        layers = list_layers(self._program)
        waiting, rest, looks = list[tuple[float, Layer]](), [one for one in layers if one.is_cut], MOST_LAYERS
        while rest:
            suspect = None
            for layer, error in self._measure(rest):
                log.debug("node %d: error %.2e", layer.target, error)
                rest = [one for one in rest if one.target > layer.target]
                if not error <= NOISE and looks:
                    suspect = layer
                    break
                waiting.append((error, layer))
            if suspect is None:
                break
            looks -= 1
            if fault := self._look_through(suspect.nodes, suspect.cuts):
                return fault
        ends = sorted((one for one in layers if not one.is_cut), key=lambda one: one.price)
        cheap = CHEAP_SHARE * sum(4 * buffer.size for buffer in self._program.buffers)
        unexplained = [one for _, one in sorted(waiting, key=lambda pair: -pair[0])[:looks]]
        next_ones = [one for one in ends if one.price <= cheap] + unexplained
        next_ones += [one for one in ends if one.price > cheap]
        found = (self._look_through(layer.nodes, layer.cuts) for layer in next_ones)
        return next((fault for fault in found if fault), None)

    def _measure(self, layers: Sequence[Layer]) -> Iterator[tuple[Layer, float]]:
        """Measures the layers that end in cuts, in order: how far this machine's own cut lies from the
        claimed one. Later cuts are computed from the claimed values."""
        targets, held = {layer.target: layer for layer in layers}, dict[int, Tensor]()
        nodes, cuts = find_sources(layers)
        for number in self.finder.interpreter.iterate(*self.inputs, only=nodes):
            output = self._program.nodes[number].output
            if number in targets:
                if output.buffer not in held and not self._is_own(output.buffer):
                    held[output.buffer] = self._get_claimed(output.buffer)
                yield targets[number], self._compute_error(number, held)
            self._go_on_from_claimed(number, held, cuts)

    def _compute_error(self, number: int, held: Mapping[int, Tensor]) -> float:
        node = self._program.nodes[number]
        if node.output.buffer not in held:
            return 0.0
        place = (node.output.offset, node.output_sizes, node.output.strides)
        own, theirs = self.finder.get_own(node.output.buffer), held[node.output.buffer]
        return compute_error(look(own, *place), look(theirs, *place))

    def _look_through(
        self, nodes: Collection[int], cuts: frozenset[int] = frozenset()
    ) -> OperationFault | None:
        """Returns the first fault of these nodes. `cuts` are all tensors that these nodes read and other
        nodes compute."""
        held, last = dict[int, Tensor](), max(nodes)
        self._has_parted = bool(cuts)
        for number in self.finder.interpreter.iterate(*self.inputs, only=nodes):
            if number in nodes and (fault := self._inspect(number, held)):
                return fault
            self._go_on_from_claimed(number, held, cuts)
            if number == last:
                break
        return None

    def _inspect(self, number: int, held: dict[int, Tensor]) -> OperationFault | None:
        """Returns the fault of a node that was just computed. `held` gets the claimed tensor if it differs,
        or may differ, from this machine's own. A tensor with several writers is compared when it is whole."""
        buffer = self._program.nodes[number].output.buffer
        if buffer not in held:
            if self._is_own(buffer) if self._has_parted else buffer not in self.different:
                return None
            if fault := self._inspect_leaf(number):
                return fault
            held[buffer] = self._get_claimed(buffer)
        return self._judge(number, held)

    def _inspect_leaf(self, number: int) -> OperationFault | None:
        """Returns the fault of a node that has the same bits on all honest machines, in the first leaf that
        differs. Puts the claimed leaf into this machine's own tensor. Returns None if the leaf proves
        nothing, or is not shown. Asks once for a leaf of each buffer, and not again after the claimant failed
        to show one."""
        node, try_leaf = self._program.nodes[number], self.claimed.try_leaf
        buffer = node.output.buffer
        may_differ = node.operation in ROUNDED_FREELY or self.finder.writers[buffer] > 1
        if try_leaf is None or may_differ or buffer in self._asked or not self._shows_leaves:
            return None
        self._asked.add(buffer)
        try:
            leaf = try_leaf(buffer, build_buffer_tree(self._program, self.finder.get_own, buffer))
        except (ProtocolFault, EnvironmentFault) as withheld:
            log.info("a leaf of buffer %d is not shown: %s", buffer, withheld)
            self._shows_leaves = False
            return None
        own, first = self.finder.get_own(buffer), leaf.index * leaf_elements(self._program, buffer)
        place = own[first : first + len(leaf.data) // own.element_size()]
        kept = place.clone()
        place.copy_(torch.frombuffer(bytearray(leaf.data), dtype=own.dtype)[: len(kept)])
        try:
            return self._judge(number, {buffer: own}, leaf)
        finally:
            place.copy_(kept)

    def _is_own(self, buffer: int) -> bool:
        """Returns whether the values that were just computed have the claimed root."""
        is_whole = self.finder.writers[buffer] == 1
        return is_whole and self.finder.compute_own_root(buffer) == self.claimed.roots[buffer]

    def _go_on_from_claimed(self, number: int, held: dict[int, Tensor], cuts: frozenset[int]) -> None:
        """Puts claimed tensors in place of this machine's own ones that node `number` has completed."""
        for buffer in self.finder.written.get(number, ()):
            theirs = held.pop(buffer, None)
            if theirs is None and buffer in cuts:
                theirs = self._get_claimed(buffer)
            if theirs is not None:
                self.finder.interpreter.memory[buffer].copy_(theirs)
                self._has_parted = True

    def _get_claimed(self, buffer: int) -> Tensor:
        return fetch_buffer(self._program, self._fetch, buffer)

    def _judge(
        self, number: int, held: Mapping[int, Tensor], leaf: ClaimedLeaf | None = None
    ) -> OperationFault | None:
        """Returns the fault of a node that was just computed, judged by what the claimant says that it read
        and wrote. `leaf` is given if only this leaf of the output is the claimant's."""

        def get(buffer: int) -> Tensor:
            """Returns a buffer with its claimed values."""
            return held[buffer] if buffer in held else self.finder.get_own(buffer)

        def view(access: Access, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
            """Returns the tensor of an access."""
            return look(get(access.buffer), access.offset, sizes, strides)

        seen = check_node(self._program.nodes[number], view)
        return self._prove(number, seen.element, get, leaf) if seen.outside else None

    def _prove(
        self, number: int, element: int, get: Provider, leaf: ClaimedLeaf | None
    ) -> OperationFault | None:
        def provide(buffer: int) -> Tensor:
            """Returns the claimed buffer. It is fetched if later nodes still write to it."""
            life = self.finder.lifetimes.get(buffer)
            return get(buffer) if life is None or life.written <= number else self._get_claimed(buffer)

        levels, roots = self.claimed.levels, self.claimed.roots
        if leaf is None:
            return prove_operation(TraceTree(self._program, levels, provide, known=roots), number, element)
        output = self._program.nodes[number].output
        place = locate(output, unravel(element, self._program.nodes[number].output_sizes))
        if place // leaf_elements(self._program, output.buffer) != leaf.index:
            return None
        trace = _LeafTrace(self._program, levels, provide, output.buffer, leaf, known=roots)
        return prove_operation(trace, number, element)


def compute_error(own: Tensor, claimed: Tensor) -> float:
    """Returns the largest |own - claimed| / (|claimed| + mean of |claimed|) of two float32 tensors of one
    shape; infinite if a number is not finite. It works in pieces, to save memory."""
    own, claimed = own.reshape(-1), claimed.reshape(-1)
    pieces = [slice(start, start + TILE_ELEMENTS) for start in range(0, claimed.numel(), TILE_ELEMENTS)]
    total = sum((float(claimed[piece].double().abs().sum()) for piece in pieces), 0.0)
    mean, worst = max(total / claimed.numel(), LEAST_NORMAL), 0.0
    for piece in pieces:
        theirs = claimed[piece].double()
        largest = float(((own[piece].double() - theirs).abs() / (theirs.abs() + mean)).max())
        if not largest <= worst:
            worst = largest if isfinite(largest) else inf
    return worst
