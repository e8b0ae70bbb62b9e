"""In which order a node asks its peers for public data."""

from touchstone.node.kit.party import Party
from touchstone.protocol.adapters.wire.peer import Peer


def list_peers(party: Party, task: bytes, first: str = "") -> list[Peer]:
    """All other reachable peers, in the order in which to ask: members of the task and `first`, then
    strangers.

    Members go first because an endpoint costs nothing: otherwise the account that announced the first hundred
    would be asked first. In each group, peers that were silent come last, in the order of their last silence.
    Of equally silent ones `first` leads."""

    def rank(peer: Peer) -> tuple[bool, float, bool]:
        """Sort key: members first, then who was silent longest ago."""
        is_stranger = peer.account != first and not party.state.is_member(peer.account, task)
        return is_stranger, party.client.get_silence(peer), peer.account != first

    return sorted(party.state.network.others(party.account), key=rank)
