"""Statements, and how they are questioned: ASK, DISPUTE, and what one transaction proves.

A statement is a claim or a vote. A seat answers for it, and asks and disputes about it may be open.

An ASK obliges a signer to show one state leaf of both ends. It goes to the signer of an ACCEPT, or of a
REJECT that names the leaf. The contract compares the two leaves. So an auditor cannot lie for free about two
roots: any other account may ask it, for a bond.

A DISPUTE is seen here from outside. Any number of disputes may run at once (findings, H1). Each ends by a
block that is known when it opens, and it holds up only the seat that it names (M3). The dispute's own machine
(D1 to D4) decides it; here its outcome is a fact.
"""

from touchstone.protocol.spec.audit_draws import RANKS
from touchstone.protocol.spec.game.assignments import get_draw_role, get_drawn_seat
from touchstone.protocol.spec.game.calls import (
    AnswerAsk,
    AskSigner,
    ConvictSeat,
    DisputeStatement,
    EndAsk,
    EndDispute,
    SealProof,
)
from touchstone.protocol.spec.game.claim_status import get_claim_fate
from touchstone.protocol.spec.game.convicting import convict, forfeit_bond, return_bond
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.enums import (
    AUDITOR_PROOFS,
    SOLVER_PROOFS,
    ClaimFate,
    GameOutcome,
    ProofKind,
)
from touchstone.protocol.spec.game.epochs import get_epoch
from touchstone.protocol.spec.game.events import (
    AskOpened,
    AskOver,
    DisputeOver,
    ProofSealed,
    StatementDisputed,
)
from touchstone.protocol.spec.game.pools import find_seat, is_closed
from touchstone.protocol.spec.game.purse import bond_of
from touchstone.protocol.spec.game.rounds import get_round
from touchstone.protocol.spec.game.rule_refusals import require
from touchstone.protocol.spec.game.state import GameState, OpenAsk, RunningDispute, StatementRef
from touchstone.protocol.spec.game.timing import (
    compute_ask_clock,
    compute_dispute_clock,
    get_ask_until,
    get_statement_until,
    get_votes_from,
)
from touchstone.protocol.spec.statements import COMPARED, VoteWord


def find_statement_seat(state: GameState, ref: StatementRef, signer: int | None = None) -> int | None:
    """The seat that committed the claim, or that signed the vote; None where there is neither.

    Who signed is answerable, drawn or not: to work the draw out again would cost the contract too much, and
    an honest seat signs no vote of a draw that is not its own. signer: its seat, None for the drawn one."""
    game_round = state.rounds.get(ref.round)
    if game_round is None or ref.slot not in game_round.claims:
        return None
    if ref.draw is None:
        return game_round.claims[ref.slot].seat
    if signer is None:
        return get_drawn_seat(state, game_round, ref.slot, ref.draw, ref.rank)
    is_draw = 0 <= ref.draw <= state.terms.draws and 0 <= ref.rank < RANKS
    is_sealed = get_votes_from(state, game_round, ref.draw) is not None
    seat = state.seats.get(signer)
    is_auditor = seat is not None and seat.role == get_draw_role(state, ref.draw)
    return signer if is_draw and is_sealed and is_auditor else None


def get_statement_seat(state: GameState, ref: StatementRef, signer: int | None = None) -> int:
    """As `find_statement_seat`. Refuses RoundUnknown, and StatementUnknown where no seat answers for it any
    more. A seat that has settled the round does not, nor does another account's seat with its number."""
    get_round(state, ref.round)
    number = find_statement_seat(state, ref, signer)
    is_there = number is not None and number in state.seats and state.seats[number].settled <= ref.round
    require(is_there, "StatementUnknown", actual=ref)
    assert number is not None
    return number


def count_open_asks(state: GameState, number: int) -> int:
    """Open asks on a seat."""
    return sum(ask.seat == number for ask in state.asks.values())


def count_open_disputes(state: GameState, number: int) -> int:
    """Open disputes on a seat."""
    return sum(dispute.seat == number for dispute in state.disputes.values())


def is_questioned(state: GameState, number: int, until_round: int) -> bool:
    """Whether a statement of a seat in an epoch up to that of `until_round` is asked about or disputed."""
    questions = list_questions(state, number)
    return any(get_epoch(one.statement.round) <= get_epoch(until_round) for one in questions)


def list_questions(state: GameState, number: int) -> tuple[OpenAsk | RunningDispute, ...]:
    """Open asks and disputes about statements of a seat."""
    asks = tuple(one for one in state.asks.values() if one.seat == number)
    return (*asks, *(one for one in state.disputes.values() if one.seat == number))


def has_bond(state: GameState, account: str) -> bool:
    """Whether an account has a bond in an open ask, dispute or contest, with a seat or without one."""
    asks = (one.asker for one in state.asks.values())
    disputes = (one.opener for one in state.disputes.values())
    return account in {*asks, *disputes, *(one.contester for one in state.contests.values())}


def has_bond_alone(state: GameState, account: str) -> bool:
    """Whether an account has such a bond and no seat: it trains nothing, and audits nothing."""
    return find_seat(state, account) is None and has_bond(state, account)


def has_duties(state: GameState, account: str) -> bool:
    """Whether an account has a seat, or a bond that needs its moves without one."""
    return find_seat(state, account) is not None or has_bond(state, account)


ASKED_WORDS = frozenset({VoteWord.ACCEPT, VoteWord.REJECT_STATE})


def get_ask(state: GameState, number: int) -> OpenAsk:
    """An open ask. Refuses NothingOpen."""
    require(number in state.asks, "NothingOpen", "an open ask", number)
    return state.asks[number]


def apply_ask(draft: Draft, call: AskSigner, sender: str) -> None:
    """The k-th open ask on a seat costs k bonds."""
    state, ref = draft.state, call.statement
    require(call.word in ASKED_WORDS and not state.terms.is_exact, "WordNotAsked", actual=call.word.name)
    require(call.is_leaf, "LeafNotAsked", "a leaf that exists, of a REJECT the one that it names", call.leaf)
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
    """Beyond the limits an ACCEPT was false, inside them a REJECT."""
    ask = get_ask(draft.state, call.ask)
    require(not is_closed(draft.state, ask.seat), "SeatClosed", actual=ask.seat)
    require(draft.block <= ask.clock, "OutsideWindow", f"until {ask.clock}", draft.block)
    require(call.is_fitting, "ProofInvalid", "both leaves under the vote's roots")
    if call.is_beyond == (ask.word == VoteWord.ACCEPT):
        _convict(draft, ask)
        return
    forfeit_bond(draft, ask.number, draft.state.seats[ask.seat].account)
    draft.emit(AskOver(ask.number, GameOutcome.CLEARED))


def apply_end_ask(draft: Draft, call: EndAsk, sender: str) -> None:
    """No answer: the seat. Where it is closed already, the ask has no object."""
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


def _get_accused(draft: Draft, ref: StatementRef, signer: int | None, sender: str) -> int:
    """The seat that answers for a statement which can still be proven false."""
    state, number = draft.state, get_statement_seat(draft.state, ref, signer)
    require(not is_closed(state, number), "SeatClosed", actual=number)
    require(state.seats[number].account != sender, "OwnStatement", actual=sender)
    until = get_statement_until(state, ref)
    require(draft.block <= until, "OutsideWindow", f"until {until}", draft.block)
    return number


def apply_dispute(draft: Draft, call: DisputeStatement, sender: str) -> None:
    """The k-th open dispute on a seat costs k bonds."""
    state, ref = draft.state, call.statement
    is_claiming = call.is_signed and call.word in COMPARED
    require(ref.draw is None or is_claiming, "StatementUnknown", "a vote that claims a state", ref)
    number = _get_accused(draft, ref, call.signer, sender)
    fate = get_claim_fate(state, state.rounds[ref.round], ref.slot, draft.block)
    is_decided = fate in (ClaimFate.ACCEPTED, ClaimFate.VOID)
    require(is_decided, "ClaimUndecided", actual=fate.name)
    bond = state.terms.amounts.dispute_bond * (1 + count_open_disputes(state, number))
    require(bond <= call.bond_limit, "WrongBond", bond, call.bond_limit)
    clock = compute_dispute_clock(state, draft.block)
    draft.emit(StatementDisputed(RunningDispute(state.next_number, ref, number, sender, clock)))
    draft.take(sender, bond_of(state.next_number), bond)


def apply_end_dispute(draft: Draft, call: EndDispute, sender: str) -> None:
    """A lost dispute acquits of nothing: others go on. Where the seat is closed already, it has no object."""
    state = draft.state
    require(call.dispute in state.disputes, "NothingOpen", "an open dispute", call.dispute)
    dispute = state.disputes[call.dispute]
    if is_closed(state, dispute.seat):
        return_bond(draft, dispute.number, dispute.opener)
        draft.emit(DisputeOver(dispute.number, GameOutcome.MOOT))
        return
    if call.outcome != GameOutcome.CONVICTED:
        forfeit_bond(draft, dispute.number, state.seats[dispute.seat].account)
        draft.emit(DisputeOver(dispute.number, GameOutcome.CLEARED))
        return
    return_bond(draft, dispute.number, dispute.opener)
    draft.emit(DisputeOver(dispute.number, GameOutcome.CONVICTED))
    convict(draft, dispute.seat, ProofKind.DISPUTED, dispute.opener, dispute.statement)


# --- Proofs in one transaction ------------------------------------------------------------------------------
def apply_seal_proof(draft: Draft, call: SealProof, sender: str) -> None:
    """The digest names its sender, so a copy of it seals nothing for another account."""
    draft.emit(ProofSealed(sender, call.digest))


def is_sealed(state: GameState, sender: str, digest: bytes, block: int) -> bool:
    """Whether a proof was sealed by its sender in an earlier block, not too long ago."""
    sealed = state.seals.get((sender, digest))
    return sealed is not None and sealed < block <= sealed + state.limits.proof_seal_blocks


def apply_convict(draft: Draft, call: ConvictSeat, sender: str) -> None:
    """A proof without a clock: the seat is closed at once."""
    sealed = is_sealed(draft.state, sender, call.digest, draft.block)
    require(sealed, "SealMissing", "an earlier block", draft.block)
    number = _get_accused(draft, call.statement, call.signer, sender)
    kinds = SOLVER_PROOFS if call.statement.draw is None else AUDITOR_PROOFS
    is_kind = call.proof in kinds
    require(is_kind and call.is_valid, "ProofInvalid", sorted(kind.name for kind in kinds), call.proof.name)
    convict(draft, number, call.proof, sender, call.statement)
