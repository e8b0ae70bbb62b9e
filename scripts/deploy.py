"""Puts the contracts of the round on a chain that gives random values, and writes down where they are.

Before anything is put on a chain, it is measured whether the chain's prevrandao may seal draws
(docs/decisions/0020-randomness.md).

The contracts name each other in their constructors, and no account can change that later. So each address is
computed before anything is created (`protocol/adapters/chain/creation.py`).
"""

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eth_utils.address import to_checksum_address

from touchstone.protocol.adapters.chain.chain_client import GameChain, read_limits
from touchstone.protocol.adapters.chain.connection import Connection, check_deployment
from touchstone.protocol.adapters.chain.creation import (
    PLAIN,
    WITH_DRAND,
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
from touchstone.protocol.adapters.chain.transactions import MiningPatience, Sender, Signer
from touchstone.protocol.adapters.keys.keystore import load_keystore
from touchstone.protocol.adapters.keys.passwords import read_password
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput, TouchstoneError
from touchstone.protocol.spec.game.presets import LIMITS
from touchstone.protocol.spec.game.terms import DeploymentLimits
from touchstone.scripts.command_form import read_path
from touchstone.scripts.console import render_error

SAMPLE_BLOCKS = 16
"""Blocks looked at. A rollup repeats the value of the chain below for its 6 blocks or more."""
LEAST_RANDOM = 1 << 128
"""A random word is below it once in 2^128: what is, is a constant, a counter or a time."""
BLS_G1ADD = "0x000000000000000000000000000000000000000b"
G1_BYTES = 128

_SEQUENCER = "its sequencer chooses the block of the chain below whose value it repeats"
_CONSTANT = "it is a constant"
NOT_RANDOM = {
    # OP Stack specification, "L1 attributes": prevrandao is that of the L1 origin.
    10: _SEQUENCER, 130: _SEQUENCER, 480: _SEQUENCER, 8_453: _SEQUENCER, 34_443: _SEQUENCER,
    57_073: _SEQUENCER, 81_457: _SEQUENCER, 7_777_777: _SEQUENCER, 5_000: _SEQUENCER,
    # Each chain's page of differences to Ethereum: Arbitrum 1, ZKsync 2.5e15, the others 0 or a fixed number.
    42_161: _CONSTANT, 42_170: _CONSTANT, 324: _CONSTANT, 1_101: _CONSTANT, 534_352: _CONSTANT,
    59_144: _CONSTANT,
    # No RANDAO: their own consensus writes the field.
    56: "its producers write it", 137: "its producers write it", 43_114: _CONSTANT,
}  # fmt: skip
"""Chains by id where measuring may be too short to see it."""


@dataclass(frozen=True)
class Sample:
    """prevrandao of consecutive blocks, the oldest first."""

    first_block: int
    values: tuple[int, ...]


def find_weakness(chain_id: int, sample: Sample) -> str:
    """Why draws must not hang on this chain's prevrandao alone; empty where nothing speaks against it."""
    if reason := NOT_RANDOM.get(chain_id, ""):
        return f"chain {chain_id}: {reason}"
    numbered = list(enumerate(sample.values, sample.first_block))
    for block, value in numbered:
        if value < LEAST_RANDOM:
            return f"block {block} has {value:#x}"
    first_seen: dict[int, int] = {}
    for block, value in numbered:
        if value in first_seen:
            return f"blocks {first_seen[value]} and {block} both have {value:#x}"
        first_seen[value] = block
    return ""


async def measure(connection: Connection) -> Sample:
    """prevrandao of the newest blocks; the genesis block, which no validator produced, is left out."""
    head = (await connection.head()).number
    first = max(1, head - SAMPLE_BLOCKS + 1)
    blocks = [await connection.raw_block(number) for number in range(first, head + 1)]
    return Sample(first, tuple(int(block["mixHash"], 16) for block in blocks))


async def has_bls(connection: Connection) -> bool:
    """Whether the chain has the precompiles of EIP-2537: two points at infinity are added."""
    try:
        return len(await connection.call(BLS_G1ADD, bytes(2 * G1_BYTES), "G1ADD")) == G1_BYTES
    except (InvalidInput, EnvironmentFault):
        return False


async def choose_contract(connection: Connection, *, with_drand: bool) -> str:
    """Which randomness contract to put on this chain. Raises EnvironmentFault where its prevrandao is not
    random and no drand is to be mixed in, or the chain cannot verify drand."""
    chain_id = await connection.chain_id()
    weakness = find_weakness(chain_id, await measure(connection))
    can_verify = await has_bls(connection) if weakness or with_drand else False
    if with_drand and not can_verify:
        raise _refuse(
            "this chain cannot verify drand", "precompiles of EIP-2537", "none", "Use another chain."
        )
    if weakness and not with_drand:
        remedy = (
            "Deploy with --drand."
            if can_verify
            else "Use another chain: this one cannot verify drand either."
        )
        raise _refuse("this chain's prevrandao is not random", "fresh random words", weakness, remedy)
    return WITH_DRAND if with_drand else PLAIN


def _refuse(what: str, expected: str, actual: str, remedy: str) -> EnvironmentFault:
    where = "docs/decisions/0020-randomness.md"
    return EnvironmentFault(
        what=what, expected=expected, actual=actual, where=where, remedy=remedy, retryable=False
    )


DEPLOYMENTS = Path("deployments")
DEV_TOKEN = "DevToken"
COIN_WEI = 10**18

Report = Callable[[str], None]


async def create(sender: Sender, contract: str, code: bytes, report: Report) -> str:
    """Create a contract; its address, lower-case `0x`."""
    receipt = await sender.send("", code, f"new {contract}")
    address = receipt.contract_address
    report(f"{contract:<16}{to_checksum_address(address)}")
    return address


def require_address(name: str, expected: str, actual: str) -> None:
    """Raises EnvironmentFault where a contract is not where the others were told."""
    if actual != expected:
        raise EnvironmentFault(
            what=f"{name} landed at another address than the others were told",
            expected=expected,
            actual=actual,
            remedy="Deploy again and send nothing else from this account meanwhile.",
            retryable=False,
        )


def predict_game(account: str, nonce: int, token: str, chain_id: int, deploy_block: int) -> GameDeployment:
    """Where the contracts will be when `account` creates them one after the other from `nonce` on."""
    where = {field: compute_creation_address(account, nonce + i) for i, field in enumerate(GAME_CONTRACTS)}
    return GameDeployment(chain_id=chain_id, token=token, deploy_block=deploy_block, **where)


async def require_deploy_coin(connection: Connection, account: str, codes: Iterable[bytes]) -> None:
    """Raises InvalidInput where an account cannot pay for the creation of all contracts, as the chain's node
    estimates its gas, at twice the base fee of now: those that it pays for before its coin ends would be of
    no use. codes: what is sent to create each."""
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
    limits: DeploymentLimits,
    *,
    token: str = "",
    with_drand: bool = False,
    report: Report = print,
) -> GameDeployment:
    """Create the contracts, and a DevToken where no `token` is given; return the checked deployment.

    with_drand: draws take a round of drand as well. The account must not send anything else meanwhile. Raises
    InvalidInput where it has too little coin; EnvironmentFault when a contract lands elsewhere, and where
    draws must not hang on this chain's randomness (`choose_contract`).
    """
    chain_id = await connection.chain_id()
    randomness = await choose_contract(connection, with_drand=with_drand)
    sender = Sender(connection, signer, chain_id, MiningPatience())
    nonce, codes = await connection.transaction_count(sender.address, "pending"), dict[str, bytes]()
    if not token:
        token, codes[DEV_TOKEN] = (
            compute_creation_address(sender.address, nonce), compute_creation_code(DEV_TOKEN, []),
        )  # fmt: skip
    start = (await connection.head()).number
    deployment = predict_game(sender.address, nonce + len(codes), token, chain_id, start)
    where = {**deployment.contracts(), "token": deployment.token}
    for name in deployment.contracts():
        codes[name] = compute_game_code(randomness if name == PLAIN else name, where, limits)
    await require_deploy_coin(connection, sender.address, codes.values())
    for name, code in codes.items():
        actual = await create(sender, name, code, report)
        require_address(name, where.get(name, token), actual)
    await check_deployment(connection, deployment)
    # Again with the blocks of the deployment itself: there were none to measure on a new chain.
    await choose_contract(connection, with_drand=with_drand)
    return deployment


async def deploy_game_once(
    connection: Connection, signer: Signer, path: Path, limits: DeploymentLimits, **options: Any
) -> GameDeployment:
    """The deployment at `path` where it stands on this chain; a new one, written to `path`, where none does.
    Raises as `find_game` and `deploy_game` do; options: as the latter takes them."""
    asked = {name: options[name] for name in ("token", "with_drand") if name in options}
    found = await find_game(connection, path, limits, **asked)
    if found is None:
        found = await deploy_game(connection, signer, limits, **options)
        write_game_deployment(path, found)
    return found


async def find_game(
    connection: Connection, path: Path, limits: DeploymentLimits, *, token: str = "", with_drand: bool = False
) -> GameDeployment | None:
    """The deployment at `path`, None where no file is there, or its chain is this one and was begun anew:
    then none of its contracts is there. Raises InvalidInput where the file is anything else than the
    deployment that is asked for: it may be the only record of contracts that hold money."""
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
    await _refuse_other(GameChain(connection, found, None), path, limits, token, with_drand)
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
    chain: GameChain, path: Path, limits: DeploymentLimits, token: str, with_drand: bool
) -> None:
    """Raises InvalidInput where a deployment has other limits, another token or another randomness. token:
    empty where it is of no weight which one."""
    actual, own = await read_limits(chain.tasks), chain.deployment.token
    has_drand = await chain.randomness.drand_round((await chain.head()).timestamp_s) != 0
    words = {True: "draws with drand", False: "draws without drand"}
    for is_same, expected, found in (
        (replace(actual, name=limits.name) == limits, f"limits {limits.name}", f"limits {actual.name}"),
        (token.lower() in ("", own), f"token {token}", f"token {own}"),
        (with_drand == has_drand, words[with_drand], words[has_drand]),
    ):
        if not is_same:
            raise InvalidInput(
                what="the contracts are there already, and are not those that are asked for",
                expected=expected,
                actual=found,
                where=str(path),
                remedy="Nobody can change them: use them as they are, or name another file by --out.",
            )


def default_game_path(chain_id: int) -> Path:
    """`deployments/<chainId>.json` in the working folder."""
    return DEPLOYMENTS / f"{chain_id}.json"


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
