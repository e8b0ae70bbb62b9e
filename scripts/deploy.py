"""Deploys the contracts of the round on a chain with random values, and writes down their addresses."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.deployment import write_game_deployment
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.adapters.keys.keystore import load_keystore
from touchstone.protocol.adapters.keys.passwords import read_password
from touchstone.protocol.spec.errors import TouchstoneError
from touchstone.protocol.spec.game.presets import BOUNDS
from touchstone.protocol.spec.game.terms import DeploymentBounds
from touchstone.scripts.command_line.command_errors import ExitCode, render_error
from touchstone.scripts.command_line.option_types import FILE, PATH, URL
from touchstone.scripts.command_line.shared_options import PRESETS
from touchstone.scripts.command_line.usage_errors import print_usage_error
from touchstone.scripts.network.contract_creation import default_game_path, deploy_game, find_game


@click.command(
    context_settings={"show_default": True},
    epilog="Example: python -m touchstone.scripts.deploy --rpc-url https://rpc.example --keystore k.json",
)
@click.option("--rpc-url", type=URL, required=True, help="JSON-RPC endpoint of the chain")
@click.option("--keystore", type=FILE, required=True, help="keystore of the account that pays")
@click.option("--password-file", type=FILE, help="file with the password; without it you are asked")
@click.option(
    "--token",
    default="",
    show_default=False,
    help="ERC-20 contract of all payments; left out: a new DevToken",
)
@click.option("--drand", is_flag=True, help="let draws use a round of drand too")
@click.option("--preset", type=PRESETS, default="12s", help="preset of the bounds, by the block time")
@click.option("--out", type=PATH, help="file to write; default deployments/<chainId>.json")
def deploy(
    rpc_url: str,
    keystore: Path,
    password_file: Path | None,
    token: str,
    drand: bool,
    preset: str,
    out: Path | None,
) -> None:
    """Put the contracts of the round on a chain."""
    key = load_keystore(keystore, read_password(password_file))
    asyncio.run(_deploy(rpc_url, key, BOUNDS[preset], out, {"token": token, "with_drand": drand}))


async def _deploy(
    rpc_url: str, key: AccountKey, bounds: DeploymentBounds, out: Path | None, asked: dict[str, Any]
) -> None:
    connection = Connection(rpc_url)
    try:
        path = out or default_game_path(await connection.chain_id())
        found = await find_game(connection, path, bounds, **asked)
        if found is None:
            write_game_deployment(path, await deploy_game(connection, key, bounds, **asked))
    finally:
        await connection.close()
    print(f"wrote {path}" if found is None else f"found in {path}, nothing changed")


def main(arguments: list[str] | None = None) -> int:
    """Deploys as the options say; returns the exit status."""
    try:
        deploy.main(arguments, prog_name="python -m touchstone.scripts.deploy", standalone_mode=False)
    except TouchstoneError as error:
        print(render_error(error), file=sys.stderr)
        return ExitCode.REFUSED
    except click.UsageError as error:
        print_usage_error(error)
        return ExitCode.REFUSED
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
