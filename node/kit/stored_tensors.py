"""Reads tensors and states of a node's store, whole or piece by piece."""

from dataclasses import dataclass

import torch
from torch import Tensor

from touchstone.protocol.adapters.files.mapped_files import read_piece
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind, BlobRef
from touchstone.protocol.adapters.store.chunk_trees import get_chunk_level
from touchstone.protocol.compute.digest import ByteTree, StateTrees, tensor_bytes
from touchstone.protocol.compute.program.tensor_allocator import relax, view_mapped
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.spec.state_headers import StateHeader

FETCHED_BYTES = 1 << 30
"""The most bytes of other nodes' traces on disk at a time, unless told otherwise."""


def keep_tree(store: BlobStore, kind: BlobKind, tree: ByteTree, *, is_cached: bool = True) -> BlobRef:
    """Puts a tree's bytes into the store without hashing them again. Raises as `BlobStore.put_hashed`
    does."""
    ref, roots = BlobRef(BlobKey(kind, tree.root), len(tree.data)), get_chunk_level(tree.levels, kind)
    store.put_hashed(ref, tree.data, roots, is_cached=is_cached)
    relax()
    return ref


def keep_state_trees(store: BlobStore, trees: StateTrees, *, is_cached: bool = True) -> None:
    """Puts the tensors of a state that was just hashed into the store. Raises as `BlobStore.put_hashed`
    does."""
    for tree in (trees.weights, trees.first_moment, trees.second_moment):
        keep_tree(store, BlobKind.TENSOR, tree, is_cached=is_cached)


def load_tensor(store: BlobStore, ref: BlobRef) -> Tensor:
    """Returns a flat finite float32 vector, mapped from the store: do not write to it. Raises InvalidInput if
    it is missing, EnvironmentFault if it is damaged."""
    return view_mapped(store.open_map(ref))


@dataclass(frozen=True)
class StoredTensor:
    """A flat finite float32 vector of the store, of which only the requested pieces are read."""

    mapped: memoryview

    @property
    def elements(self) -> int:
        """The number of elements."""
        return len(self.mapped) // 4

    def cut(self, start: int, stop: int) -> Tensor:
        """Returns a copy of elements start .. stop, or fewer at the end."""
        piece = torch.empty(max(0, min(stop, self.elements) - start))
        read_piece(self.mapped, 4 * start, tensor_bytes(piece))
        return piece


def open_tensor(store: BlobStore, ref: BlobRef) -> StoredTensor:
    """Opens a vector to read it piece by piece. Raises as `load_tensor` does."""
    return StoredTensor(store.open_map(ref))


@dataclass(frozen=True)
class StoredState:
    """A state in the store, of which only the requested pieces are read: a `PiecewiseState`."""

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
        """The number of elements of each vector."""
        return self.tensors[0].elements

    def cut(self, start: int, stop: int) -> TrainingState:
        """Returns a copy of elements start .. stop of each vector."""
        weights, first, second = (tensor.cut(start, stop) for tensor in self.tensors)
        return TrainingState(weights, first, second, self.local_step, self.global_step)
