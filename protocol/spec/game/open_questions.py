"""Finds open queries, disputes and contests: about a seat's statements, or on an account's bond."""

from touchstone.protocol.spec.game.epochs import get_epoch
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.protocol.spec.game.state import GameState, OpenQuery, RunningDispute


def count_open_queries(state: GameState, number: int) -> int:
    """Returns the number of open queries on a seat."""
    return sum(query.seat == number for query in state.queries.values())


def count_open_disputes(state: GameState, number: int) -> int:
    """Returns the number of open disputes on a seat."""
    return sum(dispute.seat == number for dispute in state.disputes.values())


def is_questioned(state: GameState, number: int, until_round: int) -> bool:
    """Returns whether a statement of a seat is queried or disputed, in any epoch up to the epoch of
    `until_round`."""
    questions = list_questions(state, number)
    return any(get_epoch(one.statement.round) <= get_epoch(until_round) for one in questions)


def list_questions(state: GameState, number: int) -> tuple[OpenQuery | RunningDispute, ...]:
    """Returns the open queries and disputes about statements of a seat."""
    queries = tuple(one for one in state.queries.values() if one.seat == number)
    return (*queries, *(one for one in state.disputes.values() if one.seat == number))


def has_bond(state: GameState, account: str) -> bool:
    """Returns whether an account has a bond in an open query, dispute or contest, with or without a seat."""
    queries = (one.asker for one in state.queries.values())
    disputes = (one.opener for one in state.disputes.values())
    return account in {*queries, *disputes, *(one.contester for one in state.contests.values())}


def has_bond_alone(state: GameState, account: str) -> bool:
    """Returns whether an account has a bond and no seat. Then it neither trains nor audits."""
    return find_seat(state, account) is None and has_bond(state, account)


def has_duties(state: GameState, account: str) -> bool:
    """Returns whether an account has a seat, or a bond in an open game, in which it must move even without a
    seat."""
    return find_seat(state, account) is not None or has_bond(state, account)
