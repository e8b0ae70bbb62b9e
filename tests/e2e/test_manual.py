"""docs/node.md is walked as it stands: its commands, on a chain with a gas price and without a faucet.

The blocks of commands of the page are run, each in the shell of a party with a home folder of its own. Only
what the page cannot know is put in: the endpoint, the token, the id of the task, where a node is found. The
task file is made smaller afterwards, and the chain's idle time is skipped: both only make the test short.
"""

import asyncio
import os
import re
import shutil
import signal
import sys
import tomllib
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from eth_account import Account

from tests.e2e.forking import CLIENT
from tests.e2e.world import TINY_PLAN, make_dataset
from touchstone.protocol.adapters.chain.abi import find_function, load_abi
from touchstone.protocol.adapters.chain.abi_values import encode_call
from touchstone.protocol.adapters.chain.chain_client import GameChain, open_game_chain
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.creation import compute_creation_code
from touchstone.protocol.adapters.chain.deployment import read_game_deployment
from touchstone.protocol.adapters.chain.transactions import ResendPolicy, Sender
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.keys.keystore import import_keystore
from touchstone.protocol.spec.params import TOKEN_WEI
from touchstone.scripts.network.contract_creation import DEV_TOKEN, create
from touchstone.scripts.network.devnet import BLOCK_GAS, claim_port, run_anvil
from touchstone.scripts.network.devnet_clock import DevnetClock
from touchstone.scripts.toolchain import ROOT, anvil_path

PAGE = ROOT / "docs" / "node.md"
BLOCK = re.compile(r'^```bash title="(.+?)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
OPEN = ", a terminal that stays open"
"""Ends the title of a block whose command runs on."""
VARIABLES = "ETH_RPC_URL token account wallet task key amount price coin"
"""Of a shell: its next block has them."""
CAST = "cast-linux-amd64/bin/cast"
GAS_PRICE_WEI = 20 * 10**9
"""Of the first block; then the chain's own rule goes on."""
OWNER_KEY = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
"""Of the one account that Anvil begins with: who owns coin on a real chain."""
SENT_TOKENS, SENT_COIN_WEI = 5_000 * TOKEN_WEI, 10**18 // 2
"""To each party, by the page."""
SMALLER = {
    "inner_steps": 4, "segment_steps": 2, "solver_seats": 1, "late_chance": 0, "least_whistleblowers": 0,
    "sequences_per_step": 2, "sequence_tokens": 16, "hidden_size": 16, "intermediate_size": 32,
    "layer_count": 1, "context_tokens": 32, "warmup_steps": 2, "inner_warmup_steps": 1, "decay_steps": 6,
    "total_steps": 32, "rounds": 8,
}  # fmt: skip
"""Keys of the task file that the page's commands write."""
ROLES = {
    "erin": "a whistleblower", "bob": "a verifier", "carol": "a verifier", "dave": "a verifier",
    "alice": "a solver",
}  # fmt: skip
"""The solver last: with it the rounds begin."""
PAID = ("alice", "bob", "erin", "sue")
"""One of each role: the others would type the same."""
DEADLINE_S = 3_600.0
LOOK_S = 0.2


def read_blocks() -> dict[str, str]:
    """Where each block of the page is typed, and its commands."""
    found = BLOCK.findall(PAGE.read_text())
    assert len(dict(found)) == len(found), "two blocks have one title"
    return dict(found)


@dataclass
class Person:
    """One party at its own machine. known: what stands for the page's placeholders."""

    home: Path
    known: dict[str, str]
    typed: set[str] = field(default_factory=set)
    running: list[Process] = field(default_factory=list)

    async def type(self, title: str) -> str:
        """Run a block of the page to its end; what it printed."""
        process = await self._start(title, self.home / "typed.log")
        status = await process.wait()
        said = (self.home / "typed.log").read_text()
        assert status == 0, f"{self.home.name}, {title}: {said}"
        return said

    async def open(self, title: str) -> None:
        """Start a block that runs on in a terminal of its own; its question is answered with y."""
        self.running.append(await self._start(title + OPEN, self.home / "node.log"))

    async def _start(self, title: str, log: Path) -> Process:
        self.typed.add(title)
        commands = read_blocks()[title]
        for placeholder, value in self.known.items():
            commands = commands.replace(placeholder, value)
        kept = self.home / "variables"
        script = f"set -eu\n[ ! -f {kept} ] || . {kept}\n{commands}\n"
        script += f"declare -p PATH {VARIABLES} > {kept} 2> /dev/null || true\n"
        environment = {**os.environ, "HOME": str(self.home), "TOUCHSTONE_POLL_SECONDS": "0.1"}
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                "bash", "-c", script, cwd=self.home, env=environment, stdin=PIPE, stdout=output, stderr=output
            )
        assert process.stdin is not None
        process.stdin.write(b"y\n")
        return process

    def read(self) -> str:
        """What its node has said so far."""
        for process in self.running:
            assert process.returncode in (None, 0), (self.home / "node.log").read_text()
        return (self.home / "node.log").read_text()

    async def wait_for_end(self) -> None:
        """Its node ends by itself."""
        for process in self.running:
            await process.wait()
        self.read()

    async def stop(self) -> None:
        """Close its terminals."""
        for process in self.running:
            if process.returncode is None:
                process.kill()
            await process.wait()

    def find_account(self) -> str:
        """Of its home."""
        return str(tomllib.loads((self.home / ".touchstone" / "config.toml").read_text())["account"])


@asynccontextmanager
async def open_checkout(folder: Path) -> AsyncIterator[None]:
    """What `./dev setup` makes, as far as the page uses it; its Python forks (`forking`)."""
    tools, wire = folder / ".venv" / "bin", folder / "socket"
    tools.mkdir(parents=True)
    (folder / "node_modules" / ".bin").mkdir(parents=True)
    (folder / "node_modules" / ".bin" / "cast").symlink_to(anvil_path().parents[2] / CAST)
    (tools / "activate").write_text(f"PATH={quote(str(tools))}:$PATH\n")
    for name, module in (("python", ""), ("touchstone", "touchstone.scripts.touchstone")):
        (tools / f"{name}.py").write_text(CLIENT.format(path=str(wire), module=module))
        (tools / name).write_text(
            f'#!/bin/sh\nexec {quote(sys.executable)} -I -S {quote(str(tools / name))}.py "$@"\n'
        )
        (tools / name).chmod(0o755)
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.e2e.forking", str(wire), cwd=ROOT, stdin=PIPE, start_new_session=True
    )
    try:
        while not wire.exists():
            assert server.returncode is None
            await asyncio.sleep(LOOK_S)
        yield
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        await server.wait()


def seat_person(folder: Path, name: str, known: dict[str, str]) -> Person:
    """A party with a checkout, the wallet that has the chain's money, and an own place in the network."""
    home = folder / name
    home.mkdir()
    for part in (".venv", "node_modules"):
        (home / part).symlink_to(folder / "checkout" / part)
    for path, text in (("wallet-password", "secret"), ("key", OWNER_KEY)):
        (home / path).touch(0o600)
        (home / path).write_text(text)
    import_keystore(home / "key", home / "wallet.json", "secret", is_devnet=True)
    return Person(home, {**known, "203.0.113.7": "127.0.0.1", "8471": str(claim_port(0))})


async def make_token(rpc_url: str) -> str:
    """An ERC-20, all of it the owner's: it exists on a chain before Touchstone comes."""
    connection, owner = Connection(rpc_url), AccountKey(Account.from_key(OWNER_KEY))
    sender = Sender(connection, owner, await connection.chain_id(), ResendPolicy())
    token = await create(sender, DEV_TOKEN, compute_creation_code(DEV_TOKEN, []), lambda _: None)
    mint = encode_call(find_function(load_abi(DEV_TOKEN), "mint"), [owner.address, 10**6 * TOKEN_WEI])
    await sender.send(token, mint, "DevToken.mint")
    await connection.close()
    return token


def make_smaller(path: Path) -> None:
    """The task file, with numbers that take less time; in float32, which has no kernels to compile."""
    text = path.read_text()
    for key, value in SMALLER.items():
        text, count = re.subn(rf"^{key} = \d+", f"{key} = {value}", text, flags=re.MULTILINE)
        assert count == 1, key
    limits = "".join(f"{name} = {value}\n" for name, value in vars(TINY_PLAN.limits).items())
    path.write_text(text.replace('numeric_format = "exact"', "") + f"[limits]\n{limits}")


async def test_the_manual_alone_leads_from_an_empty_chain_to_money_taken_out(tmp_path: Path) -> None:
    """Deploy, fund by plain transfers, post, train, audit, watch, leave, be paid, take all home."""
    gas = ("--gas-limit", str(BLOCK_GAS), "--base-fee", str(GAS_PRICE_WEI))
    async with (
        asyncio.timeout(DEADLINE_S),
        run_anvil(0, tmp_path / "anvil.log", options=gas) as rpc_url,
        open_checkout(tmp_path / "checkout"),
    ):
        known = {"https://rpc.example": rpc_url, "token=0x...": f"token={await make_token(rpc_url)}"}
        people = {name: seat_person(tmp_path, name, known) for name in ("owner", "sue", *ROLES)}
        await set_up(people)
        deployment = read_game_deployment(people["owner"].home / "contracts.json")
        async with (
            open_game_chain(rpc_url, deployment) as chain,
            DevnetClock(chain, None, 1 + len(ROLES)) as clock,
        ):
            ticking = asyncio.create_task(clock.run())
            try:
                await play(people)
                await check_money(people, chain)
            finally:
                ticking.cancel()
                await asyncio.gather(
                    ticking, *(one.stop() for one in people.values()), return_exceptions=True
                )
    typed = set.union(*(person.typed for person in people.values()))
    assert typed == set(read_blocks()), "a block of the page is not walked"


async def set_up(people: dict[str, Person]) -> None:
    """From an empty chain to homes with money and a task file."""
    await people["owner"].type("every machine")
    await people["owner"].type("once for a chain")
    for name in ("sue", *ROLES):
        await people[name].type("every machine")
        shutil.copy(people["owner"].home / "contracts.json", people[name].home)
        await people[name].type("each party")
        await people[name].type("your wallet")
    texts = people["sue"].home / "texts"
    texts.mkdir()
    (texts / "one.txt").write_bytes(make_dataset())
    await people["sue"].type("the submitter")
    make_smaller(people["sue"].home / "task.toml")


async def play(people: dict[str, Person]) -> None:
    """The task, from its post to its end: the only solver leaves, so it pauses until it is over."""
    await people["sue"].open("the submitter")
    while not (found := re.search(r"posted (0x[0-9a-f]{64})", people["sue"].read())):
        await asyncio.sleep(LOOK_S)
    members, alice = [people[name] for name in ("sue", *ROLES)], people["alice"]
    for name in ROLES:
        people[name].known["task=0x..."] = f"task={found[1]}"
    # Once all are there the clock skips, and the doctor would take the machine's time for wrong.
    await alice.type("each node, before its seat")
    for name, role in ROLES.items():
        await people[name].open(role)
    while not any("round 0: the claim is on the chain" in one.read() for one in members):
        await asyncio.sleep(LOOK_S)
    await alice.type("to leave")
    await alice.type("each node, at any time")
    for person in members:
        await person.wait_for_end()
    assert "the seat has left and is paid out" in alice.read()
    assert "the task is closed" in people["sue"].read() + people["bob"].read()


async def check_money(people: dict[str, Person], chain: GameChain) -> None:
    """Work was paid, who only watched lost nothing, gas came out of what was sent, all is taken home."""
    gains = {}
    for name in PAID:
        account = people[name].find_account()
        await people[name].type("to be paid")
        gains[name] = await chain.token.balance_of(account) - SENT_TOKENS
        assert 0 < await chain.connection.balance_of(account) < SENT_COIN_WEI
        if name == "bob":
            assert account in await people[name].type("a new password")
            assert not (people[name].home / "new-password").exists()
        await people[name].type("to empty the account")
        assert await chain.token.balance_of(account) == 0 == await chain.connection.balance_of(account)
    assert gains["alice"] >= 10 * TOKEN_WEI and gains["alice"] % (10 * TOKEN_WEI) == 0
    assert gains["bob"] >= 0 == gains["erin"] and gains["sue"] <= -gains["alice"] - gains["bob"]
