"""Watches each endpoint of the chain apart: whether it answers, and shows the deployment's chain.

If one endpoint is silent, the others answer in its place. Without this watch nobody would notice that only
one is left. An endpoint of another chain would seem to come and go, since another one answers the next
question.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.deployment import GameDeployment
from touchstone.protocol.adapters.chain.rpc import name_place

SILENT_LOOKS = 2
"""This many failed checks in a row count as silence. A single failure may be a refused request."""
RIGHT_LOOKS = 3
"""This many good checks in a row end a health issue of an endpoint."""

log = logging.getLogger(__name__)


@dataclass
class Lasting:
    """A health issue of an endpoint, reported when it begins and when it ends. `over` is the message at the
    end. `least` is how many bad checks in a row begin it. `said` is the message while it lasts."""

    over: str
    least: int = 1
    said: str = ""
    _wrong: int = 0
    _right: int = 0
    _since_s: float = 0.0

    def note(self, found: str) -> None:
        """Notes one more check. `found` says what is wrong, empty if nothing is."""
        self._wrong, self._right = (self._wrong + 1, 0) if found else (0, self._right + 1)
        if found and not self.said and self._wrong >= self.least:
            self.said, self._since_s = found, time.monotonic()
            log.warning("%s", found)
        elif self.said and self._right >= RIGHT_LOOKS:
            self.said = ""
            log.warning("%s, after %d s", self.over, time.monotonic() - self._since_s)


@dataclass
class EndpointWatch:
    """One endpoint. `connection` reaches this one alone. `name` is its key in config.toml and its place.
    `is_lone` says that the node has no other. `found` says how its chain differed in the last answer. `first`
    is its block where the deployment begins."""

    connection: Connection
    name: str
    is_lone: bool
    silence: Lasting = field(init=False)
    change: Lasting = field(init=False)
    found: str = ""
    first: Head | None = None
    _turn: int = 0

    def __post_init__(self) -> None:
        self.silence = Lasting(f"the endpoint {self.name} answers again", SILENT_LOOKS)
        self.change = Lasting(f"the endpoint {self.name} shows the deployment's chain again")

    async def check(self, deployment: GameDeployment) -> None:
        """Checks the chain's id, one of the contracts (another at each check), and the block where the
        deployment begins. Raises EnvironmentFault if the endpoint does not answer."""
        chain_id = await self.connection.chain_id()
        if chain_id != deployment.chain_id:
            self.found = f"chain id {chain_id}, the deployment is on {deployment.chain_id}"
            return
        places = [*deployment.contracts().items(), ("token", deployment.token)]
        name, address = places[self._turn % len(places)]
        if not await self.connection.code_at(address):
            self.found = f"no contract at the address of {name}"
            return
        self.first = await self.connection.block(deployment.deploy_block)
        self.found = "" if self.first is not None else describe_other_origin(deployment)
        self._turn += not self.found

    def note(self, *, is_answering: bool, origin: bytes | None, deployment: GameDeployment) -> None:
        """Notes the result of the last check. `origin` is the hash of the block where the deployment begins,
        None if unknown. Without an answer, the chain counts as unchanged."""
        if not self.is_lone:
            self.silence.note("" if is_answering else f"the endpoint {self.name} does not answer")
        if is_answering:
            if not self.found and self.first is not None and origin not in (None, self.first.block_hash):
                self.found = describe_other_origin(deployment)
            said = f"the endpoint {self.name} shows another chain: {self.found}"
            self.change.note(said if self.found else "")


def describe_other_origin(deployment: GameDeployment) -> str:
    """Describes that a chain has another block where the deployment begins."""
    return f"block {deployment.deploy_block}, where the deployment begins, is different or missing"


def open_endpoints(connection: Connection, timeout_s: float) -> list[EndpointWatch]:
    """Returns a watch for each endpoint. A single endpoint is watched on the node's own connection.
    `timeout_s` limits one question. Close them with `close_endpoints`."""
    keys = ["rpc_url", *(f"rpc_urls[{index}]" for index in range(len(connection.rpc_urls) - 1))]
    names: dict[str, str] = {}
    for url, key in zip(connection.rpc_urls, keys, strict=True):
        names.setdefault(url, f"{key} {name_place(url)}")
    if len(names) == 1:
        return [EndpointWatch(connection, name, is_lone=True) for name in names.values()]
    return [
        EndpointWatch(Connection(url, timeout_s=timeout_s), name, is_lone=False)
        for url, name in names.items()
    ]


async def close_endpoints(endpoints: Sequence[EndpointWatch], connection: Connection) -> None:
    """Closes all connections but the node's own."""
    for one in endpoints:
        if one.connection is not connection:
            await one.connection.close()


async def find_origin(endpoints: Sequence[EndpointWatch], folded: Head | None) -> bytes | None:
    """Returns the hash of the block where the deployment begins. It is the hash that all endpoints agree on,
    else the one of the endpoint that has the newest folded block; None if none can tell."""
    shown = [(one, one.first.block_hash) for one in endpoints if not one.found and one.first is not None]
    if len({block_hash for _, block_hash in shown}) == 1:
        return shown[0][1]
    for one, block_hash in shown if folded is not None else ():
        if folded is not None and await one.connection.block_by_hash(folded.block_hash) is not None:
            return block_hash
    return None


def list_said(lasting: Iterator[Lasting]) -> str:
    """Returns the present health issues in one line; empty if there are none."""
    return "; ".join(one.said for one in lasting if one.said)
