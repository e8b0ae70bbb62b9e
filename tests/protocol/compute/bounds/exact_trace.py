"""An honest step of an exact program with its whole trace, and claims of it that differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from touchstone.protocol.compute.batches import Corpus, get_batch
from touchstone.protocol.compute.bounds.exact_fault_finder import ExactFaultFinder
from touchstone.protocol.compute.bounds.fault_proof import (
    ClaimedLeaf,
    ClaimedTrace,
    InputFault,
    OperationFault,
)
from touchstone.protocol.compute.bounds.trace_tree import TraceTree, build_buffer_tree
from touchstone.protocol.compute.digest import ByteTree
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.known_steps import get_program
from touchstone.protocol.compute.program.step import compute_scalars
from touchstone.protocol.compute.program.training_state import Batch, TrainingState
from touchstone.protocol.spec.merkle import compute_levels
from touchstone.protocol.spec.task_spec import TrainingSpec

BITS_DTYPES = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass
class Trace:
    """A whole trace, and what a challenger gets to see of it."""

    built: BuiltProgram
    tensors: dict[int, Tensor]
    shown: list[tuple[int, int]]

    @property
    def roots(self) -> list[bytes]:
        return [self.build(number).root for number in range(len(self.built.program.buffers))]

    @property
    def tree(self) -> TraceTree:
        return TraceTree(self.built.program, compute_levels(self.roots), self.tensors.__getitem__)

    def build(self, buffer: int) -> ByteTree:
        return build_buffer_tree(self.built.program, self.tensors.__getitem__, buffer)

    def find_leaf(self, buffer: int, own: ByteTree) -> ClaimedLeaf:
        claimed = self.build(buffer)
        pairs = zip(claimed.levels[0], own.levels[0], strict=True)
        index = next(n for n, (theirs, mine) in enumerate(pairs) if theirs != mine)
        self.shown.append((buffer, index))
        return ClaimedLeaf(index, *claimed.open_leaf(index))


def fetch_nothing(buffer: int) -> Tensor:
    """A whole buffer, which no search through an exact program asks for."""
    raise AssertionError(f"buffer {buffer}, whole")


@dataclass
class Step:
    """An honest step, its inputs and all that it computes."""

    built: BuiltProgram
    numeric_format: str
    vectors: tuple[Tensor, Tensor, Tensor]
    batch: Batch
    scalars: Tensor
    tensors: dict[int, Tensor]

    @cached_property
    def finder(self) -> ExactFaultFinder:
        return ExactFaultFinder(self.built, self.numeric_format)

    @cached_property
    def roots(self) -> list[bytes]:
        return Trace(self.built, self.tensors, []).roots

    def claim(self, lie: Callable[[dict[int, Tensor]], None]) -> Trace:
        """A trace that differs from the honest one in what `lie` changes."""
        tensors = {number: tensor.clone() for number, tensor in self.tensors.items()}
        lie(tensors)
        return Trace(self.built, tensors, [])

    def find(self, trace: Trace, roots: list[bytes] | None = None) -> OperationFault | InputFault | None:
        """roots: of the trace, where they are known."""
        claimed = ClaimedTrace(roots or trace.roots, fetch_nothing, find_leaf=trace.find_leaf)
        return self.finder.find(self.vectors, self.batch, self.scalars, claimed)


def record_step(spec: TrainingSpec, corpus: Corpus, state: TrainingState) -> Step:
    """The first step of a round."""
    built = get_program(spec)
    batch = get_batch(corpus, spec, bytes(32), 0, 0)
    scalars = compute_scalars(spec, state.local_step, state.global_step)
    inputs = (*state.vectors, *(tensor.reshape(-1) for tensor in batch), scalars)
    tensors = dict(enumerate(inputs)) | dict(built.constants)
    numeric_format = spec.numeric_format
    interpreter = Interpreter(built.program, built.constants, is_traced=True, numeric_format=numeric_format)
    interpreter.run(state.vectors, *batch, scalars, lambda b, t: tensors.update({b: t.clone()}))
    return Step(built, numeric_format, state.vectors, batch, scalars, tensors)


def change(tensor: Tensor, element: int, bit: int = 0) -> None:
    """Turn a bit of an element."""
    width = tensor.element_size()
    bits = tensor.view(BITS_DTYPES[width])
    mask = 1 << bit
    bits[element] ^= mask - (1 << 8 * width) if bit == 8 * width - 1 else mask
