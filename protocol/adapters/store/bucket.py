"""Keeps copies of blobs in this node's bucket in object storage (S3), and sends peers there.

A node with a home connection uploads a blob once. Then each peer that may read it gets a presigned URL
instead of the bytes. The bucket is private, and a URL is valid for a minute. The disk keeps every blob too,
so a peer gets the bytes from there if the storage fails.
"""

import asyncio
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from touchstone.protocol.adapters.machine.extra_libraries import load_extra
from touchstone.protocol.adapters.store.blobs import BlobKey, BlobKind
from touchstone.protocol.adapters.wire.limits import RateLimit
from touchstone.protocol.adapters.wire.object_storage import ObjectStorage, require_usable
from touchstone.protocol.adapters.wire.peer import show
from touchstone.protocol.adapters.wire.request_paths import MAX_LOCATION_CHARACTERS
from touchstone.protocol.adapters.wire.storage_reader import CONNECT_S
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput

READ_S = 30.0
PART_BYTES = 64 * 1024 * 1024
"""Larger blobs are uploaded in parts of this size. A storage shows a blob once it has all parts."""
UPLOADS = 2
"""Uploads at once. A dataset may take hours, and a pseudo-gradient is needed within minutes."""
URL_SECONDS = 60
"""A download must begin within this many seconds, so a URL is worth nothing if it is passed on."""
SIGNING_S = 2.0
"""Seconds to sign a URL, since credentials may have to be renewed first; after that the bytes are sent. The
storage has the same time to say if a copy is still there."""
AGAIN_S = 600.0
"""Seconds before a copy that the storage did not take is sent again, because peers need the bandwidth."""
MOST_ANSWERED_BYTES = 8 * 1024 * 1024
"""The most bytes of one answer. boto3 reads an answer whole into memory, and a page of a list is shorter."""
MOST_LISTED = 1024
"""The most objects, and the most unfinished uploads, that are looked at, because a list may have no end."""
URLS_OF_A_BLOB, STRANGERS_URLS, HOUR_S = 3, 16, 3600.0
"""URLs given out in an hour: of one blob to each member, and of all blobs to all strangers together. The
bucket's owner may pay for each download, and an account costs nothing. An object that peers could not use is
uploaded again, once an hour at most."""
MOST_SHOWN = 1024
"""How many of the last URLs are remembered, by account and blob."""

_NAME = re.compile("(" + "|".join(kind.value for kind in BlobKind) + ")/([0-9a-f]{64})")

log = logging.getLogger(__name__)


@dataclass
class Bucket:
    """Copies of an account's blobs in object storage. One event loop uses its state. `there` is the known
    contents of the bucket, None before the first look."""

    settings: ObjectStorage
    account: str
    client: Any
    """A client of boto3."""
    anonymous: Any
    """A client of boto3 without credentials."""
    there: dict[BlobKey, int] | None = None
    """Bytes of each copy in the bucket, by key."""
    _marks: dict[BlobKey, str] = field(default_factory=dict)
    """The storage's mark (ETag) of each copy; other bytes have another mark."""
    _again_at: dict[BlobKey, float] = field(default_factory=dict)
    """When to send a copy again after the storage did not take it, in monotonic seconds."""
    _is_closed: bool = False
    _has_failed: bool = False
    """Whether the last look at the bucket failed."""
    _uploads: "_Threads" = field(default_factory=lambda: _Threads(UPLOADS))
    _signers: "_Threads" = field(default_factory=lambda: _Threads(2))
    _checks: "_Threads" = field(default_factory=lambda: _Threads(2))
    _shown: OrderedDict[tuple[str, BlobKey], None] = field(default_factory=OrderedDict)
    _members: RateLimit = field(default_factory=lambda: RateLimit(URLS_OF_A_BLOB / HOUR_S, URLS_OF_A_BLOB))
    _strangers: RateLimit = field(default_factory=lambda: RateLimit(STRANGERS_URLS / HOUR_S, STRANGERS_URLS))
    _doubts: RateLimit = field(default_factory=lambda: RateLimit(1 / HOUR_S, 1))

    @classmethod
    def open(cls, settings: ObjectStorage, account: str) -> "Bucket":
        """Returns the bucket of `account` (lower-case address), without asking it anything yet. Raises
        InvalidInput if the settings are invalid, or the extra [s3] is not installed."""
        require_usable(settings)
        # At these levels they would log requests with their signatures.
        for name in ("boto3", "botocore", "s3transfer", "urllib3"):
            logging.getLogger(name).setLevel(logging.WARNING)
        return cls(settings, account, *_make_clients(settings))

    def close(self) -> None:
        """Cancels running calls. It does not wait for a storage that does not answer."""
        self._is_closed = True
        self._uploads.close()
        self._signers.close()
        self._checks.close()

    async def learn(self) -> dict[BlobKey, int]:
        """Returns this account's blobs in the bucket: bytes by key. Removes interrupted uploads. Raises
        InvalidInput if anybody may read the bucket, EnvironmentFault if it cannot be used."""
        found = await self._uploads.run(self._look)
        self.there = {key: size for key, (size, _) in found.items()}
        self._marks = {key: mark for key, (_, mark) in found.items()}
        return self.there

    def may_upload(self, key: BlobKey) -> bool:
        """Returns whether to send this copy now. A copy that the storage has taken and lost is not sent again
        for a while."""
        return time.monotonic() >= self._again_at.get(key, 0.0)

    async def put(self, key: BlobKey, path: Path) -> None:
        """Uploads a blob from its file; from then on peers are sent to the bucket. Raises EnvironmentFault,
        and counts the copy as missing, unless the storage has all of the blob."""
        sent = list[int]()
        try:
            size, mark = await self._uploads.run(partial(self._upload, self._name(key), path, sent))
        except EnvironmentFault:
            if sent:
                self._again_at[key] = time.monotonic() + AGAIN_S
            raise
        assert self.there is not None, "learn() comes first"
        self.there[key], self._marks[key] = size, mark
        self._again_at.pop(key, None)

    async def remove(self, keys: Collection[BlobKey]) -> None:
        """Deletes copies. Raises EnvironmentFault if the storage refuses; even then peers are not sent to
        them any more."""
        for key in keys:
            (self.there or {}).pop(key, None)
            self._marks.pop(key, None)
            await self._uploads.run(partial(self._delete, self._name(key)))

    async def find_url(self, account: str, key: BlobKey, *, is_member: bool, is_asked: bool) -> str:
        """Returns the URL of this blob for `account`, which may read it; empty if this node must send the
        bytes. `is_asked` says that the account follows URLs. If it comes back and asks for the bytes, the
        storage is asked; a copy that is missing or changed there must be uploaded again. The peer's claim
        that a copy is bad does not count, because an account costs nothing."""
        if self.there is None or key not in self.there:
            return ""
        if not is_asked:
            is_doubted = (account, key) in self._shown and self._doubts.try_take(str(key))
            if is_doubted and not await self._is_kept(key):
                log.info("%s could not use the copy of %s: it is uploaded again", account, key)
                self.there.pop(key, None)
            return ""
        limit, caller = (self._members, f"{account} {key}") if is_member else (self._strangers, "")
        if not limit.try_take(caller):
            return ""
        try:
            async with asyncio.timeout(SIGNING_S):
                url = str(await self._signers.run(partial(self._sign, self._name(key))))
        except (TimeoutError, EnvironmentFault) as fault:
            log.warning("no URL can be signed: %s", str(fault) or "it takes too long")
            return ""
        self._shown[account, key] = None
        if len(self._shown) > MOST_SHOWN:
            self._shown.popitem(last=False)
        return url if len(url) <= MAX_LOCATION_CHARACTERS else ""

    def _name(self, key: BlobKey) -> str:
        return f"{self.settings.prefix}/{self.account}/{key}"

    async def _is_kept(self, key: BlobKey) -> bool:
        """Returns whether the storage says that it still has a copy, unchanged since it was uploaded or first
        seen."""
        with suppress(TimeoutError, EnvironmentFault):
            async with asyncio.timeout(SIGNING_S):
                said = await self._checks.run(partial(self._stat, self._name(key)))
            return bool(said == ((self.there or {}).get(key), self._marks.get(key)))
        return False

    # These run in threads.
    def _sign(self, name: str) -> str:
        place = {"Bucket": self.settings.bucket, "Key": name}
        with _sorted_errors(self.settings):
            return str(self.client.generate_presigned_url("get_object", place, ExpiresIn=URL_SECONDS))

    def _look(self) -> dict[BlobKey, tuple[int, str]]:
        if self._has_failed:  # A client without credentials never looks for them again.
            self.client, self.anonymous = _make_clients(self.settings)
        self._has_failed = True
        whose, found = {"Bucket": self.settings.bucket}, dict[BlobKey, tuple[int, str]]()
        folder = f"{self.settings.prefix}/{self.account}/"
        with _sorted_errors(self.settings):
            probe = {**whose, "Key": f"{folder}probe"}
            self.client.put_object(**probe, Body=b"touchstone")
            self._refuse_public(probe)
            for cut in self._list("list_multipart_uploads", "Uploads", folder):
                broken = {"Key": cut["Key"], "UploadId": cut["UploadId"]}
                self.client.abort_multipart_upload(**whose, **broken)
            for one in self._list("list_objects_v2", "Contents", folder):
                if match := _NAME.fullmatch(one["Key"].removeprefix(folder)):
                    key = BlobKey(BlobKind(match[1]), bytes.fromhex(match[2]))
                    found[key] = int(one["Size"]), str(one.get("ETag", ""))
        self._has_failed = False
        return found

    def _list(self, call: str, what: str, folder: str) -> Iterator[dict[str, Any]]:
        """Yields the objects below `folder`, at most MOST_LISTED."""
        pages = self.client.get_paginator(call).paginate(Bucket=self.settings.bucket, Prefix=folder)
        some = islice(pages, MOST_LISTED)  # A page may be empty.
        return islice((one for page in some for one in page.get(what, ())), MOST_LISTED)

    def _refuse_public(self, probe: dict[str, str]) -> None:
        """Raises InvalidInput if anybody can read an object without credentials."""
        try:
            self.anonymous.get_object(**probe)
        except _load("botocore.exceptions").ClientError:
            return
        raise InvalidInput(
            what="anybody may read this bucket",
            expected="a private bucket: a claim's pseudo-gradient is shown to nobody before its round closes",
            actual="an object that was read without credentials",
            where=_describe_place(self.settings),
            remedy="Block public access to it (policy and access lists), or use another bucket.",
        )

    def _upload(self, name: str, path: Path, sent: list[int]) -> tuple[int, str]:
        """Returns length and mark of the copy. `sent` gets an item once some of it left this machine."""
        place = self.settings.bucket, name
        parts = _load("boto3.s3.transfer").TransferConfig(
            multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, use_threads=False
        )
        with _sorted_errors(self.settings):
            size = path.stat().st_size
            stop = partial(self._stop_if_closed, sent)
            self.client.upload_file(str(path), *place, Config=parts, Callback=stop)
        stored, mark = self._stat(name)
        if stored != size:
            raise _no_storage(self.settings, f"{stored} of {size} bytes", "the whole blob")
        return size, mark

    def _stat(self, name: str) -> tuple[int, str]:
        with _sorted_errors(self.settings):
            said = self.client.head_object(Bucket=self.settings.bucket, Key=name)
            return int(said["ContentLength"]), str(said.get("ETag", ""))

    def _stop_if_closed(self, sent: list[int], sent_bytes: int) -> None:
        if self._is_closed:
            raise OSError(f"the node stops; it has just sent {sent_bytes} bytes more")
        if not sent:
            sent.append(sent_bytes)

    def _delete(self, name: str) -> None:
        with _sorted_errors(self.settings):
            self.client.delete_object(Bucket=self.settings.bucket, Key=name)


class _Threads:
    """Threads that run one call after the other. The process ends without waiting for them, because a storage
    may never answer."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._threads: list[Thread] = []
        self._is_closed = False
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()

    async def run(self, act: Callable[[], Any]) -> Any:
        """Runs `act` in a thread, and returns its result or raises its error. A call that is cancelled before
        its turn never runs. Do not use it after `close`."""
        assert not self._is_closed, "the threads have ended"
        if len(self._threads) < self._most:
            self._threads.append(Thread(target=self._work, daemon=True))
            self._threads[-1].start()
        done = Future[Any]()
        self._calls.put((done, act))
        return await asyncio.wrap_future(done)

    def close(self) -> None:
        """Starts no more calls."""
        self._is_closed = True
        with suppress(Empty):
            while call := self._calls.get_nowait():
                call[0].cancel()
        for _ in self._threads:
            self._calls.put(None)

    def _work(self) -> None:
        while call := self._calls.get():
            done, act = call
            if done.set_running_or_notify_cancel():
                try:
                    done.set_result(act())
                except BaseException as error:
                    done.set_exception(error)


def _load(module: str) -> Any:
    """Returns a module of the extra [s3]."""
    return load_extra(module, "a bucket (config.toml, object_storage)", "s3")


def _make_clients(settings: ObjectStorage) -> tuple[Any, Any]:
    """Returns two boto3 clients for the storage: with the present credentials, and without any. Raises
    InvalidInput without the extra [s3], EnvironmentFault if boto3 rejects the settings."""
    boto3, config = _load("boto3"), _load("botocore.config").Config
    common: dict[str, Any] = {
        "connect_timeout": CONNECT_S,
        "read_timeout": READ_S,
        "retries": {"total_max_attempts": 2, "mode": "standard"},
        "s3": {"addressing_style": "path" if settings.endpoint_url else "auto"},
        # Other storages than Amazon's do not know the newer checksums.
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
    }
    place = {"endpoint_url": settings.endpoint_url or None, "region_name": settings.region or None}
    unsigned = _load("botocore").UNSIGNED
    with _sorted_errors(settings):
        make = partial(boto3.session.Session().client, "s3", **place)
        versions = "s3v4", unsigned
        clients = [make(config=config(signature_version=one, **common)) for one in versions]
        for client in clients:
            act = partial(_send_bounded, client._endpoint.http_session.send)
            client.meta.events.register("before-send.s3", act)
    return clients[0], clients[1]


def _send_bounded(send: Callable[[Any], Any], request: Any, **_: Any) -> Any:
    """Sends in place of boto3, and cuts off answers that are too long."""
    request.stream_output = True  # The answer is read later, through `stream`.
    response = send(request)
    read = response.raw.stream

    def stream(*arguments: Any, **named: Any) -> Iterator[bytes]:
        """Yields the pieces of an answer, up to the limit."""
        left = MOST_ANSWERED_BYTES
        for piece in read(*arguments, **named):
            left -= len(piece)
            if left < 0:
                response.raw.close()
                raise OSError("the answer is too long")
            yield piece

    response.raw.stream = stream
    return response


@contextmanager
def _sorted_errors(settings: ObjectStorage) -> Iterator[None]:
    """Turns errors of boto3 into this project's, by kind alone, because their texts may hold URLs or a
    credential program's output. Any other exception inside boto3 is turned too: a storage and such a program
    may answer anything."""
    kinds = _load("botocore.exceptions")
    try:
        yield
    except (kinds.ClientError, kinds.BotoCoreError, _load("boto3.exceptions").Boto3Error) as error:
        inner = error.__context__ if isinstance(error.__context__, kinds.ClientError) else error
        said = inner.response.get("Error", {}) if isinstance(inner, kinds.ClientError) else {}
        raise _no_storage(settings, show(str(said.get("Code", type(inner).__name__)))) from None
    except (InvalidInput, EnvironmentFault):
        raise
    except Exception as error:
        raise _no_storage(settings, type(error).__name__) from None


def _no_storage(settings: ObjectStorage, actual: str, expected: str = "an answer") -> EnvironmentFault:
    return EnvironmentFault(
        what="this node's bucket cannot be used",
        expected=expected,
        actual=actual,
        where=_describe_place(settings),
        remedy=(
            "Peers get the bytes from this node meanwhile. Check the bucket, and the credentials in the "
            "environment or in ~/.aws/credentials."
        ),
    )


def _describe_place(settings: ObjectStorage) -> str:
    return f"{settings.endpoint_url or 'Amazon S3'}, bucket {settings.bucket}"
