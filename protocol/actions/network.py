"""Who can be reached where: folded from the chain's events, so it answers from memory."""

from dataclasses import dataclass, field

from protocol.adapters.wire.session import Peer
from protocol.spec.errors import EnvironmentFault, ProtocolFault


@dataclass
class Network:
    """Endpoints of all accounts. Feed it every announcement, in order."""

    peers: dict[str, Peer] = field(default_factory=dict)

    def announce(self, account: str, url: str, certificate_sha256: bytes) -> None:
        """Where the account serves from now on. Anybody may announce anything; a malformed endpoint is as
        good as none."""
        try:
            self.peers[account] = Peer(account, url, certificate_sha256)
        except ProtocolFault:
            self.peers.pop(account, None)

    def find(self, account: str) -> Peer:
        """Where the account serves. Raises EnvironmentFault when it never announced an endpoint."""
        if account not in self.peers:
            raise EnvironmentFault(
                what="a peer has announced no endpoint",
                expected=f"an endpoint of {account} on chain",
                actual="none",
                remedy="Wait until it announces one.",
            )
        return self.peers[account]

    def others(self, account: str) -> list[Peer]:
        """All peers but `account`."""
        return [peer for peer in self.peers.values() if peer.account != account]
