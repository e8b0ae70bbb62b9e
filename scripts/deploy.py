"""Puts the contracts of the round on a chain that gives random values, and writes down where they are."""

import argparse
import asyncio
import sys
from typing import Any

from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.deployment import write_game_deployment
from touchstone.protocol.adapters.keys.keystore import load_keystore
from touchstone.protocol.adapters.keys.passwords import read_password
from touchstone.protocol.spec.errors import TouchstoneError
from touchstone.protocol.spec.game.presets import LIMITS
from touchstone.scripts.command_line.command_errors import render_error
from touchstone.scripts.command_line.typed_input import read_path
from touchstone.scripts.network.contract_creation import default_game_path, deploy_game, find_game


def main(arguments: list[str] | None = None) -> int:
    """Deploy as the options say; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m touchstone.scripts.deploy",
        description="Put the contracts of the round on a chain.",
        epilog="Example: python -m touchstone.scripts.deploy --rpc-url https://rpc.example --keystore k.json",
    )
    parser.add_argument("--rpc-url", required=True, help="JSON-RPC endpoint of the chain")
    parser.add_argument("--keystore", type=read_path, required=True, help="of the account that pays")
    parser.add_argument("--password-file", type=read_path, help="instead of a prompt")
    parser.add_argument("--token", default="", help="ERC-20 of all money; left out: a worthless DevToken")
    parser.add_argument("--drand", action="store_true", help="draws take a round of drand as well")
    parser.add_argument("--limits", choices=sorted(LIMITS), default="12s", help="for this time of a block")
    parser.add_argument("--out", type=read_path, help="file to write; default deployments/<chainId>.json")
    options = parser.parse_args(arguments)
    try:
        return asyncio.run(_run(options))
    except TouchstoneError as error:
        print(render_error(error), file=sys.stderr)
        return 2


async def _run(options: argparse.Namespace) -> int:
    key = load_keystore(options.keystore, read_password(options.password_file))
    connection = Connection(options.rpc_url)
    try:
        path = options.out or default_game_path(await connection.chain_id())
        limits = LIMITS[options.limits]
        asked: dict[str, Any] = {"token": options.token, "with_drand": options.drand}
        found = await find_game(connection, path, limits, **asked)
        if found is None:
            write_game_deployment(path, await deploy_game(connection, key, limits, **asked))
    finally:
        await connection.close()
    print(f"wrote {path}" if found is None else f"found in {path}, nothing changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
