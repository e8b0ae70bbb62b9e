"""Which segments' step states somebody asked this node for, and which it has at hand. Bounded, whoever asks:
recomputing a segment costs the training of k steps."""

from collections import Counter, OrderedDict
from dataclasses import dataclass, field

Place = tuple[bytes, int, int]
"""(task, round, segment of this node's claim)"""

MAX_WANTED = 8
"""Requests that wait, one of each account."""
MAX_SHOWN = 2
"""Segments whose step states are kept: the last ones asked for."""
MAX_GRANTED = 2
"""Segments that are recomputed for one account in a round."""


@dataclass
class StepDesk:
    """`find` is for whoever may ask. Answers are from memory."""

    wanted: OrderedDict[Place, str] = field(default_factory=OrderedDict)
    """Who asked first, by segment."""
    shown: OrderedDict[Place, tuple[bytes, ...]] = field(default_factory=OrderedDict)
    """The k + 1 state roots, by segment."""
    _granted: Counter[tuple[str, bytes, int]] = field(default_factory=Counter)

    def find(self, account: str, task: bytes, index: int, segment: int) -> bytes | None:
        """The roots, one after the other; None where they are not at hand: then the request is noted, unless
        the account has had its share."""
        place = (task, index, segment)
        if place in self.shown:
            return b"".join(self.shown[place])
        has_share = self._granted.get((account, task, index), 0) < MAX_GRANTED
        is_new = place not in self.wanted and account not in self.wanted.values()
        if is_new and has_share and len(self.wanted) < MAX_WANTED:
            self.wanted[place] = account
        return None

    def drop(self, place: Place) -> None:
        """Not to be shown."""
        self.wanted.pop(place, None)

    def offer(self, place: Place, roots: tuple[bytes, ...]) -> list[tuple[bytes, ...]]:
        """Show these from now on; what is returned is shown no more."""
        account = self.wanted.pop(place, None)
        if account is not None:
            self._granted[(account, *place[:2])] += 1
        self.shown[place] = roots
        return [self.shown.popitem(last=False)[1] for _ in range(len(self.shown) - MAX_SHOWN)]
