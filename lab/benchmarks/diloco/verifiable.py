"""Measures in one process: programs beside plain PyTorch, the cost of being verifiable, and losses beside
synchronous training."""

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import astuple, dataclass, fields
from functools import partial
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from eth_abi.abi import encode
from eth_account import Account
from torch import Tensor

from lab.benchmarks.exactness.speed import SIZES
from lab.benchmarks.program import MODELS, make_plain_step, make_setting, time_in_turn
from tests.task_models import get_model, init_parameters, respecify
from tests.training_setting import (
    OUTER_RATES_BITS,
    PEAK_LEARNING_RATE,
    build_demo_schedule,
    build_training,
    compute_heldout_loss,
    get_heldout_batch,
    open_demo_corpus,
    read_standard_library,
    train_plainly,
)
from touchstone.node.kit.stored_tensors import keep_state_trees, keep_tree
from touchstone.node.records.claim_records import RECORDS, ClaimBook, ClaimBoundaryReached
from touchstone.protocol.adapters.files.durable_files import replace_file
from touchstone.protocol.adapters.journal import Journal
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKind
from touchstone.protocol.compute.batches import get_batch
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.digest import build_delta_tree, build_state_trees
from touchstone.protocol.compute.outer.nesterov_step import begin_outer, merge
from touchstone.protocol.compute.outer.pseudo_gradients import encode_delta
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.compute.program.step import begin_round, train_segment
from touchstone.protocol.compute.program.training_state import Batch, TrainingState
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.program import DEFAULT_CHUNK_TERMS
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.task_spec import ScheduleConfig
from touchstone.step.plain_decoder import DecoderConfig

SHAPES = {"0.2M": MODELS["0.2M"], **SIZES, "10M": DecoderConfig(256, 320, 880, 8, 5, 5, 128)}
FORMATS = ("float32", "exact15")
CHUNK_TERMS = {name: 4096 if name in PRODUCT_BITS else DEFAULT_CHUNK_TERMS for name in FORMATS}
SEGMENT_STEPS, SEGMENTS = 10, 8
"""The steps of a segment (k), and the segments of a round."""
TRANSACTIONS = 4
"""The most transactions of a solver in a round: its claim, votes that it hands on, the merge, the next
round's opening."""
SIGNED = 50
CALL_TYPES = ("bytes32", "uint256", *["bytes32"] * 4)
"""The arguments of a claim's call, roughly: the task, the round and four words."""
HELDOUT_ROWS = 64


def make_beacon(seed: int, index: int) -> bytes:
    """Returns the beacon of a round of a run."""
    return sha256(f"training {seed} {index}".encode()).digest()


# The program
def compare_plain(size: str, steps: int) -> dict[str, float]:
    """Returns tokens a second over those of plain PyTorch (autograd, clip, fused AdamW) on one thread, by
    format: medians of ratios of alternating steps."""
    setting = make_setting(SHAPES[size])
    calls: dict[str, Callable[[], object]] = {"plain": make_plain_step(setting)}
    for name in FORMATS:
        built = setting.build(CHUNK_TERMS[name], name)
        calls[name] = setting.run(Interpreter(built.program, built.constants, numeric_format=name))
    seconds = time_in_turn(steps, **calls)
    plain = seconds.pop("plain")
    return {
        name: statistics.median(other / own for own, other in zip(times, plain, strict=True))
        for name, times in seconds.items()
    }


# Being verifiable
@dataclass(frozen=True)
class Load:
    """The training that is measured: `rows` of 128 tokens a step, `steps` that are timed instead of k, and
    the number of repeats."""

    size: str
    rows: int
    steps: int
    repeats: int


@dataclass(frozen=True)
class Costs:
    """Seconds of a segment of k steps: training, and what makes it verifiable. `sending` is the segment's
    share of signing and encoding the round's transactions; `claiming` its share of hashing and keeping the
    pseudo-gradient."""

    training: float
    copying: float
    hashing: float
    keeping: float
    noting: float
    claiming: float
    sending: float

    @property
    def share(self) -> float:
        """The share of the whole time that is not training, if one thread does everything."""
        extra = self.copying + self.hashing + self.keeping + self.noting + self.claiming + self.sending
        return extra / (self.training + extra)


def measure_share(load: Load) -> dict[str, Any]:
    """Returns medians of the costs in seconds, `share`, and `beside`: how much longer a segment takes while
    another thread hashes and keeps the one before, as in a node."""
    sending_s, rounds, ratios = time_signing() * TRANSACTIONS / SEGMENTS, list[Costs](), list[float]()
    with tempfile.TemporaryDirectory() as name, Journal(Path(name) / "journal.sqlite", RECORDS) as journal:
        station = OuterStepNode(load, Path(name), ClaimBook(journal, bytes(32)))
        station.train(1)  # Kernels are compiled once.
        for number in range(load.repeats):
            costs = station.time_segment(number, sending_s)
            rounds.append(costs)
            longer_s = station.time_beside() - costs.training * load.steps / SEGMENT_STEPS
            ratios.append(longer_s / costs.training)
    medians = {
        field.name: statistics.median(getattr(one, field.name) for one in rounds) for field in fields(Costs)
    }
    return {
        "share": statistics.median(one.share for one in rounds),
        "beside": statistics.median(ratios),
        "seconds_of_a_segment": medians,
        "tokens_a_step": load.rows * station.spec.sequence_tokens,
        "parameters": get_step(station.spec).parameters,
    }


class OuterStepNode:
    """A solver's training and what it keeps, in one process and without a chain."""

    def __init__(self, load: Load, folder: Path, book: ClaimBook) -> None:
        data, model = read_standard_library(), SHAPES[load.size]
        shape = {"sequences_per_step": load.rows, "sequence_tokens": model.context_tokens}
        self.spec = respecify(build_training(data, build_demo_schedule()), model=model, **shape)
        self._load, self._book = load, book
        self._batches = partial(get_batch, open_demo_corpus(data, self.spec), self.spec, make_beacon(0, 0), 0)
        self._state = begin_round(init_parameters(model, 1), 0)
        # A node writes a new state into the memory of an older one.
        self._copies = [vector.clone() for vector in self._state.vectors]
        self._store = BlobStore(folder / "blobs", is_durable=False)  # As a node has it.

    def train(self, steps: int) -> float:
        """Trains, and returns the seconds that it took."""
        started = time.perf_counter()
        self._state, _ = train_segment(self._state, self.spec, self._batches, 0, steps)
        return time.perf_counter() - started

    def time_segment(self, number: int, sending_s: float) -> Costs:
        """Times a segment, then all work that belongs to it, one after the other."""
        before, training = self._state, self.train(self._load.steps) * SEGMENT_STEPS / self._load.steps
        clock = Clock()
        for copy, vector in zip(self._copies, self._state.vectors, strict=True):
            copy.copy_(vector)
        copying = clock.read()
        trees = build_state_trees(self._state)
        hashing = clock.read()
        # A round's last boundary goes through the system's cache, those before it to the disk directly.
        keep_state_trees(self._store, trees, is_cached=False)
        keeping = clock.read() * (SEGMENTS - 1) / SEGMENTS
        self._clear()
        clock.read()
        keep_state_trees(self._store, trees)
        keeping += clock.read() / SEGMENTS
        self._book.write(_note(number, trees.header))
        noting = clock.read()
        delta = encode_delta(before.weights, self._state.weights)  # Each DiLoCo has one: it is not counted.
        clock.read()
        keep_tree(self._store, BlobKind.DELTA, build_delta_tree(delta))
        claiming = clock.read() / SEGMENTS
        self._clear()
        return Costs(training, copying, hashing, keeping, noting, claiming, sending_s)

    def time_beside(self) -> float:
        """Returns the seconds of a segment while the state before it is hashed and kept."""
        with ThreadPoolExecutor(1) as pool:
            kept = pool.submit(self._keep)
            seconds = self.train(self._load.steps)
            kept.result()
        self._clear()
        return seconds

    def _keep(self) -> None:
        keep_state_trees(self._store, build_state_trees(self._state), is_cached=False)

    def _clear(self) -> None:
        for kind in (BlobKind.TENSOR, BlobKind.DELTA):
            for key in self._store.list_keys(kind):
                self._store.delete(key)


class Clock:
    """Measures the seconds since it was last read."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def read(self) -> float:
        """Returns the seconds, and begins anew."""
        last, self._last = self._last, time.perf_counter()
        return self._last - last


def _note(number: int, header: StateHeader) -> ClaimBoundaryReached:
    roots = (header.weights_root, header.first_moment_root, header.second_moment_root)
    return ClaimBoundaryReached(
        bytes(32), 0, bytes(32), number, *roots, header.local_step, header.global_step
    )


def time_signing() -> float:
    """Returns the median seconds to encode and sign one transaction."""
    account, words = Account.from_key(b"\1" * 32), [bytes(31) + b"\1"] * 5
    seconds = []
    for nonce in range(SIGNED):
        clock = Clock()
        data = bytes(4) + encode(CALL_TYPES, [words[0], nonce, *words[1:]])
        account.sign_transaction(
            {
                "type": 2, "chainId": 1, "nonce": nonce, "gas": 500_000, "to": "0x" + "11" * 20, "data": data,
                "value": 0, "maxFeePerGas": 10**9, "maxPriorityFeePerGas": 10**8,
            }
        )  # fmt: skip
        seconds.append(clock.read())
    return statistics.median(seconds)


# Beside synchronous training
@dataclass(frozen=True)
class Long:
    """The long comparison: `members` of a round of `inner_steps`, and `seeds` trainings of each kind."""

    size: str
    members: int
    inner_steps: int
    rounds: int
    seeds: int
    rows: int = 8


WAYS = ("rounds", "synchronous")
AT_ONCE = 2
"""Trainings at a time, one thread each. A loss does not depend on what runs beside it."""


def compare_synchronous(plan: Long, folder: Path, notify: Callable[[str], None]) -> dict[str, Any]:
    """Compares held-out losses (nats) after equal tokens: of rounds with int8 pseudo-gradients, and of
    training in which each step uses the gradients of all members. `ratio` is the mean of the first
    losses over seeds, divided by the mean of the second. `folder` keeps the loss of each finished training,
    so that a stopped comparison can go on."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [(seed, way) for seed in range(1, plan.seeds + 1) for way in WAYS]
    losses: dict[str, list[float]] = {way: [] for way in WAYS}
    with ProcessPoolExecutor(AT_ONCE, get_context("spawn"), pin_kernels, (1,)) as pool:
        found = [pool.submit(find_loss, plan, seed, way, folder) for seed, way in wanted]
        for (seed, way), one in zip(wanted, found, strict=True):
            losses[way].append(one.result())
            notify(f"seed {seed}, {way}: {losses[way][-1]:.4f}")
    ratio = statistics.fmean(losses["rounds"]) / statistics.fmean(losses["synchronous"])
    return {"ratio": ratio, "losses": losses, "steps": plan.rounds * plan.inner_steps}


def find_loss(plan: Long, seed: int, way: str, folder: Path) -> float:
    """Returns the held-out loss of one training, read from the folder if it is there already."""
    settings = "-".join(str(value) for value in astuple(plan))
    path = folder / f"{settings}-{seed}-{way}.json"
    if not path.exists():
        run = LongRun(plan, seed)
        weights = run.train_rounds() if way == "rounds" else run.train_synchronously()
        replace_file(path, json.dumps(run.measure(weights)).encode())
    return float(json.loads(path.read_text()))


class LongRun:
    """The weights and data of one seed, trained in both ways from the same start on the same rows."""

    def __init__(self, plan: Long, seed: int) -> None:
        data, model, self._plan, self._seed = read_standard_library(), SHAPES[plan.size], plan, seed
        steps = plan.rounds * plan.inner_steps
        schedule = ScheduleConfig(PEAK_LEARNING_RATE, max(1, steps // 20), steps)
        shape = {"sequences_per_step": plan.rows, "sequence_tokens": model.context_tokens}
        self._spec = respecify(build_training(data, schedule), model=model, **shape)
        self._corpus = open_demo_corpus(data, self._spec)
        self._start = init_parameters(model, seed)

    def measure(self, weights: Tensor) -> float:
        """Returns the held-out loss."""
        batch = get_heldout_batch(self._corpus, self._spec, HELDOUT_ROWS)
        return compute_heldout_loss(weights, batch, get_model(self._spec))

    def _find_batch(self, index: int, member: int, step: int) -> Batch:
        return get_batch(self._corpus, self._spec, make_beacon(self._seed, index), member, step)

    def train_rounds(self) -> Tensor:
        """Trains rounds; each member goes on with its own moments."""
        plan, outer = self._plan, begin_outer(self._start)
        ends: list[TrainingState | None] = [None] * plan.members
        for index in range(plan.rounds):
            deltas = []
            for member, carried in enumerate(ends):
                begun = begin_round(outer.weights, index * plan.inner_steps, carried)
                batches = partial(self._find_batch, index, member)
                end, _ = train_segment(begun, self._spec, batches, 0, plan.inner_steps)
                deltas.append(encode_delta(outer.weights, end.weights))
                ends[member] = end
            outer = merge(outer, deltas, *OUTER_RATES_BITS)
        return outer.weights

    def train_synchronously(self) -> Tensor:
        """Trains one model synchronously: the mean over equally many rows is the mean of the members'
        gradients."""
        plan, state = self._plan, begin_round(self._start, 0)
        for index in range(plan.rounds):

            def join(step: int, index: int = index) -> Batch:
                """Returns the rows of all members."""
                parts = [self._find_batch(index, member, step) for member in range(plan.members)]
                return Batch(*(torch.cat(own) for own in zip(*parts, strict=True)))

            state = train_plainly(state, self._spec, join, 0, plan.inner_steps)
        return state.weights
