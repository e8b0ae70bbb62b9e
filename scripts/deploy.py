"""Puts the contracts of the round on a chain and writes down where they are.

They name each other in their constructors and nobody may change that later, so each address is computed
before anything is created (`scripts/creation.py`).
"""

import argparse
import asyncio
import sys
from collections.abc import Mapping
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

from protocol.adapters.chain.abi import Parameter
from protocol.adapters.chain.connection import Connection, check_deployment
from protocol.adapters.chain.game_deployment import (
    GAME_CONTRACTS,
    GameDeployment,
    read_game_deployment,
    write_game_deployment,
)
from protocol.adapters.chain.transactions import Patience, Sender, Signer
from protocol.adapters.keys import load_keystore, read_password
from protocol.spec.errors import InvalidInput, TouchstoneError
from protocol.spec.game.terms import LIMITS, DeploymentLimits
from scripts.chain_randomness import PLAIN, choose_contract
from scripts.creation import (
    DEPLOYMENTS,
    DEV_TOKEN,
    Report,
    compute_creation_address,
    compute_creation_code,
    create,
    find_constructor,
    require_address,
)

MODULES = (
    "Purse", "Tasks", "Rounds", "Votes", "Settlement", "Asks", "Disputes", "Evidence", "Contests",
    "BlockRandomness",
)  # fmt: skip
"""As the struct `Modules` has them."""


def predict_game(account: str, nonce: int, token: str, chain_id: int, deploy_block: int) -> GameDeployment:
    """Where the contracts will be when `account` creates them one after the other from `nonce` on."""
    where = {field: compute_creation_address(account, nonce + i) for i, field in enumerate(GAME_CONTRACTS)}
    return GameDeployment(chain_id=chain_id, token=token, deploy_block=deploy_block, **where)


def compute_game_code(contract: str, where: Mapping[str, str], limits: DeploymentLimits) -> bytes:
    """What is sent to create `contract`. where: addresses by contract, and of the `token`."""
    constructor = find_constructor(contract)
    inputs = constructor.inputs if constructor else ()
    return compute_creation_code(contract, [_find_argument(one, where, limits) for one in inputs])


def _find_argument(parameter: Parameter, where: Mapping[str, str], limits: DeploymentLimits) -> Any:
    """Raises InvalidInput for one that nobody knows."""
    known: dict[str, Any] = {
        "modules": tuple(where[name] for name in MODULES),
        "token": where["token"],
        "referee": where["Referee"],
        "seal_blocks": limits.seal_blocks,
        "limits": {**asdict(limits), "least": astuple(limits.least)},
    }
    name = parameter.name.strip("_")
    if name not in known:
        raise InvalidInput(
            what="a constructor asks for something unknown",
            expected=f"one of {', '.join(known)}",
            actual=f"{parameter.type_name} {parameter.name}",
            remedy="Teach scripts/deploy.py what it is.",
        )
    return known[name]


async def deploy_game(
    connection: Connection,
    signer: Signer,
    limits: DeploymentLimits,
    *,
    token: str = "",
    with_drand: bool = False,
    report: Report = print,
) -> GameDeployment:
    """Create the contracts, and a DevToken where no `token` is given; return the checked deployment.

    with_drand: draws take a round of drand as well. The account must not send anything else meanwhile. Raises
    EnvironmentFault when a contract lands elsewhere, and where draws must not hang on this chain's randomness
    (`scripts/chain_randomness.py`).
    """
    chain_id = await connection.chain_id()
    randomness = await choose_contract(connection, with_drand=with_drand)
    sender = Sender(connection, signer, chain_id, Patience())
    token = token or await create(sender, DEV_TOKEN, compute_creation_code(DEV_TOKEN, []), report)
    nonce = await connection.transaction_count(sender.address, "pending")
    start = (await connection.head()).number
    deployment = predict_game(sender.address, nonce, token, chain_id, start)
    where = {**deployment.contracts(), "token": deployment.token}
    for name, address in deployment.contracts().items():
        created = randomness if name == PLAIN else name
        actual = await create(sender, name, compute_game_code(created, where, limits), report)
        require_address(name, address, actual)
    await check_deployment(connection, deployment)
    # Again with the blocks of the deployment itself: there were none to measure on a new chain.
    await choose_contract(connection, with_drand=with_drand)
    return deployment


async def deploy_game_once(
    connection: Connection, signer: Signer, path: Path, limits: DeploymentLimits, **options: Any
) -> GameDeployment:
    """The deployment at `path` where it is there and stands on this chain, else a new one, written to
    `path`."""
    try:
        found = read_game_deployment(path)
        await check_deployment(connection, found)
    except InvalidInput:
        found = await deploy_game(connection, signer, limits, **options)
        write_game_deployment(path, found)
    return found


def default_game_path(chain_id: int) -> Path:
    """`deployments/<chainId>.json` in the working folder."""
    return DEPLOYMENTS / f"{chain_id}.json"


def main(arguments: list[str] | None = None) -> int:
    """Deploy as the options say; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.deploy",
        description="Put the contracts of the round on a chain.",
        epilog="Example: python -m scripts.deploy --rpc-url https://rpc.example --keystore key.json",
    )
    parser.add_argument("--rpc-url", required=True, help="JSON-RPC endpoint of the chain")
    parser.add_argument("--keystore", type=Path, required=True, help="of the account that pays")
    parser.add_argument("--password-file", type=Path, help="instead of a prompt")
    parser.add_argument("--token", default="", help="ERC-20 of all money; left out: a worthless DevToken")
    parser.add_argument("--drand", action="store_true", help="draws take a round of drand as well")
    parser.add_argument("--limits", choices=sorted(LIMITS), default="12s", help="for this time of a block")
    parser.add_argument("--out", type=Path, help="file to write; default deployments/<chainId>.json")
    options = parser.parse_args(arguments)
    try:
        return asyncio.run(_run(options))
    except TouchstoneError as error:
        print(error, file=sys.stderr)
        return 2


async def _run(options: argparse.Namespace) -> int:
    key = load_keystore(options.keystore, read_password(options.password_file))
    connection = Connection(options.rpc_url)
    try:
        path = options.out or default_game_path(await connection.chain_id())
        limits = LIMITS[options.limits]
        asked = {"token": options.token, "with_drand": options.drand}
        await deploy_game_once(connection, key, path, limits, **asked)
    finally:
        await connection.close()
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
