"""Every struct and enum of the ABI has its class here."""

from dataclasses import fields

import pytest

from protocol.adapters.chain.abi import Entry
from protocol.adapters.chain.types import ENUMS, STRUCTS
from tests.protocol.adapters.chain.entries import describe, list_entries, walk


@pytest.mark.parametrize("entry", list_entries("function") + list_entries("event"), ids=describe)
def test_every_struct_has_a_dataclass_with_its_fields(entry: Entry) -> None:
    for parameter in walk((*entry.inputs, *entry.outputs)):
        if parameter.items:
            assert [f.name for f in fields(STRUCTS[parameter.type_name])] == [i.name for i in parameter.items]
        assert parameter.kind != "uint8" or parameter.type_name in (*ENUMS, "uint8")
