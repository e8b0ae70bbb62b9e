"""Votes that a liar hands in by way of a contract of its own: its signature is in no transaction to Votes."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from protocol.actions.audit.handing import HandedVote
from protocol.actions.dispute import reading
from protocol.adapters.chain.abi import find_function, load_own_abi
from protocol.adapters.chain.connection import _walk_calls
from protocol.adapters.chain.values import encode_call
from protocol.spec.errors import EnvironmentFault
from protocol.spec.game.enums import SeatRole
from protocol.spec.game.state import CountedVote
from protocol.spec.statements import VoteWord
from tests.protocol.spec.game.world import is_drawn, make_world

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


def test_a_whistleblower_reads_a_vote_that_its_dice_fell_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It replayed nothing of that claim, and its auditor handed the vote to solvers alone."""
    state = make_world().play(is_drawn).state
    votes = {(slot, 0): {0: CountedVote(VoteWord.ACCEPT, 1, True)} for slot in range(40)}
    state = replace(state, rounds={0: replace(state.rounds[0], votes=votes)})
    account = next(seat.account for seat in state.seats.values() if seat.role == SeatRole.WHISTLEBLOWER)
    audits = SimpleNamespace(list_votes=lambda index: [], list_replays=lambda index: [])
    task = SimpleNamespace(audits=audits, cases=SimpleNamespace(dice=bytes(32), read=set()))
    party = cast(Any, SimpleNamespace(task=task, account=account))
    known = {"get_now": state, "list_provable_rounds": [state.rounds[0]], "list_own_boundaries": []}
    for name, value in known.items():
        monkeypatch.setattr(reading, name, lambda *_, value=value: value)
    monkeypatch.setattr("protocol.actions.dispute.spotting.SPOT_ASKS", 1 << 40)
    assert not list(reading.list_unread(party, 1))
    monkeypatch.setattr("protocol.actions.dispute.spotting.SPOT_ASKS", 1)
    (unread,) = reading.list_unread(party, 1)
    assert unread.votes and all(is_opened for _, is_opened in unread.votes)


def vars_of(handed: Any) -> list[Any]:
    return [getattr(handed, name) for name in HandedVote._fields]
