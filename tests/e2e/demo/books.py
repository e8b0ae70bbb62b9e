"""The money of a task, to the wei, from the purse's own events: who earned and lost what, and why."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from protocol.adapters.chain.contract import Event
from protocol.spec.game.inner_dispute import AskEnding

POTS = ("escrow", "stakes", "bonds")
"""As the library `Pots` names them."""
PAY, REWARD, STAKE, BOND, ESCROW = "pay", "slash share", "stake", "bonds", "escrow"
REASONS = (PAY, REWARD, STAKE, BOND, ESCROW)
"""Columns of a table of money; each is what came in less what went out."""


@dataclass(frozen=True)
class Books:
    """accounts: wei by reason of each account; burned: wei that no account has any more, by what they were
    before; asked: bonds in wei, by account, of asks that were answered. One in 64 ACCEPTs is asked about by
    chance, so an honest node pays such a bond now and then."""

    accounts: dict[str, Counter[str]] = field(default_factory=dict)
    burned: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)

    def get_change(self, account: str) -> int:
        """What an account has more than before, in wei."""
        return sum(self.accounts.get(account, Counter()).values())


def name_pots(task: bytes) -> dict[bytes, str]:
    """Kind of money by the name of its pot."""
    return {keccak(encode(["string", "bytes32"], [kind, task])): kind for kind in POTS}


def fold_books(task: bytes, events: Sequence[Event]) -> Books:
    """Every movement between an account and a pot of the task."""
    pots, books, burned = name_pots(task), dict[str, Counter[str]](), Counter[str]()
    together = _group(events)
    for event in events:
        values = event.arguments
        if event.name == "Discarded":
            burned[_find_reason(pots.get(values["pot"], ""), event.name, set())] += values["wei_"]
        elif event.name in ("Given", "Taken"):
            names = together[event.transaction_hash]
            reason = _find_reason(pots.get(values["pot"], ""), event.name, names)
            sign = 1 if event.name == "Given" else -1
            books.setdefault(values["account"], Counter())[reason] += sign * values["wei_"]
    return Books(books, burned, _fold_asks(events))


def _fold_asks(events: Iterable[Event]) -> Counter[str]:
    """What each account paid for asks that ended with an answer."""
    opened, found = dict[bytes, tuple[str, int]](), Counter[str]()
    for event in events:
        values = event.arguments
        if event.name == "AskOpened":
            opened[values["id"]] = (values["asker"], values["bond_wei"])
        elif event.name == "AskEnded" and values["ending"] == AskEnding.CLEARED:
            asker, bond_wei = opened[values["id"]]
            found[asker] += bond_wei
    return found


def _group(events: Iterable[Event]) -> dict[bytes, set[str]]:
    """Names of the events of each transaction."""
    found: dict[bytes, set[str]] = {}
    for event in events:
        found.setdefault(event.transaction_hash, set()).add(event.name)
    return found


def _find_reason(kind: str, name: str, beside: set[str]) -> str:
    """Why money moved: by its pot, and by what else the transaction did."""
    if kind == "escrow":
        return PAY if name == "Given" and "GameClosed" not in beside else ESCROW
    if kind == "stakes":
        return REWARD if name == "Given" and "SeatConvicted" in beside else STAKE
    return BOND if kind == "bonds" else kind or "other"
