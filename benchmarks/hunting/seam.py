"""What verifiers say of every attack, segment by segment: the whole end state against their own replay, by
limits that were calibrated from honest replays of the same model. Before it rejects, a verifier looks at the
segment's own noise, as nodes do.

A claim that has the very bits of an honest one is no cheat and is not counted: clipping left out where
nothing is clipped, a schedule that is ahead where it is flat.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from benchmarks.hunting.arena import Calibrated, Ground
from protocol.compute.calibrate import KernelConfiguration
from protocol.compute.compare import compute_excess, judge_state
from protocol.compute.conditioning import Conditioning, measure_conditioning, weigh
from protocol.compute.outer import count_delta_bytes, decode_delta, encode_delta
from protocol.compute.step import TrainingState
from protocol.spec.params import DELTA_BLOCK_BYTES, SCALE_EXPONENT_BIAS
from protocol.spec.tolerance import Judgement
from tests.attacks.frame import Attack, is_equal, list_honest_ends
from tests.attacks.menagerie import ATTACKS
from tests.attacks.outer import FORGERIES, Forgery

SEED = 1
"""Which way weights are shaken."""
OTHER_DATA = 1 << 20
"""Steps between a segment's data and others."""


@dataclass
class Tally:
    """One attack over all samples. A sample is one claim seen by one verifier. excesses: distances in units
    of the reject limit, by arena; weakest: where the smallest one was; idle: claims that changed nothing."""

    number: str
    name: str
    saved: float = 0.0
    samples: int = 0
    rejected: int = 0
    grey: int = 0
    idle: int = 0
    excesses: dict[str, list[float]] = field(default_factory=dict)
    weakest: str = ""

    @property
    def detected(self) -> float:
        """The share of samples that were rejected."""
        return self.rejected / self.samples if self.samples else 0.0

    @property
    def margin(self) -> float:
        """The smallest distance over the reject limit."""
        return min((value for values in self.excesses.values() for value in values), default=0.0)

    def add(self, arena: str, place: str, excess: float, judgement: Judgement) -> None:
        """One more sample."""
        self.weakest = place if not self.samples or excess < self.margin else self.weakest
        self.samples += 1
        self.rejected += judgement is Judgement.REJECT
        self.grey += judgement is Judgement.GREY
        self.excesses.setdefault(arena, []).append(excess)


@dataclass(frozen=True)
class Segment:
    """An attacked segment: its place, its start and what each verifier made of it."""

    ground: Ground
    stage: int
    start: TrainingState
    ends: dict[str, TrainingState]
    honest: tuple[TrainingState, ...]
    """In the program's bits and in plain PyTorch's, which attacks are made of."""
    conditioning: Conditioning

    @property
    def name(self) -> str:
        """Arena and place."""
        return f"{self.ground.arena.name} at step {self.stage}"


def open_segment(
    ground: Ground, stage: int, configurations: Sequence[KernelConfiguration], limits: Calibrated
) -> Segment:
    """A segment with everything honest that belongs to it."""
    start = ground.load_start(stage)
    ends = {one.name: ground.load_end(one, stage) for one in configurations}
    place = (ground.get_batches(stage), ground.get_inner_step(stage), ground.arena.segment_steps)
    honest = list_honest_ends(start, ground.spec, *place)
    conditioning = measure_conditioning(
        lambda state: ground.replay(state, stage),
        lambda state: ground.replay(state, stage, OTHER_DATA),
        lambda: start,
        honest[0],
        ground.count_rates(stage),
        limits.proposal.reject,
        SEED,
    )
    return Segment(ground, stage, start, ends, honest, conditioning)


def judge_attack(segment: Segment, attack: Attack, limits: Calibrated, tally: Tally) -> None:
    """Plays the attack on the segment and lets every verifier judge."""
    ground, stage = segment.ground, segment.stage
    steps, first = ground.arena.segment_steps, ground.get_inner_step(stage)
    claimed, _ = attack.train(segment.start, ground.spec, ground.get_batches(stage), first, steps)
    if any(is_equal(claimed, honest) for honest in segment.honest):
        tally.idle += 1
        return
    tally.saved = max(tally.saved, attack.saved(ground.spec, steps))
    accept, reject = limits.proposal.accept, limits.proposal.reject
    rate = ground.count_rates(stage)
    for name, end in segment.ends.items():
        verdict = weigh(judge_state(claimed, end, rate, accept, reject), segment.conditioning)
        excess = float(compute_excess(claimed, end, rate, reject).max())
        tally.add(ground.arena.name, f"{segment.name}, seen by {name}", excess, verdict.judgement)


def judge_forgery(segment: Segment, forgery: Forgery, tally: Tally) -> None:
    """What an auditor finds who computes the pseudo-gradient again from the opened end: bytes that differ.

    Its limit is no difference at all, and its distance is counted in quanta of the block."""
    start, end = segment.start.weights, segment.honest[0].weights
    truth, claimed = encode_delta(start, end), forgery.forge(start, end)
    if claimed == truth:
        tally.idle += 1
        return
    distance = _measure_quanta(truth, claimed, start.numel())
    judgement = Judgement.REJECT if claimed != truth else Judgement.ACCEPT
    tally.add(segment.ground.arena.name, segment.name, distance, judgement)


def _measure_quanta(truth: bytes, claimed: bytes, parameter_count: int) -> float:
    """The largest difference of an element, in quanta of the true block."""
    assert len(truth) == len(claimed) == count_delta_bytes(parameter_count)
    blocks = torch.frombuffer(bytearray(truth), dtype=torch.uint8).view(-1, DELTA_BLOCK_BYTES)
    quantum = torch.exp2(blocks[:, 0].double() - SCALE_EXPONENT_BIAS)
    scale = quantum.repeat_interleave(DELTA_BLOCK_BYTES - 1)[:parameter_count]
    values = (decode_delta(data, parameter_count).double() for data in (truth, claimed))
    return float(((next(values) - next(values)).abs() / scale).max())


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
                judge_attack(segment, attack, limits, tally)
            for forgery, tally in zip(FORGERIES, forged, strict=True):
                judge_forgery(segment, forgery, tally)
            print(f"{segment.name}: {time.monotonic() - started:.0f} s", flush=True)
    return [*tallies, *forged]


def _iterate_segments(
    ground: Ground, configurations: Sequence[KernelConfiguration], limits: Calibrated
) -> Iterator[Segment]:
    return (open_segment(ground, stage, configurations, limits) for stage in ground.arena.list_attacked())
