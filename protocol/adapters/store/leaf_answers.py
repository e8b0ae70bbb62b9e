"""Encodes and decodes answers to requests for leaves: runs of leaves with their proofs.

An answer says which of the runs it has, one bit for each, and then gives those: leaves, then siblings
(docs/spec.md, section 1). Its length follows from the bits.
"""

from collections.abc import Iterator, Mapping, Sequence

from touchstone.protocol.adapters.store.blobs import BlobRef
from touchstone.protocol.adapters.store.chunk_trees import split_roots
from touchstone.protocol.adapters.store.leaf_runs import LeafRun, get_depth, measure_bits, measure_run
from touchstone.protocol.spec import merkle, merkle_ranges
from touchstone.protocol.spec.errors import ProtocolFault
from touchstone.protocol.spec.openings import LeafProof


def encode_answer(ref: BlobRef, runs: Sequence[LeafRun], known: Mapping[int, LeafProof]) -> bytes:
    """Returns the answer to a request. `leaves` are by number, with paths up to the root of their chunk. A
    run is left out if one of its leaves is missing."""
    bits, pieces = 0, list[bytes]()
    for number, run in enumerate(runs):
        if all(leaf in known for leaf in run.leaves):
            bits |= 1 << number
            pieces += [known[leaf].data for leaf in run.leaves]
            pieces += _join_paths(ref, run, known[run.first].path, known[run.last].path)
    return bits.to_bytes(measure_bits(len(runs)), "little") + b"".join(pieces)


def _join_paths(ref: BlobRef, run: LeafRun, left: Sequence[bytes], right: Sequence[bytes]) -> Iterator[bytes]:
    """Yields the siblings of a run (`merkle_ranges.compute_range_path`), from the paths of its first and last
    leaf."""
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
    """Returns the leaves of an answer by number, all proven, each with its path to the root of its chunk.
    Raises ProtocolFault, with `source` as culprit, if a leaf is wrong or the length does not fit."""
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
    root = merkle_ranges.fold_range(hashes, within, depth, path)
    if root != chunk_roots[number]:
        raise _refuse(ref, chunk_roots[number].hex(), (root or b"").hex(), source, f"leaf {run.first}")
    paths = merkle_ranges.spread_range(hashes, within, depth, path)
    return {leaf: LeafProof(one, own) for leaf, one, own in zip(run.leaves, leaves, paths, strict=True)}


def _refuse(ref: BlobRef, expected: str, actual: str, source: str, where: str = "") -> ProtocolFault:
    return ProtocolFault(
        what="leaves that are not the blob's",
        expected=expected,
        actual=actual,
        where=f"{ref.key} {where}".strip(),
        culprit=source,
        remedy="The node ignores this answer, and asks another peer.",
    )
