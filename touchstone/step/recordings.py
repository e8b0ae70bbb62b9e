"""What a recorder notes: PyTorch's operations in order, joined by the tensors that they hand on."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

FORMATS = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format"})
"""Keywords that say how a result is stored: the result shows it, so that they are not noted."""


@dataclass(eq=False)
class Call:
    """One operation. name: `aten.mm.default`, `input`, or `getitem` for one of several results; args: values,
    other calls among them; shape and dtype are the result's; where: file and line of who asked for it, if
    that is known."""

    name: str
    args: tuple[Any, ...]
    shape: tuple[int, ...] = ()
    dtype: torch.dtype | None = None
    users: list["Call"] = field(default_factory=list)
    where: str = ""


@dataclass(eq=False)
class Constant(Call):
    """A tensor that a recorded operation reads and that depends on no input. version: PyTorch's count of the
    writes to it."""

    tensor: Tensor = field(default_factory=lambda: torch.zeros(()))
    version: int = 0


@dataclass(frozen=True)
class Recording:
    """What a function did. inputs: a call for each input; calls: all operations in order; outputs: the calls
    whose results were returned; constants: the tensors that calls read beside the inputs."""

    inputs: tuple[Call, ...]
    calls: tuple[Call, ...]
    outputs: tuple[Call, ...]
    constants: tuple[Constant, ...] = ()
