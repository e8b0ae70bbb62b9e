"""How far does each element of a step's trace move the step's results? A reverse pass over a program.

Given a linear functional of some buffers (a weight, a direction in the new weights, a gradient at them), its
derivative with respect to every element of every tensor, all later nodes being computed honestly. It is made
of the program's own loops: an operand's slope times the output's derivative is summed over the loops in which
the operand stands still, and added where it lies. (Autograd through strided views is not used: it gave wrong
derivatives.)
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod

import torch
from torch import Tensor

from protocol.compute.model.reference_step import StepResult
from protocol.compute.program.contiguous import MakeView, fold, look
from protocol.compute.program.kernels import Kernel, make_kernel
from protocol.compute.program.task_program import BuiltProgram
from protocol.spec.program import INDEX_ROLES, Access, Node, Operation, Program, Role

TRACE = frozenset({Role.TENSOR})
"""What a claimant can bend: inputs and constants are known to everybody."""
SCRATCH = -1
GRADIENT = -2
"""Buffers that only the contractions of the reverse pass have: their result, and the output's derivatives."""


class Tape:
    """All buffers of one step, each in memory of its own, and a kernel for each node over them."""

    def __init__(self, built: BuiltProgram, dtype: torch.dtype = torch.float32) -> None:
        """dtype: of everything but indices; float64 in tests of derivatives."""
        # Copies have no room: who trains reads what was copied, and so does this, for the same bits.
        self.program, self.dtype = fold(built.program, keeps_copies=True), dtype
        self.buffers: dict[int, Tensor] = {}
        for number, buffer in enumerate(built.program.buffers):
            kind = torch.int64 if buffer.role in INDEX_ROLES else dtype
            self.buffers[number] = torch.zeros(buffer.size, dtype=kind)
        for number, values in built.constants.items():
            self.buffers[number].copy_(values)
        self._kernels = [make_kernel(node, self.view) for node in self.program.nodes]

    def view(self, access: Access, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
        """Elements of a buffer over loops; a first size of -1: as many as there are."""
        return look(self.buffers[access.buffer], access.offset, sizes, strides)

    def load(self, vectors: Sequence[Tensor], tokens_BT: Tensor, labels_BT: Tensor, scalars: Tensor) -> None:
        """The step's inputs: W, m, v flat; tokens and labels int64; scalars [3]."""
        roles = (Role.WEIGHTS, Role.FIRST_MOMENT, Role.SECOND_MOMENT, Role.TOKENS, Role.LABELS, Role.SCALARS)
        given = dict(zip(roles, (*vectors, tokens_BT, labels_BT, scalars), strict=True))
        for number, buffer in enumerate(self.program.buffers):
            if buffer.role in given:
                self.buffers[number].copy_(given[buffer.role].reshape(-1))

    def run(self, start: int = 0, stop: int | None = None) -> None:
        """The honest kernels of these nodes (all by default)."""
        for kernel in self._kernels[start:stop]:
            kernel()

    def read_results(self) -> StepResult:
        """Copies of the new W, m, v and the loss, as they stand."""
        names = self.program.outputs
        buffers = (names.weights, names.first_moment, names.second_moment, names.loss)
        weights, first, second, loss = (self.buffers[number].clone() for number in buffers)
        return StepResult(weights, first, second, loss.view(()))


class Adjoints:
    """Derivatives of one functional with respect to all elements of a tape; `values`: flat, by buffer."""

    def __init__(self, tape: Tape, roles: frozenset[Role] = TRACE) -> None:
        """roles: of the buffers whose derivatives are wanted; without TENSOR there are none."""
        self.tape = tape
        self.values = {
            number: torch.zeros(buffer.size, dtype=tape.dtype)
            for number, buffer in enumerate(tape.program.buffers)
            if buffer.role in roles
        }
        largest = max(self.tape.program.buffers[number].size for number in self.values)
        self._scratch = torch.zeros(largest, dtype=tape.dtype)
        self._pulls = [pull for node in reversed(tape.program.nodes) for pull in self._make_pulls(node)]

    def compute(self, seeds: Mapping[int, Tensor]) -> None:
        """Fill `values`. seeds: the functional's coefficients, flat by buffer (of outputs, or of any tensor,
        whose elements are then taken as results too). The tape must hold the trace."""
        for values in self.values.values():
            values.zero_()
        for buffer, seed in seeds.items():
            self.values[buffer].add_(seed)
        for pull in self._pulls:
            pull()

    def _make_pulls(self, node: Node) -> list[Kernel]:
        """For each operand whose derivatives are wanted: add this node's share to them."""
        pulls = []
        for place, operand in enumerate(node.operands):
            if operand.buffer in self.values:
                make = _MAKERS.get(node.operation, _make_elementwise)
                pull = make(_Pull(self, node, place))
                if pull is not None:
                    pulls.append(pull)
        return pulls


class _Pull:
    """One operand of one node: what it was computed from and where its derivatives go."""

    def __init__(self, adjoints: Adjoints, node: Node, place: int) -> None:
        self.node, self.place, self.access = node, place, node.operands[place]
        self.tape, self.flat = adjoints.tape, adjoints.values[self.access.buffer]
        self.scratch, self.gradients = adjoints._scratch, adjoints.values[node.output.buffer]
        self.kept = [n for n, stride in enumerate(self.access.strides) if stride]
        self.still = [n for n, stride in enumerate(self.access.strides) if not stride]

    @property
    def gradient(self) -> Tensor:
        """Derivatives of the output, over its loops."""
        output = self.node.output
        return look(self.gradients, output.offset, self.node.output_sizes, output.strides)

    @property
    def target(self) -> Tensor:
        """Where the operand's derivatives lie, over the loops that move it."""
        sizes = [self.node.sizes[n] for n in self.kept]
        return look(self.flat, self.access.offset, sizes, [self.access.strides[n] for n in self.kept])

    def operand(self, place: int) -> Tensor:
        """An operand over all loops."""
        access = self.node.operands[place]
        return self.tape.view(access, self.node.sizes, access.strides)

    def spread(self, values: Tensor) -> Tensor:
        """Values over the output's loops, repeated over the reduced ones."""
        shape = (*self.node.output_sizes, *([1] * self.node.reduced))
        return values.reshape(shape).expand(self.node.sizes)

    def add(self, target: Tensor, contribution: Tensor) -> None:
        """Add a contribution over all loops, summed over those in which the operand stands still."""
        target.add_(contribution.sum(self.still) if self.still else contribution)

    @property
    def view(self) -> MakeView:
        """Buffers of the tape and the two of the reverse pass."""
        own = {SCRATCH: self.scratch, GRADIENT: self.gradients}

        def view(access: Access, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
            if access.buffer in own:
                return look(own[access.buffer], access.offset, sizes, strides)
            return self.tape.view(access, sizes, strides)

        return view


# --- Elementwise --------------------------------------------------------------------------------------------
Rule = Callable[[Tensor, Sequence[Tensor], Tensor], Tensor]
"""From the output's derivatives, the operands and the output to one operand's derivatives."""


def _safe(gradient: Tensor, slope: Tensor) -> Tensor:
    """Their product; 0 where the slope is not finite (a root of zero): what leads there has no slope."""
    return gradient * torch.where(slope.isfinite(), slope, 0.0)


_RULES: dict[Operation, dict[int, Rule]] = {
    Operation.ADD: {0: lambda g, x, y: g, 1: lambda g, x, y: g},
    Operation.SUBTRACT: {0: lambda g, x, y: g, 1: lambda g, x, y: -g},
    Operation.MULTIPLY: {0: lambda g, x, y: g * x[1], 1: lambda g, x, y: g * x[0]},
    Operation.DIVIDE: {0: lambda g, x, y: g / x[1], 1: lambda g, x, y: -g * y / x[1]},
    Operation.MAXIMUM: {0: lambda g, x, y: g * (x[0] >= x[1]), 1: lambda g, x, y: g * (x[0] < x[1])},
    Operation.MINIMUM: {0: lambda g, x, y: g * (x[0] <= x[1]), 1: lambda g, x, y: g * (x[0] > x[1])},
    Operation.SQUARE_ROOT: {0: lambda g, x, y: _safe(g, 0.5 / y)},
    Operation.RECIPROCAL_ROOT: {0: lambda g, x, y: g * (-0.5 * y * y * y)},
    Operation.EXPONENTIAL: {0: lambda g, x, y: g * y},
    Operation.LOGARITHM: {0: lambda g, x, y: g / x[0]},
    Operation.SIGMOID: {0: lambda g, x, y: g * y * (1 - y)},
    Operation.FLUSH: {0: lambda g, x, y: g * (x[0].abs() >= x[1])},
    Operation.FINITE_SELECT: {
        1: lambda g, x, y: g * x[0].isfinite(),
        2: lambda g, x, y: g * ~x[0].isfinite(),
    },
    Operation.COPY: {0: lambda g, x, y: g},
}


def _make_elementwise(pull: _Pull) -> Kernel | None:
    rule = _RULES[pull.node.operation].get(pull.place)
    if rule is None:
        return None
    operands = [pull.operand(place) for place in range(len(pull.node.operands))]
    gradient, target = pull.gradient, pull.target
    output = pull.tape.view(pull.node.output, pull.node.output_sizes, pull.node.output.strides)
    return lambda: pull.add(target, rule(gradient, operands, output))


# --- Indexed ------------------------------------------------------------------------------------------------
def _make_gather(pull: _Pull) -> Kernel:
    places = torch.tensor(pull.access.offset)
    for size, stride in zip(pull.node.sizes, pull.access.strides, strict=True):
        places = places.unsqueeze(-1) + torch.arange(size) * stride
    indices, gradient = pull.operand(0), pull.gradient

    def run() -> None:
        read = places + indices * pull.node.selected
        pull.flat.index_add_(0, read.flatten(), gradient.flatten())

    return run


def _make_equal_select(pull: _Pull) -> Kernel:
    loop, indices = pull.node.selected, pull.operand(0)
    shape = [-1 if n == loop else 1 for n in range(indices.dim())]
    numbers = torch.arange(pull.node.sizes[loop]).view(shape)
    gradient, target = pull.gradient, pull.target
    is_yes = pull.place == 1
    return lambda: pull.add(target, gradient * ((indices == numbers) == is_yes))


def _make_selected_sum(pull: _Pull) -> Kernel:
    """Each term's derivative is that of the row which its index names."""
    loop = pull.node.selected
    if pull.node.operands[0].strides[loop] or pull.access.strides[loop]:
        raise ValueError(f"terms that vary along the compared loop {loop}")
    indices = pull.operand(0).narrow(loop, 0, 1)
    spread, target = pull.spread(pull.gradient), pull.target
    return lambda: pull.add(target, spread.gather(loop, indices))


# --- Reductions ---------------------------------------------------------------------------------------------
def _make_sum(pull: _Pull) -> Kernel:
    spread, target = pull.spread(pull.gradient), pull.target
    return lambda: pull.add(target, spread)


def _make_maximum_of(pull: _Pull) -> Kernel:
    """To the first of the largest."""
    values, target, gradient = pull.operand(0), pull.target, pull.gradient
    shape = pull.node.output_sizes

    def run() -> None:
        flat = values.reshape(*shape, -1)
        contribution = torch.zeros_like(flat)
        contribution.scatter_(-1, flat.argmax(-1, keepdim=True), gradient.unsqueeze(-1))
        pull.add(target, contribution.view(pull.node.sizes))

    return run


def _make_product_sum(pull: _Pull) -> Kernel:
    """Output's derivatives times the other factor, summed over the loops in which this one stands still: a
    product sum with its loops in another order."""
    node, target = pull.node, pull.target
    other = node.operands[1 - pull.place]
    if not pull.still:
        spread, values = pull.spread(pull.gradient), pull.operand(1 - pull.place)
        return lambda: target.add_(spread * values)
    order = [*pull.kept, *pull.still]
    sizes = tuple(node.sizes[n] for n in order)
    moved = (*node.output.strides, *([0] * node.reduced))
    kept = sizes[: len(pull.kept)]
    result = Access(SCRATCH, 0, tuple(prod(kept[n + 1 :]) for n in range(len(kept))))
    gradient = Access(GRADIENT, node.output.offset, tuple(moved[n] for n in order))
    factor = Access(other.buffer, other.offset, tuple(other.strides[n] for n in order))
    turned = Node(Operation.PRODUCT_SUM, sizes, len(pull.still), result, (gradient, factor))
    kernel = make_kernel(turned, pull.view)
    share = look(pull.scratch, 0, kept, result.strides)

    def run() -> None:
        kernel()
        target.add_(share)

    return run


_MAKERS: dict[Operation, Callable[[_Pull], Kernel | None]] = {
    Operation.GATHER: _make_gather,
    Operation.EQUAL_SELECT: _make_equal_select,
    Operation.SELECTED_SUM: _make_selected_sum,
    Operation.SUM: _make_sum,
    Operation.MAXIMUM_OF: _make_maximum_of,
    Operation.PRODUCT_SUM: _make_product_sum,
}


def find_gradient(program: Program) -> int:
    """The buffer of the whole gradient: as long as the weights, and its square is summed."""
    size = program.buffers[program.outputs.weights].size
    for node in program.nodes:
        if node.operation is Operation.PRODUCT_SUM:
            first, second = (operand.buffer for operand in node.operands)
            if first == second and program.buffers[first].size == size:
                return first
    raise ValueError("no node sums the square of the gradient")
