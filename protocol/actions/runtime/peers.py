"""Whom a node asks for what anybody may have, in which order."""

from protocol.actions.runtime.party import Party
from protocol.adapters.wire.session import Peer


def list_peers(party: Party, task: bytes, first: str = "") -> list[Peer]:
    """All others that can be reached, the account `first` at their head, members of the task before
    strangers: to announce an endpoint costs nothing, and who has announced the first hundred would be asked
    first. Among members, and among strangers, who was silent comes after those who were not."""

    def rank(peer: Peer) -> tuple[bool, float, bool]:
        is_stranger = peer.account != first and not party.state.is_member(peer.account, task)
        return is_stranger, party.client.get_silence(peer), peer.account != first

    return sorted(party.state.network.others(party.account), key=rank)
