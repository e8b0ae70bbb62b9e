"""Holds the home that `touchstone doctor` examines, with the results of checks for later ones."""

import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from touchstone.node.kit.chain_state import ChainState
from touchstone.protocol.adapters.chain.chain_client import GameChain
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.scripts.home.home_config import HomeConfig


class NotTested(Exception):
    """A check could not be made; the text says why."""


@dataclass
class Patient:
    """A home under examination. `now` returns Unix time in seconds. `opened` is closed at the end. `key` is
    the account's key, once the password has opened it. `state` and `task` are the chain's state and the named
    task."""

    home: Path
    task_name: str | None = None
    password_file: Path | None = None
    now: Callable[[], float] = time.time
    opened: AsyncExitStack = field(default_factory=AsyncExitStack)
    config: HomeConfig | None = None
    key: AccountKey | None = None
    chain: GameChain | None = None
    state: ChainState | None = None
    task: bytes | None = None
    sound_urls: list[str] | None = None
    """The endpoints that show the deployment's chain; None before they were checked."""

    def get_config(self) -> HomeConfig:
        """Returns the configuration. Raises NotTested if it could not be read."""
        if self.config is None:
            raise NotTested("there is no usable configuration")
        return self.config

    def get_chain(self) -> GameChain:
        """Returns the chain. Raises NotTested if it does not answer."""
        if self.chain is None:
            raise NotTested("there is no usable chain")
        return self.chain

    def get_state(self) -> ChainState:
        """Returns the folded chain. Raises NotTested if the chain does not answer."""
        if self.state is None:
            raise NotTested("there is no usable chain")
        return self.state

    def get_game(self) -> tuple[bytes, LoggedGame]:
        """Returns the named task. Raises NotTested if none was named, or it was not found."""
        state = self.get_state()
        if self.task is None:
            raise NotTested("no task was named" if self.task_name is None else "the task was not found")
        return self.task, state.games[self.task]
