"""From Python values to the ABI's bytes and back."""

import pytest
from eth_abi.abi import encode

from touchstone.protocol.adapters.chain.abi import find_function, load_abi, to_snake_case
from touchstone.protocol.adapters.chain.abi_values import decode_values, encode_call, encode_values
from touchstone.protocol.adapters.chain.contract_events import decode_event
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.openings import LeafProof, StateLeaves

LEAF = LeafProof(b"data", (bytes(31) + b"\1", bytes(31) + b"\2"))
ASKS, TASKS = load_abi("IAsks"), load_abi("ITasks")


def test_structs_inside_structs_survive() -> None:
    shown = find_function(ASKS, "answer").inputs[2]
    leaves = [item for item in shown.items if item.type_name == "StateLeaves"]
    value = StateLeaves(LEAF, LeafProof(b"", ()), LEAF)
    assert leaves and decode_values(leaves, encode_values(leaves, [value] * len(leaves))) == (
        [value] * len(leaves)
    )


def test_a_value_that_does_not_fit_is_refused() -> None:
    is_open = find_function(ASKS, "openOn")
    assert len(encode_call(is_open, [bytes(32), 0])) == 4 + 2 * 32
    for wrong in ([bytes(33), 0], [bytes(32), -1], [bytes(32), "zero"], [bytes(32)]):
        with pytest.raises(InvalidInput, match="does not fit"):
            encode_call(is_open, wrong)


def test_bytes_of_another_interface_are_the_chain_s_fault() -> None:
    outputs = find_function(ASKS, "askOf").outputs
    with pytest.raises(EnvironmentFault, match="the ABI does not describe"):
        decode_values(outputs, bytes(31))


def test_a_string_that_is_no_text_stops_nobody() -> None:
    """Solidity checks no encoding, so anybody can announce an endpoint of any bytes."""
    entry = next(one for one in TASKS if one.name == "Announced")
    data = encode(["bytes", "bytes32"], [b"https://\xff\xfe", bytes(32)])
    found = decode_event(entry, [entry.digest, bytes(32)], data)
    assert found["url"] == "https://\ufffd\ufffd" and found["certificate_sha256"] == bytes(32)


def test_a_missing_abi_names_the_file() -> None:
    with pytest.raises(EnvironmentFault, match="abi/INothing.json"):
        load_abi("INothing")


@pytest.mark.parametrize(("name", "expected"), [("weightsRoot", "weights_root"), ("round", "round")])
def test_names_become_snake_case(name: str, expected: str) -> None:
    assert to_snake_case(name) == expected
