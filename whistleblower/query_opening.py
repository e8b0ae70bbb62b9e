"""Opens queries: a signer of a vote must show one leaf of both ends."""

from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.kit.bonds import fund_bonds
from touchstone.node.kit.config import Notify
from touchstone.node.kit.known_statements import (
    find_accused,
    find_solver,
    find_spot_leaf,
    find_vote,
    get_inner,
    get_now,
    is_counted,
    list_provable_rounds,
    sign_form,
)
from touchstone.node.kit.locks import Locks
from touchstone.node.kit.view import GetView, View
from touchstone.node.models.own_openings import list_own_boundaries
from touchstone.node.records.dispute_records import StatementKey
from touchstone.node.records.heard_statements import KnownVote, OwnReplay
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.spec.data_trees import count_tensor_leaves
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.inner_dispute import QueryEnding
from touchstone.protocol.spec.game.open_questions import count_open_queries
from touchstone.protocol.spec.game.queries import QUERIED_WORDS
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.game.timing import get_query_until
from touchstone.protocol.spec.statements import VoteWord

TELLING = frozenset({QueryEnding.OPEN, QueryEnding.CLEARED})
"""A query of another account makes a second one needless if it is open or was answered."""


@dataclass(frozen=True)
class PlannedQuery:
    """A vote and the leaf that its signer is to show."""

    statement: StatementRef
    signature: bytes
    leaf: int


def list_planned_queries(view: View, block: int) -> Iterator[PlannedQuery]:
    """Yields votes of others that contradict what this node knows, and that can be queried in `block`."""
    if view.game.terms.is_exact:
        return
    for game_round in list_provable_rounds(get_now(view), block):
        for known in view.audits.list_votes(game_round.index):
            leaf = _find_leaf(view, known)
            if leaf is not None and _is_askable(view, known, block) and not _is_asked(view, known, leaf):
                yield PlannedQuery(known.ref, known.signature, leaf)


def _is_askable(view: View, known: KnownVote, block: int) -> bool:
    seat, until = find_accused(get_now(view), known.ref, known), get_query_until(get_now(view), known.ref)
    is_open = seat is not None and seat.status != SeatStatus.CONVICTED and seat.account != view.account
    if not is_open or until is None or known.vote.word not in QUERIED_WORDS:
        return False
    # The signer need not answer while votes still count, and the vote's opening may make the query needless.
    is_ripe = known.opening is not None or block > until - view.game.terms.windows.query
    return is_ripe and block <= until


def _is_asked(view: View, known: KnownVote, leaf: int) -> bool:
    """Returns whether this node has made this query, or another account's query already gives the same
    answer.

    The other query must be about this very vote and seat. A liar may sign another vote for the same place,
    and so may an auditor that was not drawn for it."""
    seat = find_accused(get_now(view), known.ref, known)
    asks = [one for one in get_inner(view).queries.values() if (one.vote, one.leaf) == (known.vote, leaf)]
    here = [one for one in asks if seat is not None and one.seat == seat.number]
    return any(one.asker == view.account or one.ending in TELLING for one in here)


def _find_leaf(view: View, known: KnownVote) -> int | None:
    """Returns the leaf to ask for; None if nothing speaks against the vote, or a query would not show the
    fault."""
    vote = known.vote
    replays = view.audits.list_replays(vote.round)
    here = [one for one in replays if (one.ref.slot, one.segment) == (vote.slot, vote.segment)]
    leaf_count = count_tensor_leaves(view.spec.terms.parameter_count)
    if vote.word == VoteWord.ACCEPT:
        beyond = next((one.excess_leaf for one in here if one.excess_leaf is not None), None)
        if beyond is None:
            return find_spot_leaf(get_now(view), view.account, view.cases.dice, known, leaf_count)
        return None if _is_copied(known) else beyond
    if vote.word != VoteWord.REJECT_STATE:
        return None
    is_leaf = vote.named_leaf < leaf_count
    return vote.named_leaf if is_leaf and _is_false_rejection(view, known, here) else None


def _is_copied(known: KnownVote) -> bool:
    """Returns whether the auditor's own end is known to equal the claim's."""
    opening = known.opening
    return opening is not None and opening.own_end_root == opening.claim_end_root


def _is_false_rejection(view: View, known: KnownVote, here: list[OwnReplay]) -> bool:
    """Returns whether a rejection looks false: this node finds the end right, and no opening shows another
    end. If an opening does show another end, the auditor's own steps are judged instead."""
    if known.opening is not None:
        return _is_copied(known)
    if not is_counted(get_now(view), known):  # It harms no claim, and an honest end may have drifted.
        return False
    is_own = find_solver(get_now(view), known.vote.round, known.vote.slot) == view.account
    has_claim = is_own and known.vote.segment + 1 in list_own_boundaries(view, known.vote.round)
    return has_claim or any(one.claimed_end is not None and one.excess_leaf is None for one in here)


@dataclass(frozen=True)
class Queries:
    """Opens queries."""

    get_view: GetView
    chain: GameChain
    locks: Locks
    notify: Notify

    async def ask(self, query: PlannedQuery) -> None:
        """Queries the signer. The k-th open query on a seat costs k bonds."""
        view = self.get_view()
        known = _find(view, query.statement.round, query.signature)
        if known is None:
            return
        accused, ref = find_accused(get_now(view), known.ref, known), known.ref
        assert accused is not None
        async with self.locks["credit", None]:
            count = count_open_queries(get_now(self.get_view()), accused.number)
            limit_wei = await fund_bonds(
                self.chain, self.get_view(), count, self.get_view().game.terms.amounts.query_bond
            )
            form = sign_form(known.vote, known.signature)
            await self.chain.game.query_vote(self.get_view().task, form, query.leaf, limit_wei)
        self.notify(f"round {ref.round} slot {ref.slot}: asked {known.auditor} to show leaf {query.leaf}")


def _find(view: View, index: int, signature: bytes) -> KnownVote | None:
    return find_vote(view, StatementKey(StatementRef(index, 0), 0, signature))
