"""What an ask was opened with. Who answers or ends it brings it again, and the event says only whose vote it
is; the vote stands in the call that asked."""

from typing import Any

from protocol.actions.runtime.chain_state import ChainState
from protocol.adapters.chain.abi import find_function, load_own_abi
from protocol.adapters.chain.game import GameChain
from protocol.adapters.chain.logs import Event
from protocol.adapters.chain.values import decode_values
from protocol.spec.errors import EnvironmentFault

Question = tuple[Any, int, int, str]
"""vote, leaf, seat, asker, as `IAsks.Question` has them."""


async def find_question(chain: GameChain, state: ChainState, task: bytes, name: bytes) -> Question:
    """The question of an ask that is, or was, open. Raises EnvironmentFault where it was asked by way of
    another contract: then only who knows the vote can end it."""
    opened = state.events_of(task, name)[0]
    entry = find_function(load_own_abi("Asks"), "ask")
    to, data = await chain.connection.sent_data(opened.transaction_hash)
    if to != chain.asks.address or data[:4] != entry.selector:
        raise _fault(opened, to)
    _, signed, leaf, _ = decode_values(entry.inputs, data[4:])
    return signed.vote, leaf, opened.arguments["seat"], opened.arguments["asker"]


def _fault(opened: Event, to: str) -> EnvironmentFault:
    return EnvironmentFault(
        what="the vote that was asked about is not in the call",
        expected="a call of Asks.ask",
        actual=f"a call of {to or 'nobody'}",
        where=f"transaction 0x{opened.transaction_hash.hex()}",
        remedy="Whoever asked, or the signer of the vote, has to end it.",
        retryable=False,
    )
