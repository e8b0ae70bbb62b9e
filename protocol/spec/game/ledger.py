"""A task as a chain's logs tell it, and one log under way.

The state is the machine's, but for three things that the contracts keep for all tasks together: credits, of
which a task's own logs do not tell (money that comes from one or goes to one is OUTSIDE here), and seals of
proofs. And it has names: what the chain calls an open contest, ask or dispute.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from protocol.spec.game.convicting import take_stakes
from protocol.spec.game.draft import Draft
from protocol.spec.game.inner_folding import NO_DRAW
from protocol.spec.game.purse import BURNED, OUTSIDE, SLASHED, Pot, PotKind
from protocol.spec.game.state import GameState, StatementRef

Values = Mapping[str, Any]
"""What a log says, by names in snake case, in the order of the declaration."""


@dataclass(frozen=True)
class LoggedGame(GameState):
    """The fold of a task's logs. names: numbers of what is open, by its name on the chain."""

    names: Mapping[bytes, int] = field(default_factory=dict)

    def find_name(self, number: int) -> bytes | None:
        """The chain's name of an open contest, ask or dispute."""
        return next((name for name, one in self.names.items() if one == number), None)


class Ledger(Draft):
    """One log. It emits the machine's events, and moves money that the log does not name one by one."""

    @property
    def game(self) -> LoggedGame:
        """The state so far."""
        return cast(LoggedGame, self.state)

    def move(self, source: Pot, target: Pot, wei: int) -> None:
        """Log a movement of money; a credit is outside."""
        super().move(_leave_credits(source), _leave_credits(target), wei)

    def open(self, name: bytes) -> int:
        """The number of what is opened now."""
        number = self.state.next_number
        self.state = replace(self.game, names={**self.game.names, name: number})
        return number

    def close(self, name: bytes) -> int:
        """The number of what has ended. Raises KeyError where nothing of this name is open."""
        number = self.game.names[name]
        names = {one: held for one, held in self.game.names.items() if one != name}
        self.state = replace(self.game, names=names)
        return number

    def share_slash(self, held: Pot | None = None, wei: int = 0) -> None:
        """Of the stakes that were taken finder and submitter get their parts, `held` its wei; the rest is
        burned."""
        take_stakes(self, (), "")
        if held is not None:
            self.move(SLASHED, held, wei)
        self.move(SLASHED, BURNED, self.state.purse.get_wei(SLASHED))


def _leave_credits(pot: Pot) -> Pot:
    return OUTSIDE if pot.kind == PotKind.CREDIT else pot


def read_statement(ref: Any) -> StatementRef:
    """A statement as a log names it."""
    draw = None if ref.draw == NO_DRAW else int(ref.draw)
    return StatementRef(int(ref.round), int(ref.slot), draw, int(ref.rank))


def list_bits(bitmap: int) -> tuple[int, ...]:
    """The places of a bitmap's ones, ascending."""
    return tuple(place for place in range(bitmap.bit_length()) if bitmap >> place & 1)
