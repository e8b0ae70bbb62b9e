"""The trace of a step: its root, runs of its elements with proofs, and running the step again.

The root of a trace, and the proofs of runs, are those of docs/spec.md, section 8.

    buffers --> a tree each, in leaves as long as a run --> their roots in order --> the trace's tree

A trace is hashed only when its step is challenged, but then all of it. Only the roots are kept. To open a run
its buffer is hashed again, which takes some milliseconds.

A dispute about a training step asks for the step to be run again with all its tensors shown.

    state, batch --> traced run --> each tensor into its tree, then forgotten --> roots in order --> trace

Here too only the roots are kept, because a trace is many times as large as a state. To open a run, the step
is run once more and that one buffer is kept.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from protocol.compute.bounds.check import Provider, fetch_buffer
from protocol.compute.bounds.suspects import require_index
from protocol.compute.digest import ByteTree, build_byte_tree, tensor_bytes
from protocol.compute.model.reference_step import StepResult
from protocol.compute.program.interpreter import Interpreter, Keep
from protocol.compute.program.step import Batch, GetBatch, TrainingState, compute_scalars
from protocol.compute.program.task_program import build_program, describe_program
from protocol.spec.containers import TrainingSpec
from protocol.spec.errors import InvalidInput
from protocol.spec.exact import NAN
from protocol.spec.merkle import Levels, compute_levels, compute_path
from protocol.spec.program import (
    INDEX_ROLES,
    INPUTS,
    Program,
    get_constant_roots,
    leaf_bytes,
    leaf_elements,
)

INDEX_LIMIT = 1 << 32
"""Indices are uint32 in trees."""


@dataclass(frozen=True)
class TraceTree:
    """The tree over the roots of all buffers, and where their values come from. known: the buffers' roots,
    where a claimant lists others for some that no proof takes from its list; else those of the tree."""

    program: Program
    levels: Levels
    get: Provider
    known: Sequence[bytes] = field(default=(), kw_only=True)

    @property
    def root(self) -> bytes:
        """The trace's 32-byte root."""
        return self.levels[-1][0]

    @property
    def roots(self) -> Sequence[bytes]:
        """The root of each buffer's tree, 32 bytes, in order."""
        return self.known or self.levels[0]

    def open_root(self, buffer: int) -> list[bytes]:
        """The path of a buffer's root upwards. Raises InvalidInput if there is no such buffer."""
        return compute_path(self.levels, buffer)

    def open_run(self, buffer: int, first_element: int, count: int) -> tuple[bytes, list[bytes]]:
        """The whole leaves that hold `count` >= 1 elements from `first_element` on, and their siblings
        (`merkle.compute_range_path`). Raises InvalidInput where the buffer has no such elements, or is not
        what was hashed any more."""
        size = self.program.buffers[buffer].size
        if count < 1 or not 0 <= first_element <= first_element + count <= size:
            raise InvalidInput(
                what="no such run of elements",
                expected=f"1 or more of {size}",
                actual=f"{count} from {first_element} on",
                where=f"buffer {buffer}",
                remedy="Pass a run that the program reads.",
            )
        tensor = self.get(buffer)
        tree = build_buffer_tree(self.program, lambda _: tensor, buffer)
        if tree.root != self.roots[buffer]:  # Another node may have hashed a NaN of other bits.
            tree = build_buffer_tree(self.program, lambda _: tensor, buffer, is_shown=True)
        if tree.root != self.roots[buffer]:
            raise InvalidInput(
                what="a tensor has changed since the trace was hashed",
                expected=self.roots[buffer].hex(),
                actual=tree.root.hex(),
                where=f"buffer {buffer}",
                remedy="Record the step again, and keep all of it.",
            )
        elements = leaf_elements(self.program, buffer)
        return tree.open_run(first_element // elements, (first_element + count - 1) // elements)


def build_buffer_tree(program: Program, get: Provider, number: int, is_shown: bool = False) -> ByteTree:
    """The tree of one buffer, in its own leaves; indices as uint32, each NaN as `exact.NAN`, or with its own
    bits where another node has shown it. Raises InvalidInput where the tensor is not the program's."""
    tensor = fetch_buffer(program, get, number)
    if program.buffers[number].role in INDEX_ROLES:
        require_index(tensor, INDEX_LIMIT)
        tensor = _take_low_halves(tensor)
    elif not is_shown and tensor.dtype == torch.float32 and bool((is_nan := tensor.isnan()).any()):
        tensor = tensor.view(torch.int32).masked_fill(is_nan, NAN)
    return build_byte_tree(tensor_bytes(tensor), leaf_bytes(program, number))


def _take_low_halves(indices: Tensor) -> Tensor:
    """int64 as uint32, under the name of int32; memory is little-endian. A copy always: one element of two
    counts as contiguous, with a stride that is not."""
    return indices.view(torch.int32)[::2].clone(memory_format=torch.contiguous_format)


Show = Callable[[int, memoryview, Levels], None]
"""(buffer, its little-endian elements, all levels of its tree), while the elements are in memory."""


def ignore(number: int, data: memoryview, levels: Levels) -> None:
    """The `Show` of a caller that needs no trees."""


class Retraced(NamedTuple):
    """The trace of a step, from which runs of any buffer can be opened, and the state that it ends in."""

    tree: TraceTree
    end: TrainingState


@dataclass(frozen=True)
class _Step:
    """A step of a task that can be run again."""

    spec: TrainingSpec
    start: TrainingState
    batch: Batch

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Buffers 0 to 5, flat."""
        start, scalars = self.start, compute_scalars(self.spec, self.start.local_step, self.start.global_step)
        data = (tensor.reshape(-1) for tensor in self.batch)
        return start.weights, start.first_moment, start.second_moment, *data, scalars

    def run(self, keep: Keep) -> StepResult:
        """Run it and show each tensor once."""
        built = build_program(describe_program(self.spec))
        weights, first, second, tokens, labels, scalars = self.inputs
        interpreter = Interpreter(
            built.program, built.constants, is_traced=True, numeric_format=self.spec.numeric_format
        )
        return interpreter.run((weights, first, second), tokens, labels, scalars, keep=keep)

    def get(self, buffer: int) -> Tensor:
        """All elements of one buffer."""
        constants = build_program(describe_program(self.spec)).constants
        if buffer < len(INPUTS):
            return self.inputs[buffer]
        if buffer in constants:
            return constants[buffer]
        kept: list[Tensor] = []

        def keep(number: int, tensor: Tensor) -> None:
            """Copy the buffer that is asked for."""
            if number == buffer:
                kept.append(tensor.clone())

        self.run(keep)
        return kept[0]


def retrace(
    start: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, show: Show = ignore
) -> Retraced:
    """Run one step from `start` on its batch and hash all of it; `inner_step` is its number in the round. The
    bits are those of `step.advance` on the same machine with the same kernels. Each tree is shown once."""
    step, program = _Step(spec, start, get_batch(inner_step)), build_program(describe_program(spec)).program
    roots = get_constant_roots(program)

    def keep(number: int, tensor: Tensor) -> None:
        """Hash a buffer and show its tree."""
        tree = build_buffer_tree(program, lambda _: tensor, number)
        roots[number] = tree.root
        show(number, tree.data, tree.levels)

    for number, tensor in enumerate(step.inputs):
        keep(number, tensor)
    result = step.run(keep)
    levels = compute_levels([roots[number] for number in range(len(program.buffers))])
    end = TrainingState(*result[:3], start.local_step + 1, start.global_step + 1).move("cpu")
    return Retraced(TraceTree(program, levels, step.get), end)


Retrace = Callable[[TrainingState, TrainingSpec, GetBatch, int, Show], Retraced]
"""The shape of `retrace`."""
