"""Defines what a task fixes: its terms, its training, and the facts of its steps.

Values are frozen, typed, and compared by value. Twin: `Types.sol`. Fields that the contracts know carry the
Solidity name in snake case, in the same order; `training_codec.py` encodes the training. Python floats here
are always exactly representable in binary32 (`float32.nearest` makes them so).
"""

from dataclasses import dataclass

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import require_float32
from touchstone.protocol.spec.params import GIVEN_START
from touchstone.protocol.spec.state_headers import StateHeader


@dataclass(frozen=True)
class Limits:
    """Limits for single elements. `tau_*` are below 2^64 in units of 2^-64; `eps_m` and `floor_v` are below
    2^160 in units of 2^-149. `tau_r` allows for the rounding of W, relative to its magnitude."""

    tau_m: int
    eps_m: int
    tau_v: int
    floor_v: int
    tau_w: int
    tau_r: int


@dataclass(frozen=True)
class TaskTerms:
    """The terms of a task that training, replays and comparisons need. `outer_learning_rate` and
    `outer_momentum` are float32 bits; `carry_moments` is 0 or 1; `submitter` is `0x` and 40 hexadecimal
    digits."""

    submitter: str
    initial_weights_root: bytes
    zero_root: bytes
    schedule_root: bytes
    step_root: bytes
    parameter_count: int
    rounds: int
    inner_steps: int
    segment_steps: int
    carry_moments: int
    outer_learning_rate: int
    outer_momentum: int
    limits: Limits

    @property
    def segment_count(self) -> int:
        """n = H/k, the segments of one round."""
        return self.inner_steps // self.segment_steps


@dataclass(frozen=True)
class StepFacts:
    """What a referee must know of every training step of a task; `TaskTerms.step_root` is its hash.

    `program_nodes` and `program_buffers` are sizes of the program under `program_root`. `numeric_format` is
    the format's number in `params.FORMAT_NUMBERS`. `token_count` is how many tokens are trained on.
    `dataset_bytes` is the whole dataset, held-out part included. `scalar_count` is how many leaves are under
    `scalars_root`, one for each step of the task. An entry of the dataset that is not below `vocabulary_size`
    stands for token 0."""

    program_root: bytes
    dataset_root: bytes
    scalars_root: bytes
    program_nodes: int
    program_buffers: int
    numeric_format: int
    sequences_per_step: int
    sequence_tokens: int
    token_bytes: int
    token_count: int
    dataset_bytes: int
    scalar_count: int
    vocabulary_size: int


@dataclass(frozen=True)
class StepContext:
    """The step that a referee judges: its facts, the state before it and the root of its trace."""

    facts: StepFacts
    start: StateHeader
    trace_root: bytes


@dataclass(frozen=True)
class ScheduleConfig:
    """Warm-up, stable, decay (Hu et al., arXiv 2404.06395) by global step; `schedule.py` computes it.

    `inner_warmup_steps` ramps by local step too, for tasks whose moments start from zero in every round."""

    peak_learning_rate: float
    warmup_steps: int
    total_steps: int
    decay_steps: int = 0
    decay_shape: str = "linear"
    final_ratio: float = 0.0
    inner_warmup_steps: int = 0

    def __post_init__(self) -> None:
        require_float32("peak_learning_rate", self.peak_learning_rate)
        require_float32("final_ratio", self.final_ratio)


@dataclass(frozen=True)
class NamedBytes:
    """Bytes that a task names: their root (`data_trees.compute_data_root`), and their number."""

    root: bytes
    size_bytes: int


@dataclass(frozen=True)
class TrainingSpec:
    """What is trained and how: all parts of a task that only nodes need.

    The step is the program with `program_root`, whose canonical bytes are `program`; `layout` says which
    elements of W belong to which parameter. `beta1` and `beta2` are for the bias corrections that a step
    gets. `token_count` tokens train, the `heldout_tokens` after them measure; both are under `dataset_root`.
    `initial_seed` draws the first weights by the layout. If it is `params.GIVEN_START`, they are the tensor
    under `initial_weights_root`. `tokenizer_sha256` names the tokenizer.json that made the tokens, zero if
    there was none; no step depends on it."""

    protocol_version: int
    numeric_format: str
    program_root: bytes
    program: NamedBytes
    layout: NamedBytes
    vocabulary_size: int
    beta1: float
    beta2: float
    schedule: ScheduleConfig
    sequences_per_step: int
    sequence_tokens: int
    initial_seed: int
    dataset_root: bytes
    token_count: int
    heldout_tokens: int
    tokenizer_sha256: bytes = bytes(32)

    def __post_init__(self) -> None:
        for name in ("beta1", "beta2"):
            require_float32(name, getattr(self, name))

    @property
    def is_start_given(self) -> bool:
        """Whether the first weights are fetched as a tensor, because no seed makes them."""
        return self.initial_seed == GIVEN_START

    @property
    def token_bytes(self) -> int:
        """The bytes of one token in the dataset, little-endian: the fewest of 1, 2, 4 that hold the
        vocabulary."""
        return count_token_bytes(self.vocabulary_size)


def count_token_bytes(vocabulary_size: int) -> int:
    """Returns the fewest of 1, 2, 4 bytes that hold every token of a vocabulary."""
    return 1 if vocabulary_size <= 1 << 8 else 2 if vocabulary_size <= 1 << 16 else 4


@dataclass(frozen=True)
class TaskSpec:
    """A task as training, replays and comparisons need it."""

    terms: TaskTerms
    training: TrainingSpec

    def __post_init__(self) -> None:
        if not isinstance(self.terms, TaskTerms) or not isinstance(self.training, TrainingSpec):
            raise InvalidInput(
                what="a task is terms and training",
                expected="TaskTerms and TrainingSpec",
                actual=f"{type(self.terms).__name__} and {type(self.training).__name__}",
                remedy="Pass the two containers in this order.",
            )
