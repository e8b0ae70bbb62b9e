"""Hashed bytes into the store; its tensors and training states, looked at whole or piece by piece."""

from dataclasses import dataclass

import torch
from torch import Tensor

from protocol.adapters.blobs import BlobKey, BlobKind, BlobRef, get_chunk_level
from protocol.adapters.files import read_piece
from protocol.adapters.store import BlobStore
from protocol.compute.digest import ByteTree, tensor_bytes
from protocol.compute.program.step import TrainingState
from protocol.compute.program.tensor_allocator import relax, view_mapped
from protocol.spec.containers import StateHeader


def keep_tree(store: BlobStore, kind: BlobKind, tree: ByteTree) -> BlobRef:
    """Keep the bytes under a tree that was just built over them, without hashing them a second time. Raises
    as `BlobStore.put_hashed` does."""
    ref = BlobRef(BlobKey(kind, tree.root), len(tree.data))
    store.put_hashed(ref, tree.data, get_chunk_level(tree.levels, kind))
    relax()
    return ref


def load_tensor(store: BlobStore, ref: BlobRef) -> Tensor:
    """A flat finite float32 vector from the store, where its bytes stay: it is not to be written to. Raises
    InvalidInput where it is not there, EnvironmentFault where it is damaged."""
    return view_mapped(store.open_map(ref))


@dataclass(frozen=True)
class StoredTensor:
    """A flat finite float32 vector of the store, of which this process holds the pieces that it asks for."""

    mapped: memoryview

    @property
    def elements(self) -> int:
        """How many there are."""
        return len(self.mapped) // 4

    def cut(self, start: int, stop: int) -> Tensor:
        """A copy of elements start .. stop; fewer at the end, as a slice has."""
        piece = torch.empty(max(0, min(stop, self.elements) - start))
        read_piece(self.mapped, 4 * start, tensor_bytes(piece))
        return piece


def open_tensor(store: BlobStore, ref: BlobRef) -> StoredTensor:
    """A vector that is looked at piece by piece. Raises as `load_tensor` does."""
    return StoredTensor(store.open_map(ref))


@dataclass(frozen=True)
class StoredState:
    """A state in the store, of which this process holds the pieces that it asks for: a `PiecewiseState`."""

    header: StateHeader
    tensors: tuple[StoredTensor, ...]
    """W, m, v."""

    @property
    def local_step(self) -> int:
        """Steps since m and v were zero."""
        return self.header.local_step

    @property
    def global_step(self) -> int:
        """Steps in the task."""
        return self.header.global_step

    @property
    def elements(self) -> int:
        """Of each vector."""
        return self.tensors[0].elements

    def cut(self, start: int, stop: int) -> TrainingState:
        """A copy of elements start .. stop of each vector."""
        weights, first, second = (tensor.cut(start, stop) for tensor in self.tensors)
        return TrainingState(weights, first, second, self.local_step, self.global_step)
