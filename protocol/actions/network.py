"""Who can be reached where, and who has stake: folded from the chain's events, so it answers from memory."""

from dataclasses import dataclass, field

from protocol.adapters.wire.session import Peer
from protocol.spec import events, game_events
from protocol.spec.errors import EnvironmentFault, ProtocolFault


@dataclass
class Network:
    """Endpoints and stakes (wei) of all accounts. Feed it every event, in order."""

    peers: dict[str, Peer] = field(default_factory=dict)
    stakes_wei: dict[str, int] = field(default_factory=dict)

    def take(self, event: events.Event) -> None:
        """Fold one event; those of no interest change nothing."""
        match event:
            case events.Announced():
                self._announce(event)
            case game_events.Deposited():
                self._add(event.account, event.amount_wei)
            case game_events.Withdrawn() | game_events.Slashed() | game_events.FeeBurned():
                self._add(event.account, -event.amount_wei)
            case game_events.CreditMoved():
                self._add(event.from_, -event.amount_wei)

    def is_staked(self, account: str) -> bool:
        """Whether the account has any stake."""
        return self.stakes_wei.get(account, 0) > 0

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

    def others(self, *accounts: str) -> list[Peer]:
        """All peers but `accounts`."""
        return [peer for peer in self.peers.values() if peer.account not in accounts]

    def _announce(self, event: events.Announced) -> None:
        try:
            self.peers[event.account] = Peer(event.account, event.url, event.certificate_sha256)
        except ProtocolFault:
            # Anybody may announce anything; a malformed endpoint is as good as none.
            self.peers.pop(event.account, None)

    def _add(self, account: str, amount_wei: int) -> None:
        self.stakes_wei[account] = self.stakes_wei.get(account, 0) + amount_wei
