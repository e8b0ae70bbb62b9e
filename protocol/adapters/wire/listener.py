"""Takes connections with the node's TLS identity, and bounds what one stranger may ask.

A bare connection costs memory and an open file before anything is known of the peer that made it. So the
number of handshakes at a time is limited. Where too many are under way, the oldest is given up: an honest
peer's takes a fraction of a second.

A node's TLS identity is a self-signed certificate whose SHA-256 is registered on chain. No certificate
authority is asked: the chain says which certificate belongs to which account, and a client accepts that one
and no other.

Malformed requests are not logged. Any peer can send as many as the line takes, and each would leave a
traceback; a node's log must not fill its disk.

What one stranger may ask of a server: rates, sizes, concurrency and time. Everything is bounded. A bucket of
tokens per caller limits the rate, counters limit concurrency, and a watchman closes connections that were
opened and then say nothing (a slow loris).
"""

import asyncio
import datetime
import hashlib
import ipaddress
import logging
import socket
import ssl
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from protocol.adapters.files import require_private_file, write_private_file
from protocol.spec.errors import InvalidInput


# --- Connections --------------------------------------------------------------------------------------------
class NoStrangersNoise(logging.Filter):
    """Drops what tells of a malformed request, or of a peer that hung up before its answer had come; errors
    of the node itself pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written."""
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | ConnectionError)


def make_request_log() -> logging.Logger:
    """For the library that reads requests."""
    log = logging.getLogger(__name__)
    if not log.filters:
        log.addFilter(NoStrangersNoise())
    return log


VALIDITY_DAYS = 3650
"""The pin, not the date, is what counts; registering another certificate is how one is renewed."""
CERTIFICATE_FILE = "certificate.pem"
KEY_FILE = "certificate-key.pem"


@dataclass(frozen=True)
class TlsIdentity:
    """A certificate and its key on disk; `fingerprint` is the SHA-256 of the certificate's DER, 32 bytes."""

    certificate_path: Path
    key_path: Path
    fingerprint: bytes


def load_or_create_identity(folder: Path) -> TlsIdentity:
    """The identity in `folder`, made on the first call. Raises InvalidInput when the key is open to others or
    a file is malformed."""
    certificate_path, key_path = folder / CERTIFICATE_FILE, folder / KEY_FILE
    if not certificate_path.exists():
        _create_identity(certificate_path, key_path)
    require_private_file(key_path)
    return TlsIdentity(certificate_path, key_path, _read_fingerprint(certificate_path))


def make_server_context(identity: TlsIdentity) -> ssl.SSLContext:
    """A server's TLS 1.3 context with this identity."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(identity.certificate_path, identity.key_path)
    return context


async def fetch_fingerprint(host: str, port: int, server_name: str | None = None) -> bytes:
    """SHA-256 of the certificate that a server shows: it is compared, so none is trusted. server_name: asked
    for in the handshake, None for `host`. Nothing is sent after it, and no answer is waited for. Nodes speak
    TLS 1.3. In an older one a server chooses the numbers that this side computes with, of up to 10,000 bits,
    and that would hold up the thread that answers everybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=server_name)
    try:
        shown: Any = writer.get_extra_info("ssl_object")
        return hashlib.sha256(shown.getpeercert(binary_form=True)).digest()
    finally:
        writer.transport.abort()


def _create_identity(certificate_path: Path, key_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    # A crash between the two files leaves a key without a certificate: it was never registered, so drop it.
    key_path.unlink(missing_ok=True)
    write_private_file(key_path, _encode_key(key))
    write_private_file(certificate_path, _make_certificate(key).public_bytes(serialization.Encoding.PEM))


def _encode_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _make_certificate(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "touchstone node")])
    now = datetime.datetime.now(datetime.UTC)
    alternatives = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=VALIDITY_DAYS))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .sign(key, hashes.SHA256())
    )


def _read_fingerprint(certificate_path: Path) -> bytes:
    try:
        certificate = x509.load_pem_x509_certificate(certificate_path.read_bytes())
    except ValueError as error:
        raise InvalidInput(
            what="the TLS certificate cannot be read",
            expected="a PEM certificate",
            actual=str(error),
            where=str(certificate_path),
            remedy="Remove it and its key; a new pair is made, and is to be registered on chain.",
        ) from error
    return hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).digest()


HANDSHAKE_SECONDS = 10.0
BACKLOG = 128
RETRY_S = 0.5
"""After a connection that could not be taken: too many open files, most likely."""

log = logging.getLogger(__name__)


class TlsListener:
    """Listens until it is closed. Each connection that has shaken hands is given to the protocol's
    factory."""

    def __init__(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        context: ssl.SSLContext,
        listening: socket.socket,
        most: int,
    ) -> None:
        self._factory, self._context, self._listening, self._most = factory, context, listening, most
        self._shaking: dict[asyncio.Task[None], None] = {}
        self._accepting: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        factory: Callable[[], asyncio.BaseProtocol],
        context: ssl.SSLContext,
        host: str,
        port: int,
        most: int,
    ) -> "TlsListener":
        """Listen at `host` and `port` (a free one for 0), with `most` handshakes at a time. Raises OSError
        where the address cannot be had."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        listening = socket.create_server(address[:2], family=family, backlog=BACKLOG)
        listening.setblocking(False)
        listener = cls(factory, context, listening, most)
        listener._accepting = asyncio.create_task(listener._accept())
        return listener

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listening.getsockname()[1])

    async def close(self) -> None:
        """Take no more connections, and drop those that have not shaken hands."""
        tasks = [*self._shaking] + ([self._accepting] if self._accepting else [])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listening.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listening)
            except OSError as error:
                log.warning("a connection cannot be taken: %s", error)
                await asyncio.sleep(RETRY_S)
                continue
            if len(self._shaking) >= self._most:
                oldest = next(iter(self._shaking))
                del self._shaking[oldest]
                oldest.cancel()
            task = asyncio.create_task(self._shake(connection))
            self._shaking[task] = None
            task.add_done_callback(lambda done: self._shaking.pop(done, None))
            await asyncio.sleep(0)  # Taking one that waits gives no other task a turn.

    async def _shake(self, connection: socket.socket) -> None:
        """Raises nothing: who does not speak TLS is dropped."""
        loop, is_done = asyncio.get_running_loop(), False
        try:
            with suppress(OSError, ssl.SSLError):
                await loop.connect_accepted_socket(
                    self._factory,
                    connection,
                    ssl=self._context,
                    ssl_handshake_timeout=HANDSHAKE_SECONDS,
                )
                is_done = True
        finally:
            if not is_done:
                # The loop's transport owns the socket by now, and lets go of it at its end.
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


# --- Limits for one stranger --------------------------------------------------------------------------------
MAX_BUCKETS = 10_000
"""callers remembered; the one heard longest ago is forgotten first."""


@dataclass(frozen=True)
class WireLimits:
    """Limits of a server. Streams are answers that carry a blob; messages are what desks answer."""

    requests_per_second: float = 50.0
    burst_requests: int = 200
    address_requests_per_second: float = 500.0
    """per network address, before a signature is checked; many nodes may share one"""
    address_burst_requests: int = 2000
    streams_per_account: int = 4
    streams: int = 128
    messages_per_account: int = 4
    messages: int = 128
    """that are answered at once"""
    strangers: int = 8
    """streams, and as many messages, of all strangers together"""
    strangers_per_second: float = 50.0
    """requests of all strangers together"""
    strangers_burst: int = 200
    reports_per_second: float = 5.0
    """of one network address, for reports of a round: who asks for them signs nothing"""
    burst_reports: int = 50
    handshakes: int = 64
    """TLS handshakes under way; beyond it the oldest is given up"""
    body_seconds: float = 10.0
    """a message that is not there within this is not read"""
    connections: int = 256
    idle_seconds: float = 15.0
    """a connection without a complete request is closed after this"""
    write_seconds: float = 30.0
    """a reader that does not take the next piece (256 KiB) within this is dropped"""
    header_bytes: int = 8190
    headers: int = 32


class RateLimit:
    """A token bucket for each caller: `rate` tokens a second, at most `burst` saved."""

    def __init__(self, rate: float, burst: int, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def try_take(self, caller: str, price: int = 1) -> bool:
        """Whether `caller` may make one more request now. price: what is taken; of more than is left, all."""
        now = self._now()
        tokens, then = self._buckets.pop(caller, (float(self._burst), now))
        tokens = min(float(self._burst), tokens + (now - then) * self._rate)
        is_allowed = tokens >= 1.0
        self._buckets[caller] = (max(0.0, tokens - price) if is_allowed else tokens, now)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return is_allowed


class StreamLimit:
    """Counts what runs at once, streams or messages, per account and in total."""

    def __init__(self, per_account: int, total: int) -> None:
        self._per_account, self._total = per_account, total
        self._running: Counter[str] = Counter()

    @contextmanager
    def hold(self, account: str) -> Iterator[bool]:
        """True inside the block when `account` got one, which is returned at the block's end."""
        is_free = self._running.total() < self._total
        if not is_free or self._running[account] >= self._per_account:
            yield False
            return
        self._running[account] += 1
        try:
            yield True
        finally:
            self._running[account] -= 1
            if not self._running[account]:
                del self._running[account]


class ConnectionWatch:
    """Closes connections beyond the limit and those on which no request completes in time."""

    def __init__(self, limits: WireLimits) -> None:
        self._limits = limits
        self._busy: Counter[web.RequestHandler] = Counter()
        self._idle_since: dict[web.RequestHandler, float] = {}

    @contextmanager
    def mark_busy(self, request: web.Request) -> Iterator[None]:
        """The connection of `request` is at work inside the block."""
        protocol = request.protocol
        self._busy[protocol] += 1
        self._idle_since.pop(protocol, None)
        try:
            yield
        finally:
            self._busy[protocol] -= 1
            if not self._busy[protocol]:
                del self._busy[protocol]

    async def run(self, server: web.Server) -> None:
        """Watch the connections of `server` until cancelled."""
        while True:
            self.sweep(server, time.monotonic())
            await asyncio.sleep(min(1.0, self._limits.idle_seconds / 4))

    def sweep(self, server: web.Server, now: float) -> None:
        """One look at all connections at the monotonic second `now`."""
        idle = [connection for connection in server.connections if connection not in self._busy]
        self._idle_since = {connection: self._idle_since.get(connection, now) for connection in idle}
        excess = len(server.connections) - self._limits.connections
        # Longest idle first: they are the least likely to be an honest peer about to speak.
        for connection in sorted(idle, key=self._idle_since.__getitem__):
            if excess > 0 or now - self._idle_since[connection] > self._limits.idle_seconds:
                connection.force_close()
                excess -= 1
