"""What a node keeps of the events that it reads."""

from typing import Any, cast

from protocol.actions.runtime.chain_state import ChainState
from protocol.adapters.chain.connection import Head
from protocol.adapters.chain.logs import Batch, Event


def test_the_data_of_calls_is_not_kept() -> None:
    """Anybody logs megabytes, with seats in a task of its own, and a node would hold all of them for ever."""
    state = ChainState("0x" + "1" * 40, cast(Any, None), cast(Any, None))
    values: dict[str, Any] = {"task": b"t" * 32, "data": bytes(1 << 20)}
    event = Event("Votes", "VotesRelayed", values, 7, 0, b"b" * 32, b"h" * 32)
    state.take(Batch(Head(7, b"b" * 32, b"a" * 32, 0, 0), (event,)))
    assert not state._events and state.head_block == 7
