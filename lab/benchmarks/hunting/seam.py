"""Lets verifiers judge every attack, segment by segment, with the functions that nodes use.

The limits were calibrated from honest replays of the same model. Distances are counted by tenths of a decade,
with the share that lies beyond a threshold.

A rejected claim is void. Before a node disputes it, the node judges the steps that the claimant shows
(`tests/attacks/defence.py`: the lie in the last step, or shared evenly). If each step lies inside the limits,
the claimant keeps its seat. A claim with the very bits of an honest one is no cheat and is not counted:
clipping left out where nothing is clipped, a schedule that is ahead where it is flat.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import floor, log10
from pathlib import Path
from typing import Any

import torch

from lab.benchmarks.hunting.arena import Calibrated, Ground
from tests.attacks.attack_suite import ATTACKS
from tests.attacks.defence import take_shared_step
from tests.attacks.frame import Attack, is_equal, list_honest_ends
from tests.attacks.outer import FORGERIES, Forgery
from tests.task_models import get_model
from tests.training_setting import compute_heldout_loss
from touchstone.node.kit.states import StateStore
from touchstone.node.records.audit_records import EndsShown, ShownWork
from touchstone.node.serving.audit_room import AuditTask
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.compute.audit.kernel_configurations import KernelConfiguration
from touchstone.protocol.compute.digest import build_delta_tree, tensor_root, zero_root
from touchstone.protocol.compute.outer.pseudo_gradients import count_delta_bytes, decode_delta, encode_delta
from touchstone.protocol.compute.program.training_state import TrainingState
from touchstone.protocol.compute.tolerance.compare import compute_excess
from touchstone.protocol.compute.tolerance.task_tolerance import ClaimedEnd
from touchstone.protocol.spec.claim_tree import compute_carried_root
from touchstone.protocol.spec.params import DELTA_BLOCK_BYTES, SCALE_EXPONENT_BIAS
from touchstone.protocol.spec.state_headers import StateHeader
from touchstone.protocol.spec.task_spec import Limits
from touchstone.verifier.judging import judge_ends, judge_work

FIRST_DECADE = -4
BINS_PER_DECADE = 10


def count_decades(values: Sequence[float]) -> dict[str, Any]:
    """Counts the values in each tenth of a decade from 10^-4; smaller values count in the first."""
    places = [_find_bin(value) for value in values]
    counts = [0] * (max(places, default=-1) + 1)
    for place in places:
        counts[place] += 1
    return {"first_decade": FIRST_DECADE, "bins_per_decade": BINS_PER_DECADE, "counts": counts}


def _find_bin(value: float) -> int:
    lowest = 10.0**FIRST_DECADE
    return max(0, floor((log10(max(value, lowest)) - FIRST_DECADE) * BINS_PER_DECADE))


def list_bins(histogram: dict[str, Any]) -> list[tuple[float, int]]:
    """Returns (lower edge, count) of every bin."""
    first, each = histogram["first_decade"], histogram["bins_per_decade"]
    return [(10.0 ** (first + place / each), count) for place, count in enumerate(histogram["counts"])]


def compute_share_beyond(histogram: dict[str, Any], threshold: float) -> float:
    """Returns the share of values in bins at or above `threshold`."""
    bins = list_bins(histogram)
    total = sum(count for _, count in bins)
    beyond = sum(count for edge, count in bins if edge >= threshold * (1 - 1e-9))
    return beyond / total if total else 0.0


DRIFT_REACH = 10
"""A multiple of a segment's steps. If an end is farther beyond the limits than that, sharing it over the
steps is not tried, because that divides the excess at most by the number of steps."""


@dataclass
class Tally:
    """The results of one attack over all samples; a sample is one claim judged by one verifier. `excesses`
    are distances in units of the limit, by arena; `weakest` is the place of the smallest. `step_excess` is
    the least worst step that a defence of a rejected claim reached; `kept` counts rejected claims with a
    defence inside the limits. `moved` is the largest distance of W over the update's norm, `loss` the largest
    change of the held-out loss at a segment's end, in nats. `idle` counts claims that changed nothing."""

    number: str
    name: str
    saved: float = 0.0
    samples: int = 0
    rejected: int = 0
    idle: int = 0
    excesses: dict[str, list[float]] = field(default_factory=dict)
    weakest: str = ""
    step_excess: float = float("inf")
    kept: int = 0
    moved: float = 0.0
    loss: float = 0.0

    @property
    def detected(self) -> float:
        """The share of samples that were rejected."""
        return self.rejected / self.samples if self.samples else 0.0

    @property
    def margin(self) -> float:
        """The smallest distance over the limit."""
        return min((value for values in self.excesses.values() for value in values), default=0.0)

    def add(self, arena: str, place: str, excess: float, is_rejected: bool) -> None:
        """Adds a sample."""
        self.weakest = place if not self.samples or excess < self.margin else self.weakest
        self.samples += 1
        self.rejected += is_rejected
        self.excesses.setdefault(arena, []).append(excess)

    def add_defence(self, step_excess: float) -> None:
        """Adds the result of the best defence of a rejected claim."""
        self.step_excess = min(self.step_excess, step_excess)
        self.kept += step_excess <= 1

    def add_harm(self, moved: float, loss: float) -> None:
        """Adds what a claim would do to the model."""
        self.moved, self.loss = max(self.moved, moved), max(self.loss, loss, key=abs)


@dataclass
class Segment:
    """An attacked segment: its place, its start, and each verifier's end; the headers of these states, all in
    the store."""

    ground: Ground
    stage: int
    start: TrainingState
    ends: dict[str, TrainingState]
    headers: dict[str, StateHeader]
    honest: tuple[TrainingState, ...]
    """The honest end in the program's bits, and in plain PyTorch's, from which attacks are made."""
    about: AuditTask
    states: StateStore

    @property
    def name(self) -> str:
        """Arena and place."""
        return f"{self.ground.arena.name} at step {self.stage}"

    @property
    def place(self) -> tuple[int, int]:
        """Round and segment."""
        index, step = divmod(self.stage, self.ground.arena.inner_steps)
        return index, step // self.ground.arena.segment_steps

    @cached_property
    def heldout_loss(self) -> float:
        """The held-out loss of the honest end."""
        return self.measure(self.honest[0])

    def measure(self, state: TrainingState) -> float:
        """Returns the loss on the held-out text, in nats a token."""
        return compute_heldout_loss(state.weights, self.ground.heldout, get_model(self.ground.spec))


def open_segment(
    ground: Ground,
    stage: int,
    configurations: Sequence[KernelConfiguration],
    limits: Calibrated,
    states: StateStore,
) -> Segment:
    """Opens a segment with its honest start and ends."""
    start = ground.load_start(stage)
    ends = {one.name: ground.load_end(one, stage) for one in configurations}
    headers = {name: states.keep(end) for name, end in ends.items()}
    place = (ground.get_batches(stage), ground.get_inner_step(stage), ground.arena.segment_steps)
    honest = list_honest_ends(start, ground.spec, *place)
    return Segment(ground, stage, start, ends, headers, honest, read_task(ground, limits.limits), states)


def read_task(ground: Ground, limits: Limits) -> AuditTask:
    """Returns what an auditor knows of an arena's task."""
    arena, count = ground.arena, ground.parameter_count
    rates = tuple(ground.count_rates(stage, arena.segment_steps) for stage in arena.list_stages())
    steps = (arena.inner_steps, arena.segment_steps)
    return AuditTask(
        bytes(32), ground.spec, ground.corpus, count, *steps, zero_root(count), False, limits, rates
    )


# Attacks on states
def judge_attack(segment: Segment, attack: Attack, tally: Tally) -> None:
    """Plays the attack on the segment and lets every verifier judge it; then the claimant defends itself."""
    ground, stage = segment.ground, segment.stage
    steps, first = ground.arena.segment_steps, ground.get_inner_step(stage)
    claimed, _ = attack.train(segment.start, ground.spec, ground.get_batches(stage), first, steps)
    if any(is_equal(claimed, honest) for honest in segment.honest):
        tally.idle += 1
        return
    tally.saved = max(tally.saved, attack.saved(ground.spec, steps))
    is_rejected = _judge_claim(segment, claimed, tally)
    tally.add_harm(*measure_harm(segment, claimed))
    if is_rejected:
        tally.add_defence(defend(segment, claimed))


def _judge_claim(segment: Segment, claimed: TrainingState, tally: Tally) -> bool:
    """Returns whether any verifier rejects the claimed end."""
    ground, limits = segment.ground, segment.about.limits
    header, rate = segment.states.keep(claimed), segment.about.get_rate_sum(*segment.place)
    found = []
    for name, end in segment.ends.items():
        ends = ClaimedEnd(header, segment.headers[name], segment.states.open, rate)
        found.append(judge_ends(segment.about, ends) is not None)
        excess = float(compute_excess(claimed, end, rate, limits).max())
        tally.add(ground.arena.name, f"{segment.name}, seen by {name}", excess, found[-1])
    return any(found)


def measure_harm(segment: Segment, claimed: TrainingState) -> tuple[float, float]:
    """Returns how far W is off, as a share of the update's norm, and how that changes the held-out loss, in
    nats."""
    honest = segment.honest[0]
    update = (honest.weights - segment.start.weights).double().norm()
    moved = (claimed.weights - honest.weights).double().norm() / update
    return float(moved), segment.measure(claimed) - segment.heldout_loss


def defend(segment: Segment, claimed: TrainingState) -> float:
    """Returns the worst step of the best defence, in limits of a step, on this process's kernels. The lie is
    put into the last step; if that exceeds the limits, it is also shared evenly."""
    ground, steps = segment.ground, segment.ground.arena.segment_steps
    end, rate = segment.honest[0], segment.about.get_rate_sum(*segment.place)
    at_once = _exceed(segment, claimed, end, segment.stage + steps - 1)
    whole = float(compute_excess(claimed, end, rate, segment.about.limits).max())
    if at_once <= 1 or whole > DRIFT_REACH * steps:
        return at_once
    state, worst, batches = segment.start, 0.0, ground.get_batches(segment.stage)
    for step in range(steps):
        inner_step = ground.get_inner_step(segment.stage) + step
        honest, shown = take_shared_step(state, ground.spec, batches, inner_step, claimed)
        worst, state = max(worst, _exceed(segment, shown, honest, segment.stage + step)), shown
    return min(at_once, worst)


def _exceed(segment: Segment, shown: TrainingState, honest: TrainingState, step: int) -> float:
    rate = segment.ground.count_rates(step, 1)
    return float(compute_excess(shown, honest, rate, segment.about.limits).max())


# Forged pseudo-gradients
def judge_forgery(segment: Segment, forgery: Forgery, tally: Tally) -> None:
    """Judges a forged pseudo-gradient: an auditor computes it again from the opened end, and any different
    leaf is a fault. The distance is counted in quanta of the block."""
    start, end = segment.start.weights, segment.honest[0].weights
    truth, claimed = encode_delta(start, end), forgery.forge(start, end)
    if claimed == truth:
        tally.idle += 1
        return
    distance = _measure_quanta(truth, claimed, start.numel())
    is_rejected = _find_forgery(segment, claimed)
    tally.add(segment.ground.arena.name, segment.name, distance, is_rejected)


def _find_forgery(segment: Segment, delta: bytes) -> bool:
    """Returns whether an auditor votes REJECT_DELTA on this pseudo-gradient."""
    root = build_delta_tree(delta).root
    segment.states.store.put_delta(root, delta)
    segment.states.keep(segment.start)
    end = BoundaryProof(segment.states.keep(segment.honest[0]), bytes(32), ())
    ends = EndsShown(end, end, ShownWork(root, compute_carried_root(end.header), ()))
    return judge_work(segment.states, tensor_root(segment.start.weights), ends) is not None


def _measure_quanta(truth: bytes, claimed: bytes, parameter_count: int) -> float:
    """Returns the largest difference of an element, in quanta of the true block."""
    assert len(truth) == len(claimed) == count_delta_bytes(parameter_count)
    blocks = torch.frombuffer(bytearray(truth), dtype=torch.uint8).view(-1, DELTA_BLOCK_BYTES)
    quantum = torch.exp2(blocks[:, 0].double() - SCALE_EXPONENT_BIAS)
    scale = quantum.repeat_interleave(DELTA_BLOCK_BYTES - 1)[:parameter_count]
    values = (decode_delta(data, parameter_count).double() for data in (truth, claimed))
    return float(((next(values) - next(values)).abs() / scale).max())


# All of them
def judge_all(
    grounds: Sequence[tuple[Ground, Calibrated]], configurations: Sequence[KernelConfiguration]
) -> list[Tally]:
    """Judges every attack on every attacked segment."""
    tallies = [Tally(attack.number, attack.name) for attack in ATTACKS]
    forged = [Tally(forgery.number, forgery.name) for forgery in FORGERIES]
    started = time.monotonic()
    for ground, limits in grounds:
        for segment in _iterate_segments(ground, configurations, limits):
            for attack, tally in zip(ATTACKS, tallies, strict=True):
                judge_attack(segment, attack, tally)
            for forgery, tally in zip(FORGERIES, forged, strict=True):
                judge_forgery(segment, forgery, tally)
            print(f"{segment.name}: {time.monotonic() - started:.0f} s", flush=True)
    return [*tallies, *forged]


def _iterate_segments(
    ground: Ground, configurations: Sequence[KernelConfiguration], limits: Calibrated
) -> Iterator[Segment]:
    """Yields each segment with its own store, which is deleted afterwards."""
    for stage in ground.arena.list_attacked():
        with tempfile.TemporaryDirectory(dir=ground.folder) as folder:
            store = BlobStore(Path(folder, "store"), is_durable=False)
            states = StateStore(store, ground.parameter_count)
            yield open_segment(ground, stage, configurations, limits, states)
