"""Opens a reader of the chain and of what nodes serve.

A reader announces no endpoint and sends no transaction. Its account signs requests, and needs neither coin
nor stake. It opens no journal, so it can run beside a node of the same home.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.config import (
    STORE_FOLDER,
    NodeConfig,
    limit_memory,
)
from touchstone.protocol.adapters.chain.chain_client import GameChain, open_game_chain
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.endpoint_urls import find_own_host
from touchstone.protocol.adapters.wire.request_signing import RequestSigner


@dataclass
class Reader:
    """A snapshot of a chain, and a client for what nodes serve. `account` is the lower-case address that
    signs the requests."""

    account: str
    chain: GameChain
    store: BlobStore
    client: BlobClient
    state: ChainState


@asynccontextmanager
async def open_reader(config: NodeConfig) -> AsyncIterator[Reader]:
    """Opens chain, store and client, and folds all events up to the head. Raises what they raise."""
    limit_memory(config)
    deployment, account = config.read_deployment(), config.key.address.lower()
    store = BlobStore(config.home / STORE_FOLDER, is_durable=False)
    async with AsyncExitStack() as stack:
        chain = await stack.enter_async_context(open_game_chain(config.endpoints, deployment))
        signer = RequestSigner(config.key, chain.signing)
        own_host = find_own_host(config.listen_host, config.public_url)
        client = BlobClient(store, signer, storage=config.object_storage, own_host=own_host)
        await stack.enter_async_context(client)
        state = ChainState(account, chain.bounds, chain.signing)
        state.take(await anext(chain.follow()))
        yield Reader(account, chain, store, client, state)
