"""Money for the tests of the commands that move it: a chain on which rounds are played at once, and homes of
the accounts that play them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from protocol.adapters.files import write_private_file
from protocol.adapters.keys import import_devnet_keystore
from protocol.spec.params import TOKEN_WEI
from scripts.home import CONFIG_FILE, KEYSTORE_FILE
from scripts.touchstone import main
from tests.e2e.twin import RoundTwin, Script, make_account, make_key
from tests.e2e.twin_chain import Sending, TwinChain, open_twin_chain

UNBONDING_BLOCKS = 1000
"""More than all windows of the tiny world together."""
WEALTH_WEI = 100_000 * TOKEN_WEI
STAKE_WEI = 2_000 * TOKEN_WEI
CAST = ("solver:0", "verifier:0", "verifier:1", "verifier:2", "whistleblower:0", "keeper")
"""Who plays the first of the shared sequences."""
PARTIES = ("submitter", *CAST)


@contextmanager
def open_money_chain(folder: Path) -> Iterator[TwinChain]:
    """The contracts on Anvil, and all parties with tokens, none of it staked."""
    with open_twin_chain(folder, UNBONDING_BLOCKS) as chain:
        chain.fund([make_account(name) for name in PARTIES], WEALTH_WEI)
        yield chain


@dataclass
class Operators:
    """The parties at their terminals; their homes lie in `folder`."""

    chain: TwinChain
    deployment: Path
    folder: Path
    capsys: pytest.CaptureFixture[str]
    homes: dict[str, Path] = field(default_factory=dict)

    def home_of(self, name: str) -> Path:
        """The home of a party, made when it is first asked for."""
        if name not in self.homes:
            self.homes[name] = self.folder / name.replace(":", "-")
            self._make_home(name, self.homes[name])
        return self.homes[name]

    def _make_home(self, name: str, home: Path) -> None:
        home.mkdir(mode=0o700, parents=True)
        password = home / "password"
        write_private_file(password, b"secret")
        key = import_devnet_keystore(home / KEYSTORE_FILE, "secret", make_key(name))
        config = {
            "rpc_url": self.chain.rpc_url,
            "deployment": str(self.deployment),
            "account": key.address,
            "password_file": str(password),
        }
        lines = [f"{key} = {json.dumps(value)}" for key, value in config.items()]
        (home / CONFIG_FILE).write_text("\n".join(lines) + "\n")

    def run(self, name: str, *words: str) -> str:
        """What a command that succeeds says. What it sends gets a block at once."""
        with self.chain.mining_at_once():
            return self.type(name, *words)

    def type(self, name: str, *words: str) -> str:
        """The same where somebody else makes the blocks."""
        home = self.home_of(name)
        self.capsys.readouterr()
        status, (out, err) = main([*words, "--home", str(home)]), self.capsys.readouterr()
        assert status == 0, err
        return out

    def fail(self, name: str, *words: str) -> list[str]:
        """The four lines of a command that is refused; it has sent nothing."""
        home, before = self.home_of(name), self.count_sent(name)
        self.capsys.readouterr()
        with self.chain.mining_at_once():
            assert main([*words, "--home", str(home)]) == 2
        lines = self.capsys.readouterr().err.splitlines()
        assert [line.split(":")[0] for line in lines] == ["error", "expected", "actual", "do"]
        assert self.count_sent(name) == before
        return lines

    def name_of(self, account: str) -> str:
        """The party behind an account."""
        return next(name for name in PARTIES if make_account(name) == account)

    def count_sent(self, name: str) -> int:
        """Transactions of a party that are mined."""
        return self.chain.count_sent(make_account(name))

    def read(self, view: str, name: str) -> int:
        """What the vault says of a party, in wei."""
        found: int = self.chain.read("StakeVault", view, make_account(name))
        return found

    def wallet_of(self, name: str) -> int:
        """Tokens that a party holds, in wei."""
        found: int = self.chain.read("IERC20", "balanceOf", make_account(name))
        return found

    def stake_all(self) -> None:
        """2,000 tokens of stake for everybody but the submitter, without a command."""
        deposits = [Sending(make_account(name), "StakeVault", "deposit", (STAKE_WEI,)) for name in CAST]
        assert not any(one.error for one in self.chain.mine(deposits))


def play_until(twin: RoundTwin, call: str) -> None:
    """Play a script's steps up to the block before the first `call`."""
    block = next(int(step["block"]) for step in twin.script["steps"] if step["call"] == call)
    play_blocks(twin, 0, block)


def play_blocks(twin: RoundTwin, first: int, end: int) -> None:
    """Play the steps of the blocks [first, end), counted from the start of the round."""
    steps = [step for step in twin.script["steps"] if first <= int(step["block"]) < end]
    for block in sorted({int(step["block"]) for step in steps}):
        twin.play_block(twin.state.start_block + block, [one for one in steps if int(one["block"]) == block])


def without(script: Script, call: str) -> Script:
    """The script in which nobody sends `call`."""
    return {**script, "steps": [step for step in script["steps"] if step["call"] != call]}
