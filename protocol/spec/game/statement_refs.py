"""Statements: a claim or a vote, the seat that answers for it, and what is open about it."""

from protocol.spec.game.drawing import get_drawn_seat
from protocol.spec.game.pools import get_epoch
from protocol.spec.game.refusals import require
from protocol.spec.game.state import GameState, OpenAsk, RunningDispute, StatementRef


def find_statement_seat(state: GameState, ref: StatementRef) -> int | None:
    """The seat that committed the claim, or that was drawn for the vote; None where there is neither."""
    game_round = state.rounds.get(ref.round)
    if game_round is None or ref.slot not in game_round.claims:
        return None
    if ref.draw is None:
        return game_round.claims[ref.slot].seat
    return get_drawn_seat(state, game_round, ref.slot, ref.draw, ref.rank)


def get_statement_seat(state: GameState, ref: StatementRef) -> int:
    """As `find_statement_seat`. Refuses StatementUnknown where nobody answers for it any more: a seat that
    has settled the round does not, even if its number was given to somebody else."""
    number = find_statement_seat(state, ref)
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
