"""Runs of a dataset's leaves with their proofs: how a node asks for them and how they are sent.

A run is some leaves of one chunk that follow each other. Who asks knows the roots of all chunks, so a proof
needs the siblings inside the chunk alone: five at most for one leaf. An answer says which of the runs it has,
one bit for each, and then gives those: leaves, then siblings (docs/spec.md, section 1). Its length follows
from the bits.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

from touchstone.protocol.adapters.blobs import ROOT_BYTES, BlobRef, split_roots, stack_chunk
from touchstone.protocol.spec import merkle
from touchstone.protocol.spec.containers import LeafProof
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault

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
    """The fewest runs that hold these leaves and no others, rising; no run crosses the border of a chunk."""
    runs: list[LeafRun] = []
    for leaf in sorted(set(leaves)):
        is_next = bool(runs) and leaf == runs[-1].last + 1 and leaf % ref.key.kind.chunk_leaves
        if is_next:
            runs[-1] = LeafRun(runs[-1].first, leaf)
        else:
            runs.append(LeafRun(leaf, leaf))
    return runs


def split_requests(runs: Iterable[LeafRun]) -> Iterator[list[LeafRun]]:
    """The runs in requests of MAX_RUNS and MAX_LEAVES at most."""
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
    """As they stand in a request: `1f-20,3c-3c`, hexadecimal."""
    return ",".join(f"{run.first:x}-{run.last:x}" for run in runs)


def parse_runs(text: str, ref: BlobRef) -> list[LeafRun]:
    """The runs of a request. Raises InvalidInput for a malformed one, for too many, and for leaves that the
    blob does not have or that lie in two chunks."""
    parts = text[: MAX_TEXT + 1].split(",") if text else []
    found = [_RUN.fullmatch(part) for part in parts]
    runs = [LeafRun(int(one[1], 16), int(one[2], 16)) for one in found if one]
    most, size = count_leaves(ref) - 1, ref.key.kind.chunk_leaves
    is_good = all(
        run.first <= run.last <= most and run.first // size == run.last // size for run in runs
    ) and len(runs) == len(parts)
    if not is_good or not 1 <= len(runs) <= MAX_RUNS or sum(len(run.leaves) for run in runs) > MAX_LEAVES:
        raise InvalidInput(
            what="no runs of leaves",
            expected=f"1 to {MAX_RUNS} runs FIRST-LAST of leaves 0 to {most} (hexadecimal), at most "
            f"{MAX_LEAVES} leaves, each run inside {size} leaves",
            actual=text[:80],
            where=str(ref.key),
            remedy="Ask for fewer leaves, and only for those that the blob has.",
        )
    return runs


def count_leaves(ref: BlobRef) -> int:
    """Leaves of the blob's tree."""
    return -(-ref.size_bytes // ref.key.kind.leaf_bytes)


def get_depth(ref: BlobRef) -> int:
    """Levels between a leaf and the root of its chunk."""
    return ref.key.kind.chunk_depth if ref.chunk_count > 1 else merkle.compute_depth(count_leaves(ref))


def count_siblings(ref: BlobRef, run: LeafRun) -> int:
    """Of a run inside its chunk."""
    first, last, count = run.first % ref.key.kind.chunk_leaves, run.last % ref.key.kind.chunk_leaves, 0
    for _ in range(get_depth(ref)):
        count += (first & 1) + (~last & 1)
        first, last = first >> 1, last >> 1
    return count


def measure_run(ref: BlobRef, run: LeafRun) -> int:
    """Bytes of a run in an answer, proof included."""
    return len(run.leaves) * ref.key.kind.leaf_bytes + ROOT_BYTES * count_siblings(ref, run)


def measure_bits(count: int) -> int:
    """Bytes at the start of an answer that say which of so many runs follow."""
    return -(-count // 8)


def measure_most(ref: BlobRef, runs: Sequence[LeafRun]) -> int:
    """Bytes of an answer that has all of these runs."""
    return measure_bits(len(runs)) + sum(measure_run(ref, run) for run in runs)


class RootList(Sequence[bytes]):
    """32-byte roots that stand one after the other in `data`, without an object for each."""

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


# --- Answers ------------------------------------------------------------------------------------------------
def encode_answer(ref: BlobRef, runs: Sequence[LeafRun], known: Mapping[int, LeafProof]) -> bytes:
    """The answer to a request from leaves by number, whose paths end at the root of their chunk. A run of
    which a leaf is not known is left out."""
    bits, pieces = 0, list[bytes]()
    for number, run in enumerate(runs):
        if all(leaf in known for leaf in run.leaves):
            bits |= 1 << number
            pieces += [known[leaf].data for leaf in run.leaves]
            pieces += _join_paths(ref, run, known[run.first].path, known[run.last].path)
    return bits.to_bytes(measure_bits(len(runs)), "little") + b"".join(pieces)


def _join_paths(ref: BlobRef, run: LeafRun, left: Sequence[bytes], right: Sequence[bytes]) -> Iterator[bytes]:
    """The siblings of a run (`merkle.compute_range_path`), from the paths of its first and last leaf."""
    first, last = run.first % ref.key.kind.chunk_leaves, run.last % ref.key.kind.chunk_leaves
    for level in range(get_depth(ref)):
        if first & 1:
            yield left[level]
        if not last & 1:
            yield right[level]
        first, last = first >> 1, last >> 1


def decode_answer(
    ref: BlobRef, runs: Sequence[LeafRun], chunk_roots: Sequence[bytes], answer: bytes, source: str
) -> dict[int, LeafProof]:
    """The leaves of an answer by number, each with its path to the root of its chunk, all of them proven.
    Raises ProtocolFault, with `source` as culprit, where one is not, or the length is another."""
    start, found = measure_bits(len(runs)), dict[int, LeafProof]()
    bits = int.from_bytes(answer[:start], "little")
    sent = [run for number, run in enumerate(runs) if bits >> number & 1]
    expected = start + sum(measure_run(ref, run) for run in sent)
    if len(answer) != expected or bits >> len(runs):
        raise _refuse(ref, f"{expected} bytes for {len(sent)} runs", f"{len(answer)} bytes", source)
    for run in sent:
        stop = start + measure_run(ref, run)
        found |= _open_run(ref, run, chunk_roots, answer[start:stop], source)
        start = stop
    return found


def _open_run(
    ref: BlobRef, run: LeafRun, chunk_roots: Sequence[bytes], data: bytes, source: str
) -> dict[int, LeafProof]:
    kind, depth = ref.key.kind, get_depth(ref)
    size, stop = kind.leaf_bytes, len(run.leaves) * kind.leaf_bytes
    leaves = [data[start : start + size] for start in range(0, stop, size)]
    hashes, path = [merkle.hash_leaf(leaf) for leaf in leaves], split_roots(data[stop:])
    number, within = divmod(run.first, kind.chunk_leaves)
    root = merkle.fold_range(hashes, within, depth, path)
    if root != chunk_roots[number]:
        raise _refuse(ref, chunk_roots[number].hex(), (root or b"").hex(), source, f"leaf {run.first}")
    paths = merkle.spread_range(hashes, within, depth, path)
    return {leaf: LeafProof(one, own) for leaf, one, own in zip(run.leaves, leaves, paths, strict=True)}


def _refuse(ref: BlobRef, expected: str, actual: str, source: str, where: str = "") -> ProtocolFault:
    return ProtocolFault(
        what="leaves that are not the blob's",
        expected=expected,
        actual=actual,
        where=f"{ref.key} {where}".strip(),
        culprit=source,
        remedy="Nothing of it is used; another peer is asked.",
    )


def cut_chunk(ref: BlobRef, number: int, chunk: bytes, leaves: Iterable[int]) -> dict[int, LeafProof]:
    """Leaves of one chunk by their number in the blob, each with its path to the chunk's root. Nothing is
    judged here."""
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
    """Whether a leaf with its path inside its chunk is the blob's."""
    number, within = divmod(index, ref.key.kind.chunk_leaves)
    is_long = len(proof.path) == get_depth(ref)
    return (
        is_long and merkle.fold_path(merkle.hash_leaf(proof.data), within, proof.path) == chunk_roots[number]
    )
