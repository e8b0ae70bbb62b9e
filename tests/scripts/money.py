"""Operators at their terminals, for the tests of the commands that move money; and what is done on chain for
them without a command, where no round has to be played for it."""

import asyncio
import gc
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from tests.e2e.world import TINY_PLAN, make_dataset
from tests.scripts.network import Network, init
from touchstone.node.kit.config import STORE_FOLDER
from touchstone.node.kit.stored_step import keep_step, refer_named
from touchstone.node.submit import build_task
from touchstone.protocol.adapters.chain.chain_client import GameChain, open_game_chain
from touchstone.protocol.adapters.chain.deployment import read_game_deployment
from touchstone.protocol.adapters.store.blob_store import BlobStore
from touchstone.protocol.compute.program.known_steps import get_step
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.protocol.spec.training_codec import encode_training
from touchstone.scripts.home.home_files import CONFIG_FILE
from touchstone.scripts.home.home_folder import unlock_key
from touchstone.scripts.network.devnet import GRANT_TOKEN_WEI, give_coin
from touchstone.scripts.touchstone import main

WEALTH_WEI = GRANT_TOKEN_WEI
Answer = TypeVar("Answer")


@dataclass
class Operators:
    """Who types on the test network; the homes lie in `folder`."""

    network: Network
    folder: Path
    password: Path
    capsys: pytest.CaptureFixture[str]
    homes: dict[str, Path] = field(default_factory=dict)
    posted: list[TrainingSpec] = field(default_factory=list)

    def home_of(self, name: str) -> Path:
        """The home of an operator, made when it is first asked for. No node serves the steps of tasks here:
        each home has them."""
        if name not in self.homes:
            self.homes[name] = self.folder / name
            assert init(self.network, self.homes[name], self.password) == 0
        store = BlobStore(self.homes[name] / STORE_FOLDER, is_durable=False)
        for training in self.posted:
            if not store.has(refer_named(training.program)):
                keep_step(store, training, get_step(training))
        return self.homes[name]

    def account_of(self, name: str) -> str:
        """Its address in lower case."""
        return unlock_key(self.home_of(name)).address.lower()

    def run(self, name: str, *words: str) -> str:
        """What a command that succeeds says."""
        home = self.home_of(name)
        self.capsys.readouterr()
        status, (out, err) = main([*words, "--home", str(home)]), self.capsys.readouterr()
        assert status == 0, err
        return out

    def fail(self, name: str, *words: str, status: int = 2) -> list[str]:
        """The four lines of a command that is refused; it has sent nothing."""
        home, before = self.home_of(name), self.count_sent(name)
        gc.collect()  # aiohttp tells of what an earlier test left open once it is freed: now, not below.
        self.capsys.readouterr()
        assert main([*words, "--home", str(home)]) == status
        lines = self.capsys.readouterr().err.splitlines()
        assert [line.split(":")[0] for line in lines] == ["error", "expected", "actual", "do"]
        assert self.count_sent(name) == before
        return lines

    # Without a command
    def act(self, name: str, do: Callable[[GameChain], Awaitable[Answer]]) -> Answer:
        """Do something on the chain as an operator."""

        key = unlock_key(self.home_of(name))

        async def connect() -> Answer:
            deployment = read_game_deployment(self.network.deployment)
            async with open_game_chain(self.network.rpc_url, deployment, key) as chain:
                return await do(chain)

        return asyncio.run(connect())

    def count_sent(self, name: str) -> int:
        """Transactions of an operator that are mined."""
        return self.act(name, lambda chain: chain.connection.transaction_count(chain.address, "latest"))

    def read_wallet(self, name: str) -> int:
        """Tokens that an operator holds, in wei."""
        found: int = self.act(name, lambda chain: chain.token.balance_of(chain.address))
        return found

    def configure(self, name: str, **values: str) -> None:
        """Write keys of an operator's config.toml anew, which have texts as values."""
        path = self.home_of(name) / CONFIG_FILE
        lines = [line for line in path.read_text().splitlines() if line.split(" = ")[0] not in values]
        path.write_text("\n".join([*(f'{key} = "{value}"' for key, value in values.items()), *lines]) + "\n")

    def take_coin(self, name: str) -> None:
        """Leave an operator no coin."""
        self.act(name, lambda chain: give_coin(chain.connection, chain.address, 0))

    def post_task(self, name: str) -> str:
        """A task that nobody plays; its id, hexadecimal."""

        async def post(chain: GameChain) -> bytes:
            salt = secrets.token_bytes(32)
            terms, training = build_task(TINY_PLAN, make_dataset(), chain.address, salt)
            await _deposit(chain, await chain.game.escrow_for(terms))
            self.posted.append(training)
            receipt = await chain.game.post_task(terms, encode_training(training))
            return bytes(receipt.find("TaskPosted").arguments["task"])

        return self.act(name, post).hex()

    def join(self, name: str, task: str, role: SeatRole, stake_wei: int) -> None:
        """A seat, without a node."""

        async def join(chain: GameChain) -> None:
            await _deposit(chain, stake_wei)
            await chain.game.join(bytes.fromhex(task), role, stake_wei)

        self.act(name, join)


async def _deposit(chain: GameChain, amount_wei: int) -> None:
    await chain.token.approve(chain.vault.address, amount_wei)
    await chain.vault.deposit(amount_wei)
