"""What the opener of a dispute does: name the false step, look for the fault in its trace, prove it, or
demand on chain what is not served.

The claimant answers for its own sentence only, so a step is computed from the state that it claims to have
started from. Whoever posted a trace that it does not have cannot show the leaves that are demanded, and is
convicted by its silence.
"""

import asyncio
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from protocol.actions.dispute.demands import list_demands
from protocol.actions.dispute.knowing import get_now
from protocol.actions.dispute.naming import find_start, format_name
from protocol.actions.dispute.proving import prove_input, prove_operation
from protocol.actions.dispute.segments import compute_state, get_batches
from protocol.actions.runtime.party import Party
from protocol.actions.runtime.states import fetch_state, has_state, keep_state, load_state
from protocol.actions.traces import RemoteTrace, describe_layout, open_trace
from protocol.adapters.wire.session import Peer
from protocol.compute.facts import compute_step_facts
from protocol.compute.fault import ClaimedTrace, FaultFinder, InputFault, OperationFault
from protocol.compute.openings import prove_node
from protocol.compute.program import BuiltProgram, build_program, describe_program
from protocol.compute.step import Batch, TrainingState, compute_scalars
from protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from protocol.spec.game.inner_dispute import DisputeStage, InnerDispute, PostedTrace
from protocol.spec.program import get_constant_roots


@dataclass(frozen=True)
class Withheld:
    """What the claimant does not serve: a buffer of the trace, None where it is the list of their roots.
    fault: how it was noticed."""

    buffer: int | None
    fault: Exception


Found = OperationFault | InputFault | Withheld | None


async def prosecute(party: Party, dispute: InnerDispute) -> None:
    """Look for a fault in the trace of a dispute, and prove it. Says so where there is none. What is not
    served is demanded on chain, once, and asked for again: raises ProtocolFault or EnvironmentFault."""
    trace, name = dispute.trace, format_name(dispute)
    assert trace is not None
    found = await find_fault(party, dispute, trace)
    if isinstance(found, Withheld):
        if dispute.stage == DisputeStage.PROVE:
            party.say(f"dispute {name}: {found.fault}; demanding leaves of the trace on chain")
            await demand(party, dispute, found.buffer)
        raise found.fault
    if found is None:
        party.say(f"dispute {name}: every number of the trace lies inside its bound")
        party.task.cases.searched.add(dispute.name)
    elif isinstance(found, OperationFault):
        party.say(f"dispute {name}: node {found.node.number} errs in element {found.element}: proving it")
        await prove_operation(party, dispute, trace.start, found)
    else:
        party.say(f"dispute {name}: element {found.element} of buffer {found.buffer} is not the task's")
        await prove_input(party, dispute, trace.start, found)


async def demand(party: Party, dispute: InnerDispute, withheld: int | None) -> None:
    """Demand leaves of what is withheld: the claimant shows them on chain, or is convicted."""
    facts = await asyncio.to_thread(compute_step_facts, party.task.spec)
    program = build_program(describe_program(party.task.spec.training)).program
    leaves = [
        {"node": prove_node(program, one.node), "place": one.place, "leaf_index": one.leaf_index}
        for one in list_demands(program, describe_layout(program), withheld)
    ]
    await party.chain.disputes.demand_leaves(party.task.task, dispute.name, facts, leaves)


async def find_fault(party: Party, dispute: InnerDispute, trace: PostedTrace) -> Found:
    """The first fault of the claimed step, or what the claimant does not serve of it."""
    built = build_program(describe_program(party.task.spec.training))
    withheld: list[int] = []
    try:
        peer = party.state.network.find(get_now(party).seats[dispute.seat].account)
        start = await _find_step_start(party, dispute, peer, trace)
        remote = await open_remote(party, built, peer, trace)
        try:
            return await _search_remote(party, dispute, built, start, remote, withheld)
        finally:
            remote.evict()
    except (ProtocolFault, EnvironmentFault) as fault:
        return Withheld(withheld[0] if withheld else None, fault)


async def _search_remote(
    party: Party,
    dispute: InnerDispute,
    built: BuiltProgram,
    start: TrainingState,
    remote: RemoteTrace,
    withheld: list[int],
) -> OperationFault | InputFault | None:
    fetch = remote.make_provider()

    def watch(buffer: int) -> Tensor:
        try:
            return fetch(buffer)
        except (ProtocolFault, EnvironmentFault):
            withheld.append(buffer)
            raise

    batch = get_batches(party, dispute.statement.round, dispute.statement.slot)(
        get_inner_step(party, dispute)
    )
    search = partial(_search, party, built, start, batch, ClaimedTrace(remote.roots, watch))
    return await asyncio.get_running_loop().run_in_executor(party.task.cases.searchers, search)


async def _find_step_start(
    party: Party, dispute: InnerDispute, peer: Peer, trace: PostedTrace
) -> TrainingState:
    """The state before the named step: the claimant's, or the own one where it is the same."""
    try:
        return await fetch_state(party, [peer], trace.start)
    except (ProtocolFault, EnvironmentFault):
        own = await asyncio.to_thread(_recompute_start, party, dispute, trace)
        if own is None:
            raise
        return own


def _recompute_start(party: Party, dispute: InnerDispute, trace: PostedTrace) -> TrainingState | None:
    assert dispute.step is not None
    place = (dispute.statement.round, dispute.statement.slot)
    try:
        start = find_start(party, dispute)
        if has_state(party, start):
            state = compute_state(party, place, dispute.segment, start, dispute.step)
            return load_state(party, trace.start) if keep_state(party, state) == trace.start else None
    except (EnvironmentFault, InvalidInput):
        return None
    return None


async def open_remote(party: Party, built: BuiltProgram, peer: Peer, trace: PostedTrace) -> RemoteTrace:
    """The claimant's trace; roots that the contract knows are not the claimant's to tell."""
    start = trace.start
    known = dict(enumerate((start.weights_root, start.first_moment_root, start.second_moment_root)))
    known |= get_constant_roots(built.program)
    layout = describe_layout(built.program)
    return await open_trace(party.store, party.client, peer, trace.root, layout, known)


def _search(
    party: Party, built: BuiltProgram, start: TrainingState, batch: Batch, claimed: ClaimedTrace
) -> OperationFault | InputFault | None:
    training = party.task.spec.training
    scalars = compute_scalars(training, start.local_step, start.global_step)
    vectors = (start.weights, start.first_moment, start.second_moment)
    return FaultFinder(built, training.numeric_format).find(vectors, batch, scalars, claimed)


def get_inner_step(party: Party, dispute: InnerDispute) -> int:
    """The named step's number in its round."""
    assert dispute.step is not None
    return dispute.segment * party.task.spec.terms.segment_steps + dispute.step
