"""Every call of the interfaces has a method, every event a class."""

import inspect
import re
from dataclasses import fields

import pytest

from protocol.adapters.chain.abi import Entry, load_abi, to_snake_case
from protocol.adapters.chain.deployment import CONTRACT_NAMES
from protocol.adapters.chain.proxy import Proxy
from protocol.spec.event_log import EVENT_TYPES
from tests.protocol.adapters.chain.entries import PROXIES, describe, list_entries

# Only contracts may make these calls (the sections "Modules only" of the interfaces).
MODULE_CALLS = {
    "expose", "release", "slash", "burnFee", "forfeit", "fundEscrow", "pay", "burnEscrow", "closeEscrow",
    "convictSolver", "replaceOuter", "setContested", "enforce", "settle", "convictAuditor",
}  # fmt: skip


def test_the_proxies_are_all_contracts() -> None:
    assert set(PROXIES) == set(CONTRACT_NAMES.values())


@pytest.mark.parametrize("entry", list_entries("function"), ids=describe)
def test_every_call_has_a_method_with_as_many_parameters(entry: Entry) -> None:
    if entry.name in MODULE_CALLS:
        return
    method = getattr(PROXIES[entry.contract.removeprefix("I")], to_snake_case(entry.name))
    parameters = list(inspect.signature(method).parameters)[1:]
    assert len(parameters) == len(entry.inputs)


def test_the_module_calls_exist() -> None:
    assert {entry.name for entry in list_entries("function")} >= MODULE_CALLS


@pytest.mark.parametrize("proxy", PROXIES.values(), ids=lambda proxy: proxy.contract)
def test_every_method_names_a_call_of_the_interface(proxy: type[Proxy]) -> None:
    called = set(re.findall(r'self\._(?:send|read)\(\s*(?:[\w()]+, )?"(\w+)"', inspect.getsource(proxy)))
    assert called == {e.name for e in load_abi(f"I{proxy.contract}") if e.kind == "function"} - MODULE_CALLS


@pytest.mark.parametrize("entry", list_entries("event"), ids=describe)
def test_every_event_has_a_class_with_its_arguments(entry: Entry) -> None:
    found = {field.name for field in fields(EVENT_TYPES[entry.name])} - {"block_number"}
    assert found == {"from_" if p.name == "from" else p.name for p in entry.inputs}
