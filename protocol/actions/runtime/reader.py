"""Reading a chain and what its nodes serve, and nothing more: no endpoint is announced, nothing is sent.

So it takes an account that can sign requests, and no coin and no stake. It takes no journal either: it works
beside a running node of the same home.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from protocol.actions.runtime.chain_state import ChainState
from protocol.actions.runtime.config import STORE_FOLDER, PartyConfig, limit_memory
from protocol.adapters.chain.game import GameChain, open_game_chain
from protocol.adapters.chain.game_deployment import read_game_deployment
from protocol.adapters.store import BlobStore
from protocol.adapters.wire.auth import RequestSigner
from protocol.adapters.wire.client import BlobClient


@dataclass
class Reader:
    """A chain as far as it went when this was opened, and a client for what is served. account: lower-case
    address that signs the requests."""

    account: str
    chain: GameChain
    store: BlobStore
    client: BlobClient
    state: ChainState


@asynccontextmanager
async def open_reader(config: PartyConfig) -> AsyncIterator[Reader]:
    """Open chain, store and client, and fold all events up to the head. Raises what they raise."""
    limit_memory(config)
    deployment, account = read_game_deployment(config.deployment), config.key.address.lower()
    store = BlobStore(config.home / STORE_FOLDER, is_durable=False)
    async with AsyncExitStack() as stack:
        chain = await stack.enter_async_context(open_game_chain(config.rpc_url, deployment))
        signer = RequestSigner(config.key, chain.signing)
        client = await stack.enter_async_context(BlobClient(store, signer))
        state = ChainState(account, chain.limits, chain.signing)
        state.take(await anext(chain.follow()))
        yield Reader(account, chain, store, client, state)
