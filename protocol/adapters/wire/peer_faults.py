"""Sorts failed requests to peers by whose fault they are."""

from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp

from touchstone.protocol.adapters.wire.clocks import PeerClocks
from touchstone.protocol.adapters.wire.json_answers import MAX_REFUSAL_BYTES, REFUSAL, RefusalAnswer
from touchstone.protocol.adapters.wire.lookups import NotLet
from touchstone.protocol.adapters.wire.peer import Peer, show
from touchstone.protocol.adapters.wire.tls_contexts import OtherCertificate
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault

WHO_MAY_READ = (
    "Any account may read the model after a round once it is settled, and the task's submitter before. "
    "Data of claims is for accounts with a stake, while the claim's window is open. Ask again then, or stake."
)
REMEDIES = {
    401: "Use the deployment file of the chain that the peer is on, and set this machine's clock right.",
    403: WHO_MAY_READ,
    409: "The node asks again: the peer may be behind on the chain.",
}
"""What the asking account can do, by the HTTP status of a refusal."""


class AnotherCertificate(ProtocolFault):
    """The server is not the peer, so its answer says nothing about the peer."""


class Refused(EnvironmentFault):
    """A peer refuses this request, for good or for now."""


class NotNow(Refused):
    """A peer refuses for now (status 409): it may be behind on the chain, or it was asked too often."""


class ClocksDiffer(Refused):
    """A peer refused a request because of the time in it. The next request is dated by the peer's clock."""


def blame(peer: Peer, path: str, what: str, expected: object, actual: object) -> ProtocolFault:
    """Returns the error that blames a peer for its answer to `path`. It uses nothing that the peer sent."""
    return ProtocolFault(
        what=what,
        expected=expected,
        actual=actual,
        where=peer.format_url(path),
        culprit=peer.account,
        remedy="Ask another peer, or report the blob as unserved.",
    )


@contextmanager
def sorted_errors(peer: Peer, path: str) -> Iterator[None]:
    """Translates errors of a request inside the `with` block into errors that say who is to blame."""
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        what, other = "another TLS certificate than the registered one", error.certificate_error
        shown = other.shown.hex() if isinstance(other, OtherCertificate) else str(other)
        fault = blame(peer, path, what, peer.fingerprint.hex(), shown)
        raise AnotherCertificate(**vars(fault)) from error
    except aiohttp.ClientResponseError as error:
        raise blame(peer, path, "the answer is not HTTP", "an HTTP answer", show(error.message)) from error
    except TimeoutError as error:
        raise _no_answer(peer, path, "no timely answer") from error
    except (aiohttp.ClientError, ConnectionError) as error:
        if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, NotLet):
            raise forbid_address(peer) from error
        raise _no_answer(peer, path, describe_reason(error)) from error


def describe_reason(error: Exception) -> str:
    """Describes why a connection failed, in the system's words, because aiohttp's text contains object
    names."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return show(getattr(cause, "strerror", None) or str(cause)) or type(error).__name__


def forbid_address(peer: Peer) -> EnvironmentFault:
    """Returns the error for an endpoint that leads to an address to which this node must not connect."""
    return EnvironmentFault(
        what=f"the endpoint of {peer.account} leads to an address that is not public",
        expected="a public address, or one of the private network in which this node's own endpoint lies",
        actual="an address that is neither",
        where=peer.url,
        remedy="This node does not connect to it. In a private network let all nodes announce addresses, not "
        "names (public_url in config.toml).",
        retryable=False,
    )


def _no_answer(peer: Peer, path: str, actual: str) -> EnvironmentFault:
    return EnvironmentFault(
        what=f"the peer {peer.account} is down or slow",
        expected="an answer",
        actual=actual,
        where=peer.format_url(path),
        remedy="The node asks again. If that fails, ask another peer or report the blob as unserved.",
    )


async def require_success(
    response: aiohttp.ClientResponse, peer: Peer, path: str, clocks: PeerClocks
) -> None:
    """Raises ProtocolFault or Refused if a peer's answer is not the requested one."""
    if response.status in (200, 206):
        return
    said = _parse_refusal(await read_at_most(response, MAX_REFUSAL_BYTES))
    is_told = response.status == 401 and said.unix_second is not None
    is_timed_anew = is_told and clocks.note_told(peer.account, said.unix_second or 0)
    parts = (("what", said.what), ("expected", said.expected), ("actual", said.actual))
    reason = show("; ".join(f"{name}: {text}" for name, text in parts if text))
    is_refusal = response.status >= 400
    if not is_refusal:
        raise blame(peer, path, "an answer that no honest server gives", "status 200 or 206", response.status)
    kind = ClocksDiffer if is_timed_anew else NotNow if response.status == 409 else Refused
    raise kind(
        what=f"the peer {peer.account} does not serve this request",
        expected="status 200",
        actual=f"status {response.status}: {reason}",
        where=peer.format_url(path),
        remedy=REMEDIES.get(response.status, "Ask again later, or ask another peer."),
        # 400, 413, 416: repeating does not help. 401: neither, unless the time was wrong. 403, 409: its
        # window may open. 429, 5xx: busy.
        retryable=is_timed_anew or response.status in (403, 409, 429) or response.status >= 500,
    )


async def read_at_most(response: aiohttp.ClientResponse, limit_bytes: int) -> bytes:
    """Returns the body, at most `limit_bytes` + 1 bytes of it."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > limit_bytes:
            break
    return bytes(body[: limit_bytes + 1])


def _parse_refusal(body: bytes) -> RefusalAnswer:
    try:
        return REFUSAL.decode(body)
    except ProtocolFault:
        return RefusalAnswer(body.decode(errors="replace"))
