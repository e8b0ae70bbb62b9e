"""Reading a chain and what its nodes serve, and nothing more: no endpoint is announced, nothing is sent.

So it takes an account that can sign requests, and no coin and no stake. It takes no journal either: it works
beside a running node of the same home.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from protocol.actions.party import STORE_FOLDER, PartyConfig, limit_memory
from protocol.actions.view import View
from protocol.adapters.chain import Chain, open_chain, read_deployment
from protocol.adapters.store import BlobStore
from protocol.adapters.wire.auth import RequestSigner
from protocol.adapters.wire.client import BlobClient
from protocol.spec.typed_data import SigningDomain


@dataclass
class Reader:
    """A chain as far as it went when this was opened, and a client for what is served. account: lower-case
    address that signs the requests."""

    account: str
    chain: Chain
    store: BlobStore
    client: BlobClient
    view: View


@asynccontextmanager
async def open_reader(config: PartyConfig) -> AsyncIterator[Reader]:
    """Open chain, store and client, and fold all events up to the head. Raises what they raise."""
    limit_memory(config)
    deployment, account = read_deployment(config.deployment), config.key.address.lower()
    signer = RequestSigner(config.key, SigningDomain(deployment.chain_id, deployment.registry))
    store = BlobStore(config.home / STORE_FOLDER, is_durable=False)
    async with AsyncExitStack() as stack:
        chain = await stack.enter_async_context(open_chain(config.rpc_url, deployment))
        client = await stack.enter_async_context(BlobClient(store, signer))
        view = View(account, deployment.chain_id, deployment.registry)
        view.take(await anext(chain.follow()))
        yield Reader(account, chain, store, client, view)
