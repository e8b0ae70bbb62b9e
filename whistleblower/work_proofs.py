"""Proves wrong starts, pseudo-gradients and votes about them."""

from dataclasses import dataclass

from touchstone.node.kit.known_statements import find_claim, find_solver, get_now
from touchstone.node.kit.view import GetView, View
from touchstone.node.models.claim_openings import ClaimData
from touchstone.node.models.global_model import GlobalModel
from touchstone.node.models.own_openings import list_own_boundaries, open_boundary, open_work
from touchstone.node.records.claim_records import WorkProof
from touchstone.node.records.heard_statements import ClaimOpenings, KnownVote
from touchstone.node.records.round_seats import find_carried_round
from touchstone.node.training.segments import Segments
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobRef, refer_delta, refer_tensor
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.spec.claim_tree import compute_carried_root
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.openings import LeafProof
from touchstone.protocol.spec.params import DELTA_BLOCK_BYTES, SCALE_BYTE_MAX
from touchstone.protocol.spec.statements import VoteWord
from touchstone.whistleblower import proof_calls
from touchstone.whistleblower.proof_calls import NO_WORK, Form, ProofCalls, delta_form, start_form


@dataclass(frozen=True)
class WorkProofs:
    """Proves wrong starts, pseudo-gradients, and votes about them."""

    get_view: GetView
    store: BlobStore
    client: BlobClient
    claim_data: ClaimData
    model: GlobalModel
    proof_calls: ProofCalls
    segments: Segments

    async def prove_claim(self, found: KnownVote) -> None:
        """Proves the fault that this node's own vote found in a claim."""
        index, slot = found.vote.round, found.vote.slot
        openings = get_openings(self.get_view(), index, slot)
        if found.vote.word == VoteWord.REJECT_START:
            await self.prove_wrong_start(found.ref)
            return
        work, last = openings.work, openings.last
        if work is not None and last is not None and work.carried_root != compute_carried_root(last.header):
            await self.proof_calls.send_proof(proof_calls.prove_carried(index, slot, work, last))
            return
        await self._prove_delta(found, openings)

    async def prove_wrong_start(self, ref: StatementRef) -> None:
        """Shows boundary 0 of a claim that starts from something else than it must."""
        openings = get_openings(self.get_view(), ref.round, ref.slot)
        start = await self.make_start(ref.round, ref.slot, openings)
        await self.proof_calls.send_proof(proof_calls.prove_start(ref.round, ref.slot, start))

    async def _prove_delta(self, found: KnownVote, openings: ClaimOpenings) -> None:
        index, slot, leaf = found.vote.round, found.vote.slot, found.vote.named_leaf
        if openings.work is None:
            raise _make_unknown(index, slot, "the work leaf")
        await self.claim_data.fetch_delta(get_now(self.get_view()).rounds[index], slot)
        ref = refer_delta(openings.work.delta_root, self.get_view().spec.terms.parameter_count)
        [opened] = self.store.open_leaves(ref, [leaf])
        if are_scales_valid(opened):
            delta = await self.make_delta(index, slot, leaf, openings)
            await self.proof_calls.send_proof(proof_calls.prove_delta(index, slot, leaf, delta))
        else:  # This call needs no other data, so a solver cannot stop it by withholding.
            await self.proof_calls.send_proof(
                proof_calls.prove_scale(index, slot, leaf, openings.work, opened)
            )

    async def prove_vote(self, known: KnownVote) -> None:
        """Shows that a claim starts as it must, or that the leaf which a vote rejects is encoded rightly."""
        index, slot = known.vote.round, known.vote.slot
        openings = get_openings(self.get_view(), index, slot)
        if known.vote.word == VoteWord.REJECT_START:
            await self.proof_calls.send_proof(
                proof_calls.prove_right_start(known, await self.make_start(index, slot, openings))
            )
        else:
            delta = await self.make_delta(index, slot, known.vote.named_leaf, openings)
            await self.proof_calls.send_proof(proof_calls.prove_right_delta(known, delta))

    async def make_start(self, index: int, slot: int, openings: ClaimOpenings) -> Form:
        """Returns boundary 0 of a claim, and what it must be."""
        if 0 not in openings.boundaries:
            raise _make_unknown(index, slot, "boundary 0")
        base = await self.model.load_outer(get_now(self.get_view()).rounds[index].base_root)
        return start_form(openings.boundaries[0], base, await self._find_carried_work(index, slot))

    async def _find_carried_work(self, index: int, slot: int) -> WorkProof:
        """Returns the work leaf of the solver's last merged claim, if moments carry over from one."""
        view = self.get_view()
        claim = find_claim(get_now(view), index, slot)
        seat = None if claim is None else get_now(view).seats.get(claim.seat)
        if not view.spec.terms.carry_moments or seat is None:
            return NO_WORK
        earlier = find_carried_round(get_now(view), index, seat)
        if earlier is None:
            return NO_WORK
        before = get_now(view).rounds[earlier]
        merged = next(one for one in before.claims.values() if one.seat == seat.number)
        return await self.claim_data.find_work(before, merged)

    async def make_delta(self, index: int, slot: int, leaf: int, openings: ClaimOpenings) -> Form:
        """Returns a leaf of a claim's pseudo-gradient, and what it must be. Raises EnvironmentFault if one of
        them is not known."""
        view = self.get_view()
        work, last = openings.work, openings.last
        if work is None or last is None:
            raise _make_unknown(index, slot, "the work leaf" if work is None else "the last boundary")
        game_round, count = get_now(view).rounds[index], view.spec.terms.parameter_count
        base = await self.model.load_outer(game_round.base_root)
        await self.model.load_weights(base)
        await self.claim_data.fetch_delta(game_round, slot)
        final = refer_tensor(last.header.weights_root, count)
        await self._have_final(index, slot, final)
        refs = (refer_tensor(base.weights_root, count), final, refer_delta(work.delta_root, count))
        first, second, third = (self.store.open_leaves(ref, [leaf])[0] for ref in refs)
        return delta_form(work, base, last, (first, second, third))

    async def _have_final(self, index: int, slot: int, ref: BlobRef) -> None:
        """Brings the final weights of a claim into the store. If this node has pruned those of its own claim,
        it trains them again."""
        solver = find_solver(get_now(self.get_view()), index, slot)
        if solver == self.get_view().account and not self.store.has(ref):
            await self.segments.restore_boundary(index, max(list_own_boundaries(self.get_view(), index)))
            return
        known = self.get_view().chain_state.network.peers.get(solver or "")
        await self.client.fetch_from_any([known] if known is not None else [], ref)


def are_scales_valid(leaf: LeafProof) -> bool:
    """Returns whether each block in a leaf of a pseudo-gradient has a scale that the encoding can give."""
    return all(scale <= SCALE_BYTE_MAX for scale in leaf.data[::DELTA_BLOCK_BYTES])


def get_openings(view: View, index: int, slot: int) -> ClaimOpenings:
    """Returns the known openings of a claim; all of them if the claim is this node's own."""
    if find_solver(get_now(view), index, slot) != view.account:
        return view.audits.get_openings(index, slot)
    last = len(list_own_boundaries(view, index)) - 1
    first, end = (open_boundary(view, index, boundary) for boundary in (0, last))
    return ClaimOpenings({0: first, last: end}, open_work(view, index), end)


def _make_unknown(index: int, slot: int, what: str) -> EnvironmentFault:
    return EnvironmentFault(
        what="a claim cannot be proven wrong without its openings",
        expected=f"{what} of round {index}, slot {slot}",
        actual="never shown to this node",
        remedy="You need to do nothing: the auditors of the claim have them.",
    )
