"""From Python values to the ABI's bytes and back."""

import tracemalloc
from contextlib import suppress

import pytest
from eth_abi.abi import encode

from touchstone.protocol.adapters.chain.abi import (
    Parameter,
    find_function,
    list_package_abis,
    load_abi,
    parse_abi,
    to_snake_case,
)
from touchstone.protocol.adapters.chain.abi_values import decode_values, encode_call, encode_values
from touchstone.protocol.adapters.chain.contract_events import decode_event
from touchstone.protocol.spec.errors import EnvironmentFault, InvalidInput
from touchstone.protocol.spec.openings import LeafProof, StateLeaves

LEAF = LeafProof(b"data", (bytes(31) + b"\1", bytes(31) + b"\2"))
QUERIES, TASKS = load_abi("IQueries"), load_abi("ITasks")


def test_structs_inside_structs_survive() -> None:
    shown = find_function(QUERIES, "answerQuery").inputs[2]
    leaves = [item for item in shown.items if item.type_name == "StateLeaves"]
    value = StateLeaves(LEAF, LeafProof(b"", ()), LEAF)
    assert leaves and decode_values(leaves, encode_values(leaves, [value] * len(leaves))) == (
        [value] * len(leaves)
    )


def test_a_value_that_does_not_fit_is_refused() -> None:
    is_open = find_function(load_abi("ISeats"), "openOn")
    assert len(encode_call(is_open, [bytes(32), 0])) == 4 + 2 * 32
    for wrong in ([bytes(33), 0], [bytes(32), -1], [bytes(32), "zero"], [bytes(32)]):
        with pytest.raises(InvalidInput, match="does not fit"):
            encode_call(is_open, wrong)


def test_bytes_of_another_interface_are_the_chain_s_fault() -> None:
    outputs = find_function(QUERIES, "queryOf").outputs
    with pytest.raises(EnvironmentFault, match="the ABI does not describe"):
        decode_values(outputs, bytes(31))


LISTS = find_function(
    parse_abi(
        "Lists",
        [
            {
                "type": "function",
                "name": "read",
                "outputs": [
                    {"name": "numbers", "type": "uint256[]"},
                    {"name": "text", "type": "string"},
                    {
                        "name": "leaf",
                        "type": "tuple",
                        "internalType": "struct LeafProof",
                        "components": [
                            {"name": "data", "type": "bytes"},
                            {"name": "path", "type": "bytes32[]"},
                        ],
                    },
                ],
            }
        ],
    ),
    "read",
).outputs
GOOD = encode_values(LISTS, [[7, 8, 9], "text", LEAF])
MOST_BYTES_OF_MEMORY = 1_000_000


@pytest.mark.parametrize("wrong", [2**256 - 1, 2**255, 2**63, 2**40, 2**31, len(GOOD)])
@pytest.mark.parametrize("place", range(0, len(GOOD), 32))
def test_no_offset_and_no_length_of_an_answer_costs_memory(place: int, wrong: int) -> None:
    """A provider may answer anything. Each word of the answer is an offset, a length or a value."""
    data = GOOD[:place] + wrong.to_bytes(32, "big") + GOOD[place + 32 :]
    tracemalloc.start()
    try:
        with suppress(EnvironmentFault):  # Where it was a value, it is read.
            decode_values(LISTS, data)
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES_OF_MEMORY
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", [0, 31, 32, 3 * 32, len(GOOD) - 32, len(GOOD) - 1])
def test_an_answer_that_was_cut_is_refused(length: int) -> None:
    with pytest.raises(EnvironmentFault, match="the ABI does not describe"):
        decode_values(LISTS, GOOD[:length])


def has_length(parameter: Parameter) -> bool:
    """Whether the value is found by an offset, for its length is its own."""
    is_long = parameter.kind in ("bytes", "string") or "[]" in parameter.kind
    return is_long or any(map(has_length, parameter.items))


def unfolds(parameter: Parameter) -> bool:
    """Whether it has a list whose items are found by offsets: all may point to one long item."""
    item = parameter.kind.rpartition("[")[0]
    has_long_items = item in ("bytes", "string") or "[]" in item or any(map(has_length, parameter.items))
    return (parameter.is_list and has_long_items) or any(map(unfolds, parameter.items))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("bytes[]", True), ("uint8[][]", True), ("uint8[][2]", True), ("uint8[]", False), ("bytes", False)],
)
def test_lists_of_long_values_unfold(kind: str, expected: bool) -> None:
    assert unfolds(Parameter("values", kind, "", (), False)) == expected


def test_nothing_that_is_decoded_unfolds() -> None:
    """eth-abi reads what several offsets point to several times: 4 MiB of such a list can take gigabytes."""
    assert all(map(unfolds, find_function(load_abi("ISteps"), "showLeaves").inputs[-1:]))
    entries = [entry for name in list_package_abis() for entry in load_abi(name)]
    read = [one for entry in entries if entry.kind in ("event", "error") for one in entry.inputs]
    read += [one for entry in entries if entry.is_view for one in entry.outputs]
    read += find_function(
        load_abi("Steps"), "proveOperation"
    ).inputs  # The explorer reads it of a transaction.
    assert not [one for one in read if unfolds(one)]


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
