"""Checks from this machine the endpoint where peers find a home's node."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from touchstone.protocol.adapters.wire.endpoint_urls import ANY_PORT, choose_endpoint
from touchstone.protocol.adapters.wire.storage_reader import TLS_PORT
from touchstone.protocol.adapters.wire.tls_contexts import fetch_fingerprint, make_server_context
from touchstone.protocol.adapters.wire.tls_identity import CERTIFICATE_FILE, load_or_create_identity
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.scripts.account.sending import is_node_running
from touchstone.scripts.doctor.patient import NotTested, Patient
from touchstone.scripts.home.home_config import HomeConfig

CONNECT_S = 10.0


async def check_endpoint(patient: Patient) -> str:
    """Checks that peers can use the endpoint that the node would announce."""
    config = patient.get_config()
    return choose_endpoint(config.listen_host, config.listen_port, config.public_url)


async def check_port(patient: Patient) -> str:
    """Checks that the port is free."""
    config = patient.get_config()
    if is_node_running(patient.home):
        raise NotTested("a node of this home runs and uses it")
    if config.listen_port == ANY_PORT:
        raise NotTested("a node takes a free one at each start")
    async with listen_as_node(patient):
        return f"{config.listen_host}:{config.listen_port} is free"


@asynccontextmanager
async def listen_as_node(patient: Patient) -> AsyncIterator[int]:
    """Runs a TLS server where the node would be, with its certificate; yields its port."""
    config = patient.get_config()
    if not (patient.home / CERTIFICATE_FILE).exists():
        raise NotTested("there is no certificate yet: the node makes one")

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    context = make_server_context(load_or_create_identity(patient.home))
    try:
        server = await asyncio.start_server(hang_up, config.listen_host, config.listen_port, ssl=context)
    except OSError as error:
        raise _no_listening(error, config) from error
    async with server:
        yield int(server.sockets[0].getsockname()[1])


def _no_listening(error: OSError, config: HomeConfig) -> EnvironmentFault:
    return EnvironmentFault(
        what="the node cannot listen at its address",
        expected=f"a free port of this machine: {config.listen_host}:{config.listen_port}",
        actual=error.strerror or str(error),
        remedy="End what listens there, or change listen_host or listen_port in config.toml.",
    )


async def check_reach(patient: Patient) -> str:
    """Checks that a connection to the endpoint finds this node's certificate. It is made from this machine,
    so a firewall or a router in front of it may treat others differently."""
    config = patient.get_config()
    if is_node_running(patient.home):
        if not config.public_url and config.listen_port == ANY_PORT:
            raise NotTested("a node of this home runs, at a port that the system chose")
        return await _require_own_certificate(patient, config.listen_port)
    async with listen_as_node(patient) as port:
        return await _require_own_certificate(patient, port)


async def _require_own_certificate(patient: Patient, port: int) -> str:
    config, own = patient.get_config(), load_or_create_identity(patient.home).fingerprint
    url = choose_endpoint(config.listen_host, port, config.public_url)
    try:
        place = urlsplit(url)
        shown = fetch_fingerprint(place.hostname or "", place.port or TLS_PORT)
        async with asyncio.timeout(CONNECT_S):
            found = await shown
    except (OSError, TimeoutError) as error:
        is_refused = isinstance(error, ConnectionRefusedError)
        said = "the connection is refused" if is_refused else str(error)
        raise _unreachable(url, said or f"no answer in {CONNECT_S:.0f} s") from error
    if found != own:
        raise _unreachable(url, "another certificate: something else answers there")
    return f"{url} leads to this node"


def _unreachable(url: str, actual: str) -> EnvironmentFault:
    return EnvironmentFault(
        what="peers cannot reach this node",
        expected=f"this node's certificate at {url}",
        actual=actual,
        remedy="Forward that port to this machine and open its firewall, or correct public_url in the home.",
    )
