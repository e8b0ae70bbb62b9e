"""Plants lies into single elements of honest traces, and counts which are found.

The traces are of steps of a real training run: from the initial model, from the warm-up, and from late in
training. One process trains on the standard library's text and stores what each step reads; others record its
trace on their kernels.

Lies are errors of twice the bound, and results of wrong wirings. A lie is found if the checker names that
node and that element and nothing else, and the referee convicts it from the element's own operands. The
result of a wrong wiring is first compared with the right one. Equal values, and exact results so close that
an honest machine could have given either, are no lies and are drawn again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from math import inf
from pathlib import Path
from random import Random

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lab.benchmarks.honesty.cases import LAYOUTS, Sample, make_sample
from lab.benchmarks.honesty.wirings import WIRINGS, list_wrong
from tests.task_models import DecoderStep, build_program, draw_first, respecify
from tests.training_setting import (
    DEMO_MODEL,
    INNER_STEPS,
    PEAK_LEARNING_RATE,
    SEQUENCES_PER_STEP,
    build_training,
)
from touchstone.protocol.compute.batches import Corpus, get_batch, open_corpus
from touchstone.protocol.compute.bounds.trace_check import TraceChecker
from touchstone.protocol.compute.program.built_program import BuiltProgram
from touchstone.protocol.compute.program.interpreter import Interpreter
from touchstone.protocol.compute.program.step import advance, begin_round, compute_scalars
from touchstone.protocol.compute.program.training_state import Batch, TrainingState
from touchstone.protocol.spec.float32 import LEAST_NORMAL, nearest
from touchstone.protocol.spec.program import DEFAULT_CHUNK_TERMS, Buffer, Outputs, Program, Role
from touchstone.protocol.spec.program_operations import BOUNDED_OPERATIONS, Operation
from touchstone.protocol.spec.referee import Judgement
from touchstone.protocol.spec.task_spec import ScheduleConfig, TrainingSpec
from touchstone.step.optimizers import AdamW
from touchstone.step.plain_decoder import DecoderConfig

MODELS = {
    "tiny": (DecoderConfig(256, 32, 96, 2, 4, 2, 32), 128),
    "small": (DecoderConfig(256, 64, 192, 3, 4, 4, DEMO_MODEL.context_tokens), DEFAULT_CHUNK_TERMS),
    "demo": (DEMO_MODEL, DEFAULT_CHUNK_TERMS),
}
"""Models of 34,000, 0.2 million and 0.97 million parameters, each with its longest sum."""
STAGES = ("initial", "warm-up", "late")
TRAINED_STEPS = 4 * INNER_STEPS
"""The learning rate rises over the first INNER_STEPS; the last INNER_STEPS are late ones."""
SCHEDULE = ScheduleConfig(PEAK_LEARNING_RATE, warmup_steps=INNER_STEPS, total_steps=TRAINED_STEPS)
BEACON = sha256(b"honest").digest()


@dataclass(frozen=True)
class Step:
    """The inputs of one step: W, m, v, a batch and the scalars."""

    vectors: tuple[Tensor, Tensor, Tensor]
    batch: Batch
    scalars: Tensor

    def save(self, path: Path) -> None:
        """Writes the inputs to a safetensors file."""
        names = ("w", "m", "v", "tokens", "labels", "scalars")
        save_file(dict(zip(names, (*self.vectors, *self.batch, self.scalars), strict=True)), path)

    def record(self, built: BuiltProgram, device: str = "cpu") -> dict[int, Tensor]:
        """Records the whole trace on a device: every buffer of the program, flat."""
        interpreter = Interpreter(built.program, built.constants, keeps_all=True, device=device)
        interpreter.run(self.vectors, *self.batch, self.scalars)
        return {number: tensor.cpu() for number, tensor in interpreter.tensors.items()}


def build_step(model: str) -> BuiltProgram:
    """Builds the program of a step of one of MODELS."""
    config, chunk_terms = MODELS[model]
    tokens = config.context_tokens
    return build_program(DecoderStep(config, AdamW(), SEQUENCES_PER_STEP, tokens, chunk_terms))


def load_step(path: Path) -> Step:
    """Reads what `save` wrote."""
    tensors = load_file(path)
    vectors = (tensors["w"], tensors["m"], tensors["v"])
    return Step(vectors, Batch(tensors["tokens"], tensors["labels"]), tensors["scalars"])


@dataclass(frozen=True)
class Training:
    """A task and its text."""

    spec: TrainingSpec
    corpus: Corpus

    def choose(self, stage: str, count: int) -> list[Step]:
        """Returns `count` steps of a stage: from different initial models, or evenly out of one run."""
        if stage == "initial":
            return [self._take(self._begin(seed), shard=1 + seed) for seed in range(count)]
        first = 1 if stage == "warm-up" else TRAINED_STEPS - INNER_STEPS
        chosen = [first + (INNER_STEPS - 1) * place // count for place in range(count)]
        state, steps = self._begin(self.spec.initial_seed), []
        for number in range(max(chosen, default=-1) + 1):
            steps += [self._take(state)] * chosen.count(number)
            state, _ = advance(state, self._get_batch(0, number), self.spec)
        return steps

    def _begin(self, seed: int) -> TrainingState:
        return begin_round(draw_first(self.spec, seed), 0)

    def _get_batch(self, shard: int, step: int) -> Batch:
        return get_batch(self.corpus, self.spec, BEACON, shard, step)

    def _take(self, state: TrainingState, shard: int = 0) -> Step:
        vectors = (state.weights, state.first_moment, state.second_moment)
        scalars = compute_scalars(self.spec, state.local_step, state.global_step)
        return Step(vectors, self._get_batch(shard, state.local_step), scalars)


def open_training(model: str, data: bytes) -> Training:
    """Opens the demo's task with one of MODELS."""
    config, chunk_terms = MODELS[model]
    demo = build_training(data, SCHEDULE)
    tokens = config.context_tokens
    spec = respecify(demo, model=config, sequence_tokens=tokens, chunk_terms=chunk_terms)
    return Training(spec, open_corpus(data, spec))


SHRINK = 64
"""Single nodes have this many times fewer elements than in the campaign."""
DRAWS = 6
"""Elements of one wrong wiring that are examined."""


@dataclass(frozen=True)
class Subject:
    """A node of an honest trace: the program, the node's number, and all buffers."""

    program: Program
    number: int
    buffers: Mapping[int, Tensor]

    @property
    def sample(self) -> Sample:
        """The node with its memory."""
        return Sample(self.program.nodes[self.number], self.buffers)

    def is_found(self, element: int, value: float) -> bool:
        """Returns whether both checker and referee see that `value` at `element` is a lie, if all else is
        honest."""
        sample = self.sample
        buffer, place = sample.find(element)
        values = self.buffers[buffer].clone()
        values[place] = value
        claimed = sample.put(buffer, values)
        only = range(self.number, self.number + 1)
        report = TraceChecker(self.program).check(claimed.buffers.__getitem__, only)
        operation = sample.node.operation
        named = [fault[:3] for fault in report.faults] == [(self.number, operation, element)]
        return named and report.kinds[operation].outside == 1 and claimed.judge(element).is_fault


def list_subjects(program: Program, buffers: Mapping[int, Tensor]) -> dict[Operation, list[Subject]]:
    """Returns the nodes of a trace by kind."""
    subjects: dict[Operation, list[Subject]] = {kind: [] for kind in BOUNDED_OPERATIONS}
    for number, node in enumerate(program.nodes):
        subjects[node.operation].append(Subject(program, number, buffers))
    return subjects


def make_single(kind: Operation) -> list[Subject]:
    """Makes single nodes of a kind over ordinary operands."""
    generator = torch.Generator().manual_seed(kind)
    return [
        _wrap(make_sample(kind, replace(layout.shrink(SHRINK), values="plain"), generator).compute())
        for layout in LAYOUTS[kind]
    ]


def _wrap(sample: Sample) -> Subject:
    """Returns a program of one node."""
    buffers = tuple(
        Buffer(Role.TENSOR if values.is_floating_point() else Role.TOKENS, values.numel())
        for _, values in sorted(sample.buffers.items())
    )
    return Subject(Program(4096, buffers, (sample.node,), Outputs(0, 0, 0, 0)), 0, sample.buffers)


# Tallies
@dataclass
class Tally:
    """Counts of lies: `tried` and `found`. `same` counts wrong wirings that gave equal values, `close`
    elements within what an honest machine might have given. `missed` has a line for each lie that was not
    found."""

    tried: int = 0
    found: int = 0
    same: int = 0
    close: int = 0
    missed: list[str] = field(default_factory=list)

    def note(self, subject: Subject, lie: str, element: int, value: float) -> None:
        """Plants a lie and looks for it."""
        is_found = subject.is_found(element, value)
        self.tried += 1
        self.found += is_found
        if not is_found:
            judged = subject.sample.judge(element)
            self.missed.append(f"{lie}: node {subject.number} element {element} {value!r}, honest {judged}")


# Errors
def plant_errors(subjects: list[Subject], count: int, random: Random) -> Tally:
    """Plants errors of twice the bound, up and down, in `count` elements of the nodes in turn; one bit if the
    bound is zero."""
    tally, turns = Tally(), random.sample(subjects, len(subjects))
    for number in range(count):
        subject = turns[number % len(turns)]
        element = random.randrange(subject.sample.node.elements)
        for value in _find_errors(subject.sample, element):
            tally.note(subject, "error", element, value)
    return tally


def _find_errors(sample: Sample, element: int) -> Iterator[float]:
    judged = sample.judge(element)
    buffer, place = sample.find(element)
    honest = np.float32(sample.buffers[buffer][place])
    if judged.exact is None or not np.isfinite(honest):
        return
    for sign in (1, -1):
        value = honest
        if judged.bound:
            value = _round_away(judged.exact + sign * 2 * judged.bound, sign)
        else:
            value = np.nextafter(honest, np.float32(sign * inf))
        if np.isfinite(value):
            yield float(value)


def _round_away(value: Fraction, sign: int) -> np.float32:
    """Returns the float32 at `value`, or the next one on the side of `sign`."""
    rounded = np.float32(nearest(value))
    is_away = sign * (Fraction(float(rounded)) - value) >= 0
    return rounded if is_away else np.nextafter(rounded, np.float32(sign * inf))


# Wirings
def plant_wirings(subjects: list[Subject], count: int, random: Random) -> dict[str, Tally]:
    """Plants at least `count` lies of each wiring, if it makes a difference anywhere."""
    tallies = {}
    for name in WIRINGS:
        tally = tallies[name] = Tally()
        for subject in random.sample(subjects, len(subjects)):
            if tally.tried >= count:
                break
            _plant_wiring(subject, name, tally, random)
    return {name: tally for name, tally in tallies.items() if tally.tried or tally.same or tally.close}


def _plant_wiring(subject: Subject, name: str, tally: Tally, random: Random) -> None:
    """Plants the first wrong wiring of this node that makes a difference."""
    right = subject.sample
    for wrong in list_wrong(name, right, random):
        computed = wrong.compute()
        differs = (computed.output != right.output).flatten().nonzero().flatten().tolist()
        if not differs:
            tally.same += 1
            continue
        for element in random.sample(differs, min(DRAWS, len(differs))):
            if _is_apart(right.judge(element), computed.judge(element)):
                tally.note(subject, name, element, _read(computed, element))
                return
            tally.close += 1


def _read(sample: Sample, element: int) -> float:
    buffer, place = sample.find(element)
    return float(sample.buffers[buffer][place])


def _is_apart(right: Judgement, wrong: Judgement) -> bool:
    """Returns whether no honest machine that computes one result could also give the other: the exact results
    are further apart than both bounds, and not both flushed."""
    if right.exact is None or wrong.exact is None or wrong.distance is None:
        return False
    if max(abs(right.exact), abs(wrong.exact)) < LEAST_NORMAL:
        return False
    return abs(right.exact - wrong.exact) > right.bound + wrong.bound
