"""Serves a node's blobs to its peers.

The role decides at each request which account may read what: a solver shows the start before the end, or the
audit would not be blind. A missing and a withheld blob get the same answer, so that nobody can find out if a
guessed root exists. Callbacks must answer from memory, because a request must not cost a call to the chain.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from aiohttp import web

from touchstone.protocol.adapters.messages import Message, encode_message
from touchstone.protocol.adapters.store.blob_store import READ_BYTES, BlobStore
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind
from touchstone.protocol.adapters.store.bucket import Bucket
from touchstone.protocol.adapters.store.leaf_runs import parse_runs
from touchstone.protocol.adapters.store.leaf_source import LeafSource, run_apart
from touchstone.protocol.adapters.store.part_store import PartStore
from touchstone.protocol.adapters.wire import request_handler, request_paths
from touchstone.protocol.adapters.wire.addresses import find_caller
from touchstone.protocol.adapters.wire.json_answers import NodeStatus, RefusalAnswer
from touchstone.protocol.adapters.wire.limits import (
    ConnectionWatch,
    RateLimit,
    StreamLimit,
    Turns,
    WireLimits,
)
from touchstone.protocol.adapters.wire.listener import TlsListener
from touchstone.protocol.adapters.wire.peer_faults import WHO_MAY_READ
from touchstone.protocol.adapters.wire.request_handler import RequestHandler
from touchstone.protocol.adapters.wire.request_log import make_request_log
from touchstone.protocol.adapters.wire.request_signing import RequestVerifier
from touchstone.protocol.adapters.wire.tls_contexts import make_server_context
from touchstone.protocol.adapters.wire.tls_identity import TlsIdentity
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, ProtocolFault
from touchstone.protocol.spec.typed_data import SigningDomain

FALSE_PRICE = 40
"""A request with a false signature counts as this many requests, because detecting it takes milliseconds."""
RUNS_A_REQUEST = 16
"""How many runs of leaves in one request count as one more request."""
SHUTDOWN_SECONDS = 1.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReadPolicy:
    """What a node's role decides about requests. Addresses are in lower case, and each function answers at
    once."""

    is_staked: Callable[[str], bool]
    """`is_staked(account)` returns whether the account may ask at all."""
    may_read: Callable[[str, BlobKind, bytes], bool]
    """`may_read(account, kind, root)` returns whether this account may read this blob now."""
    get_status: Callable[[], NodeStatus]
    """`get_status()` returns what this node says of itself at /status, to everybody."""
    find_handler: Callable[[str], RequestHandler | None] = lambda name: None
    """`find_handler(name)` returns the handler that answers messages of this kind, None if there is none."""
    is_member: Callable[[str], bool] = lambda account: True
    """`is_member(account)` returns whether the account takes part in this node's task. All others are
    strangers and share a small part of the places, because an account costs nothing."""
    get_reports: Callable[[bytes, int], Message | None] = lambda task, index: None
    """`get_reports(task, index)` returns this node's public reports of a round, from memory; None if it does
    not work on the task. Reports have a few kilobytes."""


class BlobServer:
    """An HTTPS server over a store. `start` it once, `stop` it once."""

    def __init__(
        self,
        store: BlobStore,
        account: str,
        domain: SigningDomain,
        identity: TlsIdentity,
        policy: ReadPolicy,
        limits: WireLimits | None = None,
        parts: PartStore | None = None,
        bucket: Bucket | None = None,
    ) -> None:
        """Prepares a server. `account` is the node's account; a request must be signed for this account.
        `parts` are leaves of datasets that are not whole in the store. `bucket` is where peers are sent for
        copies."""
        self._store, self._bucket = store, bucket
        self._leaves = LeafSource(store, parts)
        self._identity = identity
        self._policy = policy
        self._limits = limits or WireLimits()
        self._verifier = RequestVerifier(account, domain, policy.is_staked)
        self._account_rate = RateLimit(self._limits.requests_per_second, self._limits.burst_requests)
        self._address_rate = RateLimit(
            self._limits.address_requests_per_second, self._limits.address_burst_requests
        )
        self._stranger_rate = RateLimit(self._limits.strangers_per_second, self._limits.strangers_burst)
        self._strange_address_rate = RateLimit(
            self._limits.stranger_address_per_second, self._limits.stranger_address_burst
        )
        self._reports_rate = RateLimit(self._limits.reports_per_second, self._limits.burst_reports)
        self._streams = StreamLimit(self._limits.streams_per_account, self._limits.streams)
        self._messages = StreamLimit(self._limits.messages_per_account, self._limits.messages)
        places = self._limits.strangers, self._limits.turn_seconds
        self._strange_streams, self._strange_readers = Turns(*places), Turns(*places)
        self._strange_messages = StreamLimit(self._limits.messages_per_account, self._limits.strangers)
        self._watch = ConnectionWatch(self._limits)
        self.served_bytes = 0
        """Bytes of blobs, leaves and chunk roots that were served."""
        self._runner: web.AppRunner | None = None
        self._listener: TlsListener | None = None
        self._watching: asyncio.Task[None] | None = None
        self._answering: set[asyncio.Task[web.Response]] = set()

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Listens; returns the port (a free one for 0). Raises EnvironmentFault when the address is taken."""
        runner = self._make_runner()
        await runner.setup()
        assert runner.server is not None
        try:
            context = make_server_context(self._identity)
            rate = RateLimit(self._limits.handshakes_per_second, self._limits.burst_handshakes)
            self._listener = await TlsListener.open(
                runner.server, context, host, port, self._limits.handshakes, rate
            )
        except OSError as error:
            await runner.cleanup()
            raise _cannot_listen(host, port, error) from error
        self._runner = runner
        self._watching = asyncio.create_task(self._watch.run(runner.server))
        return self._listener.port

    async def stop(self) -> None:
        """Stops listening, and drops what still runs."""
        if self._listener is None or self._runner is None or self._watching is None:
            return
        await self._listener.close()
        self._watching.cancel()
        for answering in self._answering:
            answering.cancel()
        with suppress(asyncio.CancelledError):
            await self._watching
        await self._runner.cleanup()
        self._listener = self._runner = self._watching = None

    def _make_runner(self) -> web.AppRunner:
        application = web.Application(middlewares=[self._guard], client_max_size=1)
        routes: dict[str, Handler] = {
            request_paths.HEALTH: self._get_health,
            request_paths.STATUS: self._get_status,
            f"/{request_paths.BLOB}/{request_paths.KEY_PATTERN}": self._get_blob,
            f"/{request_paths.CHUNKS}/{request_paths.KEY_PATTERN}": self._get_chunks,
            f"/{request_paths.LEAVES}/{request_paths.DATASET_PATTERN}": self._get_leaves,
            f"/{request_paths.REPORTS}/{request_paths.REPORTS_PATTERN}": self._get_reports,
        }
        application.add_routes([web.get(path, act, allow_head=False) for path, act in routes.items()])
        application.add_routes(
            [web.post(f"/{request_handler.PATH}/{request_handler.NAME_PATTERN}", self._post_message)]
        )
        return web.AppRunner(
            application,
            access_log=None,
            logger=make_request_log(),
            handler_cancellation=True,
            shutdown_timeout=SHUTDOWN_SECONDS,
            keepalive_timeout=self._limits.idle_seconds,
            lingering_time=0.0,
            max_line_size=self._limits.header_bytes,
            max_field_size=self._limits.header_bytes,
            max_headers=self._limits.headers,
        )

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        with self._watch.mark_busy(request):
            if not self._address_rate.try_take(_find_caller(request)):
                return refuse(429, "too many requests from this address", "Wait, then ask less often.")
            if request.body_exists and request.method != "POST":
                refusal = refuse(413, "a request carries no body", "Send none.")
                refusal.force_close()
                return refusal
            try:
                return await handler(request)
            except ProtocolFault as fault:
                log.info("refused %s %s: %s", request.method, request.path, fault)
                said = (fault.what, str(fault.expected), str(fault.actual), fault.remedy)
                return _answer(401, RefusalAnswer(*said, self._verifier.read_clock()))
            except TimeoutError as error:
                # The reader is slow, or lost its place, so the connection is of no more use.
                if request.transport is not None:
                    request.transport.abort()
                raise ConnectionResetError from error

    async def _get_health(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"health": "ok"})

    async def _get_status(self, request: web.Request) -> web.StreamResponse:
        return _answer(200, self._policy.get_status())

    async def _get_reports(self, request: web.Request) -> web.StreamResponse:
        """Answers with signed reports. The caller is unknown, so the request counts as a stranger's."""
        if not self._reports_rate.try_take(_find_caller(request)) or not self._try_take_strange(request):
            return refuse(429, "too many requests of strangers", "Wait, then ask less often.")
        place = bytes.fromhex(request.match_info["task"]), int(request.match_info["round"])
        said = self._policy.get_reports(*place)
        if said is None:
            return refuse(404, "this node does not work on the task", "Ask a member of the task.")
        return _answer(200, said)

    async def _get_chunks(self, request: web.Request) -> web.StreamResponse:
        key, _, refusal = self._admit(request)
        if refusal:
            return refusal
        roots = await run_apart(self._leaves.get_chunk_roots, key)
        self.served_bytes += len(roots)
        return web.Response(body=roots, content_type="application/octet-stream")

    async def _get_leaves(self, request: web.Request) -> web.StreamResponse:
        key, account, refusal = self._admit(request)
        outline = None if refusal else await run_apart(self._leaves.find_outline, key)
        if refusal or outline is None:
            return refusal or refuse(403, "not served to you now", WHO_MAY_READ)
        try:
            runs = parse_runs(request.query.get(request_paths.RUNS, ""), outline.ref)
        except InvalidInput as reason:
            return refuse(400, reason.what, reason.remedy, reason.expected, reason.actual)
        # Each run reads and hashes a chunk, so many runs count as several requests.
        price, is_member = len(runs) // RUNS_A_REQUEST, self._policy.is_member(account)
        self._account_rate.try_take(account, price)
        if not is_member:  # An account costs nothing, so the address counts too.
            self._try_take_strange(request, price)
        async with self._hold_stream(request, account, is_member=is_member) as is_held:
            if not is_held:
                return refuse(429, "too many transfers at once", "Finish one, then ask for the next.")
            answer = await run_apart(self._leaves.answer, outline, runs)
            response = _make_stream_response(0, len(answer), len(answer), is_partial=False)
            await response.prepare(request)
            for at in range(0, len(answer), READ_BYTES):
                async with asyncio.timeout(self._limits.write_seconds):
                    await response.write(answer[at : at + READ_BYTES])
                self.served_bytes += len(answer[at : at + READ_BYTES])
            await response.write_eof()
            return response

    async def _post_message(self, request: web.Request) -> web.StreamResponse:
        account = self._verify(request)
        handler = self._policy.find_handler(request.match_info["name"])
        if handler is None:
            return _refuse_body(404, "such messages are not answered here", "Ask another peer.")
        if not self._try_take(request, account):
            return _refuse_body(429, "too many requests", "Wait, then ask less often.")
        digest = request.query.get(request_handler.BODY_DIGEST, "")
        busy = _refuse_body(429, "too many messages at once", "Wait for the answer to one.")
        try:
            if self._policy.is_member(account):
                with self._messages.hold(account) as is_held:
                    body = await self._read_body(request, handler.most_bytes) if is_held else b""
                    return (
                        await self._finish(_ask_handler(handler, account, body, digest)) if is_held else busy
                    )
            # A handler runs to its end, but a stranger that sends slowly can lose its place.
            async with self._strange_readers.hold(_find_caller(request), account) as is_read:
                body = await self._read_body(request, handler.most_bytes) if is_read else b""
            with self._strange_messages.hold(account) as is_held:
                is_turn = is_read and is_held
                return await self._finish(_ask_handler(handler, account, body, digest)) if is_turn else busy
        except TimeoutError:
            return _refuse_body(408, "the message takes too long", "Send it at once.")

    async def _finish(self, answer: Coroutine[Any, Any, web.Response]) -> web.Response:
        """Returns the answer, computed to its end even if the asker hangs up. It counts as a running answer
        until its thread ends. Otherwise an asker that hangs up again and again could fill all threads of the
        node."""
        answering = asyncio.ensure_future(answer)
        self._answering.add(answering)
        answering.add_done_callback(self._answering.discard)
        try:
            return await asyncio.shield(answering)
        except asyncio.CancelledError:
            await asyncio.wait({answering})
            raise

    async def _read_body(self, request: web.Request, most_bytes: int) -> bytes:
        """Returns the body, at most a little more than `most_bytes` of it."""
        body = bytearray()
        async with asyncio.timeout(self._limits.body_seconds):
            async for piece in request.content.iter_any():
                body += piece
                if len(body) > most_bytes:
                    break
        return bytes(body)

    async def _get_blob(self, request: web.Request) -> web.StreamResponse:
        key, account, refusal = self._admit(request)
        if refusal:
            return refusal
        is_member = self._policy.is_member(account)
        if self._bucket is not None:
            is_asked = request_paths.STORAGE in request.headers
            url = await self._bucket.find_url(account, key, is_member=is_member, is_asked=is_asked)
            if url:
                where = {"Location": url, "Cache-Control": "no-store"}
                return web.Response(status=request_paths.REDIRECT, headers=where)
        async with self._hold_stream(request, account, is_member=is_member) as is_held:
            if not is_held:
                return refuse(429, "too many transfers at once", "Finish one, then ask for the next.")
            if self._store.get_size_bytes(key) is None:  # Only parts of this dataset are here.
                return refuse(403, "not served to you now", WHO_MAY_READ)
            return await self._stream(request, key)

    @asynccontextmanager
    async def _hold_stream(
        self, request: web.Request, account: str, *, is_member: bool
    ) -> AsyncIterator[bool]:
        """Holds a place: as `StreamLimit.hold` for a member, as `Turns.hold` for a stranger."""
        if is_member:
            with self._streams.hold(account) as is_held:
                yield is_held
        else:
            async with self._strange_streams.hold(_find_caller(request), account) as is_held:
                yield is_held

    def _verify(self, request: web.Request) -> str:
        """Returns the account that signed a request. Raises ProtocolFault; then the sender's address is
        charged for the cost of the check."""
        try:
            return self._verifier.verify(request.method, request.raw_path, request.headers)
        except ProtocolFault:
            self._address_rate.try_take(_find_caller(request), FALSE_PRICE)
            raise

    def _try_take(self, request: web.Request, account: str) -> bool:
        """Returns whether an account may make one more request now."""
        is_let = self._policy.is_member(account) or self._try_take_strange(request)
        return is_let and self._account_rate.try_take(account)

    def _try_take_strange(self, request: web.Request, price: int = 1) -> bool:
        """Returns whether a stranger may make one more request now, from the shared rate or from its
        address's own."""
        is_let = self._stranger_rate.try_take("", price)
        return is_let or self._strange_address_rate.try_take(_find_caller(request), price)

    def _admit(self, request: web.Request) -> tuple[BlobKey, str, web.Response | None]:
        """Returns the requested key and the asker, or a refusal. Raises ProtocolFault for a bad signature."""
        account = self._verify(request)
        key = request_paths.parse_key(request.match_info["kind"], request.match_info["root"])
        if not self._try_take(request, account):
            return key, account, refuse(429, "too many requests", "Wait, then ask less often.")
        may_read = self._policy.may_read(account, key.kind, key.root)
        if may_read and (self._store.get_size_bytes(key) is not None or self._leaves.has_parts(key)):
            return key, account, None
        # One answer for both cases, as the module says.
        return key, account, refuse(403, "not served to you now", WHO_MAY_READ)

    async def _stream(self, request: web.Request, key: BlobKey) -> web.StreamResponse:
        size = self._store.get_size_bytes(key) or 0
        try:
            wanted = request.http_range
        except ValueError:
            return refuse(416, "the range is malformed", "Send Range: bytes=FIRST-LAST.")
        start, stop, _ = wanted.indices(size)
        is_partial = "Range" in request.headers
        if is_partial and start >= stop:
            return refuse(416, "the range lies outside the blob", f"The blob has {size} bytes.")
        response = _make_stream_response(start, stop, size, is_partial=is_partial)
        await response.prepare(request)
        await self._write(response, self._store.open_range(key, start, stop))
        return response

    async def _write(self, response: web.StreamResponse, pieces: Iterator[bytes]) -> None:
        # The disk may be slow, so read in a thread. The reader may be slow on purpose, so each piece has a
        # deadline.
        while piece := await asyncio.to_thread(next, pieces, b""):
            async with asyncio.timeout(self._limits.write_seconds):
                await response.write(piece)
            self.served_bytes += len(piece)
        await response.write_eof()


def _find_caller(request: web.Request) -> str:
    return find_caller(request.remote or "")


def refuse(status: int, what: str, remedy: str, expected: object = "", actual: object = "") -> web.Response:
    """Returns a refusal: a status, and a JSON object that says why."""
    response = _answer(status, RefusalAnswer(what, str(expected), str(actual), remedy))
    if status == 429:
        response.headers["Retry-After"] = "1"
    return response


def _refuse_body(status: int, what: str, remedy: str) -> web.Response:
    """Returns the refusal of a request whose body was not read to its end."""
    response = refuse(status, what, remedy)
    response.force_close()
    return response


async def _ask_handler(handler: RequestHandler, account: str, body: bytes, digest: str) -> web.Response:
    if len(body) > handler.most_bytes:
        return _refuse_body(413, "the message is too long", f"Send at most {handler.most_bytes} bytes.")
    if sha256(body).hexdigest() != digest:
        return refuse(401, "the body is not the one that was signed", "Sign the path with its SHA-256.")
    try:
        return _answer(200, await handler.answer(account, body))
    except ProtocolFault as fault:
        return refuse(400, fault.what, fault.remedy, fault.expected, fault.actual)
    except EnvironmentFault as fault:
        return refuse(409, fault.what, fault.remedy, fault.expected, fault.actual)


def _answer(status: int, message: Message) -> web.Response:
    return web.Response(status=status, body=encode_message(message), content_type="application/json")


def _make_stream_response(start: int, stop: int, size: int, *, is_partial: bool) -> web.StreamResponse:
    response = web.StreamResponse(status=206 if is_partial else 200)
    response.content_type = "application/octet-stream"
    response.content_length = stop - start
    if is_partial:
        response.headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    return response


def _cannot_listen(host: str, port: int, error: OSError) -> EnvironmentFault:
    return EnvironmentFault(
        what="the blob server cannot listen",
        expected="a free address of this machine",
        actual=error.strerror or str(error),
        where=f"{host}:{port}",
        remedy="Choose another port, or stop what uses this one.",
        retryable=False,
    )
