"""One claimed node judged by both passes of its check, and how far a bound lets float32 numbers go."""

from collections.abc import Mapping
from fractions import Fraction
from math import inf

import torch
from torch import Tensor

from touchstone.protocol.compute.bounds.claimed_node import Check, Claim, unravel
from touchstone.protocol.compute.program.planning.node_views import look
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.program import Node
from touchstone.protocol.spec.program_operations import Operation

LEAST = 2.0**-126
"""T, the least normal float32."""
TINY = 2.0**-149
"""The least subnormal one."""


def make_claim(node: Node, claimed: Tensor, *operands: Tensor) -> Claim:
    """Buffer 0 is the output, the operands follow."""
    buffers = [tensor.reshape(-1).contiguous() for tensor in (claimed, *operands)]
    return Claim(node, lambda access, *lay: look(buffers[access.buffer], access.offset, *lay))


def find_outside(
    checks: Mapping[Operation, Check], node: Node, claimed: Tensor, *operands: Tensor
) -> list[int]:
    """Numbers of the elements that are outside: the first pass suspects them, and the second, asked about all
    elements, condemns them and no others."""
    claim = make_claim(node, claimed, *operands)
    find_suspects, judge = checks[node.operation]
    find_suspects(claim)
    suspects = {number for numbers in claim.suspects for number in numbers.tolist()}
    ratios = judge(claim, unravel(torch.arange(node.elements), node.output_sizes))
    outside: list[int] = (ratios > 1).nonzero().flatten().tolist()
    assert suspects.issuperset(outside)
    return outside


def find_last_clear(exact: Fraction, bound: Fraction) -> tuple[float, float]:
    """The least and the largest float32 that lie within `bound` of `exact`."""
    low, high = nearest(exact - bound), nearest(exact + bound)
    if Fraction(low) < exact - bound:
        low = step(low, inf)
    if Fraction(high) > exact + bound:
        high = step(high, -inf)
    return low, high


def step(value: float, towards: float) -> float:
    """The next float32."""
    return float(torch.nextafter(torch.tensor(value), torch.tensor(towards)))
