"""Creates the contracts of the round on a chain, or finds those that exist already.

The contracts name each other in their constructors, and nobody can change that later. So each address is
computed before anything is created (`protocol/adapters/chain/creation.py`).
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from eth_utils.address import to_checksum_address

from touchstone.protocol.adapters.chain.chain_client import GameChain, read_bounds
from touchstone.protocol.adapters.chain.connection import Connection, check_deployment
from touchstone.protocol.adapters.chain.creation import (
    PLAIN,
    compute_creation_address,
    compute_creation_code,
    compute_game_code,
)
from touchstone.protocol.adapters.chain.deployment import (
    GAME_CONTRACTS,
    GameDeployment,
    read_game_deployment,
    write_game_deployment,
)
from touchstone.protocol.adapters.chain.transactions import ResendPolicy, Sender, Signer
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game.terms import DeploymentBounds
from touchstone.scripts.network.randomness_choice import choose_contract

DEPLOYMENTS = Path("deployments")
DEV_TOKEN = "DevToken"
COIN_WEI = 10**18

Report = Callable[[str], None]


async def create(sender: Sender, contract: str, code: bytes, report: Report) -> str:
    """Creates a contract; returns its address, lower-case `0x`."""
    receipt = await sender.send("", code, f"new {contract}")
    address = receipt.contract_address
    report(f"{contract:<16}{to_checksum_address(address)}")
    return address


def require_address(name: str, expected: str, actual: str) -> None:
    """Raises EnvironmentFault if a contract is not at the address that the others were given."""
    if actual != expected:
        raise EnvironmentFault(
            what=f"{name} was created at another address than the other contracts expect",
            expected=expected,
            actual=actual,
            remedy="Deploy again and send nothing else from this account meanwhile.",
            retryable=False,
        )


def predict_game(account: str, nonce: int, token: str, chain_id: int, deploy_block: int) -> GameDeployment:
    """Returns where the contracts will be if `account` creates them one after the other from `nonce` on."""
    where = {field: compute_creation_address(account, nonce + i) for i, field in enumerate(GAME_CONTRACTS)}
    return GameDeployment(chain_id=chain_id, token=token, deploy_block=deploy_block, **where)


async def require_deploy_coin(connection: Connection, account: str, codes: Iterable[bytes]) -> None:
    """Raises InvalidInput if an account cannot pay for the creation of all contracts, by the chain's gas
    estimate, at twice the present base fee. A partial deployment would be of no use. `codes` are the data
    that create each."""
    gas = sum([await connection.estimate_gas(account, "", code, "a creation") for code in codes])
    price_wei = 2 * (await connection.head()).base_fee_wei + await connection.priority_fee()
    has_wei = await connection.balance_of(account)
    if has_wei < gas * price_wei:
        raise InvalidInput(
            what="too little coin to deploy all contracts",
            expected=f"{gas * price_wei / COIN_WEI:.4g} coin: {gas:,} gas at {price_wei:,} wei",
            actual=f"{has_wei / COIN_WEI:.4g} coin in {account}",
            remedy="Nothing was sent. Send the account more coin, or wait until gas is cheaper.",
        )


async def deploy_game(
    connection: Connection,
    signer: Signer,
    bounds: DeploymentBounds,
    *,
    token: str = "",
    with_drand: bool = False,
    report: Report = print,
) -> GameDeployment:
    """Creates the contracts, and a DevToken if no `token` is given; returns the checked deployment.

    `with_drand` makes draws use drand too. The account must send nothing else meanwhile. Raises InvalidInput
    if it has too little coin. Raises EnvironmentFault if a contract lands elsewhere, or if draws must not
    depend on this chain's randomness (`choose_contract`)."""
    chain_id = await connection.chain_id()
    randomness = await choose_contract(connection, with_drand=with_drand)
    sender = Sender(connection, signer, chain_id, ResendPolicy())
    nonce, codes = await connection.transaction_count(sender.address, "pending"), dict[str, bytes]()
    if not token:
        token, codes[DEV_TOKEN] = (
            compute_creation_address(sender.address, nonce), compute_creation_code(DEV_TOKEN, []),
        )  # fmt: skip
    start = (await connection.head()).number
    deployment = predict_game(sender.address, nonce + len(codes), token, chain_id, start)
    where = {**deployment.contracts(), "token": deployment.token}
    for name in deployment.contracts():
        codes[name] = compute_game_code(randomness if name == PLAIN else name, where, bounds)
    await require_deploy_coin(connection, sender.address, codes.values())
    for name, code in codes.items():
        actual = await create(sender, name, code, report)
        require_address(name, where.get(name, token), actual)
    await check_deployment(connection, deployment)
    # Measure again on the deployment's own blocks, because a new chain had none.
    await choose_contract(connection, with_drand=with_drand)
    return deployment


async def deploy_game_once(
    connection: Connection, signer: Signer, path: Path, bounds: DeploymentBounds, **options: Any
) -> GameDeployment:
    """Returns the deployment at `path` if it is on this chain; otherwise deploys a new one and writes it to
    `path`. Raises as `find_game` and `deploy_game` do. `options` are passed to `deploy_game`."""
    asked = {name: options[name] for name in ("token", "with_drand") if name in options}
    found = await find_game(connection, path, bounds, **asked)
    if found is None:
        found = await deploy_game(connection, signer, bounds, **options)
        write_game_deployment(path, found)
    return found


async def find_game(
    connection: Connection, path: Path, bounds: DeploymentBounds, *, token: str = "", with_drand: bool = False
) -> GameDeployment | None:
    """Returns the deployment at `path`; None if there is no file, or if the chain was begun anew and has none
    of its contracts. Raises InvalidInput if the file is not the requested deployment, because it may be the
    only record of contracts that hold money."""
    if not path.exists():
        return None
    try:
        found = read_game_deployment(path)
    except InvalidInput as error:
        raise _refuse_to_replace(path, error.what, error.expected, error.actual) from error
    chain_id = await connection.chain_id()
    if chain_id != found.chain_id:
        what = "the deployment file is another chain's"
        raise _refuse_to_replace(path, what, f"chain id {chain_id}", f"chain id {found.chain_id}")
    addresses = {**found.contracts(), "token": found.token}
    missing = [name for name, address in addresses.items() if not await connection.code_at(address)]
    if set(found.contracts()) <= set(missing):
        return None
    if missing:
        what, expected = "some contracts of the deployment file are not on this chain", "all or none"
        raise _refuse_to_replace(path, what, expected, f"no code of {', '.join(missing)}")
    await _refuse_other(GameChain(connection, found, None), path, bounds, token, with_drand)
    return found


def _refuse_to_replace(path: Path, what: str, expected: object, actual: object) -> InvalidInput:
    return InvalidInput(
        what=what,
        expected=expected,
        actual=actual,
        where=str(path),
        remedy="Nothing was deployed. Name another file by --out, or move this one away if it is of no use.",
    )


async def _refuse_other(
    chain: GameChain, path: Path, bounds: DeploymentBounds, token: str, with_drand: bool
) -> None:
    """Raises InvalidInput if a deployment has other bounds, another token or another randomness. If `token`
    is empty, any will do."""
    actual, own = await read_bounds(chain.game), chain.deployment.token
    has_drand = await chain.randomness.drand_round((await chain.head()).timestamp_s) != 0
    words = {True: "draws with drand", False: "draws without drand"}
    for is_same, expected, found in (
        (replace(actual, name=bounds.name) == bounds, f"bounds {bounds.name}", f"bounds {actual.name}"),
        (token.lower() in ("", own), f"token {token}", f"token {own}"),
        (with_drand == has_drand, words[with_drand], words[has_drand]),
    ):
        if not is_same:
            raise _other_contracts(expected, found, path)


def _other_contracts(expected: str, found: str, path: Path) -> InvalidInput:
    return InvalidInput(
        what="the contracts are there already, and are not those that are asked for",
        expected=expected,
        actual=found,
        where=str(path),
        remedy="Nobody can change them: use them as they are, or name another file by --out.",
    )


def default_game_path(chain_id: int) -> Path:
    """Returns `deployments/<chainId>.json` in the working folder."""
    return DEPLOYMENTS / f"{chain_id}.json"
