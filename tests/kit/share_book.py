"""Shares of a task as `docs/spec.md` 12.5 has them: who holds them, what they have earned, how they vote.

The machine has no shares. Plays have them by this book, and the contracts must agree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

PARTS = 1 << 96
"""of a wei: what a share has earned is counted in them."""
MOST_REVENUE_WEI = (1 << 128) - 1


class ShareRefusal(Exception):
    """A move of shares that the contracts refuse by this name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True)
class Holder:
    """One account. earned: parts of a wei that it has not claimed; votes: of its shares, those that vote for
    the halt; is_whole: it voted with all that it had, so shares that it gets by work vote as well."""

    shares: int = 0
    earned: int = 0
    votes: int = 0
    is_whole: bool = False


@dataclass(frozen=True)
class ShareBook:
    """All shares of a task. rest: parts that could not be divided; since: the block in which the majority
    began, 0 without one; until_round: every seat must have settled all rounds before it."""

    holders: Mapping[str, Holder] = field(default_factory=dict)
    rest: int = 0
    revenue_wei: int = 0
    since: int = 0
    until_round: int = 0

    def get(self, account: str) -> Holder:
        """Returns an account as a holder, also of nothing."""
        return self.holders.get(account, Holder())

    @property
    def supply(self) -> int:
        """All shares."""
        return sum(one.shares for one in self.holders.values())

    @property
    def votes(self) -> int:
        """Shares that vote for the halt."""
        return sum(one.votes for one in self.holders.values())

    @property
    def is_majority(self) -> bool:
        """Whether more than half of all shares vote."""
        return 2 * self.votes > self.supply

    def _put(self, account: str, **changes: Any) -> "ShareBook":
        changed = replace(self.get(account), **changes)
        return replace(self, holders={**self.holders, account: changed})

    def mint(self, account: str, count: int) -> "ShareBook":
        """Returns the book after an account was paid for its work. Others' new shares may end a majority."""
        one = self.get(account)
        votes = one.votes + count * one.is_whole
        book = self._put(account, shares=one.shares + count, votes=votes)
        return book if book.is_majority else replace(book, since=0)

    def move(self, source: str, target: str, count: int) -> "ShareBook":
        """Returns the book after a transfer. What was earned stays. Refuses SharesVote,
        InsufficientBalance."""
        one = self.get(source)
        if one.votes and count > one.shares - one.votes:
            raise ShareRefusal("SharesVote")
        if count > one.shares:
            raise ShareRefusal("InsufficientBalance")
        book = self._put(source, shares=one.shares - count)
        return book._put(target, shares=book.get(target).shares + count)

    def distribute(self, wei: int) -> "ShareBook":
        """Returns the book after revenue came in, an equal part for each share. Refuses NothingMoved,
        NoShares, RevenueTooLarge."""
        if not wei:
            raise ShareRefusal("NothingMoved")
        if not self.supply:
            raise ShareRefusal("NoShares")
        if self.revenue_wei + wei > MOST_REVENUE_WEI:
            raise ShareRefusal("RevenueTooLarge")
        each, rest = divmod(wei * PARTS + self.rest, self.supply)
        earned = {
            name: replace(one, earned=one.earned + each * one.shares) for name, one in self.holders.items()
        }
        return replace(self, holders=earned, rest=rest, revenue_wei=self.revenue_wei + wei)

    def claim(self, account: str) -> tuple["ShareBook", int]:
        """Returns the book after a claim, and the wei of it. Refuses NothingMoved."""
        wei, left = divmod(self.get(account).earned, PARTS)
        if not wei:
            raise ShareRefusal("NothingMoved")
        return self._put(account, earned=left), wei

    def vote(self, account: str, count: int, block: int, until_round: int) -> "ShareBook":
        """Returns the book after a vote with so many shares. Refuses TooManyVotes."""
        held = self.get(account).shares
        if count > held:
            raise ShareRefusal("TooManyVotes")
        book = self._put(account, votes=count, is_whole=0 < count == held)
        if not book.is_majority:
            return replace(book, since=0)
        return book if book.since else replace(book, since=block, until_round=until_round)
