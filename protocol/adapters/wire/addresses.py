"""Addresses of peers: whom one counts as, and which ones an endpoint may lead to."""

from contextlib import suppress
from ipaddress import IPv6Address, ip_address, ip_network


def find_caller(address: str) -> str:
    """Returns whom an address counts as where callers are told apart. Of version 6 the first 64 bits count:
    whoever has one address there has them all."""
    with suppress(ValueError):
        one = ip_address(address.partition("%")[0])
        inner = one.ipv4_mapped if isinstance(one, IPv6Address) else one
        return str(inner or ip_network(f"{one}/64", strict=False))
    return address
