"""Runs the demo: a chain, contracts, a process for each party; watched, reported, judged.

The submitter's node runs in the demo itself: it posts the task, measures each model, and computes each posted
root again.
"""

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from eth_account import Account
from rich.console import Console

from touchstone.demo.clock import keep_time
from touchstone.demo.company import Company, open_company
from touchstone.demo.exported import compute_exported_root
from touchstone.demo.gas_use import read_gas
from touchstone.demo.hearing import reword_said
from touchstone.demo.isolation import is_supported
from touchstone.demo.observer import Observer, Recomputed
from touchstone.demo.page import build_page
from touchstone.demo.parts import make_loop
from touchstone.demo.player import Order, Said, Trained, withdraw
from touchstone.demo.report import Pace, Run, make_report
from touchstone.demo.roster import SUBMITTER, Member
from touchstone.demo.screen import Screen
from touchstone.demo.stage import Folders
from touchstone.demo.verdict import Finding, judge_run
from touchstone.demo.watch import Watch
from touchstone.explorer.names import Names
from touchstone.explorer.node_reports import Asked
from touchstone.explorer.running_explorer import Explorer, open_explorer
from touchstone.node.exports import export
from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.config import NodeConfig
from touchstone.node.kit.duty import Room
from touchstone.node.loop.opening import open_node
from touchstone.node.serving.heldout_reports import list_losses
from touchstone.node.submit import RoundPlan, build_task, post_task
from touchstone.protocol.adapters.chain.chain_client import GameChain, open_game_chain
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.reports.model_progress import ModelLoss
from touchstone.protocol.compute.determinism import list_cpu_capabilities
from touchstone.protocol.economics.account_money import compute_money
from touchstone.protocol.spec.game.enums import SeatRole
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.scripts.network.devnet import GRANT_TOKEN_WEI, Devnet, DevnetOptions, fund, run_devnet
from touchstone.scripts.network.explorer_service import open_browser
from touchstone.scripts.roles.role_nodes import Submitter

LOOK_S = 0.2


@dataclass(frozen=True)
class Setting:
    """What is played. `dataset` is the task's bytes. `fault` names the operation in which the cheat errs. If
    `with_explorer`, a web page shows the run, and stays in the end."""

    plan: RoundPlan
    members: tuple[Member, ...]
    dataset: bytes
    fault: str
    folders: Folders
    with_explorer: bool = False


@dataclass
class Show:
    """A run under way. `losses` are the held-out losses that the submitter's node has measured."""

    setting: Setting
    devnet: Devnet
    screen: Screen
    keys: dict[str, Any]
    watch: Watch
    observer: Observer = field(init=False)
    pace: Pace = field(default_factory=Pace)
    losses: list[ModelLoss] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.observer = Observer(self.report_recomputed)

    @property
    def accounts(self) -> dict[str, str]:
        """Returns the lower-case accounts by name."""
        return {name: key.address.lower() for name, key in self.keys.items()}

    def hear(self, name: str, message: Said | Trained) -> None:
        """Takes a message of a party."""
        if isinstance(message, Said):
            self.screen.notify(name, self._reword(message.line))
        else:
            index = message.first_step // self.setting.plan.inner_steps
            self.pace.trained[self.accounts[name], index] += message.seconds

    def _reword(self, line: str) -> str:
        watch = self.watch
        if not watch.state.games:
            return line
        return reword_said(watch.names, watch.game, watch.state.inner[watch.task], line)

    def report_recomputed(self, found: Recomputed) -> None:
        """Tells that a root was computed again."""
        self.pace.end = self.screen.seconds
        same = "the same root" if found.own == found.posted else f"ANOTHER ROOT, {found.own.hex()[:16]}"
        self.screen.notify(SUBMITTER, f"merged round {found.round} again from the claims' bytes: {same}")

    def configure(self, name: str) -> NodeConfig:
        """Returns the configuration of the submitter's node."""
        key, folders = AccountKey(self.keys[name]), self.setting.folders
        notify = lambda line: self.screen.notify(name, line)  # noqa: E731
        return NodeConfig(folders.submitter, self.devnet.path, self.devnet.rpc_url, key, notify=notify)

    def make_orders(self) -> list[Order]:
        """Returns what each process is started with."""
        kernels, members = list_cpu_capabilities(), self.setting.members
        solvers = sum(member.role == SeatRole.SOLVER for member in members)
        return [
            Order(
                member=member,
                key=self.keys[member.name].key.hex(),
                home=self.setting.folders.make_home(member.name),
                log=self.setting.folders.logs / f"{member.name}.log",
                deployment=self.devnet.path,
                rpc_url=self.devnet.rpc_url,
                awaited=0 if member.role == SeatRole.SOLVER else solvers,
                fault=self.setting.fault,
                kernels=kernels[min(member.kernel_rank, len(kernels) - 1)],
            )
            for member in members
        ]


async def demonstrate(setting: Setting, console: Console | None = None) -> bool:
    """Plays one run; returns whether nothing is wrong."""
    screen = Screen(console)
    with setting.folders.hold():
        async with open_show(setting, screen) as show, open_pages(show) as explorer:
            show_beginning(show)
            report = await play(show)
            findings = conclude_report(setting, screen, report)
            if explorer is not None:
                screen.notify("demo", f"the explorer stays at {explorer.url}; Ctrl-C ends it")
                # Asked to end, the demo ends with the run's verdict.
                with suppress(asyncio.CancelledError):
                    await explorer.following
    return all(finding.holds for finding in findings)


def conclude_report(setting: Setting, screen: Screen, report: dict[str, Any]) -> list[Finding]:
    """Judges the run, writes its report and its page, and shows the result."""
    report["wall_s"] = round(screen.seconds, 1)
    report["path"] = os.path.relpath(setting.folders.report)
    report["page"] = os.path.relpath(setting.folders.page)
    findings = judge_run(report)
    report["findings"] = [vars(finding) for finding in findings]
    setting.folders.report.write_text(json.dumps(report, indent=1) + "\n")
    setting.folders.page.write_text(build_page(report, findings, screen.timeline))
    screen.show_result(report, findings)
    return findings


@asynccontextmanager
async def open_pages(show: Show) -> AsyncIterator[Explorer | None]:
    """Opens the explorer of the run, with the demo's names, in the browser; yields None if none is asked
    for."""
    if not show.setting.with_explorer:
        yield None
        return
    watch, index = show.watch, show.setting.folders.index
    async with open_explorer(watch.chain, index, watch.names, asked=Asked.ALL) as explorer:
        show.screen.notify("demo", f"explorer at {explorer.url}")
        open_browser(explorer.url)
        yield explorer


@asynccontextmanager
async def open_show(setting: Setting, screen: Screen) -> AsyncIterator[Show]:
    """Opens a chain with contracts and money."""
    names = (SUBMITTER, *(member.name for member in setting.members))
    keys = {name: Account.create() for name in names}
    options = DevnetOptions(path=setting.folders.deployment, log=setting.folders.logs / "anvil.log")
    async with (
        run_devnet(options, report=lambda _: None) as devnet,
        open_game_chain(devnet.rpc_url, devnet.deployment) as chain,
    ):
        await fund(chain.connection, devnet.deployment, [key.address for key in keys.values()])
        known = Names({key.address.lower(): name for name, key in keys.items()})
        watch = Watch(chain, known, screen.notify, ChainState.of(chain), lambda: screen.seconds)
        yield Show(setting, devnet, screen, keys, watch)


def show_beginning(show: Show) -> None:
    """Tells who takes part."""
    members = show.setting.members
    where = f"chain {show.devnet.deployment.chain_id} at {show.devnet.rpc_url}"
    show.screen.notify("demo", f"{where}; {len(members)} processes: {', '.join(m.name for m in members)}")
    sees = "each process sees its own folder, the chain and HTTPS (Landlock, a Linux sandbox)"
    none = "this kernel has no Landlock: that processes read only their own folder is not enforced"
    show.screen.notify("demo", sees if is_supported() else none)


# Playing
async def play(show: Show) -> dict[str, Any]:
    """Plays the task from its posting to the last token; returns the report."""
    setting, chain = show.setting, show.watch.chain
    async with AsyncExitStack() as stack:
        company = stack.enter_context(open_company(show.hear))
        company.start(show.make_orders())
        ticking = asyncio.create_task(keep_time(show.devnet, 1 + len(setting.members)))
        stack.push_async_callback(cancel, ticking)
        await stack.enter_async_context(open_submitter(show, company, ticking))
        await wait_for(lambda: company.is_over, company, ticking)
        changes = await read_changes(show, chain)
        cpu_s = {name: over.cpu_s for name, over in company.over.items()}
    return await conclude(show, chain, changes, cpu_s)


@asynccontextmanager
async def open_submitter(show: Show, company: Company, ticking: "asyncio.Task[None]") -> AsyncIterator[None]:
    """Posts the task and plays it to its end with the other parties; then takes the rest out."""
    setting, watch = show.setting, show.watch
    async with open_node(show.configure(SUBMITTER), Submitter) as node:
        words = (setting.plan, setting.dataset, node.account, secrets.token_bytes(32))
        built = await asyncio.to_thread(build_task, *words)
        task = await post_task(node.chain, node.store, *built, setting.dataset)
        await node.following.take_next()
        await node.join(task)
        rooms = (*node.list_rooms(), Room(show.observer.list_duties, node))
        looping = asyncio.create_task(make_loop(node, rooms).run())
        watching = asyncio.create_task(watch.run())
        try:
            await wait_for(lambda: looping.done() and watching.done(), company, ticking, looping, watching)
        finally:
            show.losses = list_losses(node.get_view())
            await cancel(looping, watching)
        await withdraw(node)
        yield


async def wait_for(is_enough: Any, company: Company, *tasks: "asyncio.Task[Any]") -> None:
    """Waits until that holds. Raises what ended a task, and EnvironmentFault if a party has failed."""
    while not is_enough():
        for task in tasks:
            if task.done():
                task.result()
        company.require_alive()
        await asyncio.sleep(LOOK_S)


async def cancel(*tasks: "asyncio.Task[Any]") -> None:
    """Ends tasks, and waits until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# Afterwards
async def read_changes(show: Show, chain: GameChain) -> dict[str, int]:
    """Returns what each wallet has more than it was given, in wei."""
    accounts = show.accounts.values()
    return {one: await chain.token.balance_of(one) - GRANT_TOKEN_WEI for one in accounts}


async def conclude(
    show: Show, chain: GameChain, changes: dict[str, int], cpu_s: dict[str, float]
) -> dict[str, Any]:
    """Returns the report of a run whose parties have gone, and exports the model."""
    setting, watch, head = show.setting, show.watch, await chain.head()
    first = show.devnet.deployment.deploy_block
    state = get_state_at(watch.game, head.number + 1)
    money = compute_money(state, watch.game.money, head.number + 1)
    gas = await read_gas(chain.connection, show.devnet.deployment, first, head.number)
    found = show.observer.list_found()
    run = Run(
        setting.members, show.accounts, watch.history, head.number, money, changes,
        gas, show.pace, watch.seated, cpu_s, show.losses, found, watch.numbers,
    )  # fmt: skip
    report = make_report(run)
    await export.run(show.configure(SUBMITTER), watch.task, setting.folders.model)
    report["final_weights_root"] = found[-1].weights_root.hex() if found else ""
    report["exported_weights_root"] = compute_exported_root(setting.folders.model, setting.plan.step.layout)
    return report
