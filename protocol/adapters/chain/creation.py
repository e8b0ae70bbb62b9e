"""Computes how each contract of a deployment is created: its code, its arguments, its address.

The contracts name each other in their constructors. An account's n-th creation has a known address (Ethereum
Yellow Paper, section 7).
"""

from collections.abc import Mapping
from dataclasses import asdict, astuple
from typing import Any

import rlp  # type: ignore[import-untyped]
from eth_utils.crypto import keccak

from touchstone.protocol.adapters.chain.abi import Entry, Parameter, load_abi, load_bytecode
from touchstone.protocol.adapters.chain.abi_values import encode_values
from touchstone.protocol.adapters.chain.deployment import PARTS
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.game.terms import DeploymentBounds

PLAIN, WITH_DRAND = "BlockRandomness", "DrandRandomness"
"""The contracts that can serve as a deployment's `randomness`."""
MODULES = ("Vault", "Game", "Shares", "BlockRandomness")
"""The order of the fields in the struct `Modules`."""


def compute_creation_address(account: str, nonce: int) -> str:
    """Returns the address of the contract that `account` creates with its transaction `nonce`, lower-case
    `0x`."""
    digest = keccak(rlp.encode([bytes.fromhex(account.removeprefix("0x")), nonce]))
    return "0x" + digest[-20:].hex()


def compute_creation_code(contract: str, arguments: list[Any]) -> bytes:
    """Returns the data that creates `contract`: its creation code and its encoded arguments."""
    constructor = find_constructor(contract)
    return load_bytecode(contract) + (encode_values(constructor.inputs, arguments) if constructor else b"")


def find_constructor(contract: str) -> Entry | None:
    """Returns the constructor of a contract; None if it is not declared and takes nothing."""
    return next((entry for entry in load_abi(contract) if entry.kind == "constructor"), None)


def compute_game_code(contract: str, where: Mapping[str, str], bounds: DeploymentBounds) -> bytes:
    """Returns the data that creates `contract`. `where` maps names to the addresses of the other contracts
    and of the `token`."""
    constructor = find_constructor(contract)
    inputs = constructor.inputs if constructor else ()
    return compute_creation_code(contract, [_find_argument(one, where, bounds) for one in inputs])


def list_selectors(part: str) -> list[bytes]:
    """Returns the selectors of the functions of a part of Game, in the order of their signatures."""
    functions = (entry for entry in load_abi(part) if entry.kind == "function")
    return [entry.selector for entry in sorted(functions, key=lambda entry: entry.signature)]


def _find_argument(parameter: Parameter, where: Mapping[str, str], bounds: DeploymentBounds) -> Any:
    """Returns the value of a constructor's parameter. Raises InvalidInput for an unknown parameter."""
    known: dict[str, Any] = {
        "modules": tuple(where[name] for name in MODULES),
        "game": where["Game"],
        "shares": where["Shares"],
        "parts": [(where[name], list_selectors(name)) for name in PARTS],
        "token": where["token"],
        "referee": where["Referee"],
        "bounds": {**asdict(bounds), "least": astuple(bounds.least)},
    }
    name = parameter.name.strip("_")
    if name not in known:
        raise _unknown_parameter(known, parameter)
    return known[name]


def _unknown_parameter(known: dict[str, Any], parameter: Parameter) -> InvalidInput:
    return InvalidInput(
        what="a constructor asks for something unknown",
        expected=f"one of {', '.join(known)}",
        actual=f"{parameter.type_name} {parameter.name}",
        remedy="Add it to protocol/adapters/chain/creation.py.",
    )
