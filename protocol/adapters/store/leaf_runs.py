"""Runs of a dataset's leaves: how a node asks for leaves.

A run is some leaves of one chunk that follow each other. Who asks knows the roots of all chunks, so a proof
needs the siblings inside the chunk alone: five at most for one leaf. How long an answer is follows from the
runs that it has (`leaf_answers.py`).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from touchstone.protocol.adapters.store.blobs import ROOT_BYTES, BlobRef
from touchstone.protocol.spec import merkle
from touchstone.protocol.spec.errors import InvalidInput

MAX_RUNS = 128
"""in one request"""
MAX_LEAVES = 1024
"""in one request: 1 MiB"""
MAX_TEXT = MAX_RUNS * 26
"""characters of a request's runs"""
_RUN = re.compile(r"([0-9a-f]{1,12})-([0-9a-f]{1,12})")


@dataclass(frozen=True, order=True)
class LeafRun:
    """Leaves first .. last (inclusive) of a blob."""

    first: int
    last: int

    @property
    def leaves(self) -> range:
        """Their numbers."""
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
    """Yields the runs in requests of at most MAX_RUNS runs and MAX_LEAVES leaves."""
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
    """Returns runs as a request holds them: `1f-20,3c-3c`, hexadecimal."""
    return ",".join(f"{run.first:x}-{run.last:x}" for run in runs)


def parse_runs(text: str, ref: BlobRef) -> list[LeafRun]:
    """Returns the runs of a request. Raises InvalidInput for a malformed one, for too many, and for leaves
    that the blob does not have or that lie in two chunks."""
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
        what="no runs of leaves",
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
    """Counts the siblings of a run inside its chunk."""
    first, last, count = run.first % ref.key.kind.chunk_leaves, run.last % ref.key.kind.chunk_leaves, 0
    for _ in range(get_depth(ref)):
        count += (first & 1) + (~last & 1)
        first, last = first >> 1, last >> 1
    return count


def measure_run(ref: BlobRef, run: LeafRun) -> int:
    """Returns the length of a run in an answer, in bytes, proof included."""
    return len(run.leaves) * ref.key.kind.leaf_bytes + ROOT_BYTES * count_siblings(ref, run)


def measure_bits(count: int) -> int:
    """Returns the length of the start of an answer, in bytes. These bytes say which of `count` runs
    follow."""
    return -(-count // 8)


def measure_most(ref: BlobRef, runs: Sequence[LeafRun]) -> int:
    """Returns the length of an answer that has all of these runs, in bytes."""
    return measure_bits(len(runs)) + sum(measure_run(ref, run) for run in runs)
