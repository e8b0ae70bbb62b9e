"""Creating contracts from an account, at addresses that are known before: an account's n-th creation has a
known address (Ethereum Yellow Paper, section 7), so contracts can name each other in their constructors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import rlp  # type: ignore[import-untyped]
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from protocol.adapters.chain.abi import Entry, load_abi, load_bytecode
from protocol.adapters.chain.transactions import Sender
from protocol.adapters.chain.values import encode_values
from protocol.spec.errors import EnvironmentFault

DEPLOYMENTS = Path("deployments")
DEV_TOKEN = "DevToken"

Report = Callable[[str], None]


def compute_creation_address(account: str, nonce: int) -> str:
    """Address of the contract that `account` creates with its transaction `nonce`, lower-case `0x`."""
    digest = keccak(rlp.encode([bytes.fromhex(account.removeprefix("0x")), nonce]))
    return "0x" + digest[-20:].hex()


def compute_creation_code(contract: str, arguments: list[Any]) -> bytes:
    """What is sent to create `contract`: its creation code and its encoded arguments."""
    constructor = find_constructor(contract)
    return load_bytecode(contract) + (encode_values(constructor.inputs, arguments) if constructor else b"")


def find_constructor(contract: str) -> Entry | None:
    """The constructor of a contract, None where it takes nothing and is not declared."""
    return next((entry for entry in load_abi(contract) if entry.kind == "constructor"), None)


async def create(sender: Sender, contract: str, code: bytes, report: Report) -> str:
    """Create a contract; its address, lower-case `0x`."""
    receipt = await sender.send("", code, f"new {contract}")
    address = str(receipt["contractAddress"]).lower()
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
