"""What differs between two codes, in words; the deployments that pass and those that do not are in
`tests/scripts/test_own_contracts.py`."""

from pathlib import Path

import pytest
from eth_account import Account
from msgspec import structs

from touchstone.protocol.adapters.chain.chain_client import open_game_chain
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.own_contracts import (
    describe_difference,
    find_other_contracts,
    find_other_creations,
)
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.spec.errors import EnvironmentFault
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.scripts.network.contract_creation import deploy_game
from touchstone.scripts.network.devnet import GRANT_COIN_WEI, give_coin, run_anvil

VOTES = "0x" + 20 * "ab"
PUSH1, PUSH32, STOP = b"\x60", b"\x7f", b"\x00"
ODD = PUSH1 + PUSH32


def push(value: int) -> bytes:
    return PUSH32 + value.to_bytes(32)


@pytest.mark.parametrize(
    ("expected", "actual", "words"),
    [
        (STOP, b"", "has 0 bytes of code in the place of 1"),
        (push(200) + STOP, push(3) + STOP, "has 3 in the place of 200"),
        # What a shorter push has pushed may look like another push.
        (ODD + push(int(VOTES, 16)), ODD + push(0), f"has 0 in the place of {VOTES} (Votes)"),
        (PUSH1 + b"\1" + STOP, PUSH1 + b"\2" + STOP, "has other code from byte 1 on"),
        (push(1) + STOP, push(1) + b"\1", "has other code from byte 33 on"),
        (PUSH32 + bytes(32), b"\x7e" + bytes(32), "has other code from byte 0 on"),
    ],
)  # fmt: skip
def test_what_a_constructor_has_put_in_is_told_by_its_value(
    expected: bytes, actual: bytes, words: str
) -> None:
    assert describe_difference(expected, actual, {"Votes": VOTES}) == words


async def forget(*_: object) -> None:
    """An endpoint that no longer has a block."""


async def test_contracts_with_drand_are_of_this_version_and_have_creations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_anvil(0, tmp_path / "anvil.log", hardfork="prague") as rpc_url:
        connection, key = Connection(rpc_url, poll_s=0.02), AccountKey(Account.create())
        await give_coin(connection, key.address, GRANT_COIN_WEI)
        made = await deploy_game(connection, key, BOUNDS_LOCAL, with_drand=True, report=lambda _: None)
        async with open_game_chain(rpc_url, made) as chain:
            assert await find_other_contracts(connection, made, chain.bounds) == {}
            assert await find_other_creations(connection, made, chain.bounds) == {}
            later = structs.replace(made, deploy_block=(await chain.head()).number + 1)
            missing = await find_other_creations(connection, later, chain.bounds)
            assert list(missing) == list(made.contracts()) and "no transaction" in missing["Vault"]
            monkeypatch.setattr(connection, "request", forget)
            with pytest.raises(EnvironmentFault, match="lacks a block since the deployment"):
                await find_other_creations(connection, made, chain.bounds)
        await connection.close()
