"""Computes the tree of a step's trace: its root, and runs of elements with proofs (docs/spec.md, section 8).

    buffers --> a tree each, in leaves as long as a run --> their roots in order --> the trace's tree

A trace is hashed only when its step is challenged, but then all of it. Only the roots are kept. To open a run
its buffer is hashed again, which takes some milliseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from touchstone.protocol.compute.bounds.claimed_node import require_index
from touchstone.protocol.compute.bounds.trace_check import Provider, fetch_buffer
from touchstone.protocol.compute.digest import ByteTree, build_byte_tree, tensor_bytes
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.exact_elementwise import NAN
from touchstone.protocol.spec.merkle import Levels, compute_path
from touchstone.protocol.spec.program import INDEX_ROLES, Program, leaf_bytes, leaf_elements

INDEX_LIMIT = 1 << 32
"""The limit of indices, which are uint32 in trees."""


@dataclass(frozen=True)
class TraceTree:
    """The tree over the roots of all buffers, and the source of their values. `known` are the buffers' roots;
    they replace the tree's roots if a claimant lists false ones that no proof takes from the list."""

    program: Program
    levels: Levels
    get: Provider
    known: Sequence[bytes] = field(default=(), kw_only=True)

    @property
    def root(self) -> bytes:
        """The 32-byte root of the trace."""
        return self.levels[-1][0]

    @property
    def roots(self) -> Sequence[bytes]:
        """The 32-byte root of each buffer's tree, in order."""
        return self.known or self.levels[0]

    def open_root(self, buffer: int) -> list[bytes]:
        """Returns the path from a buffer's root to the trace root. Raises InvalidInput if there is no such
        buffer."""
        return compute_path(self.levels, buffer)

    def open_run(self, buffer: int, first_element: int, count: int) -> tuple[bytes, list[bytes]]:
        """Returns the whole leaves that hold `count` >= 1 elements from `first_element` on, and their
        siblings (`merkle_ranges.compute_range_path`). Raises InvalidInput if the buffer has no such elements,
        or has changed since it was hashed."""
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
        if tree.root != self.roots[buffer]:  # Another node may have hashed NaN with other bits.
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
    """Returns the tree of one buffer, in leaves of its size. Indices are uint32. Each NaN is
    `exact_elementwise.NAN`, or keeps its bits if another node has shown it. Raises InvalidInput if the tensor
    does not fit the program."""
    tensor = fetch_buffer(program, get, number)
    if program.buffers[number].role in INDEX_ROLES:
        require_index(tensor, INDEX_LIMIT)
        tensor = _take_low_halves(tensor)
    elif not is_shown and tensor.dtype == torch.float32 and bool((is_nan := tensor.isnan()).any()):
        tensor = tensor.view(torch.int32).masked_fill(is_nan, NAN)
    return build_byte_tree(tensor_bytes(tensor), leaf_bytes(program, number))


def _take_low_halves(indices: Tensor) -> Tensor:
    """Converts int64 to uint32, stored as int32; memory is little-endian. Always copies, because PyTorch
    calls a tensor of one element contiguous even if its stride is 2."""
    return indices.view(torch.int32)[::2].clone(memory_format=torch.contiguous_format)
