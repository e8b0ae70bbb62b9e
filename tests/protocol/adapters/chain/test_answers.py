"""An answer counts where it has the form of what was asked for, and says what may be."""

from collections.abc import Callable
from typing import Any

import pytest

from touchstone.protocol.adapters.chain.answers import (
    MalformedAnswer,
    read_count,
    read_data,
    read_gas,
    read_head,
    read_logs,
    read_number,
    read_transaction,
)

HASH = "0x" + 64 * "1"
BLOCK = {"number": "0x1", "hash": HASH, "parentHash": HASH, "timestamp": "0x1"}
LOG: dict[str, Any] = {
    "address": "0x" + 40 * "2", "topics": [], "data": "0x", "blockNumber": "0x1", "blockHash": HASH,
    "logIndex": "0x0", "transactionHash": HASH,
}  # fmt: skip
SENT = {"hash": HASH, "nonce": "0x1", "input": "0x", "from": "0x" + 40 * "2"}


@pytest.mark.parametrize(("read", "bits"), [(read_count, 40), (read_gas, 32), (read_number, 48)])
def test_a_number_that_cannot_be_is_no_answer(read: Callable[[object], int], bits: int) -> None:
    """A nonce of 2^200 would be signed, and all coin offered for such gas."""
    most = (1 << bits) - 1
    assert read(hex(most)) == most and read("0x" + f"{most:064x}") == most
    for value in (hex(most + 1), hex(1 << 255), "0x", most, None):
        with pytest.raises(MalformedAnswer):
            read(value)


@pytest.mark.parametrize(
    ("read", "form", "name"),
    [
        (read_head, BLOCK, "number"), (read_transaction, SENT, "nonce"),
        (read_transaction, SENT, "blockNumber"), (lambda log: read_logs([log]), LOG, "blockNumber"),
    ],
)  # fmt: skip
def test_a_number_inside_of_an_answer_is_bounded_too(
    read: Callable[[object], object], form: dict[str, Any], name: str
) -> None:
    read(form)
    with pytest.raises(MalformedAnswer):
        read({**form, name: hex(1 << 48)})


def test_half_a_byte_is_no_answer() -> None:
    assert read_data("0x0a") == b"\n"
    for value in ("0x0", "0", "0xzz", "0x0 a0"):
        with pytest.raises(MalformedAnswer):
            read_data(value)


def test_a_log_that_comes_twice_counts_once_and_one_that_differs_is_no_answer() -> None:
    assert len(read_logs([LOG, LOG])) == 1
    for change in ({"data": "0x01"}, {"blockHash": "0x" + 64 * "3"}):
        with pytest.raises(MalformedAnswer, match="two logs of one place"):
            read_logs([LOG, {**LOG, **change}])
