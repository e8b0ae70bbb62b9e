"""What the tests of the tiny world read off the chain: how far a round is, the books, whether they add up."""

from collections.abc import Callable
from typing import TypeVar

from protocol.actions.view import View
from protocol.adapters.chain import Chain
from protocol.spec.events import Event
from protocol.spec.round import RoundState
from tests.e2e.money import Balance, check_books, fold_books
from tests.e2e.world import World

Kind = TypeVar("Kind", bound=Event)


def find(view: View, kind: type[Kind]) -> list[Kind]:
    """All events of one kind, in order."""
    return [event for event in view.events if isinstance(event, kind)]


def list_rounds(view: View) -> list[RoundState]:
    """The rounds of the only task."""
    return [state for task in view.tasks.values() for state in task.rounds]


def is_settled(state: RoundState) -> bool:
    """Whether everybody of a round that was trained has what is due."""
    auditors = {*state.verifiers, *state.whistleblowers}
    is_paid = len(state.settled_slots) == len(state.solvers) and auditors == state.settled_accounts
    return bool(state.solvers) and is_paid and state.is_merge_settled


def has_second_round(view: View, is_far_enough: Callable[[RoundState], bool]) -> bool:
    """Whether all of round 0 is settled, and round 1 has come as far as asked."""
    rounds = list_rounds(view)
    return len(rounds) == 2 and is_settled(rounds[0]) and is_far_enough(rounds[1])


def read_balances(world: World, view: View) -> dict[str, Balance]:
    """Everybody's books by name."""
    books = fold_books(view.events)
    return {name: books.get(key.address.lower(), Balance()) for name, key in world.keys.items()}


async def require_solvent(chain: Chain, world: World, view: View) -> None:
    """The vault holds exactly what it owes, says the chain; and what its events say."""
    await check_books(chain, fold_books(view.events))
    accounts = [key.address for key in world.keys.values()]
    owed = sum([await chain.vault.stake_of(one) + await chain.vault.credit_of(one) for one in accounts])
    owed += await chain.vault.escrow_of(world.task) + await chain.vault.burn_pending()
    assert await chain.token.balance_of(chain.deployment.vault) == owed
