"""Every call of the interfaces has a method, every error words, every event a class."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields

import pytest

from protocol.adapters.chain import wordings
from protocol.adapters.chain.abi import Entry, Parameter, encode_values, load_abi, to_snake_case
from protocol.adapters.chain.audit_book import AuditBook
from protocol.adapters.chain.deployment import CONTRACT_NAMES
from protocol.adapters.chain.disputes import DisputeGame, OuterContest
from protocol.adapters.chain.ledger import RoundLedger
from protocol.adapters.chain.proxy import Proxy
from protocol.adapters.chain.refusals import explain_revert
from protocol.adapters.chain.registry import TaskRegistry
from protocol.adapters.chain.types import ENUMS, STRUCTS
from protocol.adapters.chain.vault import StakeVault
from protocol.spec.event_log import EVENT_TYPES

PROXIES: dict[str, type[Proxy]] = {
    kind.contract: kind
    for kind in (StakeVault, TaskRegistry, RoundLedger, AuditBook, DisputeGame, OuterContest)
}
# Only contracts may make these calls (the sections "Modules only" of the interfaces).
MODULE_CALLS = {
    "expose", "release", "slash", "burnFee", "forfeit", "fundEscrow", "pay", "closeEscrow",
    "convictSolver", "replaceOuter", "setContested", "enforce", "settle", "convictAuditor",
}  # fmt: skip


def list_entries(kind: str) -> list[Entry]:
    return [entry for name in PROXIES for entry in load_abi(f"I{name}") if entry.kind == kind]


def describe(entry: Entry) -> str:
    return f"{entry.contract}.{entry.name}"


def compute_zero(parameter: Parameter) -> object:
    if parameter.is_list:
        return []
    if parameter.items:
        kind = STRUCTS[parameter.type_name]
        return kind(**{item.name: compute_zero(item) for item in parameter.items})
    if parameter.kind.startswith("bytes"):
        return bytes(int(parameter.kind.removeprefix("bytes") or 0))
    return {"address": "0x" + 40 * "0", "bool": False, "string": ""}.get(parameter.kind, 0)


def walk(parameters: tuple[Parameter, ...]) -> Iterator[Parameter]:
    for parameter in parameters:
        yield parameter
        yield from walk(parameter.items)


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


@pytest.mark.parametrize("entry", list_entries("function") + list_entries("event"), ids=describe)
def test_every_struct_has_a_dataclass_with_its_fields(entry: Entry) -> None:
    for parameter in walk((*entry.inputs, *entry.outputs)):
        if parameter.items:
            assert [f.name for f in fields(STRUCTS[parameter.type_name])] == [i.name for i in parameter.items]
        assert parameter.kind != "uint8" or parameter.type_name in (*ENUMS, "uint8")


@pytest.mark.parametrize("entry", list_entries("error"), ids=describe)
def test_every_error_has_words_that_fit_its_values(entry: Entry) -> None:
    assert entry.name in wordings.WORDINGS
    data = encode_values(entry.inputs, [compute_zero(parameter) for parameter in entry.inputs])
    refusal = explain_revert(entry.selector + data, "here")
    assert refusal.name == entry.name
    assert set(refusal.values) == {parameter.name for parameter in entry.inputs}
    assert "{" not in str(refusal)


@pytest.mark.parametrize("entry", list_entries("event"), ids=describe)
def test_every_event_has_a_class_with_its_arguments(entry: Entry) -> None:
    found = {field.name for field in fields(EVENT_TYPES[entry.name])} - {"block_number"}
    assert found == {"from_" if p.name == "from" else p.name for p in entry.inputs}


def test_no_words_are_left_over() -> None:
    tokens = {"ERC20InsufficientAllowance", "ERC20InsufficientBalance"}
    assert set(wordings.WORDINGS) == {entry.name for entry in list_entries("error")} | tokens


def test_an_unknown_error_is_still_a_refusal() -> None:
    assert explain_revert(b"\x01\x02\x03\x04", "here").name == "Unknown"
    assert explain_revert(b"", "here").values == {"data": b""}
