"""Asks peers whether they reach this node's endpoint, before a seat is taken and for `touchstone doctor`.

No machine sees the firewall or the router in front of itself. If nobody reaches a solver, auditors vote
UNSERVED: the solver pays a fee, and so do they. So a node takes no seat if no peer reaches it. A peer may
lie, so every peer that can tell must say no, and at least two must if others cannot tell.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.config import Notify
from touchstone.node.kit.view import GetView
from touchstone.protocol.adapters.wire.blob_client import BlobClient
from touchstone.protocol.adapters.wire.peer import Peer
from touchstone.protocol.adapters.wire.peer_faults import NotNow, Refused
from touchstone.protocol.adapters.wire.reach_messages import REACH, REACH_SAID, Reach, ReachAsked
from touchstone.protocol.spec.errors import EnvironmentFault, ProtocolFault

ANSWERS, MOST_ASKED = 3, 9
"""The number of answers from peers that is enough, and the most peers to ask, because some may be down."""
AGAIN, AGAIN_S = 2, 10.0
"""How many more times a peer that says "not now" is asked, and the seconds between. Strangers may have used
up its probes."""
DOUBT = 2
"""If some peers cannot tell, at least this many others must report a failure, because one may lie."""
ASK_S = 20.0
"""Seconds to wait for a peer, which may take ten seconds for its probe."""
NOT_NOW = "it looks at no endpoint now (one look a minute); ask again in a minute"
"""What a refusal for now means. Peers also count looks at an address: where many homes are on one machine,
this is usual."""
NAMED = 2
"""How many peers are named that cannot tell for the same reason."""
REACH_WORDS = {
    Reach.REACHED: "reaches this node",
    Reach.REFUSED: "the connection is refused",
    Reach.SILENT: "no answer",
    Reach.OTHER: "something else answers: another certificate, or no TLS",
    Reach.NO_ADDRESS: "finds no public address",
}


@dataclass(frozen=True)
class SeenBy:
    """A peer's answer about this node's endpoint. `reach` says whether it reached this node, None if unknown.
    `is_there` says whether the peer answered at all, `is_busy` whether it serves no probes now."""

    who: str
    reach: Reach | None
    words: str
    is_there: bool = False
    is_busy: bool = False

    def __str__(self) -> str:
        return f"{self.who}: {self.words}"


@dataclass(frozen=True)
class Reachability:
    """Asks peers whether they reach this node."""

    get_view: GetView
    client: BlobClient
    notify: Notify
    is_wanted: bool
    """Whether this node takes no seat if peers answer and none of them reaches it."""

    async def require_reached(self) -> None:
        """Raises EnvironmentFault if peers answer and none of them reaches this node (`is_unreached`). Tells
        the operator what the peers saw."""
        view = self.get_view()
        own = view.chain_state.network.peers.get(view.account)
        if not self.is_wanted or own is None:
            return
        first = view.game.terms.submitter
        waiting = list_askable(view.chain_state, own, view.task, first)
        seen = await ask_peers(self.client, waiting, own, lambda peer: f"{peer.account[:10]} at {peer.url}")
        answers = [one.reach is Reach.REACHED for one in seen if one.reach is not None]
        told = describe_seen(seen) or "no other account has announced an endpoint"
        staked = [
            peer.account == first or self.get_view().chain_state.is_staked(peer.account) for peer in waiting
        ]
        if is_unreached(seen, staked):
            raise make_unreached(own.url, told)
        if not answers:
            self.notify(
                f"no peer could tell yet whether it reaches {own.url} ({told}); the node goes on. A seat "
                "that no peer reaches pays fees: type `touchstone doctor` once other nodes are up"
            )
        elif not all(answers):
            self.notify(
                f"WARNING: not all peers reach {own.url}: {told}. The node goes on; ask `touchstone doctor`"
            )
        else:
            self.notify(f"peers reach {own.url}: {told}")


def is_unreached(seen: Sequence[SeenBy], have_stake: Sequence[bool]) -> bool:
    """Returns whether the peers' answers keep this node from a seat: none of them reaches it. If others could
    not tell, a single peer's word is not enough. If one of those others has a stake, only peers with a stake
    count: strangers can use up the probes of honest peers and then lie."""
    both = list(zip(seen, have_stake, strict=False))
    noes = [has_stake for one, has_stake in both if one.reach not in (None, Reach.REACHED)]
    unsure = [has_stake for one, has_stake in both if one.reach is None and one.is_there]
    if any(one.reach is Reach.REACHED for one in seen):
        return False
    return sum(noes if any(unsure) else [True] * len(noes)) >= (DOUBT if unsure else 1)


def make_unreached(url: str, told: str) -> EnvironmentFault:
    """Returns the error of an endpoint that no peer reaches. `told` are the peers' answers."""
    return EnvironmentFault(
        what="no peer that was asked reaches this node",
        expected="this node's certificate at its announced endpoint",
        actual=told,
        where=url,
        remedy="Have the router forward that port to this machine, open it in the firewalls of the machine "
        "and of its provider, or correct public_url in config.toml. Ask again in a minute. If you know from "
        "another machine that peers reach it, check_reach = false in config.toml takes a seat all the same.",
    )


async def ask_peers(
    client: BlobClient, waiting: Sequence[Peer], own: Peer, describe: Callable[[Peer], str]
) -> list[SeenBy]:
    """Returns what peers see at this node's endpoint. They are asked in the order of `waiting` until three
    have answered. Those that say "not now" are asked again, unless another one reaches this node. `describe`
    returns a peer's name."""

    async def ask(peers: Sequence[Peer]) -> list[SeenBy]:
        return await asyncio.gather(*(ask_peer(client, peer, describe(peer), own) for peer in peers))

    seen, at = list[SeenBy](), 0
    while asked := waiting[at : at + count_missing(seen)]:
        at += len(asked)
        seen += await ask(asked)
    for _ in range(AGAIN):
        busy = [number for number, one in enumerate(seen) if one.is_busy]
        if not busy or any(one.reach is Reach.REACHED for one in seen):
            break
        await asyncio.sleep(AGAIN_S)
        for number, one in zip(busy, await ask([waiting[number] for number in busy]), strict=True):
            seen[number] = one
    return seen


def describe_seen(seen: Sequence[SeenBy]) -> str:
    """Describes what peers saw: first each that could tell, then the others, once for each reason."""
    told, groups = [str(one) for one in seen if one.reach is not None], dict[str, list[str]]()
    for one in seen:
        if one.reach is None:
            groups.setdefault(one.words, []).append(one.who)
    for words, names in groups.items():
        more = f" and {len(names) - NAMED} others" if len(names) > NAMED else ""
        told.append(f"{', '.join(names[:NAMED])}{more}: {words}")
    return "; ".join(told)


def count_missing(seen: Sequence[SeenBy]) -> int:
    """Returns how many peers to ask next: as many as three answers lack, within the limit."""
    return min(ANSWERS - sum(one.reach is not None for one in seen), MOST_ASKED - len(seen))


def list_askable(state: ChainState, own: Peer, task: bytes | None, first: str = "") -> list[Peer]:
    """Returns all other peers in the order in which to ask: the account `first`, members of the task,
    accounts with any seat, then others, in random order within each group. Peers on this node's own host come
    last, because they do not pass its router."""
    host = urlsplit(own.url).hostname

    def rank(peer: Peer) -> tuple[bool, bool, bool, bool]:
        """Returns the sort key of a peer."""
        is_member = task is not None and state.is_member(peer.account, task)
        is_near = urlsplit(peer.url).hostname == host
        return is_near, peer.account != first, not is_member, not state.is_staked(peer.account)

    peers = state.network.others(own.account)
    secrets.SystemRandom().shuffle(peers)
    return sorted(peers, key=rank)


async def ask_peer(client: BlobClient, peer: Peer, who: str, own: Peer) -> SeenBy:
    """Returns what one peer sees at this node's endpoint, or why it cannot tell."""
    try:
        async with asyncio.timeout(ASK_S):
            said = await client.ask(peer, REACH, ReachAsked(), REACH_SAID)
    except TimeoutError:
        return SeenBy(who, None, "not tested: no timely answer")
    except (EnvironmentFault, ProtocolFault) as fault:
        words = fault.actual if isinstance(fault, EnvironmentFault) else fault.what
        words = NOT_NOW if isinstance(fault, NotNow) else words
        is_refusal = isinstance(fault, Refused)
        return SeenBy(who, None, f"not tested: {words}", is_there=is_refusal, is_busy=is_refusal)
    if (said.url, said.certificate_sha256) != (own.url, own.fingerprint):
        words = "not tested: this peer knows another endpoint of this node; it may be behind the chain"
        return SeenBy(who, None, words, is_there=True)
    if said.reach is Reach.NOT_LOOKED:
        return SeenBy(who, None, "not tested: this peer cannot connect there", is_there=True)
    return SeenBy(who, said.reach, REACH_WORDS[said.reach] + (f" at {said.address}" if said.address else ""))
