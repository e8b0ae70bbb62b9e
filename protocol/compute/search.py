"""Finding where a claimed step went wrong, without looking at all of it.

Halving over the order of nodes: the nodes of the first half are recomputed *from the claimant's own tensors*
at the start of the interval and compared with the claimant's where the half ends. Whoever compares with a run
of its own from the beginning is misled: float noise grows on the way, and a deviation may shrink again behind
a softmax. What is left at the end, a few nodes, is judged exactly (`check.py`).

The comparison is by size, since honest machines differ: an error near its bound in one element of an
elementwise operation stays below it, and only a check of every node finds that. So nothing found here acquits
nobody.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from protocol.compute.check import Provider, TraceChecker, TraceReport
from protocol.compute.kernels import make_kernel
from protocol.compute.memory import compute_lifetimes
from protocol.compute.suspects import TILE_ELEMENTS
from protocol.compute.views import look
from protocol.spec.program import Access, Node, Program, Role

MEDIAN_SAMPLES = 1 << 12
FEW_NODES = 8
"""Nodes that are checked at once at the end."""
NOISE = 2.0**-10
"""Largest |own - claimed| / (|claimed| + its tensor's median magnitude) that counts as float noise: eight
times the largest seen where half a step was recomputed on other kernels (docs/decisions/0010-program.md)."""


class TraceSearch:
    """Searches traces of one program."""

    def __init__(
        self, program: Program, constants: Mapping[int, Tensor], numeric_format: str = "float32"
    ) -> None:
        self.program = program
        self._constants = constants
        self._checker = TraceChecker(program, numeric_format)
        self._format = numeric_format
        self._lifetimes = compute_lifetimes(program)

    def search(self, get: Provider) -> TraceReport:
        """The exact judgement of the few nodes to which halving leads. `get` gives the claimant's tensors by
        buffer, flat; what is not asked for need not be fetched. About one step of computing."""
        low, high = 0, len(self.program.nodes)
        while high - low > FEW_NODES:
            middle = (low + high) // 2
            if self._deviates(get, range(low, middle)):
                high = middle
            else:
                low = middle
        return self._checker.check(get, range(low, high))

    def _deviates(self, get: Provider, nodes: range) -> bool:
        """Whether what these nodes make of the claimant's tensors differs from what the claimant says they
        made, where anybody reads it later."""
        own = self._recompute(get, nodes)
        return any(is_beyond_noise(tensor, get(buffer)) for buffer, tensor in own.items())

    def _recompute(self, get: Provider, nodes: range) -> dict[int, Tensor]:
        """Own values of the tensors that the nodes write and later ones, or nobody but the result, read."""
        tensors: dict[int, Tensor] = {}
        written: set[int] = set()

        def view(access: Access, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
            return look(tensors[access.buffer], access.offset, sizes, strides)

        for number in nodes:
            node = self.program.nodes[number]
            for access in node.operands:
                if access.buffer not in tensors:
                    tensors[access.buffer] = self._get(get, access.buffer)
            output = node.output.buffer
            if output not in written:
                tensors[output] = self._begin(get, node)
                written.add(output)
            make_kernel(node, view, self._format)()
            for access in (*node.operands, node.output):
                life = self._lifetimes.get(access.buffer)
                if life is not None and life.last == number:
                    tensors.pop(access.buffer, None)
        return {buffer: tensors[buffer] for buffer in written if self._lifetimes[buffer].last >= nodes.stop}

    def _begin(self, get: Provider, node: Node) -> Tensor:
        """What a node writes to. Pieces that earlier nodes wrote are the claimant's."""
        buffer = node.output.buffer
        if node.elements == self.program.buffers[buffer].size:
            return torch.empty(node.elements)
        return self._get(get, buffer).clone()

    def _get(self, get: Provider, buffer: int) -> Tensor:
        if self.program.buffers[buffer].role is Role.CONSTANT:
            return self._constants[buffer]
        return get(buffer)


def is_beyond_noise(own: Tensor, claimed: Tensor) -> bool:
    """Element by element: a norm would not see one element among millions. Piece by piece, to stay in the
    processor's cache."""
    median = claimed[:: max(1, claimed.numel() // MEDIAN_SAMPLES)].abs().median()
    pieces = zip(torch.split(own, TILE_ELEMENTS), torch.split(claimed, TILE_ELEMENTS), strict=True)
    return any(_deviates(*piece, median) for piece in pieces)


def _deviates(own: Tensor, claimed: Tensor, median: Tensor) -> bool:
    allowed = claimed.abs().add_(median).mul_(NOISE)
    excess = (own - claimed).abs_().sub_(allowed)
    # Not (excess <= 0), so that a NaN deviates. One largest element is found faster than all are compared.
    return not float(excess.max()) <= 0
