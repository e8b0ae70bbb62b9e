"""`touchstone explorer`: serves the pages until it is interrupted."""

import os
import webbrowser
from pathlib import Path

from touchstone.explorer.names import Names
from touchstone.explorer.node_reports import Asked
from touchstone.explorer.running_explorer import open_explorer
from touchstone.protocol.adapters.chain.chain_client import open_game_chain
from touchstone.protocol.adapters.chain.deployment import GameDeployment
from touchstone.scripts.command_line.command_results import Put
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.documents.home_documents import ExplorerDocument
from touchstone.scripts.network import devnet


async def serve_explorer(
    deployment: GameDeployment,
    rpc_url: str,
    index: Path | None,
    place: tuple[str, int],
    asked: Asked,
    *,
    is_opened: bool,
    put: Put,
) -> None:
    """Serves the pages until it is interrupted. `index` is the file that keeps the events, None for the
    default. `place` is host and port. `is_opened` opens the pages in the browser. `put` receives the document
    with the pages' address."""
    console, path = Console(), index or choose_index(deployment)
    async with (
        open_game_chain(rpc_url, deployment) as chain,
        open_explorer(chain, path, Names({}), *place, asked) as explorer,
    ):
        console.notify(f"explorer of chain {deployment.chain_id} at {explorer.url}")
        console.notify(f"asked for reports: {asked.value}")
        console.notify(f"events are kept in {path}; Ctrl-C ends the explorer")
        put(ExplorerDocument(explorer.url, str(path), deployment.chain_id))
        if is_opened:
            open_browser(explorer.url)
        await explorer.following


def choose_asked(deployment: GameDeployment, *, is_chain_only: bool, is_private: bool) -> Asked:
    """Returns which nodes the explorer asks for reports. Nodes of a test network are on this machine."""
    if is_chain_only:
        return Asked.NOBODY
    return Asked.ALL if is_private or deployment.chain_id == devnet.CHAIN_ID else Asked.PUBLIC


def open_browser(url: str) -> None:
    """Opens an address in a graphical browser, if there is one. A terminal browser would take the terminal
    away."""
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(url)


def choose_index(deployment: GameDeployment) -> Path:
    """Returns where the events of a deployment are kept if the operator names no file: in $XDG_CACHE_HOME or
    ~/.cache. They can be read again from the chain at any time."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "touchstone" / f"explorer-{deployment.chain_id}-{deployment.game}.sqlite"
