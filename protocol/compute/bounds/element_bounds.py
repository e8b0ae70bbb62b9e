"""Bounds of elementwise operations, and the frame in which all bounds judge: a claim and its suspects.

A node's claim and its suspects: the frame in which `check.py` judges, and verdicts on single elements. A
first pass notes the ratios of all elements; those above 1 become suspects. The second gathers each suspect's
terms and follows docs/spec.md, section 9, to the letter. Ratios are |claimed - exact| / bound, float64.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf, nan

import torch
from torch import Tensor

from touchstone.protocol.compute.program.layout import NodeViews
from touchstone.protocol.compute.program.tensor_allocator import relax
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.program import Access, Operation
from touchstone.protocol.spec.referee import SAFE, ULPS, UNDERFLOW, NumericFormat

# --- A claim and its suspects -------------------------------------------------------------------------------
LEAST_NORMAL = 2.0**-126
SAFELY_FINITE = float(SAFE)
LOST_PER_TERM = float(UNDERFLOW)
UNIT = 2.0**-24
UNIT_WIDE = 2.0**-53
"""Unit roundoff of float32, and of the float64 that this module computes in."""
MARGIN = 1 + 2.0**-20
"""Covers the roundings of a bound that is itself computed in float32: a handful, 2^-24 each."""
MARGIN_WIDE = 1 + 2.0**-40
"""The same in float64."""
TILE_ELEMENTS = 1 << 15
"""Elementwise nodes are compared piece by piece, to stay in the processor's cache."""


Name = Callable[[Tensor], Tensor]
"""From flat positions in a tile to element numbers of the node's output."""


@dataclass
class Claim(NodeViews):
    """A node and views of what the claimant says that it read and wrote."""

    format: NumericFormat
    worst: float = 0.0
    worst_tile: tuple[Tensor, Name] | None = None
    """The ratios among which the worst stands."""
    suspects: list[Tensor] = field(default_factory=list)

    def tiles(self) -> Iterator[tuple[int, list[Tensor], Tensor]]:
        """Cut along the first loop: number of the first element, operands, claimed output."""
        views = [self.output, *map(self.operand, range(len(self.node.operands)))]
        if not self.node.output_sizes:
            views = [view.unsqueeze(0) for view in views]
        total = views[0].shape[0]
        inner = self.node.elements // total
        length = max(1, TILE_ELEMENTS // (inner * self.node.terms))
        for start in range(0, total, length):
            claimed, *operands = (view[start : start + length] for view in views)
            relax()
            yield start * inner, operands, claimed

    def note(self, ratios: Tensor, name: Name) -> None:
        """Keep the largest ratio (of either sign); those above 1, or not a number, become suspects."""
        most = largest(ratios)
        if not most <= 1:
            is_clear = ratios.abs() <= 1
            self.suspects.append(name((~is_clear).flatten().nonzero().flatten()))
            ratios = torch.where(is_clear, ratios, 0.0)
            most = largest(ratios)
        if most > self.worst:
            self.worst, self.worst_tile = most, (ratios, name)

    @property
    def element(self) -> int:
        """Number of the worst element that is clear, 0 where all are exact."""
        if self.worst_tile is None:
            return 0
        ratios, name = self.worst_tile
        return int(name(ratios.abs().flatten().argmax()))

    def compare(self, exact: Tensor, claimed: Tensor, start: int) -> None:
        """Whatever is not the exact value becomes a suspect. start: number of the first element. (Two numbers
        are equal if and only if their difference is zero; torch.equal is three times slower.)"""
        if largest(exact - claimed) != 0:
            self.suspects.append((exact != claimed).flatten().nonzero().flatten() + start)


def counting_from(start: int) -> Name:
    """Names for a tile whose elements follow each other from number `start`."""
    return lambda positions: positions + start


Places = tuple[Tensor, ...]
"""Some output elements: one tensor of indices for each output loop."""


def unravel(numbers: Tensor, sizes: Sequence[int]) -> Places:
    """Loop indices of element numbers (int64), the last loop running fastest."""
    places = []
    for size in reversed(sizes):
        places.append(numbers % size)
        numbers = numbers // size
    return tuple(reversed(places))


def take(values: Tensor, places: Places) -> Tensor:
    """Elements of a view over the output's loops, as float64 [elements]."""
    return (values[places] if places else values.unsqueeze(0)).double()


def take_terms(values: Tensor, places: Places) -> Tensor:
    """Their terms, of a view over all loops, as float64 [elements, terms]."""
    taken = values[places] if places else values.unsqueeze(0)
    return taken.reshape(taken.shape[0], -1).double()


# --- Verdicts on suspects -----------------------------------------------------------------------------------
def judge(claimed: Tensor, exact: Tensor, bound: Tensor, magnitude: Tensor) -> Tensor:
    """Ratios. magnitude: what must be below 2^127 for the claim to be faulted for not being finite."""
    difference = (claimed - exact).abs()
    ratios = torch.where(difference == 0, 0.0, difference / bound)
    lost = torch.where(magnitude < SAFELY_FINITE, inf, 0.0)
    return torch.where(claimed.isfinite(), ratios, lost)


def judge_choice(claimed: Tensor, accepted: Sequence[Tensor], magnitude: Tensor) -> Tensor:
    """Zero where the claim is one of the accepted values, else infinite."""
    is_accepted = torch.stack([claimed == value for value in accepted]).any(0)
    is_excused = ~claimed.isfinite() & ~(magnitude < SAFELY_FINITE)
    return torch.where(is_accepted | is_excused, 0.0, inf)


def excuse(ratios: Tensor, *operands: Tensor) -> Tensor:
    """No fault where an operand that matters is not finite."""
    for operand in operands:
        is_finite = operand.isfinite()
        ratios = torch.where(is_finite if operand.dim() == 1 else is_finite.all(1), ratios, 0.0)
    return ratios


def largest(values: Tensor) -> float:
    """The largest magnitude, in one pass; not a number if any is not."""
    low, high = values.aminmax()
    return float(torch.maximum(high, -low))


def flush(values: Tensor) -> Tensor:
    """Subnormals become zero."""
    return torch.where(values.abs() < LEAST_NORMAL, 0.0, values)


def gamma(terms: int, unit: float) -> float:
    """n u / (1 - n u) (Higham, 2nd ed., lemma 3.1)."""
    return terms * unit / (1 - terms * unit)


def require_index(index: Tensor, size: int) -> None:
    """Raises InvalidInput unless all of `index` lies in 0 .. size - 1."""
    index = index[tuple(slice(None if stride else 1) for stride in index.stride())]
    low, high = (int(x) for x in index.aminmax())
    if low < 0 or high >= size:
        raise InvalidInput(
            what="an index lies outside its table",
            expected=f"0 to {size - 1}",
            actual=(low, high),
            remedy="Check tokens and labels against the task's vocabulary first.",
        )


Check = tuple[Callable[[Claim], None], Callable[[Claim, Places], Tensor]]
"""The first pass over a node, and the verdict on some of its elements (float64 ratios)."""


# --- Elementwise operations ---------------------------------------------------------------------------------
# --- One correctly rounded operation ------------------------------------------------------------------------
def _compute_root(a: Tensor) -> Tensor:
    """Correctly rounded, for float64 has more than twice the digits (Figueroa, 1995); torch's own is not."""
    return a.double().sqrt().to(a.dtype)


_ROUNDED: dict[Operation, Callable[..., Tensor]] = {
    Operation.ADD: torch.add,
    Operation.SUBTRACT: torch.sub,
    Operation.MULTIPLY: torch.mul,
    Operation.DIVIDE: torch.div,
    Operation.SQUARE_ROOT: _compute_root,
}


def _check_rounded(claim: Claim) -> None:
    """IEEE float32 gives the one right value; whatever differs is a suspect."""
    function = _ROUNDED[claim.node.operation]
    for start, operands, claimed in claim.tiles():
        claim.compare(function(*operands), claimed, start)


def _judge_rounded(claim: Claim, places: Places) -> Tensor:
    """RN of the operation, on the operands or with their subnormals flushed, or zero where the unrounded
    magnitude is below T. float64 is exact for products and for sums that small, and rounding to it first does
    no harm to the others (Figueroa, 1995)."""
    operands = [take(claim.operand(place), places) for place in range(len(claim.node.operands))]
    function = _ROUNDED[claim.node.operation]
    results = [function(*values) for values in (operands, [flush(x) for x in operands])]
    accepted = []
    for result in results:
        rounded = result.float().double()
        accepted += [rounded, torch.where(result.abs() < LEAST_NORMAL, 0.0, rounded)]
    ratios = judge_choice(take(claim.output, places), accepted, results[0].abs())
    if claim.node.operation is Operation.DIVIDE:
        ratios = torch.where(operands[1].abs() < LEAST_NORMAL, 0.0, ratios)
    if claim.node.operation is Operation.SQUARE_ROOT:
        ratios = torch.where(operands[0] < 0, 0.0, ratios)
    return excuse(ratios, *operands)


# --- Choosing operations: one of the operands ---------------------------------------------------------------
_CHOSEN: dict[Operation, Callable[..., Tensor]] = {
    Operation.MAXIMUM: torch.maximum,
    Operation.MINIMUM: torch.minimum,
    Operation.FLUSH: lambda a, b: torch.where(a.abs() >= b, a, 0.0),
    Operation.FINITE_SELECT: lambda a, b, c: torch.where(a.abs() < inf, b, c),
    Operation.COPY: lambda a: a,
}


def _check_chosen(claim: Claim) -> None:
    function = _CHOSEN[claim.node.operation]
    for start, operands, claimed in claim.tiles():
        claim.compare(function(*operands), claimed, start)


def _judge_chosen(claim: Claim, places: Places) -> Tensor:
    """The chosen value, or zero where it is subnormal. Who takes subnormals for zero cannot tell them apart:
    among a largest or smallest any may be chosen, and one passes a threshold that is as small."""
    operation = claim.node.operation
    operands = [take(claim.operand(place), places) for place in range(len(claim.node.operands))]
    exact = _CHOSEN[operation](*operands)
    claimed = take(claim.output, places)
    if operation in (Operation.FINITE_SELECT, Operation.COPY):
        return excuse(judge_choice(claimed, (exact, flush(exact)), exact.abs()), exact)
    if operation is Operation.FLUSH:
        a, b = operands
        is_lenient = (a.abs() < LEAST_NORMAL) & (b.abs() < LEAST_NORMAL) & (b != 0)
        accepted = (exact, flush(exact), torch.where(is_lenient, a, exact))
        return excuse(judge_choice(claimed, accepted, exact.abs()), a, b)
    return _judge_extreme(claimed, exact, torch.stack(operands, 1))


def _judge_extreme(claimed: Tensor, exact: Tensor, values: Tensor) -> Tensor:
    """values [elements, candidates]."""
    tiny = torch.where(values.abs() < LEAST_NORMAL, values, exact.unsqueeze(1)).unbind(1)
    accepted = [torch.where(exact.abs() < LEAST_NORMAL, x, exact) for x in (*tiny, torch.zeros_like(exact))]
    return excuse(judge_choice(claimed, accepted, exact.abs()), values)


def _check_largest(claim: Claim) -> None:
    for start, (a,), claimed in claim.tiles():
        claim.compare(a.reshape(*claimed.shape, -1).amax(-1), claimed, start)


def _judge_largest(claim: Claim, places: Places) -> Tensor:
    values = take_terms(claim.operand(0), places)
    return _judge_extreme(take(claim.output, places), values.amax(1), values)


def _gather(claim: Claim) -> Tensor:
    """What GATHER reads, over the loops."""
    node = claim.node
    index, table = claim.operand(0), node.operands[1]
    places = torch.tensor(table.offset)
    for size, stride in zip(node.sizes, table.strides, strict=True):
        places = places.unsqueeze(-1) + torch.arange(size) * stride
    buffer = claim.view(Access(table.buffer, 0, (1,)), (-1,), (1,))
    require_index(index, buffer.numel())
    places = places + index * node.selected
    require_index(places, buffer.numel())
    return buffer[places]


def _equal_select(claim: Claim) -> Tensor:
    """What EQUAL_SELECT chooses, over the loops."""
    index, a, b = (claim.operand(place) for place in range(3))
    loop = claim.node.selected
    numbers = torch.arange(claim.node.sizes[loop])
    require_index(index, numbers.numel())
    shape = [-1 if n == loop else 1 for n in range(index.dim())]
    return torch.where(index == numbers.view(shape), a, b)


_INDEXED: dict[Operation, Callable[[Claim], Tensor]] = {
    Operation.GATHER: _gather,
    Operation.EQUAL_SELECT: _equal_select,
}


def _check_indexed(claim: Claim) -> None:
    claim.compare(_INDEXED[claim.node.operation](claim), claim.output, 0)


def _judge_indexed(claim: Claim, places: Places) -> Tensor:
    exact = take(_INDEXED[claim.node.operation](claim), places)
    ratios = judge_choice(take(claim.output, places), (exact, flush(exact)), exact.abs())
    return excuse(ratios, exact)


# --- A few ulp ----------------------------------------------------------------------------------------------
def _where_defined(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Not a number at negative operands, zero and subnormal ones, which a machine may take for zero."""
    return lambda a: torch.where(a < LEAST_NORMAL, nan, function(a))


_FUNCTIONS: dict[Operation, Callable[[Tensor], Tensor]] = {
    # e^200 overflows float32 as surely as anything above it, and float64 holds it.
    Operation.EXPONENTIAL: lambda a: a.clamp(max=200.0).exp_(),
    Operation.LOGARITHM: _where_defined(torch.log),
    Operation.RECIPROCAL_ROOT: _where_defined(torch.rsqrt),
    Operation.SIGMOID: torch.sigmoid,
}
"""In float64, where a library is off by 2^-50 at most, relative to the result."""
POWER_BITS = 0x7FF0000000000000
"""What is left of a float64 under this mask is the largest power of two in it."""


def _check_function(claim: Claim) -> None:
    """k ulp alone; ulp(x) = 2^floor(log2 |x|) 2^-23."""
    function, scale = _FUNCTIONS[claim.node.operation], ULPS[claim.node.operation] * 2.0**-23
    for start, (a,), claimed in claim.tiles():
        exact = function(a.double())
        difference = exact - claimed
        power = exact.view(torch.int64).bitwise_and_(POWER_BITS).view(torch.float64)
        claim.note(difference.div_(power.clamp_(min=LEAST_NORMAL).mul_(scale)), counting_from(start))


def _judge_function(claim: Claim, places: Places) -> Tensor:
    """k ulp, and T where the exact value is below 2 T (for SIGMOID always); ulp is that of a value that may
    just have rounded up to a power of two. Where the function has no value nothing is a fault."""
    operation = claim.node.operation
    a = take(claim.operand(0), places)
    exact = _FUNCTIONS[operation](a)
    power = (exact * MARGIN_WIDE).view(torch.int64).bitwise_and(POWER_BITS).view(torch.float64)
    bound = power.clamp(min=LEAST_NORMAL) * (ULPS[operation] * 2.0**-23) + exact.abs() * 2.0**-50
    is_small = (exact.abs() < 2 * LEAST_NORMAL) | (operation is Operation.SIGMOID)
    bound = bound + torch.where(is_small, LEAST_NORMAL, 0.0)
    ratios = judge(take(claim.output, places), exact, bound, exact.abs())
    return excuse(ratios, a, exact)


ELEMENT_CHECKS: dict[Operation, Check] = {
    Operation.MAXIMUM_OF: (_check_largest, _judge_largest),
    **dict.fromkeys(_ROUNDED, (_check_rounded, _judge_rounded)),
    **dict.fromkeys(_CHOSEN, (_check_chosen, _judge_chosen)),
    **dict.fromkeys(_INDEXED, (_check_indexed, _judge_indexed)),
    **dict.fromkeys(_FUNCTIONS, (_check_function, _judge_function)),
}
