"""Opens a party, or a reader of the chain and of what nodes serve.

A party has chain, journal, store and client, and the server that its peers ask. What the rooms of a node
offer to peers and keep in the journal is put together here.

A reader announces no endpoint and sends no transaction. So it takes an account that can sign requests, and no
coin and no stake. It takes no journal either: it works beside a running node of the same home.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from protocol.actions.audit import audit_duties as audits
from protocol.actions.audit import audit_records as audit_records
from protocol.actions.dispute import casebook as dispute_records
from protocol.actions.dispute import step_serving as disputes
from protocol.actions.merge import merge_records as merge_records
from protocol.actions.merge import merge_signing as merge_serving
from protocol.actions.runtime.chain_state import ChainState
from protocol.actions.runtime.config import (
    JOURNAL_FILE,
    MEGABYTE,
    PARTS_FILE,
    STORE_FOLDER,
    PartyConfig,
    Status,
    limit_memory,
    share_interpreter,
)
from protocol.actions.runtime.party import Party
from protocol.adapters.blobs import BlobKind
from protocol.adapters.bucket import Bucket
from protocol.adapters.chain.chain_client import GameChain, open_game_chain
from protocol.adapters.chain.deployment import read_game_deployment
from protocol.adapters.journal import Journal, JournalBegun
from protocol.adapters.part_store import PartStore
from protocol.adapters.store import BlobStore
from protocol.adapters.wire.auth import RequestSigner
from protocol.adapters.wire.blob_client import BlobClient
from protocol.adapters.wire.conventions import Desk, choose_endpoint
from protocol.adapters.wire.listener import TlsIdentity, load_or_create_identity
from protocol.adapters.wire.server import BlobServer, ReadPolicy
from protocol.spec.errors import InvalidInput
from protocol.spec.typed_data import SigningDomain

RECORDS = (JournalBegun, *merge_records.RECORDS, *audit_records.RECORDS, *dispute_records.RECORDS)
"""All kinds of the journal."""


MAY_READ: tuple[Callable[[Party, str, BlobKind, bytes], bool], ...] = (
    merge_serving.may_read,
    audits.may_read,
    disputes.may_read,
)
"""(party, account, kind, root): whether a room shows a blob to an account now."""


def list_desks(party: Party) -> Iterator[Mapping[str, Desk]]:
    """Who answers which messages."""
    yield merge_serving.make_desks(party)
    yield audits.make_desks(party)
    yield disputes.make_desks(party)


@asynccontextmanager
async def open_party(config: PartyConfig) -> AsyncIterator[Party]:
    """Open chain, store, journal, server and client; announce the endpoint where it changed. Raises what they
    raise, and InvalidInput for an endpoint that no peer could use, a bucket that is none, or the journal of
    another account."""
    # Before anything is begun: every account can read on chain what is announced.
    choose_endpoint(config.listen_host, config.listen_port, config.public_url)
    share_interpreter()
    limit_memory(config)
    deployment = read_game_deployment(config.deployment)
    domain = SigningDomain(deployment.chain_id, deployment.tasks)
    async with AsyncExitStack() as stack:
        bucket = None
        if config.object_storage.bucket:
            bucket = await asyncio.to_thread(Bucket.open, config.object_storage, config.key.address.lower())
            stack.callback(bucket.close)
        # Before the chain, where what waits is replaced: another process of this home may have sent it.
        journal = stack.enter_context(Journal(config.home / JOURNAL_FILE, RECORDS))
        _require_owner(journal, config.key.address.lower())
        chain = await stack.enter_async_context(open_game_chain(config.rpc_url, deployment, config.key))
        store = BlobStore(config.home / STORE_FOLDER, is_durable=False)
        parts = PartStore(config.home / PARTS_FILE, config.dataset_cache_mb * MEGABYTE)
        stack.callback(parts.close)
        signer, storage = RequestSigner(config.key, domain), config.object_storage
        client = await stack.enter_async_context(BlobClient(store, signer, storage=storage))
        status = Status(chain.address)
        state = ChainState.of(chain)
        party = Party(config, chain, store, journal, client, state, status, chain.follow(), parts, bucket)
        await _serve(party, stack)
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


async def _serve(party: Party, stack: AsyncExitStack) -> None:
    """Answer peers until the party is closed, and say on chain where."""
    identity, config = load_or_create_identity(party.config.home), party.config
    policy = _Offers(party).make_policy()
    mine = party.store, party.account, party.signing
    server = BlobServer(*mine, identity, policy, parts=party.parts, bucket=party.bucket)
    port = await server.start(config.listen_host, config.listen_port)
    stack.push_async_callback(server.stop)
    url = choose_endpoint(config.listen_host, port, config.public_url)
    await _announce(party.chain, url, identity)


async def _announce(chain: GameChain, url: str, identity: TlsIdentity) -> None:
    announced = await chain.tasks.peer_of(chain.address)
    if (announced.url, announced.certificate_sha256) != (url, identity.fingerprint):
        await chain.tasks.announce(url, identity.fingerprint)


@dataclass(frozen=True)
class _Offers:
    """What all rooms of a party show and answer, as its server asks for each request."""

    party: Party

    def make_policy(self) -> ReadPolicy:
        """Any account may ask; the rooms decide which account is shown what."""
        return ReadPolicy(
            is_staked=lambda account: True,
            may_read=self.may_read,
            get_status=self.party.status.show,
            find_desk=self.find_desk,
            is_member=self.is_member,
        )

    def is_member(self, account: str) -> bool:
        """Whether the account is the submitter, or has a seat, of the task that this node works on. A seat of
        another task says nothing: any account can post a task in which seats cost next to nothing."""
        joined, state = self.party.joined, self.party.state
        if joined is None:
            return False
        return account == self.party.game.terms.submitter or state.is_member(account, joined.task)

    def may_read(self, account: str, kind: BlobKind, root: bytes) -> bool:
        """Whether some room shows it."""
        return any(room(self.party, account, kind, root) for room in MAY_READ)

    def find_desk(self, name: str) -> Desk | None:
        """Who answers messages of this kind."""
        return next((desks[name] for desks in list_desks(self.party) if name in desks), None)


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
        client = await stack.enter_async_context(BlobClient(store, signer, storage=config.object_storage))
        state = ChainState(account, chain.limits, chain.signing)
        state.take(await anext(chain.follow()))
        yield Reader(account, chain, store, client, state)
