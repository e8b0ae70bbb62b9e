"""The commands that run a test network, and the explorer of a chain."""

from pathlib import Path

import click

from touchstone.scripts.command_line.command_results import JsonOutput
from touchstone.scripts.command_line.command_run import Command
from touchstone.scripts.command_line.option_types import ADDRESS, COUNT, PATH, PORT
from touchstone.scripts.command_line.shared_options import with_deployment, with_logs, with_rpc_url


@click.command("devnet", cls=Command, example="touchstone devnet --port 8545 --parties 9")
@click.option("--port", type=PORT, default=0, help="port of the JSON-RPC endpoint; 0 takes a free one")
@click.option("--out", type=PATH, help="deployment file to write")
@click.option("--fund", type=ADDRESS, multiple=True, help="address to give coin and tokens (may be repeated)")
@click.option(
    "--parties",
    type=COUNT,
    default=1,
    help="skip idle time once this many parties, the submitter included, have announced themselves",
)
@click.option("--no-skip", is_flag=True, help="two blocks a second, always")
@with_logs
@click.pass_obj
def devnet(
    output: JsonOutput, port: int, out: Path | None, fund: tuple[str, ...], parties: int, no_skip: bool
) -> None:
    """Run a test network: Anvil, the contracts, money from a faucet, a clock that skips idle time."""
    import asyncio

    from touchstone.scripts.network.devnet import DevnetOptions
    from touchstone.scripts.network.devnet_clock import NEVER
    from touchstone.scripts.network.devnet_service import serve_devnet

    setup = DevnetOptions(port=port, path=out or DevnetOptions.path, fund=fund)
    asyncio.run(serve_devnet(setup, NEVER if no_skip else parties, output.put))


@click.command(
    "explorer", cls=Command, example="touchstone explorer --deployment deployments/31337.json --open"
)
@with_rpc_url
@with_deployment
@click.option("--index", type=PATH, help="file to keep the events in; left out: in ~/.cache")
@click.option("--host", default="127.0.0.1", help="address of this machine to serve on")
@click.option("--port", type=PORT, default=8600, help="port to serve on; 0 takes a free one")
@click.option("--open", "is_opened", is_flag=True, help="open it in the browser")
@click.option("--chain-only", is_flag=True, help="ask no node what it reports")
@click.option(
    "--private-peers",
    is_flag=True,
    help="ask also nodes at addresses of this machine and of private networks; on a test network they are "
    "always asked",
)
@with_logs
@click.pass_obj
def explorer(
    output: JsonOutput,
    rpc_url: str,
    deployment: Path,
    index: Path | None,
    host: str,
    port: int,
    is_opened: bool,
    chain_only: bool,
    private_peers: bool,
) -> None:
    """Serve a web page of what the chain tells and nodes report: tasks, rounds, losses, disputes."""
    import asyncio

    from touchstone.protocol.adapters.chain.deployment import read_game_deployment
    from touchstone.scripts.network.explorer_service import choose_asked, serve_explorer

    found = read_game_deployment(deployment)
    asked = choose_asked(found, is_chain_only=chain_only, is_private=private_peers)
    place = (host, port)
    asyncio.run(serve_explorer(found, rpc_url, index, place, asked, is_opened=is_opened, put=output.put))
