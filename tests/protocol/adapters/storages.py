"""Object storages for tests: moto's S3 on a free port, one that answers as a test likes, a bucket that names
any URL."""

import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from touchstone.protocol.adapters.store.blobs import BlobKey
from touchstone.protocol.adapters.store.bucket import Bucket
from touchstone.protocol.adapters.wire.object_storage import ObjectStorage

BUCKET = "alice-blobs"
ACCESS_KEY, SECRET_KEY = "AKIAEXAMPLE", "wJalrXUtnFEMI"
MISSING = "boto3 and moto[server] are not installed: the extras [s3] and [dev]"
Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@contextmanager
def run_moto() -> Iterator[str]:
    """moto's S3; its URL. Skips the test where it is not installed."""
    pytest.importorskip("boto3", reason=MISSING)
    server = pytest.importorskip("moto.server", reason=MISSING).ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        # All servers of a process share what they keep.
        reset = urllib.request.Request(f"http://{host}:{port}/moto-api/reset", method="POST")
        urllib.request.urlopen(reset, timeout=30).close()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def use_credentials(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Those of the environment, and no others of this machine. folder: has no such files."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(folder / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)


def make_settings(url: str, **changes: Any) -> ObjectStorage:
    """The settings of a node whose bucket is at this URL, and which may follow others there."""
    return ObjectStorage(
        **{"bucket": BUCKET, "endpoint_url": url, "region": "us-east-1", "private_origins": (url,)} | changes
    )


@dataclass
class HostileStorage:
    """A storage at `url` that answers as `answer` says. asked: the requests so far."""

    answer: Answer
    url: str = ""
    asked: list[web.BaseRequest] = field(default_factory=list)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator["HostileStorage"]:
        """It listens inside the block."""

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            self.asked.append(request)
            return await self.answer(request)

        runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield self
        finally:
            await runner.cleanup()


class NamingBucket(Bucket):
    """Sends who asks for it to one URL. sent: how often."""

    def __init__(self, location: str) -> None:
        super().__init__(ObjectStorage(), "", None, None)
        self.location, self.sent = location, 0

    async def find_url(self, account: str, key: BlobKey, *, is_member: bool, is_asked: bool) -> str:
        self.sent += is_asked
        return self.location if is_asked else ""
