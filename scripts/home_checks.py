"""Checks of a home: its files, its disk, and the endpoint where peers find its node.

`Patient` is the home that `touchstone doctor` looks at. It keeps what checks have found out for later ones.
"""

import asyncio
import shutil
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from protocol.actions.runtime.chain_state import ChainState
from protocol.actions.runtime.joining import compute_dataset_bytes
from protocol.actions.runtime.task_inputs import compute_start_bytes
from protocol.adapters.chain.chain_client import GameChain
from protocol.adapters.files import require_private_file
from protocol.adapters.reports import SPARE_DISK_BYTES
from protocol.adapters.wire.conventions import ANY_PORT, choose_endpoint
from protocol.adapters.wire.listener import CERTIFICATE_FILE, load_or_create_identity, make_server_context
from protocol.spec.codec import decode_training
from protocol.spec.errors import EnvironmentFault, InvalidInput
from protocol.spec.game.logs import LoggedGame
from scripts.console import explain_disk
from scripts.home import KEYSTORE_FILE, HomeConfig, has_key, read_config, unlock_key
from scripts.task_file import compute_disk_bytes
from scripts.wallet import is_node_running, show_task


class NotTested(Exception):
    """Why a check could not look."""


@dataclass
class Patient:
    """A home under examination. now: the machine's clock, Unix time in seconds; opened: what is closed in the
    end; state, task: what the chain tells, and the task that was named."""

    home: Path
    task_name: str | None = None
    password_file: Path | None = None
    now: Callable[[], float] = time.time
    opened: AsyncExitStack = field(default_factory=AsyncExitStack)
    config: HomeConfig | None = None
    chain: GameChain | None = None
    state: ChainState | None = None
    task: bytes | None = None

    def get_config(self) -> HomeConfig:
        """The configuration. Raises NotTested where it could not be read."""
        if self.config is None:
            raise NotTested("there is no usable configuration")
        return self.config

    def get_chain(self) -> GameChain:
        """The chain. Raises NotTested where it does not answer."""
        if self.chain is None:
            raise NotTested("there is no usable chain")
        return self.chain

    def get_state(self) -> ChainState:
        """What the chain tells. Raises NotTested where it does not answer."""
        if self.state is None:
            raise NotTested("there is no usable chain")
        return self.state

    def get_game(self) -> tuple[bytes, LoggedGame]:
        """The task that was named. Raises NotTested where none was, or it was not found."""
        state = self.get_state()
        if self.task is None:
            raise NotTested("no task was named" if self.task_name is None else "the task was not found")
        return self.task, state.games[self.task]


CONNECT_S = 10.0


# --- The home -----------------------------------------------------------------------------------------------
async def check_configuration(patient: Patient) -> str:
    """config.toml can be read, and environment variables stand for keys."""
    patient.config = read_config(patient.home)
    return f"account {patient.config.account}"


async def check_writing(patient: Patient) -> str:
    """A file can be written in the home."""
    patient.get_config()
    with _disk_words():
        try_to_write(patient.home)
    return "a file was written and removed"


def try_to_write(folder: Path) -> None:
    """Make and remove a file. Raises OSError."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as file:
        file.write(b"x" * 4096)
        file.flush()


@contextmanager
def _disk_words() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise explain_disk(error) from error


async def check_key(patient: Patient) -> str:
    """The keystore and the password file are private, and the one opens the other."""
    config = patient.get_config()
    if has_key(patient.home):
        require_private_file(patient.home / KEYSTORE_FILE)
    path = patient.password_file or (Path(config.password_file) if config.password_file else None)
    if path is None:
        raise NotTested("no password file is named: a node asks at its start")
    key = await asyncio.to_thread(unlock_key, patient.home, path)
    if key.address.lower() != config.account.lower():
        raise InvalidInput(
            what="the keystore is of another account than the configuration",
            expected=config.account,
            actual=key.address,
            where=str(patient.home / KEYSTORE_FILE),
            remedy="Put the right keystore back.",
        )
    return "the password opens the keystore"


async def check_disk(patient: Patient) -> str:
    """There is room for what a solver of the task keeps; without a task, for a little."""
    patient.get_config()
    needed_bytes, what = SPARE_DISK_BYTES, "a home"
    with suppress(NotTested):
        task, game = patient.get_game()
        training = decode_training(patient.get_state().texts[task])
        count = patient.get_state().task_terms[task].parameter_count
        served_bytes = compute_dataset_bytes(training) + compute_start_bytes(training, count)
        needed_bytes = compute_disk_bytes(game.terms, count, served_bytes)
        what = f"a solver of {show_task(task)}"
    free_bytes = shutil.disk_usage(patient.home).free
    kept_bytes = sum(path.stat().st_size for path in patient.home.rglob("*") if path.is_file())
    if free_bytes + kept_bytes < needed_bytes:
        raise EnvironmentFault(
            what=f"the disk has too little room for {what}",
            expected=f"{needed_bytes / 1e6:,.0f} MB, of which the home has {kept_bytes / 1e6:,.0f} already",
            actual=f"{free_bytes / 1e6:,.0f} MB free",
            where=str(patient.home),
            remedy="Make room, or move the home to a larger disk.",
            retryable=False,
        )
    return f"{free_bytes / 1e6:,.0f} MB free, {what} takes up to {needed_bytes / 1e6:,.0f} MB"


# --- The endpoint -------------------------------------------------------------------------------------------
async def check_endpoint(patient: Patient) -> str:
    """The endpoint that the node would announce is one that peers can use."""
    config = patient.get_config()
    return choose_endpoint(config.listen_host, config.listen_port, config.public_url)


async def check_port(patient: Patient) -> str:
    """The port is free."""
    config = patient.get_config()
    if is_node_running(patient.home):
        raise NotTested("a node of this home runs and has it")
    if config.listen_port == ANY_PORT:
        raise NotTested("a node takes a free one at each start")
    async with _listening(patient):
        return f"{config.listen_host}:{config.listen_port} is free"


@asynccontextmanager
async def _listening(patient: Patient) -> AsyncIterator[int]:
    """A TLS server where the node would be, with its certificate, until this ends; yields its port."""
    config = patient.get_config()
    if not (patient.home / CERTIFICATE_FILE).exists():
        raise NotTested("there is no certificate yet: the node makes one")

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    context = make_server_context(load_or_create_identity(patient.home))
    try:
        server = await asyncio.start_server(hang_up, config.listen_host, config.listen_port, ssl=context)
    except OSError as error:
        raise EnvironmentFault(
            what="the node could not listen where it should",
            expected=f"a free port of this machine: {config.listen_host}:{config.listen_port}",
            actual=error.strerror or str(error),
            remedy="End what listens there, or change listen_host or listen_port in config.toml.",
        ) from error
    async with server:
        yield int(server.sockets[0].getsockname()[1])


async def check_reach(patient: Patient) -> str:
    """Who connects to the endpoint finds this node's certificate. As seen from this machine: a router may
    treat others otherwise."""
    config = patient.get_config()
    if is_node_running(patient.home):
        if not config.public_url and config.listen_port == ANY_PORT:
            raise NotTested("a node of this home runs, at a port of its choice")
        return await _require_own_certificate(patient, config.listen_port)
    async with _listening(patient) as port:
        return await _require_own_certificate(patient, port)


async def _require_own_certificate(patient: Patient, port: int) -> str:
    config, own = patient.get_config(), load_or_create_identity(patient.home).fingerprint
    url = choose_endpoint(config.listen_host, port, config.public_url)
    try:
        found = await asyncio.wait_for(_fetch_fingerprint(url), CONNECT_S)
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


async def _fetch_fingerprint(url: str) -> bytes:
    """SHA-256 of the certificate that a server shows; it is compared, so none is trusted."""
    place, context = urlsplit(url), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection(place.hostname, place.port or 443, ssl=context)
    try:
        shown: Any = writer.get_extra_info("ssl_object")
        return sha256(shown.getpeercert(binary_form=True)).digest()
    finally:
        writer.close()
