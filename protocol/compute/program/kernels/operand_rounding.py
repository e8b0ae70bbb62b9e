"""Rounds operands of product sums before they are multiplied."""

from collections.abc import Callable

import torch
from torch import Tensor


def _keep(a: Tensor) -> Tensor:
    return a


PROBE_FORMAT = "probe"
"""A format that no task has. Its products show which part of a result is rounding noise."""
PROBE_DROPPED = 5


def round_to_probe(a: Tensor) -> Tensor:
    """Truncates float32 numbers, so that they have five bits fewer."""
    return (a.contiguous().view(torch.int32) & -(1 << PROBE_DROPPED)).view(torch.float32)


ROUNDINGS: dict[str, Callable[[Tensor], Tensor]] = {"float32": _keep, PROBE_FORMAT: round_to_probe}
"""How operands of product sums are rounded, by numeric format."""
