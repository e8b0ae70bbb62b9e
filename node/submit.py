"""Posting a task: from a model, a dataset and a preset to canonical bytes, an escrow, and a dataset that is
served.

The submitter computes every root that nodes will check before they stake; what
`protocol/spec/task_rules.py` refuses is never posted.
"""

import asyncio
from dataclasses import dataclass, replace

from protocol.actions.join import catch_up, join_task
from protocol.actions.participant import Participant
from protocol.actions.party import Party
from protocol.adapters.chain import ContractRefused
from protocol.compute.data import dataset_root
from protocol.compute.digest import tensor_root, zero_root
from protocol.compute.facts import with_step_root
from protocol.compute.liveness import require_live_parameters
from protocol.compute.model import init_parameters, parameter_count
from protocol.compute.program import with_program
from protocol.spec.codec import compute_task_id, encode_training
from protocol.spec.containers import (
    Amounts,
    Limits,
    ModelConfig,
    OptimizerConfig,
    ScheduleConfig,
    TaskSpec,
    TaskTerms,
    TrainingSpec,
    Windows,
)
from protocol.spec.economics import compute_escrow_wei
from protocol.spec.errors import InvalidInput
from protocol.spec.float32 import float_to_bits
from protocol.spec.params import PROTOCOL_VERSION
from protocol.spec.program import DEFAULT_CHUNK_TERMS
from protocol.spec.schedule import compute_schedule_levels, compute_schedule_sums
from protocol.spec.task_rules import refuse_malformed_task


@dataclass(frozen=True)
class TaskPlan:
    """What a submitter chooses. Everything else of a task follows from it and the dataset's bytes (one
    byte a token)."""

    model: ModelConfig
    schedule: ScheduleConfig
    windows: Windows
    amounts: Amounts
    accept: Limits
    reject: Limits
    rounds: int
    inner_steps: int
    segment_steps: int
    max_solvers: int
    max_verifiers: int
    max_whistleblowers: int
    segment_draws: int
    leaf_draws: int
    late_rate: int
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

    @property
    def segment_count(self) -> int:
        """n = H/k, the segments of one round."""
        return self.inner_steps // max(1, self.segment_steps)


def build_spec(plan: TaskPlan, dataset: bytes, submitter: str, salt: bytes) -> TaskSpec:
    """The whole spec. Raises InvalidInput with every reason when nodes would refuse it."""
    training = _build_training(plan, dataset)
    spec = TaskSpec(_build_terms(plan, training, submitter, salt), training)
    levels = compute_schedule_levels(compute_schedule_sums(spec))
    spec = with_step_root(TaskSpec(replace(spec.terms, schedule_root=levels[-1][0]), training))
    refuse_malformed_task(spec)
    require_live_parameters(training)
    return spec


def _build_training(plan: TaskPlan, dataset: bytes) -> TrainingSpec:
    training = TrainingSpec(
        protocol_version=PROTOCOL_VERSION,
        architecture="llama",
        numeric_format=plan.numeric_format,
        chunk_terms=plan.chunk_terms,
        program_root=bytes(32),
        model=plan.model,
        optimizer=plan.optimizer,
        schedule=plan.schedule,
        sequences_per_step=plan.sequences_per_step,
        sequence_tokens=plan.sequence_tokens,
        initial_seed=plan.initial_seed,
        dataset_root=dataset_root(dataset),
        token_count=len(dataset) - plan.heldout_tokens,
        heldout_tokens=plan.heldout_tokens,
    )
    return with_program(training)


def _build_terms(plan: TaskPlan, training: TrainingSpec, submitter: str, salt: bytes) -> TaskTerms:
    count = parameter_count(training.model)
    return TaskTerms(
        submitter=submitter,
        salt=salt,
        initial_weights_root=tensor_root(init_parameters(training.model, training.initial_seed)),
        zero_root=zero_root(count),
        schedule_root=bytes(32),
        step_root=bytes(32),
        parameter_count=count,
        rounds=plan.rounds,
        inner_steps=plan.inner_steps,
        segment_steps=plan.segment_steps,
        max_solvers=plan.max_solvers,
        max_verifiers=plan.max_verifiers,
        max_whistleblowers=plan.max_whistleblowers,
        segment_draws=plan.segment_draws,
        leaf_draws=plan.leaf_draws,
        late_rate=plan.late_rate,
        carry_moments=plan.carry_moments,
        outer_learning_rate=float_to_bits(plan.outer_learning_rate),
        outer_momentum=float_to_bits(plan.outer_momentum),
        windows=plan.windows,
        amounts=plan.amounts,
        accept=plan.accept,
        reject=plan.reject,
    )


async def create_task(party: Party, plan: TaskPlan, dataset: bytes, salt: bytes) -> bytes:
    """Post the task with its escrow and serve its dataset; returns the task's id. Raises InvalidInput
    where the account has too few tokens or the plan is refused."""
    spec = await asyncio.to_thread(build_spec, plan, dataset, party.account, salt)
    await asyncio.to_thread(party.store.put_dataset, dataset)
    escrow_wei = compute_escrow_wei(spec.terms)
    balance_wei = await party.chain.token.balance_of(party.account)
    if balance_wei < escrow_wei:
        raise InvalidInput(
            what="too few tokens for the task's escrow",
            expected=f"{escrow_wei} wei",
            actual=f"{balance_wei} wei",
            where=party.account,
            remedy="Get tokens (`touchstone devnet` funds accounts), or plan fewer rounds or less pay.",
        )
    await party.chain.token.approve(party.chain.deployment.vault, escrow_wei)
    receipt = await party.chain.registry.create_task(spec.terms, encode_training(spec.training))
    task: bytes = receipt.find("TaskCreated").arguments["task"]
    assert task == compute_task_id(spec)
    return task


async def follow_task(party: Party, task: bytes) -> None:
    """Serve the task to its end, keep its rounds going where nobody else does, and take the rest of the
    escrow back."""
    await catch_up(party)
    await join_task(party, task)
    await Participant(party, lambda state, me, block: ()).run()
    try:
        await party.chain.registry.close_task(task)
    except ContractRefused as refusal:
        party.say(f"the rest of the escrow can be taken back later: {refusal}")
