"""Asking many peers for what one of them may know: who takes connections and is silent holds up nobody."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from protocol.actions.runtime.party import Party
from protocol.adapters.wire.session import Peer
from protocol.spec.errors import EnvironmentFault, ProtocolFault, TouchstoneError

ASK_NEXT_S = 2.0
"""So long a peer has before the next one is asked as well."""

Found = TypeVar("Found")
FoundHere = TypeVar("FoundHere", covariant=True)


class AskOne(Protocol[FoundHere]):
    """What a peer says, checked. Raises ProtocolFault or EnvironmentFault."""

    def __call__(self, peer: Peer) -> Coroutine[Any, Any, FoundHere]:
        """Ask this peer."""


async def ask_any(party: Party, peers: Sequence[Peer], ask: AskOne[Found], nobody: TouchstoneError) -> Found:
    """The first good answer. The next peer is asked where the one before it refuses, or has said nothing for
    ASK_NEXT_S. Raises the last peer's error where none answers, `nobody` where there is none."""
    left, last = party.client.sort_by_silence(peers), nobody
    asked: dict[asyncio.Task[Found], Peer] = {}
    try:
        while left or asked:
            if left:
                peer = left.pop(0)
                asked[asyncio.create_task(ask(peer))] = peer
            pause_s = ASK_NEXT_S if left else None
            done, _ = await asyncio.wait(asked, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                del asked[one]
                try:
                    return one.result()
                except (ProtocolFault, EnvironmentFault) as fault:
                    last = fault
    finally:
        for one, peer in asked.items():
            party.client.note_silence(peer)
            one.cancel()
    raise last
