"""How operands of product sums are rounded before they are multiplied."""

from collections.abc import Callable

import torch
from torch import Tensor


def _keep(a: Tensor) -> Tensor:
    return a


PROBE_FORMAT = "probe"
"""No task's: its products show what of a result is rounding noise."""
PROBE_DROPPED = 5


def round_to_probe(a: Tensor) -> Tensor:
    """Cuts float32 numbers off, so that they have five bits fewer."""
    return (a.contiguous().view(torch.int32) & -(1 << PROBE_DROPPED)).view(torch.float32)


ROUNDINGS: dict[str, Callable[[Tensor], Tensor]] = {"float32": _keep, PROBE_FORMAT: round_to_probe}
"""What an operand of a product sum becomes, by numeric format."""
