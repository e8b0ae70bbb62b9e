"""Times a step beside plain PyTorch, and an audit beside training, in turn."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from lab.benchmarks.exactness.attacking import build_plan
from lab.benchmarks.program import make_plain_step, make_setting, time_in_turn
from tests.e2e.world import make_dataset
from tests.node.specs import SUBMITTER
from tests.training_setting import DEMO_MODEL, INNER_STEPS, SEGMENT_STEPS
from tests.verifier.stage import Node, Stage, make_solver, make_stage
from touchstone.node.submit import build_task
from touchstone.protocol.adapters.store.blobs import BlobRef
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.compute.digest import build_state_trees
from touchstone.protocol.compute.program.exact import product_families
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.step import train_segment
from touchstone.protocol.compute.program.training_state import GetBatch, TrainingState
from touchstone.protocol.spec.game.drawn_audits import DrawnAudit
from touchstone.protocol.spec.game.posted_terms import make_spec
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.statements import VoteWord
from touchstone.protocol.spec.task_spec import TaskSpec, TrainingSpec
from touchstone.step.plain_decoder import DecoderConfig
from touchstone.verifier.replaying import audit

SIZES = {
    "1M": DEMO_MODEL,
    "6M": DecoderConfig(256, 256, 768, 7, 4, 4, 128),
    "30M": DecoderConfig(256, 512, 1536, 9, 8, 8, 128),
}
CHUNK_TERMS = 4096
FLOAT64 = "exact15 through float64"
STATE_BYTES = 12
"""Bytes of a parameter in a state: W, m and v."""
DRAWS = 2
"""The audits of a claim, so that one of them is of a segment in the middle."""
Call = Callable[[], object]


def compare_speed(size: str, steps: int) -> dict[str, float]:
    """Returns medians of the ratios to plain PyTorch's steps (autograd, clip, fused AdamW), on one thread."""
    setting = make_setting(SIZES[size])

    def build(numeric_format: str) -> Call:
        """Builds a step in a format, and runs it once so that its kernels are compiled."""
        built = setting.build(CHUNK_TERMS, numeric_format)
        call = setting.run(Interpreter(built.program, built.constants, numeric_format=numeric_format))
        call()
        return call

    calls: dict[str, Call] = {"plain": make_plain_step(setting), "float32": build("float32")}
    calls |= {name: build(name) for name in PRODUCT_BITS}
    calls[FLOAT64] = _in_family("doubles", build("exact15"))
    calls["exact15"], calls["exact8"] = (_in_family(None, calls[name]) for name in ("exact15", "exact8"))
    seconds = time_in_turn(steps, **calls)
    product_families.force_family(None)
    plain = seconds.pop("plain")
    return {
        name: statistics.median(own / other for own, other in zip(times, plain, strict=True))
        for name, times in seconds.items()
    }


def _in_family(name: str | None, call: Call) -> Call:
    def run() -> object:
        """Runs the step with products of this family."""
        product_families.force_family(name)
        return call()

    return run


# Audits
class CountingClient(BlobClient):
    """Counts the bytes of peers' answers, and of the messages sent to them."""

    moved = 0

    async def _get_small(
        self, peer: Peer, path: str, limit_bytes: int, message: bytes | None = None, *, is_signed: bool = True
    ) -> bytes:
        body = await super()._get_small(peer, path, limit_bytes, message, is_signed=is_signed)
        self.moved += len(body) + len(message or b"")
        return body

    async def _stream_range(
        self, peer: Peer, ref: BlobRef, left: range, *, follows: bool = False
    ) -> AsyncIterator[bytes]:
        async for piece in super()._stream_range(peer, ref, left, follows=follows):
            self.moved += len(piece)
            yield piece


Training = tuple[TrainingState, TrainingSpec, GetBatch, int, int]


@dataclass
class Stopwatch:
    """Trains as nodes do. `given` are the last arguments, `seconds` how long the last call took."""

    given: Training | None = None
    seconds: float = 0.0

    def train(
        self, state: TrainingState, spec: TrainingSpec, get_batch: GetBatch, first: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        """Trains as `train_segment`, and measures the time."""
        self.given, started = (state, spec, get_batch, first, steps), time.perf_counter()
        try:
            return train_segment(state, spec, get_batch, first, steps)
        finally:
            self.seconds = time.perf_counter() - started


@dataclass(frozen=True)
class Audited:
    """A measured audit: bytes fetched, seconds of the audit and of its replay, and what was trained."""

    moved: int
    audit: float
    replay: float
    training: Training


def measure_audits(numeric_format: str, size: str | None, repeats: int) -> dict[str, float]:
    """Measures audits of a middle segment of a round, between two nodes, for a model of this size (None: a
    tiny one). Returns what an auditor that holds the round's model fetches, in states (W, m and v), and the
    time of the audit, of its replay and of a solver's training with hashing, each in trainings of the
    segment."""
    stage = make_stage(spec=_make_spec(size, numeric_format), is_exact=True, draws=DRAWS)
    drawn = next(one for one in map(stage.get_drawn, [0] * DRAWS, range(DRAWS)) if 0 < one.segment < 3)
    count, moved, ratios = stage.spec.terms.parameter_count, 0, list[tuple[float, ...]]()
    with tempfile.TemporaryDirectory() as name:
        # A process that has just begun compiles its kernels: the first audit is not timed.
        training = asyncio.run(_audit(stage, drawn, Path(name) / "first")).training
        for number in range(repeats):
            before, hashing = _time_training(training)
            one = asyncio.run(_audit(stage, drawn, Path(name) / str(number)))
            trained = (before + _time_training(training)[0]) / 2
            moved = max(moved, one.moved)
            ratios.append((one.audit / trained, one.replay / trained, 1 + hashing / trained, trained))
    columns = zip(
        ("time", "replay", "training_and_hash", "training_s"), zip(*ratios, strict=True), strict=True
    )
    medians = {name: statistics.median(column) for name, column in columns}
    return {"states_moved": moved / (STATE_BYTES * count), **medians}


def _make_spec(size: str | None, numeric_format: str) -> TaskSpec:
    plan = build_plan(numeric_format, size)
    if size is not None:
        schedule = replace(plan.schedule, total_steps=plan.rounds * INNER_STEPS)
        plan = replace(plan, schedule=schedule, inner_steps=INNER_STEPS, segment_steps=SEGMENT_STEPS)
    return make_spec(*build_task(plan, make_dataset(), SUBMITTER, bytes(32)))


def _time_training(training: Training) -> tuple[float, float]:
    """Returns the seconds of training, and of hashing the end."""
    watch, started = Stopwatch(), time.perf_counter()
    build_state_trees(watch.train(*training)[0])
    return watch.seconds, time.perf_counter() - started - watch.seconds


async def _audit(stage: Stage, drawn: DrawnAudit, folder: Path) -> Audited:
    """Runs a whole audit between two new nodes."""
    solver, watch = make_solver(stage, folder, is_durable=True), Stopwatch()
    seed = stage.find_seed(drawn.seat.account)
    auditor = Node(stage, seed, folder / "auditor", is_durable=True, make_client=CountingClient)
    auditor.room.train = watch.train
    await auditor.room.models.load_base(drawn.place.base_root)
    async with solver.run(), auditor.run():
        started = time.perf_counter()
        vote = await audit(auditor.room, drawn)
        seconds = time.perf_counter() - started
    assert vote is not None and vote.word is VoteWord.ACCEPT and watch.given is not None
    assert isinstance(auditor.client, CountingClient)
    return Audited(auditor.client.moved, seconds, watch.seconds, watch.given)
