"""From Python values to the ABI's bytes and back."""

import pytest
from eth_abi.abi import encode

from protocol.adapters.chain.abi import find_function, load_abi, to_snake_case
from protocol.adapters.chain.decoding import decode_event
from protocol.adapters.chain.values import decode_values, encode_call, encode_values
from protocol.spec.containers import LeafProof, StateLeaves
from protocol.spec.errors import EnvironmentFault, InvalidInput

LEAF = LeafProof(b"data", (bytes(31) + b"\1", bytes(31) + b"\2"))
BOOK, LEDGER = load_abi("IAuditBook"), load_abi("IRoundLedger")


def test_lists_of_structs_survive_an_event() -> None:
    entry = next(one for one in BOOK if one.name == "LeavesOpened")
    leaves = (StateLeaves(LEAF, LEAF, LEAF), StateLeaves(LEAF, LeafProof(b"", ()), LEAF))
    plain = [parameter for parameter in entry.inputs if not parameter.is_indexed]
    places = [value.to_bytes(32, "big") for value in (7, 2, 3)]
    data = encode_values(plain, [1, 0, leaves])
    found = decode_event(entry, [entry.digest, *places], data)
    assert found == {
        "task": places[0], "round": 2, "slot": 3, "draw": 1, "phase": 0, "leaves": leaves,
    }  # fmt: skip


def test_a_value_that_does_not_fit_is_refused() -> None:
    settle = find_function(LEDGER, "settleClaim")
    assert len(encode_call(settle, [bytes(32), 0, 0])) == 4 + 3 * 32
    for wrong in ([bytes(33), 0, 0], [bytes(32), -1, 0], [bytes(32), 0, "zero"], [bytes(32), 0]):
        with pytest.raises(InvalidInput, match="does not fit"):
            encode_call(settle, wrong)


def test_bytes_of_another_interface_are_the_chain_s_fault() -> None:
    outputs = find_function(BOOK, "openedOf").outputs
    with pytest.raises(EnvironmentFault, match="the ABI does not describe"):
        decode_values(outputs, bytes(31))


def test_a_string_that_is_no_text_stops_nobody() -> None:
    """Solidity checks no encoding, so anybody can announce an endpoint of any bytes."""
    entry = next(one for one in load_abi("ITaskRegistry") if one.name == "Announced")
    data = encode(["bytes", "bytes32"], [b"https://\xff\xfe", bytes(32)])
    found = decode_event(entry, [entry.digest, bytes(32)], data)
    assert found["url"] == "https://\ufffd\ufffd" and found["certificate_sha256"] == bytes(32)


def test_a_missing_abi_names_the_file() -> None:
    with pytest.raises(EnvironmentFault, match="abi/INothing.json"):
        load_abi("INothing")


@pytest.mark.parametrize(("name", "expected"), [("weightsRoot", "weights_root"), ("round", "round")])
def test_names_become_snake_case(name: str, expected: str) -> None:
    assert to_snake_case(name) == expected
