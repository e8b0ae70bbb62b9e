"""Opens a dispute once, about a statement that was judged to be false."""

from collections.abc import Iterator
from dataclasses import dataclass

from touchstone.node.kit.bonds import fund_bonds
from touchstone.node.kit.known_statements import find_accused, find_vote, get_inner, get_now, sign_form
from touchstone.node.kit.locks import Locks
from touchstone.node.kit.view import GetView, View
from touchstone.node.records.dispute_records import CLAIM, NO_STEP, DisputePlanned, StatementKey, to_key
from touchstone.node.records.heard_statements import KnownVote
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.spec.game.dispute_moves import is_pursued
from touchstone.protocol.spec.game.inner_dispute import InnerDispute
from touchstone.protocol.spec.game.open_questions import count_open_disputes
from touchstone.protocol.spec.game.state import StatementRef
from touchstone.protocol.spec.game.timing import get_statement_until
from touchstone.whistleblower.case_judging import OPENING_BLOCKS, is_open


def list_unopened(view: View, block: int) -> Iterator[DisputePlanned]:
    """Yields planned disputes, unless an open dispute already accuses the same step."""
    for statement_key, case in view.cases.cases.items():
        if statement_key.ref.round in get_now(view).rounds and is_open(view, statement_key, block):
            known = list_disputes_on(view, statement_key)
            is_own = any(one.opener == view.account for one in known)
            if not is_own and not any(_is_pursued(view, case, one) for one in known):
                yield case


def list_disputes_on(view: View, statement_key: StatementKey) -> list[InnerDispute]:
    """Returns all disputes that were opened on a statement and one of its segments."""
    book, place = get_inner(view), (statement_key.ref, statement_key.segment)
    return [one for one in book.disputes.values() if (one.statement, one.segment) == place]


def _is_pursued(view: View, case: DisputePlanned, dispute: InnerDispute) -> bool:
    until = get_statement_until(get_now(view), dispute.statement)
    step = None if case.step == NO_STEP else case.step
    return is_pursued(dispute, step, until, OPENING_BLOCKS, view.game.terms.windows.respond)


@dataclass(frozen=True)
class DisputeOpening:
    """Opens disputes that are planned."""

    get_view: GetView
    chain: GameChain
    locks: Locks

    async def open_case(self, case: DisputePlanned) -> None:
        """Opens the dispute; the k-th open one on a seat costs k bonds."""
        view = self.get_view()
        known = find_vote(view, to_key(case))
        draw = None if case.draw == CLAIM else case.draw
        accused = find_accused(get_now(view), StatementRef(case.round, case.slot, draw, case.rank), known)
        assert accused is not None
        async with self.locks["credit", None]:
            count = count_open_disputes(get_now(self.get_view()), accused.number)
            limit_wei = await fund_bonds(
                self.chain, self.get_view(), count, self.get_view().game.terms.amounts.dispute_bond
            )
            await self._send(case, known, limit_wei)

    async def _send(self, case: DisputePlanned, known: KnownVote | None, limit_wei: int) -> None:
        disputes, task = self.chain.game, self.get_view().task
        if known is None:
            place = (case.round, case.slot, case.segment)
            await disputes.dispute_claim(task, *place, limit_wei, case.salt)
        else:
            await disputes.dispute_vote(task, sign_form(known.vote, known.signature), limit_wei, case.salt)
