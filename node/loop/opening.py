"""Opens a party, or a reader of the chain and of what nodes serve.

A party has chain, journal, store and client, and the server that its peers ask. What the rooms of a node keep
in the journal is put together here, what they offer to peers in `node/serving`.

A reader announces no endpoint and sends no transaction. So it takes an account that can sign requests, and no
coin and no stake. It takes no journal either: it works beside a running node of the same home.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from touchstone.node.health.checks import Watch, take_over
from touchstone.node.health.metrics import Measures, show_metrics
from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.config import (
    JOURNAL_FILE,
    MEGABYTE,
    PARTS_FILE,
    STORE_FOLDER,
    PartyConfig,
    Status,
    clear_scratch,
    limit_memory,
    share_interpreter,
)
from touchstone.node.kit.loss_board import LossBoard
from touchstone.node.kit.party import Party
from touchstone.node.records import audit_records, dispute_records
from touchstone.node.records import claim_records as merge_records
from touchstone.node.serving.being_reached import be_reached
from touchstone.node.serving.reachability_probe import ReachabilityProbe
from touchstone.node.serving.served_data import ServedData
from touchstone.protocol.adapters.chain.chain_client import GameChain, Sending, open_game_chain
from touchstone.protocol.adapters.chain.transaction_queue import QUEUE_FILE
from touchstone.protocol.adapters.chain.transactions import MiningPatience
from touchstone.protocol.adapters.journal import Journal, JournalBegun
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.bucket import Bucket
from touchstone.protocol.adapters.store.part_store import PartStore
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.endpoint_urls import choose_endpoint, find_own_host
from touchstone.protocol.adapters.wire.request_signing import RequestSigner
from touchstone.protocol.adapters.wire.server import BlobServer
from touchstone.protocol.adapters.wire.tls_identity import load_or_create_identity
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.typed_data import SigningDomain

RECORDS = (JournalBegun, *merge_records.RECORDS, *audit_records.RECORDS, *dispute_records.RECORDS)
"""All kinds of the journal."""


@asynccontextmanager
async def open_party(config: PartyConfig, *, is_held: bool = False) -> AsyncIterator[Party]:
    """Open chain, store, journal, server and client, announce the endpoint where it changed, and watch the
    node. is_held: as of `be_reached`. Raises what they raise, and InvalidInput for an endpoint that no peer
    could use, a bucket that is none, the journal of another account, or where TensorBoard's writer is wanted
    and not installed."""
    # Before anything is begun: every account can read on chain what is announced.
    choose_endpoint(config.listen_host, config.listen_port, config.public_url)
    share_interpreter()
    limit_memory(config)
    deployment = config.read_deployment()
    domain = SigningDomain(deployment.chain_id, deployment.tasks)
    async with AsyncExitStack() as stack:
        board = None
        if config.tensorboard_dir is not None:
            board = LossBoard(config.tensorboard_dir)
            stack.callback(board.close)
        bucket = None
        if config.object_storage.bucket:
            bucket = await asyncio.to_thread(Bucket.open, config.object_storage, config.key.address.lower())
            stack.callback(bucket.close)
        # Before the chain, where what waits is replaced: another process of this home may have sent it.
        journal = stack.enter_context(Journal(config.home / JOURNAL_FILE, RECORDS))
        past = take_over(config.home)
        clear_scratch(config)
        _require_owner(journal, config.key.address.lower())
        sending = Sending(MiningPatience(attempts=None), config.home / QUEUE_FILE, config.max_fee_wei)
        opening = open_game_chain(
            config.endpoints, deployment, config.key, poll_s=config.poll_s, sending=sending
        )
        chain = await stack.enter_async_context(opening)
        store = BlobStore(config.home / STORE_FOLDER, is_durable=False)
        parts = PartStore(config.home / PARTS_FILE, config.dataset_cache_mb * MEGABYTE)
        stack.callback(parts.close)
        signer, storage = RequestSigner(config.key, domain), config.object_storage
        own_host = find_own_host(config.listen_host, config.public_url)
        client = BlobClient(store, signer, storage=storage, own_host=own_host)
        await stack.enter_async_context(client)
        state, status = ChainState.of(chain), Status(chain.address)
        outside = config, chain, store, journal, client
        party = Party(*outside, state, status, chain.follow(patience_s=math.inf), parts, bucket, board)
        watch = await stack.enter_async_context(Watch(party, past).running())
        await show_metrics(Measures(party, watch, await _serve(party, stack, is_held=is_held)), stack)
        yield party


def _require_owner(journal: Journal, account: str) -> None:
    """Raises InvalidInput where the journal is another account's: what that one trained, on data dealt to it,
    would be committed to as `account`'s own. A journal without an owner gets this one."""
    owner = next((one.account for one in journal.replay() if isinstance(one, JournalBegun)), None)
    if owner is None:
        journal.append(JournalBegun(account))
    elif owner != account:
        raise InvalidInput(
            what="the journal is another account's",
            expected=account,
            actual=owner,
            where=str(journal.path),
            remedy="Give each account a home of its own, made by `touchstone init`; copy no journal.",
        )


async def _serve(party: Party, stack: AsyncExitStack, *, is_held: bool) -> BlobServer:
    """Answer peers until the party is closed, and say on chain where. Raises as `be_reached` does."""
    identity, offers = load_or_create_identity(party.config.home), ServedData(party, ReachabilityProbe(party))
    stack.push_async_callback(offers.lookout.close)
    mine = party.store, party.account, party.signing, identity, offers.make_policy()
    server = BlobServer(*mine, parts=party.parts, bucket=party.bucket)
    await be_reached(party, server, identity, stack, is_held=is_held)
    return server


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
    deployment, account = config.read_deployment(), config.key.address.lower()
    store = BlobStore(config.home / STORE_FOLDER, is_durable=False)
    async with AsyncExitStack() as stack:
        chain = await stack.enter_async_context(open_game_chain(config.endpoints, deployment))
        signer = RequestSigner(config.key, chain.signing)
        own_host = find_own_host(config.listen_host, config.public_url)
        client = BlobClient(store, signer, storage=config.object_storage, own_host=own_host)
        await stack.enter_async_context(client)
        state = ChainState(account, chain.limits, chain.signing)
        state.take(await anext(chain.follow()))
        yield Reader(account, chain, store, client, state)
