"""Keeps the trace of this node's own step in the store: its buffers and their layout."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobRef, refer_trace_tensor
from touchstone.protocol.adapters.store.chunk_trees import get_chunk_level
from touchstone.protocol.compute.program.planning.arena import SHOWN_TYPES
from touchstone.protocol.compute.program.tensor_allocator import relax, view_mapped
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.merkle import Levels
from touchstone.protocol.spec.program import ELEMENT_BYTES, INDEX_ROLES, Program, Role, leaf_bytes


@dataclass(frozen=True)
class TraceBuffer:
    """A buffer as a trace stores it: `elements` numbers in a tree with leaves of `leaf_bytes`. `role` says
    what the numbers are: float32, uint32 indices or quantized integers."""

    elements: int
    leaf_bytes: int
    role: Role = Role.TENSOR

    @property
    def size_bytes(self) -> int:
        """The length in bytes, without the padding of the last leaf."""
        return ELEMENT_BYTES[self.role] * self.elements

    @property
    def leaf_count(self) -> int:
        """The number of leaves of the tree."""
        return -(-self.size_bytes // self.leaf_bytes)


TraceLayout = Sequence[TraceBuffer]
"""All buffers of a program, in order."""


def describe_layout(program: Program) -> TraceLayout:
    """Returns the buffers of a program as its traces hold them."""
    return [
        TraceBuffer(buffer.size, leaf_bytes(program, number), buffer.role)
        for number, buffer in enumerate(program.buffers)
    ]


class TraceKeeper:
    """Puts the trace of a step into the store: its tensors in any order, at last the list of roots."""

    def __init__(self, store: BlobStore, layout: TraceLayout, roots: Mapping[int, bytes]) -> None:
        """Begins a trace. `roots` are known already, by buffer: those of constants, the same for every node,
        and others. Raises EnvironmentFault if the disk refuses the trace."""
        store.require_space(sum(buffer.size_bytes for buffer in layout), "the trace of a step")
        self._store = store
        self._layout = layout
        self._roots = dict(roots)

    def keep(self, number: int, data: bytes | memoryview, levels: Levels) -> None:
        """Keeps one tensor: its little-endian elements and all levels of its tree. Raises InvalidInput if it
        does not fit the layout, or has another root than the known one."""
        _require_fit(self._layout, number, data, levels)
        root, buffer = levels[-1][0], self._layout[number]
        if self._roots.setdefault(number, root) != root:
            known = self._roots[number].hex()
            raise _misfit("a tensor of the trace has another root", known, root.hex(), number)
        ref = refer_trace_tensor(root, buffer.size_bytes, buffer.leaf_bytes)
        self._store.put_hashed(ref, data, get_chunk_level(levels, ref.key.kind))
        relax()

    def finish(self) -> bytes:
        """Keeps the list of roots, and returns the trace root. Raises InvalidInput if a buffer has no
        root."""
        roots, count = self._roots, len(self._layout)
        if roots.keys() != set(range(count)):
            missing = next((n for n in range(count) if n not in roots), count)
            raise _misfit("a trace has a root for each buffer", count, len(roots), missing)
        return self._store.put_roots([roots[number] for number in range(count)]).key.root


def load_buffer(store: BlobStore, root: bytes, buffer: TraceBuffer) -> Tensor:
    """Returns a buffer of a kept trace, flat: float32, int64 for indices, or int8, int16 or int32 for
    quantized values. Raises InvalidInput if it is missing, EnvironmentFault if it is damaged."""
    mapped = store.open_map(refer_buffer(root, buffer))
    if buffer.role in INDEX_ROLES:
        return torch.from_numpy(np.frombuffer(mapped, dtype="<u4").astype(np.int64))
    return view_mapped(mapped, SHOWN_TYPES.get(buffer.role, torch.float32))


def _require_fit(layout: TraceLayout, number: int, data: bytes | memoryview, levels: Levels) -> None:
    if not 0 <= number < len(layout):
        raise _misfit("the trace has no such buffer", f"a number below {len(layout)}", number, number)
    buffer = layout[number]
    expected = f"{buffer.size_bytes} bytes in {buffer.leaf_count} leaves"
    actual = f"{len(data)} bytes in {len(levels[0])} leaves"
    if actual != expected:
        raise _misfit("a tensor of the trace has the wrong length", expected, actual, number)


def _misfit(what: str, expected: object, actual: object, number: int) -> InvalidInput:
    return InvalidInput(
        what=what,
        expected=expected,
        actual=actual,
        where=f"buffer {number}",
        remedy="Take buffers, lengths and constants from the task's program.",
    )


def refer_buffer(root: bytes, buffer: TraceBuffer) -> BlobRef:
    """Returns the reference of a buffer of a trace in a store."""
    return refer_trace_tensor(root, buffer.size_bytes, buffer.leaf_bytes)
