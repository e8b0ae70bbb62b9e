"""Opens a task that a node is about to join: what it needs of it is fetched and proven."""

import asyncio
from functools import partial

from touchstone.node.joining.dataset import open_parts
from touchstone.node.joining.start_weights import require_start_here
from touchstone.node.joining.task_reading import read_spec, refuse_harmful, require_format
from touchstone.node.joining.task_step import StepSource, fetch_step
from touchstone.node.kit.party import Joined, Party
from touchstone.node.kit.peers import list_peers
from touchstone.node.models.global_model import get_initial_header, load_outer_state
from touchstone.node.records.claim_records import ClaimBook
from touchstone.node.records.dispute_records import DisputeRecords
from touchstone.node.training.worker_team import Team, open_team
from touchstone.protocol.compute.determinism import pin_kernels
from touchstone.protocol.compute.program.step_facts import require_step_root
from touchstone.protocol.economics.assumptions import Figures
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.open_questions import has_bond_alone, has_duties
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.verifier.audit_duties import open_audits


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
    claims, cases = ClaimBook(party.journal, task), DisputeRecords(party.journal, task)
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
