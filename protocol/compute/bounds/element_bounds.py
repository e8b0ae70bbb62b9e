"""Checks elementwise operations against their bounds (docs/spec.md, section 9)."""

from collections.abc import Callable
from math import inf, nan

import torch
from torch import Tensor

from touchstone.protocol.compute.bounds.claimed_node import (
    LEAST_NORMAL,
    MARGIN_WIDE,
    Check,
    Claim,
    Places,
    counting_from,
    excuse,
    flush,
    judge,
    judge_choice,
    require_index,
    take,
    take_terms,
)
from touchstone.protocol.spec.operation_bounds import ULPS
from touchstone.protocol.spec.program import Access
from touchstone.protocol.spec.program_operations import Operation


def _compute_root(a: Tensor) -> Tensor:
    """Returns the correctly rounded root: float64 has more than twice the digits (Figueroa, 1995). Torch's
    own root is not."""
    return a.double().sqrt().to(a.dtype)


_ROUNDED: dict[Operation, Callable[..., Tensor]] = {
    Operation.ADD: torch.add,
    Operation.SUBTRACT: torch.sub,
    Operation.MULTIPLY: torch.mul,
    Operation.DIVIDE: torch.div,
    Operation.SQUARE_ROOT: _compute_root,
}


def _check_rounded(claim: Claim) -> None:
    """Makes suspects of elements that differ from the one value that IEEE float32 gives."""
    function = _ROUNDED[claim.node.operation]
    for start, operands, claimed in claim.tiles():
        claim.compare(function(*operands), claimed, start)


def _judge_rounded(claim: Claim, places: Places) -> Tensor:
    """Judges suspects. Right values are the rounded operation on the operands, the same with subnormal
    operands flushed, and zero if the unrounded magnitude is below T. float64 is exact for products and for
    sums that small; for other sums, rounding to float64 first does no harm (Figueroa, 1995)."""
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
    """Judges suspects. Right values are the chosen value, and zero if it is subnormal. A machine that flushes
    subnormals cannot tell them apart, so it may choose any of them, and any may pass a threshold that is as
    small."""
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
    """Judges a largest or smallest of values [elements, candidates]."""
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
    """Returns the elements that GATHER reads, over the loops."""
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
    """Returns the elements that EQUAL_SELECT chooses, over the loops."""
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


def _where_defined(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Returns NaN for operands that are negative, zero or subnormal, because a machine may flush those."""
    return lambda a: torch.where(a < LEAST_NORMAL, nan, function(a))


_FUNCTIONS: dict[Operation, Callable[[Tensor], Tensor]] = {
    # e^200 overflows float32 as anything larger does, and fits into float64.
    Operation.EXPONENTIAL: lambda a: a.clamp(max=200.0).exp_(),
    Operation.LOGARITHM: _where_defined(torch.log),
    Operation.RECIPROCAL_ROOT: _where_defined(torch.rsqrt),
    Operation.SIGMOID: torch.sigmoid,
}
"""The functions in float64, where a library errs by at most 2^-50, relative to the result."""
POWER_BITS = 0x7FF0000000000000
"""The mask that keeps only the largest power of two in a float64."""


def _check_function(claim: Claim) -> None:
    """Checks against k ulp alone, where ulp(x) = 2^floor(log2 |x|) 2^-23."""
    function, scale = _FUNCTIONS[claim.node.operation], ULPS[claim.node.operation] * 2.0**-23
    for start, (a,), claimed in claim.tiles():
        exact = function(a.double())
        difference = exact - claimed
        power = exact.view(torch.int64).bitwise_and_(POWER_BITS).view(torch.float64)
        claim.note(difference.div_(power.clamp_(min=LEAST_NORMAL).mul_(scale)), counting_from(start))


def _judge_function(claim: Claim, places: Places) -> Tensor:
    """Judges suspects against k ulp, and T if the exact value is below 2 T (for SIGMOID always). The ulp
    allows for a value that has just been rounded up to a power of two. If the function has no value there, no
    claim is a fault."""
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
