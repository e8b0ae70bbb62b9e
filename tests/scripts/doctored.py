"""Deployments whose contracts are not quite those of this version, on a real Anvil."""

from collections.abc import Callable, Mapping

from eth_utils.crypto import keccak

from touchstone.protocol.adapters.chain.abi import load_bytecode
from touchstone.protocol.adapters.chain.connection import Connection
from touchstone.protocol.adapters.chain.creation import compute_creation_code, compute_game_code
from touchstone.protocol.adapters.chain.deployment import GameDeployment
from touchstone.protocol.adapters.chain.transactions import ResendPolicy, Sender
from touchstone.protocol.adapters.keys.account_key import AccountKey
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.scripts.network.contract_creation import create, predict_game
from touchstone.scripts.network.devnet import CHAIN_ID

STRANGER = "0x" + 20 * "ee"
"""Who takes what the deployment takes."""
CREDIT_WEI = 10**30
CREDIT_SLOT = 0
"""Of `creditOf` in the storage of `Vault`."""
Change = Callable[[str, Mapping[str, str]], bytes]
"""(contract, addresses by contract and of the token): what is sent to create it."""


def make_honest(contract: str, where: Mapping[str, str]) -> bytes:
    return compute_game_code(contract, where, BOUNDS_LOCAL)


def add_mover(contract: str, where: Mapping[str, str]) -> bytes:
    """`STRANGER` moves money in the vault in the place of the shares."""
    if contract != "Vault":
        return make_honest(contract, where)
    return compute_creation_code(contract, [where["token"], where["Game"], STRANGER])


def change_randomness(contract: str, where: Mapping[str, str]) -> bytes:
    """All contracts ask `STRANGER` for randomness; the file names the right one, which nobody asks."""
    return make_honest(contract, {**where, "BlockRandomness": STRANGER})


def change_evidence(contract: str, where: Mapping[str, str]) -> bytes:
    """The code of `STRANGER` runs for `Evidence` on the storage of `Game`, so it may do anything."""
    return make_honest(contract, {**where, "Evidence": STRANGER})


def change_shares(contract: str, where: Mapping[str, str]) -> bytes:
    """All else is as it should be, but the template of a task's shares has other code."""
    if contract != "Shares":
        return make_honest(contract, where)
    template = load_bytecode("TaskShares")
    other = bytearray(template)
    # The last push of the code that checks who calls: any byte of the runtime code will do.
    other[-1] ^= 1
    return make_honest(contract, where).replace(template, bytes(other))


def give_credit(contract: str, where: Mapping[str, str]) -> bytes:
    """All code is as it should be; `deploy_doctored` lets `Vault` begin with a credit of `STRANGER`."""
    return make_honest(contract, where)


CHANGES: dict[str, Change] = {
    "mover": add_mover,
    "randomness": change_randomness,
    "evidence": change_evidence,
    "shares": change_shares,
    "credit": give_credit,
}


def store_credit(runtime: bytes) -> bytes:
    """Creation code that writes a credit into the storage, and returns `runtime`."""
    push1, push2, push32, sstore, codecopy, return_ = b"\x60", b"\x61", b"\x7f", b"\x55", b"\x39", b"\xf3"
    slot = keccak(bytes(12) + bytes.fromhex(STRANGER[2:]) + CREDIT_SLOT.to_bytes(32))
    size = len(runtime).to_bytes(2)
    store = push32 + CREDIT_WEI.to_bytes(32) + push32 + slot + sstore
    rest = push1 + b"\0" + codecopy + push2 + size + push1 + b"\0" + return_
    start = len(store) + 6 + len(rest)
    return store + push2 + size + push2 + start.to_bytes(2) + rest + runtime


async def deploy_doctored(
    connection: Connection, key: AccountKey, token: str, change: Change
) -> GameDeployment:
    """Create the contracts as `change` has them."""
    sender = Sender(connection, key, CHAIN_ID, ResendPolicy())
    nonce = await connection.transaction_count(sender.address, "pending")
    start = (await connection.head()).number
    deployment = predict_game(sender.address, nonce, token, CHAIN_ID, start)
    where = {**deployment.contracts(), "token": token}
    for name, address in deployment.contracts().items():
        code = change(name, where)
        if change is give_credit and name == "Vault":
            code = store_credit(await connection.call("", code, f"new {name}"))
        assert await create(sender, name, code, lambda _: None) == address
    return deployment
