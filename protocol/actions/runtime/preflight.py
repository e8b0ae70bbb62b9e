"""Before anything is staked on a task: does this machine stay inside the bounds, and does the deployed
referee judge as this node does?

One step from the task's first state, on its data, is traced and checked. One element of each kind of
operation is shown to the referee by `eth_call`, as computed and spoiled. Each account draws other elements.
A referee of another version, a program understood otherwise or kernels that err would otherwise be found out
in a dispute, at the price of a stake.
"""

import asyncio

from protocol.actions.runtime.party import Party
from protocol.adapters.chain.refusals import ContractRefused
from protocol.compute.data import Corpus, get_batch
from protocol.compute.facts import compute_step_facts
from protocol.compute.model import init_parameters
from protocol.compute.rehearsal import Exhibit, Rehearsal, rehearse
from protocol.compute.step import begin_round
from protocol.spec.containers import StepContext, StepFacts, TrainingSpec
from protocol.spec.errors import EnvironmentFault, InvalidInput
from protocol.spec.game.pools import find_seat
from protocol.spec.hashing import hash_words

TAG_REHEARSAL = "touchstone.rehearsal"
VERDICTS = {True: "a fault", False: "no fault"}


async def check_machine(party: Party) -> None:
    """Refuse a task that this node could lose its stake on although it is honest. Raises InvalidInput where
    the referee judges otherwise, EnvironmentFault where this machine leaves the bounds or the chain does not
    answer. A node that has a seat already says so instead and goes on: silence would cost more."""
    try:
        await _rehearse(party)
    except (InvalidInput, EnvironmentFault) as reason:
        if find_seat(party.game, party.account) is None:
            raise
        party.say(f"WARNING: {reason} Going on, for there is a seat already: leave the task.")


async def _rehearse(party: Party) -> None:
    task = party.task
    seed = hash_words(TAG_REHEARSAL, task.task, party.account)
    facts = await asyncio.to_thread(compute_step_facts, task.spec)
    await require_referee(party)
    found = await asyncio.to_thread(_rehearse_step, task.spec.training, task.corpus, seed)
    for exhibit in found.exhibits:
        await require_verdict(party, facts, found, exhibit)
    kinds = len({exhibit.operation for exhibit in found.exhibits})
    party.say(
        f"checked one step: all inside the bounds, and the referee judges {kinds} kinds of operations "
        f"as this node does ({len(found.exhibits)} verdicts)"
    )


def _rehearse_step(training: TrainingSpec, corpus: Corpus, seed: bytes) -> Rehearsal:
    state = begin_round(init_parameters(training.model, training.initial_seed), 0)
    return rehearse(state, training, get_batch(corpus, training, seed, 0, 0), seed)


# --- The referee --------------------------------------------------------------------------------------------
async def require_referee(party: Party) -> None:
    """Raises InvalidInput unless the deployment's referee is the one that disputes ask."""
    named, asked = party.chain.deployment.referee, str(await party.chain.disputes.referee()).lower()
    if named != asked:
        raise InvalidInput(
            what="disputes ask another referee than the deployment names",
            expected=named,
            actual=asked,
            where=f"Disputes {party.chain.deployment.disputes}",
            remedy="Do not stake on this chain; get the deployment file from whoever deployed the contracts.",
        )


async def require_verdict(party: Party, facts: StepFacts, found: Rehearsal, exhibit: Exhibit) -> None:
    """Raises InvalidInput unless the referee judges the exhibit as this node does."""
    context, proof = StepContext(facts, found.start, exhibit.trace_root), exhibit.proof
    try:
        is_fault = await party.chain.referee.judge(context, proof.node, proof.element, proof.openings)
    except ContractRefused as refusal:
        raise _disagree(party, exhibit, f"a refusal: {refusal.what}, {refusal.actual}") from refusal
    except EnvironmentFault as fault:
        if fault.retryable:
            raise
        raise _disagree(party, exhibit, f"no verdict: {fault.what}, {fault.actual}") from fault
    if is_fault != exhibit.is_fault:
        raise _disagree(party, exhibit, VERDICTS[is_fault])


def _disagree(party: Party, exhibit: Exhibit, answer: str) -> InvalidInput:
    proof, kind = exhibit.proof, "a spoiled" if exhibit.is_fault else "an honest"
    return InvalidInput(
        what="the deployed referee does not judge as this node does",
        expected=f"{VERDICTS[exhibit.is_fault]} for {kind} element",
        actual=answer,
        where=(
            f"Referee {party.chain.deployment.referee}, node {proof.node.number} "
            f"({exhibit.operation.name}), element {proof.element}"
        ),
        remedy="Do not stake on this chain with this version: take the version that its contracts are of.",
    )
