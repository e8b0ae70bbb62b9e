"""One network from the task's posting to the last round: a chain with blocks of a fixed time, a process for
each party, one verifier killed on the way.
"""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eth_account import Account

from lab.benchmarks.utilisation_run.pacing import PacedOrder, draw_train_s, make_paced_part
from lab.benchmarks.utilisation_run.plan import SEGMENTS, SOLVERS, VERIFIERS, WHISTLEBLOWERS, Play, build_plan
from node.submit import post_task
from protocol.actions.runtime import upkeep_duties
from protocol.actions.runtime.config import PartyConfig
from protocol.actions.runtime.joining import catch_up, open_task
from protocol.actions.runtime.opening import open_party
from protocol.actions.runtime.party import Party
from protocol.actions.runtime.playing import Loop
from protocol.adapters.chain.chain_client import GameChain, open_game_chain
from protocol.adapters.keys import AccountKey
from protocol.compute.determinism import list_cpu_capabilities
from protocol.spec.game.state import RoundPhase, SeatRole
from scripts.devnet import Devnet, DevnetOptions, fund, run_devnet
from tests.e2e.demo.company import Company, open_company
from tests.e2e.demo.plan import read_dataset
from tests.e2e.demo.player import Said, Trained
from tests.e2e.demo.roster import SUBMITTER, Member, make_roster
from tests.e2e.demo.run import cancel
from tests.e2e.demo.stage import Folders

LOOK_S = 0.2
FAULT = "SUBTRACT"
"""The operation in which the false solver errs."""
FALSE_SOLVER, STOPPED = f"solver-{SOLVERS}", f"verifier-{VERIFIERS}"
ENDED = (RoundPhase.POSTED, RoundPhase.STANDING)
Say = Callable[[str, str], None]


@dataclass
class Network:
    """A run under way. slowest_step_s: longest computation of a step without its wait, by name; stopped: the
    block after which the verifier was gone."""

    play: Play
    devnet: Devnet
    chain: GameChain
    folders: Folders
    keys: dict[str, Any]
    say: Say
    members: tuple[Member, ...] = make_roster(SOLVERS, VERIFIERS, WHISTLEBLOWERS, with_cheat=False)
    slowest_step_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    stopped: int | None = None

    def hear(self, name: str, message: Said | Trained) -> None:
        """What a party said or did."""
        if isinstance(message, Said):
            self.say(name, message.line)
        else:
            self.slowest_step_s[name] = max(self.slowest_step_s[name], message.seconds)

    def get_train_s(self, name: str) -> float:
        """The training time of a round that a party drew."""
        return draw_train_s(self.play.train_s, self.play.spread, name, self.play.seed)

    def make_order(self, member: Member) -> PacedOrder:
        """What a process is started with. Verifiers wait for all solvers, the whistleblower for everybody:
        the task starts with its seat."""
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
async def open_network(play: Play, root: Path, say: Say) -> AsyncIterator[Network]:
    """A chain with contracts and money for everybody; from here on a block every `block_s`."""
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
            yield Network(play, devnet, chain, folders, keys, say)


async def run_network(network: Network, limit_s: float) -> bool:
    """Play all phases; whether they were over within the limit. Raises what a failing party raises."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + limit_s
    with open_company(network.hear, make_paced_part) as company:
        company.start([network.make_order(member) for member in network.members])
        async with open_submitter(network) as (party, looping):
            while not is_ended(party, network.play.rounds - 1) and loop.time() < until_s:
                company.require_alive()
                if looping.done():
                    looping.result()
                stop_verifier(network, company, party)
                await asyncio.sleep(LOOK_S)
            return is_ended(party, network.play.rounds - 1)


@asynccontextmanager
async def open_submitter(network: Network) -> "AsyncIterator[tuple[Party, asyncio.Task[bool]]]":
    """Post the task, and send the calls that are due; the submitter's party, and its loop."""
    key, folders = AccountKey(network.keys[SUBMITTER]), network.folders
    where = (folders.submitter, network.devnet.path, network.devnet.rpc_url, key)
    async with open_party(PartyConfig(*where, say=lambda line: network.say(SUBMITTER, line))) as party:
        task = await post_task(party, build_plan(network.play), read_dataset(), secrets.token_bytes(32))
        await catch_up(party)
        await open_task(party, task)
        looping = asyncio.create_task(Loop(party, (upkeep_duties.list_duties,)).run())
        try:
            yield party, looping
        finally:
            await cancel(looping)


def is_ended(party: Party, index: int) -> bool:
    """Whether a round has its root, or never will have another than its base."""
    game_round = party.game.rounds.get(index)
    return game_round is not None and game_round.phase in ENDED


def stop_verifier(network: Network, company: Company, party: Party) -> None:
    """Kill the verifier once the last round that has all of them is over."""
    if network.stopped is None and is_ended(party, network.play.last_with_all):
        network.stopped = party.state.head_block
        company.stop(STOPPED)
        network.say("bench", f"{STOPPED} is stopped after block {network.stopped}")
