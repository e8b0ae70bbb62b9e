"""Tasks begun and ended from the command line: what is refused before anything is sent, and what is sent."""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import rich.console

from protocol.adapters.chain.chain_client import GameChain
from protocol.adapters.chain.refusal_words import format_tokens
from protocol.spec.errors import InvalidInput
from protocol.spec.game import calls
from protocol.spec.game.purse import credit_of
from protocol.spec.game.terms import LIMITS_LOCAL
from scripts import closing_commands, wallet
from scripts.closing_commands import SHOWN_SEATS, close_task, create_task, halt_task
from scripts.console import Console
from scripts.money_commands import Pace
from tests.e2e.world import TINY_PLAN, make_dataset
from tests.protocol.spec.game.world import SUBMITTER, make_quiet_world
from tests.scripts.test_wallet import TASK, WorldChain, play_over, use

NAME = TASK.hex()[:8]
ESCROW_WEI = 7


class Terminal(Console):
    """It writes down what is said, and answers each question alike."""

    def __init__(self, is_agreed: bool = False) -> None:
        self.out, self.is_agreed = io.StringIO(), is_agreed
        super().__init__(rich.console.Console(file=self.out, highlight=False, width=400))

    def confirm(self, question: str) -> bool:
        self.say(question)
        return self.is_agreed

    @property
    def said(self) -> str:
        return self.out.getvalue()


def open_chain(chain: WorldChain, monkeypatch: pytest.MonkeyPatch) -> GameChain:
    """What the commands see of a task that is played on the pure machine."""

    async def read_pace(_: GameChain) -> Pace:
        return Pace(chain.world.block - 1, None)

    monkeypatch.setattr(closing_commands, "read_pace", read_pace)
    return use(chain, monkeypatch, closing_commands, wallet)


# --- Close --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("account", ["operator", SUBMITTER])
async def test_a_task_that_is_over_is_settled_paid_out_and_closed(
    monkeypatch: pytest.MonkeyPatch, account: str
) -> None:
    """By any account. Only its submitter has something to take out."""
    chain, terminal = WorldChain(play_over(), account), Terminal()
    opened = open_chain(chain, monkeypatch)
    before = chain.world.state.purse.wei.get(credit_of(SUBMITTER), 0)
    await close_task(opened, NAME, terminal)
    assert chain.world.state.is_closed and not chain.world.state.seats
    assert chain.sent[-1] == calls.CloseGame()
    refund_wei = chain.world.state.purse.wei[credit_of(SUBMITTER)] - before
    assert refund_wei > 0
    assert f"{format_tokens(refund_wei)} is now credit of {SUBMITTER}" in terminal.said
    assert ("Next: touchstone withdraw" in terminal.said) == (account == SUBMITTER)
    with pytest.raises(InvalidInput, match="closed already"):
        await close_task(opened, NAME, terminal)


async def test_a_task_that_runs_says_what_is_open_and_whose_stake_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chain = WorldChain(make_quiet_world())
    with pytest.raises(InvalidInput, match="cannot be closed yet") as refused:
        await close_task(open_chain(chain, monkeypatch), NAME, Terminal())
    told = str(refused.value.actual)
    assert f"block {chain.world.block - 1}" in told and "round 1/3" in told
    assert told.count("the seat is open") == SHOWN_SEATS < len(chain.world.state.seats)
    assert not chain.sent


# --- Halt ---------------------------------------------------------------------------------------------------
async def test_a_task_is_halted_once_by_its_submitter_who_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be taken back."""
    world, unsure, sure = make_quiet_world(), Terminal(), Terminal(is_agreed=True)
    stranger, chain = WorldChain(world), WorldChain(world, SUBMITTER)
    with pytest.raises(InvalidInput, match="cannot be halted"):
        await halt_task(open_chain(stranger, monkeypatch), NAME, sure, is_agreed=True)
    opened = open_chain(chain, monkeypatch)
    with pytest.raises(InvalidInput, match="nothing was done"):
        await halt_task(opened, NAME, unsure, is_agreed=False)
    assert "cannot be taken back" in unsure.said and not stranger.sent and not chain.sent
    await halt_task(opened, NAME, sure, is_agreed=False)
    assert chain.sent == [calls.HaltTask()] and world.state.is_halted
    with pytest.raises(InvalidInput, match="cannot be halted") as refused:
        await halt_task(opened, NAME, sure, is_agreed=True)
    assert refused.value.actual == "halted already" and len(chain.sent) == 1


# --- Create -------------------------------------------------------------------------------------------------
@dataclass
class Creation:
    """What `task create` does, step by step. wealth_wei: what its account has."""

    wealth_wei: int = ESCROW_WEI
    steps: list[tuple[Any, ...]] = field(default_factory=list)

    async def credit_of(self, account: str) -> int:
        return self.wealth_wei

    async def balance_of(self, account: str) -> int:
        return 0

    def build(self, plan: Any, dataset: bytes, account: str, salt: bytes) -> Any:
        self.steps.append(("build", dataset, salt))
        return SimpleNamespace(parameter_count=9, rounds=3), None

    async def post(self, party: Any, plan: Any, dataset: bytes, salt: bytes) -> bytes:
        self.steps.append(("post", dataset, salt))
        return TASK

    async def play(self, party: Any, task: bytes, rooms: Any) -> None:
        self.steps.append(("play", task))


async def create(
    creation: Creation, terminal: Terminal, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`touchstone task create`, up to a chain and a node that do nothing."""
    path = folder / "dataset"
    path.write_bytes(make_dataset())

    @asynccontextmanager
    async def open_party(config: Any) -> AsyncIterator[Any]:
        chain = SimpleNamespace(purse=creation, token=creation, limits=LIMITS_LOCAL)
        yield SimpleNamespace(account="operator", chain=chain)

    for name, stand_in in (
        ("open_party", open_party),
        ("justify", lambda file, limits, console: None),
        ("read_config", lambda home: SimpleNamespace(limits="2s")),
        ("build_task", creation.build),
        ("refuse_bad_task", lambda party, terms, training: ESCROW_WEI),
        ("post_task", creation.post),
        ("play", creation.play),
    ):
        monkeypatch.setattr(closing_commands, name, stand_in)
    file, config = SimpleNamespace(plan=TINY_PLAN, dataset=path), SimpleNamespace(home=folder)
    await create_task(cast(Any, config), cast(Any, file), terminal, is_agreed=False)


async def test_the_task_that_was_judged_is_posted_and_served_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id follows from the salt: with another one it would be a task that was not judged."""
    creation, terminal = Creation(), Terminal(is_agreed=True)
    await create(creation, terminal, tmp_path, monkeypatch)
    build, post, play = creation.steps
    assert build[1:] == post[1:] and build[1] == make_dataset() and len(build[2]) == 32
    assert play == ("play", TASK)
    price, question = (terminal.said.index(text) for text in ("it costs at most", "Post it?"))
    assert price < question < terminal.said.index(f"posted 0x{TASK.hex()}")
    assert terminal.said.rstrip().endswith("touchstone withdraw")


@pytest.mark.parametrize("is_poor", [False, True])
async def test_who_cannot_pay_is_not_asked_and_who_does_not_agree_posts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_poor: bool
) -> None:
    creation, terminal = Creation(ESCROW_WEI - is_poor), Terminal(is_agreed=is_poor)
    with pytest.raises(InvalidInput, match="too few tokens" if is_poor else "nothing was done"):
        await create(creation, terminal, tmp_path, monkeypatch)
    assert [step[0] for step in creation.steps] == ["build"]
    assert ("Post it?" in terminal.said) != is_poor and "it costs at most" in terminal.said
