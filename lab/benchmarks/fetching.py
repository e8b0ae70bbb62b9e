"""Computes how many bytes a node fetches of a dataset for each byte that its samples hold.

    python -m lab.benchmarks.fetching

Samples are drawn as the protocol draws them; requests are cut as nodes cut them. Nothing is sent: the length
of an answer follows from what is asked.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from touchstone.protocol.adapters.store.blobs import ROOT_BYTES, BlobKey, BlobKind, BlobRef
from touchstone.protocol.adapters.store.leaf_runs import list_runs, measure_most, split_requests
from touchstone.protocol.spec.params import LEAF_BYTES
from touchstone.protocol.spec.shard_draws import draw_sample_start

TOKEN_BYTES = 2
DATASET_BYTES = 1_000_000_000
BEACON = sha256(b"fetching").digest()


@dataclass(frozen=True)
class Share:
    """Bytes for some steps. `held` are in the samples, `touched` in the leaves that the samples touch,
    `fetched` includes the proofs. `index` are the roots of the chunks, fetched once a task."""

    held: int
    touched: int
    fetched: int
    index: int


def measure(row_tokens: int, rows: int, steps: int, dataset_bytes: int = DATASET_BYTES) -> Share:
    """Returns what a node without any of the dataset fetches for these steps."""
    ref = BlobRef(BlobKey(BlobKind.DATASET, bytes(31) + b"\1"), dataset_bytes)
    size, leaves = TOKEN_BYTES * (row_tokens + 1), set[int]()
    for start in _list_starts(row_tokens, rows, steps, dataset_bytes // TOKEN_BYTES):
        first = start * TOKEN_BYTES
        leaves |= set(range(first // LEAF_BYTES, (first + size - 1) // LEAF_BYTES + 1))
    fetched = sum(measure_most(ref, runs) for runs in split_requests(list_runs(ref, leaves)))
    return Share(size * rows * steps, LEAF_BYTES * len(leaves), fetched, ROOT_BYTES * ref.chunk_count)


def _list_starts(row_tokens: int, rows: int, steps: int, tokens: int) -> Iterator[int]:
    for step in range(steps):
        for row in range(rows):
            yield draw_sample_start(BEACON, 0, step, row, tokens, row_tokens)


def main() -> None:
    """Prints a table."""
    print(
        "row tokens  rows  steps  dataset MB   held KB  touched/held  fetched/touched  fetched/held  index KB"
    )
    for row_tokens, rows, steps, size in (
        (256, 1, 10, DATASET_BYTES),
        (256, 1, 1_000, DATASET_BYTES),
        (256, 1, 40_000, 20_000_000),
        (256, 8, 40_000, 20_000_000),
        (1024, 8, 100, DATASET_BYTES),
        (2048, 8, 100, DATASET_BYTES),
        (4096, 8, 100, DATASET_BYTES),
    ):
        share = measure(row_tokens, rows, steps, size)
        ratios = (share.touched / share.held, share.fetched / share.touched, share.fetched / share.held)
        print(
            f"{row_tokens:10} {rows:5} {steps:6} {size / 1e6:11,.0f} {share.held / 1e3:9,.0f}"
            f"{ratios[0]:14.2f}{ratios[1]:17.3f}{ratios[2]:14.2f}{share.index / 1e3:10,.0f}"
        )


if __name__ == "__main__":
    main()
