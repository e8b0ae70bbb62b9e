"""What verifiers say of every attack, segment by segment, by the functions that auditors use; distances
counted.

Distances counted by tenths of a decade, and what share of them lies beyond a threshold.

What verifiers say of every attack, segment by segment: the words of an auditor, by the very functions that
nodes judge with, under limits that were calibrated from honest replays of the same model.

A claim that is rejected is void. Before anybody disputes it, a node looks at the steps that the claimant
shows (`tests/attacks/defence.py`: the lie in the last step, or shared evenly): inside the limits at each step
it keeps its seat. A claim that has the very bits of an honest one is no cheat and is not counted: clipping
left out where nothing is clipped, a schedule that is ahead where it is flat.
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
    """How many values lie in each tenth of a decade from 10^-4; those below all in the first."""
    places = [_find_bin(value) for value in values]
    counts = [0] * (max(places, default=-1) + 1)
    for place in places:
        counts[place] += 1
    return {"first_decade": FIRST_DECADE, "bins_per_decade": BINS_PER_DECADE, "counts": counts}


def _find_bin(value: float) -> int:
    lowest = 10.0**FIRST_DECADE
    return max(0, floor((log10(max(value, lowest)) - FIRST_DECADE) * BINS_PER_DECADE))


def list_bins(histogram: dict[str, Any]) -> list[tuple[float, int]]:
    """(lower edge, count) of every bin."""
    first, each = histogram["first_decade"], histogram["bins_per_decade"]
    return [(10.0 ** (first + place / each), count) for place, count in enumerate(histogram["counts"])]


def compute_share_beyond(histogram: dict[str, Any], threshold: float) -> float:
    """The share of values in bins that lie at `threshold` or above it."""
    bins = list_bins(histogram)
    total = sum(count for _, count in bins)
    beyond = sum(count for edge, count in bins if edge >= threshold * (1 - 1e-9))
    return beyond / total if total else 0.0


DRIFT_REACH = 10
"""Times the steps of a segment: an end farther beyond the limits than that is not tried to be shared over its
steps. Even shares bring it down by no more than the number of steps."""


@dataclass
class Tally:
    """One attack over all samples. A sample is one claim seen by one verifier. excesses: distances in units
    of the limit, by arena; weakest: where the smallest one was; step_excess: the least to which a defence
    brought the worst step of a rejected claim; kept: rejected claims each of whose steps could lie inside;
    moved: the largest distance of W over the update's norm; loss: the largest difference of the held-out loss
    at a segment's end, nats; idle: claims that changed nothing."""

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
        """One more sample."""
        self.weakest = place if not self.samples or excess < self.margin else self.weakest
        self.samples += 1
        self.rejected += is_rejected
        self.excesses.setdefault(arena, []).append(excess)

    def add_defence(self, step_excess: float) -> None:
        """What the best defence of a rejected claim came to."""
        self.step_excess = min(self.step_excess, step_excess)
        self.kept += step_excess <= 1

    def add_harm(self, moved: float, loss: float) -> None:
        """What a claim would do to the model."""
        self.moved, self.loss = max(self.moved, moved), max(self.loss, loss, key=abs)


@dataclass
class Segment:
    """An attacked segment: its place, its start and what each verifier made of it; their states' headers, all
    in the shelf."""

    ground: Ground
    stage: int
    start: TrainingState
    ends: dict[str, TrainingState]
    headers: dict[str, StateHeader]
    honest: tuple[TrainingState, ...]
    """In the program's bits and in plain PyTorch's, which attacks are made of."""
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
        """Of the honest end."""
        return self.measure(self.honest[0])

    def measure(self, state: TrainingState) -> float:
        """The loss on the held-out text, nats a token."""
        return compute_heldout_loss(state.weights, self.ground.heldout, get_model(self.ground.spec))


def open_segment(
    ground: Ground,
    stage: int,
    configurations: Sequence[KernelConfiguration],
    limits: Calibrated,
    states: StateStore,
) -> Segment:
    """A segment with everything honest that belongs to it."""
    start = ground.load_start(stage)
    ends = {one.name: ground.load_end(one, stage) for one in configurations}
    headers = {name: states.keep(end) for name, end in ends.items()}
    place = (ground.get_batches(stage), ground.get_inner_step(stage), ground.arena.segment_steps)
    honest = list_honest_ends(start, ground.spec, *place)
    return Segment(ground, stage, start, ends, headers, honest, read_task(ground, limits.limits), states)


def read_task(ground: Ground, limits: Limits) -> AuditTask:
    """What an auditor knows of an arena's task."""
    arena, count = ground.arena, ground.parameter_count
    rates = tuple(ground.count_rates(stage, arena.segment_steps) for stage in arena.list_stages())
    steps = (arena.inner_steps, arena.segment_steps)
    return AuditTask(
        bytes(32), ground.spec, ground.corpus, count, *steps, zero_root(count), False, limits, rates
    )


# --- Attacks on states --------------------------------------------------------------------------------------
def judge_attack(segment: Segment, attack: Attack, tally: Tally) -> None:
    """Plays the attack on the segment and lets every verifier judge; then the claimant defends itself."""
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
    """Whether any verifier rejects the claimed end."""
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
    """By how much of the update's norm W is elsewhere, and what that does to the held-out loss, nats."""
    honest = segment.honest[0]
    update = (honest.weights - segment.start.weights).double().norm()
    moved = (claimed.weights - honest.weights).double().norm() / update
    return float(moved), segment.measure(claimed) - segment.heldout_loss


def defend(segment: Segment, claimed: TrainingState) -> float:
    """The worst step of the best defence, in limits of a step, as seen on this process's kernels. The lie in
    the last step; shared evenly where that does not do and it can."""
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


# --- Forged pseudo-gradients --------------------------------------------------------------------------------
def judge_forgery(segment: Segment, forgery: Forgery, tally: Tally) -> None:
    """What an auditor finds who computes the pseudo-gradient again from the opened end: a leaf that differs.

    Its limit is no difference at all, and its distance is counted in quanta of the block."""
    start, end = segment.start.weights, segment.honest[0].weights
    truth, claimed = encode_delta(start, end), forgery.forge(start, end)
    if claimed == truth:
        tally.idle += 1
        return
    distance = _measure_quanta(truth, claimed, start.numel())
    is_rejected = _find_forgery(segment, claimed)
    tally.add(segment.ground.arena.name, segment.name, distance, is_rejected)


def _find_forgery(segment: Segment, delta: bytes) -> bool:
    """Whether an auditor's word on this pseudo-gradient is REJECT_DELTA."""
    root = build_delta_tree(delta).root
    segment.states.store.put_delta(root, delta)
    segment.states.keep(segment.start)
    end = BoundaryProof(segment.states.keep(segment.honest[0]), bytes(32), ())
    ends = EndsShown(end, end, ShownWork(root, compute_carried_root(end.header), ()))
    return judge_work(segment.states, tensor_root(segment.start.weights), ends) is not None


def _measure_quanta(truth: bytes, claimed: bytes, parameter_count: int) -> float:
    """The largest difference of an element, in quanta of the true block."""
    assert len(truth) == len(claimed) == count_delta_bytes(parameter_count)
    blocks = torch.frombuffer(bytearray(truth), dtype=torch.uint8).view(-1, DELTA_BLOCK_BYTES)
    quantum = torch.exp2(blocks[:, 0].double() - SCALE_EXPONENT_BIAS)
    scale = quantum.repeat_interleave(DELTA_BLOCK_BYTES - 1)[:parameter_count]
    values = (decode_delta(data, parameter_count).double() for data in (truth, claimed))
    return float(((next(values) - next(values)).abs() / scale).max())


# --- All of them --------------------------------------------------------------------------------------------
def judge_all(
    grounds: Sequence[tuple[Ground, Calibrated]], configurations: Sequence[KernelConfiguration]
) -> list[Tally]:
    """Every attack on every attacked segment."""
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
    """Each with a store of its own, which is gone afterwards."""
    for stage in ground.arena.list_attacked():
        with tempfile.TemporaryDirectory(dir=ground.folder) as folder:
            store = BlobStore(Path(folder, "store"), is_durable=False)
            states = StateStore(store, ground.parameter_count)
            yield open_segment(ground, stage, configurations, limits, states)
