"""Whom a node asks for what anybody may have, in which order."""

from protocol.actions.runtime.party import Party
from protocol.adapters.wire.session import Peer


def list_peers(party: Party, task: bytes, *without: str) -> list[Peer]:
    """All others that can be reached, members of the task before strangers: to announce an endpoint costs
    nothing, and who has announced the first hundred would be asked first."""
    others = party.state.network.others(party.account, *without)
    return sorted(others, key=lambda peer: not party.state.is_member(peer.account, task))
