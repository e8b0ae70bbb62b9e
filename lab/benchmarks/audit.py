"""What does an audit cost beside the training that it checks: time, bytes over the wire, memory?

An audit fetches the start of a segment over HTTPS, trains the segment, hashes and keeps its end, fetches the
claimed end, the final weights and the pseudo-gradient, judges every element of all three and writes a word
down: the functions of a verifier, without a chain. Time: audits and bare training of the same segments in
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
from typing import cast

from eth_account import Account

from lab.benchmarks.reports import write_report
from protocol.actions.audit.audit_records import EndsShown, ShownWork
from protocol.actions.audit.audit_room import AuditTask, StateShelf
from protocol.actions.audit.replaying import judge_ends, judge_work
from protocol.adapters.blobs import BlobRef, refer_delta, refer_state, refer_tensor
from protocol.adapters.chain.abi import BoundaryProof
from protocol.adapters.keys import AccountKey
from protocol.adapters.store import BlobStore
from protocol.adapters.wire.auth import RequestSigner
from protocol.adapters.wire.blob_client import BlobClient
from protocol.adapters.wire.conventions import NodeStatus
from protocol.adapters.wire.listener import load_or_create_identity
from protocol.adapters.wire.server import BlobServer, ReadPolicy
from protocol.adapters.wire.session import Peer
from protocol.compute.audit.calibrate import FLOORS
from protocol.compute.audit.compare import Distances
from protocol.compute.determinism import pin_kernels
from protocol.compute.digest import build_delta_tree, zero_root
from protocol.compute.model.batches import Corpus, get_batch
from protocol.compute.model.reference_model import init_parameters, parameter_count
from protocol.compute.outer.outer_tensors import encode_delta
from protocol.compute.program.step import GetBatch, TrainingState, begin_round, train_segment
from protocol.compute.program.task_program import with_program
from protocol.spec.containers import StateHeader, TrainingSpec
from protocol.spec.schedule import compute_learning_rate_sum
from protocol.spec.statements import compute_carried_root
from protocol.spec.typed_data import SigningDomain
from tests.training_setting import (
    DEMO_MODEL,
    INNER_STEPS,
    SEGMENT_STEPS,
    build_demo_schedule,
    build_training,
    open_demo_corpus,
    propose_limits,
    read_standard_library,
)

TURNS, MEMORY_TURNS = 12, 5
DOMAIN = SigningDomain(31337, "0x" + "5b" * 20)
SEED = sha256(b"audit").digest()
TIME_BAR, BYTES_BAR = 1.3, 2.0
"""Bytes: of two states. Since auditors judge the pseudo-gradient too, whose final weights are 4 bytes an
element and which has 65 for 64, an audit moves 2.42."""
LIMITS = propose_limits([Distances(1e-6, 4e-6, 6e-6, 0, 0, 0)], FLOORS)
"""What an audit costs does not hang on how wide they are."""
MOVED = 1e-7
"""By how much the claimed first moment is off, in roots of the second; W and v are off by a unit or two in
the last place. With equal roots nothing would be fetched or compared."""


SEGMENT = 1
"""The one that is audited, of round 0."""
CASES = ("demo", "wide")
"""wide: the state takes more memory than the rest of a step; only memory is measured there."""


@dataclass(frozen=True)
class Bench:
    """A task and its data."""

    spec: TrainingSpec
    corpus: Corpus

    @property
    def parameters(self) -> int:
        """Elements of W."""
        return parameter_count(self.spec.model)

    @property
    def batches(self) -> GetBatch:
        """What a solver was dealt."""
        return partial(get_batch, self.corpus, self.spec, SEED, 0)

    @property
    def about(self) -> AuditTask:
        """What an auditor knows of the task."""
        segments = range(self.spec.schedule.total_steps // SEGMENT_STEPS)
        rates = tuple(
            compute_learning_rate_sum(self.spec.schedule, one, SEGMENT_STEPS, INNER_STEPS) for one in segments
        )
        steps, count = (INNER_STEPS, SEGMENT_STEPS), self.parameters
        return AuditTask(
            bytes(32), self.spec, self.corpus, count, *steps, zero_root(count), False, LIMITS, rates
        )

    def train(self, state: TrainingState) -> TrainingState:
        """The segment that begins at `state`."""
        first = state.global_step % INNER_STEPS
        return train_segment(state, self.spec, self.batches, first, SEGMENT_STEPS)[0]


@dataclass(frozen=True)
class Claim:
    """What a solver shows of an audited segment: its start and end, the last boundary of the round, and the
    pseudo-gradient. base: root of the weights that the round started from."""

    start: StateHeader
    end: StateHeader
    last: StateHeader
    base: bytes
    delta: bytes

    @property
    def ends(self) -> EndsShown:
        """As it is shown after the seal."""
        end, last = (BoundaryProof(header, bytes(32), ()) for header in (self.end, self.last))
        return EndsShown(end, last, ShownWork(self.delta, compute_carried_root(self.last), ()))

    def list_ends(self, parameters: int) -> list[BlobRef]:
        """What is fetched after the seal: a state, final weights, a pseudo-gradient."""
        final = refer_tensor(self.last.weights_root, parameters)
        return [*refer_state(self.end, parameters), final, refer_delta(self.delta, parameters)]


def open_bench(case: str = "demo") -> Bench:
    """The demo's model on the standard library's text; or one of 8 million parameters on short sequences."""
    data = read_standard_library()
    spec = build_training(data, build_demo_schedule())
    if case == "wide":
        model = replace(DEMO_MODEL, hidden_size=384, intermediate_size=1248, context_tokens=32)
        spec = with_program(replace(spec, model=model, sequences_per_step=1, sequence_tokens=32))
    return Bench(spec, open_demo_corpus(data, spec))


def replay(bench: Bench, shelf: StateShelf, start: StateHeader) -> StateHeader:
    """The own end, in the store. Nobody but `train_segment` holds the start, as in an audit."""
    place = (SEGMENT * SEGMENT_STEPS, SEGMENT_STEPS)
    return shelf.keep(train_segment(shelf.load(start), bench.spec, bench.batches, *place)[0])


def conclude(bench: Bench, shelf: StateShelf, claim: Claim, own: StateHeader) -> None:
    """Judge the claimed end against the own one, and the pseudo-gradient; all in the store."""
    assert judge_ends(bench.about, shelf, (0, SEGMENT), own, claim.end, is_exact=False) is None
    assert judge_work(shelf, claim.base, claim.ends) is None


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
        command = (sys.executable, "-m", "lab.benchmarks.audit", "--serve", name)
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


def prepare_claim(bench: Bench, store: BlobStore, state: TrainingState) -> Claim:
    """A claim in the solver's store; the end lies off by float noise."""
    end, shelf = bench.train(state), StateShelf(store, bench.parameters)
    noisy = replace(
        end,
        weights=end.weights * (1 + 2.0**-23),
        first_moment=end.first_moment + MOVED * end.second_moment.sqrt(),
        second_moment=end.second_moment * (1 + 2.0**-21),
    )
    last = replace(noisy, weights=noisy.weights * (1 + 2.0**-20))
    begin = begin_round(init_parameters(bench.spec.model, 1), 0)
    delta = encode_delta(begin.weights, last.weights)
    root = build_delta_tree(delta).root
    store.put_delta(root, delta)
    start, own, final = (shelf.keep(one) for one in (state, noisy, last))
    return Claim(start, own, final, shelf.keep(begin).weights_root, root)


async def audit(bench: Bench, mine: BlobStore, client: BlobClient, peer: Peer, claim: Claim) -> None:
    """The whole audit."""
    shelf = StateShelf(mine, bench.parameters)
    await shelf.fetch(client, [peer], claim.start)
    own = replay(bench, shelf, claim.start)
    for ref in claim.list_ends(bench.parameters):
        await client.fetch(peer, ref)
    conclude(bench, shelf, claim, own)


async def measure_time_and_bytes(bench: Bench, turns: int) -> dict[str, object]:
    """Ratios of audit to training by turn, and bytes of an audit over those of the state."""
    ratios, moved, seconds = list[float](), list[float](), list[float]()
    state_bytes = 12 * bench.parameters
    state = bench.train(begin_round(init_parameters(bench.spec.model, 1), 0))
    async with open_wire() as wire:
        claim = prepare_claim(bench, wire.store, state)
        for turn in range(turns):
            async with open_auditor() as (mine, client):
                # Everybody has the model that the round starts from.
                base = refer_tensor(claim.base, bench.parameters)
                mine.put_tensor(claim.base, wire.store.get(base))
                bare = 0.0 if turn % 2 else time_training(bench, state)
                before, began = await wire.count_bytes(), time.perf_counter()
                await audit(bench, mine, client, wire.peer, claim)
                seconds.append(time.perf_counter() - began)
                bare = bare or time_training(bench, state)
                ratios.append(seconds[-1] / bare)
                moved.append((await wire.count_bytes() - before) / state_bytes)
    return {
        "time_ratio": statistics.median(ratios),
        "time_ratios": ratios,
        "audit_seconds": statistics.median(seconds),
        "wire_over_state": max(moved),
        "payload_over_state": count_payload(bench, claim) / state_bytes,
        "state_bytes": state_bytes,
    }


def count_payload(bench: Bench, claim: Claim) -> int:
    """Bytes of the blobs that an audit fetches."""
    refs = {*refer_state(claim.start, bench.parameters), *claim.list_ends(bench.parameters)}
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
    shelf = StateShelf(BlobStore(folder, is_durable=False), bench.parameters)
    claim = read_claim(folder)
    forget_peak()
    base = read_peak_bytes()
    if is_audit:
        conclude(bench, shelf, claim, replay(bench, shelf, claim.start))
    else:
        # As in `replay`, nobody else holds the start.
        steps = (SEGMENT * SEGMENT_STEPS, SEGMENT_STEPS)
        own_state, _ = train_segment(shelf.load(claim.start), bench.spec, bench.batches, *steps)
    print(json.dumps([base, read_peak_bytes()]))


def write_claim(folder: Path, claim: Claim) -> None:
    """For a process of its own."""
    headers = [
        [h.weights_root.hex(), h.first_moment_root.hex(), h.second_moment_root.hex()]
        + [h.local_step, h.global_step]
        for h in (claim.start, claim.end, claim.last)
    ]
    (folder / "claim.json").write_text(json.dumps([*headers, claim.base.hex(), claim.delta.hex()]))


def read_claim(folder: Path) -> Claim:
    """What `write_claim` wrote."""
    *headers, base, delta = json.loads((folder / "claim.json").read_text())
    start, end, last = (
        StateHeader(bytes.fromhex(w), bytes.fromhex(m), bytes.fromhex(v), local_step, global_step)
        for w, m, v, local_step, global_step in headers
    )
    return Claim(start, end, last, bytes.fromhex(base), bytes.fromhex(delta))


def measure_memory(case: str) -> dict[str, float]:
    """Peaks above what a process has before it begins, training and auditing: the medians of some processes
    each, in turns, since how a heap falls apart is chance."""
    bench = open_bench(case)
    state = bench.train(begin_round(init_parameters(bench.spec.model, 1), 0))
    found: dict[str, list[float]] = {"train": [], "audit": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_claim(folder, prepare_claim(bench, BlobStore(folder, is_durable=False), state))
        for kind in ("train", "audit") * MEMORY_TURNS:
            command = [sys.executable, "-m", "lab.benchmarks.audit", "--worker", name, case, kind]
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
