"""Computes the trees over a blob's chunks: roots of chunks, the blob's root, leaves with paths.

A blob is cut into chunks of some leaves, whose subtrees are hashed one by one. Nothing is checked here.
"""

from collections.abc import Iterable, Iterator, Sequence

from touchstone.protocol.adapters.store.blobs import CHUNK_DEPTH, ROOT_BYTES, BlobKind, BlobRef
from touchstone.protocol.spec import merkle
from touchstone.protocol.spec.openings import LeafProof
from touchstone.protocol.spec.params import ZERO_WORD


def hash_chunk(chunk: bytes, ref: BlobRef) -> bytes:
    """Returns the root of the subtree over one chunk (the last one of a blob may be shorter). If the blob has
    several chunks, zero padding brings it to full depth; else this is the root of the whole tree."""
    leaves = split_roots(chunk) if ref.key.kind is BlobKind.ROOTS else _hash_leaves(chunk, ref)
    root = merkle.compute_root(leaves)
    if ref.chunk_count == 1:
        return root
    for level in range(merkle.compute_depth(len(leaves)), ref.key.kind.chunk_depth):
        root = merkle.hash_node(root, _EMPTY_SUBTREES[level])
    return root


def _hash_leaves(chunk: bytes, ref: BlobRef) -> list[bytes]:
    leaf_bytes = ref.key.kind.leaf_bytes
    pieces = [chunk[start : start + leaf_bytes] for start in range(0, len(chunk), leaf_bytes)]
    pieces[-1] = pieces[-1].ljust(leaf_bytes, b"\0")
    return [merkle.hash_leaf(piece) for piece in pieces]


def split_roots(data: bytes) -> list[bytes]:
    """Splits `data` into its roots."""
    return [data[start : start + ROOT_BYTES] for start in range(0, len(data), ROOT_BYTES)]


def stack_chunk(chunk: bytes, ref: BlobRef) -> merkle.Levels:
    """Returns all levels of the subtree over one chunk, with padding if the blob has several chunks."""
    leaves = _hash_leaves(chunk, ref)
    if ref.chunk_count > 1:
        leaves += [ZERO_WORD] * (ref.key.kind.chunk_leaves - len(leaves))
    return merkle.stack_levels(leaves)


def get_chunk_level(levels: merkle.Levels, kind: BlobKind) -> Sequence[bytes]:
    """Returns the roots of the chunks of a tree over a blob of this kind."""
    return levels[min(kind.chunk_depth, len(levels) - 1)]


def fold_chunks(chunk_roots: Sequence[bytes], kind: BlobKind) -> bytes:
    """Returns the root of the tree over a blob of this kind whose chunks have these roots (at least one)."""
    growing = merkle.GrowingRoot(_EMPTY_SUBTREES[kind.chunk_depth])
    for root in chunk_roots:
        growing.add(root)
    return growing.finish()


def open_leaves(
    ref: BlobRef, chunk_roots: Sequence[bytes], chunk: bytes, indices: Iterable[int]
) -> Iterator[LeafProof]:
    """Returns leaves of one chunk, padding included, with their paths, from the chunk and all chunk roots. It
    checks nothing."""
    kind = ref.key.kind
    size, padding = kind.leaf_bytes, _EMPTY_SUBTREES[kind.chunk_depth]
    levels = merkle.compute_levels(_hash_leaves(chunk, ref))
    above = merkle.stack_levels(chunk_roots, padding)
    for index in indices:
        number, within = divmod(index, kind.chunk_leaves)
        path = merkle.compute_path(levels, within)
        if len(chunk_roots) > 1:
            path += _EMPTY_SUBTREES[len(path) : kind.chunk_depth]
            path += merkle.compute_path(above, number, padding)
        leaf = chunk[within * size : (within + 1) * size]
        yield LeafProof(leaf.ljust(size, b"\0"), tuple(path))


def _list_empty_subtrees() -> tuple[bytes, ...]:
    roots = [ZERO_WORD]
    for _ in range(CHUNK_DEPTH):
        roots.append(merkle.hash_node(roots[-1], roots[-1]))
    return tuple(roots)


_EMPTY_SUBTREES = _list_empty_subtrees()
