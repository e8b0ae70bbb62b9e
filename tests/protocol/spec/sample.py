"""A small well-formed task, for tests that need any task at all."""

from tools.vectors.fixed_values import ACCOUNT, LIMITS, bits, word
from touchstone.protocol.spec import data_trees
from touchstone.protocol.spec.float32 import nearest
from touchstone.protocol.spec.params import PROTOCOL_VERSION
from touchstone.protocol.spec.schedule import compute_schedule_levels, compute_schedule_sums
from touchstone.protocol.spec.task_spec import NamedBytes, ScheduleConfig, TaskSpec, TaskTerms, TrainingSpec


def sample_task() -> TaskSpec:
    """A small well-formed task: 12 inner steps in 6 segments of 2, 3 rounds, 70,000 parameters by name
    only."""
    schedule = ScheduleConfig(nearest(1e-3), warmup_steps=8, total_steps=36, decay_steps=9)
    training = TrainingSpec(
        protocol_version=PROTOCOL_VERSION,
        numeric_format="float32",
        program_root=word("program"),
        program=NamedBytes(word("program bytes"), 70_000),
        layout=NamedBytes(word("layout bytes"), 2_000),
        vocabulary_size=256,
        beta1=nearest(0.9),
        beta2=nearest(0.95),
        schedule=schedule,
        sequences_per_step=4,
        sequence_tokens=64,
        initial_seed=7,
        dataset_root=word("dataset"),
        token_count=100_000,
        heldout_tokens=8_192,
    )
    spec = TaskSpec(_sample_terms(bytes(32)), training)
    root = compute_schedule_levels(compute_schedule_sums(spec))[-1][0]
    return TaskSpec(_sample_terms(root), training)


def _sample_terms(schedule_root: bytes) -> TaskTerms:
    return TaskTerms(
        submitter=ACCOUNT,
        initial_weights_root=word("initial weights"),
        zero_root=data_trees.compute_zero_tensor_root(106_816),
        schedule_root=schedule_root,
        step_root=word("step"),
        parameter_count=106_816,
        rounds=3,
        inner_steps=12,
        segment_steps=2,
        carry_moments=0,
        outer_learning_rate=bits(0.7),
        outer_momentum=bits(0.9),
        limits=LIMITS,
    )
