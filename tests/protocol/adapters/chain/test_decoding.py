"""Any event of any ABI is decoded without code of its own; a log that is none is left out or named."""

from dataclasses import replace
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from tests.protocol.adapters.chain.entries import describe, make_sample
from touchstone.protocol.adapters.chain.abi import (
    Entry,
    list_package_abis,
    load_abi,
    load_own_abi,
    parse_abi,
)
from touchstone.protocol.adapters.chain.abi_values import encode_call, encode_values
from touchstone.protocol.adapters.chain.answers import Log
from touchstone.protocol.adapters.chain.contract_events import (
    AbiRegistry,
    decode_log,
    index_events,
    make_registry,
)
from touchstone.protocol.adapters.chain.deployment import GAME_CONTRACTS
from touchstone.protocol.spec.errors import EnvironmentFault

ADDRESS = "0x" + "ab" * 20
EVENTS = [entry for name in list_package_abis() for entry in load_abi(name) if entry.kind == "event"]


def register(*entries: Entry) -> AbiRegistry:
    return AbiRegistry({ADDRESS.lower(): entries[0].contract}, {entries[0].contract: index_events(entries)})


def make_log(entry: Entry, values: dict[str, Any]) -> Log:
    indexed = [p for p in entry.inputs if p.is_indexed and not p.is_hashed]
    plain = [p for p in entry.inputs if not p.is_indexed]
    topics = [encode_values([p], [values[p.name]]) for p in indexed]
    data = encode_values(plain, [values[p.name] for p in plain])
    return Log(ADDRESS, (entry.digest, *topics), data, 7, bytes(32), 3, bytes(32))


def sample(entry: Entry) -> dict[str, Any]:
    return {p.name: make_sample(p, number + 1) for number, p in enumerate(entry.inputs)}


@pytest.mark.parametrize("entry", EVENTS, ids=describe)
def test_every_event_of_the_package_is_read_back(entry: Entry) -> None:
    values = sample(entry)
    found = decode_log(register(entry), make_log(entry, values))
    assert found is not None and (found.contract, found.name) == (entry.contract, entry.name)
    assert list(found.arguments.items()) == list(values.items())


def test_a_registry_knows_the_contracts_of_the_package_by_name() -> None:
    registry = make_registry({f"0x{n:040X}": name for n, name in enumerate(GAME_CONTRACTS.values(), 1)})
    entry = next(one for one in load_own_abi("Vault") if one.name == "Deposited")
    address = f"0x{list(GAME_CONTRACTS).index('vault') + 1:040x}"
    log = replace(make_log(entry, sample(entry)), address=address)
    found = decode_log(registry, log)
    assert found is not None and found.contract == "Vault"
    assert load_own_abi("DevToken") == load_abi("DevToken") and load_own_abi("Referee") == load_abi(
        "IReferee"
    )


# A contract that this version knows nothing of
POINT = [{"name": "xAxis", "type": "uint64"}, {"name": "labels", "type": "string[]"}]
NEW = parse_abi(
    "Novelty",
    [
        {
            "type": "event",
            "name": "Seen",
            "inputs": [
                {"name": "from", "type": "address", "indexed": True},
                {"name": "words", "type": "string", "indexed": True},
                {
                    "name": "where",
                    "type": "tuple[2][]",
                    "internalType": "struct Spot[2][]",
                    "components": POINT,
                },
                {
                    "name": "LeafProof",
                    "type": "tuple",
                    "internalType": "struct LeafProof",
                    "components": POINT,
                },
                {"name": "mood", "type": "uint8", "internalType": "enum Novelty.Mood"},
                {"name": "stage", "type": "uint8", "internalType": "enum Stage"},
                {"name": "", "type": "bytes"},
            ],
        },
        {
            "type": "function",
            "name": "go",
            "inputs": [
                {"name": "at", "type": "tuple[]", "internalType": "struct Spot[]", "components": POINT}
            ],
        },
    ],
)
SEEN, GO = NEW


def test_an_event_of_any_types_is_decoded() -> None:
    spots = [[(1, ["a", "b"]), (2, [])], [(3, ["c"]), (4, ["d"])]]
    data = encode(
        ["(uint64,string[])[2][]", "(uint64,string[])", "uint8", "uint8", "bytes"],
        [spots, (5, ["e"]), 200, 250, b"raw"],
    )
    topics = (SEEN.digest, bytes(12) + b"\5" * 20, keccak(b"said"))
    log = Log(ADDRESS, topics, data, 7, bytes(32), 3, bytes(32))
    found = decode_log(register(SEEN), log)
    assert found is not None
    where, terms = found.arguments["where"], found.arguments["leaf_proof"]
    assert [[(spot.x_axis, spot.labels) for spot in row] for row in where] == [
        [(1, ("a", "b")), (2, ())], [(3, ("c",)), (4, ("d",))],
    ]  # fmt: skip
    assert (terms.x_axis, terms.labels) == (5, ("e",)), "a struct of a known name with other fields"
    others = {name: value for name, value in found.arguments.items() if name not in ("where", "leaf_proof")}
    assert others == {
        "from_": "0x" + "05" * 20, "words": keccak(b"said"), "mood": 200, "stage": 250, "value_6": b"raw",
    }  # fmt: skip


def test_structs_are_sent_as_objects_or_as_mappings() -> None:
    mapping = {"x_axis": 1, "labels": ["a"]}
    expected = GO.selector + encode(["(uint64,string[])[]"], [[(1, ["a"])]])
    assert encode_call(GO, [[mapping]]) == expected
    assert encode_call(GO, [[type("Spot", (), mapping)]]) == expected


# Logs that are none
ANNOUNCED = next(one for one in load_own_abi("Tasks") if one.name == "Announced")
GOOD = make_log(ANNOUNCED, sample(ANNOUNCED))


@pytest.mark.parametrize(
    "change", [{"address": "0x" + "99" * 20}, {"topics": ()}, {"topics": (b"u" * 32,)}, {"topics": (b"",)}]
)
def test_what_is_not_known_is_left_out(change: dict[str, Any]) -> None:
    assert decode_log(register(ANNOUNCED), replace(GOOD, **change)) is None


@pytest.mark.parametrize(
    "change",
    [
        {"topics": GOOD.topics[:1]},
        {"topics": (*GOOD.topics, bytes(32))},
        {"topics": (GOOD.topics[0], bytes(20))},
        {"topics": (GOOD.topics[0], b"\xff" * 32)},
        {"data": b""},
        {"data": GOOD.data[:-1]},
        {"data": b"\xff" * len(GOOD.data)},
        {"data": b"\xff" * 31},
    ],
)
def test_a_malformed_log_is_named_with_its_place(change: dict[str, Any]) -> None:
    place = "ITasks.Announced, log 3 of block 7"
    with pytest.raises(EnvironmentFault, match=place) as caught:
        decode_log(register(ANNOUNCED), replace(GOOD, **change))
    assert caught.value.where == place and not caught.value.retryable
