"""Trees of millions of leaves of which a few are known: words stand for the rest."""

from collections.abc import Callable, Mapping, Sequence

from protocol.spec.merkle import fold_path, fold_range, fold_set, hash_leaf
from tests.rounds.members import make_word

Grown = tuple[bytes, list[bytes]]
"""A root, and the siblings that lead to it."""


def grow(leaf: bytes, index: int, depth: int, *name: object) -> Grown:
    """A tree with this leaf hash in this place."""
    path = [make_word(*name, level) for level in range(depth)]
    return fold_path(leaf, index, path), path


def grow_run(leaves: Sequence[bytes], first: int, depth: int, *name: object) -> Grown:
    """A tree with leaves of these bytes from `first` on."""
    hashes = [hash_leaf(leaf) for leaf in leaves]
    return _find_length(lambda path: fold_range(hashes, first, depth, path), *name)


def grow_set(leaves: Mapping[int, bytes], depth: int, *name: object) -> Grown:
    """A tree with these leaf hashes in these places."""
    return _find_length(lambda path: fold_set(leaves, depth, path), *name)


def _find_length(fold: Callable[[Sequence[bytes]], bytes | None], *name: object) -> Grown:
    """The longest path all of which is used."""
    path: list[bytes] = []
    root = fold(path)
    while (longer := fold([*path, make_word(*name, len(path))])) is not None:
        path.append(make_word(*name, len(path)))
        root = longer
    assert root is not None
    return root, path


def make_noise(count: int, *name: object) -> bytes:
    """Bytes that hardly ever are zero."""
    words = -(-count // 32)
    return b"".join(make_word(*name, i) for i in range(words))[:count]
