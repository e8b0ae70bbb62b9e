"""The query: the signer of a vote must show one state leaf of both ends. Twin of `Asks.sol`.

A query goes to the signer of an ACCEPT, or of a REJECT that names the leaf. The contract compares the two
leaves. So an auditor cannot lie about the two end roots without risk: any other account may query the
auditor, for a bond.
"""

from touchstone.protocol.spec.game.bond_outcomes import forfeit_bond, return_bond
from touchstone.protocol.spec.game.calls import AnswerAsk, AskSigner, EndAsk
from touchstone.protocol.spec.game.convicting import convict
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import GameOutcome, ProofKind
from touchstone.protocol.spec.game.events import AskOpened, AskOver
from touchstone.protocol.spec.game.open_questions import count_open_asks
from touchstone.protocol.spec.game.pools import is_closed
from touchstone.protocol.spec.game.purse import bond_of
from touchstone.protocol.spec.game.rule_refusals import require
from touchstone.protocol.spec.game.state import GameState, OpenAsk
from touchstone.protocol.spec.game.statement_seats import get_statement_seat
from touchstone.protocol.spec.game.timing import compute_ask_clock, get_ask_until
from touchstone.protocol.spec.statements import VoteWord

ASKED_WORDS = frozenset({VoteWord.ACCEPT, VoteWord.REJECT_STATE})


def get_ask(state: GameState, number: int) -> OpenAsk:
    """Returns an open query. Refuses NothingOpen."""
    require(number in state.asks, "NothingOpen", "an open query", number)
    return state.asks[number]


def apply_ask(draft: Draft, call: AskSigner, sender: str) -> None:
    """Opens a query. The k-th open query on a seat costs k bonds."""
    state, ref = draft.state, call.statement
    require(call.word in ASKED_WORDS and not state.terms.is_exact, "WordNotAsked", actual=call.word.name)
    require(call.is_leaf, "LeafNotAsked", "a leaf that exists; for a REJECT, the named one", call.leaf)
    number = _get_signer(state, call)
    require(not is_closed(state, number), "SeatClosed", actual=number)
    require(state.seats[number].account != sender, "OwnStatement", actual=sender)
    until = get_ask_until(state, ref)
    is_open = until is not None and draft.block <= until
    require(is_open, "OutsideWindow", f"until {until}", draft.block)
    require(call.is_new, "AlreadyAsked", actual=ref)
    bond = state.terms.amounts.ask_bond * (1 + count_open_asks(state, number))
    require(bond <= call.bond_limit, "WrongBond", bond, call.bond_limit)
    clock = compute_ask_clock(state, ref, draft.block)
    draft.emit(AskOpened(OpenAsk(state.next_number, ref, number, call.word, call.leaf, sender, clock)))
    draft.take(sender, bond_of(state.next_number), bond)


def _get_signer(state: GameState, call: AskSigner) -> int:
    ref = call.statement
    number = get_statement_seat(state, ref, call.signer)
    require(call.is_signed and ref.draw is not None, "StatementUnknown", "a vote that the seat signed", ref)
    return number


def apply_answer_ask(draft: Draft, call: AnswerAsk, sender: str) -> None:
    """Ends a query with its answer. An ACCEPT is false if the shown leaves exceed the limits, a REJECT if
    they do not."""
    ask = get_ask(draft.state, call.ask)
    require(not is_closed(draft.state, ask.seat), "SeatClosed", actual=ask.seat)
    require(draft.block <= ask.clock, "OutsideWindow", f"until {ask.clock}", draft.block)
    require(call.is_fitting, "ProofInvalid", "both leaves under the vote's roots")
    if call.exceeds_limits == (ask.word == VoteWord.ACCEPT):
        _convict(draft, ask)
        return
    forfeit_bond(draft, ask.number, draft.state.seats[ask.seat].account)
    draft.emit(AskOver(ask.number, GameOutcome.CLEARED))


def apply_end_ask(draft: Draft, call: EndAsk, sender: str) -> None:
    """Ends a query without an answer: the seat is convicted. If the seat is already closed, the query is
    moot."""
    ask = get_ask(draft.state, call.ask)
    if is_closed(draft.state, ask.seat):
        return_bond(draft, ask.number, ask.asker)
        draft.emit(AskOver(ask.number, GameOutcome.MOOT))
        return
    require(draft.block > ask.clock, "NotLate", f"a block after {ask.clock}", draft.block)
    _convict(draft, ask)


def _convict(draft: Draft, ask: OpenAsk) -> None:
    return_bond(draft, ask.number, ask.asker)
    draft.emit(AskOver(ask.number, GameOutcome.CONVICTED))
    convict(draft, ask.seat, ProofKind.ASKED, ask.asker, ask.statement)
