"""Proves wrong starts, pseudo-gradients and votes about them."""

from touchstone.node.kit.party import Party
from touchstone.node.kit.view import View
from touchstone.node.models.claim_openings import fetch_delta, find_work
from touchstone.node.models.global_model import load_outer, load_weights
from touchstone.node.models.own_openings import list_own_boundaries, open_boundary, open_work
from touchstone.node.records.claim_records import WorkProof
from touchstone.node.records.heard_statements import ClaimOpenings, KnownVote
from touchstone.node.records.round_seats import find_carried_round
from touchstone.node.training.segments import restore_boundary
from touchstone.protocol.adapters.store.blobs import BlobRef, refer_delta, refer_tensor
from touchstone.protocol.spec.claim_tree import compute_carried_root
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.openings import LeafProof
from touchstone.protocol.spec.params import DELTA_BLOCK_BYTES, SCALE_BYTE_MAX
from touchstone.protocol.spec.statements import VoteWord
from touchstone.whistleblower import proof_calls
from touchstone.whistleblower.known_statements import find_claim, find_solver, get_now
from touchstone.whistleblower.proof_calls import NO_WORK, Form, delta_form, start_form


async def prove_claim(party: Party, found: KnownVote) -> None:
    """Prove what this node's own vote says of a claim."""
    index, slot = found.vote.round, found.vote.slot
    openings = get_openings(party.view, index, slot)
    if found.vote.word == VoteWord.REJECT_START:
        await prove_wrong_start(party, found.ref)
        return
    work, last = openings.work, openings.last
    if work is not None and last is not None and work.carried_root != compute_carried_root(last.header):
        await proof_calls.prove_carried(party, index, slot, work, last)
        return
    await _prove_delta(party, found, openings)


async def prove_wrong_start(party: Party, ref: StatementRef) -> None:
    """Show boundary 0 of a claim, which is not what the claim must start from."""
    openings = get_openings(party.view, ref.round, ref.slot)
    start = await make_start(party, ref.round, ref.slot, openings)
    await proof_calls.prove_start(party, ref.round, ref.slot, start)


async def _prove_delta(party: Party, found: KnownVote, openings: ClaimOpenings) -> None:
    index, slot, leaf = found.vote.round, found.vote.slot, found.vote.named_leaf
    if openings.work is None:
        raise _make_unknown(index, slot, "the work leaf")
    await fetch_delta(party, get_now(party.view).rounds[index], slot)
    ref = refer_delta(openings.work.delta_root, party.task.spec.terms.parameter_count)
    [opened] = party.store.open_leaves(ref, [leaf])
    if are_scales_valid(opened):
        delta = await make_delta(party, index, slot, leaf, openings)
        await proof_calls.prove_delta(party, index, slot, leaf, delta)
    else:  # Nothing else is needed, so nothing else can be withheld.
        await proof_calls.prove_scale(party, index, slot, leaf, openings.work, opened)


async def prove_vote(party: Party, known: KnownVote) -> None:
    """Show that a claim starts as it must, or that the named leaf is the encoded difference."""
    index, slot = known.vote.round, known.vote.slot
    openings = get_openings(party.view, index, slot)
    if known.vote.word == VoteWord.REJECT_START:
        await proof_calls.prove_right_start(party, known, await make_start(party, index, slot, openings))
    else:
        delta = await make_delta(party, index, slot, known.vote.named_leaf, openings)
        await proof_calls.prove_right_delta(party, known, delta)


def are_scales_valid(leaf: LeafProof) -> bool:
    """Whether each block of a leaf of a pseudo-gradient has a scale that an encoding has."""
    return all(scale <= SCALE_BYTE_MAX for scale in leaf.data[::DELTA_BLOCK_BYTES])


def get_openings(view: View, index: int, slot: int) -> ClaimOpenings:
    """What is known of a claim: all where it is this node's own."""
    if find_solver(get_now(view), index, slot) != view.account:
        return view.audits.get_openings(index, slot)
    last = len(list_own_boundaries(view, index)) - 1
    first, end = (open_boundary(view, index, boundary) for boundary in (0, last))
    return ClaimOpenings({0: first, last: end}, open_work(view, index), end)


async def make_start(party: Party, index: int, slot: int, openings: ClaimOpenings) -> Form:
    """Boundary 0 of a claim and what it must be."""
    if 0 not in openings.boundaries:
        raise _make_unknown(index, slot, "boundary 0")
    base = await load_outer(party, get_now(party.view).rounds[index].base_root)
    return start_form(openings.boundaries[0], base, await _find_carried_work(party, index, slot))


async def _find_carried_work(party: Party, index: int, slot: int) -> WorkProof:
    """The work leaf of the solver's last merged claim, where moments carry over from one."""
    claim = find_claim(get_now(party.view), index, slot)
    seat = None if claim is None else get_now(party.view).seats.get(claim.seat)
    if not party.task.spec.terms.carry_moments or seat is None:
        return NO_WORK
    earlier = find_carried_round(get_now(party.view), index, seat)
    if earlier is None:
        return NO_WORK
    before = get_now(party.view).rounds[earlier]
    merged = next(one for one in before.claims.values() if one.seat == seat.number)
    return await find_work(party, before, merged)


async def make_delta(party: Party, index: int, slot: int, leaf: int, openings: ClaimOpenings) -> Form:
    """A leaf of a claim's pseudo-gradient and what it must be. Raises EnvironmentFault where it is not
    known."""
    work, last = openings.work, openings.last
    if work is None or last is None:
        raise _make_unknown(index, slot, "the work leaf" if work is None else "the last boundary")
    game_round, count = get_now(party.view).rounds[index], party.task.spec.terms.parameter_count
    base = await load_outer(party, game_round.base_root)
    await load_weights(party, base)
    await fetch_delta(party, game_round, slot)
    final = refer_tensor(last.header.weights_root, count)
    await _have_final(party, index, slot, final)
    refs = (refer_tensor(base.weights_root, count), final, refer_delta(work.delta_root, count))
    first, second, third = (party.store.open_leaves(ref, [leaf])[0] for ref in refs)
    return delta_form(work, base, last, (first, second, third))


async def _have_final(party: Party, index: int, slot: int, ref: BlobRef) -> None:
    """Have the final weights of a claim; of an own one that were pruned they are trained again."""
    solver = find_solver(get_now(party.view), index, slot)
    if solver == party.account and not party.store.has(ref):
        await restore_boundary(party, index, max(list_own_boundaries(party.view, index)))
        return
    known = party.state.network.peers.get(solver or "")
    await party.client.fetch_from_any([known] if known is not None else [], ref)


def _make_unknown(index: int, slot: int, what: str) -> EnvironmentFault:
    return EnvironmentFault(
        what="a claim cannot be proven wrong without its openings",
        expected=f"{what} of round {index}, slot {slot}",
        actual="never shown to this node",
        remedy="Nothing: the auditors of the claim have them.",
    )
