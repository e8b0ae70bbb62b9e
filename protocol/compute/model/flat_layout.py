"""The flat vector of all parameters: which elements are whose, and its first values.

A family says names and shapes (`family.py`); here they get their places, one after the other, row-major. The
flat vector is what is hashed, opened and disputed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import shake_128
from math import prod, sqrt

import torch
from torch import Tensor

from protocol.spec.float32 import nearest

Parameters = Mapping[str, Tensor]
"""Parameters by the names of the family, in its shapes."""
NamedShape = tuple[str, tuple[int, ...]]


@dataclass(frozen=True)
class ParameterSlice:
    """One parameter's place in the flat vector: elements offset .. offset + prod(shape)."""

    name: str
    offset: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)


@dataclass(frozen=True)
class ParameterPart:
    """Indices start .. stop of a parameter along one dimension. is_idle: no gradient reaches them, and the
    program gives them the gradient 0."""

    name: str
    dimension: int
    start: int
    stop: int
    is_idle: bool = False

    def cut(self, parameter: Tensor) -> Tensor:
        """This part of the parameter, or of its gradient: a view."""
        return parameter.narrow(self.dimension, self.start, self.stop - self.start)


def lay_out(shapes: Sequence[NamedShape]) -> tuple[ParameterSlice, ...]:
    """Places without gaps, in the order given."""
    slices: list[ParameterSlice] = []
    offset = 0
    for name, shape in shapes:
        slices.append(ParameterSlice(name, offset, shape))
        offset += slices[-1].size
    return tuple(slices)


def draw_uniform(parameter: ParameterSlice, seed: int, deviation: float) -> Tensor:
    """Float32 of the parameter's shape, uniform around 0 with a standard deviation; the same bits on any
    machine.

    SHAKE-128 (FIPS 202) of (seed, name) gives one 24-bit integer per element; integer - (2^24 - 1)/2 is exact
    in float32 up to one rounded product with the scale. No generator or distribution of a library takes
    part."""
    stream = shake_128(f"touchstone.init/{seed}/{parameter.name}".encode()).digest(4 * parameter.size)
    draws = torch.frombuffer(bytearray(stream), dtype=torch.int32) & 0xFFFFFF
    # Odd integers of both signs, symmetric around zero: 2 x - (2^24 - 1), below 2^24 in magnitude, so exact.
    centred = (2 * draws - 0xFFFFFF).to(torch.float32)
    return (centred * nearest(deviation * sqrt(3) / 2**24)).view(parameter.shape)
