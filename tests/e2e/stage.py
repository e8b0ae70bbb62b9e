"""Setting the demo's stage: homes, stakes, and a process for each party that sees nobody else's files."""

import asyncio
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from protocol.adapters.chain import open_chain
from protocol.adapters.files import write_private_file
from protocol.adapters.keys import AccountKey
from protocol.spec.errors import EnvironmentFault
from scripts.devnet import Devnet, claim_port, stop
from scripts.home import HomeConfig, create_home
from scripts.toolchain import ROOT
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


# --- Processes ----------------------------------------------------------------------------------------------
@contextmanager
def start_all(
    folders: Folders, actors: Sequence[Actor], rounds: int, skip: Fraction
) -> Iterator[dict[str, "subprocess.Popen[bytes]"]]:
    """Each party as a confined process until the block ends, by name."""
    submitter = next(actor for actor in actors if actor.member.kind == "submit")
    options = ["--submitter", submitter.account, "--rounds", str(rounds), "--skip", str(skip)]
    options += ["--model-dir", str(folders.model)]
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for actor in actors:
            processes[actor.member.name] = _start(folders, actor, options)
        yield processes
    finally:
        for process in processes.values():
            process.terminate()
        for process in processes.values():
            stop(process)


def _start(folders: Folders, actor: Actor, options: list[str]) -> "subprocess.Popen[bytes]":
    program = [sys.executable, str(HERE / "party.py"), actor.member.kind, "--home", str(actor.home), *options]
    command = confine(program, own=actor.home, hidden=folders.parties)
    with (folders.logs / f"{actor.member.name}.log").open("wb") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            env=make_environment(folders, actor.member.capability),
        )  # fmt: skip


def confine(program: list[str], own: Path, hidden: Path) -> list[str]:
    """The command that runs `program` blind to everything below `hidden` but `own`, where the kernel can."""
    if not is_supported():
        return program
    isolation = [str(HERE / "isolation.py"), "--own", str(own), "--hidden", str(hidden), "--"]
    return [sys.executable, *isolation, *program]


def make_environment(folders: Folders, capability: str = "") -> dict[str, str]:
    """One thread a process; the kernels of another machine where `capability` names their instructions."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "PYTHONPATH": str(folders.code),
    }
    return {**environment, "ATEN_CPU_CAPABILITY": capability} if capability else environment


def require_alive(folders: Folders, processes: dict[str, "subprocess.Popen[bytes]"]) -> None:
    """Raises EnvironmentFault naming the first party that has ended before its time, with its last words."""
    for name, process in processes.items():
        if process.poll() is not None:
            raise EnvironmentFault(
                what=f"{name} has ended before its time",
                expected="a running process",
                actual=f"exit status {process.returncode}: {read_last_line(folders, name)}",
                where=str(folders.logs / f"{name}.log"),
                remedy="Read its log.",
                retryable=False,
            )


def read_last_line(folders: Folders, name: str) -> str:
    """The last line of a party's log."""
    lines = (folders.logs / f"{name}.log").read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
