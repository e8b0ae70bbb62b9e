"""What does an audit cost beside the training that it checks: time, bytes over the wire, memory?

An audit fetches the start of a segment over HTTPS, trains the segment, hashes and keeps its end, fetches the
claimed end, judges every element, reduces what is left to a signed report and opens leaves of both ends: the
functions of a verifier, on a party without a chain. Time: audits and bare training of the same segments in
turns, in one run. Bytes: payload is what the blobs hold, and is judged; what a relay between the two counts
has requests, headers and TLS in it. Memory: the highest resident size (VmHWM) of a process that audits from
a store, beside one that only trains; once as the demo is, once with a state that outweighs the step.
Writes build/audit/report.json.
"""

import argparse
import asyncio
import ctypes
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from eth_account import Account

from benchmarks.setting import (
    DEMO_MODEL,
    INNER_STEPS,
    SEGMENT_STEPS,
    build_demo_schedule,
    build_training,
    open_demo_corpus,
    read_standard_library,
    write_report,
)
from protocol.actions.attention import make_report
from protocol.actions.party import Party
from protocol.actions.replay import Comparison, train_stored
from protocol.actions.report import sign_report
from protocol.actions.states import keep_state, load_state, open_state, open_state_leaves
from protocol.adapters.blobs import refer_state
from protocol.adapters.keys import AccountKey
from protocol.adapters.store import BlobStore
from protocol.adapters.wire.answers import NodeStatus
from protocol.adapters.wire.auth import RequestSigner
from protocol.adapters.wire.client import BlobClient
from protocol.adapters.wire.server import BlobServer, ReadPolicy
from protocol.adapters.wire.session import Peer
from protocol.adapters.wire.tls import load_or_create_identity
from protocol.compute.calibrate import FLOORS, propose_limits
from protocol.compute.compare import Distances, judge_state
from protocol.compute.data import Corpus, get_batch
from protocol.compute.determinism import pin_kernels
from protocol.compute.model import init_parameters, parameter_count
from protocol.compute.program import with_program
from protocol.compute.step import GetBatch, TrainingState, begin_round, train_segment
from protocol.spec.containers import StateHeader, TrainingSpec
from protocol.spec.params import LEARNING_RATE_FRACTION_BITS
from protocol.spec.schedule import compute_learning_rate
from protocol.spec.statuses import AuditRef
from protocol.spec.typed_data import SigningDomain

TURNS, MEMORY_TURNS = 12, 5
DOMAIN = SigningDomain(31337, "0x" + "5b" * 20)
SEED = sha256(b"audit").digest()
TIME_BAR, BYTES_BAR = 1.3, 2.0
LIMITS = propose_limits([Distances(1e-6, 4e-6, 6e-6, 0, 0, 0)], FLOORS)
"""What an audit costs does not hang on how wide they are."""
MOVED = 1e-7
"""By how much the claimed first moment is off, in roots of the second; W and v are off by a unit or two in
the last place. With equal roots nothing would be fetched or compared."""


SEGMENT = 1
"""The one that is audited, of round 0."""
AUDIT = AuditRef(bytes(32), 0, 0, 0, 0)
DRAWN_LEAVES = (0, 7)
CASES = ("demo", "wide")
"""wide: the state takes more memory than the rest of a step; only memory is measured there."""


@dataclass(frozen=True)
class Bench:
    """A task, its data, and a key that signs reports."""

    spec: TrainingSpec
    corpus: Corpus
    key: AccountKey

    @property
    def parameters(self) -> int:
        """Elements of W."""
        return parameter_count(self.spec.model)

    @property
    def batches(self) -> GetBatch:
        """What a solver was dealt."""
        return partial(get_batch, self.corpus, self.spec, SEED, 0)

    def train(self, state: TrainingState) -> TrainingState:
        """The segment that begins at `state`."""
        first = state.global_step % INNER_STEPS
        return train_segment(state, self.spec, self.batches, first, SEGMENT_STEPS)[0]

    def sum_rates(self, state: StateHeader) -> int:
        """L of the segment that begins at `state`, in units of 2^-64."""
        steps = range(state.global_step, state.global_step + SEGMENT_STEPS)
        rates = sum(compute_learning_rate(self.spec.schedule, step, step) for step in steps)
        return int(rates * 2**LEARNING_RATE_FRACTION_BITS)

    def open_party(self, store: BlobStore) -> Party:
        """As much of an auditor as an audit needs."""
        account = self.key.address.lower()
        terms = SimpleNamespace(
            parameter_count=self.parameters, segment_steps=SEGMENT_STEPS, accept=LIMITS.accept
        )
        party = SimpleNamespace(
            store=store,
            spec=SimpleNamespace(terms=terms, training=self.spec),
            task=AUDIT.task,
            account=account,
            config=SimpleNamespace(home=store.folder),
            round=lambda index: SimpleNamespace(draw_seed=SEED, solvers=(account,)),
        )
        return cast(Party, party)


def open_bench(case: str = "demo") -> Bench:
    """The demo's model on the standard library's text; or one of 8 million parameters on short sequences."""
    data = read_standard_library()
    spec = build_training(data, build_demo_schedule())
    if case == "wide":
        model = replace(DEMO_MODEL, hidden_size=384, intermediate_size=1248, context_tokens=32)
        spec = with_program(replace(spec, model=model, sequences_per_step=1, sequence_tokens=32))
    return Bench(spec, open_demo_corpus(data, spec), AccountKey(Account.create()))


def conclude(bench: Bench, party: Party, start: StateHeader, end: StateHeader, own: StateHeader) -> bytes:
    """Judge the claimed end against the own one, all in the store; the signed report. Opens leaves too."""
    begun, claimed, replayed = (open_state(party, header) for header in (start, end, own))
    rates = bench.sum_rates(start)
    verdict = judge_state(claimed, replayed, rates, LIMITS.accept, LIMITS.reject)
    seen = Comparison(claimed, replayed, verdict)
    report = make_report(party, AUDIT, SEGMENT, rates, begun, seen, "")
    for header in (end, own):
        open_state_leaves(party, header, (*DRAWN_LEAVES, verdict.leaf))
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


async def serve(folder: Path) -> None:
    """The solver, in a process of its own: serves the store in `folder`. Prints its account, the relay's port
    and the fingerprint of its certificate, then for every line of input the bytes that were relayed."""
    solver, identity = AccountKey(Account.create()), load_or_create_identity(folder)
    status = NodeStatus(solver.address.lower(), 0, None)
    policy = ReadPolicy(lambda account: True, lambda *request: True, lambda: status)
    store = BlobStore(folder, is_durable=False)
    server = BlobServer(store, solver.address, DOMAIN, identity, policy)
    relay = Relay(await server.start())
    listener = await asyncio.start_server(relay.pass_on, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    print(json.dumps([solver.address.lower(), port, identity.fingerprint.hex()]), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(relay.bytes, flush=True)
    await server.stop()


@dataclass(frozen=True)
class Wire:
    """The solver's store, the solver as a peer, and its process."""

    store: BlobStore
    peer: Peer
    process: asyncio.subprocess.Process

    async def count_bytes(self) -> int:
        """What the relay passed on so far, both ways."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(b"\n")
        return int(await self.process.stdout.readline())


@asynccontextmanager
async def open_wire() -> AsyncIterator[Wire]:
    """A solver that serves whatever is put into its store."""
    with tempfile.TemporaryDirectory() as name:
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", "benchmarks.audit", "--serve", name)
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        assert process.stdin and process.stdout
        account, port, fingerprint = json.loads(await process.stdout.readline())
        peer = Peer(account, f"https://127.0.0.1:{port}", bytes.fromhex(fingerprint))
        yield Wire(BlobStore(Path(name), is_durable=False), peer, process)
        process.stdin.close()
        await process.wait()


@asynccontextmanager
async def open_auditor() -> AsyncIterator[tuple[BlobStore, BlobClient]]:
    """An auditor's empty store and its client."""
    with tempfile.TemporaryDirectory() as name:
        store = BlobStore(Path(name), is_durable=False)
        async with BlobClient(store, RequestSigner(AccountKey(Account.create()), DOMAIN)) as client:
            yield store, client


def prepare_claim(bench: Bench, store: BlobStore, state: TrainingState) -> tuple[StateHeader, StateHeader]:
    """A segment's start and claimed end in the solver's store; the end lies off by float noise."""
    end, party = bench.train(state), bench.open_party(store)
    noisy = replace(
        end,
        weights=end.weights * (1 + 2.0**-23),
        first_moment=end.first_moment + MOVED * end.second_moment.sqrt(),
        second_moment=end.second_moment * (1 + 2.0**-21),
    )
    return keep_state(party, state), keep_state(party, noisy)


async def audit(
    bench: Bench, mine: BlobStore, client: BlobClient, peer: Peer, start: StateHeader, end: StateHeader
) -> bytes:
    """The whole audit; returns its report."""
    party = bench.open_party(mine)
    for ref in refer_state(start, bench.parameters):
        await client.fetch(peer, ref)
    own = train_stored(party, start, SEGMENT, bench.batches, train_segment)
    for ref in refer_state(end, bench.parameters):
        await client.fetch(peer, ref)
    return conclude(bench, party, start, end, own)


async def measure_time_and_bytes(bench: Bench, turns: int) -> dict[str, object]:
    """Ratios of audit to training by turn, and bytes of an audit over those of the state."""
    ratios, moved, seconds = list[float](), list[float](), list[float]()
    state_bytes, report_bytes = 12 * bench.parameters, 0
    state = bench.train(begin_round(init_parameters(bench.spec.model, 1), 0))
    async with open_wire() as wire:
        start, end = prepare_claim(bench, wire.store, state)
        payload = count_payload(bench, start, end) / state_bytes
        for turn in range(turns):
            async with open_auditor() as (mine, client):
                bare = 0.0 if turn % 2 else time_training(bench, state)
                before, began = await wire.count_bytes(), time.perf_counter()
                report = await audit(bench, mine, client, wire.peer, start, end)
                seconds.append(time.perf_counter() - began)
                bare = bare or time_training(bench, state)
                ratios.append(seconds[-1] / bare)
                moved.append((await wire.count_bytes() - before) / state_bytes)
                report_bytes = len(report)
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
    """Set the highest resident size to the present one (proc_pid_clear_refs(5)), without what was freed but
    not given back: else it hides as much of what comes."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def run_worker(folder: Path, case: str, is_audit: bool) -> None:
    """In a process of its own: train a stored segment, or audit it; prints the peaks before and after."""
    pin_kernels(1)
    bench = open_bench(case)
    party = bench.open_party(BlobStore(folder, is_durable=False))
    start, end = (
        StateHeader(bytes.fromhex(w), bytes.fromhex(m), bytes.fromhex(v), local_step, global_step)
        for w, m, v, local_step, global_step in json.loads((folder / "headers.json").read_text())
    )
    forget_peak()
    base = read_peak_bytes()
    if is_audit:
        own = train_stored(party, start, SEGMENT, bench.batches, train_segment)
        conclude(bench, party, start, end, own)
    else:
        # As in `train_stored`, nobody else holds the start.
        steps = (SEGMENT * SEGMENT_STEPS, SEGMENT_STEPS)
        own_state, _ = train_segment(load_state(party, start), bench.spec, bench.batches, *steps)
    print(json.dumps([base, read_peak_bytes()]))


def measure_memory(case: str) -> dict[str, float]:
    """Peaks above what a process has before it begins, training and auditing: the medians of some processes
    each, in turns, since how a heap falls apart is chance."""
    bench = open_bench(case)
    state = bench.train(begin_round(init_parameters(bench.spec.model, 1), 0))
    found: dict[str, list[float]] = {"train": [], "audit": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        headers = [
            [h.weights_root.hex(), h.first_moment_root.hex(), h.second_moment_root.hex()]
            + [h.local_step, h.global_step]
            for h in prepare_claim(bench, BlobStore(folder, is_durable=False), state)
        ]
        (folder / "headers.json").write_text(json.dumps(headers))
        for kind in ("train", "audit") * MEMORY_TURNS:
            command = [sys.executable, "-m", "benchmarks.audit", "--worker", name, case, kind]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            base, peak = json.loads(done.stdout.splitlines()[-1])
            found[kind].append(peak - base)
    peaks = {kind: statistics.median(some) for kind, some in found.items()}
    state_bytes = 12 * bench.parameters
    step_bytes = peaks["train"] - state_bytes
    bar_bytes = 2 * state_bytes + step_bytes
    return {
        "state_bytes": state_bytes,
        "train_bytes": peaks["train"],
        "audit_bytes": peaks["audit"],
        "step_bytes": step_bytes,
        "bar_bytes": bar_bytes,
        "ratio": peaks["audit"] / bar_bytes,
    }


def measure_audit(turns: int = TURNS) -> dict[str, object]:
    """All three, beside their bars: time below 1.3, the state twice over the wire, memory of two states and a
    step."""
    pin_kernels(1)
    bench = open_bench()
    measured = asyncio.run(measure_time_and_bytes(bench, turns))
    memory = {case: measure_memory(case) for case in CASES}
    ratio = max(found["ratio"] for found in memory.values())
    return {
        "parameters": bench.parameters,
        "segment_steps": SEGMENT_STEPS,
        **measured,
        "memory": memory,
        "memory_ratio": ratio,
        "is_within": {
            "time": cast(float, measured["time_ratio"]) <= TIME_BAR,
            "bytes": cast(float, measured["payload_over_state"]) <= BYTES_BAR,
            "memory": ratio <= 1,
        },
    }


def print_audit(report: dict[str, object]) -> None:
    """The three figures beside their bars."""
    print(f"time: {report['time_ratio']:.2f} of training the segment (bar {TIME_BAR})")
    print(
        f"wire: {report['payload_over_state']:.3f} states (bar {BYTES_BAR}), "
        f"{report['wire_over_state']:.4f} with requests, headers and TLS"
    )
    print(f"memory: {report['memory_ratio']:.2f} of two states and a step (bar 1)")


def main() -> None:
    """Measures, writes the report and prints its path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=TURNS, help="audits that are timed")
    parser.add_argument("--worker", nargs=3, metavar=("FOLDER", "CASE", "KIND"), help=argparse.SUPPRESS)
    parser.add_argument("--serve", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        return asyncio.run(serve(arguments.serve))
    if arguments.worker:
        folder, case, kind = arguments.worker
        return run_worker(Path(folder), case, kind == "audit")
    report = measure_audit(arguments.turns)
    print_audit(report)
    print(write_report("audit", report))


if __name__ == "__main__":
    main()
