"""Computes a task's state and money from a chain's events.

The state is the machine's, except for two things that the contracts keep for all tasks together. One is
credits, which a task's own events do not tell, so money from or to a credit is OUTSIDE here. The other is
commitments to proofs. Beyond the machine's state a `LoggedGame` has the on-chain names of open contests,
queries and disputes, and the book of the money.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.events import GameEvent, WeiMoved
from touchstone.protocol.spec.game.log_values import Values
from touchstone.protocol.spec.game.logged_terms import read_terms
from touchstone.protocol.spec.game.money_book import MoneyBook, note_event
from touchstone.protocol.spec.game.state import GameState, create_game
from touchstone.protocol.spec.game.terms import DeploymentBounds
from touchstone.protocol.spec.game.terms_check import check_terms
from touchstone.protocol.spec.game.vault import OUTSIDE, Pot, PotKind
from touchstone.protocol.spec.typed_data import SigningDomain


@dataclass(frozen=True)
class LoggedGame(GameState):
    """The state and money of a task, computed from its events. `names` maps names on chain to the numbers of
    open contests, queries and disputes. `money` is what each account has won and lost. `finder` is the
    account of the last conviction."""

    names: Mapping[bytes, int] = field(default_factory=dict)
    money: MoneyBook = field(default_factory=MoneyBook)
    finder: str = ""

    def find_name(self, number: int) -> bytes | None:
        """Returns the on-chain name of an open contest, query or dispute."""
        return next((name for name, one in self.names.items() if one == number), None)


class Ledger(Draft):
    """Applies one event. It emits the machine's events, and moves the money that the contract's event does
    not list item by item."""

    @property
    def game(self) -> LoggedGame:
        """The state so far."""
        return cast(LoggedGame, self.state)

    def emit(self, event: GameEvent) -> None:
        """Applies an event to the state, and notes its effect on money."""
        self._note(event)
        super().emit(event)

    def move(self, source: Pot, target: Pot, wei: int) -> None:
        """Logs a movement of money, and notes whose money it is. The state itself keeps no credits."""
        if wei:
            self._note(WeiMoved(source, target, wei))
            super().emit(WeiMoved(_leave_credits(source), _leave_credits(target), wei))

    def _note(self, event: GameEvent) -> None:
        money = note_event(self.game.money, self.state, event, self.block)
        if money is not self.game.money:
            self.state = replace(self.game, money=money)

    def open(self, name: bytes) -> int:
        """Returns a number for the contest, query or dispute that is opened now."""
        number = self.state.next_number
        self.state = replace(self.game, names={**self.game.names, name: number})
        return number

    def close(self, name: bytes) -> int:
        """Returns the number of the ended contest, query or dispute with this name. Raises KeyError if none
        is open."""
        number = self.game.names[name]
        names = {one: held for one, held in self.game.names.items() if one != name}
        self.state = replace(self.game, names=names)
        return number


def _leave_credits(pot: Pot) -> Pot:
    return OUTSIDE if pot.kind == PotKind.CREDIT else pot


def start_game(values: Values, block: int, bounds: DeploymentBounds, signing: SigningDomain) -> LoggedGame:
    """Returns the game of a task that was posted in `block`, from the values of TaskPosted. Raises
    InvalidInput if the deployment does not allow its terms."""
    terms = read_terms(values, signing)
    refusal = check_terms(terms, bounds)
    if refusal is not None:
        raise refusal
    game = create_game(terms, bounds, block)
    return LoggedGame(terms, bounds, game.vault, game.root, block)
