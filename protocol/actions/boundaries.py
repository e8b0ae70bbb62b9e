"""The states between the segments of a claim: what the chain opened of them, and what a solver shows of its
own accord once no blind audit can copy it.

    claim root --> ROOTS, its leaves --> BYTES behind a leaf --> BYTES behind a state root --> W, m, v

Each step is addressed by its hash, so nothing is taken on trust and a challenger that was restarted finds it
in its own store. From the end of the late replays on every segment of a claim can be replayed by anybody who
is staked, not only those that were drawn.
"""

import asyncio

from protocol.actions.claim import get_own_slot, list_leaves
from protocol.actions.party import Party
from protocol.adapters.blobs import BlobKey, BlobKind, BlobRef, refer_roots
from protocol.spec import codec
from protocol.spec.containers import StateHeader
from protocol.spec.drawn import get_drawn
from protocol.spec.errors import InvalidInput
from protocol.spec.round import RoundState, get_claim, get_late_deadlines, get_opening, get_slot


# --- The solver ---------------------------------------------------------------------------------------------
def is_claim_shown(state: RoundState, me: str, block: int) -> bool:
    """Whether a solver shows all of its claim in `block`: late auditors have committed by then."""
    slot, late = get_slot(state, me), get_late_deadlines(state, block)
    if slot is None or late is None or not get_claim(state, slot).claim_root:
        return False
    return slot not in state.settled_slots and block >= late.late_replay_end


async def show_claim(party: Party, index: int) -> None:
    """Show every boundary of this node's claim from now on: its state, and how it stands under the claim
    root."""
    await asyncio.to_thread(_keep_openings, party, index)
    headers = [party.memory.boundaries[(index, at)] for at in range(party.spec.terms.segment_count + 1)]
    party.view.shelf.show_claim(get_claim(party.round(index), get_own_slot(party, index)).claim_root, headers)


def _keep_openings(party: Party, index: int) -> None:
    party.store.put_roots(list_leaves(party, index))
    for boundary, salt in enumerate(party.memory.salts[index]):
        header = party.memory.boundaries[(index, boundary)]
        names = (party.domain, index, party.account, boundary, salt, codec.compute_state_root(header))
        party.store.put_bytes(codec.encode_boundary(*names))
        party.store.put_bytes(codec.encode_state(header))


# --- Everybody else -----------------------------------------------------------------------------------------
def find_opened(state: RoundState, slot: int, boundary: int) -> StateHeader | None:
    """A boundary that was opened on chain, whichever draw it was opened for."""
    for draw in range(state.terms.segment_draws + 1):
        drawn, opening = get_drawn(state, slot, draw), get_opening(state, slot, draw)
        if drawn is None:
            continue
        if boundary == state.terms.segment_count and opening.last is not None:
            return opening.last
        at_segment = {drawn.segment: opening.start, drawn.segment + 1: opening.end}
        if at_segment.get(boundary) is not None:
            return at_segment[boundary]
    return None


def read_boundary(party: Party, index: int, slot: int, boundary: int) -> StateHeader:
    """A boundary that was opened on chain, or that the solver showed and this node fetched. Raises
    InvalidInput where it is neither."""
    state = party.round(index)
    opened = find_opened(state, slot, boundary)
    if opened is not None:
        return opened
    claim = get_claim(state, slot)
    if not party.store.has(_refer_leaves(state, claim.claim_root)):
        raise InvalidInput(
            what="this state of a claim was never shown",
            expected=f"boundary {boundary} opened on chain, or fetched from {claim.solver}",
            actual="neither",
            where=f"round {index} slot {slot}",
            remedy="Fetch it while the solver shows its claim, or dispute a segment that was drawn.",
        )
    leaf = party.store.get_roots(claim.claim_root)[boundary]
    data = party.store.get(_refer(leaf, codec.BOUNDARY_BYTES))
    root = codec.decode_boundary(data, party.domain, index, claim.solver, boundary)
    return codec.decode_state(party.store.get(_refer(root, codec.STATE_BYTES)), claim.solver)


async def fetch_boundary(party: Party, index: int, slot: int, boundary: int) -> StateHeader:
    """The same, fetched from the solver where need be. Raises ProtocolFault where what it shows is no
    boundary of its claim, EnvironmentFault where it shows nothing."""
    state = party.round(index)
    if find_opened(state, slot, boundary) is None:
        claim = get_claim(state, slot)
        peers = [party.view.network.find(claim.solver)]
        await party.client.fetch_from_any(peers, _refer_leaves(state, claim.claim_root))
        leaf = _refer(party.store.get_roots(claim.claim_root)[boundary], codec.BOUNDARY_BYTES)
        await party.client.fetch_from_any(peers, leaf)
        root = codec.decode_boundary(party.store.get(leaf), party.domain, index, claim.solver, boundary)
        await party.client.fetch_from_any(peers, _refer(root, codec.STATE_BYTES))
    return read_boundary(party, index, slot, boundary)


def _refer_leaves(state: RoundState, claim_root: bytes) -> BlobRef:
    return refer_roots(claim_root, state.terms.segment_count + 1)


def _refer(digest: bytes, size_bytes: int) -> BlobRef:
    return BlobRef(BlobKey(BlobKind.BYTES, digest), size_bytes)
