"""Notes for which segments peers have asked for step states, and which are ready.

Recomputing a segment costs the training of k steps. Requests of auditors are limited by what was drawn: each
segment is recomputed once, and kept while auditors may ask. Requests of others are limited in number.
"""

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

from touchstone.node.records.once_per_block import OncePerBlock

Place = tuple[bytes, int, int]
"""(task, round, segment of this node's claim)"""


MAX_WANTED = 8
"""The most waiting requests of accounts that do not audit the segment, one for each account."""


MAX_SHOWN = 2
"""The most segments whose step states are kept for such accounts: the ones asked for last."""


MAX_GRANTED = 4
"""The most segments that are recomputed in a round for all of these accounts together."""


class Asker(NamedTuple):
    """An account that asks for steps. `is_auditor` says that it may need them for a verdict: it was drawn for
    the segment, or trained it, or is a whistleblower and the claim is convicted."""

    account: str
    is_auditor: bool


class Steps(NamedTuple):
    """The k + 1 state roots of a segment, and whether an auditor of it asked for them."""

    roots: tuple[bytes, ...]
    is_auditor: bool


@dataclass
class StepRequests:
    """Requests for step states, and their answers, in memory. Auditors of a segment go first, and other
    requests never displace theirs. The caller of `find` has checked that the account may ask. Answers for
    auditors are deleted once these may not ask any more (`Pruning.forget_steps`)."""

    wanted: OrderedDict[Place, Asker] = field(default_factory=OrderedDict)
    """The account that asked for each segment. An auditor replaces another member."""
    shown: OrderedDict[Place, Steps] = field(default_factory=OrderedDict)
    """The steps that are shown, by segment."""
    is_news: bool = False
    """Whether the last request was new, or the first of an auditor for its segment."""
    notices: OncePerBlock = field(default_factory=OncePerBlock)
    _granted: Counter[tuple[bytes, int]] = field(default_factory=Counter)

    def find(self, asker: Asker, task: bytes, index: int, segment: int) -> bytes | None:
        """Returns the roots, concatenated, or None if they are not ready. In that case it notes the request,
        unless it is not an auditor's and the share of such requests is used up."""
        place = (task, index, segment)
        shown, known, self.is_news = self.shown.get(place), self.wanted.get(place), False
        if shown is not None:
            self.shown[place] = Steps(shown.roots, shown.is_auditor or asker.is_auditor)
            return b"".join(shown.roots)
        if asker.is_auditor:
            self.is_news = known is None or not known.is_auditor
            self.wanted[place] = asker
            self.wanted.move_to_end(place, last=False)
        elif self._may_ask(asker.account, place):
            self.is_news = True
            self.wanted[place] = asker
        return None

    def is_urgent(self, place: Place) -> bool:
        """Returns whether an auditor waits for a segment."""
        return place in self.wanted and self.wanted[place].is_auditor

    def drop(self, place: Place) -> None:
        """Drops a request: its steps may not be shown."""
        self.wanted.pop(place, None)

    def offer(self, place: Place, roots: tuple[bytes, ...]) -> list[tuple[bytes, ...]]:
        """Shows these roots from now on. Returns those that are no longer shown."""
        is_auditor = self.is_urgent(place)
        self.drop(place)
        self._granted[place[:2]] += not is_auditor
        self.shown[place] = Steps(roots, is_auditor)
        others = [one for one, steps in self.shown.items() if not steps.is_auditor]
        return [self.shown.pop(one).roots for one in others[: max(0, len(others) - MAX_SHOWN)]]

    def _may_ask(self, account: str, place: Place) -> bool:
        """Returns whether an account that is no auditor may still ask."""
        waiting = [one.account for one in self.wanted.values() if not one.is_auditor]
        has_share = self._granted[place[:2]] < MAX_GRANTED
        is_new = place not in self.wanted and account not in waiting
        return has_share and is_new and len(waiting) < MAX_WANTED
