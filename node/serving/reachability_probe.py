"""Probes the endpoint of a peer that asks whether others reach it.

A machine cannot see a firewall or a router in front of itself. So any node, when asked, probes the endpoint
that the asking account has announced on chain: it makes one TLS handshake, and sends nothing after it.

This node itself can be reached once it listens and has announced its endpoint.
"""

import asyncio
import errno
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_network
from urllib.parse import urlsplit

from touchstone.node.kit.chain_state import ChainState
from touchstone.protocol.adapters.wire.addresses import NETWORK_BITS, find_caller, is_public, may_lead_to
from touchstone.protocol.adapters.wire.limits import RateLimit, StreamLimit, Turns
from touchstone.protocol.adapters.wire.lookups import OwnResolver
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.reach_messages import (
    MAX_REACH_BYTES,
    REACH,
    REACH_ASKED,
    Reach,
    ReachSaid,
)
from touchstone.protocol.adapters.wire.request_handler import RequestHandler
from touchstone.protocol.adapters.wire.storage_reader import FREE_PORTS, TLS_PORT
from touchstone.protocol.adapters.wire.tls_contexts import fetch_fingerprint
from touchstone.protocol.spec.errors import EnvironmentFault

LOOKUP_S, CONNECT_S = 5.0, 5.0
"""Seconds to look up the name of an endpoint, and for all connections to it together."""


ACCOUNT_S = 60.0
"""Seconds between two probes for the same account."""


DAY_S, DAY_LOOKS = 86_400.0, 24
"""The most probes for an account in a day. Announcing a URL takes a transaction, but the owner of a name may
point it to another address for each probe. Without this limit a few accounts could make a node search the
internet for hours."""


ADDRESS_S, ADDRESS_BURST = 15.0, 4
"""Seconds between two connections to the same address, whoever asks, and how many unused ones add up."""


ADDRESS_STRANGERS_S, ADDRESS_STRANGERS_BURST = 30.0, 2
"""The limits on an address for accounts outside this node's task, so that a stranger who announces a member's
address does not use up the member's probes."""


STRANGERS_S, STRANGERS_BURST = 2.0, 4
"""The limits for all accounts outside this node's task together, because an account costs nothing."""


MEMBERS_AT_ONCE, STRANGERS_AT_ONCE = 8, 2


TURN_S = 2.0
"""Seconds after which a probe for a stranger is given up if another one waits."""


class ReachabilityProbe:
    """Tells an account whether this node reaches its endpoint. The URL is read from the chain.

    An account may announce another's address, or one in this node's own network. So it learns nothing about
    private addresses, and probes are few: too few to search ports or to flood anybody."""

    def __init__(
        self, chain_state: ChainState, account: str, is_member: Callable[[str], bool],
        now: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """Prepares the probe. `account` is this node's own. `is_member` says whether an account takes part in
        its task. `now` returns seconds of a monotonic clock."""
        self._chain_state, self._account, self._is_member = chain_state, account, is_member
        self._resolver = OwnResolver()
        self._accounts = RateLimit(1 / ACCOUNT_S, 1, now)
        self._days = RateLimit(DAY_LOOKS / DAY_S, DAY_LOOKS, now)
        self._addresses = RateLimit(1 / ADDRESS_S, ADDRESS_BURST, now)
        self._strange_addresses = RateLimit(1 / ADDRESS_STRANGERS_S, ADDRESS_STRANGERS_BURST, now)
        self._strangers = RateLimit(1 / STRANGERS_S, STRANGERS_BURST, now)
        self._member_looks = StreamLimit(1, MEMBERS_AT_ONCE)
        self._strange_looks = Turns(STRANGERS_AT_ONCE, TURN_S)

    async def close(self) -> None:
        """Stops looking up names."""
        await self._resolver.close()

    def make_handlers(self) -> dict[str, RequestHandler]:
        """Returns the handler that answers the request, by name."""
        return {REACH: RequestHandler(MAX_REACH_BYTES, self.answer)}

    async def answer(self, account: str, body: bytes) -> ReachSaid:
        """Returns what this node sees at the endpoint of `account`. Raises EnvironmentFault if the account
        has announced none, or asked too often."""
        REACH_ASKED.decode(body, account)
        peer, is_member = self._chain_state.network.find(account), self._is_member(account)
        try:
            async with self._hold_look(account, is_member=is_member) as is_held:
                is_turn = is_held and self._accounts.try_take(account) and self._days.try_take(account)
                if not is_turn or not (is_member or self._strangers.try_take("")):
                    raise _not_now(account)
                reach, address = await self._look(peer, is_member=is_member)
        except TimeoutError as error:
            raise _not_now(account) from error
        return ReachSaid(peer.url, peer.fingerprint, reach, address)

    @asynccontextmanager
    async def _hold_look(self, account: str, *, is_member: bool) -> AsyncIterator[bool]:
        if is_member:
            with self._member_looks.hold(account) as is_held:
                yield is_held
        else:
            async with self._strange_looks.hold(account, account) as is_held:
                yield is_held

    async def _look(self, peer: Peer, *, is_member: bool) -> tuple[Reach, str]:
        """Returns what the probe sees, and at which address. It tries the first IPv4 and the first IPv6
        address of the name until the peer answers."""
        place = urlsplit(peer.url)
        host, port = place.hostname or "", place.port or TLS_PORT
        if port != TLS_PORT and port < FREE_PORTS:
            return Reach.NOT_LOOKED, ""
        try:
            async with asyncio.timeout(LOOKUP_S):
                found = await self._resolver.resolve(host, port)
        except UnicodeError:  # The whole name is too long.
            return Reach.NO_ADDRESS, ""
        except OSError as error:
            is_unknown = error.errno in (socket.EAI_NONAME, socket.EAI_NODATA)
            return (Reach.NO_ADDRESS if is_unknown else Reach.NOT_LOOKED), ""
        # One answer for both cases, or the asker could find out which names this node's network has.
        if not all(self._may_look_at(one["host"]) for one in found):
            return Reach.NO_ADDRESS, ""
        first = dict[int, str]()
        for one in found:
            first.setdefault(one["family"], one["host"])
        addresses, seen = list(first.values()), (Reach.NOT_LOOKED, "")
        if any(map(self._is_near, addresses)):
            return seen
        if not all(self._try_take(address, is_member=is_member) for address in addresses):
            raise _not_now(host)
        for address in addresses:
            reach = await probe_endpoint(address, port, host, peer.fingerprint, CONNECT_S / len(addresses))
            if reach is Reach.REACHED or seen[0] is Reach.NOT_LOOKED:
                seen = reach, address
            if reach is Reach.REACHED:
                break
        return seen

    def _try_take(self, address: str, *, is_member: bool) -> bool:
        """Returns whether an address may get one more connection now. For IPv6 its whole /64 network counts;
        in a data centre the next one belongs to somebody else."""
        caller = find_caller(address, NETWORK_BITS)
        is_let = is_member or self._strange_addresses.try_take(caller)
        return is_let and self._addresses.try_take(caller)

    def _is_near(self, address: str) -> bool:
        """Returns whether a public address lies in this machine's own network. One firewall may stand in
        front of both. This machine's connections do not pass it. So a probe would mislead, and reveal to the
        asker what is behind the firewall."""
        own = find_source(address) if is_public(address) else ""
        return bool(own) and _find_place(own) == _find_place(address)

    def _may_look_at(self, address: str) -> bool:
        own = self._chain_state.network.peers.get(self._account)
        return may_lead_to(address, "" if own is None else urlsplit(own.url).hostname or "")


def find_source(address: str) -> str:
    """Returns the own address from which this machine would connect to another one; empty if it cannot. Sends
    nothing."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.connect((address, TLS_PORT))
        return str(asking.getsockname()[0])
    return ""


def _find_place(address: str) -> object:
    """Returns the network of an address, about the size of one house or firm: 256 IPv4 addresses, or the IPv6
    addresses with the same first 64 bits."""
    bits = 64 if ":" in address else 24
    return ip_network(f"{address}/{bits}", strict=False)


async def probe_endpoint(address: str, port: int, name: str, fingerprint: bytes, within_s: float) -> Reach:
    """Makes one connection and returns its result: the certificate with this SHA-256, or something else.
    `name` is the name of the server."""
    try:
        async with asyncio.timeout(within_s):
            found = await fetch_fingerprint(address, port, name.rstrip("."))
    except TimeoutError:
        return Reach.SILENT
    except ConnectionRefusedError:
        return Reach.REFUSED
    except (ssl.SSLError, ConnectionError):
        return Reach.OTHER
    except OSError as error:
        # A firewall may answer so instead of refusing. Otherwise this machine has no such network, or no free
        # file.
        return Reach.REFUSED if error.errno == errno.EHOSTUNREACH else Reach.NOT_LOOKED
    return Reach.REACHED if found == fingerprint else Reach.OTHER


def _not_now(whom: str) -> EnvironmentFault:
    return EnvironmentFault(
        what="this node probes no endpoint for you now",
        expected="one probe a minute, and 24 a day, for an account; four a minute for an address",
        actual=f"more, for {whom}",
        remedy="Ask again in a minute, or ask another peer. If this repeats, ask again in an hour.",
    )
