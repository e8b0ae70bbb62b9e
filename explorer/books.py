"""The money of a task, to the wei, from the purse's own events: who earned and lost what, and why."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from protocol.adapters.chain.contract import Event
from protocol.spec.game.inner_dispute import AskEnding
from protocol.spec.game.terms import FALLS_MAX

POTS = ("escrow", "stakes", "bonds")
RESTITUTION = "restitution"
"""As the library `Pots` names them; of the last there is one for each fall of a root."""
MOVEMENTS = ("Given", "Taken", "Discarded")
"""Events of the purse that name a pot, and move money out of it or into it."""
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

    def take(self, event: Event, kind: str, beside: set[str]) -> None:
        """Note a movement of the purse. kind: of the pot that it names; beside: names of all events of its
        transaction."""
        values, reason = event.arguments, _find_reason(kind, event.name, beside)
        if event.name == "Discarded":
            self.burned[_find_reason(kind, event.name, set())] += values["wei_"]
        else:
            sign = 1 if event.name == "Given" else -1
            self.accounts.setdefault(values["account"], Counter())[reason] += sign * values["wei_"]

    def get_change(self, account: str) -> int:
        """What an account has more than before, in wei."""
        return sum(self.accounts.get(account, Counter()).values())


def name_pots(task: bytes) -> dict[bytes, str]:
    """Kind of money by the name of its pot."""
    pots = {keccak(encode(["string", "bytes32"], [kind, task])): kind for kind in POTS}
    for fall in range(FALLS_MAX + 1):
        pots[keccak(encode(["string", "bytes32", "uint256"], [RESTITUTION, task, fall]))] = RESTITUTION
    return pots


def fold_books(task: bytes, events: Sequence[Event]) -> Books:
    """Every movement between an account and a pot of the task."""
    pots, books = name_pots(task), Books(asked=_fold_asks(events))
    together = group_names(events)
    for event in events:
        if event.name in MOVEMENTS and event.arguments["pot"] in pots:
            kind = pots[event.arguments["pot"]]
            books.take(event, kind, together[event.transaction_hash])
    return books


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


def group_names(events: Iterable[Event]) -> dict[bytes, set[str]]:
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
    if kind == RESTITUTION:
        return PAY if name == "Given" else STAKE
    return BOND
