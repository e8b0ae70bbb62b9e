"""From the first token staked to the last one taken out, by the commands that an operator types: after a task
everybody has all that is due in the wallet, and the vault holds nothing but what is to be burned.

The round is one of the shared sequences, in which a verifier says nothing and pays for it. The clock of the
test network runs beside the commands.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from protocol.adapters.chain import open_chain
from scripts.clock import DevnetClock
from scripts.tasks import read_view
from tests.e2e.money import Balance, fold_books
from tests.e2e.test_twin import ROUNDS
from tests.e2e.twin import RoundTwin, make_account
from tests.e2e.twin_chain import Sending, TwinChain
from tests.scripts.money import CAST, PARTIES, WEALTH_WEI, Operators, open_money_chain, without

SCRIPT = without(ROUNDS["primary silent"], "advance")
STAKE = "2000"


@contextmanager
def run_clock(chain: TwinChain) -> Iterator[None]:
    """The clock of the test network, until the block ends."""
    stopping = threading.Event()

    async def keep_time() -> None:
        async with open_chain(chain.rpc_url, chain.deployment) as connected, DevnetClock(connected) as clock:
            running = asyncio.create_task(clock.run())
            while not stopping.is_set() and not running.done():
                await asyncio.sleep(0.05)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    thread = threading.Thread(target=asyncio.run, args=(keep_time(),))
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
        chain.read_head()


def read_books(chain: TwinChain) -> dict[str, Balance]:
    """Everybody's books by name, from the chain's events."""

    async def read() -> dict[str, Balance]:
        async with open_chain(chain.rpc_url, chain.deployment) as connected:
            return fold_books((await read_view(connected)).events)

    books = asyncio.run(read())
    return {name: books.get(make_account(name), Balance()) for name in PARTIES}


def test_everybody_takes_out_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_money_chain(tmp_path) as chain:
        party = Operators(chain, tmp_path / "deployment.json", tmp_path / "homes", capsys)
        with run_clock(chain):
            for name in CAST:
                party.type(name, "stake", STAKE)
        twin = RoundTwin(chain, SCRIPT, rounds=1)
        escrow_wei = chain.read("StakeVault", "escrowOf", twin.state.task)
        twin.play_steps()
        with run_clock(chain):
            party.type("submitter", "task", "close", twin.state.task.hex())
            for name in PARTIES:
                if party.read("creditOf", name):
                    party.type(name, "claim")
            for name in CAST:
                party.type(name, "unstake", "all")
            for name in CAST:
                party.type(name, "withdraw", "--wait")

        books = read_books(chain)
        assert books["submitter"].refunded and sum(one.fees for one in books.values())
        for name in PARTIES:
            won_wei = sum(books[name].earned.values()) + books[name].refunded
            lost_wei = sum(books[name].lost.values()) + (escrow_wei if name == "submitter" else 0)
            assert party.wallet_of(name) == WEALTH_WEI + won_wei - lost_wei
            assert not any(party.read(view, name) for view in ("stakeOf", "lockedOf", "creditOf"))
        burned, vault = chain.read("StakeVault", "burnPending"), chain.deployment.vault
        assert burned and chain.read("IERC20", "balanceOf", vault) == burned
        (outcome,) = chain.mine([Sending(make_account("keeper"), "StakeVault", "burn", ())])
        assert outcome.error is None and chain.read("IERC20", "balanceOf", vault) == 0
