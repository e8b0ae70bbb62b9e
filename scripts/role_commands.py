"""Subcommands that take part in a task; the roles themselves live in node, verifier and whistleblower."""

import argparse
import asyncio
import secrets
from collections.abc import Coroutine
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from node import submit
from protocol.actions.party import PartyConfig, open_party
from protocol.adapters.chain import open_chain, read_deployment
from protocol.adapters.chain.refusals import format_tokens
from protocol.spec.containers import TaskTerms
from protocol.spec.deterrence import Figures
from protocol.spec.economics import list_requirements, read_sampling, refuse_paying_cheats
from scripts.console import Console, show_progress, tell_requirements
from scripts.home import read_config, unlock_key
from scripts.task_file import TaskFile, compute_disk_bytes, read_task_file
from scripts.tasks import find_task

ROLES = {
    "solve": "node.solver:run",
    "verify": "verifier.verifier:run",
    "watch": "whistleblower.watcher:run",
    "export": "node.export:run",
}
"""Long-running work: `async run(config, task)`, for `export` `async run(config, task, out)`."""


def run_task_create(options: argparse.Namespace) -> None:
    """Say what a task costs, post it, and serve its dataset until it is closed."""
    file = read_task_file(options.config)
    console = Console()
    config = open_config(options, console)
    asyncio.run(_create_task(config, file, console, is_agreed=options.yes))


async def _create_task(config: PartyConfig, file: TaskFile, console: Console, *, is_agreed: bool) -> None:
    dataset, salt = file.dataset.read_bytes(), secrets.token_bytes(32)
    async with open_party(config) as party:
        spec = await asyncio.to_thread(submit.build_spec, file.plan, dataset, party.account, salt)
        escrow_wei = await party.chain.registry.escrow_for(spec.terms)
        disk_bytes = compute_disk_bytes(spec.terms, len(dataset))
        console.say(f"{spec.terms.parameter_count:,} parameters, {spec.terms.rounds} rounds")
        console.say(f"it costs at most {format_tokens(escrow_wei)} (what is not earned comes back)")
        console.say(f"each solver needs up to {disk_bytes / 1e6:,.0f} MB of disk")
        justify_amounts(spec.terms, file.figures, console)
        if not is_agreed and not console.confirm("Post it?"):
            return
        task = await submit.create_task(party, file.plan, dataset, salt)
        console.say(f"posted 0x{task.hex()}; serving its dataset to the end, Ctrl-C stops that")
        company = show_progress(party.chain, task, console)
        await _with_company(submit.follow_task(party, task), company)


def justify_amounts(terms: TaskTerms, figures: Figures, console: Console) -> None:
    """Show why each amount is what it is. Raises InvalidInput where under these cheating would pay, or honest
    work would not."""
    sampling = read_sampling(terms)
    tell_requirements(list_requirements(terms.amounts, sampling, figures), console)
    refuse_paying_cheats(terms.amounts, sampling, figures)


def run_solve(options: argparse.Namespace) -> None:
    """Train in every round of a task."""
    _run_role("solve", options)


def run_verify(options: argparse.Namespace) -> None:
    """Audit claims of a task."""
    _run_role("verify", options)


def run_watch(options: argparse.Namespace) -> None:
    """Watch a task and dispute what is wrong."""
    _run_role("watch", options)


def run_export(options: argparse.Namespace) -> None:
    """Write the trained model of a task."""
    asyncio.run(_export(open_config(options, Console()), options.task, options.out))


async def _export(config: PartyConfig, name: str, out: Path) -> None:
    async with open_chain(config.rpc_url, read_deployment(config.deployment)) as chain:
        task = await find_task(chain, name)
    await resolve_name(ROLES["export"])(config, task, out)


def _run_role(role: str, options: argparse.Namespace) -> None:
    console = Console()
    config = open_config(options, console)
    asyncio.run(_play(config, options.task, resolve_name(ROLES[role]), console))


async def _play(config: PartyConfig, name: str, run: Any, console: Console) -> None:
    async with open_chain(config.rpc_url, read_deployment(config.deployment)) as chain:
        task = await find_task(chain, name)
        terms = await chain.registry.terms_of(task)
        disk_bytes = compute_disk_bytes(terms, 0)
        console.say(f"it takes up to {disk_bytes / 1e6:,.0f} MB of disk beside the dataset")
        await _with_company(run(config, task), show_progress(chain, task, console))


async def _with_company(work: Coroutine[Any, Any, None], company: Coroutine[Any, Any, None]) -> None:
    """Do `work` with `company` beside it, which ends with it and whose failure is of no weight."""
    beside = asyncio.create_task(company)
    try:
        await work
    finally:
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)


def open_config(options: argparse.Namespace, console: Console) -> PartyConfig:
    """The party of the home folder in `options`, its key unlocked."""
    config = read_config(options.home)
    return PartyConfig(
        home=options.home,
        deployment=Path(config.deployment),
        rpc_url=config.rpc_url,
        key=unlock_key(options.home, options.password_file),
        listen_host=config.listen_host,
        listen_port=config.listen_port,
        public_url=config.public_url,
        threads=config.threads,
        memory_mb=config.memory_mb,
        own_replays=config.own_replays,
        say=console.say,
    )
