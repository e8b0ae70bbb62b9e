"""Where the contracts of plays are: addresses that follow from one account which creates them in order."""

from functools import cache

from touchstone.protocol.adapters.chain.abi import load_bytecode
from touchstone.protocol.adapters.chain.creation import (
    compute_creation_address,
    compute_game_code,
    find_constructor,
)
from touchstone.protocol.adapters.chain.deployment import GAME_CONTRACTS
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL

DEPLOYER = "0x00000000000000000000000000000000deadbee1"
CHAIN_ID = 31_337
NAMES = ("DevToken", *GAME_CONTRACTS.values())
"""In the order of their creation, from nonce 0."""


@cache
def list_addresses() -> dict[str, str]:
    """Returns the address of each contract by its name, lower case."""
    return {name: compute_creation_address(DEPLOYER, nonce) for nonce, name in enumerate(NAMES)}


@cache
def list_arguments() -> dict[str, bytes]:
    """Returns the encoded arguments of each constructor."""
    where = {**list_addresses(), "token": list_addresses()["DevToken"]}
    return {
        name: compute_game_code(name, where, BOUNDS_LOCAL).removeprefix(load_bytecode(name))
        if find_constructor(name)
        else b""
        for name in NAMES
    }
