"""The demo's model, optimizer and text as tests and benchmarks train them, and what is measured on it."""

from collections.abc import Sequence
from fractions import Fraction

import torch
from torch import Tensor

from tests.task_models import compute_loss, describe_step, make_plain_step, make_training, split_parameters
from touchstone.protocol.compute.audit.distance_survey import FLOORS, count_floor_units
from touchstone.protocol.compute.audit.kernel_configurations import KernelConfiguration
from touchstone.protocol.compute.batches import Corpus, dataset_root, open_corpus
from touchstone.protocol.compute.bounds.trace_check import Provider
from touchstone.protocol.compute.bounds.trace_tree import TraceTree, build_buffer_tree
from touchstone.protocol.compute.program.step import compute_scalars
from touchstone.protocol.compute.program.training_state import Batch, GetBatch, TrainingState
from touchstone.protocol.compute.tolerance.compare import Distances, Floors
from touchstone.protocol.spec.calibration_rules import make_limits
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import float_to_bits, nearest
from touchstone.protocol.spec.merkle import compute_levels
from touchstone.protocol.spec.params import PROTOCOL_VERSION
from touchstone.protocol.spec.program import Program, Role
from touchstone.protocol.spec.task_spec import Limits, ScheduleConfig, TrainingSpec
from touchstone.scripts.tasks.task_example import read_python_sources
from touchstone.step.plain_decoder import DecoderConfig


def get_heldout_batch(corpus: Corpus, spec: TrainingSpec, rows: int) -> Batch:
    """`rows` rows spread evenly over the held-out tokens: the fixed batch on which the global model is
    measured."""
    length = spec.sequence_tokens
    room = spec.heldout_tokens - length - 1
    if room < 0:
        raise ValueError(f"{spec.heldout_tokens} held-out tokens: a row needs more than {length}")
    starts = [spec.token_count + room * row // max(rows - 1, 1) for row in range(rows)]
    cut = corpus.read_rows(starts, length + 1)
    return Batch(cut[:, :-1].contiguous(), cut[:, 1:].contiguous())


def compute_heldout_loss(weights: Tensor, batch: Batch, model: DecoderConfig) -> float:
    """Mean cross entropy in nats per token of a batch, in one pass without gradients."""
    with torch.no_grad():
        params = split_parameters(weights, model)
        return float(compute_loss(params, *batch, model))


def list_configurations(capabilities: Sequence[str]) -> tuple[KernelConfiguration, ...]:
    """Six, or what there is on a processor with one kind of vector instructions: each of threads, oneDNN and
    `capabilities` (best first) in all its values; others at once, as on another machine."""
    best, second, last = capabilities[0], capabilities[1 % len(capabilities)], capabilities[-1]
    every = (
        KernelConfiguration(1, True, best),
        KernelConfiguration(2, True, best),
        KernelConfiguration(1, False, best),
        KernelConfiguration(1, True, second),
        KernelConfiguration(1, False, last),
        KernelConfiguration(2, False, last),
    )
    return tuple(dict.fromkeys(every))


def find_maxima(distances: Sequence[Distances]) -> tuple[float, float, float]:
    """The largest (first_moment, second_moment, weights) over all honest pairs measured."""
    if not distances:
        raise InvalidInput(
            what="nothing was measured", expected="distances of at least one pair", actual=0,
            remedy="Run the calibration first.",
        )  # fmt: skip
    return (
        max(d.first_moment for d in distances),
        max(d.second_moment for d in distances),
        max(d.weights for d in distances),
    )


def propose_limits(distances: Sequence[Distances], floors: Floors = FLOORS) -> Limits:
    """Limits from honest distances that were measured with the same `floors`, by the rule
    of `policy.make_limits`: raises InvalidInput as it does."""
    first, second, weights = map(Fraction, find_maxima(distances))
    return make_limits((first, second, weights), count_floor_units(floors))


def build_trace_tree(program: Program, get_tensor: Provider) -> TraceTree:
    """The tree of a whole step: W, m and v of the state before it, its other inputs, constants and tensors.
    `get_tensor` gives any buffer, flat, also later, when runs are opened. Values that are not finite are part
    of a trace as well. Raises InvalidInput where a tensor is not the program's."""
    roots = [
        buffer.constant_root
        if buffer.role is Role.CONSTANT
        else build_buffer_tree(program, get_tensor, number).root
        for number, buffer in enumerate(program.buffers)
    ]
    return TraceTree(program, compute_levels(roots), get_tensor)


DEMO_MODEL = DecoderConfig(
    vocabulary_size=256,
    hidden_size=128,
    intermediate_size=416,
    layer_count=4,
    head_count=4,
    kv_head_count=4,
    context_tokens=128,
)
"""0.97 million parameters."""
ROUNDS = 4
INNER_STEPS = 40
"""H, steps of a round."""
SEGMENT_STEPS = 10
"""k, steps of a segment."""
PEAK_LEARNING_RATE = nearest(2e-3)
INNER_WARMUP_STEPS = 8
SEQUENCES_PER_STEP = 8
INITIAL_SEED = 1
OUTER_LEARNING_RATE = nearest(0.7)
OUTER_MOMENTUM = nearest(0.6)
OUTER_RATES_BITS = (float_to_bits(OUTER_LEARNING_RATE), float_to_bits(OUTER_MOMENTUM))
"""As a task's terms hold them."""
CORPUS_BYTES = 4_000_000
HELDOUT_BYTES = 100_000


def build_demo_schedule(rounds: int = ROUNDS) -> ScheduleConfig:
    """The demo's learning rates: up over the first round, and after each reset of the moments."""
    return ScheduleConfig(
        PEAK_LEARNING_RATE,
        warmup_steps=INNER_STEPS,
        total_steps=rounds * INNER_STEPS,
        inner_warmup_steps=INNER_WARMUP_STEPS,
    )


def read_standard_library(limit: int = CORPUS_BYTES) -> bytes:
    """Sources of the running Python's standard library, `limit` bytes at most."""
    return read_python_sources(limit)


def build_training(data: bytes, schedule: ScheduleConfig) -> TrainingSpec:
    """The demo's training spec on `data` with these learning rates: 8 x 128 tokens a step, float32."""
    return make_training(
        DEMO_MODEL,
        protocol_version=PROTOCOL_VERSION,
        numeric_format="float32",
        schedule=schedule,
        sequences_per_step=SEQUENCES_PER_STEP,
        sequence_tokens=DEMO_MODEL.context_tokens,
        initial_seed=INITIAL_SEED,
        dataset_root=dataset_root(data),
        token_count=len(data) - HELDOUT_BYTES,
        heldout_tokens=HELDOUT_BYTES,
    )


def open_demo_corpus(data: bytes, spec: TrainingSpec) -> Corpus:
    """The corpus of `build_training`'s spec."""
    return open_corpus(data, spec)


def train_plainly(
    state: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, steps: int
) -> TrainingState:
    """Steps of the task in plain PyTorch with autograd: what nodes would run without a program. Under
    autocast it is what a cheat with lower precision runs."""
    plain = make_plain_step(describe_step(spec))
    for step in range(inner_step, inner_step + steps):
        scalars = compute_scalars(spec, state.local_step, state.global_step)
        vectors = (state.weights, state.first_moment, state.second_moment)
        with torch.no_grad():
            result = plain.take(vectors, *get_batch(step), scalars)
        state = TrainingState(*result[:3], state.local_step + 1, state.global_step + 1)
    return state
