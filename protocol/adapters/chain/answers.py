"""Checks the form of the chain's answers, and reads values out of them.

Each field must have the right type and length, and nothing is converted by guess. An answer of another form
is ignored, whoever sent it. Fields that nobody here reads may have any form.

Source: Ethereum's execution API (`eth_getBlockByNumber`, `eth_getLogs`, `eth_getTransactionReceipt`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

Quantity = Annotated[str, Meta(pattern=r"\A0x[0-9a-fA-F]{1,64}\Z")]
BlockNumber = Annotated[str, Meta(pattern=r"\A0x0{0,52}[0-9a-fA-F]{1,12}\Z")]
"""Block numbers must be below 2^48, counts below 2^40 and gas below 2^32. No real chain has more. A larger
number would spoil everything that is computed from it and kept, for example a nonce."""
Count = Annotated[str, Meta(pattern=r"\A0x0{0,54}[0-9a-fA-F]{1,10}\Z")]
Gas = Annotated[str, Meta(pattern=r"\A0x0{0,56}[0-9a-fA-F]{1,8}\Z")]
Data = Annotated[str, Meta(pattern=r"\A0x[0-9a-fA-F]*\Z")]
Hash = Annotated[str, Meta(pattern=r"\A0x[0-9a-fA-F]{64}\Z")]
Address = Annotated[str, Meta(pattern=r"\A0x[0-9a-fA-F]{40}\Z")]

Form = TypeVar("Form")


class MalformedAnswer(ValueError):
    """The answer does not have the form that the request calls for."""


@dataclass(frozen=True)
class Head:
    """The parts of a block that roles need. Hashes are 32 bytes; `timestamp_s` is Unix time."""

    number: int
    block_hash: bytes
    parent_hash: bytes
    timestamp_s: int
    base_fee_wei: int


@dataclass(frozen=True)
class Log:
    """One log. `address` is lower-case `0x`; each of `topics` has 32 bytes."""

    address: str
    topics: tuple[bytes, ...]
    data: bytes
    block_number: int
    block_hash: bytes
    log_index: int
    transaction_hash: bytes


@dataclass(frozen=True)
class MinedTransaction:
    """The receipt of a transaction. `contract_address` is the created contract's, lower-case `0x`; empty if
    none was created."""

    transaction_hash: bytes
    block_number: int
    block_hash: bytes
    gas_used: int
    gas_price_wei: int
    is_success: bool
    contract_address: str
    logs: tuple[Log, ...] = field(repr=False)


@dataclass(frozen=True)
class SentTransaction:
    """A transaction that the chain's node knows. `sender` and `to` are lower-case `0x`; `to` is empty if it
    creates a contract. `block_number` is None while it waits."""

    transaction_hash: bytes
    nonce: int
    sender: str
    to: str
    data: bytes
    block_number: int | None


class _Block(msgspec.Struct):
    number: BlockNumber
    hash: Hash
    parentHash: Hash
    timestamp: Quantity
    baseFeePerGas: Quantity | UnsetType = UNSET


class _Log(msgspec.Struct):
    address: Address
    topics: Annotated[list[Hash], Meta(max_length=4)]
    data: Data
    blockNumber: BlockNumber
    blockHash: Hash
    logIndex: Count
    transactionHash: Hash
    removed: bool = False


class _Receipt(msgspec.Struct):
    transactionHash: Hash
    blockNumber: BlockNumber
    blockHash: Hash
    gasUsed: Gas
    status: Quantity
    logs: list[_Log]
    effectiveGasPrice: Quantity | UnsetType = UNSET
    contractAddress: Address | None = None


class _Transaction(msgspec.Struct):
    hash: Hash
    nonce: Count
    input: Data
    sender: Address = msgspec.field(name="from")
    to: Address | None = None
    blockNumber: BlockNumber | None = None


class _Transactions(msgspec.Struct):
    transactions: list[Any]


def read_head(block: object) -> Head:
    """Returns the head of a block from its JSON-RPC answer. Raises MalformedAnswer."""
    return _to_head(_convert(block, _Block))


def find_sent(block: object, sender: str, nonce: int) -> SentTransaction | None:
    """Returns the transaction of `sender` (lower-case `0x`) with this nonce in a block that was fetched with
    its transactions; None if there is none. Raises MalformedAnswer. Transactions of others may have any
    form."""
    for one in _convert(block, _Transactions).transactions:
        if isinstance(one, dict) and str(one.get("from", "")).lower() == sender:
            found = read_transaction(one)
            if found.nonce == nonce:
                return found
    return None


def read_logs(logs: object) -> list[Log]:
    """Returns logs in the chain's order, each once. Raises MalformedAnswer, also for a log that a reorg has
    removed, and for two different logs at one place in a block."""
    found = dict[tuple[int, int], Log]()
    for one in map(_to_log, _convert(logs, list[_Log])):
        if found.setdefault((one.block_number, one.log_index), one) != one:
            raise MalformedAnswer("two logs of one place")
    return [found[place] for place in sorted(found)]


def read_receipt(receipt: object) -> MinedTransaction:
    """Returns a receipt. Raises MalformedAnswer."""
    found = _convert(receipt, _Receipt)
    price = found.effectiveGasPrice
    return MinedTransaction(
        to_bytes(found.transactionHash),
        to_int(found.blockNumber),
        to_bytes(found.blockHash),
        to_int(found.gasUsed),
        to_int(price) if isinstance(price, str) else 0,
        to_int(found.status) == 1,
        (found.contractAddress or "").lower(),
        tuple(map(_to_log, found.logs)),
    )


def read_transaction(transaction: object) -> SentTransaction:
    """Returns a transaction, mined or waiting. Raises MalformedAnswer."""
    return _to_transaction(_convert(transaction, _Transaction))


def read_quantity(value: object) -> int:
    """Returns an answer that is a single number. Raises MalformedAnswer."""
    return to_int(_convert(value, Quantity))


def read_number(value: object) -> int:
    """Returns an answer that is a block number. Raises MalformedAnswer."""
    return to_int(_convert(value, BlockNumber))


def read_count(value: object) -> int:
    """Returns an answer that is a count of transactions. Raises MalformedAnswer."""
    return to_int(_convert(value, Count))


def read_gas(value: object) -> int:
    """Returns an answer that is an amount of gas. Raises MalformedAnswer."""
    return to_int(_convert(value, Gas))


def read_data(value: object) -> bytes:
    """Returns an answer that is bytes. Raises MalformedAnswer."""
    return to_bytes(_convert(value, Data))


def read_raw_block(block: object) -> Mapping[str, Any]:
    """Returns a block unchanged, after checking the fields that are used. Raises MalformedAnswer."""
    _convert(block, _Block)
    assert isinstance(block, dict), "the form says so"
    return block


def to_int(quantity: str) -> int:
    """Returns the number of a quantity."""
    return int(quantity, 16)


def to_bytes(data: str) -> bytes:
    """Returns the bytes of `0x` and digits. Raises MalformedAnswer for half a byte."""
    try:
        return bytes.fromhex(data[2:])
    except ValueError:
        raise MalformedAnswer("half a byte") from None


def _convert(value: object, form: Any) -> Any:
    try:
        return msgspec.convert(value, form)
    except msgspec.ValidationError as error:
        raise MalformedAnswer(str(error)) from None


def _to_head(block: _Block) -> Head:
    fee = block.baseFeePerGas
    return Head(
        to_int(block.number),
        to_bytes(block.hash),
        to_bytes(block.parentHash),
        to_int(block.timestamp),
        to_int(fee) if isinstance(fee, str) else 0,
    )


def _to_log(log: _Log) -> Log:
    if log.removed:
        raise MalformedAnswer("a log that a reorg has removed")
    return Log(
        log.address.lower(),
        tuple(map(to_bytes, log.topics)),
        to_bytes(log.data),
        to_int(log.blockNumber),
        to_bytes(log.blockHash),
        to_int(log.logIndex),
        to_bytes(log.transactionHash),
    )


def _to_transaction(found: _Transaction) -> SentTransaction:
    return SentTransaction(
        to_bytes(found.hash),
        to_int(found.nonce),
        found.sender.lower(),
        (found.to or "").lower(),
        to_bytes(found.input),
        None if found.blockNumber is None else to_int(found.blockNumber),
    )
