"""Draws the first values of W from the task's layout and seed, with the same bits on any machine."""

from hashlib import shake_128
from math import sqrt

import torch
from torch import Tensor

from touchstone.protocol.compute.program.tensor_allocator import allocate, relax
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.weights_layout import ParameterEntry, Start, WeightsLayout


def draw_weights(layout: WeightsLayout, seed: int) -> Tensor:
    """Draws W: flat float32 [elements of W]."""
    flat = allocate(layout.count)
    for entry, offset in layout.list_places():
        flat[offset : offset + entry.size] = draw_parameter(entry, seed)
        relax()
    return flat


def draw_parameter(entry: ParameterEntry, seed: int) -> Tensor:
    """Returns the first values of one parameter, flat float32: zeros, ones, or uniform around 0 with a
    standard deviation.

    SHAKE-128 (FIPS 202) of (seed, name) gives one 24-bit integer for each element. integer - (2^24 - 1)/2 is
    exact in float32, and its product with the scale is rounded once. No library's generator is used."""
    if entry.start is not Start.UNIFORM:
        return torch.full((entry.size,), 1.0 if entry.start is Start.ONES else 0.0)
    stream = shake_128(f"touchstone.init/{seed}/{entry.name}".encode()).digest(4 * entry.size)
    draws = torch.frombuffer(bytearray(stream), dtype=torch.int32) & 0xFFFFFF
    # Odd integers of both signs, symmetric around zero: 2 x - (2^24 - 1), below 2^24 in magnitude, so exact.
    centred = (2 * draws - 0xFFFFFF).to(torch.float32)
    return centred * nearest(entry.deviation * sqrt(3) / 2**24)
