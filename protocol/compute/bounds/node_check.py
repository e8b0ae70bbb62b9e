"""Finds the elements of a claimed node that lie outside the bound of its operation.

The bounds are those of docs/spec.md, section 9, which `spec/referee.py` applies to one element in exact
arithmetic. Here they are applied in float64, in two passes. The first takes a bound for all elements that is
cheap and at most as large as the real one, up to its own rounding. The elements that it cannot clear are
suspects, few in an honest trace. The second gathers each suspect's terms and follows the text to the letter,
with flushed subnormals and overflow. Rounding errors here always count in favour of the claimant: an element
that is outside here is outside for the referee.

Notation: u is the unit roundoff, and gamma_n = n u / (1 - n u) bounds the relative error of a sum of n terms
in any order, fused or not (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1). T
is the least normal float32, 2^-126.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from touchstone.protocol.compute.bounds.claimed_node import Check, Claim, unravel
from touchstone.protocol.compute.bounds.element_bounds import ELEMENT_CHECKS
from touchstone.protocol.compute.bounds.sum_bounds import SUM_CHECKS
from touchstone.protocol.compute.program.planning.node_views import MakeView
from touchstone.protocol.spec.program import Node
from touchstone.protocol.spec.program_operations import Operation

SUSPECT_TERMS = 1 << 20
"""How many terms of suspects are gathered at once."""
ENOUGH_FAULTS = 1000
"""After this many faults in one node no more suspects are judged, because judging one costs a hundred times
as much as clearing an honest element."""
_CHECKS: dict[Operation, Check] = {**SUM_CHECKS, **ELEMENT_CHECKS}


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The result of checking one node. `worst_ratio` is the largest |claimed - exact| / bound, infinite if
    the bound is zero and they differ. `element` is the number of the element with this ratio, counted over
    the output's loops (0 if all are exact). `outside` is how many elements have a ratio above 1; counting may
    stop at ENOUGH_FAULTS."""

    elements: int
    outside: int
    worst_ratio: float
    element: int


def check_node(node: Node, view: MakeView) -> NodeReport:
    """Checks all elements of `node`. `view` returns the claimant's buffers (float32; indices int64). Raises
    InvalidInput if an index is outside its table."""
    claim = Claim(node, view)
    first, second = _CHECKS[node.operation]
    first(claim)
    outside, worst, element = 0, claim.worst, claim.element
    for numbers in _portions(claim):
        ratios = second(claim, unravel(numbers, node.output_sizes))
        outside += int((ratios > 1).sum())
        largest = int(ratios.argmax())
        if float(ratios[largest]) > worst:
            worst, element = float(ratios[largest]), int(numbers[largest])
        if outside >= ENOUGH_FAULTS:
            break
    return NodeReport(node.elements, outside, worst, element)


def _portions(claim: Claim) -> Iterator[Tensor]:
    """Yields the suspects in groups that have at most SUSPECT_TERMS terms."""
    for numbers in claim.suspects:
        if numbers.numel():
            yield from torch.split(numbers, max(1, SUSPECT_TERMS // claim.node.terms))
