"""Answers requests for work leaves, and says who may read pseudo-gradients."""

from dataclasses import dataclass

from touchstone.node.kit.view import GetView, View
from touchstone.node.models.claim_openings import find_audited, name_own
from touchstone.node.models.global_model import AskWork, WorkSaid, read_message
from touchstone.node.models.own_openings import open_work
from touchstone.node.records.claim_records import ClaimName, WorkProof
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.round_machine import get_state_at


@dataclass(frozen=True)
class WorkRequests:
    """Answers requests for the work leaves of claims."""

    get_view: GetView

    async def answer_work(self, account: str, body: bytes) -> WorkSaid:
        """Returns the work leaf of a claim of a closed round: this node's own, or one that was shown to
        it."""
        asked = read_message(AskWork, body, account)
        proof = _find_shown(self.get_view(), asked)
        if proof is None:
            raise EnvironmentFault(
                what="the work leaf is not served now",
                expected="a claim of a closed round that this node knows",
                actual=f"{asked.claim_root.hex()} of round {asked.round}",
                remedy="Ask its solver, or ask again after the close.",
            )
        return WorkSaid(proof.delta_root, proof.carried_root, proof.path)


def _find_shown(view: View, asked: AskWork) -> WorkProof | None:
    if asked.task != view.task:
        return None
    state = get_state_at(view.game, view.head_block + 1)
    game_round = state.rounds.get(asked.round)
    if game_round is None or game_round.closed is None:
        return None
    claim = game_round.claims.get(asked.slot)
    if claim is None or claim.claim_root != asked.claim_root:
        return None
    name, known = name_own(view, game_round, claim), view.claims.proofs
    finished = view.claims.find(game_round).finished if game_round.beacon is not None else None
    own = None if finished is None else ClaimName(asked.round, view.account, finished.claim_root)
    if name not in known and name == own:
        known[name] = open_work(view, asked.round)
    return known.get(name) or find_audited(view, name, claim.segments)


def may_read_delta(view: View, root: bytes) -> bool:
    """Returns whether a pseudo-gradient may be shown. After the close of its round any account may read it,
    from any node that has it."""
    return root in _list_shown_deltas(view) or root in _list_own_deltas(view)


def _list_shown_deltas(view: View) -> frozenset[bytes]:
    """Returns the pseudo-gradients of all work leaves that this node knows. Every request of a stranger needs
    them, so they are collected again only when a new work leaf is known."""
    book, works = view.claims, view.audits.list_works()
    count = len(book.proofs) + len(works)
    if book.shown_deltas[0] != count:
        roots = {proof.delta_root for proof in book.proofs.values()}
        book.shown_deltas = (count, frozenset(roots.union(work.delta_root for work in works.values())))
    return book.shown_deltas[1]


def _list_own_deltas(view: View) -> set[bytes]:
    """Returns the pseudo-gradients of this node's own claims in closed rounds, on the present base root and
    beacon. Results of wrong speculations are shown to no peer."""
    state, book = get_state_at(view.game, view.head_block + 1), view.claims
    rounds = (r for r in state.rounds.values() if r.closed is not None and r.beacon is not None)
    finished = (book.find(game_round).finished for game_round in rounds)
    return {one.delta_root for one in finished if one is not None}
