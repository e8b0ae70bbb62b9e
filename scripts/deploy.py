"""Puts the contracts on a chain and writes down where they are.

The contracts name each other in their constructors and nobody may change that later, so each address is
computed before anything is created: an account's n-th creation has a known address (Ethereum Yellow Paper,
section 7).
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

from protocol.adapters.chain.abi import Entry
from protocol.adapters.chain.connection import Connection, check_deployment
from protocol.adapters.chain.deployment import (
    CONTRACT_NAMES,
    Deployment,
    read_deployment,
    write_deployment,
)
from protocol.adapters.chain.transactions import Patience, Sender, Signer
from protocol.adapters.keys import load_keystore, read_password
from protocol.spec.errors import InvalidInput, TouchstoneError
from scripts.chain_randomness import check_randomness, choose_contract
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

UNBONDING_BLOCKS = 500_000
"""More than the worst span of a round under the mainnet preset; about ten weeks of 12 s blocks."""
WITHOUT_STAKE = frozenset({"StakeVault", "Referee", "Randomness"})
"""All others are modules of the vault: they may expose and slash."""


def predict_deployment(account: str, nonce: int, token: str, chain_id: int, deploy_block: int) -> Deployment:
    """Where the eight contracts will be when `account` creates them one after the other from `nonce` on."""
    addresses = {
        field: compute_creation_address(account, nonce + index) for index, field in enumerate(CONTRACT_NAMES)
    }
    return Deployment(chain_id=chain_id, token=token.lower(), deploy_block=deploy_block, **addresses)


def compute_arguments(constructor: Entry | None, deployment: Deployment, unbonding_blocks: int) -> list[Any]:
    """Constructor arguments by what they are: a contract by the name of its interface, a number or a list by
    name.

    Raises InvalidInput for one that nobody knows.
    """
    known: dict[str, Any] = {f"I{name}": address for name, address in deployment.contracts().items()}
    # Those that a constructor takes as a bare address, by the parameter's name.
    known |= {"disputes": deployment.dispute_game, "contest": deployment.outer_contest}
    known |= {"IERC20": deployment.token, "unbonding_blocks": unbonding_blocks}
    known["modules"] = [
        address for name, address in deployment.contracts().items() if name not in WITHOUT_STAKE
    ]
    arguments = []
    for parameter in constructor.inputs if constructor else ():
        keys = [parameter.type_name, parameter.name.strip("_")]
        found = [known[key] for key in keys if key in known]
        if not found:
            raise InvalidInput(
                what="a constructor asks for something unknown",
                expected=f"one of {', '.join(known)}",
                actual=f"{parameter.type_name} {parameter.name}",
                remedy="Teach scripts/deploy.py what it is.",
            )
        arguments.append(found[0])
    return arguments


async def deploy(
    connection: Connection,
    signer: Signer,
    *,
    token: str = "",
    unbonding_blocks: int = UNBONDING_BLOCKS,
    with_drand: bool = False,
    report: Report = print,
) -> Deployment:
    """Create the eight contracts, and a DevToken where no `token` is given; return the checked deployment.

    The account must not send anything else meanwhile. Raises EnvironmentFault when a contract lands
    elsewhere, and where the chain has no randomness that draws may hang on (`scripts/chain_randomness.py`).
    """
    chain_id = await connection.chain_id()
    chosen = {"Randomness": await choose_contract(connection, with_drand=with_drand)}
    sender = Sender(connection, signer, chain_id, Patience())
    if not token:
        token = await create(sender, DEV_TOKEN, compute_creation_code(DEV_TOKEN, []), report)
    nonce = await connection.transaction_count(sender.address, "pending")
    # Whoever reads events from here on misses none: the contracts are still to come.
    start = (await connection.head()).number
    deployment = predict_deployment(sender.address, nonce, token, chain_id, start)
    for name, address in deployment.contracts().items():
        contract = chosen.get(name, name)
        arguments = compute_arguments(find_constructor(contract), deployment, unbonding_blocks)
        actual = await create(sender, contract, compute_creation_code(contract, arguments), report)
        require_address(name, address, actual)
    await check_deployment(connection, deployment)
    await check_randomness(connection, deployment)
    return deployment


async def deploy_once(connection: Connection, signer: Signer, path: Path, **options: Any) -> Deployment:
    """The deployment at `path` where it is there and stands on this chain, else a new one, written to
    `path`."""
    found = await find_deployment(connection, path)
    if found is None:
        found = await deploy(connection, signer, **options)
        write_deployment(path, found)
    return found


async def find_deployment(connection: Connection, path: Path) -> Deployment | None:
    """The deployment at `path`, None where there is no such file or its contracts are not on this chain."""
    try:
        deployment = read_deployment(path)
        await check_deployment(connection, deployment)
    except InvalidInput:
        return None
    return deployment


def default_path(chain_id: int) -> Path:
    """`deployments/<chainId>.json` in the working folder."""
    return DEPLOYMENTS / f"{chain_id}.json"


def main(arguments: list[str] | None = None) -> int:
    """Deploy as the options say; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.deploy",
        description="Put the contracts on a chain.",
        epilog="Example: python -m scripts.deploy --rpc-url https://rpc.example --keystore key.json",
    )
    parser.add_argument("--rpc-url", required=True, help="JSON-RPC endpoint of the chain")
    parser.add_argument(
        "--keystore", type=Path, required=True, help="of the account that pays for the creation"
    )
    parser.add_argument("--password-file", type=Path, help="instead of a prompt")
    parser.add_argument(
        "--token", default="", help="ERC-20 to stake; left out: a worthless DevToken is created"
    )
    parser.add_argument("--unbonding-blocks", type=int, default=UNBONDING_BLOCKS)
    parser.add_argument(
        "--drand",
        action="store_true",
        help="mix rounds of drand into all draws; needs a chain with EIP-2537, and nodes that reach drand",
    )
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
        path = options.out or default_path(await connection.chain_id())
        await deploy_once(
            connection,
            key,
            path,
            token=options.token,
            unbonding_blocks=options.unbonding_blocks,
            with_drand=options.drand,
        )
    finally:
        await connection.close()
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
