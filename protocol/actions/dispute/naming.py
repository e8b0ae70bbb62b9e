"""Which step of a disputed segment its opener names: the first one that is false from the claimant's own
state before it.
"""

import asyncio

from protocol.actions.dispute.judging import Claimed, ask_headers, judge_steps
from protocol.actions.dispute.knowing import get_now
from protocol.actions.dispute.segments import compute_roots
from protocol.actions.runtime.party import Party
from protocol.compute.compare import Verdict
from protocol.spec.codec import compute_state_root
from protocol.spec.containers import StateHeader
from protocol.spec.errors import EnvironmentFault, ProtocolFault
from protocol.spec.game.inner_dispute import InnerDispute


async def name_step(party: Party, dispute: InnerDispute) -> None:
    """Name the step that this node would prove false. Raises ProtocolFault or EnvironmentFault while the
    claimant does not show its states and there is time for it."""
    step = await find_step(party, dispute)
    party.say(f"dispute {format_name(dispute)}: naming step {step}")
    await party.chain.disputes.name_step(party.task.task, dispute.name, step, dispute.roots)


async def find_step(party: Party, dispute: InnerDispute) -> int:
    """The first step that lies beyond the limits, from the claimant's own state before it; the one farthest
    off where none does. Where the states are not shown in half of the time, the first one after which the
    posted roots part from this node's own."""
    found: list[Verdict] = []
    try:
        claimed = make_claimed(party, dispute)
        headers = await ask_headers(party, claimed, dict(enumerate(dispute.roots)))
        await judge_steps(party, claimed, headers, found)
    except (ProtocolFault, EnvironmentFault) as fault:
        if party.state.head_block < dispute.clock - party.game.terms.windows.respond // 2:
            raise
        party.say(f"dispute {format_name(dispute)}: {fault.what}; going by what is known")
        # A step whose end is not shown, or is no state, while its start is right.
        return len(found) if found else await asyncio.to_thread(_find_by_roots, party, dispute)
    return max(range(len(found)), key=lambda at: (found[at].is_beyond, found[at].excess))


def make_claimed(party: Party, dispute: InnerDispute) -> Claimed:
    """Whose steps are disputed. Raises EnvironmentFault where the claimant has no endpoint."""
    peer = party.state.network.find(get_now(party).seats[dispute.seat].account)
    return Claimed(peer, dispute.statement.round, dispute.statement.slot, dispute.segment)


def _find_by_roots(party: Party, dispute: InnerDispute) -> int:
    start, place = find_start(party, dispute), (dispute.statement.round, dispute.statement.slot)
    own = compute_roots(party, place, dispute.segment, start)
    parted = [step for step in range(len(own) - 1) if own[step + 1] != dispute.roots[step + 1]]
    return parted[0] if parted else len(own) - 2


def find_start(party: Party, dispute: InnerDispute) -> StateHeader:
    """The state that the disputed segment starts from, as its solver has shown it to this node. Raises
    EnvironmentFault where it has not."""
    ref = dispute.statement
    shown = party.task.audits.get_openings(ref.round, ref.slot).boundaries.get(dispute.segment)
    if shown is None or compute_state_root(shown.header) != dispute.roots[0]:
        raise EnvironmentFault(
            what="the start of a disputed segment is not known",
            expected=f"the opening of boundary {dispute.segment} of round {ref.round}, slot {ref.slot}",
            actual="none",
            remedy="Wait until the claimant shows its states.",
        )
    return shown.header


def format_name(dispute: InnerDispute) -> str:
    """For people."""
    return dispute.name.hex()[:8]
