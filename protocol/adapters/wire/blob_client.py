"""Fetches blobs from peers into the local store; peers are trusted only to deliver.

Each byte is checked while it streams, and a broken connection is resumed where it broke. A peer that sends
wrong bytes is not asked again. If a peer sends this node to a bucket, wrong bytes there do not count against
the peer: the peer itself is asked for the missing bytes.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import aiohttp

from touchstone.protocol.adapters.messages import Form, Message, encode_message
from touchstone.protocol.adapters.store.blob_store import BlobStore, BlobWriter
from touchstone.protocol.adapters.store.blob_verifier import BlobVerifier
from touchstone.protocol.adapters.store.blobs import ROOT_BYTES, BlobRef
from touchstone.protocol.adapters.store.chunk_trees import hash_chunk, split_roots
from touchstone.protocol.adapters.store.leaf_answers import decode_answer
from touchstone.protocol.adapters.store.leaf_runs import LeafRun, format_runs, measure_most
from touchstone.protocol.adapters.store.leaf_source import run_apart
from touchstone.protocol.adapters.wire import request_handler, request_paths
from touchstone.protocol.adapters.wire.addresses import may_lead_to
from touchstone.protocol.adapters.wire.answer_lengths import fit, format_lengths
from touchstone.protocol.adapters.wire.hedging import HEDGE_BYTES_PER_SECOND, PAUSE_S, ask_in_turn
from touchstone.protocol.adapters.wire.json_answers import MAX_STATUS_BYTES, STATUS_FORM, NodeStatus
from touchstone.protocol.adapters.wire.object_storage import ObjectStorage
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.peer_faults import ClocksDiffer, blame, read_at_most
from touchstone.protocol.adapters.wire.request_signing import RequestSigner
from touchstone.protocol.adapters.wire.session import PeerSession, RetryPolicy
from touchstone.protocol.adapters.wire.storage_reader import StorageReader
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from touchstone.protocol.spec.openings import LeafProof

READ_BYTES = 256 * 1024

log = logging.getLogger(__name__)

T = TypeVar("T")


class BlobClient:
    """Fetches for one account. Use it in `async with BlobClient(...) as client`."""

    def __init__(
        self,
        store: BlobStore,
        signer: RequestSigner,
        retry_policy: RetryPolicy | None = None,
        storage: ObjectStorage | None = None,
        own_host: str = "",
    ) -> None:
        """Prepares a client. `storage` says whether to follow a peer to its bucket, and which buckets may
        have addresses that are not public. `own_host` is the host of this node's endpoint, for
        `may_lead_to`."""
        self.fetched_bytes = 0
        """How many bytes came from peers and from their buckets."""
        self._store = store
        self._signer = signer
        self._session = PeerSession(
            retry_policy or RetryPolicy(), partial(may_lead_to, own_host=own_host), signer.clocks
        )
        self._storage = StorageReader(storage or ObjectStorage())

    async def __aenter__(self) -> "BlobClient":
        self._session.open()
        self._storage.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
        await self._storage.close()

    async def fetch(self, peer: Peer, ref: BlobRef) -> Path:
        """Returns the path of the blob in the store, fetched from `peer` unless it is there already.

        Raises ProtocolFault, naming the peer, if it sends something else. Raises EnvironmentFault if it does
        not deliver after all retries, or does not serve this blob to this account yet."""
        return await self._fetch(peer, ref)

    async def fetch_from_any(self, peers: Sequence[Peer], ref: BlobRef) -> Path:
        """Fetches as `fetch`, from the first of `peers` that delivers. If one refuses, the next is asked at
        once; if one is slow, the next is asked too. All are asked again until the retries are used up, except
        peers that sent wrong bytes. Raises the error of one of them if none delivers. Blobs in the store need
        no peer."""
        if self._store.has(ref):
            return self._store.get_path(ref.key)
        if not peers:
            raise _no_peer(ref)
        liars = set[Peer]()

        async def fetch_once(peer: Peer) -> Path:
            """Fetches from one peer. A peer that sends wrong bytes is not asked again."""
            try:
                return await self._fetch(peer, ref, attempts=1)
            except ProtocolFault:
                liars.add(peer)
                raise

        async def ask_all() -> Path:
            """Asks one peer after the other, except those that sent wrong bytes. If one is slow, also asks
            the next."""
            attempts = [partial(fetch_once, peer) for peer in peers if peer not in liars]
            return await ask_in_turn(attempts, PAUSE_S + ref.size_bytes / HEDGE_BYTES_PER_SECOND)

        return await self._session.try_often(ask_all)

    async def _fetch(self, peer: Peer, ref: BlobRef, attempts: int | None = None) -> Path:
        if self._store.has(ref):
            return self._store.get_path(ref.key)
        chunk_roots = await self._fetch_chunk_roots(peer, ref, attempts) if ref.chunk_count > 1 else ()
        verifier = BlobVerifier(ref, source=str(peer), chunk_roots=chunk_roots)
        with self._store.open_writer(ref, verifier) as writer:
            act = partial(self._stream, peer, ref, writer)
            await self._session.try_often(act, lambda: writer.received_bytes, attempts)
            return writer.commit()

    async def fetch_chunk_roots(self, peer: Peer, ref: BlobRef) -> tuple[bytes, ...]:
        """Returns the chunk roots of a blob, checked to fold to its root. They prove nothing about the chunks
        yet. Raises as `fetch` does."""
        if ref.chunk_count == 1:
            return (ref.key.root,)
        roots = await self._fetch_chunk_roots(peer, ref, None)
        BlobVerifier(ref, source=str(peer), chunk_roots=roots)
        return roots

    async def fetch_roots_from_any(self, peers: Sequence[Peer], ref: BlobRef) -> tuple[bytes, ...]:
        """Returns chunk roots as `fetch_chunk_roots`, from the first of `peers` that sends them. The next is
        asked too if one is slow or refuses. Raises the error of one of them if none does."""
        if not peers:
            raise _no_peer(ref)
        size_s = ROOT_BYTES * ref.chunk_count / HEDGE_BYTES_PER_SECOND

        async def fetch_once(peer: Peer) -> tuple[bytes, ...]:
            """Fetches from one peer."""
            roots = await self._fetch_chunk_roots(peer, ref, 1)
            BlobVerifier(ref, source=str(peer), chunk_roots=roots)
            return roots

        async def ask_all() -> tuple[bytes, ...]:
            """Asks all peers."""
            return await ask_in_turn([partial(fetch_once, peer) for peer in peers], PAUSE_S + size_s)

        return await self._session.try_often(ask_all)

    async def fetch_chunk(self, peer: Peer, ref: BlobRef, number: int, root: bytes) -> bytes:
        """Returns the bytes of one chunk, checked by its root; stores nothing. Raises as `fetch` does."""
        place = ref.locate_chunks(range(number, number + 1))
        pieces = bytearray()

        async def read() -> bytes:
            """Asks for the bytes that are still missing."""
            left = range(place.start + len(pieces), place.stop)
            async for piece in self._stream_range(peer, ref, left):
                pieces.extend(piece)
            return bytes(pieces)

        chunk = await self._session.try_often(read, lambda: len(pieces))
        found = hash_chunk(chunk, ref)
        if found != root:
            path = request_paths.format_path(request_paths.BLOB, ref.key)
            raise blame(peer, path, "a chunk does not match its hash", root.hex(), found.hex())
        return chunk

    async def fetch_runs(
        self, peer: Peer, ref: BlobRef, runs: Sequence[LeafRun], chunk_roots: Sequence[bytes]
    ) -> dict[int, LeafProof]:
        """Asks the peer once, and returns the leaves of these runs that the peer has, proven, by number;
        stores nothing. `runs` must fit into one request (`split_requests`). Raises as `fetch` does."""
        path = request_paths.format_leaves(ref.key, format_runs(runs))
        answer = await self._get_small(peer, path, measure_most(ref, runs))
        return await run_apart(decode_answer, ref, runs, chunk_roots, answer, str(peer))

    async def try_often(self, act: Callable[[], Awaitable[T]]) -> T:
        """Calls `act`, and again after each retryable error as the retry policy says, and returns its
        result."""
        return await self._session.try_often(act)

    def get_silence(self, peer: Peer) -> float:
        """Returns when the peer last failed to answer in time. The peer with the oldest silence, or none, is
        asked first."""
        return self._session.get_silence(peer)

    def get_answer_s(self, peer: Peer) -> float:
        """Returns when the peer last answered in any way, as `PeerSession` does."""
        return self._session.get_answer_s(peer)

    async def is_answering(self, peer: Peer) -> bool:
        """Returns whether the peer answers now in any way."""
        before_s = self.get_answer_s(peer)
        with suppress(EnvironmentFault, ProtocolFault):
            await self._get_small(peer, request_paths.HEALTH, MAX_STATUS_BYTES, is_signed=False)
        return self.get_answer_s(peer) > before_s

    async def ask(self, peer: Peer, handler: str, message: Message, form: Form[T]) -> T:
        """Sends a message to a handler, and returns its answer, parsed by `form`. It is sent once; the caller
        sends it again if it needs to. Raises as `fetch` does."""
        body = encode_message(message)
        path = request_handler.format_handler(handler, body)
        answer = await self._get_small(peer, path, form.most_bytes, body)
        return form.decode(answer, peer.account, peer.format_url(path))

    async def get_status(self, peer: Peer) -> NodeStatus:
        """Returns the status that the peer reports of itself, unchecked. Raises as `fetch` does."""
        body = await self._session.try_often(
            partial(self._get_small, peer, request_paths.STATUS, MAX_STATUS_BYTES, is_signed=False)
        )
        return STATUS_FORM.decode(body, peer.account, peer.format_url(request_paths.STATUS))

    async def _fetch_chunk_roots(self, peer: Peer, ref: BlobRef, attempts: int | None) -> tuple[bytes, ...]:
        body = await self._session.try_often(partial(self._get_chunk_roots, peer, ref), attempts=attempts)
        return tuple(split_roots(body))

    async def _get_chunk_roots(self, peer: Peer, ref: BlobRef) -> bytes:
        path = request_paths.format_path(request_paths.CHUNKS, ref.key)
        return await self._get_small(peer, path, ROOT_BYTES * ref.chunk_count)

    async def _get_small(
        self,
        peer: Peer,
        path: str,
        limit_bytes: int,
        message: bytes | None = None,
        *,
        is_signed: bool = True,
    ) -> bytes:
        """Returns the answer to one request. If only the time in the request was wrong, sends it again at
        once."""
        method = "GET" if message is None else "POST"

        async def get() -> bytes:
            headers = self._signer.sign(method, path, peer.account) if is_signed else {}
            async with self._session.get(peer, path, headers, limit_bytes, message) as response:
                return await read_at_most(response, limit_bytes)

        try:
            body = await get()
        except ClocksDiffer:
            body = await get()
        self.fetched_bytes += len(body)
        if len(body) > limit_bytes:
            raise blame(peer, path, "the answer is too long", f"at most {limit_bytes} bytes", "more")
        return body

    async def _stream(self, peer: Peer, ref: BlobRef, sink: "BlobWriter") -> None:
        """Writes the missing bytes, from the peer or from the bucket that it names."""
        left = range(ref.size_bytes)[sink.received_bytes :]
        clock = asyncio.get_running_loop().time
        begun_s = clock()
        try:
            follows = self._storage.may_follow(peer)
            async for piece in self._stream_range(peer, ref, left, follows=follows):
                sink.write(piece)
            return
        except _SentToBucket as sent:
            location = sent.location
        try:
            await self._storage.copy(location, ref, left, partial(self._keep, sink))
            sink.judge()
            return
        except asyncio.CancelledError:
            # Another peer was faster. Next time this bucket would be as slow.
            expected_s = (sink.received_bytes - left.start) / HEDGE_BYTES_PER_SECOND
            if clock() - begun_s >= PAUSE_S + expected_s:
                self._storage.shun(peer, is_liar=False)
            raise
        except (EnvironmentFault, ProtocolFault) as fault:
            sink.rewind()
            self._storage.shun(peer, is_liar=isinstance(fault, ProtocolFault))
            log.info("nothing is taken from the bucket of %s for a while: %s", peer.account, fault)
        async for piece in self._stream_range(peer, ref, range(ref.size_bytes)[sink.received_bytes :]):
            sink.write(piece)

    def _keep(self, sink: "BlobWriter", piece: bytes) -> None:
        self.fetched_bytes += len(piece)
        sink.write(piece)

    async def _stream_range(
        self, peer: Peer, ref: BlobRef, left: range, *, follows: bool = False
    ) -> AsyncIterator[bytes]:
        path = request_paths.format_path(request_paths.BLOB, ref.key)
        if not left:  # The last connection broke after the last byte.
            return
        headers = self._signer.sign("GET", path, peer.account)
        if follows:
            headers[request_paths.STORAGE] = "1"
        is_partial = len(left) < ref.size_bytes
        if is_partial:
            headers["Range"] = f"bytes={left.start}-{left.stop - 1}"
        async with self._session.get(peer, path, headers, len(left)) as response:
            if response.status == request_paths.REDIRECT:
                raise _SentToBucket(response.headers.get("Location", ""))
            lengths = ref.allow_lengths(left)
            _require_body(response, peer, path, 206 if is_partial else 200, lengths)
            async for piece in fit(response.content.iter_chunked(READ_BYTES), len(left), lengths[-1]):
                self.fetched_bytes += len(piece)
                yield piece


class _SentToBucket(Exception):
    """The peer answered with the URL of a copy."""

    def __init__(self, location: str) -> None:
        super().__init__()  # No text: whoever has the URL can read the blob.
        self.location = location


def _require_body(
    response: aiohttp.ClientResponse, peer: Peer, path: str, status: int, lengths: range
) -> None:
    """Raises ProtocolFault unless the answer announces the requested bytes."""
    if response.status != status or response.content_length not in lengths:
        expected = f"status {status} with {format_lengths(lengths)}"
        actual = f"status {response.status} with {response.content_length} bytes"
        raise blame(peer, path, "the answer is not what was asked for", expected, actual)


def _no_peer(ref: BlobRef) -> InvalidInput:
    return InvalidInput(
        what="no peer to fetch from",
        expected=f"at least one peer that may have {ref.key}",
        actual="none",
        remedy="Wait until a peer has registered its endpoint.",
    )
