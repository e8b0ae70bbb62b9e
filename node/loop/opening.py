"""Opens a node: chain, journal, store and client, and the server for its peers.

This module puts together what rooms keep in the journal; `node/serving` says what they offer to peers.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from touchstone.node.health.checks import Watch, take_over
from touchstone.node.health.metrics import Measures, show_metrics
from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.config import (
    JOURNAL_FILE,
    MEGABYTE,
    PARTS_FILE,
    STORE_FOLDER,
    NodeConfig,
    Status,
    clear_scratch,
    limit_memory,
    share_interpreter,
)
from touchstone.node.kit.following import Following
from touchstone.node.kit.loss_board import LossBoard
from touchstone.node.loop.node import Node
from touchstone.node.loop.served_data import ServedData
from touchstone.node.records.record_kinds import RECORDS
from touchstone.node.serving.being_reached import OwnEndpoint
from touchstone.node.serving.reachability_probe import ReachabilityProbe
from touchstone.protocol.adapters.chain.chain_client import Sending, open_game_chain
from touchstone.protocol.adapters.chain.transaction_queue import QUEUE_FILE
from touchstone.protocol.adapters.chain.transactions import ResendPolicy
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

Kind = TypeVar("Kind", bound=Node)


@asynccontextmanager
async def open_node(
    config: NodeConfig, role: Callable[..., Kind], *, is_held: bool = False
) -> AsyncIterator[Kind]:
    """Opens chain, store, journal, server and client, announces the endpoint if it changed, and watches the
    node. `role` is the class of the node. `is_held` is passed to `be_reached`. Raises what they raise, and
    InvalidInput if no peer could use the endpoint, if the bucket is invalid, if the journal is another
    account's, or if a library for losses is wanted and not installed."""
    # Check first: every account can read the announcement on chain.
    choose_endpoint(config.listen_host, config.listen_port, config.public_url)
    share_interpreter()
    limit_memory(config)
    deployment = config.read_deployment()
    domain = SigningDomain(deployment.chain_id, deployment.game)
    async with AsyncExitStack() as stack:
        board = None
        if config.tensorboard_dir is not None or config.wandb_dir is not None:
            board = LossBoard(config.tensorboard_dir, config.wandb_dir)
            stack.callback(board.close)
        bucket = None
        if config.object_storage.bucket:
            bucket = await asyncio.to_thread(Bucket.open, config.object_storage, config.key.address.lower())
            stack.callback(bucket.close)
        # Before the chain, which replaces waiting transactions: another process of this home may have sent
        # them.
        journal = stack.enter_context(Journal(config.home / JOURNAL_FILE, RECORDS))
        past = take_over(config.home)
        clear_scratch(config)
        _require_owner(journal, config.key.address.lower())
        sending = Sending(ResendPolicy(attempts=None), config.home / QUEUE_FILE, config.max_fee_wei)
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
        following = Following(chain, state, status, chain.follow(grace_s=math.inf))
        node = role(config, following, store, journal, client, parts, bucket, board)
        watch = Watch(chain, state, config.home, node.find_view, config.max_fee_wei, past)
        await stack.enter_async_context(watch.running())
        identity = load_or_create_identity(config.home)
        probe = ReachabilityProbe(state, node.account, node.is_member)
        stack.push_async_callback(probe.close)
        node.served = ServedData(probe, status, node.is_member)
        mine = store, node.account, chain.signing, identity, node.served.make_policy()
        server = BlobServer(*mine, parts=parts, bucket=bucket)
        at = OwnEndpoint(chain, config.listen_host, config.listen_port, config.public_url, config.notify)
        await at.be_reached(server, identity, stack, is_held=is_held)
        measures = Measures(chain, state, client, node.meter, node.find_view, watch, server)
        await show_metrics(measures, config.metrics_host, config.metrics_port, stack)
        yield node


def _require_owner(journal: Journal, account: str) -> None:
    """Raises InvalidInput if the journal is another account's: `account` would commit to claims that were
    trained on the other's data. A journal without an owner is given to this account."""
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
