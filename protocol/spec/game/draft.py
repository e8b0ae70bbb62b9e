"""Holds one call while it runs: the call emits events, and each is applied to the state."""

from touchstone.protocol.spec.game.events import GameEvent, WeiMoved
from touchstone.protocol.spec.game.reducer import fold
from touchstone.protocol.spec.game.rule_refusals import require
from touchstone.protocol.spec.game.state import GameState
from touchstone.protocol.spec.game.vault import Pot, credit_of


class Draft:
    """A running call. `state` is the state after all events so far; `block` is the block of the call. A
    refusal discards the draft, so a refused call changes nothing."""

    def __init__(self, state: GameState, block: int) -> None:
        self.state = state
        self.block = block
        self.events: list[GameEvent] = []

    def emit(self, event: GameEvent) -> None:
        """Logs an event and applies it to the state."""
        self.events.append(event)
        self.state = fold(self.state, event, self.block)

    def move(self, source: Pot, target: Pot, wei: int) -> None:
        """Logs a movement of money, unless the amount is zero."""
        if wei:
            self.emit(WeiMoved(source, target, wei))

    def take(self, account: str, target: Pot, wei: int) -> None:
        """Takes a stake or a bond out of the sender's credit. Refuses CreditTooSmall."""
        credit = self.state.vault.get_wei(credit_of(account))
        require(credit >= wei, "CreditTooSmall", f"{wei} wei", credit)
        self.move(credit_of(account), target, wei)
