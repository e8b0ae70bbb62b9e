"""Openings of this node's own claims, and the work leaves and pseudo-gradients of all claims.

An own claim is opened at a boundary, or at the work leaf. A work leaf or a pseudo-gradient of another claim
comes from the solver, or from any other peer that has it.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from touchstone.node.kit.party import Party, list_peers
from touchstone.node.kit.view import View
from touchstone.node.models.global_model import WORK, AskWork, ask_peer, read_message
from touchstone.node.records.claim_records import ClaimName, ClaimWork, WorkProof, WorkShown, find_holder
from touchstone.node.serving.audit_messages import WorkSaid
from touchstone.protocol.adapters.chain.abi_values import BoundaryProof
from touchstone.protocol.adapters.store.blobs import BlobRef, refer_delta
from touchstone.protocol.adapters.wire.hedging import ask_in_turn
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.spec import merkle
from touchstone.protocol.spec.codec import compute_boundary_leaf, compute_state_root
from touchstone.protocol.spec.containers import StateHeader
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault
from touchstone.protocol.spec.game.ledger import get_state_at
from touchstone.protocol.spec.game.state import GameRound, SlotClaim
from touchstone.protocol.spec.statements import compute_carried_root, compute_work_leaf, verify_in_claim


def compute_leaves(view: View, index: int, work: ClaimWork, delta_root: bytes) -> list[bytes]:
    """The leaves of the tree of a claim of this node on round `index`: all boundaries, then the work leaf."""
    domain, account, segments = view.domain, view.account, len(work.boundaries) - 1
    leaves = [
        compute_boundary_leaf(
            domain, index, account, b, work.salts[b], compute_state_root(work.boundaries[b])
        )
        for b in range(segments + 1)
    ]
    carried = compute_carried_root(work.boundaries[segments])
    return [*leaves, compute_work_leaf(domain, index, account, segments, delta_root, carried)]


def list_leaves(view: View, index: int) -> list[bytes]:
    """The leaves of this node's finished claim on a round, on the base root and beacon that stand."""
    work = get_finished(view, index)
    assert work.finished is not None
    return compute_leaves(view, index, work, work.finished.delta_root)


def get_finished(view: View, index: int) -> ClaimWork:
    """This node's finished claim on a round. Raises KeyError where it has none."""
    work = view.claims.find(view.game.rounds[index])
    if work.finished is None:
        raise KeyError(index)
    return work


def find_own_root(view: View, index: int) -> bytes | None:
    """The root of this node's finished claim on a round; None where it has none."""
    game_round = view.game.rounds.get(index)
    if game_round is None or game_round.beacon is None:
        return None
    finished = view.claims.find(game_round).finished
    return None if finished is None else finished.claim_root


def open_boundary(view: View, index: int, boundary: int) -> BoundaryProof:
    """The opening of one boundary of this node's claim."""
    work, path = get_finished(view, index), _compute_path(view, index, boundary)
    return BoundaryProof(work.boundaries[boundary], work.salts[boundary], path)


def list_own_boundaries(view: View, index: int) -> Mapping[int, StateHeader]:
    """The boundaries of this node's own claim of a round; none where it has no claim."""
    try:
        return get_finished(view, index).boundaries
    except KeyError:
        return {}


def compute_own_leaf(view: View, index: int, boundary: int) -> bytes:
    """The leaf of one boundary of this node's claim, without its path."""
    work = get_finished(view, index)
    place = (view.domain, index, view.account, boundary, work.salts[boundary])
    return compute_boundary_leaf(*place, compute_state_root(work.boundaries[boundary]))


def open_work(view: View, index: int) -> WorkProof:
    """The opening of the work leaf of this node's claim."""
    finished = get_finished(view, index).finished
    assert finished is not None
    path = _compute_path(view, index, finished.segments + 1)
    return WorkProof(finished.delta_root, finished.carried_root, path)


def _compute_path(view: View, index: int, leaf: int) -> tuple[bytes, ...]:
    return tuple(merkle.compute_path(merkle.compute_levels(list_leaves(view, index)), leaf))


class OwnClaims:
    """The same for rooms that must not know of this one."""

    def __init__(self, party: Party) -> None:
        self._party = party

    def list_boundaries(self, index: int) -> Mapping[int, StateHeader]:
        """The boundaries of this node's claim on round `index`; none where it has none."""
        return list_own_boundaries(self._party.view, index)

    def open_boundary(self, index: int, boundary: int) -> BoundaryProof:
        """The opening of one boundary of this node's claim on round `index`."""
        return open_boundary(self._party.view, index, boundary)

    def open_work(self, index: int) -> WorkProof:
        """The opening of the work leaf of this node's claim on round `index`."""
        return open_work(self._party.view, index)


def get_solver(view: View, index: int, claim: SlotClaim) -> str:
    """The account whose claim on round `index` it is; empty where the chain has forgotten it."""
    seat = find_holder(view.game, claim.seat, index)
    return "" if seat is None else seat.account


def name_claim(view: View, game_round: GameRound, slot: int) -> ClaimName:
    """The claim of a slot by what its work leaf names."""
    return _name(view, game_round, game_round.claims[slot])


def _name(view: View, game_round: GameRound, claim: SlotClaim) -> ClaimName:
    return ClaimName(game_round.index, get_solver(view, game_round.index, claim), claim.claim_root)


def is_fetched(view: View, game_round: GameRound, slot: int) -> bool:
    """Whether this node has the pseudo-gradient of a claim, under this claim's own work leaf."""
    return name_claim(view, game_round, slot) in view.claims.fetched


def list_sources(party: Party, solver: str) -> list[Peer]:
    """The peers to ask about a claim, in order: members of the task and the solver, then the other peers.

    In each group, peers that were silent come last. The solver is asked first unless it was silent itself."""
    return list_peers(party, party.task.task, first=solver)


async def have_delta(party: Party, game_round: GameRound, slot: int) -> BlobRef:
    """Have the pseudo-gradient of a claim in the store, and read nothing of it. Raises as `fetch_delta`
    does."""
    claim = game_round.claims[slot]
    proof = await find_work(party, game_round, claim)
    ref = refer_delta(proof.delta_root, party.task.spec.terms.parameter_count)
    await party.client.fetch_from_any(
        list_sources(party, get_solver(party.view, game_round.index, claim)), ref
    )
    return ref


async def fetch_delta(party: Party, game_round: GameRound, slot: int) -> memoryview:
    """The pseudo-gradient of a claim, in the store from then on: this node has fetched it, whatever for. It
    is not to be written to, and judged as by `BlobStore.open_map`: what has just arrived was hashed on the
    way. Raises EnvironmentFault or ProtocolFault where no peer shows it."""
    name = name_claim(party.view, game_round, slot)
    data = await asyncio.to_thread(party.store.open_map, await have_delta(party, game_round, slot))
    party.task.claims.fetched.add(name)
    return data


async def find_work(party: Party, game_round: GameRound, claim: SlotClaim) -> WorkProof:
    """The work leaf of a claim: the own one, one that is known, or from the first peer that shows it. It is
    written down once it is checked."""
    name, book = _name(party.view, game_round, claim), party.task.claims
    if name not in book.proofs:
        if name.solver == party.account:
            book.proofs[name] = open_work(party.view, game_round.index)
        else:
            found = _find_audited(party.view, name, claim.segments) or await _ask_all(
                party, game_round, claim
            )
            if name not in book.proofs:
                shown = (found.delta_root, found.carried_root, found.path)
                book.write(WorkShown(party.task.task, *name, *shown))
    return book.proofs[name]


async def _ask_all(party: Party, game_round: GameRound, claim: SlotClaim) -> WorkProof:
    name = _name(party.view, game_round, claim)
    slot = next(slot for slot, one in game_round.claims.items() if one == claim)
    question = AskWork(party.task.task, game_round.index, slot, claim.claim_root)

    async def ask(peer: Peer) -> WorkProof:
        """One peer's proof, checked against the claim's root."""
        said = await ask_peer(party, peer, WORK, question, WorkSaid)
        proof = WorkProof(said.delta_root, said.carried_root, said.path)
        _check(party.view, name, claim.segments, proof)
        return proof

    peers = list_sources(party, name.solver)
    if not peers:
        raise EnvironmentFault(
            what="no peer to ask about a claim",
            expected="a peer that has announced an endpoint",
            actual="none",
            remedy="Wait until one has.",
        )
    return await ask_in_turn([partial(ask, peer) for peer in peers])


def _check(view: View, name: ClaimName, segments: int, proof: WorkProof) -> None:
    """Raises ProtocolFault unless the work leaf is the last one under the claim's root, of its round and
    solver."""
    place = (view.domain, name.round, name.solver, segments)
    leaf = compute_work_leaf(*place, proof.delta_root, proof.carried_root)
    verify_in_claim(name.claim_root, leaf, segments + 1, segments, proof.path)


# --- Serving ------------------------------------------------------------------------------------------------
async def answer_work(party: Party, account: str, body: bytes) -> WorkSaid:
    """The work leaf of a claim of a closed round, of one's own or as it was shown to this node."""
    asked = read_message(AskWork, body, account)
    proof = _find_shown(party, asked)
    if proof is None:
        raise EnvironmentFault(
            what="the work leaf is not served now",
            expected="a claim of a closed round that this node knows",
            actual=f"{asked.claim_root.hex()} of round {asked.round}",
            remedy="Ask its solver, or ask again after the close.",
        )
    return WorkSaid(proof.delta_root, proof.carried_root, proof.path)


def _find_shown(party: Party, asked: AskWork) -> WorkProof | None:
    if party.joined is None or asked.task != party.task.task:
        return None
    state = get_state_at(party.game, party.state.head_block + 1)
    game_round = state.rounds.get(asked.round)
    if game_round is None or game_round.closed is None:
        return None
    claim = game_round.claims.get(asked.slot)
    if claim is None or claim.claim_root != asked.claim_root:
        return None
    name, known = _name(party.view, game_round, claim), party.task.claims.proofs
    finished = party.task.claims.find(game_round).finished if game_round.beacon is not None else None
    own = None if finished is None else ClaimName(asked.round, party.account, finished.claim_root)
    if name not in known and name == own:
        known[name] = open_work(party.view, asked.round)
    return known.get(name) or _find_audited(party.view, name, claim.segments)


def _find_audited(view: View, name: ClaimName, segments: int) -> WorkProof | None:
    """The work leaf of a claim as its solver has shown it to this node as an auditor. A solver that shows its
    work to its auditors alone could otherwise keep the others from merging it."""
    shown = view.audits.list_works().get(name.claim_root)
    if shown is not None:
        proof = WorkProof(shown.delta_root, shown.carried_root, shown.path)
        with suppress(ProtocolFault):
            _check(view, name, segments, proof)
            return proof
    return None


def may_read_delta(view: View, root: bytes) -> bool:
    """Whether a pseudo-gradient may be shown: from the close on, to any account, whichever solver made it."""
    return root in _list_shown_deltas(view) or root in _list_own_deltas(view)


def _list_shown_deltas(view: View) -> frozenset[bytes]:
    """Pseudo-gradients of all work leaves that this node knows. Any account asks for that with each request:
    they are gone through once, and again when another is known."""
    book, works = view.claims, view.audits.list_works()
    count = len(book.proofs) + len(works)
    if book.shown_deltas[0] != count:
        roots = {proof.delta_root for proof in book.proofs.values()}
        book.shown_deltas = (count, frozenset(roots.union(work.delta_root for work in works.values())))
    return book.shown_deltas[1]


def _list_own_deltas(view: View) -> set[bytes]:
    """Pseudo-gradients of this node's own claims of closed rounds, on the base root and beacon that stand.
    What it trained on a wrong guess it shows to no peer."""
    state, book = get_state_at(view.game, view.head_block + 1), view.claims
    rounds = (r for r in state.rounds.values() if r.closed is not None and r.beacon is not None)
    finished = (book.find(game_round).finished for game_round in rounds)
    return {one.delta_root for one in finished if one is not None}
