"""What does an audit cost beside the training that it checks: time, bytes over the wire, memory?

An audit fetches the start of a segment over HTTPS, trains the segment, hashes and keeps its end, fetches the
claimed end, judges every element, and reduces what is left to a signed report. Time: audits and bare training
of the same segments in turns, in one run. Bytes: counted by a relay between the two, TLS included. Memory:
the highest resident size (VmHWM) of a process that audits from a store, beside one that only trains.
Writes build/audit/report.json.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import cast

from eth_account import Account

from benchmarks.setting import (
    INNER_STEPS,
    SEGMENT_STEPS,
    build_demo_schedule,
    build_training,
    open_demo_corpus,
    read_standard_library,
    write_report,
)
from protocol.actions.report import AuditReport, sign_report
from protocol.actions.tensors import load_tensor
from protocol.adapters.blobs import get_chunk_level, refer_state
from protocol.adapters.keys import AccountKey
from protocol.adapters.store import BlobStore
from protocol.adapters.wire.auth import RequestSigner, WireDomain
from protocol.adapters.wire.client import BlobClient
from protocol.adapters.wire.server import BlobServer, ReadPolicy
from protocol.adapters.wire.session import Peer
from protocol.adapters.wire.tls import load_or_create_identity
from protocol.compute.calibrate import FLOORS, propose_limits
from protocol.compute.compare import Distances, judge_state
from protocol.compute.data import Corpus, get_batch
from protocol.compute.determinism import name_hardware, pin_kernels
from protocol.compute.digest import build_state_trees
from protocol.compute.model import init_parameters, parameter_count
from protocol.compute.residuals import compute_residuals, project
from protocol.compute.screens import measure_tensors
from protocol.compute.step import TrainingState, begin_round, train_segment
from protocol.spec.containers import StateHeader, TrainingSpec
from protocol.spec.params import LEARNING_RATE_FRACTION_BITS
from protocol.spec.schedule import compute_learning_rate

TURNS = 8
DOMAIN = WireDomain(31337, "0x" + "5b" * 20)
SEED = sha256(b"audit").digest()
TIME_BAR, BYTES_BAR = 1.3, 2.0
LIMITS = propose_limits([Distances(1e-6, 4e-6, 6e-6, 0, 0, 0)], FLOORS)
"""About those of the demo (docs/decisions/0006-limits.md)."""
MOVED = 1e-7
"""By how much the claimed first moment is off, in roots of the second; W and v are off by a unit or two in
the last place. With equal roots nothing would be fetched or compared."""


@dataclass(frozen=True)
class Bench:
    """The demo's task, and a key that signs reports."""

    spec: TrainingSpec
    corpus: Corpus
    key: AccountKey

    @property
    def parameters(self) -> int:
        """Elements of W."""
        return parameter_count(self.spec.model)

    def train(self, state: TrainingState) -> TrainingState:
        """The segment that begins at `state`."""
        get = lambda step: get_batch(self.corpus, self.spec, SEED, 0, step)  # noqa: E731
        return train_segment(state, self.spec, get, state.global_step % INNER_STEPS, SEGMENT_STEPS)[0]

    def sum_rates(self, state: TrainingState) -> int:
        """L of that segment in units of 2^-64."""
        steps = range(state.global_step, state.global_step + SEGMENT_STEPS)
        rates = sum(compute_learning_rate(self.spec.schedule, step, step) for step in steps)
        return int(rates * 2**LEARNING_RATE_FRACTION_BITS)


def open_bench() -> Bench:
    """The demo's model on the standard library's text."""
    data = read_standard_library()
    spec = build_training(data, build_demo_schedule())
    return Bench(spec, open_demo_corpus(data, spec), AccountKey(Account.create()))


def keep(store: BlobStore, state: TrainingState) -> StateHeader:
    """Hash a state and put it into a store."""
    trees = build_state_trees(state)
    refs = refer_state(trees.header, state.weights.numel())
    for ref, tree in zip(refs, (trees.weights, trees.first_moment, trees.second_moment), strict=True):
        store.put_hashed(ref, tree.data, get_chunk_level(tree.levels))
    return trees.header


def load(store: BlobStore, header: StateHeader, parameters: int) -> TrainingState:
    """A state from a store."""
    weights, first, second = (load_tensor(store, ref) for ref in refer_state(header, parameters))
    return TrainingState(weights, first, second, header.local_step, header.global_step)


def conclude(bench: Bench, store: BlobStore, start: StateHeader, end: StateHeader, own: StateHeader) -> bytes:
    """Judge the claimed end against the own one, both in the store; the signed report."""
    claimed, replayed = (load(store, header, bench.parameters) for header in (end, own))
    rates = bench.sum_rates(replace(claimed, global_step=start.global_step))
    verdict = judge_state(claimed, replayed, rates, LIMITS.accept, LIMITS.reject)
    begun = load(store, start, bench.parameters)
    residuals = compute_residuals(claimed, replayed, rates, LIMITS.accept)
    account = bench.key.address.lower()
    report = AuditReport(
        bytes(32), 0, 0, 0, account, account, name_hardware(), verdict.judgement, verdict.excess,
        tensors=measure_tensors(claimed, replayed, begun, bench.spec.model)[:16],
        projections=project(residuals, begun, replayed, SEED),
    )  # fmt: skip
    return sign_report(report, bench.key, DOMAIN)


# --- Time and bytes -----------------------------------------------------------------------------------------
class Relay:
    """Passes bytes between a client and a server, and counts them."""

    def __init__(self, port: int) -> None:
        self.port, self.bytes = port, 0

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.port)
        await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            self.bytes += len(data)
            writer.write(data)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def open_wire(folder: Path) -> AsyncIterator[tuple[BlobStore, BlobStore, BlobClient, Peer, Relay]]:
    """(the solver's store, the auditor's, its client, the solver as a peer, the relay)"""
    theirs, mine = (BlobStore(folder / name, is_durable=False) for name in ("solver", "auditor"))
    solver, auditor = AccountKey(Account.create()), AccountKey(Account.create())
    identity = load_or_create_identity(folder)
    policy = ReadPolicy(lambda account: True, lambda *request: True, dict)
    server = BlobServer(theirs, solver.address, DOMAIN, identity, policy)
    relay = Relay(await server.start())
    listener = await asyncio.start_server(relay.pass_on, "127.0.0.1", 0)
    peer = Peer(
        solver.address.lower(),
        f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}",
        identity.fingerprint,
    )
    async with BlobClient(mine, RequestSigner(auditor, DOMAIN)) as client:
        yield theirs, mine, client, peer, relay
    listener.close()
    await server.stop()


def prepare_claim(bench: Bench, store: BlobStore, state: TrainingState) -> tuple[StateHeader, StateHeader]:
    """A segment's start and claimed end in the solver's store; the end lies off by float noise."""
    end = bench.train(state)
    noisy = replace(
        end,
        weights=end.weights * (1 + 2.0**-23),
        first_moment=end.first_moment + MOVED * end.second_moment.sqrt(),
        second_moment=end.second_moment * (1 + 2.0**-21),
    )
    return keep(store, state), keep(store, noisy)


async def audit(
    bench: Bench, mine: BlobStore, client: BlobClient, peer: Peer, start: StateHeader, end: StateHeader
) -> bytes:
    """The whole audit; returns its report."""
    for ref in refer_state(start, bench.parameters):
        await client.fetch(peer, ref)
    own = keep(mine, bench.train(load(mine, start, bench.parameters)))
    for ref in refer_state(end, bench.parameters):
        await client.fetch(peer, ref)
    return conclude(bench, mine, start, end, own)


async def measure_time_and_bytes(bench: Bench, turns: int) -> dict[str, object]:
    """Ratios of audit to training by turn, and bytes of an audit over those of the state."""
    ratios, moved, seconds = list[float](), list[float](), list[float]()
    state_bytes, report_bytes, payload = 12 * bench.parameters, 0, 0.0
    state = bench.train(begin_round(init_parameters(bench.spec.model, 1), 0))
    for turn in range(turns):
        with tempfile.TemporaryDirectory() as folder:
            async with open_wire(Path(folder)) as (theirs, mine, client, peer, relay):
                start, end = prepare_claim(bench, theirs, state)
                bare = 0.0 if turn % 2 else time_training(bench, state)
                began = time.perf_counter()
                report = await audit(bench, mine, client, peer, start, end)
                seconds.append(time.perf_counter() - began)
                bare = bare or time_training(bench, state)
                ratios.append(seconds[-1] / bare)
                moved.append(relay.bytes / state_bytes)
                report_bytes = len(report)
                payload = count_payload(bench, start, end) / state_bytes
    return {
        "time_ratio": statistics.median(ratios),
        "time_ratios": ratios,
        "audit_seconds": statistics.median(seconds),
        "wire_over_state": max(moved),
        "payload_over_state": payload,
        "state_bytes": state_bytes,
        "report_bytes": report_bytes,
    }


def count_payload(bench: Bench, start: StateHeader, end: StateHeader) -> int:
    """Bytes of the blobs that an audit fetches."""
    refs = {*refer_state(start, bench.parameters), *refer_state(end, bench.parameters)}
    return sum(ref.size_bytes for ref in refs)


def time_training(bench: Bench, state: TrainingState) -> float:
    """Seconds of the bare segment."""
    began = time.perf_counter()
    bench.train(state)
    return time.perf_counter() - began


# --- Memory -------------------------------------------------------------------------------------------------
def read_peak_bytes() -> int:
    """The highest resident size of this process since `forget_peak`."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


def forget_peak() -> None:
    """Set the highest resident size to the present one (proc_pid_clear_refs(5))."""
    Path("/proc/self/clear_refs").write_text("5")


def run_worker(folder: Path, is_audit: bool) -> None:
    """In a process of its own: train a stored segment, or audit it; prints the peaks before and after."""
    pin_kernels(1)
    bench, store = open_bench(), BlobStore(folder, is_durable=False)
    start, end = (
        StateHeader(bytes.fromhex(w), bytes.fromhex(m), bytes.fromhex(v), local_step, global_step)
        for w, m, v, local_step, global_step in json.loads((folder / "headers.json").read_text())
    )
    forget_peak()
    base = read_peak_bytes()
    own = bench.train(load(store, start, bench.parameters))
    if is_audit:
        kept = keep(store, own)
        del own
        conclude(bench, store, start, end, kept)
    print(json.dumps([base, read_peak_bytes()]))


def measure_memory(bench: Bench) -> dict[str, object]:
    """Peaks above what a process has before it begins, training and auditing."""
    state = bench.train(begin_round(init_parameters(bench.spec.model, 1), 0))
    peaks = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = BlobStore(folder, is_durable=False)
        headers = [
            [h.weights_root.hex(), h.first_moment_root.hex(), h.second_moment_root.hex()]
            + [h.local_step, h.global_step]
            for h in prepare_claim(bench, store, state)
        ]
        (folder / "headers.json").write_text(json.dumps(headers))
        for kind in ("train", "audit"):
            command = [sys.executable, "-m", "benchmarks.audit", "--worker", name, kind]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            base, peak = json.loads(done.stdout.splitlines()[-1])
            peaks[kind] = peak - base
    state_bytes = 12 * bench.parameters
    step_bytes = peaks["train"] - state_bytes
    return {
        "train_bytes": peaks["train"],
        "audit_bytes": peaks["audit"],
        "step_bytes": step_bytes,
        "memory_bar_bytes": 2 * state_bytes + step_bytes,
        "memory_ratio": peaks["audit"] / (2 * state_bytes + step_bytes),
    }


def measure_audit(turns: int = TURNS) -> dict[str, object]:
    """All three, beside their bars: time below 1.3, the state twice over the wire, memory of two states and a
    step."""
    pin_kernels(1)
    bench = open_bench()
    measured = asyncio.run(measure_time_and_bytes(bench, turns)) | measure_memory(bench)
    time_ratio, memory = cast(float, measured["time_ratio"]), cast(float, measured["memory_ratio"])
    payload = cast(float, measured["payload_over_state"])
    return {
        "parameters": bench.parameters,
        "segment_steps": SEGMENT_STEPS,
        **measured,
        "is_within": {"time": time_ratio <= TIME_BAR, "bytes": payload <= BYTES_BAR, "memory": memory <= 1},
    }


def main() -> None:
    """Measures, writes the report and prints its path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=TURNS, help="audits that are timed")
    parser.add_argument("--worker", nargs=2, metavar=("FOLDER", "KIND"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        folder, kind = arguments.worker
        return run_worker(Path(folder), kind == "audit")
    print(write_report("audit", measure_audit(arguments.turns)))


if __name__ == "__main__":
    main()
