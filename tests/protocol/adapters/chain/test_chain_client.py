"""The contracts of a deployment: each at its own address, its bounds by name, read-only without a signer, and
no connection left open."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import rlp  # type: ignore[import-untyped]
from eth_account import Account
from eth_utils.crypto import keccak

from tests.faults.provider import PASS, Request, run_provider
from tests.protocol.adapters.anvil import make_deployment, run_test_chain
from tools.vectors.fixed_values import ROUND_1000, TIMESTAMP_S
from touchstone.protocol.adapters.chain import chain_client, randomness
from touchstone.protocol.adapters.chain.chain_client import GameChain, open_game_chain, read_bounds
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.contract import Contract
from touchstone.protocol.adapters.chain.contract_events import EventReader
from touchstone.protocol.adapters.chain.creation import compute_creation_code
from touchstone.protocol.adapters.chain.deployment import GAME_CONTRACTS, PARTS
from touchstone.protocol.adapters.chain.headers import encode_header
from touchstone.protocol.adapters.chain.randomness import Randomness
from touchstone.protocol.adapters.chain.refusals import ContractRefused
from touchstone.protocol.adapters.chain.transactions import ResendPolicy, Sender
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.spec import quicknet
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.game.presets import BOUNDS, BOUNDS_LOCAL
from touchstone.protocol.spec.game.terms import DeploymentBounds
from touchstone.protocol.spec.typed_data import SigningDomain
from touchstone.scripts.network import devnet

ADDRESSES = [f"0x{number:040x}" for number in range(1, 17)]
DEPLOYMENT = make_deployment(31337, ADDRESSES)
NOWHERE = "http://127.0.0.1:1"


class Bounds:
    """The Tasks contract, as far as it tells what it allows."""

    def __init__(self, bounds: DeploymentBounds) -> None:
        said = {one.name: getattr(bounds, one.name) for one in fields(bounds) if one.name != "name"}
        self._said = SimpleNamespace(**{**said, "least": SimpleNamespace(**vars(bounds.least))})

    async def bounds(self) -> Any:
        return self._said


async def test_each_contract_is_called_at_its_own_address() -> None:
    """An address that stands for another contract would take the money of a call, or refuse all of them."""
    chain = GameChain(Connection(NOWHERE), DEPLOYMENT, None)
    named = {one.name: one.address for one in vars(chain).values() if isinstance(one, Contract)}
    randomness = named.pop("BlockRandomness")
    assert named.pop("IERC20") == DEPLOYMENT.token
    expected = {name: address for name, address in DEPLOYMENT.contracts().items() if name not in PARTS}
    assert expected.pop(GAME_CONTRACTS["randomness"]) == randomness and named == expected
    assert chain.signing == SigningDomain(31337, DEPLOYMENT.game)


@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=lambda one: one.name)
async def test_the_limits_of_a_deployment_have_the_name_of_their_preset(bounds: DeploymentBounds) -> None:
    """A node tells its operator by that name for what a deployment is meant: one number off is none."""
    assert await read_bounds(cast(Contract, Bounds(bounds))) == bounds
    other = replace(bounds, proof_commit_blocks=bounds.proof_commit_blocks + 1)
    assert await read_bounds(cast(Contract, Bounds(other))) == replace(other, name="own")
    least = replace(bounds, least=replace(bounds.least, query=bounds.least.query + 1))
    assert (await read_bounds(cast(Contract, Bounds(least)))).name == "own"


async def test_without_a_signer_nothing_is_sent() -> None:
    """`touchstone status` of an account that is not here: no key, no transaction, nothing to wait for."""
    chain = GameChain(Connection(NOWHERE), DEPLOYMENT, None)
    assert (chain.address, chain.mined_block, await chain.recover()) == ("", 0, 0)
    with pytest.raises(InvalidInput, match="can only read"):
        await chain.vault.withdraw()


class Wallet:
    """Credit and tokens of an account; what was called."""

    address = "vault"

    def __init__(self, credit_wei: int, *, are_own: bool = True) -> None:
        self.credit_wei, self.are_own, self.sent = credit_wei, are_own, list[tuple[Any, ...]]()

    async def credit_of(self, account: str) -> int:
        return self.credit_wei

    async def require_own_contracts(self) -> None:
        if not self.are_own:
            raise InvalidInput(what="contracts of others", expected="", actual="", remedy="")

    async def approve(self, spender: str, wei: int) -> None:
        self.sent.append(("approve", spender, wei))

    async def deposit(self, wei: int) -> None:
        self.sent.append(("deposit", wei))


@pytest.mark.parametrize(
    ("credit_wei", "moved"), [(4, [("approve", "vault", 6), ("deposit", 6)]), (10, []), (11, [])]
)
async def test_of_the_wallet_only_what_the_credit_lacks_is_taken(
    credit_wei: int, moved: list[tuple[Any, ...]]
) -> None:
    """The vault may take no more of the tokens than that, and nothing where the contracts are others'."""
    for are_own in (True, False):
        wallet = Wallet(credit_wei, are_own=are_own)
        check = wallet.require_own_contracts
        chain: Any = SimpleNamespace(
            vault=wallet, token=wallet, address="operator", require_own_contracts=check
        )
        if are_own or not moved:
            await GameChain.deposit_missing(chain, 10)
        else:
            with pytest.raises(InvalidInput, match="contracts of others"):
                await GameChain.deposit_missing(chain, 10)
        assert wallet.sent == (moved if are_own else [])


async def test_a_signer_is_named_in_lower_case_with_the_block_of_its_last_call(tmp_path: Path) -> None:
    """Accounts are compared as text with those of events. A node has read its own call once it is there."""
    async with run_test_chain(tmp_path) as net:
        chain = net.chain
        assert chain.address == net.account.address.lower()
        receipt = await chain.vault.deposit(10**18)
        assert chain.mined_block == receipt.block_number == (await chain.head()).number
        names = [event.name for event in await chain.read_events(chain.mined_block, chain.mined_block)]
        assert names == ["Deposited"]


@pytest.mark.parametrize("is_there", [False, True])
async def test_a_connection_is_closed_whatever_happens(
    monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """A command that is refused ends at once, without a session that is still open."""
    closed: list[str] = []

    async def close(connection: Connection) -> None:
        closed.append(connection.rpc_url)

    async def check(*_: object) -> None:
        if not is_there:
            raise EnvironmentFault(what="no chain", expected="", actual="", remedy="")

    async def tell(tasks: Contract) -> DeploymentBounds:
        return BOUNDS_LOCAL

    monkeypatch.setattr(Connection, "close", close)
    monkeypatch.setattr(chain_client, "check_deployment", check)
    monkeypatch.setattr(chain_client, "read_bounds", tell)
    with pytest.raises((EnvironmentFault, KeyError)):
        async with open_game_chain(NOWHERE, DEPLOYMENT) as chain:
            assert chain.bounds == BOUNDS_LOCAL and not closed
            raise KeyError("a fault of the command")
    assert closed == [NOWHERE]


@asynccontextmanager
async def run_contract(folder: Path, name: str) -> AsyncIterator[tuple[Connection, Randomness]]:
    """Anvil whose block 1 has the time that leads to round 1000, and a randomness contract on it."""
    genesis = ("--timestamp", str(TIMESTAMP_S - 1))
    async with devnet.run_anvil(0, folder / "anvil.log", options=genesis) as rpc_url:
        connection, key = Connection(rpc_url, poll_s=0.02), AccountKey(Account.create())
        await devnet.give_coin(connection, key.address, devnet.GRANT_COIN_WEI)
        await connection.request("evm_setNextBlockTimestamp", TIMESTAMP_S)
        sender = Sender(connection, key, devnet.CHAIN_ID, ResendPolicy())
        receipt = await sender.send("", compute_creation_code(name, []), name)
        assert (await connection.head()).timestamp_s == TIMESTAMP_S
        deployment = make_deployment(devnet.CHAIN_ID, [receipt.contract_address.lower()] * 16)
        reader = EventReader(connection, deployment)
        yield connection, Randomness("Randomness", deployment.randomness, connection, None, reader)
        await connection.close()


@pytest.mark.parametrize("hardfork", ["cancun", "prague"])
async def test_a_header_proves_prevrandao(
    tmp_path: Path, hardfork: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devnet, "HARDFORK", hardfork)
    async with run_contract(tmp_path, "BlockRandomness") as (connection, contract):
        await connection.request("anvil_mine", hex(3))
        values = set()
        for number in range(1, 4):
            proof = await contract.prove(number)
            value = await contract.read(number, proof)
            assert value.hex() == (await connection.raw_block(number))["mixHash"][2:]
            values.add(value)
        assert len(values) == 3, "a fresh word a block"
        with pytest.raises(ContractRefused, match="not the block's header"):
            await contract.read(2, proof)
        with pytest.raises(ContractRefused, match="not known yet"):
            await contract.read(99, proof)
        with pytest.raises(EnvironmentFault, match="block 99"):
            await contract.prove(99)
        # Without EIP-2935 a chain forgets after 256 blocks.
        await connection.request("anvil_mine", hex(300))
        early = await contract.prove(1)
        if hardfork == "prague":
            assert await contract.read(1, early) in values
        else:
            with pytest.raises(ContractRefused, match="hash is gone"):
                await contract.read(1, early)


async def test_a_published_round_of_drand_is_mixed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def fetch(number: int) -> bytes:
        asked.append(number)
        return ROUND_1000

    monkeypatch.setattr(randomness, "fetch_signature", fetch)
    monkeypatch.setattr(devnet, "HARDFORK", "prague")
    async with run_contract(tmp_path, "DrandRandomness") as (connection, contract):
        await connection.request("anvil_mine", hex(2), hex(12))
        prevrandao = bytes.fromhex((await connection.raw_block(1))["mixHash"][2:])
        proof = await contract.prove(1)
        assert asked == [1000]
        assert await contract.read(1, proof) == quicknet.mix(prevrandao, ROUND_1000)
        # A later block is another round's: what drand signed for the first does not do.
        later = await contract.prove(2)
        assert asked[1] == 1000 + 12 // quicknet.PERIOD_S
        with pytest.raises(ContractRefused, match="not what drand signed"):
            await contract.read(2, later)


async def test_a_header_of_another_shape_is_said(tmp_path: Path) -> None:
    async with devnet.run_anvil(0, tmp_path / "anvil.log") as rpc_url:
        connection = Connection(rpc_url)
        block = await connection.raw_block(0)
        assert len(encode_header(block)) > 500
        for change in ({"stateRoot": "0x" + 64 * "1"}, {"gasUsed": "no number"}):
            with pytest.raises(EnvironmentFault, match="not those of Ethereum") as fault:
                encode_header({**block, **change})
            assert not fault.value.retryable
        await connection.close()


def test_a_header_with_a_long_field_is_refused_before_it_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With fields that nobody knows beside it: each choice of them would be hashed with all the rest."""

    hashed_bytes = 0

    def count_bytes(header: bytes) -> bytes:
        nonlocal hashed_bytes
        hashed_bytes += len(header)
        return bytes(32)

    monkeypatch.setattr("touchstone.protocol.adapters.chain.headers.keccak", count_bytes)
    block = {"number": "0x1", "hash": "0x" + 64 * "1", **{f"new{n}": "0x1" for n in range(6)}}
    for more in ({"extraData": "0x" + 10_000 * "00"}, {"newer": "0x" + 10_000 * "00"}):
        with pytest.raises(EnvironmentFault, match="not those of Ethereum"):
            encode_header({**block, **more})
        assert hashed_bytes < 10_000


def append_fields(block: dict[str, Any], **more: str) -> dict[str, Any]:
    """The block of a chain whose forks have appended these fields to the header, in this order."""
    items = rlp.decode(encode_header(block))
    values = [bytes.fromhex(value[2:].rjust(len(value[2:]) + len(value) % 2, "0")) for value in more.values()]
    return {**block, **more, "hash": "0x" + keccak(rlp.encode([*items, *values])).hex()}


@pytest.mark.parametrize(
    "fields",
    [
        {"requestsHash": "0x" + 64 * "2"},
        {"requestsHash": "0x" + 64 * "2", "balHash": "0x" + 64 * "3"},
        {"requestsHash": "0x" + 64 * "2", "blockAccessListHash": "0x" + 64 * "3", "slotNumber": "0xabcdef"},
        {"requestsHash": "0x" + 64 * "2", "aFieldOfAForkToCome": "0x" + 64 * "4", "oneMore": "0x7f"},
    ],
)
async def test_headers_with_fields_of_later_forks_are_proven(tmp_path: Path, fields: dict[str, str]) -> None:
    """Else no draw would be recorded after a fork, on any task: all claims void, their pay gone."""
    async with devnet.run_anvil(0, tmp_path / "anvil.log") as rpc_url:
        connection = Connection(rpc_url)
        later = append_fields(await connection.raw_block(0), **fields)
        # What an answer has beside the header stands among the fields, whatever it is called.
        answer = {"size": "0x5", "totalDifficulty": "0x0", "blobSchedule": "0x9", **later, "l1": None, "n": 7}
        assert keccak(encode_header(answer)) == bytes.fromhex(later["hash"][2:])
        await connection.close()


async def test_a_header_that_the_fields_do_not_give_comes_as_bytes(tmp_path: Path) -> None:
    async with run_test_chain(tmp_path) as net:
        block = await net.chain.connection.raw_block(1)
        header = encode_header(block)

        async def hide_a_field(request: Request) -> Any:
            if request.method == "debug_getRawHeader":
                return "0x" + header.hex()
            if request.method != "eth_getBlockByNumber":
                return PASS
            return {k: v for k, v in block.items() if k != "withdrawalsRoot"}

        async with run_provider(net.rpc_url, hide_a_field) as provider:
            connection = Connection(provider.url)
            contract = Randomness(
                "BlockRandomness", ADDRESSES[0], connection, None, EventReader(connection, DEPLOYMENT)
            )
            assert (await contract.read_header(1))[1] == header
            header = header[:-1] + bytes([header[-1] ^ 1])
            with pytest.raises(EnvironmentFault, match="not those of Ethereum"):
                await contract.read_header(1)
            await connection.close()
