"""Statements: a claim or a vote, the seat that answers for it, and what is open about it."""

from protocol.spec.audit_draw import RANKS
from protocol.spec.game.drawing import get_draw_role, get_drawn_seat
from protocol.spec.game.pools import get_epoch
from protocol.spec.game.refusals import require
from protocol.spec.game.rounds import get_round
from protocol.spec.game.state import GameState, OpenAsk, RunningDispute, StatementRef
from protocol.spec.game.timing import get_votes_from


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
    """As `find_statement_seat`. Refuses RoundUnknown, and StatementUnknown where nobody answers for it any
    more: a seat that has settled the round does not, even if its number was given to somebody else."""
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
