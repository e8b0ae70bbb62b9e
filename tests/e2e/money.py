"""Who had, earned and lost what, and why: folded from the vault's events, checked against the vault."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from protocol.adapters.chain import Chain
from protocol.spec import game_events
from protocol.spec.errors import ProtocolFault
from protocol.spec.events import Event, TaskCreated

FOUND = "found a cheat"
HARMED = "share of a slash"
SLASHED = "slashed"


@dataclass
class Balance:
    """One account's books, in wei. `earned` and `lost` are by reason."""

    deposited: int = 0
    withdrawn: int = 0
    claimed: int = 0
    refunded: int = 0
    slashed: int = 0
    fees: int = 0
    earned: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    lost: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def stake_before(self) -> int:
        """What the account put in and did not take back."""
        return self.deposited - self.withdrawn

    @property
    def stake_after(self) -> int:
        """What is left of it."""
        return self.stake_before - sum(self.lost.values())

    @property
    def credit(self) -> int:
        """Earnings and refunds that wait to be claimed."""
        return sum(self.earned.values()) + self.refunded - self.claimed


class Books:
    """The books of all accounts. Feed it every event, in order."""

    def __init__(self) -> None:
        self.balances: dict[str, Balance] = defaultdict(Balance)
        self._exposures: dict[bytes, int] = {}
        self._submitter = ""

    def take(self, event: Event) -> None:
        """Fold one event."""
        match event:
            case TaskCreated():
                self._submitter = event.submitter
            case game_events.Deposited():
                self.balances[event.account].deposited += event.amount_wei
            case game_events.Withdrawn():
                self.balances[event.account].withdrawn += event.amount_wei
            case game_events.Claimed():
                self.balances[event.account].claimed += event.amount_wei
            case game_events.Exposed():
                self._exposures[event.exposure] = event.amount_wei
            case game_events.Paid():
                self.balances[event.account].earned[read_reason(event.reason)] += event.amount_wei
            case game_events.EscrowClosed():
                self.balances[event.submitter].refunded += event.amount_wei
            case _:
                self._take_loss(event)

    def _take_loss(self, event: Event) -> None:
        match event:
            case game_events.Slashed():
                self._take_slash(event)
            case game_events.FeeBurned():
                self._exposures[event.exposure] -= event.amount_wei
                self.balances[event.account].fees += event.amount_wei
                self.balances[event.account].lost[f"fee: {read_reason(event.reason)}"] += event.amount_wei
            case game_events.CreditMoved():
                # The whole exposure is gone, though only a part of it became a credit.
                lost, reason = self._exposures.pop(event.exposure), read_reason(event.reason)
                self.balances[event.from_].lost[f"bond: {reason}"] += lost
                self.balances[event.to].earned[reason] += event.amount_wei

    def _take_slash(self, event: game_events.Slashed) -> None:
        loser = self.balances[event.account]
        loser.slashed += event.amount_wei
        loser.lost[f"{SLASHED}: {read_reason(event.reason)}"] += event.amount_wei
        if event.finder_wei:
            self.balances[event.finder].earned[FOUND] += event.finder_wei
        if event.submitter_wei:
            self.balances[self._submitter].earned[HARMED] += event.submitter_wei


def fold_books(events: Iterable[Event]) -> dict[str, Balance]:
    """The balances of all accounts after these events."""
    books = Books()
    for event in events:
        books.take(event)
    return dict(books.balances)


def read_reason(reason: bytes) -> str:
    """The text in a reason's word."""
    return reason.rstrip(b"\0").decode("ascii", "replace")


async def check_books(chain: Chain, balances: dict[str, Balance]) -> None:
    """Raises ProtocolFault where the vault says something else than its events."""
    for account, balance in balances.items():
        expected = (balance.stake_after, balance.credit)
        actual = (await chain.vault.stake_of(account), await chain.vault.credit_of(account))
        if actual != expected:
            raise ProtocolFault(
                what="the vault's books differ from its events",
                expected=f"stake and credit {expected} wei",
                actual=f"{actual} wei",
                where=account,
                remedy="Compare StakeVault.sol with tests/e2e/money.py.",
            )
