"""Judges addresses of peers: how callers are counted, and where an endpoint may lead.

Any account can announce any endpoint. So a node follows an endpoint only to public addresses, or to addresses
of the private network in which its own endpoint lies, such as this machine in a test network. Anything else
could be a service of the node's own network, or its provider's metadata.
"""

from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

NAT64 = IPv6Network("64:ff9b::/96")
UNICAST = IPv6Network("2000::/3")
"""All public IPv6 addresses lie in this range: none that are local, compatible, mapped, translated or
reserved."""
SPECIAL = tuple(
    ip_network(text)
    for text in (
        "192.0.0.0/24",  # Assigned to protocols; metadata of Oracle's older machines.
        "192.88.99.0/24",  # Relays of 6to4.
        "168.63.129.16",  # Azure: each machine's own host.
        "2001::/23",  # Assigned to protocols, Teredo among them.
        "2002::/16",  # 6to4
        "3fff::/20",  # Documentation.
    )
)
"""Ranges that some or all versions of `ipaddress` wrongly call public."""
INNER = tuple(
    tuple(map(ip_network, group))
    for group in (
        ("127.0.0.0/8", "::1"),
        ("10.0.0.0/8",),
        ("172.16.0.0/12",),
        ("192.168.0.0/16",),
        ("100.64.0.0/10",),
        ("fc00::/7",),
    )
)
"""Private networks: this machine, and the usual ranges of a house or a firm."""


def is_public(address: str) -> bool:
    """Returns whether an IP address is public, and any IPv4 address inside it too."""
    with suppress(ValueError):
        one = ip_address(address)
        if one in NAT64:
            one = IPv4Address(one.packed[-4:])
        is_usual = one.is_global and not one.is_multicast and not any(one in net for net in SPECIAL)
        return is_usual and (isinstance(one, IPv4Address) or one in UNICAST)
    return False


def may_lead_to(address: str, own_host: str) -> bool:
    """Returns whether a peer's endpoint may lead to an address. `own_host` is the host of this node's own
    endpoint. A name in `own_host` never counts as private, because its owner chooses the address."""
    if is_public(address):
        return True
    with suppress(ValueError):
        both = ip_address(address), ip_address(own_host)
        return any(all(any(one in network for network in group) for one in both) for group in INNER)
    return False


LINE_BITS, NETWORK_BITS = 48, 64
"""Leading bits of an IPv6 address that name an internet line, and a network. A line gets 256 or 65,536
networks (RIPE 690), and the owner of one address in a network has all of its addresses."""


def find_caller(address: str, bits: int = LINE_BITS) -> str:
    """Returns the key under which callers from an address are counted. `bits` is how many bits of an IPv6
    address count."""
    with suppress(ValueError):
        one = ip_address(address.partition("%")[0])
        inner = one.ipv4_mapped if isinstance(one, IPv6Address) else one
        return str(inner or ip_network(f"{one}/{bits}", strict=False))
    return address
