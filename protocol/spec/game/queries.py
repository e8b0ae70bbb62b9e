"""The query: the signer of a vote must show one state leaf of both ends. Twin of `Queries.sol`.

A query goes to the signer of an ACCEPT, or of a REJECT that names the leaf. The contract compares the two
leaves. So an auditor cannot lie about the two end roots without risk: any other account may query the
auditor, for a bond.
"""

from touchstone.protocol.spec.game.bond_outcomes import forfeit_bond, return_bond
from touchstone.protocol.spec.game.calls import AnswerQuery, EndQuery, QueryVote
from touchstone.protocol.spec.game.convicting import convict
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import GameOutcome, ProofKind
from touchstone.protocol.spec.game.events import QueryOpened, QueryOver
from touchstone.protocol.spec.game.open_questions import count_open_queries
from touchstone.protocol.spec.game.pools import is_convicted
from touchstone.protocol.spec.game.rule_refusals import require
from touchstone.protocol.spec.game.state import GameState, OpenQuery
from touchstone.protocol.spec.game.statement_seats import get_statement_seat
from touchstone.protocol.spec.game.timing import compute_query_clock, get_query_until
from touchstone.protocol.spec.game.vault import bond_of
from touchstone.protocol.spec.statements import VoteWord

QUERIED_WORDS = frozenset({VoteWord.ACCEPT, VoteWord.REJECT_STATE})


def get_query(state: GameState, number: int) -> OpenQuery:
    """Returns an open query. Refuses NothingOpen."""
    require(number in state.queries, "NothingOpen", "an open query", number)
    return state.queries[number]


def apply_query(draft: Draft, call: QueryVote, sender: str) -> None:
    """Opens a query. The k-th open query on a seat costs k bonds."""
    state, ref = draft.state, call.statement
    require(call.word in QUERIED_WORDS and not state.terms.is_exact, "WordNotQueried", actual=call.word.name)
    require(call.is_leaf, "LeafNotQueried", "a leaf that exists; for a REJECT, the named one", call.leaf)
    number = _get_signer(state, call)
    require(not is_convicted(state, number), "SeatIsConvicted", actual=number)
    require(state.seats[number].account != sender, "OwnStatement", actual=sender)
    until = get_query_until(state, ref)
    is_open = until is not None and draft.block <= until
    require(is_open, "OutsideWindow", f"until {until}", draft.block)
    require(call.is_new, "AlreadyQueried", actual=ref)
    bond = state.terms.amounts.query_bond * (1 + count_open_queries(state, number))
    require(bond <= call.bond_limit, "WrongBond", bond, call.bond_limit)
    clock = compute_query_clock(state, ref, draft.block)
    draft.emit(QueryOpened(OpenQuery(state.next_number, ref, number, call.word, call.leaf, sender, clock)))
    draft.take(sender, bond_of(state.next_number), bond)


def _get_signer(state: GameState, call: QueryVote) -> int:
    ref = call.statement
    number = get_statement_seat(state, ref, call.signer)
    require(call.is_signed and ref.draw is not None, "StatementUnknown", "a vote that the seat signed", ref)
    return number


def apply_answer_query(draft: Draft, call: AnswerQuery, sender: str) -> None:
    """Ends a query with its answer. An ACCEPT is false if the shown leaves exceed the limits, a REJECT if
    they do not."""
    query = get_query(draft.state, call.query)
    require(not is_convicted(draft.state, query.seat), "SeatIsConvicted", actual=query.seat)
    require(draft.block <= query.clock, "OutsideWindow", f"until {query.clock}", draft.block)
    require(call.is_fitting, "ProofInvalid", "both leaves under the vote's roots")
    if call.exceeds_limits == (query.word == VoteWord.ACCEPT):
        _convict(draft, query)
        return
    forfeit_bond(draft, query.number, draft.state.seats[query.seat].account)
    draft.emit(QueryOver(query.number, GameOutcome.CLEARED))


def apply_end_query(draft: Draft, call: EndQuery, sender: str) -> None:
    """Ends a query without an answer: the seat is convicted. If the seat is already closed, the query is
    moot."""
    query = get_query(draft.state, call.query)
    if is_convicted(draft.state, query.seat):
        return_bond(draft, query.number, query.asker)
        draft.emit(QueryOver(query.number, GameOutcome.MOOT))
        return
    require(draft.block > query.clock, "NotLate", f"a block after {query.clock}", draft.block)
    _convict(draft, query)


def _convict(draft: Draft, query: OpenQuery) -> None:
    return_bond(draft, query.number, query.asker)
    draft.emit(QueryOver(query.number, GameOutcome.CONVICTED))
    convict(draft, query.seat, ProofKind.QUERIED, query.asker, query.statement)
