"""Runs one network from the task's posting to the last round, with blocks of a fixed time.

Each party has its own process; one verifier is killed on the way. The parties are those of the demo, but
steps take the time of a large model: a call waits after its own computation until its time is over. Product
code is not changed: functions are replaced from outside, in the process of one party. The false solver is
honest up to a round. From then on one operation in each of its steps errs, and it defends that. No other
process knows.
"""

import asyncio
import random
import secrets
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eth_account import Account

from lab.benchmarks.utilisation_run.plan import SEGMENTS, SOLVERS, VERIFIERS, WHISTLEBLOWERS, Play, build_plan
from tests.e2e.world import Keeper
from touchstone.demo.company import Company, open_company
from touchstone.demo.parts import HONEST, Part, make_loop
from touchstone.demo.plan import read_dataset
from touchstone.demo.planted import make_planting_compute
from touchstone.demo.player import Line, Order, Said, Trained, only_defend
from touchstone.demo.roster import SUBMITTER, Member, make_roster
from touchstone.demo.run import cancel
from touchstone.demo.stage import Folders
from touchstone.node.kit.config import NodeConfig
from touchstone.node.loop.node import Node
from touchstone.node.loop.opening import open_node
from touchstone.node.records import dispute_records
from touchstone.node.records.compute import Compute
from touchstone.node.serving import audit_room
from touchstone.node.serving.audit_room import Train
from touchstone.node.submit import build_task, post_task
from touchstone.protocol.adapters.chain.chain_client import GameChain, open_game_chain
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.compute.bounds.retrace import retrace
from touchstone.protocol.compute.determinism import list_cpu_capabilities
from touchstone.protocol.compute.program.step import replay_segment, train_segment
from touchstone.protocol.compute.program.training_state import GetBatch, TrainingState
from touchstone.protocol.spec.game.enums import RoundPhase, SeatRole
from touchstone.protocol.spec.program_operations import Operation
from touchstone.protocol.spec.task_spec import TrainingSpec
from touchstone.scripts.network.devnet import Devnet, DevnetOptions, fund, run_devnet

Report = Callable[[int, int, float], None]
"""Takes (global step, steps, seconds of the computation without the wait)."""
ROLES = ("touchstone.node", "touchstone.verifier", "touchstone.whistleblower")
DEFAULTS = frozenset({audit_room.__name__, dispute_records.__name__})
"""Modules that hold the function as a default of a party's own parts; there it is replaced in the parts."""


def draw_train_s(train_s: float, spread: float, name: str, seed: int) -> float:
    """Returns the training time of a round for the party of this name: up to `spread` off, the same at each
    call."""
    return train_s * (1 + random.Random(f"{seed} {name}").uniform(-spread, spread))


def pace(train: Train, step_s: float, report: Report) -> Train:
    """Returns `train`, slowed down so that each step takes at least `step_s` seconds."""

    def paced(
        state: TrainingState, spec: TrainingSpec, get_batch: GetBatch, inner_step: int, steps: int
    ) -> tuple[TrainingState, list[float]]:
        first, started_s = state.global_step, time.monotonic()
        result = train(state, spec, get_batch, inner_step, steps)
        took_s = time.monotonic() - started_s
        report(first, steps, took_s)
        time.sleep(max(0.0, steps * step_s - took_s))
        return result

    return paced


def switch(honest: Callable[..., Any], other: Callable[..., Any], first_step: int) -> Callable[..., Any]:
    """Returns a function that calls `honest` for states before this global step, `other` from it on."""

    def choose(state: TrainingState, *arguments: Any) -> Any:
        return (other if state.global_step >= first_step else honest)(state, *arguments)

    return choose


def replace_training(train: Train, *packages: str) -> list[str]:
    """Makes every loaded module of `packages` (default: the roles) that trains segments call `train`; returns
    their names. Raises LookupError if there is none, because nothing would be slowed down."""
    found = []
    for name, module in list(sys.modules.items()):
        is_here = name.startswith(packages or ROLES) and name not in DEFAULTS
        if is_here and vars(module).get("train_segment") is train_segment:
            vars(module)["train_segment"] = train
            found.append(name)
    if not found:
        raise LookupError(
            f"no module of {packages or ROLES} calls train_segment: expected one that trains claims"
        )
    return found


@dataclass(frozen=True)
class PacedOrder(Order):
    """The order for a party. `step_s` is the time of a step; `first_false_step` is the global step from which
    it errs, None if it never does."""

    step_s: float = 0.0
    first_false_step: int | None = None


def make_paced_part(order: Order, line: Line) -> Part:
    """Returns the rooms of the member's role, with slowed-down training and replays. Raises LookupError if
    there is no training to slow down."""
    assert isinstance(order, PacedOrder)
    part, compute = HONEST[order.member.role], make_compute(order, line)
    replace_training(compute.train)

    def put_in(node: Node) -> None:
        node.task.audits.room.train = compute.train
        node.rooms.tools.cases.compute = compute

    if order.first_false_step is not None:
        part = only_defend(part)
    return replace(part, spoil=put_in)


def make_compute(order: PacedOrder, line: Line) -> Compute:
    """Returns what the party computes with: slowed down, and false from its step on."""
    compute = Compute(replay_segment, retrace)
    if order.first_false_step is not None:
        planted = make_planting_compute(Operation[order.fault])
        compute = Compute(
            switch(replay_segment, planted.train, order.first_false_step),
            switch(retrace, planted.retrace, order.first_false_step),
        )

    def report(first_step: int, steps: int, seconds: float) -> None:
        line.send(Trained(first_step, seconds / steps))

    return Compute(pace(compute.train, order.step_s, report), compute.retrace)


# The network
LOOK_S = 0.2
FAULT = "SUBTRACT"
"""The operation in which the false solver errs."""
FALSE_SOLVER, STOPPED = f"solver-{SOLVERS}", f"verifier-{VERIFIERS}"
ENDED = (RoundPhase.POSTED, RoundPhase.STANDING)
Notify = Callable[[str, str], None]


@dataclass
class Network:
    """A run under way. `slowest_step_s` is the longest computation of a step without its wait, by name.
    `stopped` is the block after which the verifier was killed."""

    play: Play
    devnet: Devnet
    chain: GameChain
    folders: Folders
    keys: dict[str, Any]
    notify: Notify
    members: tuple[Member, ...] = make_roster(SOLVERS, VERIFIERS, WHISTLEBLOWERS, with_cheat=False)
    slowest_step_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    stopped: int | None = None

    def hear(self, name: str, message: Said | Trained) -> None:
        """Takes a message of a party."""
        if isinstance(message, Said):
            self.notify(name, message.line)
        else:
            self.slowest_step_s[name] = max(self.slowest_step_s[name], message.seconds)

    def get_train_s(self, name: str) -> float:
        """Returns the training time of a round that a party drew."""
        return draw_train_s(self.play.train_s, self.play.spread, name, self.play.seed)

    def make_order(self, member: Member) -> PacedOrder:
        """Returns the order that a process is started with. Verifiers wait for all solvers, and the
        whistleblower for everybody, because the task starts with its seat."""
        kernels = list_cpu_capabilities()
        awaited = {SeatRole.SOLVER: 0, SeatRole.VERIFIER: SOLVERS}.get(member.role, SOLVERS + VERIFIERS)
        steps = SEGMENTS * self.play.segment_steps
        return PacedOrder(
            member=member,
            key=self.keys[member.name].key.hex(),
            home=self.folders.make_home(member.name),
            log=self.folders.logs / f"{member.name}.log",
            deployment=self.devnet.path,
            rpc_url=self.devnet.rpc_url,
            awaited=awaited,
            fault=FAULT,
            kernels=kernels[min(member.kernel_rank, len(kernels) - 1)],
            step_s=self.get_train_s(member.name) / steps,
            first_false_step=self.play.first_false * steps if member.name == FALSE_SOLVER else None,
        )


@asynccontextmanager
async def open_network(play: Play, root: Path, notify: Notify) -> AsyncIterator[Network]:
    """Opens a chain with contracts and money for all parties; from then on it makes a block every
    `block_s`."""
    folders = Folders(root)
    names = (SUBMITTER, *(member.name for member in Network.members))
    keys = {name: Account.create() for name in names}
    options = DevnetOptions(path=folders.deployment, log=folders.logs / "anvil.log")
    with folders.hold():
        async with (
            run_devnet(options, report=lambda _: None) as devnet,
            open_game_chain(devnet.rpc_url, devnet.deployment) as chain,
        ):
            await fund(chain.connection, devnet.deployment, [key.address for key in keys.values()])
            await chain.connection.request("evm_setAutomine", False)
            await chain.connection.request("evm_setIntervalMining", play.block_s)
            yield Network(play, devnet, chain, folders, keys, notify)


async def run_network(network: Network, limit_s: float) -> bool:
    """Plays all phases. Returns whether they were over within the limit. Raises what a failing party
    raises."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + limit_s
    with open_company(network.hear, make_paced_part) as company:
        company.start([network.make_order(member) for member in network.members])
        async with open_submitter(network) as (node, looping):
            while not is_ended(node, network.play.rounds - 1) and loop.time() < until_s:
                company.require_alive()
                if looping.done():
                    looping.result()
                stop_verifier(network, company, node)
                await asyncio.sleep(LOOK_S)
            return is_ended(node, network.play.rounds - 1)


@asynccontextmanager
async def open_submitter(network: Network) -> "AsyncIterator[tuple[Node, asyncio.Task[bool]]]":
    """Posts the task, and sends the calls that are due; yields the submitter's node and its loop."""
    key, folders = AccountKey(network.keys[SUBMITTER]), network.folders
    where = (folders.submitter, network.devnet.path, network.devnet.rpc_url, key)
    config = NodeConfig(*where, notify=lambda line: network.notify(SUBMITTER, line))
    async with open_node(config, Keeper) as node:
        plan, dataset, salt = build_plan(network.play), read_dataset(), secrets.token_bytes(32)
        built = await asyncio.to_thread(build_task, plan, dataset, node.account, salt)
        task = await post_task(node.chain, node.store, *built, dataset)
        await node.following.take_next()
        await node.join(task)
        looping = asyncio.create_task(make_loop(node, node.list_rooms()).run())
        try:
            yield node, looping
        finally:
            await cancel(looping)


def is_ended(node: Node, index: int) -> bool:
    """Returns whether a round has its root, or keeps its base root for good."""
    game_round = node.game.rounds.get(index)
    return game_round is not None and game_round.phase in ENDED


def stop_verifier(network: Network, company: Company, node: Node) -> None:
    """Kills the verifier once the last round that has all verifiers is over."""
    if network.stopped is None and is_ended(node, network.play.last_with_all):
        network.stopped = node.state.head_block
        company.stop(STOPPED)
        network.notify("bench", f"{STOPPED} is stopped after block {network.stopped}")
