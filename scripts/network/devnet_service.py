"""`touchstone devnet`: runs a test network until it is interrupted."""

from touchstone.scripts.command_line.command_results import Put
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.documents.home_documents import DevnetDocument
from touchstone.scripts.network import devnet


async def serve_devnet(setup: devnet.DevnetOptions, parties: int, put: Put) -> None:
    """Runs a test network until it is interrupted. Idle time is skipped once `parties` nodes have announced
    themselves, or never (`devnet_clock.NEVER`). `put` receives the document with the network's address."""
    console = Console()
    async with devnet.run_devnet(setup, console.notify) as net:
        console.notify(f"chain {net.deployment.chain_id} at {net.rpc_url}; contracts in {net.path}")
        console.notify(
            "Next, in other terminals: a home for each party, a task from one, seats for the others:"
        )
        console.notify(
            f"  touchstone init --home DIR --rpc-url {net.rpc_url} --deployment {net.path} --devnet"
        )
        console.notify(
            "  touchstone task example, then touchstone task create --config example/task.toml --home DIR"
        )
        console.notify("  touchstone solve TASK --home DIR (or verify, or watch)")
        console.notify("  touchstone status TASK --home DIR says which seats the task still lacks")
        put(DevnetDocument(net.deployment.chain_id, net.rpc_url, str(net.path)))
        console.notify("Ctrl-C ends the network and everything on it.")
        await devnet.keep_time(net, console.notify, parties)
