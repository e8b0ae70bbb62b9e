"""Checks a machine on a task's first step: its arithmetic, and the verdict of the deployed referee."""

import asyncio
from dataclasses import dataclass

from torch import Tensor

from touchstone.node.kit.config import Notify
from touchstone.node.kit.view import GetView
from touchstone.node.models.global_model import GlobalModel, get_initial_header
from touchstone.node.models.start_weights import require_start_here
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.refusals import ContractRefused
from touchstone.protocol.compute.batches import Corpus, get_batch, prepare_steps
from touchstone.protocol.compute.bounds.exhibits import Exhibit
from touchstone.protocol.compute.bounds.live_parameters import require_live_parameters
from touchstone.protocol.compute.bounds.rehearsal import Rehearsal, rehearse
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.compute.program.step import begin_round
from touchstone.protocol.compute.program.step_facts import compute_step_facts
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.hashing import hash_words
from touchstone.protocol.spec.params import PRODUCT_BITS
from touchstone.protocol.spec.task_spec import StepContext, StepFacts, TrainingSpec

TAG_REHEARSAL = "touchstone.rehearsal"


VERDICTS = {True: "a fault", False: "no fault"}


@dataclass(frozen=True)
class MachineCheck:
    """Computes one step of a task, and has the referee judge it, before a stake is locked."""

    get_view: GetView
    chain: GameChain
    notify: Notify
    corpus: Corpus
    model: GlobalModel

    async def check_machine(self) -> None:
        """Refuses a task in which this node could lose its stake although it is honest. Raises InvalidInput
        if the referee judges otherwise. Raises EnvironmentFault if this machine exceeds the bounds (in an
        exact task: if two kinds of kernels differ), or the chain does not answer. A node with a seat only
        tells its operator, because silence would cost more."""
        try:
            await self._rehearse()
        except (InvalidInput, EnvironmentFault) as reason:
            if find_seat(self.get_view().game, self.get_view().account) is None:
                raise
            self.notify(f"WARNING: {reason} The node goes on, because it has a seat already. Leave the task.")

    async def _rehearse(self) -> None:
        require_start_here(self.get_view())
        spec = self.get_view().spec
        seed = hash_words(TAG_REHEARSAL, self.get_view().task, self.get_view().account)
        self.notify("checking one step of the task on this machine; it takes as long as five to nine steps")
        facts = await asyncio.to_thread(compute_step_facts, spec)
        await self.require_referee()
        await prepare_steps(self.corpus, spec.training, seed, 0, (0,))
        weights = await self.model.load_weights(get_initial_header(self.get_view()))
        found = await asyncio.to_thread(_rehearse_step, weights, spec.training, self.corpus, seed)
        for exhibit in found.exhibits:
            await self.require_verdict(facts, found, exhibit)
        self.notify(describe_check(found, spec.training.numeric_format))

    async def require_referee(self) -> None:
        """Raises InvalidInput unless disputes use the referee of the deployment."""
        named, asked = self.chain.deployment.referee, str(await self.chain.game.referee()).lower()
        if named != asked:
            raise InvalidInput(
                what="disputes use another referee than the deployment's",
                expected=named,
                actual=asked,
                where=f"Game {self.chain.deployment.game}",
                remedy="Do not stake on this chain; ask the account that deployed it for its file.",
            )

    async def require_verdict(self, facts: StepFacts, found: Rehearsal, exhibit: Exhibit) -> None:
        """Raises InvalidInput unless the referee judges the example as this node does."""
        context, proof = StepContext(facts, found.start, exhibit.trace_root), exhibit.proof
        try:
            is_fault = await self.chain.referee.judge(context, proof.node, proof.element, proof.openings)
        except ContractRefused as refusal:
            raise self._disagree(exhibit, f"a refusal: {refusal.what}, {refusal.actual}") from refusal
        except EnvironmentFault as fault:
            if fault.retryable:
                raise
            raise self._disagree(exhibit, f"no verdict: {fault.what}, {fault.actual}") from fault
        if is_fault != exhibit.is_fault:
            raise self._disagree(exhibit, VERDICTS[is_fault])

    def _disagree(self, exhibit: Exhibit, answer: str) -> InvalidInput:
        proof, kind = exhibit.proof, "a spoiled" if exhibit.is_fault else "an honest"
        return InvalidInput(
            what="the deployed referee does not judge as this node does",
            expected=f"{VERDICTS[exhibit.is_fault]} for {kind} element",
            actual=answer,
            where=(
                f"Referee {self.chain.deployment.referee}, node {proof.node.number} "
                f"({exhibit.operation.name}), element {proof.element}"
            ),
            remedy="Do not stake on this chain with this version: use the version that "
            "its contracts belong to.",
        )


def describe_check(found: Rehearsal, numeric_format: str) -> str:
    """Describes what a passed check has shown."""
    held = "all inside the bounds"
    if numeric_format in PRODUCT_BITS:
        held = "two kinds of kernels give the same bits"
    kinds = len({exhibit.operation for exhibit in found.exhibits})
    return (
        f"checked one step: {held}, and the referee judges {kinds} kinds of operations as this node does "
        f"({len(found.exhibits)} verdicts)"
    )


def _rehearse_step(weights: Tensor, training: TrainingSpec, corpus: Corpus, seed: bytes) -> Rehearsal:
    batch = get_batch(corpus, training, seed, 0, 0)
    require_live_parameters(get_step(training), training, weights, batch)
    return rehearse(begin_round(weights, 0), training, batch, seed)
