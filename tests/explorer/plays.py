"""What the explorer's tests look at: real contracts on a real Anvil, played at random."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.rounds.campaign import make_player
from tests.rounds.chain import RoundChain
from tests.rounds.player import Player
from touchstone.explorer.chain_view import ChainView
from touchstone.explorer.event_index import EventIndex
from touchstone.explorer.names import Names
from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.chain_client import GameChain, open_game_chain
from touchstone.protocol.adapters.chain.contract_events import Event
from touchstone.protocol.adapters.chain.deployment import GAME_CONTRACTS, GameDeployment
from touchstone.protocol.adapters.chain.follower import LogBatch
from touchstone.scripts.network.devnet import CHAIN_ID

STEPS = 160


def make_deployment(chain: RoundChain) -> GameDeployment:
    """What a stranger is given."""
    addresses = {field: chain.addresses[name] for field, name in GAME_CONTRACTS.items()}
    return GameDeployment(chain_id=CHAIN_ID, token=chain.addresses["token"], deploy_block=0, **addresses)


def play_task(chain: RoundChain, seed: int, steps: int = STEPS) -> Player:
    """A task with what random players do to it."""
    player = make_player(chain, seed)
    player.join_all()
    player.play(steps)
    return player


@asynccontextmanager
async def open_reader(chain: RoundChain) -> AsyncIterator[GameChain]:
    """The chain without an account."""
    async with open_game_chain(chain.url, make_deployment(chain), poll_s=0.02) as opened:
        yield opened


@asynccontextmanager
async def open_view(chain: GameChain, path: Path) -> AsyncIterator[ChainView]:
    """A view with what its file holds; nothing is followed yet."""
    index = EventIndex(path, chain.deployment)
    try:
        yield ChainView(chain, index, Names({}))
    finally:
        index.close()


async def read_all(chain: GameChain) -> list[Event]:
    """All events up to the head."""
    return await chain.read_events(0, (await chain.head()).number)


def make_batch(events: list[Event], number: int, forget_from: int | None = None) -> LogBatch:
    """As the chain's reader hands it out."""
    name = number.to_bytes(32, "big")
    return LogBatch(Head(number, name, bytes(32), 1_700_000_000, 1 << 70), tuple(events), forget_from)


def find_first(events: list[Event], is_wanted: Callable[[Event], bool]) -> Event:
    """The first event of a kind."""
    return next(event for event in events if is_wanted(event))
