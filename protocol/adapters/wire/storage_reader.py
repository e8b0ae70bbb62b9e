"""Fetches blobs that peers keep in object storage (S3).

A peer with a bucket (`store/bucket.py`) answers with a presigned URL instead of the bytes. The bytes there
are checked by the root like all others, so the storage need not be trusted. If it fails in any way, the peer
itself is asked for its bytes, and only these show whether the peer serves the blob.

A URL is a stranger's word, without a certificate on chain. So it may lead only to public addresses (the
operator's exceptions are `private_origins`), and the request contains nothing of this node.
"""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

import aiohttp
from yarl import URL

from touchstone.protocol.adapters.store.blobs import BlobRef
from touchstone.protocol.adapters.wire.addresses import is_public
from touchstone.protocol.adapters.wire.answer_lengths import fit, format_lengths
from touchstone.protocol.adapters.wire.endpoint_urls import find_endpoint_fault
from touchstone.protocol.adapters.wire.lookups import PeerResolver, is_literal_refused
from touchstone.protocol.adapters.wire.object_storage import ObjectStorage, find_origin, require_usable
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.request_paths import MAX_LOCATION_CHARACTERS
from touchstone.protocol.adapters.wire.tls_contexts import make_public_context
from touchstone.protocol.spec.errors import EnvironmentFault

READ_BYTES = 256 * 1024
CONNECT_S, SILENCE_S = 5.0, 10.0
LEAST_BYTES_PER_SECOND = 256 * 1024
"""A slower storage is given up, because the peer itself has the blob too."""
SHUNNED_S, SHUNNED_LIARS_S = 600.0, 24 * 3600.0
"""Seconds for which a peer's storage is not used after it failed, or after it held wrong bytes."""
MOST_SHUNNED = 1024
MOST_CONNECTIONS = 128
"""Connections to all storages: more than a few blobs need at once, even if each peer's storage is silent."""
TLS_PORT, FREE_PORTS = 443, 1024
_LOCATION = re.compile(f"[!-~]{{1,{MAX_LOCATION_CHARACTERS}}}")


class StorageReader:
    """Fetches from the buckets of peers. Call `open` inside a running loop, then `close`."""

    def __init__(self, settings: ObjectStorage) -> None:
        require_usable(settings)
        self._settings = settings
        self._excepted = {str(find_origin(text)) for text in settings.private_origins}
        self._shunned: OrderedDict[str, float] = OrderedDict()
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> None:
        """Opens the connection pool: no cookies, proxies, decompression or redirects; the system's
        certificate authorities."""
        excepted = [URL(text) for text in self._excepted]
        resolver = PeerResolver(is_public, [(one.host or "", one.port or 0) for one in excepted])
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_S, sock_read=SILENCE_S),
            connector=aiohttp.TCPConnector(
                resolver=resolver, limit=MOST_CONNECTIONS, ssl=make_public_context()
            ),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": "identity"},
        )

    async def close(self) -> None:
        """Closes all connections."""
        if self._session:
            await self._session.close()

    def may_follow(self, peer: Peer) -> bool:
        """Returns whether to take a blob from this peer's bucket, if it has one."""
        until = self._shunned.get(peer.account, 0.0)
        return self._settings.follow and asyncio.get_running_loop().time() >= until

    def shun(self, peer: Peer, *, is_liar: bool) -> None:
        """Stops using this peer's bucket for a while. `is_liar` says that the bucket held wrong bytes."""
        seconds = SHUNNED_LIARS_S if is_liar else SHUNNED_S
        self._shunned.pop(peer.account, None)
        self._shunned[peer.account] = asyncio.get_running_loop().time() + seconds
        if len(self._shunned) > MOST_SHUNNED:
            self._shunned.popitem(last=False)

    async def copy(self, location: str, ref: BlobRef, left: range, write: Callable[[bytes], None]) -> None:
        """Passes the bytes `left` of a blob to `write`, from the URL that a peer named. Raises
        EnvironmentFault if the URL must not be followed, or the bytes do not come; also raises what `write`
        raises."""
        assert self._session is not None, "open() comes first"
        url, status = self._judge(location), 206 if len(left) < ref.size_bytes else 200
        headers = {"Range": f"bytes={left.start}-{left.stop - 1}"} if status == 206 else {}
        lengths = ref.allow_lengths(left)
        expected = f"status {status} with {format_lengths(lengths)}"
        until_s, received_bytes = asyncio.get_running_loop().time() + CONNECT_S + SILENCE_S, 0
        try:
            async with (
                asyncio.timeout_at(until_s) as limit,
                self._session.get(url, headers=headers, allow_redirects=False) as response,
            ):
                if response.status != status or response.content_length not in lengths:
                    actual = f"status {response.status} with {response.content_length} bytes"
                    raise _not_stored(url, expected, actual)
                async for piece in fit(response.content.iter_chunked(READ_BYTES), len(left), lengths[-1]):
                    write(piece)
                    received_bytes += len(piece)
                    # The allowed time follows the bytes that came, not those announced.
                    limit.reschedule(until_s + received_bytes / LEAST_BYTES_PER_SECOND)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            # The text of an error may hold the URL, with which anybody can read the blob.
            raise _not_stored(url, expected, type(error).__name__) from None

    def _judge(self, location: str) -> URL:
        """Returns the URL, exactly as it was signed. Raises EnvironmentFault if it must not be followed."""
        with suppress(ValueError):
            url = URL(location, encoded=True) if _LOCATION.fullmatch(location) else URL()
            if url.raw_host and not (url.user or url.password or url.fragment):
                is_excepted = str(url.origin()) in self._excepted
                port, name = url.port or 0, url.raw_host
                is_usual = url.scheme == "https" and (port == TLS_PORT or port >= FREE_PORTS)
                is_host = not find_endpoint_fault(f"https://[{name}]" if ":" in name else f"https://{name}")
                if is_excepted or (is_usual and is_host and not is_literal_refused(name, is_public)):
                    return url
        raise _not_stored(None, "an https URL of a public host", "something else")


def _not_stored(url: URL | None, expected: str, actual: str) -> EnvironmentFault:
    return EnvironmentFault(
        what="a peer's object storage does not deliver",
        expected=expected,
        actual=actual,
        where="" if url is None else str(url.origin()),
        remedy="The peer itself is asked for the bytes.",
    )
