"""Finds what the events of a transaction say of a conviction: for which statement, and who got the stake."""

from collections.abc import Sequence

from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.adapters.chain.pots import STAKES, name_pot
from touchstone.protocol.spec.game.enums import RoundPhase
from touchstone.protocol.spec.game.log_values import read_statement
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.state import StatementRef


def find_statement(convicted: Event, together: Sequence[Event]) -> StatementRef | None:
    """Returns the statement for which a seat was convicted; None for signatures under a wrong root."""
    seat = convicted.arguments["seat"]
    for event in together:
        if event.name == "StatementConvicted" and event.arguments["seat"] == seat:
            return read_statement(event.arguments["statement"])
    return None


def find_shares(task: bytes, together: Sequence[Event]) -> tuple[tuple[str, int], ...] | None:
    """Returns who got how many wei of the stake, in the order of the payments. None if the transaction
    convicts several seats, whose stakes are divided together."""
    if sum(event.name == "SeatConvicted" for event in together) != 1:
        return None
    pot, shares = name_pot(STAKES, task), dict[str, int]()
    for event in together:
        if event.name == "Given" and event.arguments["pot"] == pot:
            account = str(event.arguments["account"])
            shares[account] = shares.get(account, 0) + int(event.arguments["wei_"])
    return tuple(shares.items())


def find_untouched(game: LoggedGame, statement: StatementRef | None) -> bool | None:
    """Returns whether a false claim was not merged into the model. A claim that is convicted while its round
    has no root never is. None for votes, and if the round is not known any more."""
    if statement is None or statement.draw is not None:
        return None
    game_round = game.rounds.get(statement.round)
    if game_round is None:
        return None
    return game_round.phase == RoundPhase.RUNNING or statement.slot not in game_round.merged
