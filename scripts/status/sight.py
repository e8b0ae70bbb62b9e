"""Takes one look at the chain, for `touchstone status` and its `--json`."""

from dataclasses import dataclass

from touchstone.node.kit.chain_state import ChainState
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.chain.pace import Pace, read_pace
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.pools import find_seat
from touchstone.scripts.account.task_names import read_state
from touchstone.scripts.money.holdings import Holding, find_holding


@dataclass(frozen=True)
class Sight:
    """One look at the chain: its folded state, the pace of its blocks, and the money of an account in wei."""

    state: ChainState
    pace: Pace
    account: str
    coin_wei: int
    token_wei: int


async def look(chain: GameChain, account: str) -> Sight:
    """Returns what the chain says of an account now."""
    account, pace = account.lower(), await read_pace(chain)
    state = await read_state(chain, account)
    coin_wei = await chain.connection.balance_of(account)
    return Sight(state, pace, account, coin_wei, int(await chain.token.balance_of(account)))


def list_seats(sight: Sight) -> list[tuple[bytes, LoggedGame, Holding]]:
    """Lists the open seats of the account, with what holds their stakes."""
    return [
        (task, game, find_holding(game, seat, sight.pace))
        for task, game in sight.state.games.items()
        if (seat := find_seat(game, sight.account)) is not None
    ]
