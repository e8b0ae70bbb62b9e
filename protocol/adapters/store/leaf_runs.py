"""Defines runs of a dataset's leaves, by which a node asks for leaves.

A run is successive leaves of one chunk. The asker knows all chunk roots, so a proof needs only siblings
inside the chunk: five at most for one leaf. The length of an answer follows from its runs
(`leaf_answers.py`).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from touchstone.protocol.adapters.store.blobs import ROOT_BYTES, BlobRef
from touchstone.protocol.spec import merkle
from touchstone.protocol.spec.errors import InvalidInput

MAX_RUNS = 128
"""The most runs in one request."""
MAX_LEAVES = 1024
"""The most leaves in one request: 1 MiB."""
MAX_TEXT = MAX_RUNS * 26
"""The most characters of a request's runs."""
_RUN = re.compile(r"([0-9a-f]{1,12})-([0-9a-f]{1,12})")


@dataclass(frozen=True, order=True)
class LeafRun:
    """The leaves first .. last of a blob, both included."""

    first: int
    last: int

    @property
    def leaves(self) -> range:
        """The numbers of the leaves."""
        return range(self.first, self.last + 1)


def list_runs(ref: BlobRef, leaves: Iterable[int]) -> list[LeafRun]:
    """Returns the fewest runs that hold exactly these leaves, ascending. No run crosses the border of a
    chunk."""
    runs: list[LeafRun] = []
    for leaf in sorted(set(leaves)):
        is_next = bool(runs) and leaf == runs[-1].last + 1 and leaf % ref.key.kind.chunk_leaves
        if is_next:
            runs[-1] = LeafRun(runs[-1].first, leaf)
        else:
            runs.append(LeafRun(leaf, leaf))
    return runs


def split_requests(runs: Iterable[LeafRun]) -> Iterator[list[LeafRun]]:
    """Splits the runs into requests of at most MAX_RUNS runs and MAX_LEAVES leaves."""
    part: list[LeafRun] = []
    size = 0
    for run in runs:
        if part and (len(part) == MAX_RUNS or size + len(run.leaves) > MAX_LEAVES):
            yield part
            part, size = [], 0
        part.append(run)
        size += len(run.leaves)
    if part:
        yield part


def format_runs(runs: Sequence[LeafRun]) -> str:
    """Returns runs as a request writes them: `1f-20,3c-3c`, in hex."""
    return ",".join(f"{run.first:x}-{run.last:x}" for run in runs)


def parse_runs(text: str, ref: BlobRef) -> list[LeafRun]:
    """Returns the runs of a request. Raises InvalidInput if it is malformed, has too many runs, or names
    leaves that do not exist or lie in two chunks."""
    parts = text[: MAX_TEXT + 1].split(",") if text else []
    found = [_RUN.fullmatch(part) for part in parts]
    runs = [LeafRun(int(one[1], 16), int(one[2], 16)) for one in found if one]
    most, size = count_leaves(ref) - 1, ref.key.kind.chunk_leaves
    is_good = all(
        run.first <= run.last <= most and run.first // size == run.last // size for run in runs
    ) and len(runs) == len(parts)
    if not is_good or not 1 <= len(runs) <= MAX_RUNS or sum(len(run.leaves) for run in runs) > MAX_LEAVES:
        raise _no_runs(text, most, size, ref)
    return runs


def _no_runs(text: str, most: int, size: int, ref: BlobRef) -> InvalidInput:
    return InvalidInput(
        what="these runs of leaves cannot be served",
        expected=f"1 to {MAX_RUNS} runs FIRST-LAST of leaves 0 to {most} (hexadecimal), at most "
        f"{MAX_LEAVES} leaves, each run inside {size} leaves",
        actual=text[:80],
        where=str(ref.key),
        remedy="Ask for fewer leaves, and only for those that the blob has.",
    )


def count_leaves(ref: BlobRef) -> int:
    """Returns the number of leaves of the blob's tree."""
    return -(-ref.size_bytes // ref.key.kind.leaf_bytes)


def get_depth(ref: BlobRef) -> int:
    """Returns the number of levels between a leaf and the root of its chunk."""
    return ref.key.kind.chunk_depth if ref.chunk_count > 1 else merkle.compute_depth(count_leaves(ref))


def count_siblings(ref: BlobRef, run: LeafRun) -> int:
    """Returns the number of a run's siblings inside its chunk."""
    first, last, count = run.first % ref.key.kind.chunk_leaves, run.last % ref.key.kind.chunk_leaves, 0
    for _ in range(get_depth(ref)):
        count += (first & 1) + (~last & 1)
        first, last = first >> 1, last >> 1
    return count


def measure_run(ref: BlobRef, run: LeafRun) -> int:
    """Returns the bytes of a run in an answer, proof included."""
    return len(run.leaves) * ref.key.kind.leaf_bytes + ROOT_BYTES * count_siblings(ref, run)


def measure_bits(count: int) -> int:
    """Returns the bytes at the start of an answer that say which of `count` runs follow."""
    return -(-count // 8)


def measure_most(ref: BlobRef, runs: Sequence[LeafRun]) -> int:
    """Returns the bytes of an answer that has all of these runs."""
    return measure_bits(len(runs)) + sum(measure_run(ref, run) for run in runs)
