"""Every struct that has a class here has the fields that the ABI says, in its order."""

from dataclasses import fields

import pytest

from tests.protocol.adapters.chain.entries import list_entries, walk
from touchstone.protocol.adapters.chain.abi_values import STRUCTS

FOUND = {
    parameter.type_name: [item.name for item in parameter.items]
    for entry in list_entries("function") + list_entries("event")
    for parameter in walk((*entry.inputs, *entry.outputs))
    if parameter.items
}


@pytest.mark.parametrize("name", STRUCTS)
def test_every_class_has_the_fields_of_its_struct(name: str) -> None:
    assert [field.name for field in fields(STRUCTS[name])] == FOUND[name]
