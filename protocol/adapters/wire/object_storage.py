"""The settings of object storage (S3): of a node's own bucket, and of peers' buckets."""

import re
from contextlib import suppress

import msgspec
from yarl import URL

from touchstone.protocol.spec.errors import InvalidInput

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[A-Za-z0-9_-]{1,32}(?:/[A-Za-z0-9_-]{1,32}){0,3}")


class ObjectStorage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table [object_storage] of a home's `config.toml`. `bucket` is the name of this node's bucket, empty
    if it has none. `endpoint_url` is the URL of the storage, empty for Amazon S3. `prefix` is put before the
    names of objects. `follow` says whether to fetch from buckets of peers. `private_origins` are storages
    (SCHEME://HOST:PORT) that may have a private address or use plain http. Credentials come from the
    environment or from AWS's own files, never from this table."""

    bucket: str = ""
    endpoint_url: str = ""
    region: str = ""
    prefix: str = "touchstone"
    follow: bool = True
    private_origins: tuple[str, ...] = ()


def require_usable(settings: ObjectStorage) -> None:
    """Raises InvalidInput if a value is invalid. It does not show a value that may hold a password."""
    origins = [*settings.private_origins, *([settings.endpoint_url] if settings.endpoint_url else [])]
    if any(find_origin(text) is None for text in origins):
        raise _unusable("endpoint_url, private_origins", "SCHEME://HOST or SCHEME://HOST:PORT, nothing more")
    is_plain = settings.endpoint_url.startswith("http://")
    if is_plain and find_origin(settings.endpoint_url) not in map(find_origin, settings.private_origins):
        raise _unusable("endpoint_url", "https://, or an http:// origin that is also in private_origins")
    if settings.bucket and not _BUCKET.fullmatch(settings.bucket):
        raise _unusable("bucket", "3 to 63 small letters, digits, dots and hyphens")
    if not _PREFIX.fullmatch(settings.prefix):
        raise _unusable("prefix", "letters, digits, - and _, up to four parts with / between")


def _unusable(key: str, expected: str) -> InvalidInput:
    return InvalidInput(
        what="the object storage of this node cannot be used",
        expected=expected,
        actual="something else (not shown)",
        where=f"config.toml, object_storage: {key}",
        remedy="Correct it. Credentials go into the environment or into ~/.aws/credentials.",
    )


def find_origin(text: str) -> URL | None:
    """Returns the origin if the text is an origin and nothing more, else None."""
    with suppress(ValueError):
        url = URL(text)
        is_bare = url.path in ("", "/") and not url.query_string and not url.fragment
        if url.scheme in ("http", "https") and url.host and is_bare and not (url.user or url.password):
            return url.origin()
    return None
