"""What does it cost a solver to be answerable, and an auditor to replay?

At the demo's configuration, bare rounds of training alternate with rounds that commit: each boundary copied,
hashed and written to the store by a second thread while training goes on, as nodes do it, then the
pseudo-gradient, the claim's tree, and its transaction on a real Anvil, signed, sent and mined. A replay reads
the start from the store, trains the same steps and keeps its end. Writes build/overhead/report.json.
"""

import argparse
import asyncio
import secrets
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from eth_account import Account

from lab.benchmarks.setting import (
    BUILD,
    INNER_STEPS,
    SEGMENT_STEPS,
    build_demo_schedule,
    build_training,
    open_demo_corpus,
    read_standard_library,
    write_report,
)
from protocol.actions.audit.audit_room import StateShelf
from protocol.actions.runtime.config import share_interpreter
from protocol.adapters.chain.connection import Connection
from protocol.adapters.chain.transactions import MiningPatience, Sender
from protocol.adapters.keys import AccountKey
from protocol.adapters.store import BlobStore
from protocol.compute.determinism import pin_kernels
from protocol.compute.digest import build_delta_tree
from protocol.compute.model.batches import get_batch
from protocol.compute.model.reference_model import init_parameters, parameter_count
from protocol.compute.outer.outer_tensors import encode_delta
from protocol.compute.program.step import GetBatch, TrainingState, begin_round, train_segment
from protocol.spec import codec
from protocol.spec.containers import StateHeader, TrainingSpec
from protocol.spec.statements import compute_carried_root, compute_claim_root, compute_work_leaf
from scripts.devnet import CHAIN_ID, give_coin, run_anvil

COMMIT_CALLDATA_BYTES = 4 + 32 * 6
"""A commitment: task, round, base root, beacon, claim root, number of segments."""
SOLVER = "0x" + "11" * 20
DOMAIN = bytes(32)

P = ParamSpec("P")
R = TypeVar("R")
SendCommit = Callable[[bytes], Awaitable[object]]


@dataclass
class Timings:
    """Wall seconds by round: bare training, training with its commitment; and each replay over its bare
    training."""

    bare: list[float] = field(default_factory=list)
    committed: list[float] = field(default_factory=list)
    replay_ratio: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Bench:
    """What a round needs."""

    spec: TrainingSpec
    get_batch: GetBatch
    shelf: StateShelf
    send_commit: SendCommit
    inner_steps: int
    segment_steps: int


@asynccontextmanager
async def open_commit_sender() -> AsyncIterator[SendCommit]:
    """A call that signs a transaction of a commitment's size and waits until a real Anvil has mined it.

    It goes to a plain account: the contract's own work is the chain's, not the solver's."""
    async with run_anvil(0, BUILD / "overhead" / "anvil.log", block_time_s=0) as rpc_url:
        connection = Connection(rpc_url)
        try:
            key = AccountKey(Account.create())
            await give_coin(connection, key.address, 10**21)
            sender = Sender(connection, key, CHAIN_ID, MiningPatience())
            yield lambda data: sender.send(SOLVER, data, "commit")
        finally:
            await connection.close()


async def run_round(bench: Bench, begin: TrainingState, timings: Timings) -> None:
    """A bare round and the same round with its commitment, either first in turn, then replays of its
    segments. Appends to `timings`."""
    # Solvers find boundary 0 hashed and kept: it is the merged model, with moments of zero.
    first = bench.shelf.keep(begin)
    is_bare_first = len(timings.bare) % 2 == 0
    bare = train_bare(bench, begin) if is_bare_first else []
    started = time.perf_counter()
    headers = await commit_round(bench, begin, first)
    timings.committed.append(time.perf_counter() - started)
    bare = bare or train_bare(bench, begin)
    timings.bare.append(sum(bare))
    for segment, seconds in enumerate(bare):
        _, replayed = measure(replay, bench, headers[segment], segment * bench.segment_steps)
        timings.replay_ratio.append(replayed / seconds)


def train_bare(bench: Bench, state: TrainingState) -> list[float]:
    """Trains a round and throws it away; seconds by segment."""
    seconds = []
    for start in range(0, bench.inner_steps, bench.segment_steps):
        (state, _), took = measure(
            train_segment, state, bench.spec, bench.get_batch, start, bench.segment_steps
        )
        seconds.append(took)
    return seconds


async def commit_round(bench: Bench, begin: TrainingState, first: StateHeader) -> list[StateHeader]:
    """Trains a round, keeps each boundary but the `first` in a second thread, commits; all boundaries'
    headers."""
    state = begin
    with ThreadPoolExecutor(max_workers=1) as keeper:
        kept = []
        for start in range(0, bench.inner_steps, bench.segment_steps):
            state, _ = train_segment(state, bench.spec, bench.get_batch, start, bench.segment_steps)
            kept.append(keeper.submit(bench.shelf.keep, state))
        delta = encode_delta(begin.weights, state.weights)
        headers = [first, *(future.result() for future in kept)]
    await bench.send_commit(make_claim(bench, delta, headers))
    return headers


def measure(call: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> tuple[R, float]:
    """The result of a call and its wall time in seconds."""
    started = time.perf_counter()
    return call(*arguments, **options), time.perf_counter() - started


def make_claim(bench: Bench, delta: bytes, headers: list[StateHeader]) -> bytes:
    """Pseudo-gradient, claim tree and the bytes of the call, as `protocol/actions/merge/training.py`
    makes them."""
    root = build_delta_tree(delta).root
    bench.shelf.store.put_delta(root, delta)
    roots = [codec.compute_state_root(header) for header in headers]
    leaves = [
        codec.compute_boundary_leaf(DOMAIN, 0, SOLVER, i, secrets.token_bytes(32), state_root)
        for i, state_root in enumerate(roots)
    ]
    leaves.append(
        compute_work_leaf(DOMAIN, 0, SOLVER, len(roots) - 1, root, compute_carried_root(headers[-1]))
    )
    return compute_claim_root(leaves).ljust(COMMIT_CALLDATA_BYTES, b"\1")


def replay(bench: Bench, start: StateHeader, inner_step: int) -> None:
    """An auditor's work on one segment: read and check the start, train, hash and keep the end."""
    state = bench.shelf.load(start)
    end, _ = train_segment(state, bench.spec, bench.get_batch, inner_step, bench.segment_steps)
    bench.shelf.keep(end)


async def measure_overhead(inner_steps: int, segment_steps: int, rounds: int) -> dict[str, object]:
    """The report: medians over `rounds` rounds after one that is not counted."""
    data = read_standard_library()
    spec = build_training(data, build_demo_schedule())
    batches = partial(get_batch, open_demo_corpus(data, spec), spec, bytes(32), 0)
    state, timings = begin_round(init_parameters(spec.model, 1), 0), Timings()
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        async with open_commit_sender() as send_commit:
            for number in range(rounds + 1):
                timings = Timings() if number == 1 else timings
                store = BlobStore(Path(folder, str(number)), is_durable=False)
                shelf = StateShelf(store, parameter_count(spec.model))
                bench = Bench(spec, batches, shelf, send_commit, inner_steps, segment_steps)
                await run_round(bench, state, timings)
    return summarise(timings, spec, inner_steps, segment_steps)


def summarise(
    timings: Timings, spec: TrainingSpec, inner_steps: int, segment_steps: int
) -> dict[str, object]:
    """Medians and what they were measured at."""
    pairs = list(zip(timings.bare, timings.committed, strict=True))
    return {
        "commit_share_of_round": statistics.median(1 - bare / committed for bare, committed in pairs),
        "params": parameter_count(spec.model),
        "tokens_per_step": spec.sequences_per_step * spec.sequence_tokens,
        "k": segment_steps,
        "H": inner_steps,
        "replay_vs_train": statistics.median(timings.replay_ratio),
        "bare_seconds": timings.bare,
        "committed_seconds": timings.committed,
    }


def main() -> None:
    """Measures and prints the report's path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inner-steps", type=int, default=INNER_STEPS)
    parser.add_argument("--segment-steps", type=int, default=SEGMENT_STEPS)
    parser.add_argument("--rounds", type=int, default=8)
    arguments = parser.parse_args()
    pin_kernels(1)
    share_interpreter()
    report = asyncio.run(measure_overhead(arguments.inner_steps, arguments.segment_steps, arguments.rounds))
    print(report)
    print(write_report("overhead", report))


if __name__ == "__main__":
    main()
