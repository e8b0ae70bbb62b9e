import aiohttp
import pytest

from touchstone.protocol.adapters.wire.peer import Peer, show
from touchstone.protocol.adapters.wire.peer_faults import sorted_errors
from touchstone.protocol.adapters.wire.session import PeerSession, RetryPolicy
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault

PIN = bytes(32)


# What an endpoint is: test_endpoint_urls.py.
@pytest.mark.parametrize("url", ["https://node.example", "https://10.0.0.1:8443/", "https://[::1]:8443"])
def test_plain_https_endpoints_are_taken(url: str) -> None:
    assert Peer("0xa", url, PIN).format_url("/status") == url.rstrip("/") + "/status"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://node.example",
        "file:///etc/passwd",
        "https://",
        "https://a/path",
        "https://a?x=1",
        "https://a#x",
        "https://user:word@a",
        "https://a:99999",
        "https://a:0",
        "https://a\r\nHost: b",
        "https://\u00e4",
        "https://" + "a" * 300,
    ],
)
def test_other_endpoints_are_their_owners_fault(url: str) -> None:
    with pytest.raises(ProtocolFault, match="0xa: the registered endpoint is malformed"):
        Peer("0xa", url, PIN)


def test_a_fingerprint_has_32_bytes() -> None:
    with pytest.raises(ProtocolFault, match="20 bytes"):
        Peer("0xa", "https://a", bytes(20))


def test_pauses_double_up_to_a_limit() -> None:
    retry_policy = RetryPolicy(first_pause_s=1, longest_pause_s=5)
    assert [retry_policy.compute_pause_s(n) for n in (1, 2, 3, 4, 2000)] == [1, 2, 4, 5, 5]


def make_fault(*, retryable: bool = True) -> EnvironmentFault:
    return EnvironmentFault(what="w", expected="e", actual="a", remedy="r", retryable=retryable)


async def count_attempts(error: Exception, progress: list[int] | None = None) -> int:
    attempts = 0

    async def act() -> None:
        nonlocal attempts
        attempts += 1
        raise error

    steps = iter(progress or [])
    session = PeerSession(RetryPolicy(attempts=3, first_pause_s=0))
    with pytest.raises(type(error)):
        await session.try_often(act, lambda: next(steps, 0))
    return attempts


async def test_faults_of_the_environment_are_tried_again() -> None:
    assert await count_attempts(make_fault()) == 3


async def test_faults_of_a_peer_are_not() -> None:
    assert await count_attempts(ProtocolFault(what="w", expected="e", actual="a", remedy="r")) == 1
    assert await count_attempts(make_fault(retryable=False)) == 1


async def test_progress_renews_patience() -> None:
    step = 1 << 20
    # Read once at the start, then twice for each failure.
    assert await count_attempts(make_fault(), [0, step, step, 2 * step, 2 * step, 2 * step, 2 * step]) == 4


def test_a_strangers_text_is_made_harmless() -> None:
    assert show("ok\x1b[31m\n\u202ex" + "y" * 1000) == ("ok?[31m??x" + "y" * 1000)[:297] + "yyy"[: 300 - 297]


async def test_a_peer_that_is_down_is_told_in_words_of_the_system() -> None:
    peer = Peer("0x" + "1" * 40, "https://127.0.0.1:1", bytes(32))
    with pytest.raises(EnvironmentFault, match="down or slow") as fault, sorted_errors(peer, "/status"):
        async with aiohttp.ClientSession() as session:
            await session.get("https://127.0.0.1:1/status", ssl=aiohttp.Fingerprint(bytes(32)))
    assert "Connect call failed" in str(fault.value.actual) and "object at" not in str(fault.value)
