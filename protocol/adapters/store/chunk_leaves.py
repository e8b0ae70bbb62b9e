"""Cuts single leaves of a dataset out of their chunks, and checks them against the chunk's root."""

from collections.abc import Iterable, Sequence
from typing import overload

from touchstone.protocol.adapters.store.blobs import ROOT_BYTES, BlobRef
from touchstone.protocol.adapters.store.chunk_trees import stack_chunk
from touchstone.protocol.adapters.store.leaf_runs import get_depth
from touchstone.protocol.spec import merkle
from touchstone.protocol.spec.openings import LeafProof


class RootList(Sequence[bytes]):
    """32-byte roots, one after the other in `data`, without an object for each."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data) // ROOT_BYTES

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...

    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        place = range(len(self))[index] * ROOT_BYTES
        return self.data[place : place + ROOT_BYTES]


def cut_chunk(ref: BlobRef, number: int, chunk: bytes, leaves: Iterable[int]) -> dict[int, LeafProof]:
    """Returns leaves of one chunk by their number in the blob, each with its path to the chunk's root. It
    checks nothing."""
    kind, levels = ref.key.kind, stack_chunk(chunk, ref)
    size, first = kind.leaf_bytes, number * kind.chunk_leaves
    return {
        leaf: LeafProof(
            chunk[(leaf - first) * size : (leaf - first + 1) * size].ljust(size, b"\0"),
            tuple(merkle.compute_path(levels, leaf - first)),
        )
        for leaf in leaves
    }


def is_proven(ref: BlobRef, index: int, proof: LeafProof, chunk_roots: Sequence[bytes]) -> bool:
    """Returns whether a leaf with its path inside its chunk belongs to the blob."""
    number, within = divmod(index, ref.key.kind.chunk_leaves)
    is_long = len(proof.path) == get_depth(ref)
    return (
        is_long and merkle.fold_path(merkle.hash_leaf(proof.data), within, proof.path) == chunk_roots[number]
    )
