"""Tells whether a solver serves nothing, or this node's own network is down.

An UNSERVED costs the solver a fee, and two auditors as well. So before an auditor votes UNSERVED, somebody
must have answered it: the solver itself, with any answer, or a peer on another host. Any peer will do, so a
solver gains nothing by silencing some of them. A peer on this node's own host does not count, because it
shows nothing of the network.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from touchstone.node.serving.audit_room import AuditRoom
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.spec.errors import EnvironmentFault

LATELY_S = 60.0
"""An answer counts for 60 seconds, but never longer than this node has waited for the solver."""
MOST_ASKED = 32
"""At most this many peers are asked, all at once, if nobody answered lately. The latest to answer come
first."""
ANSWER_S = 10.0


class ReachesNobody(EnvironmentFault):
    """Nobody answers this node, so it cannot blame a solver that does not."""


async def was_anybody_reached(room: AuditRoom, solver: str, since_s: float) -> bool:
    """Returns whether the solver, or a peer in another network, answered after `since_s` (loop time in
    seconds). Returns False if a peer answers only now: then the solver must be asked once more. Raises
    ReachesNobody if nobody answers, and GateShut while the chain does not have the task."""
    since_s = max(since_s, asyncio.get_running_loop().time() - LATELY_S)
    others = _list_elsewhere(room, solver)
    room.get_game()  # While the chain is read anew, nobody's endpoint is known: that is no silence.
    with suppress(EnvironmentFault):  # The solver may have announced no endpoint.
        if room.client.get_answer_s(room.find_peer(solver)) >= since_s:
            return True
    if any(room.client.get_answer_s(peer) >= since_s for peer in others):
        return True
    if not await _does_one_answer(room, others):
        raise ReachesNobody(
            what="this node reaches nobody",
            expected=f"an answer of the solver, or of one of {len(others)} peers elsewhere",
            actual="none",
            remedy="Check this machine's network. The node votes ABSTAIN, which blames nobody.",
        )
    return False


def _list_elsewhere(room: AuditRoom, solver: str) -> list[Peer]:
    """Returns the peers on other hosts, the latest to answer first."""
    try:
        host = urlsplit(room.find_peer(room.account).url).hostname
        is_near = urlsplit(room.find_peer(solver).url).hostname == host
    except EnvironmentFault:
        host, is_near = None, False
    others = (peer for peer in room.list_others() if peer.account != solver)
    elsewhere = [peer for peer in others if is_near or urlsplit(peer.url).hostname != host]
    return sorted(elsewhere, key=room.client.get_answer_s, reverse=True)[:MOST_ASKED]


async def _does_one_answer(room: AuditRoom, peers: Sequence[Peer]) -> bool:
    asking = [asyncio.ensure_future(room.client.is_answering(peer)) for peer in peers]
    try:
        for answer in asyncio.as_completed(asking, timeout=ANSWER_S):
            if await answer:
                return True
    except TimeoutError:
        pass
    finally:
        for one in asking:
            one.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    return False
