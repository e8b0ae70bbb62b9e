"""Checks sums and selected sums against their bounds (docs/spec.md, section 9)."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from touchstone.protocol.compute.bounds.claimed_node import (
    LOST_PER_TERM,
    MARGIN_WIDE,
    UNIT,
    UNIT_WIDE,
    Check,
    Claim,
    Name,
    Places,
    counting_from,
    excuse,
    flush,
    judge,
    judge_choice,
    require_index,
    take,
    take_terms,
    unravel,
)
from touchstone.protocol.compute.bounds.product_bounds import add_up, check_product_sum, judge_products
from touchstone.protocol.compute.program.kernels.plain_kernels import make_kernel
from touchstone.protocol.compute.program.planning.node_parts import cut_node
from touchstone.protocol.compute.program.tensor_allocator import relax
from touchstone.protocol.spec.program import Access, Node
from touchstone.protocol.spec.program_operations import Operation

PART_SUMS = 1 << 22
"""Selected sums that are compared at once. In float64 they take ten times the memory of the claimed ones."""


def _sum_bound(count: Tensor, total: Tensor) -> Tensor:
    """Returns gamma_{n-1} S + n 2^-124 for n >= 2 terms (n - 1 additions: Higham, section 4.2), else zero,
    plus the error of the float64 sum itself. `count` and `total` are float64."""
    steps = (count - 1) * UNIT
    bound = (steps / (1 - steps) + count * (2 * UNIT_WIDE)) * total + count * LOST_PER_TERM
    return torch.where(count > 1, bound * MARGIN_WIDE, 0.0)


def _check_sum(claim: Claim) -> None:
    count = torch.tensor(float(claim.node.terms), dtype=torch.float64)
    for start, (a,), claimed in claim.tiles():
        values = a.double()
        difference = add_up(values, claim.node) - claimed
        bound = _sum_bound(count, add_up(values.abs_(), claim.node))
        claim.note(torch.where(difference == 0, 0.0, difference / bound), counting_from(start))


def _judge_sum(claim: Claim, places: Places) -> Tensor:
    values = take_terms(claim.operand(0), places)
    count = torch.tensor(float(claim.node.terms), dtype=torch.float64)
    return _judge_terms(take(claim.output, places), values, count)


def _judge_terms(claimed: Tensor, values: Tensor, count: Tensor) -> Tensor:
    """Judges sums of `count` of the values; the other values are zero. A single term is passed on unchanged,
    or flushed if it is subnormal."""
    exact, total = values.sum(1), values.abs().sum(1)
    several = judge(claimed, exact, _sum_bound(count, total), total * (1 + count * 2 * UNIT))
    single = judge_choice(claimed, (exact, flush(exact)), total)
    return excuse(torch.where(count > 1, several, single), values)


def _check_selected_sum(claim: Claim) -> None:
    """Checks a selected sum: its kernel computes exact values, absolute sums and numbers of matches in
    float64."""
    index = claim.operand(0)
    require_index(index, claim.node.output_sizes[claim.node.selected])
    for part, claimed, name in _cut_selected_sum(claim):
        exact, total, count = (_run_wide(claim, part, one) for one in (Tensor.double, _wide_size, _one_each))
        difference, bound = exact.sub_(claimed), _sum_bound(count, total)
        claim.note(torch.where(difference == 0, 0.0, difference / bound), name)
        relax()


def _cut_selected_sum(claim: Claim) -> Iterator[tuple[Node, Tensor, Name]]:
    """Yields the parts of the node, each with its claimed values and the names of its elements. Cuts along
    the longest loop that is not the selected one."""
    sizes = claim.node.output_sizes
    others = [loop for loop in range(len(sizes)) if loop != claim.node.selected]
    loop = max(others, key=lambda one: sizes[one], default=None)
    if loop is None:
        yield claim.node, claim.output, counting_from(0)
        return
    width = max(1, PART_SUMS * sizes[loop] // claim.node.elements)
    for first in range(0, sizes[loop], width):
        part = cut_node(claim.node, first, min(width, sizes[loop] - first), loop)
        claimed = claim.output.narrow(loop, first, part.output_sizes[loop])
        yield part, claimed, partial(_name_in_part, sizes, part.output_sizes, loop, first)


def _name_in_part(
    sizes: Sequence[int], part: Sequence[int], loop: int, first: int, positions: Tensor
) -> Tensor:
    """Returns numbers of elements, from flat positions in a part that begins at `first` of a loop."""
    places, numbers = unravel(positions, part), torch.zeros_like(positions)
    for at, (place, size) in enumerate(zip(places, sizes, strict=True)):
        numbers = numbers * size + place + (first if at == loop else 0)
    return numbers


def _wide_size(values: Tensor) -> Tensor:
    return values.double().abs()


def _one_each(values: Tensor) -> Tensor:
    return torch.ones_like(values, dtype=torch.float64)


def _run_wide(claim: Claim, node: Node, change: Callable[[Tensor], Tensor]) -> Tensor:
    """Runs the kernel of the node, or of a part of it, on changed values."""
    result = torch.empty(node.output_sizes, dtype=torch.float64)

    def view(access: Access, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
        """Returns the tensor of an access with its values changed; the output is a new one."""
        if access is node.output:
            return result
        values = claim.view(access, sizes, strides)
        return change(values) if values.is_floating_point() else values

    make_kernel(node, view)()
    return result


def _judge_selected_sum(claim: Claim, places: Places) -> Tensor:
    index, values = (take_terms(claim.operand(place), places) for place in (0, 1))
    is_match = index == places[claim.node.selected].unsqueeze(1)
    values = torch.where(is_match, values, 0.0)
    return _judge_terms(take(claim.output, places), values, is_match.sum(1).double())


SUM_CHECKS: dict[Operation, Check] = {
    Operation.PRODUCT_SUM: (check_product_sum, judge_products),
    Operation.SUM: (_check_sum, _judge_sum),
    Operation.SELECTED_SUM: (_check_selected_sum, _judge_selected_sum),
}
