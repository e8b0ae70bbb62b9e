"""`touchstone explorer`: serves the pages until it is interrupted."""

import argparse
import asyncio
import os
import webbrowser
from pathlib import Path

from touchstone.explorer.names import Names
from touchstone.explorer.node_reports import Asked
from touchstone.explorer.running_explorer import open_explorer
from touchstone.protocol.adapters.chain.chain_client import open_game_chain
from touchstone.protocol.adapters.chain.deployment import GameDeployment, read_game_deployment
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.network import devnet


def run_explorer(options: argparse.Namespace) -> None:
    """Serve the pages until it is interrupted."""
    asyncio.run(_serve(options, Console()))


async def _serve(options: argparse.Namespace, console: Console) -> None:
    deployment = read_game_deployment(options.deployment)
    index, asked = options.index or choose_index(deployment), choose_asked(options, deployment)
    async with (
        open_game_chain(options.rpc_url, deployment) as chain,
        open_explorer(chain, index, Names({}), options.host, options.port, asked) as explorer,
    ):
        console.say(f"explorer of chain {deployment.chain_id} at {explorer.url}")
        console.say(f"asked for reports: {asked.value}")
        console.say(f"events are kept in {index}; Ctrl-C ends the explorer")
        options.put({"url": explorer.url, "index": str(index), "chain_id": deployment.chain_id})
        if options.open:
            open_browser(explorer.url)
        await explorer.following


def choose_asked(options: argparse.Namespace, deployment: GameDeployment) -> Asked:
    """Which nodes the explorer asks for reports. Those of a test network are on this machine."""
    if options.chain_only:
        return Asked.NOBODY
    is_private = options.private_peers or deployment.chain_id == devnet.CHAIN_ID
    return Asked.ALL if is_private else Asked.PUBLIC


def open_browser(url: str) -> None:
    """Show an address in the browser of the desktop, where there is one: a browser of the terminal would take
    the terminal away."""
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(url)


def choose_index(deployment: GameDeployment) -> Path:
    """Where the events of a deployment are kept unless the operator says it: $XDG_CACHE_HOME or ~/.cache.
    They can be read again from the chain at any time."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "touchstone" / f"explorer-{deployment.chain_id}-{deployment.tasks}.sqlite"
