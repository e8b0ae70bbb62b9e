"""Finds work leaves and pseudo-gradients of all claims: in the store or from peers, and checks them."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from touchstone.node.kit.peers import Peers
from touchstone.node.kit.view import GetView, View
from touchstone.node.models.global_model import WORK, AskWork, WorkSaid, make_form
from touchstone.node.models.own_openings import open_work
from touchstone.node.records.claim_records import ClaimBook, ClaimName, WorkProof, WorkShown
from touchstone.node.records.round_seats import find_holder
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobRef, refer_delta
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.hedging import ask_in_turn
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.spec.claim_tree import compute_work_leaf, verify_in_claim
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game.state import GameRound, SlotClaim


def get_solver(view: View, index: int, claim: SlotClaim) -> str:
    """Returns the account that made a claim on round `index`; empty if the chain has forgotten it."""
    seat = find_holder(view.game, claim.seat, index)
    return "" if seat is None else seat.account


def name_claim(view: View, game_round: GameRound, slot: int) -> ClaimName:
    """Returns the name of the claim in a slot: fields of its work leaf."""
    return name_own(view, game_round, game_round.claims[slot])


def name_own(view: View, game_round: GameRound, claim: SlotClaim) -> ClaimName:
    """Returns the name of a claim of a round: fields of its work leaf."""
    return ClaimName(game_round.index, get_solver(view, game_round.index, claim), claim.claim_root)


def is_fetched(view: View, game_round: GameRound, slot: int) -> bool:
    """Returns whether this node has the pseudo-gradient that belongs to a claim's work leaf."""
    return name_claim(view, game_round, slot) in view.claims.fetched


@dataclass(frozen=True)
class ClaimData:
    """Finds the work leaves and pseudo-gradients of claims, of this node's own and of others."""

    get_view: GetView
    store: BlobStore
    client: BlobClient
    peers: Peers
    claims: ClaimBook

    def list_sources(self, solver: str) -> list[Peer]:
        """Returns the peers to ask about a claim, in order: members of the task and the solver, then others.

        In each group, peers that were silent come last. The solver is asked first unless it was silent
        itself."""
        return self.peers.list(first=solver)

    async def have_delta(self, game_round: GameRound, slot: int) -> BlobRef:
        """Brings the pseudo-gradient of a claim into the store, without reading it. Raises as `fetch_delta`
        does."""
        claim = game_round.claims[slot]
        proof = await self.find_work(game_round, claim)
        ref = refer_delta(proof.delta_root, self.get_view().spec.terms.parameter_count)
        await self.client.fetch_from_any(
            self.list_sources(get_solver(self.get_view(), game_round.index, claim)), ref
        )
        return ref

    async def fetch_delta(self, game_round: GameRound, slot: int) -> memoryview:
        """Returns the pseudo-gradient of a claim, read-only, and fetches it into the store if needed. Its
        hash is checked while it arrives, or when it is read (`BlobStore.open_map`). Raises EnvironmentFault
        or ProtocolFault if no peer serves it."""
        name = name_claim(self.get_view(), game_round, slot)
        data = await asyncio.to_thread(self.store.open_map, await self.have_delta(game_round, slot))
        self.claims.fetched.add(name)
        return data

    async def find_work(self, game_round: GameRound, claim: SlotClaim) -> WorkProof:
        """Returns the work leaf of a claim: this node's own, a known one, or one from the first peer that
        shows it. A new one is checked and written down."""
        name, book = name_own(self.get_view(), game_round, claim), self.claims
        if name not in book.proofs:
            if name.solver == self.get_view().account:
                book.proofs[name] = open_work(self.get_view(), game_round.index)
            else:
                found = find_audited(self.get_view(), name, claim.segments) or await self._ask_all(
                    game_round, claim
                )
                if name not in book.proofs:
                    shown = (found.delta_root, found.carried_root, found.path)
                    book.write(WorkShown(self.get_view().task, *name, *shown))
        return book.proofs[name]

    async def _ask_all(self, game_round: GameRound, claim: SlotClaim) -> WorkProof:
        view = self.get_view()
        name = name_own(view, game_round, claim)
        slot = next(slot for slot, one in game_round.claims.items() if one == claim)
        question = AskWork(view.task, game_round.index, slot, claim.claim_root)

        async def ask(peer: Peer) -> WorkProof:
            """Returns one peer's proof of the work leaf, checked against the claim's root."""
            said = await self.peers.ask(peer, WORK, question, make_form(WorkSaid))
            proof = WorkProof(said.delta_root, said.carried_root, said.path)
            _check(self.get_view(), name, claim.segments, proof)
            return proof

        peers = self.list_sources(name.solver)
        if not peers:
            raise EnvironmentFault(
                what="no peer to ask about a claim",
                expected="a peer that has announced an endpoint",
                actual="none",
                remedy="Wait until one has.",
            )
        return await ask_in_turn([partial(ask, peer) for peer in peers])


def _check(view: View, name: ClaimName, segments: int, proof: WorkProof) -> None:
    """Raises ProtocolFault unless the work leaf is the last leaf under the claim's root, with the right round
    and solver."""
    place = (view.domain, name.round, name.solver, segments)
    leaf = compute_work_leaf(*place, proof.delta_root, proof.carried_root)
    verify_in_claim(name.claim_root, leaf, segments + 1, segments, proof.path)


def find_audited(view: View, name: ClaimName, segments: int) -> WorkProof | None:
    """Returns the work leaf of a claim as its solver showed it to this node in an audit. This lets a claim be
    merged even if its solver shows its work only to auditors."""
    shown = view.audits.list_works().get(name.claim_root)
    if shown is not None:
        proof = WorkProof(shown.delta_root, shown.carried_root, shown.path)
        with suppress(ProtocolFault):
            _check(view, name, segments, proof)
            return proof
    return None
