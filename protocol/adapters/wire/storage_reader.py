"""Fetches blobs that peers keep in object storage (S3).

A peer that has a bucket (`store/bucket.py`) answers with a presigned URL in place of the bytes. What is under
it is judged by its root like everything else. So a storage is trusted for nothing: if it fails in any way,
the peer itself is asked for its bytes, and only these tell whether the peer serves the blob.

A URL is a stranger's word, and no certificate on chain stands behind it. It may lead to public addresses
alone (`private_origins` are the operator's exceptions), with nothing of this node's in the request.
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
"""A slower storage is given up: the peer itself has the blob too."""
SHUNNED_S, SHUNNED_LIARS_S = 600.0, 24 * 3600.0
"""So long nothing is taken from the storage of a peer that failed, or that held other bytes."""
MOST_SHUNNED = 1024
MOST_CONNECTIONS = 128
"""to all storages: more than the peers that a few blobs are asked of at once, each with a silent storage"""
TLS_PORT, FREE_PORTS = 443, 1024
_LOCATION = re.compile(f"[!-~]{{1,{MAX_LOCATION_CHARACTERS}}}")


class StorageReader:
    """Fetches what peers have in their buckets. `open` it inside a running loop, then `close`."""

    def __init__(self, settings: ObjectStorage) -> None:
        require_usable(settings)
        self._settings = settings
        self._excepted = {str(find_origin(text)) for text in settings.private_origins}
        self._shunned: OrderedDict[str, float] = OrderedDict()
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> None:
        """Makes the connection pool: no cookies, proxies, decompression or redirects, the system's
        authorities."""
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
        """Takes nothing from this peer's bucket for a while. is_liar: whether the bucket held wrong bytes."""
        seconds = SHUNNED_LIARS_S if is_liar else SHUNNED_S
        self._shunned.pop(peer.account, None)
        self._shunned[peer.account] = asyncio.get_running_loop().time() + seconds
        if len(self._shunned) > MOST_SHUNNED:
            self._shunned.popitem(last=False)

    async def copy(self, location: str, ref: BlobRef, left: range, write: Callable[[bytes], None]) -> None:
        """Gives the bytes `left` of a blob to `write`, from the URL that a peer named. Raises
        EnvironmentFault if the URL must not be followed, or if nothing or something else comes; also raises
        what `write` raises."""
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
                    # Time is given for what came, not for what was announced.
                    limit.reschedule(until_s + received_bytes / LEAST_BYTES_PER_SECOND)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            # The text of an error may hold the URL, and whoever has that can read the blob.
            raise _not_stored(url, expected, type(error).__name__) from None

    def _judge(self, location: str) -> URL:
        """Returns the URL, exactly as it was signed. Raises EnvironmentFault if it is not to be
        followed."""
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
