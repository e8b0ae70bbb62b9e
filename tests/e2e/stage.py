"""Setting the demo's stage: homes, stakes, and what a party's process may see."""

import asyncio
import fcntl
import os
import secrets
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from protocol.adapters.chain import open_chain
from protocol.adapters.files import write_private_file
from protocol.adapters.keys import AccountKey
from protocol.compute.determinism import list_cpu_capabilities
from protocol.spec.errors import InvalidInput
from scripts.devnet import claim_port
from scripts.home import HomeConfig, create_home
from scripts.toolchain import ROOT
from tests.e2e.first_devnet import Devnet
from tests.e2e.isolation import is_supported
from tests.e2e.roster import Member

HERE = ROOT / "tests" / "e2e"


@dataclass(frozen=True)
class Folders:
    """Where the demo keeps its files. Only `parties` is hidden: below it each party sees its own home."""

    root: Path

    @property
    def parties(self) -> Path:
        """A home for each party."""
        return self.root / "parties"

    @property
    def logs(self) -> Path:
        """What each party says."""
        return self.root / "logs"

    @property
    def model(self) -> Path:
        """The trained model, written by the submitter."""
        return self.root / "model"

    @property
    def observer(self) -> Path:
        """The report's own store."""
        return self.root / "observer"

    @property
    def code(self) -> Path:
        """Links to what is not installed: a confined process cannot list the checkout and finds nothing
        there."""
        return self.root / "code"

    @property
    def deployment(self) -> Path:
        """The addresses of the contracts: all that a stranger is given."""
        return self.root / "deployment.json"

    @property
    def report(self) -> Path:
        """The result."""
        return self.root / "report.json"

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep other runs out: they would clear these folders. Raises InvalidInput while one is running."""
        self.root.parent.mkdir(parents=True, exist_ok=True)
        with open(self.root.with_suffix(".lock"), "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise InvalidInput(
                    what="another demo is running in this checkout",
                    expected=f"nobody else to use {self.root}",
                    actual="it is locked",
                    remedy="Wait for its end, or end it.",
                ) from error
            yield

    def clear(self) -> None:
        """Make all of them afresh; what an earlier run left is gone."""
        shutil.rmtree(self.root, ignore_errors=True)
        for folder in (self.parties, self.logs, self.model, self.observer, self.code):
            folder.mkdir(parents=True, mode=0o700)
        for package in ("benchmarks", "tests"):
            (self.code / package).symlink_to(ROOT / package)


@dataclass(frozen=True)
class Actor:
    """A member with its home and account."""

    member: Member
    home: Path
    key: AccountKey

    @property
    def account(self) -> str:
        """The address in lower case."""
        return self.key.address.lower()


def make_actors(folders: Folders, members: Sequence[Member], rpc_url: str) -> tuple[Actor, ...]:
    """A home with keystore, certificate and random password for each member."""
    return tuple(_make_actor(folders, member, rpc_url) for member in members)


def _make_actor(folders: Folders, member: Member, rpc_url: str) -> Actor:
    home = folders.parties / member.name
    home.mkdir(mode=0o700)
    password = secrets.token_urlsafe(16)
    password_file = home / "password"
    write_private_file(password_file, password.encode())
    config = HomeConfig(
        rpc_url=rpc_url,
        deployment=str(folders.deployment),
        listen_port=claim_port(0),
        memory_mb=member.memory_mb,
        password_file=str(password_file),
    )
    return Actor(member, home, create_home(home, config, password, is_devnet=True))


async def stake_all(devnet: Devnet, actors: Sequence[Actor]) -> None:
    """Everybody deposits its stake."""
    await asyncio.gather(*(_stake(devnet, actor) for actor in actors if actor.member.stake_wei))


async def _stake(devnet: Devnet, actor: Actor) -> None:
    async with open_chain(devnet.rpc_url, devnet.deployment, actor.key) as chain:
        await chain.token.approve(devnet.deployment.vault, actor.member.stake_wei)
        await chain.vault.deposit(actor.member.stake_wei)


# --- How a process is started -------------------------------------------------------------------------------
def confine(program: list[str], own: Path, hidden: Path) -> list[str]:
    """The command that runs `program` blind to everything below `hidden` but `own`, where the kernel can."""
    if not is_supported():
        return program
    isolation = [str(HERE / "isolation.py"), "--own", str(own), "--hidden", str(hidden), "--"]
    return [sys.executable, *isolation, *program]


def make_environment(folders: Folders, kernel_rank: int = 0) -> dict[str, str]:
    """One thread a process; with a rank, kernels like those of a lesser machine (`Member.kernel_rank`)."""
    capabilities = list_cpu_capabilities()
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "PYTHONPATH": str(folders.code),
    }
    capability = capabilities[min(kernel_rank, len(capabilities) - 1)]
    return {**environment, "ATEN_CPU_CAPABILITY": capability} if kernel_rank else environment
