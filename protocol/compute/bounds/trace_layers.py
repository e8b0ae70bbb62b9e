"""Cuts a program into layers, so that a challenger computes a claimed step piece by piece.

A cut is a tensor that a challenger fetches whole. From the cuts, the state before the step and the constants
it computes everything else. A layer is all the nodes that the next cut follows from, back to earlier cuts.

    cuts, state --> nodes of a layer --> own values of the next cut, compared with the claimed ones

Honest machines differ only in the results of some operations: sums, and functions that are not correctly
rounded (docs/spec.md, section 9). Every other tensor follows bit by bit from its operands, and its root shows
if it equals the claimant's. So to check each node of a layer, only the results of those operations are
fetched; their bytes are the layer's price.

The cuts are chosen from the program alone, whatever its model. A walk over the nodes places a cut where a
node follows from more than a layer may cost. A backward layer follows from what its forward layer computed.
That is computed again from the cut before it, as in training with checkpoints (Chen et al., 2016).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from touchstone.protocol.compute.program.planning.copy_folding import find_foldable
from touchstone.protocol.compute.program.planning.lifetimes import compute_lifetimes
from touchstone.protocol.spec.program import ELEMENT_BYTES, Program
from touchstone.protocol.spec.program_operations import Operation

ROUNDED_FREELY = frozenset({
    Operation.PRODUCT_SUM, Operation.SUM, Operation.SELECTED_SUM, Operation.RECIPROCAL_ROOT,
    Operation.EXPONENTIAL, Operation.LOGARITHM, Operation.SIGMOID,
})  # fmt: skip
"""Operations whose results may differ on honest machines with equal operands."""
PRICE_SHARES = (1 / 16, 1 / 24, 1 / 32, 1 / 48, 1 / 64)
"""Candidates for what a layer may cost, as shares of a trace's bytes. The share is taken for which all cuts
and the dearest layer together have the fewest bytes."""
LEAST_SAVED = 0.5
"""A tensor that saves less than this share of a layer's allowed cost does not become a cut."""
MOST_STEPS = 1 << 25
"""The most steps of a search for cuts from node to node. A decoder of 40 layers needs a million. A program
that needs more gets no more cuts; its layers are dear, but still searched."""


@dataclass(frozen=True)
class Layer:
    """The nodes that one target follows from. `target` is a node that writes to a cut, or to a tensor that no
    node reads. `price` is in bytes. `is_cut` says whether the target's tensor is a cut."""

    target: int
    price: int
    is_cut: bool
    paths: "_Paths" = field(repr=False)

    @property
    def nodes(self) -> frozenset[int]:
        """Returns the target and all nodes that it follows from, back to the cuts. It is computed each time,
        because all layers of a long program together may not fit into memory."""
        return frozenset(self.paths.go_back([self.target]))

    @property
    def cuts(self) -> frozenset[int]:
        """Returns the cuts that these nodes read, computed each time."""
        return frozenset(self.paths.list_read(self.nodes))


def find_sources(layers: Sequence[Layer]) -> tuple[frozenset[int], frozenset[int]]:
    """Returns the nodes of all these layers of a program, and the cuts that they read."""
    if not layers:
        return frozenset(), frozenset()
    paths = layers[0].paths
    nodes = frozenset(paths.go_back([layer.target for layer in layers]))
    return nodes, frozenset(paths.list_read(nodes))


def list_layers(program: Program) -> list[Layer]:
    """Returns the layers in the order of their targets. Every node is in at least one."""
    trace_bytes = sum(ELEMENT_BYTES[buffer.role] * buffer.size for buffer in program.buffers)
    choices = (_cut(program, share * trace_bytes) for share in PRICE_SHARES)
    return min(choices, key=lambda layers: _measure_worst(program, layers))


def _measure_worst(program: Program, layers: Sequence[Layer]) -> int:
    """Returns the bytes of all cuts and the most expensive layer together."""
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
    """The ways from nodes back to the cuts. More cuts may be added."""

    def __init__(self, program: Program, cuts: set[int]) -> None:
        self.program, self.cuts = program, cuts
        self._writers: dict[int, list[int]] = {}
        for number, node in enumerate(program.nodes):
            self._writers.setdefault(node.output.buffer, []).append(number)

    def list_read(self, nodes: Iterable[int]) -> set[int]:
        """Returns the cuts that these nodes read."""
        read = (access.buffer for one in nodes for access in self.program.nodes[one].operands)
        return self.cuts.intersection(read)

    def go_back(self, targets: Sequence[int]) -> set[int]:
        """Returns the nodes that these nodes follow from, including themselves."""
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
    """For each node, the priced nodes that it follows from, back to the cuts, as bits of an integer, with
    their sum. Nodes are added in order; entries that no later node reads are forgotten."""

    def __init__(self, program: Program, cuts: set[int], readers: Sequence[Sequence[int]]) -> None:
        self._program, self._cuts, self._readers = program, cuts, readers
        prices = _list_prices(program)
        self._places = {number: place for place, number in enumerate(n for n, p in enumerate(prices) if p)}
        self._prices = np.array([prices[number] for number in self._places], dtype=np.int64)
        self._written: dict[int, tuple[int, int]] = {}

    def add(self, number: int) -> int:
        """Adds node `number`, and returns the bytes that it follows from, itself included."""
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
        """Returns the joined bits of two entries, and their price."""
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
    """The choice of cuts for layers of at most `limit` bytes, if tensors save enough."""

    def __init__(self, program: Program, limit: float) -> None:
        self._program, self._limit, self._steps = program, limit, 0
        self._prices, self.readers = _list_prices(program), _list_readers(program)
        lifetimes, copied = compute_lifetimes(program), find_foldable(program)
        self._candidates = {
            buffer
            for buffer, life in lifetimes.items()
            if buffer not in copied and self.readers[buffer] and self.readers[buffer][0] > life.written
        }
        """Tensors that are complete before any node reads them. No copies, because kernels read the
        original."""

    def choose(self) -> set[int]:
        """Returns the buffers that become cuts."""
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
        """Returns the smallest tensor whose cut saves enough of what node `last` follows from; of equal ones,
        the one that saves most; None if there is none."""
        least, sizes = LEAST_SAVED * self._limit, self._program.buffers
        saved = self._list_saved(sorted(paths.go_back([last])))
        enough = [(sizes[b].size, -bytes_, b) for b, bytes_ in saved.items() if bytes_ >= least]
        return min(enough)[2] if enough else None

    def _list_saved(self, nodes: Sequence[int]) -> dict[int, int]:
        """Returns, for each tensor, the bytes that lead to the last of `nodes` through that tensor alone.
        They lie below it in the tree of post-dominators (Cooper, Harvey and Kennedy, A Simple, Fast Dominance
        Algorithm, 2001). A program has no cycles, so one walk backwards builds the tree, where -2 - buffer
        stands for a tensor. Returns nothing if it takes too many steps."""
        last = nodes[-1]
        above, depth = {last: -1}, {last: 0}
        saved: dict[int, int] = {last: 0}
        self._steps += len(nodes)

        def join(one: int, other: int) -> int:
            """Returns the lowest ancestor of both; it may be one of them."""
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
    """Returns, for each buffer, the numbers of the nodes that read it, in order."""
    readers: list[list[int]] = [[] for _ in program.buffers]
    for number, node in enumerate(program.nodes):
        for access in node.operands:
            readers[access.buffer].append(number)
    return readers
