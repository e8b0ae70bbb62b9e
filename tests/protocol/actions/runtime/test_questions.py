"""A question is read from the call that asked it, or not at all."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from protocol.actions.runtime.chain_state import ChainState
from protocol.actions.runtime.questions import find_question
from protocol.adapters.chain.abi import find_function, load_own_abi
from protocol.adapters.chain.game import GameChain
from protocol.adapters.chain.logs import Event
from protocol.adapters.chain.values import encode_call
from protocol.spec.errors import EnvironmentFault
from protocol.spec.game.terms import LIMITS_LOCAL
from protocol.spec.typed_data import SigningDomain

ASKS, TASK, NAME, ASKER = "0x" + "aa" * 20, b"\1" * 32, b"\2" * 32, "0x" + "bb" * 20
VOTE = (
    b"\3" * 32,
    4,
    b"\4" * 32,
    b"\5" * 32,
    1,
    b"\6" * 32,
    0,
    2,
    7,
    b"\7" * 32,
    b"\10" * 32,
    b"\11" * 32,
    1,
    0,
)


def make_state() -> ChainState:
    state = ChainState(ASKER, LIMITS_LOCAL, SigningDomain(1, "0x" + "cc" * 20))
    values = {"seat": 1 << 17, "asker": ASKER}
    state._said[TASK, NAME] = [Event("Asks", "AskOpened", values, 5, 0, b"", b"\12" * 32)]
    return state


def make_chain(to: str, data: bytes) -> GameChain:
    async def sent_data(transaction_hash: bytes) -> tuple[str, bytes]:
        assert transaction_hash == b"\12" * 32
        return to, data

    shown: Any = SimpleNamespace(
        asks=SimpleNamespace(address=ASKS), connection=SimpleNamespace(sent_data=sent_data)
    )
    return cast(GameChain, shown)


def encode_ask() -> bytes:
    entry = find_function(load_own_abi("Asks"), "ask")
    return encode_call(entry, [TASK, (VOTE, b"\13" * 32, b"\14" * 32), 9, 40])


async def test_a_question_is_what_the_contract_hashes() -> None:
    """It goes into `endAsk` as it comes: the same vote, leaf, seat and asker."""
    question = await find_question(make_chain(ASKS, encode_ask()), make_state(), TASK, NAME)
    assert tuple(question[0]) == VOTE and question[1:] == (9, 1 << 17, ASKER)
    entry = find_function(load_own_abi("Asks"), "endAsk")
    assert encode_call(entry, [TASK, question]) == encode_call(entry, [TASK, (VOTE, 9, 1 << 17, ASKER)])


@pytest.mark.parametrize(("to", "data"), [("0x" + "dd" * 20, encode_ask()), (ASKS, b"\0" * 200), ("", b"")])
async def test_what_another_contract_asked_cannot_be_read(to: str, data: bytes) -> None:
    with pytest.raises(EnvironmentFault, match=r"Asks\.ask"):
        await find_question(make_chain(to, data), make_state(), TASK, NAME)
