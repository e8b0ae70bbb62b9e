"""Finds leaves of a dataset that this node can show: in the whole dataset, or among kept parts."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import ParamSpec, TypeVar

from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind, BlobRef
from touchstone.protocol.adapters.store.chunk_leaves import RootList, cut_chunk, is_proven
from touchstone.protocol.adapters.store.leaf_answers import encode_answer
from touchstone.protocol.adapters.store.leaf_runs import LeafRun
from touchstone.protocol.adapters.store.part_store import Outline, PartStore
from touchstone.protocol.spec.openings import LeafProof

Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")
_THREADS = ThreadPoolExecutor(4, "leaves")


async def run_apart(
    work: Callable[Arguments, Found], *arguments: Arguments.args, **named: Arguments.kwargs
) -> Found:
    """Runs `work` in a separate pool of threads, and returns its result. The threads of asyncio may all be
    computing steps that wait for leaves, so fetching leaves must not need one of them."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, partial(work, *arguments, **named))


@dataclass(frozen=True)
class LeafSource:
    """The places in which a node has leaves. `store` has whole datasets; `parts` has single leaves of others,
    None if there are none."""

    store: BlobStore
    parts: PartStore | None = None
    _whole: dict[BlobKey, Outline] = field(default_factory=dict)

    def has_parts(self, key: BlobKey) -> bool:
        """Returns whether leaves of this dataset may be here although the whole dataset is not."""
        return self._find_kept(key) is not None

    def _find_kept(self, key: BlobKey) -> Outline | None:
        is_known = self.parts is not None and key.kind is BlobKind.DATASET
        return self.parts.find_outline(key.root) if is_known and self.parts else None

    def find_outline(self, key: BlobKey) -> Outline | None:
        """Returns the length and chunk roots of a dataset; None if nothing of it is here."""
        size = self.store.get_size_bytes(key)
        if size is None:
            return self._find_kept(key)
        if key not in self._whole:
            ref, roots = BlobRef(key, size), RootList(self.store.get_chunk_roots(key))
            self._whole[key] = Outline(ref, roots if len(roots) else (key.root,))
        return self._whole[key]

    def get_chunk_roots(self, key: BlobKey) -> bytes:
        """Returns the roots of a blob's chunks, concatenated; empty if unknown."""
        kept = None if self.store.get_size_bytes(key) is not None else self._find_kept(key)
        return self.store.get_chunk_roots(key) if kept is None else b"".join(kept.chunk_roots)

    def answer(self, outline: Outline, runs: Sequence[LeafRun]) -> bytes:
        """Returns the answer to a request (`leaf_runs`). It leaves out leaves that are missing or damaged."""
        leaves = [leaf for run in runs for leaf in run.leaves]
        return encode_answer(outline.ref, runs, self.read(outline, leaves))

    def read(self, outline: Outline, leaves: Iterable[int], kept_until: int = 0) -> dict[int, LeafProof]:
        """Returns the requested leaves that are here, by number, proven, each with its path inside its chunk.
        Single leaves stay until block `kept_until`."""
        ref = outline.ref
        if self.store.has(ref) and len(outline.chunk_roots) == ref.chunk_count:
            return self._read_whole(outline, leaves)
        return {} if self.parts is None else self.parts.get(ref.key.root, leaves, kept_until)

    def _read_whole(self, outline: Outline, leaves: Iterable[int]) -> dict[int, LeafProof]:
        ref, found = outline.ref, dict[int, LeafProof]()
        wanted: dict[int, list[int]] = {}
        for leaf in leaves:
            wanted.setdefault(leaf // ref.key.kind.chunk_leaves, []).append(leaf)
        for number, inside in wanted.items():
            place = ref.locate_chunks(range(number, number + 1))
            chunk = b"".join(self.store.open_range(ref.key, place.start, place.stop))
            cut = cut_chunk(ref, number, chunk, inside)
            # If one leaf fits, all of the chunk is right.
            if is_proven(ref, inside[0], cut[inside[0]], outline.chunk_roots):
                found |= cut
        return found
