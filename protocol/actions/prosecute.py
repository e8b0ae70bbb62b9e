"""What a challenger does with a posted trace: fetch what differs from its own run, find the first fault, and
prove it.

The claimant answers for its own sentence only, so the step is computed from the state that it claims to have
started from. A claimant that does not serve its trace is asked on chain for a leaf of it: whoever cannot show
one is convicted by its silence.
"""

import asyncio
from functools import partial

from protocol.actions.challenge import demand_leaf
from protocol.actions.claim import get_dealt_batches
from protocol.actions.defend import Compute, compute_step_roots, get_claimed_start
from protocol.actions.party import Party
from protocol.actions.replay import NotServed, ask_until
from protocol.actions.states import fetch_state
from protocol.actions.steps import judge_steps
from protocol.actions.traces import RemoteTrace, describe_layout, open_trace
from protocol.adapters.wire.session import Peer
from protocol.compute.digest import build_byte_tree
from protocol.compute.facts import compute_step_facts
from protocol.compute.fault import ClaimedTrace, FaultFinder, InputFault, OperationFault
from protocol.compute.program import BuiltProgram, build_program, describe_program
from protocol.compute.step import Batch, TrainingState, compute_scalars
from protocol.spec.containers import LeafProof, StateHeader
from protocol.spec.dispute import DisputeState, PostedTrace
from protocol.spec.dispute_moves import DemandLeaf, find_first_difference
from protocol.spec.draw import draw_sample_start
from protocol.spec.errors import EnvironmentFault, ProtocolFault
from protocol.spec.merkle import compute_path
from protocol.spec.params import LEAF_BYTES
from protocol.spec.program import INPUTS, Role, get_constant_roots
from protocol.spec.round import get_shard
from protocol.spec.schedule import compute_scalar_leaves, compute_scalar_levels

TOKENS, LABELS, SCALARS = (INPUTS.index(role) for role in (Role.TOKENS, Role.LABELS, Role.SCALARS))
"""Numbers of these buffers in every program."""


async def prosecute(party: Party, dispute: DisputeState) -> None:
    """Look for a fault in the trace of a dispute, and prove it. Says so where there is none. Raises
    ProtocolFault or EnvironmentFault where the trace is not served, once a leaf of it is demanded on
    chain."""
    trace, name = dispute.trace, dispute.dispute.hex()[:8]
    assert trace is not None
    try:
        fault = await find_fault(party, dispute, trace)
    except (ProtocolFault, EnvironmentFault) as unserved:
        if all(demand.challenger != party.account for demand in dispute.demands):
            party.say(f"dispute {name}: {unserved.what}; demanding a leaf of the trace on chain")
            # Whoever computed the step has the first leaf of the last node's output.
            last = len(build_program(describe_program(party.spec.training)).program.nodes) - 1
            await demand_leaf(party, DemandLeaf(dispute.dispute, last, 0, 0))
        raise  # It is asked for again: an outage must not let a false trace stand.
    if fault is None:
        party.say(f"dispute {name}: every number of the trace lies inside its bound")
    elif isinstance(fault, OperationFault):
        party.say(f"dispute {name}: node {fault.node.number} errs in element {fault.element}: proving it")
        await prove_operation(party, dispute, trace.start, fault)
    else:
        party.say(f"dispute {name}: element {fault.element} of buffer {fault.buffer} is not the task's")
        await prove_input(party, dispute, trace.start, fault)


async def find_own_roots(party: Party, dispute: DisputeState, compute: Compute) -> tuple[bytes, ...]:
    """`compute_own_roots`; none where they cannot be had for another's dispute, which is then not waited
    for. Those of an own dispute are wanted however often they fail: raises as `compute_own_roots` does."""
    try:
        return await compute_own_roots(party, dispute, compute)
    except (ProtocolFault, EnvironmentFault):
        if dispute.opener == party.account:
            raise
        return ()


async def compute_own_roots(party: Party, dispute: DisputeState, compute: Compute) -> tuple[bytes, ...]:
    """The k+1 state roots of the disputed segment as this node would have them, from the start that was
    opened: they part from the posted ones where a step is to be named. Raises ProtocolFault or
    EnvironmentFault where nobody serves the start.

    On other hardware each root differs. So a solver is asked for its step states: the first step beyond the
    reject limits of what this node computes from the claimed state before it is the one, else the one that
    lies farthest off. Where they are not shown in half of the time to name it the roots have to do."""
    own = await _replay_roots(party, dispute, compute)
    first = find_first_difference(dispute.roots, own)
    if first is None or not dispute.claim.by_solver:
        return own
    peer, until_block = party.view.network.find(dispute.claimant), party.view.head_block
    until_block += party.spec.terms.windows.name // 2
    ask = partial(judge_steps, party, peer, dispute.claim, dispute.roots, first, compute.train)
    try:
        verdicts = await ask_until(party, ask, until_block, "the states after the disputed steps")
    except NotServed as fault:
        party.say(f"dispute {dispute.dispute.hex()[:8]}: {fault.what}; going by the roots alone")
        return own
    step = first + max(range(len(verdicts)), key=lambda at: (verdicts[at].judgement, verdicts[at].excess))
    agreed = dispute.roots[: step + 1]
    return (*agreed, *(bytes(len(root)) for root in dispute.roots[step + 1 :]))


async def _replay_roots(party: Party, dispute: DisputeState, compute: Compute) -> tuple[bytes, ...]:
    claim, network = dispute.claim, party.view.network
    solver = party.round(claim.audit.round).solvers[claim.audit.slot]
    peers = [network.find(account) for account in dict.fromkeys((solver, dispute.claimant))]
    await fetch_state(party, peers, get_claimed_start(party, claim))
    return await asyncio.to_thread(compute_step_roots, party, claim, compute)


# --- Finding ------------------------------------------------------------------------------------------------
async def find_fault(
    party: Party, dispute: DisputeState, trace: PostedTrace
) -> OperationFault | InputFault | None:
    """The first fault of the claimed step. Raises ProtocolFault or EnvironmentFault where the claimant does
    not serve what is needed."""
    peer = party.view.network.find(dispute.claimant)
    built = build_program(describe_program(party.spec.training))
    start = await fetch_state(party, [peer], trace.start)
    remote = await open_remote(party, built, peer, trace)
    claimed = ClaimedTrace(remote.roots, remote.make_provider())
    batch = get_dealt_batches(party, dispute.claim.audit.round, dispute.claim.audit.slot)(
        get_inner_step(party, dispute)
    )
    try:
        search = partial(_search, party, built, start, batch, claimed)
        return await asyncio.get_running_loop().run_in_executor(party.searchers, search)
    finally:
        remote.evict()
        party.say(
            f"dispute {dispute.dispute.hex()[:8]}: fetched {remote.received_bytes / 1e6:.1f} MB of the trace"
        )


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
    training = party.spec.training
    scalars = compute_scalars(training, start.local_step, start.global_step)
    vectors = (start.weights, start.first_moment, start.second_moment)
    return FaultFinder(built, training.numeric_format).find(vectors, batch, scalars, claimed)


def get_inner_step(party: Party, dispute: DisputeState) -> int:
    """The named step's number in its round."""
    assert dispute.step is not None
    return dispute.claim.segment * party.spec.terms.segment_steps + dispute.step


# --- Proving ------------------------------------------------------------------------------------------------
async def prove_operation(
    party: Party, dispute: DisputeState, start: StateHeader, fault: OperationFault
) -> None:
    """Have the referee compute the element."""
    facts = await asyncio.to_thread(compute_step_facts, party.spec)
    await party.chain.dispute_game.prove_operation(
        dispute.dispute, facts, start, fault.node, fault.element, fault.openings
    )


async def prove_input(party: Party, dispute: DisputeState, start: StateHeader, fault: InputFault) -> None:
    """Show the token, label or scalar that the task gives beside the claimed one."""
    facts = await asyncio.to_thread(compute_step_facts, party.spec)
    game = party.chain.dispute_game
    if fault.buffer == SCALARS:
        leaf = open_scalars(party, start, fault.element)
        await game.prove_scalar(dispute.dispute, facts, start, fault.element, fault.opening, leaf)
    else:
        is_label = fault.buffer == LABELS
        leaf = open_token(party, dispute, fault.element, is_label)
        await game.prove_token(dispute.dispute, facts, is_label, fault.element, fault.opening, leaf)


def open_scalars(party: Party, start: StateHeader, which: int) -> LeafProof:
    """The leaf with a scalar of the step: the learning rate goes by the global step, the bias corrections by
    the local one."""
    leaves = compute_scalar_leaves(party.spec)
    place = start.local_step if which else start.global_step
    return LeafProof(leaves[place], tuple(compute_path(compute_scalar_levels(leaves), place)))


def open_token(party: Party, dispute: DisputeState, position: int, is_label: bool) -> LeafProof:
    """The leaf of the dataset with the token (or label) that was dealt to a position of the batch."""
    training, claim = party.spec.training, dispute.claim.audit
    state = party.round(claim.round)
    assert state.beacon is not None
    row, column = divmod(position, training.sequence_tokens)
    first = draw_sample_start(
        state.beacon,
        get_shard(state, claim.slot),
        get_inner_step(party, dispute),
        row,
        training.token_count,
        training.sequence_tokens,
    )
    byte = (first + column + is_label) * training.token_bytes
    tree = build_byte_tree(party.corpus.tokens.numpy().tobytes())
    data, path = tree.open_leaf(byte // LEAF_BYTES)
    return LeafProof(data, tuple(path))
