"""Lists the rules that a task must keep so that it cannot hurt nodes.

A node checks before it stakes, a submitter before it pays. The rules of members, windows and amounts are
`game.terms_check.check_terms` and `economics.money_rules.check_money`. What depends on a node's own speed, it
measures itself. Every rule here is checked from numbers alone, so nothing is fetched or built for a hostile
task. The rules of programs are in `program_rules.py`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from touchstone.protocol.spec.data_trees import compute_zero_tensor_root
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.float32 import is_finite, to_fraction
from touchstone.protocol.spec.params import (
    DECAY_SHAPES,
    MAX_DATASET_BYTES,
    MAX_PARAMETERS,
    MAX_SEGMENT_STEPS,
    MAX_SEQUENCE_TOKENS,
    MAX_TASK_SEGMENTS,
    MAX_VOCABULARY,
    MIN_TAU,
    NUMERIC_FORMATS,
    PRODUCT_BITS,
    PROTOCOL_VERSION,
    ZERO_WORD,
)
from touchstone.protocol.spec.program_codec import MAX_PROGRAM_BYTES
from touchstone.protocol.spec.schedule import compute_schedule_levels, compute_schedule_sums
from touchstone.protocol.spec.task_spec import TaskSpec
from touchstone.protocol.spec.weights_layout import MAX_LAYOUT_BYTES

Rule = tuple[bool, str, str, object]
"""(whether it holds, name, expected, actual)"""


def judge_range(name: str, value: float, least: float, most: float) -> Rule:
    """Returns the rule that a number lies between `least` and `most`."""
    return least <= value <= most, name, f"{least} .. {most}" if least < most else f"{least}", value


@dataclass(frozen=True)
class Malformation:
    """One broken rule: its name, the required value, and the task's value."""

    name: str
    expected: str
    actual: object


def find_training_malformations(spec: TaskSpec) -> list[Malformation]:
    """Returns every rule that a task breaks; none for a task that is safe to serve. Never raises on a decoded
    task."""
    # Recompute roots last, once the sizes are known to be harmless.
    return find_size_malformations(spec) or _list_broken(_root_rules(spec))


def find_size_malformations(spec: TaskSpec) -> list[Malformation]:
    """Returns every broken rule on sizes and numbers. Roots may be any but zero here."""
    cheap = [*_version_rules(spec), *_program_rules(spec), *_schedule_rules(spec)]
    return _list_broken([*cheap, *_step_rules(spec), *_data_rules(spec), *_limit_rules(spec)])


def _list_broken(rules: Iterable[Rule]) -> list[Malformation]:
    return [Malformation(name, expected, actual) for holds, name, expected, actual in rules if not holds]


def refuse_broken(broken: list[Malformation]) -> None:
    """Raises InvalidInput with every broken rule, if there is one."""
    if broken:
        raise InvalidInput(
            what="the task is malformed",
            expected="; ".join(f"{item.name}: {item.expected}" for item in broken),
            actual="; ".join(f"{item.name}: {item.actual}" for item in broken),
            where=", ".join(item.name for item in broken),
            remedy="Do not stake on it; its submitter has to post a corrected task.",
        )


def _version_rules(spec: TaskSpec) -> Iterator[Rule]:
    training = spec.training
    version = training.protocol_version
    yield version == PROTOCOL_VERSION, "protocol_version", f"{PROTOCOL_VERSION}", version
    yield (
        training.numeric_format in NUMERIC_FORMATS,
        "numeric_format",
        f"one of {NUMERIC_FORMATS}",
        training.numeric_format,
    )


def _program_rules(spec: TaskSpec) -> Iterator[Rule]:
    """Yields rules on the program's numbers in the task, before a byte of it is fetched (`program_rules.py`
    checks the rest)."""
    training, count = spec.training, spec.terms.parameter_count
    yield judge_range("parameter_count", count, 1, MAX_PARAMETERS)
    yield judge_range("program", training.program.size_bytes, 1, MAX_PROGRAM_BYTES)
    yield judge_range("layout", training.layout.size_bytes, 1, MAX_LAYOUT_BYTES)
    yield judge_range("vocabulary_size", training.vocabulary_size, 2, MAX_VOCABULARY)
    betas = (training.beta1, training.beta2)
    # beta = 1 never learns and divides by a bias correction of 0.
    yield all(0 <= beta < 1 for beta in betas), "betas", "beta1 and beta2 in [0, 1)", betas


def _schedule_rules(spec: TaskSpec) -> Iterator[Rule]:
    schedule, terms = spec.training.schedule, spec.terms
    total = terms.rounds * terms.inner_steps
    yield (
        0 < schedule.peak_learning_rate <= 1,
        "peak_learning_rate",
        "above 0, at most 1",
        schedule.peak_learning_rate,
    )
    # A schedule that ends early leaves a round without a learning rate.
    yield judge_range("total_steps", schedule.total_steps, total, total)
    yield judge_range("warmup_steps", schedule.warmup_steps, 0, total)
    yield judge_range("decay_steps", schedule.decay_steps, 0, total)
    yield schedule.decay_shape in DECAY_SHAPES, "decay_shape", f"one of {DECAY_SHAPES}", schedule.decay_shape
    yield judge_range("final_ratio", schedule.final_ratio, 0, 1)
    # If moments carry over, solvers differ in local step, and no single schedule leaf or learning rate would
    # hold for all.
    most = 0 if terms.carry_moments else terms.inner_steps
    yield judge_range("inner_warmup_steps", schedule.inner_warmup_steps, 0, most)


def _step_rules(spec: TaskSpec) -> Iterator[Rule]:
    """Rules of rounds, segments and the outer step."""
    t = spec.terms
    yield t.rounds >= 1, "rounds", "at least 1", t.rounds
    yield judge_range("segment_steps", t.segment_steps, 1, MAX_SEGMENT_STEPS)
    whole = t.segment_steps >= 1 and t.inner_steps >= 1 and t.inner_steps % t.segment_steps == 0
    yield whole, "inner_steps", "a positive multiple of segment_steps", t.inner_steps
    if whole:
        segments = t.segment_count
        yield judge_range("task_segments", t.rounds * segments, 1, MAX_TASK_SEGMENTS)
    yield judge_range("carry_moments", t.carry_moments, 0, 1)
    # The outer step must not leave the finite numbers by design (docs/spec.md, section 5).
    rate, momentum = t.outer_learning_rate, t.outer_momentum
    yield (
        _within(rate, Fraction(0), Fraction(4)) and rate != 0,
        "outer_learning_rate",
        "float32 in (0, 4)",
        hex(rate),
    )
    yield _within(momentum, Fraction(0), Fraction(1)), "outer_momentum", "float32 in [0, 1)", hex(momentum)


def _within(bits: int, low: Fraction, high: Fraction) -> bool:
    return bits < 1 << 31 and is_finite(bits) and low <= to_fraction(bits) < high


def _data_rules(spec: TaskSpec) -> Iterator[Rule]:
    training = spec.training
    length = training.sequence_tokens
    yield training.sequences_per_step >= 1, "sequences_per_step", "at least 1", training.sequences_per_step
    yield judge_range("sequence_tokens", length, 1, MAX_SEQUENCE_TOKENS)
    yield training.token_count > length, "token_count", f"more than one row ({length})", training.token_count
    # All parties watch the held-out loss; without it a poisoned task looks like any other.
    yield (
        training.heldout_tokens > length,
        "heldout_tokens",
        f"more than one row ({length})",
        training.heldout_tokens,
    )
    # A node holds the roots of all chunks before the first leaf. And a length that does not fit into
    # StepFacts could be shown in no dispute.
    size = (training.token_count + training.heldout_tokens) * training.token_bytes
    yield size <= MAX_DATASET_BYTES, "dataset_too_large", f"at most {MAX_DATASET_BYTES} bytes", size
    yield training.dataset_root != ZERO_WORD, "dataset_root", "a root", "the zero word"
    yield training.program_root != ZERO_WORD, "program_root", "a root", "the zero word"
    yield spec.terms.initial_weights_root != ZERO_WORD, "initial_weights_root", "a root", "the zero word"
    yield spec.terms.step_root != ZERO_WORD, "step_root", "a root", "the zero word"


def _limit_rules(spec: TaskSpec) -> Iterator[Rule]:
    limits = spec.terms.limits
    if spec.training.numeric_format in PRODUCT_BITS:
        return  # This task compares nothing by limits.
    # Limits below the noise of honest hardware would void honest work.
    least = min(limits.tau_m, limits.tau_v, limits.tau_w)
    yield least >= MIN_TAU, "limits", f"every tau at least {MIN_TAU} (2^-20)", least


def _root_rules(spec: TaskSpec) -> Iterator[Rule]:
    terms = spec.terms
    zero = compute_zero_tensor_root(terms.parameter_count)
    yield terms.zero_root == zero, "zero_root", zero.hex(), terms.zero_root.hex()
    # A schedule leaf that is too small rejects honest weights; one that is too large lets a cheat through.
    schedule = compute_schedule_levels(compute_schedule_sums(spec))[-1][0]
    yield terms.schedule_root == schedule, "schedule_root", schedule.hex(), terms.schedule_root.hex()
