"""Encodes the header of a block out of its JSON-RPC fields.

The Keccak hash of a header is the hash of its block, so the bytes can be checked, whoever sent them. Later
forks append fields. Unknown fields are appended in the order of the answer, until the hash is right.

Source: Ethereum Yellow Paper, section 4.4, then what forks appended: London, Shanghai, Cancun, Prague
(EIP-7685), Amsterdam (EIP-7928, EIP-7843).
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import rlp  # type: ignore[import-untyped]
from eth_utils.crypto import keccak

from touchstone.protocol.spec.errors import EnvironmentFault

FIELDS = (
    "parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot", "logsBloom",
    "difficulty", "number", "gasLimit", "gasUsed", "timestamp", "extraData", "mixHash", "nonce",
    "baseFeePerGas", "withdrawalsRoot", "blobGasUsed", "excessBlobGas", "parentBeaconBlockRoot",
    "requestsHash",
)  # fmt: skip
LATER = ("blockAccessListHash", "balHash", "slotNumber")
"""Fields that coming forks append to headers, as far as their names are known. Clients spell the first one
differently."""
NUMBERS = frozenset({
    "difficulty", "number", "gasLimit", "gasUsed", "timestamp", "baseFeePerGas", "blobGasUsed",
    "excessBlobGas", "slotNumber",
})  # fmt: skip
NO_FIELDS = frozenset({
    "hash", "size", "totalDifficulty", "transactions", "uncles", "withdrawals", "author", "sealFields",
    "blockAccessList",
})  # fmt: skip
"""Fields of an answer that are not in the header."""
MOST_UNKNOWN = 6
"""The most unknown fields that are tried."""
HASH_DIGITS = 2 + 64
MOST_DIGITS = 2 * 8_192
"""The most hex digits of one field, and of all known fields. extraData has 32 bytes, but some kB on chains
with few signers. Each try hashes all fields."""


def encode_header(block: Mapping[str, Any]) -> bytes:
    """Returns the RLP of a block's header, from the answer of `eth_getBlockByNumber` (values are `0x`
    strings). Raises EnvironmentFault if no header with the block's hash can be made from it; then its
    randomness cannot be proven."""
    known = [name for name in FIELDS if block.get(name) is not None]
    is_short = sum(len(str(block[name])) for name in known) <= MOST_DIGITS
    for more in _list_endings(block) if is_short else ():
        header = _encode(block, (*known, *more))
        if is_header(header, block):
            return header
    others = ", ".join(_list_unknown(block)) or "no others"
    raise _foreign_header(others, block, known)


def _foreign_header(others: str, block: Mapping[str, Any], known: list[str]) -> EnvironmentFault:
    return EnvironmentFault(
        what="this chain's block headers are not those of Ethereum",
        expected=f"a header with hash {block['hash']}",
        actual=f"another hash, from {len(known)} known fields and {others}",
        where=f"block {block['number']}",
        remedy="Use a chain whose block hash is Keccak over a header as Ethereum has it, or an endpoint that "
        "answers debug_getRawHeader.",
        retryable=False,
    )


def is_header(header: bytes, block: Mapping[str, Any]) -> bool:
    """Returns whether the bytes are the header of the block."""
    return keccak(header) == bytes.fromhex(str(block["hash"])[2:])


def _encode(block: Mapping[str, Any], names: tuple[str, ...]) -> bytes:
    """Returns the RLP of these fields; empty if one is neither a number nor bytes."""
    try:
        header: bytes = rlp.encode([_encode_field(name, str(block[name])) for name in names])
    except ValueError:
        return b""
    return header


def _list_endings(block: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yields the fields that may follow the known ones: none, then the later ones, then any choice of the
    unknown ones."""
    unknown = _list_unknown(block)[:MOST_UNKNOWN]
    for count in range(len(unknown) + 1):
        yield from combinations(unknown, count)


def _list_unknown(block: Mapping[str, Any]) -> list[str]:
    """Returns the fields of an answer that may belong to the header, those with known names first."""
    names = [name for name in block if name not in NO_FIELDS and name not in FIELDS]
    texts = [name for name in names if isinstance(block[name], str) and block[name].startswith("0x")]
    texts = [name for name in texts if len(block[name]) <= MOST_DIGITS]
    return sorted(texts, key=lambda name: LATER.index(name) if name in LATER else len(LATER))


def _encode_field(name: str, value: str) -> bytes | int:
    is_unknown_number = name not in FIELDS and len(value) != HASH_DIGITS
    return int(value, 16) if name in NUMBERS or is_unknown_number else bytes.fromhex(value[2:])
