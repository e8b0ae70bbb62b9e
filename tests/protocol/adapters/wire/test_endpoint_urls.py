"""What an endpoint is: where another machine finds this node, and nothing besides."""

import pytest

from touchstone.protocol.adapters.wire.endpoint_urls import (
    MAX_URL_CHARACTERS,
    choose_endpoint,
    find_endpoint_fault,
)
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.spec.errors import InvalidInput, ProtocolFault

GOOD = [
    "https://node.example",
    "https://node.example:8443/",
    "https://my_node-1.example.",
    "https://localhost:1",
    "https://10.0.0.1:65535",
    "https://[::1]:8443",
    "https://[2001:db8::10]",
    "https://" + "a." * 100 + "example:8443",
]
BAD = [
    "",
    " https://a",
    "https://a ",
    "http://a",
    "a:8443",
    "https://",
    "https://:8443",
    "https://a/path",
    "https://a//",
    "https://a?",
    "https://a?x=1",
    "https://a#",
    "https://a#x",
    "https://@a",
    "https://user@a",
    "https://user:word@a",
    "https://a:",
    "https://a:0",
    "https://a:65536",
    "https://a:+80",
    "https://a\r\nHost: b",
    "https://a b",
    "https://\u00e4",
    "https://a..b",
    "https://-a",
    "https://" + "a" * 64 + ".example",
    "https://" + "a." * MAX_URL_CHARACTERS + "example",
    "https://::1:8443",
    "https://[::1",
    "https://[::g]",
    "https://[fe80::1%eth0]",
    "https://[127.0.0.1]",
    "https://300.1.1.1",
    "https://127.1",
]
NOWHERE = [
    "https://0.0.0.0",
    "https://0.0.0.0:8443/",
    "https://[::]:8443",
    "https://[0:0:0:0:0:0:0:0]",
    "https://[::ffff:0.0.0.0]",
    "https://0:8443",
    "https://0x0:8443",
    "https://00.0.0.0",
]


@pytest.mark.parametrize("url", GOOD)
def test_an_endpoint_is_https_a_host_and_a_port(url: str) -> None:
    assert not find_endpoint_fault(url)
    assert Peer("0xa", url, bytes(32)).url == url
    assert choose_endpoint("", 0, url) == url


@pytest.mark.parametrize("url", [*BAD, *NOWHERE])
def test_what_no_peer_can_use_is_refused_by_its_owner_and_by_its_readers(url: str) -> None:
    assert find_endpoint_fault(url)
    with pytest.raises(ProtocolFault, match="0xa: the registered endpoint is malformed"):
        Peer("0xa", url, bytes(32))
    if url:
        with pytest.raises(InvalidInput) as refusal:
            choose_endpoint("127.0.0.1", 8443, url)
        assert "--public-url https://" in refusal.value.remedy


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "https://127.0.0.1:8443"),
        ("node.example", "https://node.example:8443"),
        ("::1", "https://[::1]:8443"),
        ("2001:db8::10", "https://[2001:db8::10]:8443"),
    ],
)
def test_where_a_node_listens_is_what_it_announces(host: str, url: str) -> None:
    assert choose_endpoint(host, 8443, "") == url


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "0", "::ffff:0.0.0.0", "fe80::1%eth0", "a b", "[::1]"])
def test_who_listens_everywhere_says_where_it_is_found(host: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        choose_endpoint(host, 8443, "")
    assert "--public-url https://" in refusal.value.remedy and "--listen-host" in refusal.value.remedy
    assert choose_endpoint(host, 8443, "https://node.example") == "https://node.example"


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_does_not_exist_is_refused(port: int) -> None:
    with pytest.raises(InvalidInput, match=str(port)):
        choose_endpoint("127.0.0.1", port, "")
