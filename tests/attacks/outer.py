"""Pseudo-gradients that are not what was trained. What was trained is left alone: an auditor computes the
pseudo-gradient again from the opened end of the round, and bytes are equal or they are not.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from touchstone.protocol.compute.outer.pseudo_gradients import encode_delta

FORGED_ELEMENT = 1_234


@dataclass(frozen=True)
class Forgery:
    """A false pseudo-gradient. forge: (global weights, honest final weights) to the claimed bytes."""

    number: str
    name: str
    forge: Callable[[Tensor, Tensor], bytes]


def double(start: Tensor, end: Tensor) -> bytes:
    """Twice as far: this solver counts twice in the mean."""
    return encode_delta(start, end + (end - start))


def turn(start: Tensor, end: Tensor) -> bytes:
    """Back where the others came from."""
    return encode_delta(start, start - (end - start))


def idle(start: Tensor, end: Tensor) -> bytes:
    """Nothing at all."""
    return encode_delta(start, start)


def shift(start: Tensor, end: Tensor) -> bytes:
    """That of a neighbouring place: every norm is right."""
    return encode_delta(start, start + torch.roll(end - start, 1))


def steer(start: Tensor, end: Tensor) -> bytes:
    """One weight is moved as far as the largest."""
    changed = end.clone()
    changed[min(FORGED_ELEMENT, end.numel() - 1)] += (end - start).abs().max()
    return encode_delta(start, changed)


FORGERIES = (
    Forgery("23", "pseudo-gradient doubled", double),
    Forgery("23", "pseudo-gradient turned round", turn),
    Forgery("23", "pseudo-gradient of zero", idle),
    Forgery("23", "pseudo-gradient of the neighbours", shift),
    Forgery("23", "pseudo-gradient with one weight moved", steer),
)
