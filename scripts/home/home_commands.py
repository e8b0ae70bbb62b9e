"""The command that makes a home."""

from typing import TYPE_CHECKING, Any

import click

from touchstone.scripts.command_line.command_run import Command
from touchstone.scripts.command_line.option_types import COUNT, FILE, NUMBER, PORT
from touchstone.scripts.command_line.shared_options import (
    PRESETS,
    with_deployment,
    with_home,
    with_password,
    with_rpc_url,
)

if TYPE_CHECKING:  # Types of results: `--help` need not wait for them.
    from touchstone.scripts.documents.home_documents import InitDocument


@click.command(
    "init", cls=Command, example="touchstone init --home ~/alice --deployment deployments/31337.json --devnet"
)
@with_home
@with_password
@click.option(
    "--import-key",
    type=FILE,
    metavar="FILE",
    help="file of mode 0600 with the key to use: a keystore, or 64 hexadecimal digits; left out: a new key",
)
@with_rpc_url
@with_deployment
@click.option(
    "--listen-host",
    default="127.0.0.1",
    help="address of this machine to serve blobs on; 0.0.0.0 (all of them) needs --public-url",
)
@click.option(
    "--listen-port", type=PORT, default=0, help="port to serve blobs on; 0 takes a free one at each start"
)
@click.option(
    "--public-url",
    default="",
    show_default=False,
    help="https://HOST:PORT where other machines reach this node; left out: where it listens",
)
@click.option("--threads", type=COUNT, default=1, help="threads to train with")
@click.option("--device", default="cpu", help="where to compute steps: cpu, cuda, cuda:1 ...")
@click.option("--memory-mb", type=NUMBER, default=0, help="memory to use; 0: no limit")
@click.option(
    "--preset",
    type=PRESETS,
    help="preset by which tasks are judged, for this chain's block time; with --devnet: local",
)
@click.option(
    "--devnet", is_flag=True, help="quick keystore, and coin and tokens from the test network's faucet"
)
def init(**options: Any) -> "InitDocument":
    """Make a home: keystore, TLS certificate, configuration."""
    import asyncio

    from touchstone.scripts.command_line.console import Console
    from touchstone.scripts.home.home_making import NewHome, make_home

    return asyncio.run(make_home(NewHome(**options), Console()))
