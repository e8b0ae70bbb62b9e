"""`touchstone devnet`: runs a test network until it is interrupted."""

import argparse
import asyncio

from touchstone.scripts.command_line.console import Console
from touchstone.scripts.network import devnet
from touchstone.scripts.network.devnet_clock import NEVER


def run_devnet(options: argparse.Namespace) -> None:
    """Run a test network until it is interrupted."""
    asyncio.run(_serve_devnet(options))


async def _serve_devnet(options: argparse.Namespace) -> None:
    console = Console()
    defaults = devnet.DevnetOptions()
    setup = devnet.DevnetOptions(
        port=options.port, path=options.out or defaults.path, fund=tuple(options.fund)
    )
    async with devnet.run_devnet(setup, console.say) as net:
        console.say(f"chain {net.deployment.chain_id} at {net.rpc_url}; contracts in {net.path}")
        console.say("Next, in other terminals: a home for each party, a task from one, seats for the others:")
        console.say(f"  touchstone init --home DIR --rpc-url {net.rpc_url} --deployment {net.path} --devnet")
        console.say(
            "  touchstone task example, then touchstone task create --config example/task.toml --home DIR"
        )
        console.say("  touchstone solve TASK --home DIR (or verify, or watch)")
        console.say("  touchstone status TASK --home DIR says which seats the task still lacks")
        chain_id, path = net.deployment.chain_id, str(net.path)
        options.put({"chain_id": chain_id, "rpc_url": net.rpc_url, "deployment": path})
        console.say("Ctrl-C ends the network and everything on it.")
        await devnet.keep_time(net, console.say, NEVER if options.no_skip else options.parties)
