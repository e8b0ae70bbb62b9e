"""Computes the names that the vault has for a task's money."""

from eth_abi.abi import encode
from eth_utils.crypto import keccak

BONDS, STAKES = "bonds", "stakes"


def name_pot(kind: str, task: bytes) -> bytes:
    """Returns the 32 bytes that name a pot of a task. Twin: the library `Pots`."""
    return bytes(keccak(encode(["string", "bytes32"], [kind, task])))
