"""A block's header as bytes, from what JSON-RPC tells of it: its Keccak hash is the block's."""

from collections.abc import Mapping
from typing import Any

import rlp  # type: ignore[import-untyped]
from eth_utils.crypto import keccak

from protocol.spec.errors import EnvironmentFault

# Ethereum Yellow Paper, section 4.4, then what forks appended: London, Shanghai, Cancun, Prague.
_FIELDS = (
    "parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot", "logsBloom",
    "difficulty", "number", "gasLimit", "gasUsed", "timestamp", "extraData", "mixHash", "nonce",
    "baseFeePerGas", "withdrawalsRoot", "blobGasUsed", "excessBlobGas", "parentBeaconBlockRoot",
    "requestsHash",
)  # fmt: skip
_NUMBERS = frozenset({
    "difficulty", "number", "gasLimit", "gasUsed", "timestamp", "baseFeePerGas", "blobGasUsed",
    "excessBlobGas",
})  # fmt: skip


def encode_header(block: Mapping[str, Any]) -> bytes:
    """The RLP of the header of a block, as `eth_getBlockByNumber` tells it (values are `0x` strings).

    Raises EnvironmentFault where its hash is not the block's: the chain has headers of another shape, and no
    proof of its randomness can be made.
    """
    fields = [_encode_field(name, str(block[name])) for name in _FIELDS if block.get(name) is not None]
    header: bytes = rlp.encode(fields)
    if keccak(header) != bytes.fromhex(str(block["hash"])[2:]):
        raise EnvironmentFault(
            what="this chain's block headers are not those of Ethereum",
            expected=f"a header with hash {block['hash']}",
            actual=f"0x{keccak(header).hex()} from {len(fields)} fields",
            where=f"block {block['number']}",
            remedy="Use a chain whose block hash is Keccak over a header as Ethereum has it up to Prague.",
            retryable=False,
        )
    return header


def _encode_field(name: str, value: str) -> bytes | int:
    return int(value, 16) if name in _NUMBERS else bytes.fromhex(value[2:])
