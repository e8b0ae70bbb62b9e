"""A task as a chain's logs tell it: its state, its money, and a log under way.

The state is the machine's, but for two things that the contracts keep for all tasks together: credits, of
which a task's own logs do not tell (money that comes from one or goes to one is OUTSIDE here), and seals of
proofs. And it has names, what the chain calls an open contest, ask or dispute; and the book of the money.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from touchstone.protocol.spec.game.convicting import take_stakes
from touchstone.protocol.spec.game.draft import Draft
from touchstone.protocol.spec.game.events import GameEvent, WeiMoved
from touchstone.protocol.spec.game.log_values import Values
from touchstone.protocol.spec.game.logged_terms import read_terms
from touchstone.protocol.spec.game.money_book import MoneyBook, note_event
from touchstone.protocol.spec.game.purse import BURNED, OUTSIDE, SLASHED, Pot, PotKind
from touchstone.protocol.spec.game.state import GameState, create_game
from touchstone.protocol.spec.game.terms import DeploymentLimits
from touchstone.protocol.spec.game.terms_check import check_terms
from touchstone.protocol.spec.typed_data import SigningDomain


@dataclass(frozen=True)
class LoggedGame(GameState):
    """A task folded from its logs. names: numbers of open contests, asks and disputes, by their names on the
    chain; money: what each account has won and lost; finder: who convicted last."""

    names: Mapping[bytes, int] = field(default_factory=dict)
    money: MoneyBook = field(default_factory=MoneyBook)
    finder: str = ""

    def find_name(self, number: int) -> bytes | None:
        """Returns the chain's name of an open contest, ask or dispute."""
        return next((name for name, one in self.names.items() if one == number), None)


class Ledger(Draft):
    """Applies one log. It emits the machine's events, and moves money that the log does not name item by
    item."""

    @property
    def game(self) -> LoggedGame:
        """The state so far."""
        return cast(LoggedGame, self.state)

    def emit(self, event: GameEvent) -> None:
        """Folds an event, and notes what it means for the money."""
        self._note(event)
        super().emit(event)

    def move(self, source: Pot, target: Pot, wei: int) -> None:
        """Logs a movement of money, and notes whose money it is. The state itself does not keep credits."""
        if wei:
            self._note(WeiMoved(source, target, wei))
            super().emit(WeiMoved(_leave_credits(source), _leave_credits(target), wei))

    def _note(self, event: GameEvent) -> None:
        money = note_event(self.game.money, self.state, event, self.block)
        if money is not self.game.money:
            self.state = replace(self.game, money=money)

    def open(self, name: bytes) -> int:
        """Returns the number of what is opened now."""
        number = self.state.next_number
        self.state = replace(self.game, names={**self.game.names, name: number})
        return number

    def close(self, name: bytes) -> int:
        """Returns the number of the contest, ask or dispute of this name, which has ended. Raises KeyError if
        none is open."""
        number = self.game.names[name]
        names = {one: held for one, held in self.game.names.items() if one != name}
        self.state = replace(self.game, names=names)
        return number

    def share_slash(self, held: Pot | None = None, wei: int = 0) -> None:
        """Shares the stakes that were taken: the finder and the submitter get their parts, `held` gets its
        wei, and the rest is burned."""
        take_stakes(self, (), self.game.finder)
        if held is not None:
            self.move(SLASHED, held, wei)
        self.move(SLASHED, BURNED, self.state.purse.get_wei(SLASHED))


def _leave_credits(pot: Pot) -> Pot:
    return OUTSIDE if pot.kind == PotKind.CREDIT else pot


def start_game(values: Values, block: int, limits: DeploymentLimits, signing: SigningDomain) -> LoggedGame:
    """Returns the game of a task that was posted in `block`, from the values of TaskPosted. Raises
    InvalidInput if the deployment does not allow its terms."""
    terms = read_terms(values, signing)
    refusal = check_terms(terms, limits)
    if refusal is not None:
        raise refusal
    game = create_game(terms, limits, block)
    return LoggedGame(terms, limits, game.purse, game.root, block)
