"""What does the program cost beside plain PyTorch, and being verifiable beside training alone?"""

import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from eth_abi.abi import encode
from eth_account import Account

from lab.benchmarks.exactness.speed import SIZES
from lab.benchmarks.program import MODELS, make_plain_step, make_setting, time_in_turn
from protocol.actions.audit.audit_room import StateShelf
from protocol.actions.merge.merge_records import RECORDS, ClaimBook, ClaimBoundaryReached
from protocol.adapters.blobs import BlobKind
from protocol.adapters.journal import Journal
from protocol.adapters.store import BlobStore
from protocol.compute.digest import build_delta_tree, build_state_trees
from protocol.compute.model.batches import get_batch
from protocol.compute.model.reference_model import init_parameters, parameter_count
from protocol.compute.outer.outer_tensors import encode_delta
from protocol.compute.program.interpreter import Interpreter
from protocol.compute.program.step import begin_round, train_segment
from protocol.compute.program.task_program import with_program
from protocol.spec.containers import ModelConfig, StateHeader, TrainingSpec
from protocol.spec.params import PRODUCT_BITS
from protocol.spec.program import DEFAULT_CHUNK_TERMS
from tests.training_setting import (
    build_demo_schedule,
    build_training,
    open_demo_corpus,
    read_standard_library,
)

SHAPES = {"0.2M": MODELS["0.2M"], **SIZES, "10M": ModelConfig(256, 320, 880, 8, 5, 5, 128)}
FORMATS = ("float32", "exact15")
CHUNK_TERMS = {name: 4096 if name in PRODUCT_BITS else DEFAULT_CHUNK_TERMS for name in FORMATS}
SEGMENT_STEPS, SEGMENTS = 10, 8
"""k, and segments of a round."""
TRANSACTIONS = 4
"""A solver's in a round at most: its claim, votes that it hands on, the merge, the next round's opening."""
SIGNED = 50
CALL_TYPES = ("bytes32", "uint256", *["bytes32"] * 4)
"""Of a claim's call, about: the task, the round and four words."""
BEACON = bytes(32)


# --- The program ------------------------------------------------------------------------------------------
def compare_plain(size: str, steps: int) -> dict[str, float]:
    """Tokens a second over those of plain PyTorch (autograd, clip, fused AdamW), one thread, by format: the
    medians of the ratios of steps that took turns."""
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


# --- Being verifiable -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Load:
    """What is trained. rows: of 128 tokens a step; steps: that are timed, in the place of k; repeats: so
    often."""

    size: str
    rows: int
    steps: int
    repeats: int


@dataclass(frozen=True)
class Costs:
    """Seconds of a segment of k steps: training, and what it costs that it can be checked. sending: its share
    of the round's transactions, signed and encoded; claiming: of hashing and keeping the pseudo-gradient."""

    training: float
    copying: float
    hashing: float
    keeping: float
    noting: float
    claiming: float
    sending: float

    @property
    def share(self) -> float:
        """Of the whole that is not training, where one thread does all of it."""
        extra = self.copying + self.hashing + self.keeping + self.noting + self.claiming + self.sending
        return extra / (self.training + extra)


def measure_share(load: Load) -> dict[str, Any]:
    """Medians of the costs in seconds; `share`; and `beside`: how much longer a segment takes while another
    thread hashes and keeps the one before, as in a node."""
    sending_s, rounds, ratios = time_signing() * TRANSACTIONS / SEGMENTS, list[Costs](), list[float]()
    with tempfile.TemporaryDirectory() as name, Journal(Path(name) / "journal.sqlite", RECORDS) as journal:
        desk = Desk(load, Path(name), ClaimBook(journal, bytes(32)))
        desk.train(1)  # Kernels are compiled once.
        for number in range(load.repeats):
            costs = desk.time_segment(number, sending_s)
            rounds.append(costs)
            ratios.append(desk.time_beside() / (costs.training * load.steps / SEGMENT_STEPS))
    medians = {
        field.name: statistics.median(getattr(one, field.name) for one in rounds) for field in fields(Costs)
    }
    return {
        "share": statistics.median(one.share for one in rounds),
        "beside": statistics.median(ratios) - 1,
        "seconds_of_a_segment": medians,
        "tokens_a_step": load.rows * desk.spec.sequence_tokens,
        "parameters": parameter_count(desk.spec.model),
    }


class Desk:
    """A solver's training and what it keeps of it, in one process and without a chain."""

    def __init__(self, load: Load, folder: Path, book: ClaimBook) -> None:
        data, model = read_standard_library(), SHAPES[load.size]
        spec = replace(build_training(data, build_demo_schedule()), model=model, sequences_per_step=load.rows)
        self.spec: TrainingSpec = with_program(replace(spec, sequence_tokens=model.context_tokens))
        self._load, self._book = load, book
        self._batches = partial(get_batch, open_demo_corpus(data, self.spec), self.spec, BEACON, 0)
        self._state = begin_round(init_parameters(model, 1), 0)
        self._store = BlobStore(folder / "blobs")
        self._shelf = StateShelf(self._store, parameter_count(model))

    def train(self, steps: int) -> float:
        """Seconds of so many steps."""
        started = time.perf_counter()
        self._state, _ = train_segment(self._state, self.spec, self._batches, 0, steps)
        return time.perf_counter() - started

    def time_segment(self, number: int, sending_s: float) -> Costs:
        """A segment, then all that is done for it, one after the other."""
        before, training = self._state, self.train(self._load.steps) * SEGMENT_STEPS / self._load.steps
        clock = Clock()
        copies = [vector.clone() for vector in self._state.vectors]
        copying = clock.read()
        del copies
        clock.read()
        trees = build_state_trees(self._state)
        hashing = clock.read()
        self._shelf.put(trees)
        keeping = clock.read()
        self._book.write(_note(number, trees.header))
        noting = clock.read()
        delta = encode_delta(before.weights, self._state.weights)  # Each DiLoCo has one: it is not counted.
        clock.read()
        self._store.put_delta(build_delta_tree(delta).root, delta)
        claiming = clock.read() / SEGMENTS
        self._clear()
        return Costs(training, copying, hashing, keeping, noting, claiming, sending_s)

    def time_beside(self) -> float:
        """Seconds of a segment while the state before it is hashed and kept."""
        with ThreadPoolExecutor(1) as pool:
            kept = pool.submit(self._shelf.keep, self._state)
            seconds = self.train(self._load.steps)
            kept.result()
        self._clear()
        return seconds

    def _clear(self) -> None:
        for kind in (BlobKind.TENSOR, BlobKind.DELTA):
            for key in self._store.list_keys(kind):
                self._store.delete(key)


class Clock:
    """Seconds since it was last read."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def read(self) -> float:
        """And begin anew."""
        last, self._last = self._last, time.perf_counter()
        return self._last - last


def _note(number: int, header: StateHeader) -> ClaimBoundaryReached:
    roots = (header.weights_root, header.first_moment_root, header.second_moment_root)
    return ClaimBoundaryReached(
        bytes(32), 0, bytes(32), number, *roots, header.local_step, header.global_step
    )


def time_signing() -> float:
    """Seconds to encode and sign one transaction: the median of some."""
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
