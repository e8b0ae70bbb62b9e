"""Holds a program together with its constants."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from touchstone.protocol.spec.program import Program


@dataclass(frozen=True)
class BuiltProgram:
    """A program and the values of its constants: flat float32 tensors by buffer."""

    program: Program
    constants: Mapping[int, Tensor]
