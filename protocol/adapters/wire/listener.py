"""Takes connections with the node's TLS identity.

A bare connection costs memory and an open file before anything is known of the peer that made it. So the
number of handshakes at a time is limited. If too many are under way, the address that has most of them loses
its oldest. So bare connections of one address keep out no other. A peer that shares its address with whoever
makes them gets through only if its own handshake is faster than the next 64 of them.

A node's TLS identity is a self-signed certificate whose SHA-256 is registered on chain. No certificate
authority is asked: the chain says which certificate belongs to which account, and a client accepts that one
and no other.

Malformed requests are not logged. Any peer can send as many as the line takes, and each would leave a
traceback; a node's log must not fill its disk.
"""

import asyncio
import datetime
import hashlib
import ipaddress
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from aiohttp.http_exceptions import HttpProcessingError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from touchstone.protocol.adapters.files import require_private_file, write_private_file
from touchstone.protocol.adapters.wire.addresses import find_caller
from touchstone.protocol.adapters.wire.limits import RateLimit
from touchstone.protocol.spec.errors import InvalidInput


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
MOST_PINS = 256
"""Contexts that are kept: those of the peers that were asked last."""


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


GROUP = "prime256v1"
"""The one group in which keys are exchanged. The other side names the group, and by default also groups of
8,192 bits, in which a handshake holds up the thread that answers everybody for a fifth of a second."""


def make_server_context(identity: TlsIdentity) -> ssl.SSLContext:
    """A server's context with this identity."""
    context = _limit(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    context.load_cert_chain(identity.certificate_path, identity.key_path)
    return context


def make_client_context() -> ssl.SSLContext:
    """A client's context that takes any certificate."""
    context = _limit(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def make_public_context() -> ssl.SSLContext:
    """A client's context for servers with the certificate of an authority, which are no nodes: TLS 1.2 too,
    with the same group."""
    context = ssl.create_default_context()
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    context.set_ecdh_curve(GROUP)
    return context


def _limit(context: ssl.SSLContext) -> ssl.SSLContext:
    """The same context, for TLS 1.3 and one group alone. In an older version a server chooses the numbers
    that the other side computes with, of up to 10,000 bits."""
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_ecdh_curve(GROUP)
    return context


class OtherCertificate(ssl.SSLCertVerificationError):
    """A server has shown another certificate than its pin. shown: that one's SHA-256."""

    shown = b""


@lru_cache(MOST_PINS)
def make_pinned_context(fingerprint: bytes) -> ssl.SSLContext:
    """A client's context that takes the certificate with this SHA-256 alone; the same one each time, for
    connection pools tell peers apart by it. A handshake that shows another raises OtherCertificate."""

    class Pinned(ssl.SSLObject):
        """A connection that compares the certificate before anything is sent."""

        def do_handshake(self) -> None:
            """Raises OtherCertificate."""
            super().do_handshake()
            shown = _hash_shown(self)
            if shown != fingerprint:
                error = OtherCertificate("another certificate than the registered one")
                error.shown = shown
                raise error

    context = make_client_context()
    context.sslobject_class = Pinned
    return context


def _hash_shown(connection: ssl.SSLObject) -> bytes:
    return hashlib.sha256(connection.getpeercert(binary_form=True) or b"").digest()


async def fetch_fingerprint(host: str, port: int, server_name: str | None = None) -> bytes:
    """SHA-256 of the certificate that a server shows: it is compared, so none is trusted. server_name: asked
    for in the handshake, None for `host`. Nothing is sent after it, and no answer is waited for."""
    context = make_client_context()
    _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=server_name)
    try:
        return _hash_shown(writer.get_extra_info("ssl_object"))
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
CLOSING_SECONDS = 1.0
"""A connection that was closed is dropped after this, also where its other side does not close it. asyncio
waits half a minute for that: who does not close had many more connections than there may be."""
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
        rate: RateLimit,
    ) -> None:
        self._factory, self._context, self._listening = factory, context, listening
        self._most, self._rate = most, rate
        self._shaking: dict[str, dict[asyncio.Task[None], None]] = {}
        """By caller (`find_caller`), the oldest first."""
        self._accepting: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        factory: Callable[[], asyncio.BaseProtocol],
        context: ssl.SSLContext,
        host: str,
        port: int,
        most: int,
        rate: RateLimit,
    ) -> "TlsListener":
        """Listen at `host` and `port` (a free one for 0), with `most` handshakes at a time, and as many of a
        caller as its `rate` lets through. Raises OSError
        where the address cannot be had."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        listening = socket.create_server(address[:2], family=family, backlog=BACKLOG)
        listening.setblocking(False)
        listener = cls(factory, context, listening, most, rate)
        listener._accepting = asyncio.create_task(listener._accept())
        return listener

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listening.getsockname()[1])

    async def close(self) -> None:
        """Take no more connections, and drop those that have not shaken hands."""
        tasks = [task for tasks in self._shaking.values() for task in tasks]
        tasks += [self._accepting] if self._accepting else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listening.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(self._listening)
            except OSError as error:
                log.warning("a connection cannot be taken: %s", error)
                await asyncio.sleep(RETRY_S)
                continue
            caller = find_caller(address[0])
            if not self._rate.try_take(caller):
                connection.close()
                await asyncio.sleep(0)
                continue
            if sum(map(len, self._shaking.values())) >= self._most:
                busiest = max(self._shaking, key=lambda caller: len(self._shaking[caller]))
                oldest = next(iter(self._shaking[busiest]))
                self._forget(busiest, oldest)
                oldest.cancel()
            task = asyncio.create_task(self._shake(connection))
            self._shaking.setdefault(caller, {})[task] = None
            task.add_done_callback(partial(self._forget, caller))
            await asyncio.sleep(0)  # Taking one that waits gives no other task a turn.

    def _forget(self, caller: str, task: asyncio.Task[None]) -> None:
        tasks = self._shaking.get(caller, {})
        tasks.pop(task, None)
        if not tasks:
            self._shaking.pop(caller, None)

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
                    ssl_shutdown_timeout=CLOSING_SECONDS,
                )
                is_done = True
        finally:
            if not is_done:
                # The loop's transport owns the socket by now, and lets go of it at its end.
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
