"""Parties with a key, a store and a server of their own, for tests over real HTTPS."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import numpy as np
from aiohttp import web
from eth_account import Account

from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.messages import Message
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKind, BlobRef, refer_tensor, refer_trace_tensor
from touchstone.protocol.adapters.store.bucket import Bucket
from touchstone.protocol.adapters.store.chunk_trees import get_chunk_level
from touchstone.protocol.adapters.store.part_store import PartStore
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.json_answers import NodeStatus
from touchstone.protocol.adapters.wire.limits import WireLimits
from touchstone.protocol.adapters.wire.object_storage import ObjectStorage
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.request_handler import RequestHandler
from touchstone.protocol.adapters.wire.request_signing import RequestSigner
from touchstone.protocol.adapters.wire.server import BlobServer, ReadPolicy
from touchstone.protocol.adapters.wire.session import RetryPolicy
from touchstone.protocol.adapters.wire.tls_contexts import make_server_context
from touchstone.protocol.adapters.wire.tls_identity import TlsIdentity, load_or_create_identity
from touchstone.protocol.spec import data_trees, merkle
from touchstone.protocol.spec.typed_data import SigningDomain

DOMAIN = SigningDomain(31337, "0x" + "5b" * 20)
HASTE = RetryPolicy(attempts=3, first_pause_s=0.01, longest_pause_s=0.02, connect_s=5, silence_s=5)
CHUNK_ELEMENTS = 1024 * 256


def make_key(seed: int) -> AccountKey:
    """The key of number `seed`, the same each time."""
    return AccountKey(Account.from_key(seed.to_bytes(32, "big")))


def make_tensor(elements: int, seed: int = 0) -> tuple[bytes, BlobRef]:
    """Random float32 bytes and their reference."""
    data = np.random.default_rng(seed).standard_normal(elements, dtype=np.float32).tobytes()
    return data, refer_tensor(data_trees.compute_data_root(data), elements)


def make_trace_tensor(
    elements: int, leaf_bytes: int, seed: int = 0
) -> tuple[bytes, BlobRef, Sequence[bytes]]:
    """Random elements of a trace, whatever they are, with their reference and the roots of their chunks."""
    data = np.random.default_rng(seed).bytes(4 * elements)
    levels = compute_levels(data, leaf_bytes)
    ref = refer_trace_tensor(levels[-1][0], len(data), leaf_bytes)
    return data, ref, get_chunk_level(levels, ref.key.kind)


def compute_levels(data: bytes, leaf_bytes: int) -> merkle.Levels:
    """The tree over bytes in leaves of this size."""
    padded = data + bytes(-len(data) % leaf_bytes)
    leaves = (padded[start : start + leaf_bytes] for start in range(0, len(padded), leaf_bytes))
    return merkle.compute_levels([merkle.hash_leaf(leaf) for leaf in leaves])


def make_roots(count: int) -> list[bytes]:
    """Roots for a list, each another one."""
    return [merkle.hash_leaf(number.to_bytes(4, "big")) for number in range(count)]


@dataclass
class Party:
    """Everything one party has. Callables are what its policy answers."""

    folder: Path
    seed: int
    is_staked: Callable[[str], bool] = lambda account: True
    is_member: Callable[[str], bool] = lambda account: True
    may_read: Callable[[str, BlobKind, bytes], bool] = lambda account, kind, root: True
    limits: WireLimits = field(default_factory=WireLimits)
    retry_policy: RetryPolicy = HASTE
    handlers: dict[str, RequestHandler] = field(default_factory=dict)
    get_reports: Callable[[bytes, int], Message | None] = lambda task, index: None
    bucket: Bucket | None = None
    storage: ObjectStorage | None = None
    own_host: str = "127.0.0.1"

    def __post_init__(self) -> None:
        self.key = make_key(self.seed)
        self.account = self.key.address.lower()
        self.store = BlobStore(self.folder / "store", is_durable=False)
        self.parts = PartStore(self.folder / "parts.sqlite", 10**9)
        self.identity: TlsIdentity = load_or_create_identity(self.folder / "tls")
        self.signer = RequestSigner(self.key, DOMAIN)

    def show_status(self) -> NodeStatus:
        """What this party says of itself."""
        return NodeStatus(self.account, 7, None)

    def make_server(self) -> BlobServer:
        """A server over this party's store, not started."""
        policy = ReadPolicy(
            self.is_staked,
            self.may_read,
            self.show_status,
            find_handler=self.handlers.get,
            is_member=self.is_member,
            get_reports=self.get_reports,
        )
        mine = self.store, self.account, DOMAIN, self.identity
        return BlobServer(*mine, policy, self.limits, self.parts, self.bucket)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[Peer]:
        """This party as a peer that listens inside the block."""
        server = self.make_server()
        port = await server.start()
        try:
            yield self.make_peer(port)
        finally:
            await server.stop()

    def make_peer(self, port: int) -> Peer:
        """This party as others find it on chain."""
        return Peer(self.account, f"https://127.0.0.1:{port}", self.identity.fingerprint)

    def make_client(self) -> BlobClient:
        """A client into this party's store."""
        return BlobClient(self.store, self.signer, self.retry_policy, self.storage, self.own_host)


@asynccontextmanager
async def serve_hostile(
    party: Party, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
) -> AsyncIterator[Peer]:
    """A peer with the party's certificate that answers every request as `handler` likes."""
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=make_server_context(party.identity))
    await site.start()
    try:
        yield party.make_peer(runner.addresses[0][1])
    finally:
        await runner.cleanup()


@asynccontextmanager
async def open_session() -> AsyncIterator[aiohttp.ClientSession]:
    """A client with none of our rules, for requests that ours would not send."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session:
        yield session
