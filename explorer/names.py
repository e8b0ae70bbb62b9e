"""Names accounts and formats amounts."""

from collections.abc import Mapping
from dataclasses import dataclass

from touchstone.node.records.round_seats import find_holder
from touchstone.protocol.spec.game.state import GameState, StatementRef
from touchstone.protocol.spec.tokens import format_tokens

SHORT = 10


@dataclass(frozen=True)
class Names:
    """Names of accounts. `known` is by lower-case account."""

    known: Mapping[str, str]

    def of(self, account: str) -> str:
        """Returns the name of an account."""
        return self.known.get(account.lower(), account[:SHORT])

    def of_seat(self, game: GameState, seat: int) -> str:
        """Returns the name of a seat's present or former account."""
        account = self.find_account(game, seat)
        return "nobody" if account is None else self.of(account)

    @staticmethod
    def find_account(game: GameState, seat: int) -> str | None:
        """Returns a seat's present or former account."""
        held = game.seats.get(seat) or game.former.get(seat)
        return None if held is None else held.account

    def of_slot(self, game: GameState, index: int, slot: int) -> str:
        """Returns the name of the account that made a slot's claim in a round."""
        game_round = game.rounds.get(index)
        if game_round is None or slot >= len(game_round.pool.solvers):
            return f"slot {slot}"
        holder = find_holder(game, game_round.pool.solvers[slot], index)
        return f"slot {slot}" if holder is None else self.of(holder.account)

    def of_statement(self, game: GameState, ref: StatementRef) -> str:
        """Describes the disputed statement."""
        claim = f"{self.of_slot(game, ref.round, ref.slot)}'s claim of round {ref.round}"
        return claim if ref.draw is None else f"a vote on {claim}"


def show_wei(wei: int) -> str:
    """Returns an exact amount with thousands separated: `2,000 tokens`."""
    number, _, unit = format_tokens(abs(wei)).partition(" ")
    whole, dot, rest = number.partition(".")
    return f"{'-' if wei < 0 else ''}{int(whole):,}{dot}{rest} {unit}"


def make_person(account: str, names: Names) -> dict[str, str]:
    """Returns an account with its known name; without a name, with its first digits."""
    return {"account": account, "name": names.of(account)}
