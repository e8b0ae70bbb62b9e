"""Decides which URLs an endpoint may have.

An endpoint is the address under which a node's peers connect to it, announced on chain. One rule holds for
both sides: a node refuses to announce what its peers would refuse to use.
"""

import re
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from touchstone.protocol.spec.errors import InvalidInput

MAX_URL_CHARACTERS = 256
MAX_PORT = 65535
ANY_PORT = 0
"""The port number that takes any free port."""
FORM = "https://HOST or https://HOST:PORT"
_URL = re.compile(r"(?i:https)://(?:\[(?P<address>[^\[\]/]*)\]|(?P<name>[^\[\]/:]*))(?::(?P<port>\d+))?/?")
_NAME = re.compile(r"(?:(?!-)[A-Za-z0-9_-]{1,63}\.)*(?!-)[A-Za-z0-9_-]{1,63}\.?")
_NUMBER = re.compile(r"(?:\d+|0[xX][0-9A-Fa-f]*)\.?")
"""If the last part of a host is such a number, the host is an address, never a name."""


def find_endpoint_fault(url: str) -> str:
    """Returns why peers cannot use this URL as an endpoint; empty if they can."""
    if len(url) > MAX_URL_CHARACTERS:
        return f"{len(url)} characters, more than {MAX_URL_CHARACTERS}"
    found = _URL.fullmatch(url) if url.isascii() and url.isprintable() else None
    if found is None:
        return f"not of the form {FORM}"
    if found["port"] and not 1 <= int(found["port"]) <= MAX_PORT:
        return f"{found['port']} is no port"
    return _find_host_fault(found["address"] or found["name"] or "", in_brackets=found["address"] is not None)


def _find_host_fault(host: str, *, in_brackets: bool) -> str:
    with suppress(ValueError):
        address = ip_address(host)
        inner = address.ipv4_mapped or address if isinstance(address, IPv6Address) else address
        if inner.is_unspecified:
            return (
                f"{host} stands for every address of the machine itself: no other machine can connect to it"
            )
        if "%" in host:
            return f"{host} names a network card of one machine, and no other machine can connect to it"
        return "" if isinstance(address, IPv6Address) == in_brackets else f"{host!r} is no host"
    is_name = _NAME.fullmatch(host) and not _NUMBER.fullmatch(host.rstrip(".").rsplit(".", 1)[-1])
    return "" if is_name and not in_brackets else f"{host!r} is no host"


def choose_endpoint(listen_host: str, listen_port: int, public_url: str) -> str:
    """Returns the endpoint of a node: `public_url`, or the address where it listens if that is empty. Raises
    InvalidInput if no peer could use it. `listen_port` is ANY_PORT before the port is known; then the URL has
    none."""
    host = f"[{listen_host}]" if ":" in listen_host else listen_host
    url = public_url or f"https://{host}" + (f":{listen_port}" if listen_port != ANY_PORT else "")
    fault = find_endpoint_fault(url)
    if fault:
        raise InvalidInput(
            what="no peer could use the endpoint of this node",
            expected=f"{FORM}, where other machines reach it",
            actual=f"{url!r}: {fault}",
            remedy=(
                "Use `touchstone init` with --public-url https://HOST:PORT, or with --listen-host and one "
                "address of this machine; for a home that exists, set public_url or listen_host in its "
                "config.toml."
            ),
        )
    return url


def find_own_host(listen_host: str, public_url: str) -> str:
    """Returns the host of the endpoint that `choose_endpoint` chooses, without checking the URL."""
    with suppress(ValueError):
        return (urlsplit(public_url).hostname or "") if public_url else listen_host
    return ""
