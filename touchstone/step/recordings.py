"""Holds a recording: PyTorch's operations in order, connected by the tensors that they pass on."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

FORMATS = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format"})
"""Keywords that say how a result is stored. The result shows that, so they are not recorded."""


@dataclass(eq=False)
class Call:
    """One operation. `name` is `aten.mm.default`, `input`, or `getitem` for one of several results. `args`
    are values, other calls among them. `shape` and `dtype` are the result's. `where` is file and line of the
    caller, if known."""

    name: str
    args: tuple[Any, ...]
    shape: tuple[int, ...] = ()
    dtype: torch.dtype | None = None
    users: list["Call"] = field(default_factory=list)
    where: str = ""


@dataclass(eq=False)
class Constant(Call):
    """A tensor that a recorded operation reads and that depends on no input. `version` is PyTorch's count of
    the writes to it."""

    tensor: Tensor = field(default_factory=lambda: torch.zeros(()))
    version: int = 0


@dataclass(frozen=True)
class Recording:
    """The recording of a function. `inputs` has a call for each input, `calls` all operations in order,
    `outputs` the calls whose results were returned. `constants` are the tensors that calls read besides the
    inputs."""

    inputs: tuple[Call, ...]
    calls: tuple[Call, ...]
    outputs: tuple[Call, ...]
    constants: tuple[Constant, ...] = ()
