"""What the claims of a round come to: their work leaves and pseudo-gradients, from whoever has them."""

import asyncio
from collections.abc import Mapping
from functools import partial

from protocol.actions.audit.messages import WorkSaid
from protocol.actions.merge.book import WorkProof
from protocol.actions.merge.messages import WORK, AskWork, ask_peer, read_message
from protocol.actions.merge.opening import open_work
from protocol.actions.merge.places import find_holder
from protocol.actions.runtime.party import Party
from protocol.actions.runtime.peers import list_peers
from protocol.adapters.blobs import refer_delta
from protocol.adapters.wire.hedging import ask_in_turn
from protocol.adapters.wire.session import Peer
from protocol.spec.claim_tree import compute_work_leaf, verify_in_claim
from protocol.spec.errors import EnvironmentFault
from protocol.spec.game.machine import get_state_at
from protocol.spec.game.state import GameRound, SlotClaim


def get_solver(party: Party, index: int, claim: SlotClaim) -> str:
    """The account whose claim on round `index` it is; empty where nobody remembers it."""
    seat = find_holder(party.game, claim.seat, index)
    return "" if seat is None else seat.account


def list_sources(party: Party, solver: str) -> list[Peer]:
    """Whom to ask about a claim: its solver first, then members, then everybody else."""
    return list_peers(party, party.task.task, first=solver)


async def fetch_delta(party: Party, game_round: GameRound, slot: int) -> bytes:
    """The pseudo-gradient of a claim, in the store from then on. Raises EnvironmentFault or ProtocolFault
    where nobody shows it."""
    claim = game_round.claims[slot]
    proof = await find_work(party, game_round, claim)
    ref = refer_delta(proof.delta_root, party.task.spec.terms.parameter_count)
    await party.client.fetch_from_any(list_sources(party, get_solver(party, game_round.index, claim)), ref)
    return await asyncio.to_thread(party.store.get, ref)


async def find_work(party: Party, game_round: GameRound, claim: SlotClaim) -> WorkProof:
    """The work leaf of a claim: the own one, one that is known, or from the first peer that shows it."""
    book = party.task.claims
    if claim.claim_root not in book.proofs:
        solver = get_solver(party, game_round.index, claim)
        if solver == party.account:
            book.proofs[claim.claim_root] = open_work(party, game_round.index)
        else:
            book.proofs[claim.claim_root] = await _ask_all(party, game_round, claim, solver)
    return book.proofs[claim.claim_root]


async def _ask_all(party: Party, game_round: GameRound, claim: SlotClaim, solver: str) -> WorkProof:
    question = AskWork(party.task.task, game_round.index, claim.claim_root)

    async def ask(peer: Peer) -> WorkProof:
        said = await ask_peer(party, peer, WORK, question, WorkSaid)
        return _check(party, game_round, claim, solver, said)

    peers = list_sources(party, solver)
    if not peers:
        raise EnvironmentFault(
            what="nobody to ask about a claim",
            expected="a peer that has announced an endpoint",
            actual="none",
            remedy="Wait until one has.",
        )
    return await ask_in_turn([partial(ask, peer) for peer in peers])


def _check(party: Party, game_round: GameRound, claim: SlotClaim, solver: str, said: WorkSaid) -> WorkProof:
    """Raises ProtocolFault unless the answer is the last leaf under the claim's root."""
    place = (party.task.domain, game_round.index, solver, claim.segments)
    leaf = compute_work_leaf(*place, said.delta_root, said.carried_root)
    verify_in_claim(claim.claim_root, leaf, claim.segments + 1, claim.segments, said.path)
    return WorkProof(said.delta_root, said.carried_root, said.path)


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
    known = party.task.claims.proofs
    finished = party.task.claims.find(game_round).finished if game_round.beacon is not None else None
    if asked.claim_root not in known and finished is not None and finished.claim_root == asked.claim_root:
        known[asked.claim_root] = open_work(party, asked.round)
    return known.get(asked.claim_root) or _find_audited(party).get(asked.claim_root)


def _find_audited(party: Party) -> Mapping[bytes, WorkProof]:
    """Work leaves by claim root that solvers have shown to this node as an auditor: a solver that shows its
    work to its auditors alone could otherwise not be merged by anybody."""
    return party.task.audits.list_works()


def may_read_delta(party: Party, root: bytes) -> bool:
    """Whether a pseudo-gradient may be shown: from the close on, to everybody, whoever made it."""
    known = (*party.task.claims.proofs.values(), *_find_audited(party).values())
    if any(proof.delta_root == root for proof in known):
        return True
    return root in _list_own_deltas(party)


def _list_own_deltas(party: Party) -> set[bytes]:
    """Of this node's own claims of closed rounds, on what stands: what was trained on a wrong guess is shown
    to nobody."""
    state, book = get_state_at(party.game, party.state.head_block + 1), party.task.claims
    rounds = (r for r in state.rounds.values() if r.closed is not None and r.beacon is not None)
    finished = (book.find(game_round).finished for game_round in rounds)
    return {one.delta_root for one in finished if one is not None}
