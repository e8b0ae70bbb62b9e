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
from typing import Any

from eth_account import Account

from touchstone.demo.clock import keep_time
from touchstone.demo.company import Company, open_company
from touchstone.demo.exported import compute_exported_root
from touchstone.demo.gas_use import read_gas
from touchstone.demo.isolation import is_supported
from touchstone.demo.origin import describe_origin
from touchstone.demo.page import build_page
from touchstone.demo.parts import make_loop
from touchstone.demo.player import withdraw
from touchstone.demo.report import Run, make_report
from touchstone.demo.results import show_result
from touchstone.demo.roster import SUBMITTER
from touchstone.demo.scenes import Scenes, count_in_words, describe_end
from touchstone.demo.screen import Screen
from touchstone.demo.show import Setting, Show
from touchstone.demo.verdict import Finding, judge_run
from touchstone.demo.waits import list_some
from touchstone.demo.watch import Watch
from touchstone.explorer.names import Names
from touchstone.explorer.node_reports import Asked
from touchstone.explorer.running_explorer import Explorer, open_explorer
from touchstone.node.exports import export
from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.duty import Room
from touchstone.node.loop.opening import open_node
from touchstone.node.serving.heldout_reports import list_losses
from touchstone.node.submit import build_task, post_task
from touchstone.protocol.adapters.chain.chain_client import GameChain, open_game_chain
from touchstone.protocol.economics.account_money import compute_money
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.scripts.network.devnet import GRANT_TOKEN_WEI, DevnetOptions, fund, run_devnet
from touchstone.scripts.network.explorer_service import open_browser
from touchstone.scripts.roles.role_nodes import Submitter

LOOK_S = 0.2


async def demonstrate(setting: Setting, screen: Screen) -> bool:
    """Plays one run, and tells it in scenes; returns whether nothing is wrong."""
    with setting.folders.hold():
        screen.keep_log(setting.folders.log)
        screen.expect("a local chain to start, and its contracts to be created", 0.01)
        async with open_show(setting, screen) as show, open_pages(show) as explorer:
            begin_scenes(show)
            report = await play(show)
            screen.expect("", 1.0)
            findings = conclude_report(setting, screen, report, show.scenes)
            if explorer is not None:
                screen.announce("demo", f"the explorer stays at {explorer.url}; Ctrl-C ends it")
                # Asked to end, the demo ends with the run's verdict.
                with suppress(asyncio.CancelledError):
                    await explorer.following
    return all(finding.holds for finding in findings)


def begin_scenes(show: Show) -> None:
    """Opens the first scene: who takes part, what is trained, and what a process can see."""
    setting, plan = show.setting, show.setting.plan
    show_beginning(show)
    show.scenes = Scenes(show.screen, show.watch, setting.members, setting.fault, plan.segment_steps)
    show.watch.take_event = show.scenes.take_event
    names = list_some([one.name for one in setting.members], 4)
    sees = "sees its own folder, the chain and HTTPS" if is_supported() else "(this kernel has no sandbox)"
    rounds = f"{count_in_words(plan.rounds, 'round')} of {plan.inner_steps} steps"
    size = f"{plan.count_parameters():,} parameters, {rounds}"
    show.screen.expect("the processes of the parties to start", 0.02)
    show.scenes.begin((f"{names}: each is a process that {sees}", f"the model: {size}, on sources of Python"))


def conclude_report(
    setting: Setting, screen: Screen, report: dict[str, Any], scenes: Scenes | None
) -> list[Finding]:
    """Judges the run, writes its report and its page, and shows the result."""
    report["wall_s"], report["origin"] = round(screen.seconds, 1), describe_origin()
    folders = setting.folders
    shown = {"path": folders.report, "page": folders.page, "log": folders.log}
    report |= {name: os.path.relpath(path) for name, path in shown.items()}
    findings = judge_run(report)
    report["findings"] = [vars(finding) for finding in findings]
    folders.report.write_text(json.dumps(report, indent=1) + "\n")
    folders.page.write_text(build_page(report, findings, screen.timeline))
    if scenes is not None:
        scenes.finish(*describe_end(report))
    show_result(screen, report, findings)
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
        show.screen.announce("demo", f"explorer at {explorer.url}")
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
        expecting = asyncio.create_task(keep_expecting(show))
        stack.push_async_callback(cancel, ticking, expecting)
        await stack.enter_async_context(open_submitter(show, company, ticking))
        await wait_for(lambda: company.is_over, company, ticking)
        changes = await read_changes(show, chain)
        cpu_s = {name: over.cpu_s for name, over in company.over.items()}
    return await conclude(show, chain, changes, cpu_s)


async def keep_expecting(show: Show) -> None:
    """Says what is waited for, until cancelled."""
    while True:
        show.expect()
        await asyncio.sleep(LOOK_S)


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
        show.trained, show.observer.with_cheat,
    )  # fmt: skip
    report = make_report(run)
    await export.run(show.configure(SUBMITTER), watch.task, setting.folders.model)
    report["final_weights_root"] = found[-1].weights_root.hex() if found else ""
    report["exported_weights_root"] = compute_exported_root(setting.folders.model, setting.plan.step.layout)
    return report
