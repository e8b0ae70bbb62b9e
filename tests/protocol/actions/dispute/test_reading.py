"""Votes that a liar hands in by way of a contract of its own: its signature is in no transaction to Votes."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from protocol.actions.audit.handing import HandedVote
from protocol.actions.dispute import reading
from protocol.adapters.chain.abi import find_function, load_own_abi
from protocol.adapters.chain.connection import _walk_calls
from protocol.adapters.chain.values import encode_call
from protocol.spec.errors import EnvironmentFault

VOTES, WRAPPER = "0x" + "5" * 40, "0x" + "6" * 40
HANDED = HandedVote(3 << 64, *(bytes([n]) * 32 for n in range(1, 8)))
CALL = encode_call(find_function(load_own_abi("Votes"), "judge"), [b"t" * 32, 7, [HANDED]])


def make_party(trace: Any) -> Any:
    async def sent_data(name: bytes) -> tuple[str, bytes]:
        return WRAPPER, b"hidden"

    async def traced_calls(name: bytes) -> list[tuple[str, bytes]]:
        if trace is None:
            raise EnvironmentFault(what="no traces", expected="one", actual="none", remedy="Another node.")
        return list(_walk_calls(trace))

    connection = SimpleNamespace(sent_data=sent_data, traced_calls=traced_calls)
    return SimpleNamespace(chain=SimpleNamespace(connection=connection, votes=SimpleNamespace(address=VOTES)))


def trace_call(**changes: Any) -> dict[str, Any]:
    inner = {"to": VOTES.upper().replace("0X", "0x"), "input": "0x" + CALL.hex(), **changes}
    return {"to": WRAPPER, "input": "0x1234", "calls": [{"to": WRAPPER, "input": "0x", "calls": [inner]}]}


async def test_a_vote_that_went_by_a_contract_is_read_from_the_trace() -> None:
    ((index, handed),) = await reading._read_call(cast(Any, make_party(trace_call())), b"h" * 32)
    assert index == 7 and HandedVote(*vars_of(handed)) == HANDED


@pytest.mark.parametrize("trace", [None, trace_call(error="execution reverted"), trace_call(to=WRAPPER)])
async def test_what_was_not_called_or_not_traced_is_not_read(trace: Any) -> None:
    assert await reading._read_call(cast(Any, make_party(trace)), b"h" * 32) == []


def vars_of(handed: Any) -> list[Any]:
    return [getattr(handed, name) for name in HandedVote._fields]
