"""Posting a task: from a model, a dataset and a plan to terms, an escrow, and a served dataset.

The submitter computes every root that nodes will check before they stake; what they would refuse is never
posted.
"""

import asyncio
from dataclasses import dataclass, replace

from torch import Tensor

from protocol.actions.runtime.joining import refer_dataset, refuse_harmful, require_format
from protocol.actions.runtime.party import Party
from protocol.adapters.chain.contract_events import Event
from protocol.compute.digest import tensor_bytes, tensor_root, zero_root
from protocol.compute.model.batches import dataset_root
from protocol.compute.model.reference_model import init_parameters, parameter_count
from protocol.compute.model.reference_step import require_live_parameters
from protocol.compute.program.task_program import with_program, with_step_root
from protocol.spec.codec import encode_training
from protocol.spec.containers import (
    Limits,
    ModelConfig,
    OptimizerConfig,
    ScheduleConfig,
    TaskSpec,
    TrainingSpec,
    count_token_bytes,
)
from protocol.spec.float32 import float_to_bits
from protocol.spec.game.ledger import read_terms
from protocol.spec.game.terms import GameAmounts, GameWindows, PostedTerms, compute_escrow, make_spec
from protocol.spec.params import FORMAT_NUMBERS, GIVEN_START, PROTOCOL_VERSION
from protocol.spec.program import DEFAULT_CHUNK_TERMS
from protocol.spec.schedule import compute_schedule_levels, compute_schedule_sums
from protocol.spec.statements import SigningDomain
from protocol.spec.task_rules import count_parameters, has_sizes

STAND_IN = bytes(31) + b"\1"
"""For a root that is not computed yet."""


@dataclass(frozen=True)
class RoundPlan:
    """What a submitter chooses. Everything else of a task follows from it and the dataset's bytes: tokens of
    1, 2 or 4 bytes by the vocabulary. initial_seed: `GIVEN_START` where the first weights are given.
    tokenizer_sha256: of the tokenizer.json that made the tokens, hex; empty where there was none."""

    model: ModelConfig
    schedule: ScheduleConfig
    windows: GameWindows
    amounts: GameAmounts
    limits: Limits
    rounds: int
    inner_steps: int
    segment_steps: int
    solver_seats: int
    draws: int
    late_chance: int
    least_solvers: int
    least_verifiers: int
    least_whistleblowers: int
    carry_moments: int
    outer_learning_rate: float
    outer_momentum: float
    sequences_per_step: int
    sequence_tokens: int
    heldout_tokens: int
    initial_seed: int
    optimizer: OptimizerConfig = OptimizerConfig()
    chunk_terms: int = DEFAULT_CHUNK_TERMS
    numeric_format: str = "float32"
    tokenizer_sha256: str = ""


def build_task(
    plan: RoundPlan, dataset: bytes | memoryview, submitter: str, salt: bytes, start: Tensor | None = None
) -> tuple[PostedTerms, TrainingSpec]:
    """The whole task, all roots computed. start: the flat weights that it begins with, where no seed makes
    them."""
    assert (plan.initial_seed == GIVEN_START) == (start is not None), "either a seed or weights"
    training = _build_training(plan, dataset)
    weights = init_parameters(training.model, training.initial_seed) if start is None else start
    terms = _build_terms(plan, training, submitter, salt, tensor_root(weights))
    levels = compute_schedule_levels(compute_schedule_sums(make_spec(terms, training)))
    terms = replace(terms, schedule_root=levels[-1][0])
    stepped = with_step_root(make_spec(terms, training))
    return replace(terms, step_root=stepped.terms.step_root), training


def sketch_task(plan: RoundPlan, dataset_bytes: int) -> TaskSpec:
    """The task of a plan as far as sizes and numbers go; all its roots are `STAND_IN`."""
    count = count_parameters(plan.model) if has_sizes(plan.model) else 0
    return make_spec(_sketch_terms(plan, count), _sketch_training(plan, dataset_bytes))


def _sketch_training(plan: RoundPlan, dataset_bytes: int) -> TrainingSpec:
    return TrainingSpec(
        protocol_version=PROTOCOL_VERSION,
        numeric_format=plan.numeric_format,
        chunk_terms=plan.chunk_terms,
        program_root=STAND_IN,
        model=plan.model,
        optimizer=plan.optimizer,
        schedule=plan.schedule,
        sequences_per_step=plan.sequences_per_step,
        sequence_tokens=plan.sequence_tokens,
        initial_seed=plan.initial_seed,
        dataset_root=STAND_IN,
        token_count=dataset_bytes // count_token_bytes(plan.model.vocabulary_size) - plan.heldout_tokens,
        heldout_tokens=plan.heldout_tokens,
        tokenizer_sha256=bytes.fromhex(plan.tokenizer_sha256) or bytes(32),
    )


def _build_training(plan: RoundPlan, dataset: bytes | memoryview) -> TrainingSpec:
    sketch = _sketch_training(plan, len(dataset))
    return with_program(replace(sketch, dataset_root=dataset_root(dataset), program_root=bytes(32)))


def _build_terms(
    plan: RoundPlan, training: TrainingSpec, submitter: str, salt: bytes, initial_root: bytes
) -> PostedTerms:
    count = parameter_count(training.model)
    return replace(
        _sketch_terms(plan, count),
        submitter=submitter,
        salt=salt,
        initial_weights_root=initial_root,
        zero_root=zero_root(count),
        schedule_root=bytes(32),
        step_root=bytes(32),
    )


def _sketch_terms(plan: RoundPlan, count: int) -> PostedTerms:
    return PostedTerms(
        submitter="",
        salt=bytes(32),
        initial_weights_root=STAND_IN,
        zero_root=STAND_IN,
        schedule_root=STAND_IN,
        step_root=STAND_IN,
        format=FORMAT_NUMBERS[plan.numeric_format],
        weighting=0,
        parameter_count=count,
        rounds=plan.rounds,
        inner_steps=plan.inner_steps,
        segment_steps=plan.segment_steps,
        solver_seats=plan.solver_seats,
        draws=plan.draws,
        late_chance=plan.late_chance,
        least_solvers=plan.least_solvers,
        least_verifiers=plan.least_verifiers,
        least_whistleblowers=plan.least_whistleblowers,
        carry_moments=plan.carry_moments,
        outer_learning_rate=float_to_bits(plan.outer_learning_rate),
        outer_momentum=float_to_bits(plan.outer_momentum),
        windows=plan.windows,
        amounts=plan.amounts,
        limits=plan.limits,
    )


def refuse_bad_task(party: Party, terms: PostedTerms, training: TrainingSpec) -> int:
    """Raises InvalidInput with every reason for which nodes would refuse it; else its escrow in wei."""
    spec = make_spec(terms, training)
    game_terms = read_terms({"terms": terms, "task": bytes(32)}, SigningDomain(0, party.signing.contract))
    refuse_harmful(game_terms, spec, None, party.chain.limits)
    require_format(terms.format, spec)
    require_live_parameters(training)
    return compute_escrow(game_terms)


async def post_task(
    party: Party,
    terms: PostedTerms,
    training: TrainingSpec,
    dataset: bytes | memoryview,
    start: Tensor | None = None,
) -> bytes:
    """Post a task that was built, with its escrow, and serve its dataset from now on, with the weights that
    it begins with (start) where they are given; returns the task's id. Raises InvalidInput where nodes would
    refuse it, ContractRefused where the account has too few tokens."""
    escrow_wei = await asyncio.to_thread(refuse_bad_task, party, terms, training)
    await asyncio.to_thread(party.store.put, refer_dataset(training), dataset)
    if start is not None:
        put = (terms.initial_weights_root, tensor_bytes(start))
        await asyncio.to_thread(party.store.put_tensor, *put)
    await party.chain.deposit_missing(escrow_wei)
    receipt = await party.chain.tasks.post_task(terms, encode_training(training))
    posted: Event = receipt.find("TaskPosted")
    return bytes(posted.arguments["task"])
