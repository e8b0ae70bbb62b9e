"""Builds and posts a task out of a model, a dataset and a plan, and serves the dataset.

The submitter computes every root that nodes check before they stake, and posts no task that they would
refuse.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import Tensor

from touchstone.node.joining.task_reading import refer_dataset, refuse_harmful, require_format
from touchstone.node.joining.task_step import refuse_costs
from touchstone.node.kit.stored_step import keep_step
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.compute.batches import dataset_root
from touchstone.protocol.compute.digest import tensor_bytes, tensor_root, zero_root
from touchstone.protocol.compute.drawn_weights import draw_weights
from touchstone.protocol.compute.program.costs import measure_costs
from touchstone.protocol.compute.program.known_steps import (
    TaskStep,
    get_step,
    learn_step,
    name_step,
    require_fit,
)
from touchstone.protocol.compute.program.step_facts import with_step_root
from touchstone.protocol.spec.float32 import float_to_bits
from touchstone.protocol.spec.game.logged_terms import read_terms
from touchstone.protocol.spec.game.posted_terms import PostedTerms, make_spec
from touchstone.protocol.spec.game.terms import GameAmounts, GameWindows, compute_escrow
from touchstone.protocol.spec.params import FORMAT_NUMBERS, GIVEN_START, PROTOCOL_VERSION
from touchstone.protocol.spec.schedule import compute_schedule_levels, compute_schedule_sums
from touchstone.protocol.spec.task_rules import Malformation, Rule, find_size_malformations, judge_range
from touchstone.protocol.spec.task_spec import (
    Limits,
    ScheduleConfig,
    TaskSpec,
    TrainingSpec,
    count_token_bytes,
)
from touchstone.protocol.spec.training_codec import encode_training
from touchstone.protocol.spec.typed_data import SigningDomain
from touchstone.step.step_folder import StepFiles, StepShape

STAND_IN = bytes(31) + b"\1"
"""Stands for a root that is not computed yet."""


@dataclass(frozen=True)
class RoundPlan:
    """The choices of a submitter. Everything else in a task follows from these and from the dataset's bytes;
    the vocabulary decides if a token has 1, 2 or 4 of them. `step` is the recorded step of a module, in one
    numeric format and for one shape of a batch. `initial_seed` is `GIVEN_START` if the first weights are
    given. `tokenizer_sha256` is the hash in hex of the tokenizer.json that made the tokens; empty if there
    was none."""

    step: StepFiles
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
    numeric_format: str = "float32"
    tokenizer_sha256: str = ""

    @property
    def vocabulary_size(self) -> int:
        """The number of tokens that the model knows."""
        return self.step.shape.vocabulary_size

    def count_parameters(self) -> int:
        """Returns the number of elements of W."""
        return self.step.layout.count


def build_task(
    plan: RoundPlan, dataset: bytes | memoryview, submitter: str, salt: bytes, start: Tensor | None = None
) -> tuple[PostedTerms, TrainingSpec]:
    """Returns the whole task with all roots computed. `start` is the flat starting weights, if no seed makes
    them."""
    assert (plan.initial_seed == GIVEN_START) == (start is not None), "either a seed or weights"
    step = learn_plan(plan)
    training = _sketch_training(plan, len(dataset))
    training = replace(training, dataset_root=dataset_root(dataset))
    weights = draw_weights(step.layout, training.initial_seed) if start is None else start
    terms = _build_terms(plan, step.parameters, submitter, salt, tensor_root(weights))
    levels = compute_schedule_levels(compute_schedule_sums(make_spec(terms, training)))
    terms = replace(terms, schedule_root=levels[-1][0])
    stepped = with_step_root(make_spec(terms, training))
    return replace(terms, step_root=stepped.terms.step_root), training


def learn_plan(plan: RoundPlan) -> TaskStep:
    """Returns the step of a plan, and lets this process run it."""
    step = TaskStep(plan.step.built, plan.step.layout)
    learn_step(step)
    return step


def find_plan_malformations(plan: RoundPlan, dataset_bytes: int) -> list[Malformation]:
    """Returns every rule on numbers that a task of this plan would break."""
    batch = (plan.sequences_per_step, plan.sequence_tokens)
    rules = list_step_rules(plan.step.shape, *batch, plan.numeric_format)
    broken = [Malformation(*rule[1:]) for rule in rules if not rule[0]]
    return broken or find_size_malformations(sketch_task(plan, dataset_bytes))


def list_step_rules(shape: StepShape, sequences: int, tokens: int, numeric_format: str) -> Iterator[Rule]:
    """Yields the rules that a plan must keep because its step was recorded for one shape of a batch and one
    numeric format."""
    yield judge_range("sequences_per_step", sequences, shape.sequences, shape.sequences)
    yield judge_range("sequence_tokens", tokens, shape.tokens, shape.tokens)
    named = shape.numeric_format
    yield (
        numeric_format == named,
        "numeric_format",
        f"{named}, the format of the recorded step; or no such key",
        numeric_format,
    )


def sketch_task(plan: RoundPlan, dataset_bytes: int) -> TaskSpec:
    """Returns the task of a plan with its step, sizes and numbers. All other roots are `STAND_IN`."""
    learn_plan(plan)
    return make_spec(_sketch_terms(plan, plan.count_parameters()), _sketch_training(plan, dataset_bytes))


def _sketch_training(plan: RoundPlan, dataset_bytes: int) -> TrainingSpec:
    names = name_step(TaskStep(plan.step.built, plan.step.layout))
    return TrainingSpec(
        protocol_version=PROTOCOL_VERSION,
        numeric_format=plan.numeric_format,
        program_root=names.program_root,
        program=names.program,
        layout=names.layout,
        vocabulary_size=plan.vocabulary_size,
        beta1=plan.step.shape.beta1,
        beta2=plan.step.shape.beta2,
        schedule=plan.schedule,
        sequences_per_step=plan.sequences_per_step,
        sequence_tokens=plan.sequence_tokens,
        initial_seed=plan.initial_seed,
        dataset_root=STAND_IN,
        token_count=dataset_bytes // count_token_bytes(plan.vocabulary_size) - plan.heldout_tokens,
        heldout_tokens=plan.heldout_tokens,
        tokenizer_sha256=bytes.fromhex(plan.tokenizer_sha256) or bytes(32),
    )


def _build_terms(
    plan: RoundPlan, count: int, submitter: str, salt: bytes, initial_root: bytes
) -> PostedTerms:
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
        encoding=0,
        aggregation=0,
        audit=0,
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


def refuse_bad_task(chain: GameChain, terms: PostedTerms, training: TrainingSpec) -> int:
    """Raises InvalidInput with every reason for which nodes would refuse the task. Else returns the escrow in
    wei."""
    spec = make_spec(terms, training)
    game_terms = read_terms({"terms": terms, "task": bytes(32)}, SigningDomain(0, chain.signing.contract))
    refuse_harmful(game_terms, spec, None, chain.bounds)
    require_format(terms.format, spec)
    step = get_step(training)
    require_fit(training, step.built.program, step.layout, terms.parameter_count)
    refuse_costs(measure_costs(step.built.program))
    return compute_escrow(game_terms)


async def post_task(
    chain: GameChain,
    store: BlobStore,
    terms: PostedTerms,
    training: TrainingSpec,
    dataset: bytes | memoryview,
    start: Tensor | None = None,
) -> bytes:
    """Posts a task with its escrow, and returns the task's id. Serves its dataset from now on, and its
    starting weights (`start`) if they are given. Raises InvalidInput if nodes would refuse it,
    ContractRefused if the account has too few tokens."""
    escrow_wei = await asyncio.to_thread(refuse_bad_task, chain, terms, training)
    await asyncio.to_thread(store.put, refer_dataset(training), dataset)
    await asyncio.to_thread(keep_step, store, training, get_step(training))
    if start is not None:
        put = (terms.initial_weights_root, tensor_bytes(start))
        await asyncio.to_thread(store.put_tensor, *put)
    await chain.deposit_missing(escrow_wei)
    receipt = await chain.game.post_task(terms, encode_training(training))
    posted: Event = receipt.find("TaskPosted")
    return bytes(posted.arguments["task"])
