"""Subcommands that make a test network and a home, and show what the chain tells: devnet, init, status."""

import argparse
import asyncio
from pathlib import Path

from protocol.adapters.chain.game import open_game_chain
from protocol.adapters.chain.game_deployment import read_game_deployment
from protocol.adapters.chain.refusals import format_tokens
from protocol.adapters.keys import read_new_password
from protocol.adapters.wire.endpoint import choose_endpoint
from scripts import devnet
from scripts.clock import NEVER
from scripts.console import Console
from scripts.home import HomeConfig, create_home, read_config
from scripts.status import tell_status


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
        console.say("Next, in another terminal, for each party:")
        console.say(f"  touchstone init --home DIR --rpc-url {net.rpc_url} --deployment {net.path} --devnet")
        console.say("  touchstone solve TASK --home DIR (or verify, or watch)")
        console.say("Ctrl-C ends the network and everything on it.")
        await devnet.keep_time(net, console.say, NEVER if options.no_skip else options.parties)


def run_init(options: argparse.Namespace) -> None:
    """Make a home folder; on a test network fund its account."""
    asyncio.run(make_home(options, Console()))


async def make_home(options: argparse.Namespace, console: Console) -> None:
    """The same at a console. Raises InvalidInput where an endpoint, a deployment or a home is not usable."""
    choose_endpoint(options.listen_host, options.listen_port, options.public_url)
    config = HomeConfig(
        rpc_url=options.rpc_url,
        deployment=str(options.deployment.absolute()),
        listen_host=options.listen_host,
        listen_port=options.listen_port,
        public_url=options.public_url,
        threads=options.threads,
        memory_mb=options.memory_mb,
        password_file=str(options.password_file.absolute()) if options.password_file else "",
        limits=options.limits or ("local" if options.devnet else "12s"),
    )
    read_game_deployment(options.deployment)
    password = read_new_password(options.password_file, "Password for the new keystore: ")
    key = create_home(options.home, config, password, is_devnet=options.devnet)
    console.say(f"account {key.address} in {options.home}")
    if options.devnet:
        await _fund(config, key.address)
        console.say(f"funded with {format_tokens(devnet.GRANT_TOKEN_WEI)} and coin for gas")
    console.say(
        "Next: touchstone solve TASK, verify, watch, or task create"
        + ("" if options.devnet else " (after sending it coin and tokens)")
    )


async def _fund(config: HomeConfig, address: str) -> None:
    async with open_game_chain(config.rpc_url, read_game_deployment(Path(config.deployment))) as chain:
        await devnet.fund(chain.connection, chain.deployment, [address])


def run_status(options: argparse.Namespace) -> None:
    """Show the chain's view of tasks and of this home's account."""
    config = read_config(options.home)
    asyncio.run(_show_status(config))


async def _show_status(config: HomeConfig) -> None:
    async with open_game_chain(config.rpc_url, read_game_deployment(Path(config.deployment))) as chain:
        await tell_status(chain, config.account, Console())
