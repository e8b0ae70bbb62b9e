"""Joining a task: read it from the chain, refuse it where it could hurt, fetch its data, take a seat.

A party stakes nothing before all of that is checked. A party that works without a seat (the submitter, a
helper) joins the same way and stops before the stake.

The machine check asks whether this machine stays inside the bounds (in an exact task: whether two kinds of
kernels give the same bits), and whether the deployed referee judges as this node does. One step from the
task's first state, on its data, is traced and checked. One element of each kind of operation is shown to the
referee by `eth_call`, as computed and spoiled. Each account draws other elements. The check finds a referee
of another version, a program understood otherwise, or kernels that err. Without it a party would learn of
them only in a dispute, at the price of a stake.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from torch import Tensor

from touchstone.node.joining.reachability import require_reached
from touchstone.node.joining.task_inputs import (
    DatasetParts,
    PartedCorpus,
    compute_start_bytes,
    open_outline,
    require_start_here,
    telling_bytes,
)
from touchstone.node.joining.task_step import StepSource, fetch_step, sort_peers
from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.party import Joined, Party, list_peers
from touchstone.node.kit.waiting import telling
from touchstone.node.models.global_model import get_initial_header, load_outer_state, load_weights
from touchstone.node.records.claim_records import ClaimBook, find_own_slot
from touchstone.node.records.dispute_records import CaseBook
from touchstone.node.training.worker_team import Team, open_team
from touchstone.protocol.adapters.chain.gate import GateShut
from touchstone.protocol.adapters.chain.refusals import ContractRefused
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind, BlobRef
from touchstone.protocol.adapters.store.leaf_source import LeafSource
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.compute.batches import Corpus, get_batch, prepare_steps
from touchstone.protocol.compute.bounds.live_parameters import require_live_parameters
from touchstone.protocol.compute.bounds.rehearsal import Exhibit, Rehearsal, rehearse
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.costs import ProgramCosts
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.compute.program.step import begin_round
from touchstone.protocol.compute.program.step_facts import compute_step_facts, require_step_root
from touchstone.protocol.economics.money import check_money
from touchstone.protocol.economics.refusing import Figures
from touchstone.protocol.spec.codec import decode_training, hash_words
from touchstone.protocol.spec.containers import StepContext, StepFacts, TaskSpec, TrainingSpec
from touchstone.protocol.spec.errors import EnvironmentFault, GameRefusal, InvalidInput
from touchstone.protocol.spec.game.calls import JoinSeat
from touchstone.protocol.spec.game.disputes import has_bond_alone, has_duties
from touchstone.protocol.spec.game.fates import find_seat, get_required_stake
from touchstone.protocol.spec.game.ledger import apply
from touchstone.protocol.spec.game.state import GameState, SeatRole
from touchstone.protocol.spec.game.terms import DeploymentLimits, GameTerms, check_terms, make_spec
from touchstone.protocol.spec.game.timing import find_first_round
from touchstone.protocol.spec.params import FORMAT_NUMBERS, PRODUCT_BITS
from touchstone.protocol.spec.task_rules import find_training_malformations, refuse_broken
from touchstone.verifier.audit_duties import open_audits

TAG_REHEARSAL = "touchstone.rehearsal"
SHUT_PAUSE_S = 1.0
"""Before it is asked again whether anything may be signed."""
DISPUTE_MOVES = 8
"""Moves of a dispute that begins in the last block of its window, and two more."""
VERDICTS = {True: "a fault", False: "no fault"}


async def check_machine(party: Party) -> None:
    """Refuse a task that this node could lose its stake on although it is honest. Raises InvalidInput where
    the referee judges otherwise, EnvironmentFault where this machine leaves the bounds (in an exact task:
    where two kinds of kernels differ) or the chain does not answer. A node that has a seat already says so
    instead and goes on: silence would cost more."""
    try:
        await _rehearse(party)
    except (InvalidInput, EnvironmentFault) as reason:
        if find_seat(party.game, party.account) is None:
            raise
        party.say(f"WARNING: {reason} Going on, for there is a seat already: leave the task.")


async def _rehearse(party: Party) -> None:
    require_start_here(party)
    task = party.task
    seed = hash_words(TAG_REHEARSAL, task.task, party.account)
    party.say("checking one step of the task on this machine; it takes as long as five to nine steps")
    facts = await asyncio.to_thread(compute_step_facts, task.spec)
    await require_referee(party)
    await prepare_steps(task.corpus, task.spec.training, seed, 0, (0,))
    weights = await load_weights(party, get_initial_header(party.view))
    found = await asyncio.to_thread(_rehearse_step, weights, task.spec.training, task.corpus, seed)
    for exhibit in found.exhibits:
        await require_verdict(party, facts, found, exhibit)
    party.say(describe_check(found, task.spec.training.numeric_format))


def describe_check(found: Rehearsal, numeric_format: str) -> str:
    """What a check that found nothing wrong has shown."""
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
            remedy="Do not stake on this chain; ask the account that deployed it for its file.",
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


@dataclass(frozen=True)
class SeatWish:
    """The seat that a party wants. stake_wei: 0 for what the task asks for; figures: what the operator
    assumes, by which the task's amounts are judged (None: they are not); is_held: the account had it, or a
    bond, when this was agreed on, so none is to be taken; require_wanted: asked last before the stake is
    locked, once the machine was checked; raises where the operator does not want the seat."""

    role: SeatRole
    stake_wei: int = 0
    figures: Figures | None = None
    is_held: bool = False
    require_wanted: Callable[[GameState], None] | None = field(default=None, compare=False)


async def catch_up(party: Party) -> None:
    """Fold all events up to the head."""
    party.take(await anext(party.batches))


async def open_task(party: Party, task: bytes, figures: Figures | None = None) -> None:
    """Work on `task` from now on, without a seat so far. Raises InvalidInput for an unknown or malformed
    task, EnvironmentFault where this machine lacks the configured device, and what fetching its data
    raises."""
    pin_kernels(party.config.threads, device=party.config.device)
    spec = read_spec(party.state, task)
    refuse_harmful(party.state.games[task].terms, spec, figures, party.chain.limits)
    require_format(party.state.task_terms[task].format, spec)
    peers = partial(list_peers, party, task, first=spec.terms.submitter)
    await fetch_step(StepSource(party.store, party.client, peers, party.say), spec)
    await asyncio.to_thread(require_step_root, spec)
    corpus = await open_parts(party, task, spec)
    domain = party.state.games[task].terms.domain
    audits = open_audits(party, task, spec, corpus)
    claims, cases = ClaimBook(party.journal, task), CaseBook(party.journal, task)
    team = open_own_team(party, task, spec.training)
    party.joined = Joined(task, domain, spec, corpus, claims, audits, cases, team=team)
    party.state.focus(task)
    await _have_start(party)


def open_own_team(party: Party, task: bytes, training: TrainingSpec) -> Team | None:
    """As `open_team`; None for who has a bond and no seat: it trains no claim, and each worker takes as much
    memory as a node."""
    if has_bond_alone(party.state.games[task], party.account):
        return None
    return open_team(party.config, training, party.say)


async def _have_start(party: Party) -> None:
    """The state before any training in the store, which every seat has to have. A node that has a seat
    already, or a bond, waits for no given weights and no room on its disk: it has moves to make, and fetches
    or makes that state when it needs it."""
    try:
        require_start_here(party)
        await load_outer_state(party, get_initial_header(party.view))
    except EnvironmentFault as fault:
        if not has_duties(party.game, party.account):
            raise
        party.say(f"WARNING: {fault} Going on, for there is a seat already, or a bond.")


async def take_seat(party: Party, wish: SeatWish) -> None:
    """A seat of the joined task, staked from this account's tokens, unless it has one. Raises GameRefusal
    where the task takes no such seat, EnvironmentFault where no peer reaches this node; no token is moved
    then."""
    require_records(party)
    stake_wei = wish.stake_wei or get_required_stake(party.game, wish.role)
    is_new, call = find_seat(party.game, party.account) is None, JoinSeat(wish.role, stake_wei)
    if is_new:
        require_joinable(party.game, call, party.account, party.state.head_block + 1)
    async with _keeping_up(party):
        await check_machine(party)
        if not is_new:
            return
        await require_reached(party)
        require_joinable(party.game, call, party.account, party.state.head_block + 1)
        if wish.require_wanted is not None:
            wish.require_wanted(party.game)
        await _send_patiently(party, call)
    party.say(f"took a seat as {wish.role.name.lower()}; it works {_tell_when(party.game)}")


def _tell_when(game: GameState) -> str:
    first = find_first_round(game)
    if first is None:
        return "once enough others sit in the task"
    return f"from round {first} on" if first < game.terms.rounds else "only if the task starts again"


@asynccontextmanager
async def _keeping_up(party: Party) -> AsyncIterator[None]:
    """Fold what the chain does meanwhile: nothing is signed behind a block that is not of now."""
    keeping = asyncio.create_task(party.keep_up())
    try:
        yield
    finally:
        keeping.cancel()
        # What it failed with, whoever reads next is told.
        await asyncio.gather(keeping, return_exceptions=True)


async def _send_patiently(party: Party, call: JoinSeat) -> None:
    """Deposit and join. While nothing may be signed, wait: an endpoint that is wrong now may be right soon.
    Raises GameRefusal where the task does not take the seat any more."""
    told = ""
    while True:
        try:
            require_joinable(party.game, call, party.account, party.state.head_block + 1)
            await party.chain.deposit_missing(call.wei)
            await party.chain.tasks.join(party.task.task, call.role, call.wei)
            return
        except GateShut as shut:
            if str(shut.actual) != told:
                told = str(shut.actual)
                party.say(f"waiting to join: {told}")
        await asyncio.sleep(SHUT_PAUSE_S)


def require_joinable(game: GameState, call: JoinSeat, account: str, block: int) -> None:
    """Raises GameRefusal where the machine refuses the seat for anything but the credit, which is deposited
    next. block: the next one."""
    try:
        apply(game, call, account, block)
    except GameRefusal as refusal:
        if refusal.name != "CreditTooSmall":
            raise


def require_records(party: Party) -> None:
    """Raises EnvironmentFault where the chain has a claim of this account that still counts, and the journal
    lacks it: it is another journal than the one that was written to, or an older copy of it."""
    game, seat = party.game, find_seat(party.game, party.account)
    rounds = [] if seat is None else [r for r in game.rounds.values() if r.index >= seat.settled]
    for game_round in rounds:
        slot = find_own_slot(game, game_round, party.account)
        claim = None if slot is None else game_round.claims.get(slot)
        finished = None if claim is None else party.task.claims.find(game_round).finished
        if claim is not None and (finished is None or finished.claim_root != claim.claim_root):
            raise EnvironmentFault(
                what="the journal is not the one of what this account did before",
                expected=f"the claim {claim.claim_root.hex()} of round {game_round.index}",
                actual="none" if finished is None else finished.claim_root.hex(),
                where=str(party.journal.path),
                remedy="Bring back the newest journal with all its files: claims cannot be defended without. "
                "Where it is lost, give up the seat with `touchstone leave`.",
                retryable=False,
            )


# --- Reading and refusing -----------------------------------------------------------------------------------
def read_spec(state: ChainState, task: bytes) -> TaskSpec:
    """The spec as it was posted."""
    if task not in state.games:
        known = ", ".join(f"0x{name.hex()}" for name in state.games) or "none"
        raise InvalidInput(
            what="unknown task" if task not in state.refused else "the task cannot be understood",
            expected=f"a task of this deployment: {known}",
            actual=state.refused.get(task, f"0x{task.hex()}"),
            remedy="Copy the id from `touchstone status` or from who posted it.",
        )
    return make_spec(state.task_terms[task], decode_training(state.texts[task]))


def refuse_harmful(
    terms: GameTerms, spec: TaskSpec, figures: Figures | None, limits: DeploymentLimits
) -> None:
    """Raises InvalidInput where the task could hurt an honest node: windows that no node can meet, roots that
    are not those of its text, amounts that do not pay."""
    refusal = check_terms(terms, limits)
    if refusal is not None:
        raise refusal
    refuse_broken(find_training_malformations(spec))
    broken = [r for r in check_money(terms, figures) if not (r.holds or r.is_advice)] if figures else []
    if broken:
        raise InvalidInput(
            what="the amounts of the task do not hold what they should",
            expected="; ".join(f"{rule.name} >= {rule.least}: {rule.inequality}" for rule in broken),
            actual="; ".join(f"{rule.name} {rule.amount}" for rule in broken),
            remedy="Do not stake on it, or judge it by other figures.",
        )


def require_format(posted: int, spec: TaskSpec) -> None:
    """Raises InvalidInput where the contracts compare in another numeric format than is trained in. Where
    they want equal bits of a program with bounds, honest ends differ, and who disputes one loses its bond."""
    expected = FORMAT_NUMBERS[spec.training.numeric_format]
    if posted != expected:
        raise InvalidInput(
            what="the task's terms name another numeric format than its text",
            expected=f"{expected} ({spec.training.numeric_format})",
            actual=posted,
            remedy="Do not stake on it; its submitter has to post a corrected task.",
        )


def compute_dataset_bytes(training: TrainingSpec) -> int:
    """How large the dataset is."""
    return (training.token_count + training.heldout_tokens) * training.token_bytes


def compute_task_bytes(training: TrainingSpec, costs: ProgramCosts) -> int:
    """What each node of a task has on its disk whatever it does: the dataset, given weights, and the step."""
    step_bytes = training.program.size_bytes + training.layout.size_bytes + costs.constant_bytes
    return compute_dataset_bytes(training) + compute_start_bytes(training, costs.parameters) + step_bytes


def refer_dataset(training: TrainingSpec) -> BlobRef:
    """The blob of a task's dataset."""
    return BlobRef(BlobKey(BlobKind.DATASET, training.dataset_root), compute_dataset_bytes(training))


async def open_parts(party: Party, task: bytes, spec: TaskSpec) -> PartedCorpus:
    """The dataset of a task, of which this node fetches what its samples touch; all of it beforehand where
    the configuration says `whole_dataset` and there is no seat yet: who has one has disputes to answer, and
    does not wait for peers that serve slowly or not at all. Raises ProtocolFault or EnvironmentFault where
    not even its outline can be had, InvalidInput where there is no peer."""
    ref, source = refer_dataset(spec.training), LeafSource(party.store, party.parts)
    if party.config.whole_dataset and not has_duties(party.state.games[task], party.account):
        await fetch_whole(party, task, spec)
    elif party.config.whole_dataset and not party.store.has(ref):
        party.say("WARNING: not all of the dataset is here. Going on in parts: there is a seat, or a bond.")
    peers = partial(list_peers, party, task, first=spec.terms.submitter)
    async with telling(
        party.say, lambda: f"waiting for the outline of the dataset from {len(peers())} peers"
    ):
        outline = await open_outline(source, party.client, ref, peers)
    kept = count_kept_blocks(party.state.games[task].terms)
    parts = DatasetParts(
        source, party.client, outline, peers, lambda: party.state.head_block, kept, party.say
    )
    return PartedCorpus(parts, spec.training, asyncio.get_running_loop(), party.say)


async def open_data(
    client: BlobClient,
    store: BlobStore,
    state: ChainState,
    task: bytes,
    spec: TaskSpec,
    say: Callable[[str], None],
) -> PartedCorpus:
    """The dataset of a task for who does not join it: fetched from its nodes as it is read, and not
    kept. say: shows the operator a fault of the dataset. Raises EnvironmentFault where no node serves it."""
    peers, source = partial(sort_peers, state, task, spec), LeafSource(store)
    outline = await open_outline(source, client, refer_dataset(spec.training), peers)
    parts = DatasetParts(source, client, outline, peers, lambda: state.head_block, 0, say)
    return PartedCorpus(parts, spec.training, asyncio.get_running_loop(), say)


def count_kept_blocks(terms: GameTerms) -> int:
    """So long after it was used a leaf may still be needed: until the round is committed to, and as long as a
    statement about it can be disputed or asked about and the game about it lasts."""
    w = terms.windows
    return w.train_max + 2 * w.dispute + 3 * w.audit_max + w.ask + w.post + DISPUTE_MOVES * w.respond


async def fetch_whole(party: Party, task: bytes, spec: TaskSpec) -> BlobRef:
    """Have all of the dataset in the store, from the submitter or any other peer that has it."""
    submitter, ref = spec.terms.submitter, refer_dataset(spec.training)
    if not party.store.has(ref):
        async with telling_bytes(party, ref, "the dataset"):
            await party.client.fetch_from_any(list_peers(party, task, first=submitter), ref)
    return ref


async def fetch_dataset(party: Party, task: bytes, spec: TaskSpec) -> bytes:
    """The raw tokens, all in memory."""
    return await asyncio.to_thread(party.store.get, await fetch_whole(party, task, spec))
