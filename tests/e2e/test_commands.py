"""A whole task by what an operator types: test network, homes, a posted task, nodes, export, money out.

All in one process, so the commands' coroutines run beside each other; the clock is the test network's own.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import rich.console
from eth_account import Account
from safetensors.torch import load_file

from tests.e2e.world import TINY_PLAN, make_dataset
from tests.scripts.schemas import check
from touchstone.demo.own_time import OwnTime
from touchstone.node.exports import export
from touchstone.node.exports.model_folder import SAFETENSORS_NAME
from touchstone.node.exports.written_model import write_model
from touchstone.node.kit.config import NodeConfig
from touchstone.node.models.model_choice import choose_newest, choose_settled
from touchstone.protocol.adapters.chain.chain_client import GameChain, open_game_chain
from touchstone.protocol.adapters.chain.deployment import read_game_deployment
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.compute.drawn_weights import draw_weights
from touchstone.protocol.compute.program.known_steps import TaskStep
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.scripts.account.task_names import read_state
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.documents.document_fields import Document
from touchstone.scripts.home.home_config import read_config
from touchstone.scripts.home.home_making import NewHome, make_home
from touchstone.scripts.home.node_config import open_config
from touchstone.scripts.models.model_export import export_model
from touchstone.scripts.models.model_measuring import MeasureChoice, measure_task
from touchstone.scripts.models.segment_replay import replay_segment
from touchstone.scripts.money.task_shares import (
    claim_revenue,
    halt_by_vote,
    pay_revenue,
    show_shares,
    vote_halt,
)
from touchstone.scripts.money.withdrawal import withdraw
from touchstone.scripts.network import devnet
from touchstone.scripts.network.devnet import GRANT_TOKEN_WEI, Devnet, DevnetOptions, run_devnet
from touchstone.scripts.seats.seat_agreement import Offer
from touchstone.scripts.seats.seat_session import play_role
from touchstone.scripts.status.status_tables import notify_status
from touchstone.scripts.tasks.task_creation import create_task
from touchstone.scripts.tasks.task_file import read_task_file
from touchstone.step.step_folder import save_step

TASK_FILE = """
dataset = "corpus.bin"
preset = "local"
rounds = 2
inner_steps = 8
segment_steps = 2
solver_seats = 2
draws = 1
late_chance = 0
least_solvers = 2
least_verifiers = 3
least_whistleblowers = 0
carry_moments = 0
outer_learning_rate = 0.7
outer_momentum = 0.5
sequences_per_step = 2
sequence_tokens = 16
heldout_tokens = 1024
initial_seed = 1
[model]
vocabulary_size = 256
hidden_size = 16
intermediate_size = 32
layer_count = 1
head_count = 2
kv_head_count = 1
context_tokens = 32
[schedule]
peak_learning_rate = 0.002
warmup_steps = 4
total_steps = 16
[windows]
train_min = 130
train_max = 240
audit_max = 90
post = 20
respond = 60
dispute = 600
query = 6000
[amounts]
solver_pay = "10"
[economics]
amounts = "derived"
[limits]
"""
CAST = {
    "solver 0": SeatRole.SOLVER,
    "solver 1": SeatRole.SOLVER,
    "verifier 0": SeatRole.VERIFIER,
    "verifier 1": SeatRole.VERIFIER,
    "verifier 2": SeatRole.VERIFIER,
}
DEADLINE_S = 3_600.0
LOOK_S = 0.2


@dataclass
class Terminals:
    """The operators at their terminals: what each home's console has shown."""

    folder: Path
    net: Devnet

    def __post_init__(self) -> None:
        self.consoles: dict[str, StringIO] = {}
        self.go()

    def go(self) -> None:
        """Let the clock of the test network run."""
        self._ticking = asyncio.create_task(devnet.keep_time(self.net, None, 1 + len(CAST), OwnTime().now_s))

    async def hold(self) -> None:
        """Stop it: no block is made."""
        self._ticking.cancel()
        await asyncio.gather(self._ticking, return_exceptions=True)

    async def sit(self, name: str) -> tuple[NodeConfig, Console]:
        """`touchstone init --devnet`, and what later commands of this home get."""
        home = self.folder / name.replace(" ", "-")
        password = self.folder / "password"
        wanted = NewHome(home, self.net.rpc_url, self.net.path, password, devnet=True)
        self.consoles[name] = StringIO()
        console = Console(rich.console.Console(file=self.consoles[name], width=400))
        await make_home(wanted, console)
        return open_config(home, password, console), console

    def read(self, name: str) -> str:
        """All that one operator has seen so far."""
        return self.consoles[name].getvalue()


@asynccontextmanager
async def open_terminals(folder: Path) -> AsyncIterator[Terminals]:
    (folder / "password").write_text("secret")
    (folder / "password").chmod(0o600)
    limits = "\n".join(f"{name} = {value}" for name, value in vars(TINY_PLAN.limits).items())
    (folder / "task.toml").write_text(TASK_FILE + limits)
    (folder / "corpus.bin").write_bytes(make_dataset())
    setup = DevnetOptions(path=folder / "deployment.json", log=folder / "anvil.log")
    async with run_devnet(setup, lambda _: None) as net:
        terminals = Terminals(folder, net)
        try:
            yield terminals
        finally:
            await terminals.hold()


async def run_beside(*works: Coroutine[Any, Any, Any]) -> None:
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(work)


async def wait_for_task(terminals: Terminals) -> str:
    while not (found := re.search(r"posted 0x([0-9a-f]{64})", terminals.read("submitter"))):
        await asyncio.sleep(LOOK_S)
    return found.group(1)


def begin_with_weights(folder: Path) -> None:
    """The task file names a recorded step in place of sizes and a seed."""
    path = folder / "task.toml"
    text = path.read_text().replace("initial_seed = 1\n", "")
    start, end = text.index("[model]"), text.index("[schedule]")
    path.write_text(text[:start] + '[model]\nstep = "step"\n' + text[end:])
    step = TINY_PLAN.step
    given = replace(step, weights=draw_weights(step.layout, 99))
    save_step(given, folder / "step")
    write_model(folder / "start", given.weights, TaskStep(step.built, step.layout))


async def play_parts(
    terminals: Terminals, parties: dict[str, tuple[NodeConfig, Console]], start: Path | None = None
) -> None:
    """start: a folder that the verifiers have."""
    task = await wait_for_task(terminals)
    works = []
    for name, role in CAST.items():
        config, console = parties[name]
        offer = Offer(role, 0, True, start if role == SeatRole.VERIFIER else None)
        works.append(_play(role, play_role(config, read_config(config.home), task[:8], offer, console)))
    await run_beside(*works)


async def _play(role: SeatRole, work: Coroutine[Any, Any, Document]) -> None:
    words = {SeatRole.SOLVER: "solve", SeatRole.VERIFIER: "verify", SeatRole.WHISTLEBLOWER: "watch"}
    assert check(words[role], await work)["is_task_closed"]


@pytest.mark.parametrize("is_given", [False, True])
async def test_a_task_is_typed_from_the_first_home_to_the_last_token(tmp_path: Path, is_given: bool) -> None:
    """From a seed, and from a folder with weights, which one operator has as well."""
    async with open_terminals(tmp_path) as terminals:
        if is_given:
            begin_with_weights(tmp_path)
        parties = {name: await terminals.sit(name) for name in ("submitter", *CAST)}
        config, console = parties["submitter"]
        file = read_task_file(tmp_path / "task.toml")
        await run_beside(
            create_task(config, file, console, is_agreed=True, put=partial(check, "task create")),
            play_parts(terminals, parties, tmp_path / "start" if is_given else None),
            _export_meanwhile(terminals, config),
        )
        _check_said(terminals)
        if is_given:
            _check_fetched(terminals)
        for one in (parties["solver 0"][0], config):
            await _check_export(one, tmp_path / "model")
        await _check_eval(terminals, *parties["solver 0"])
        await _check_money(terminals, parties)


async def _export_meanwhile(terminals: Terminals, config: NodeConfig) -> None:
    """In empty homes, so that all bytes come from the nodes at work: the first model as soon as its root is
    posted, by the submitter's account; by a stranger's, which nobody gave anything, once it is settled."""
    await wait_for_task(terminals)
    stranger = replace(config, key=AccountKey(Account.create()), home=terminals.folder / "strange")
    early = replace(config, home=terminals.folder / "early")
    for one in (early, stranger):
        one.home.mkdir(mode=0o700)
    async with open_game_chain(config.rpc_url, read_game_deployment(config.deployment)) as chain:
        task = await _wait_for_model(terminals, chain, lambda game, block: choose_newest(game).after >= 0)
        await export.run(early, task, terminals.folder / "early" / "model")
        with pytest.raises(InvalidInput, match="seat in some task"):
            await export.run(stranger, task, stranger.home / "model")
        with pytest.raises(InvalidInput, match="not every account may read"):
            await replay_segment(stranger, task.hex(), 0, "0", 1, Console())
        terminals.go()
        await _wait_for_model(terminals, chain, lambda game, block: choose_settled(game, block) is not None)
        await export.run(stranger, task, stranger.home / "model")
        await _check_replays(stranger, task)
        assert not (await chain.game.peer_of(stranger.key.address.lower())).url, "it announced nothing"
        terminals.go()


async def _check_replays(stranger: NodeConfig, task: bytes) -> None:
    """Without a seat, by the solver's slot: on one machine all replays of a segment give the same bits."""
    for slot, segment in ((0, 0), (1, 3)):
        found = check("replay", await replay_segment(stranger, task.hex(), 0, str(slot), segment, Console()))
        assert (found["result"], found["own_end"], found["slot"]) == ("ACCEPT", found["claimed_end"], slot)
    assert not list(stranger.home.glob("replay-*")), "what was fetched is gone"


async def _wait_for_model(
    terminals: Terminals, chain: GameChain, is_there: Callable[[LoggedGame, int], bool]
) -> bytes:
    """The task, once it has such a model. No block is made from then on."""
    while True:
        state = await read_state(chain)
        for task, game in state.games.items():
            if is_there(game, state.head_block):
                await terminals.hold()
                return task
        await asyncio.sleep(0.05)


def _check_said(terminals: Terminals) -> None:
    said = terminals.read("submitter")
    assert (
        "solver_stake" in said
        and "C + gas of a round" in said
        and "it costs at most" in said
        and "the task is closed" in said
    )
    assert "locks " in terminals.read("verifier 1")
    lines = ("training one step", "checking one step", "checked one step", "took a seat")
    places = [terminals.read("verifier 1").index(line) for line in lines]
    assert places == sorted(places), "minutes on a slow machine, and the operator knows what for"
    assert "60 blocks (respond)" in terminals.read("solver 1"), "respond is shorter than train_min"


def _check_fetched(terminals: Terminals) -> None:
    """Who has the folder fetches nothing."""
    assert "serving its dataset and its first weights" in terminals.read("submitter")
    line = "fetching the weights that the task begins with"
    found = {name: line in terminals.read(name) for name in CAST}
    assert found == {name: role == SeatRole.SOLVER for name, role in CAST.items()}


async def _check_export(config: NodeConfig, out: Path) -> None:
    """All nodes have ended: it comes out of a home that took part."""
    deployment = read_game_deployment(config.deployment)
    async with open_game_chain(config.rpc_url, deployment) as chain:
        [task] = (await read_state(chain)).games
    check("export", await export_model(config, task.hex(), out))
    last, early = (
        load_file(out / SAFETENSORS_NAME),
        load_file(out.parent / "early" / "model" / SAFETENSORS_NAME),
    )
    assert last.keys() == early.keys() and any(not last[name].equal(early[name]) for name in last)


async def _check_eval(terminals: Terminals, config: NodeConfig, console: Console) -> None:
    """No node is up that has the held-out tokens: the operator is told what to do without them."""
    wanted = MeasureChoice(await wait_for_task(terminals), tokens=100)
    with pytest.raises(EnvironmentFault, match="held-out tokens of this task.*Export the model"):
        await measure_task(config, wanted, console)


async def _check_money(terminals: Terminals, parties: dict[str, tuple[NodeConfig, Console]]) -> None:
    """Everybody withdraws; nothing is lost, nothing burned, who worked has earned."""
    gains = {}
    for name, (config, console) in parties.items():
        deployment = read_game_deployment(config.deployment)
        async with open_game_chain(config.rpc_url, deployment, config.key) as chain:
            await notify_status(chain, config.key.address, console)
            assert "now: touchstone withdraw" in terminals.read(name) and "closed" in terminals.read(name)
            await withdraw(chain, console, is_waiting=True)
            gains[name] = await chain.token.balance_of(chain.address) - GRANT_TOKEN_WEI
    assert sum(gains.values()) == 0 and gains["submitter"] < 0
    assert [gains[name] for name in CAST if name.startswith("solver")] == [20 * 10**18] * 2
    assert all(gain >= 0 for name, gain in gains.items() if name != "submitter")
    await _check_shares(parties, gains)


async def _check_shares(parties: dict[str, tuple[NodeConfig, Console]], gains: dict[str, int]) -> None:
    """Each has a share for each wei that it has earned, also now that the task is closed. Revenue is paid in
    and claimed. The command takes votes back, and gives none for a halt that comes too late; the contract
    takes them from any wallet, and they halt nothing."""
    config, console = parties["submitter"]
    paid_wei, supply = 10**18, sum(gains[name] for name in CAST)
    async with open_game_chain(config.rpc_url, read_game_deployment(config.deployment), config.key) as chain:
        [task] = (await read_state(chain)).games
        with pytest.raises(InvalidInput, match="too few shares"):
            await vote_halt(chain, task.hex(), 0, console)
        with pytest.raises(InvalidInput, match="no revenue to claim"):
            await claim_revenue(chain, task.hex(), console)
        check("shares pay", await pay_revenue(chain, task.hex(), paid_wei, console))
    claimed_wei = 0
    for name in CAST:
        config, console = parties[name]
        deployment = read_game_deployment(config.deployment)
        async with open_game_chain(config.rpc_url, deployment, config.key) as chain:
            shown = check("shares show", await show_shares(chain, task.hex(), console))
            assert (int(shown["supply"]), int(shown["held"])) == (supply, gains[name])
            assert shown["claimable_wei"] == str(paid_wei * gains[name] // supply)
            if gains[name] == 0:
                continue
            claimed = check("shares claim", await claim_revenue(chain, task.hex(), console))
            assert claimed["claimed_wei"] == shown["claimable_wei"]
            claimed_wei += int(claimed["claimed_wei"])
            voted = check("shares vote", await vote_halt(chain, task.hex(), 0, console))
            assert voted["votes"] == "0" and voted["held"] == str(gains[name])
            with pytest.raises(InvalidInput, match="nothing left to halt"):
                await vote_halt(chain, task.hex(), None, console)
            await chain.shares.vote_halt(task, gains[name])
    assert paid_wei - len(CAST) < claimed_wei <= paid_wei
    async with open_game_chain(config.rpc_url, deployment, config.key) as chain:
        shown = check("shares show", await show_shares(chain, task.hex(), console))
        assert shown["voting"] == shown["supply"] and shown["majority_since"] > 0
        with pytest.raises(InvalidInput, match="nothing left to halt"):
            await halt_by_vote(chain, task.hex(), console)
