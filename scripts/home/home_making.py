"""`touchstone init`: makes a home; on a test network it also funds the account."""

from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from touchstone.protocol.adapters.chain.chain_client import GameChain, open_game_chain
from touchstone.protocol.adapters.chain.own_contracts import require_own_code, require_own_creations
from touchstone.protocol.adapters.keys.keystore import is_keystore
from touchstone.protocol.adapters.keys.passwords import read_new_password, read_password
from touchstone.protocol.adapters.wire.endpoint_urls import choose_endpoint
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.tokens import format_tokens
from touchstone.scripts.command_line.command_errors import advise
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.documents.home_documents import InitDocument
from touchstone.scripts.home.home_config import HomeConfig, Preset, check_config, read_config
from touchstone.scripts.home.home_files import CONFIG_FILE, has_key, is_whole
from touchstone.scripts.home.home_folder import create_home, refuse_whole
from touchstone.scripts.network import devnet
from touchstone.scripts.tasks.terms_checks import describe_other_bounds


@dataclass(frozen=True)
class NewHome:
    """A new home as an operator wants it: the options of `touchstone init`, which its help explains."""

    home: Path
    rpc_url: str
    deployment: Path
    password_file: Path | None = None
    import_key: Path | None = None
    listen_host: str = "127.0.0.1"
    listen_port: int = 0
    public_url: str = ""
    threads: int = 1
    device: str = "cpu"
    memory_mb: int = 0
    preset: Preset | None = None
    devnet: bool = False


async def make_home(wanted: NewHome, console: Console) -> InitDocument:
    """Makes a home folder; on a test network it also funds its account. Raises InvalidInput if an endpoint, a
    deployment or a home is not usable."""
    choose_endpoint(wanted.listen_host, wanted.listen_port, wanted.public_url)
    if wanted.import_key is not None:
        _refuse_second_key(wanted.home)
    if wanted.devnet and is_whole(wanted.home):
        account = await _fund_again(wanted.home, console)
        return InitDocument(account, str(wanted.home))
    refuse_whole(wanted.home)
    config = _make_config(wanted)
    # Check first, so that neither a wrong --rpc-url nor foreign contracts get into the configuration.
    config = await _note_deployment(config, console)
    password = _ask_password(wanted)
    key = create_home(wanted.home, config, password, is_devnet=wanted.devnet, key_file=wanted.import_key)
    console.notify(f"account {key.address} in {wanted.home}")
    if wanted.import_key is not None:
        console.notify(
            f"the key was copied from {wanted.import_key}: never run another node with it. If one key signs "
            "two different statements, its seat loses the stake"
        )
    if wanted.devnet:
        await _fund(config, key.address, console)
    console.notify(
        "Next: touchstone solve TASK, verify, watch, or task create"
        + ("" if wanted.devnet else " (after sending it coin and tokens)")
    )
    return InitDocument(key.address, str(wanted.home))


async def _note_deployment(config: HomeConfig, console: Console) -> HomeConfig:
    """Returns the configuration with the digest of its deployment, because its publisher may change the file
    later. Raises EnvironmentFault if the chain does not answer, InvalidInput if the deployment's contracts
    are missing or not those of this version."""
    deployment = config.read_deployment()
    async with open_game_chain(config.rpc_url, deployment) as chain:
        console.notify(await judge_contracts(chain))
        if said := describe_other_bounds(chain.bounds, config.preset):
            console.notify(f"WARNING: {said}")
    return structs.replace(config, deployment_sha256=deployment.compute_digest())


async def judge_contracts(chain: GameChain) -> str:
    """Checks the contracts, and describes that they are those of this version, and which token they use.
    Raises as `own_contracts` does if they are not, or were created otherwise."""
    made = chain.connection, chain.deployment, chain.bounds
    await require_own_code(*made)
    await require_own_creations(*made)
    return (
        "all contracts of the deployment are those of this version. Its token, "
        f"{chain.deployment.token}, is a contract of others: it was not checked"
    )


def _refuse_second_key(home: Path) -> None:
    if has_key(home):
        raise InvalidInput(
            what="this home has a key already",
            expected="a folder without one",
            actual="a keystore",
            where=str(home),
            remedy="Choose another --home, or leave --import-key out: it goes on with the key that is there.",
        )


def _make_config(wanted: NewHome) -> HomeConfig:
    config = HomeConfig(
        rpc_url=wanted.rpc_url,
        deployment=str(wanted.deployment.absolute()),
        listen_host=wanted.listen_host,
        listen_port=wanted.listen_port,
        public_url=wanted.public_url,
        threads=wanted.threads,
        device=wanted.device,
        memory_mb=wanted.memory_mb,
        password_file=str(wanted.password_file.absolute()) if wanted.password_file else "",
        preset=wanted.preset or ("local" if wanted.devnet else "12s"),
    )
    return check_config(config)


def _ask_password(wanted: NewHome) -> str:
    if has_key(wanted.home):
        return read_password(wanted.password_file)
    if wanted.import_key is not None and is_keystore(wanted.import_key):
        return read_password(wanted.password_file, f"Password of {wanted.import_key}, which it keeps: ")
    return read_new_password(wanted.password_file, "Password for the new keystore: ")


async def _fund_again(home: Path, console: Console) -> str:
    """Gives the account of a test network's home the money that it lacks, because the chain did not answer
    when it was made, or its coin is spent. Raises InvalidInput if it has money."""
    config = read_config(home)
    coin_wei, token_wei = await _read_own_balances(config, home / CONFIG_FILE)
    if coin_wei and token_wei:
        raise InvalidInput(
            what="this home exists already, and its account has money",
            expected="an account without coin or without tokens",
            actual=f"{format_tokens(token_wei)} and coin in {config.account}",
            where=str(home),
            remedy="Use the home as it is, or choose another --home.",
        )
    await _fund(config, config.account, console)
    return config.account


async def _read_own_balances(config: HomeConfig, path: Path) -> tuple[int, int]:
    try:
        return await _read_balances(config, config.account)
    except EnvironmentFault as fault:
        remedy = f"Start that chain, or correct rpc_url in {path}: a home that is made keeps its own."
        raise advise(fault, remedy) from fault


async def _read_balances(config: HomeConfig, address: str) -> tuple[int, int]:
    """Returns coin and tokens of an account in wei, by the chain and the deployment that a configuration
    names."""
    async with open_game_chain(config.endpoints, config.read_deployment()) as chain:
        return await chain.connection.balance_of(address), int(await chain.token.balance_of(address))


async def _fund(config: HomeConfig, address: str, console: Console) -> None:
    """Gives an account of a test network coin, and tokens if it has none; nothing if it has both."""
    coin_wei, has_wei = await _read_balances(config, address)
    if coin_wei and has_wei:
        return
    token_wei = 0 if has_wei else devnet.GRANT_TOKEN_WEI
    async with open_game_chain(config.endpoints, config.read_deployment()) as chain:
        await devnet.fund(chain.connection, chain.deployment, [address], token_wei=token_wei)
    tokens = f"{format_tokens(token_wei)} and " if token_wei else ""
    console.notify(f"funded with {tokens}coin for gas")
