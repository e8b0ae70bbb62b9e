"""Makes TLS contexts: a client accepts only the registered certificate of a peer.

No certificate authority is needed, because the chain says which certificate belongs to which account.
"""

import asyncio
import hashlib
import ssl
from functools import lru_cache

from touchstone.protocol.adapters.wire.tls_identity import TlsIdentity

MOST_PINS = 256
"""How many contexts are kept: those of the peers that were asked last."""
GROUP = "prime256v1"
"""The one group for key exchange. The other side names the group. By default it could name one of 8,192 bits,
and such a handshake blocks the serving thread for a fifth of a second."""


def make_server_context(identity: TlsIdentity) -> ssl.SSLContext:
    """Returns a server's context with this identity."""
    context = _limit(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    context.load_cert_chain(identity.certificate_path, identity.key_path)
    return context


def make_client_context() -> ssl.SSLContext:
    """Returns a client's context that accepts any certificate."""
    context = _limit(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def make_public_context() -> ssl.SSLContext:
    """Returns a client's context for servers that are not nodes and have a certificate of an authority. It
    allows TLS 1.2 too, with the same group."""
    context = ssl.create_default_context()
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    context.set_ecdh_curve(GROUP)
    return context


def _limit(context: ssl.SSLContext) -> ssl.SSLContext:
    """Returns the context, limited to TLS 1.3 and one group. In older versions a server chooses the numbers
    that the other side computes with, of up to 10,000 bits."""
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_ecdh_curve(GROUP)
    return context


class OtherCertificate(ssl.SSLCertVerificationError):
    """A server has shown another certificate than the pinned one. `shown` is its SHA-256."""

    shown = b""


@lru_cache(MOST_PINS)
def make_pinned_context(fingerprint: bytes) -> ssl.SSLContext:
    """Returns a client's context that accepts only the certificate with this SHA-256. It returns the same
    object each time, because connection pools tell peers apart by it. A handshake with another certificate
    raises OtherCertificate."""

    class Pinned(ssl.SSLObject):
        """A connection that compares the certificate before it sends anything."""

        def do_handshake(self) -> None:
            """Makes the handshake. Raises OtherCertificate."""
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
    """Returns the SHA-256 of the certificate that a server shows, whoever issued it. `server_name` is the
    name in the handshake, None for `host`. It sends nothing after the handshake, and waits for no answer."""
    context = make_client_context()
    _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=server_name)
    try:
        return _hash_shown(writer.get_extra_info("ssl_object"))
    finally:
        writer.transport.abort()
