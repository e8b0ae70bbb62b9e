"""Moves of shares in a play: the book says what becomes of them, the machine moves the money and halts."""

from collections.abc import Callable
from typing import Any

from tests.kit.played_task import STRANGER, PlayedTask
from tests.kit.share_book import ShareBook, ShareRefusal
from touchstone.protocol.spec.game import calls
from touchstone.protocol.spec.game.events import GameEvent, WeiMoved
from touchstone.protocol.spec.game.round_machine import apply, fold_all
from touchstone.protocol.spec.game.round_opening import SHARES
from touchstone.protocol.spec.game.rule_refusals import GameRefusal
from touchstone.protocol.spec.game.terms import EPOCH_ROUNDS
from touchstone.protocol.spec.game.vault import REVENUE, Pot, credit_of

Events = tuple[GameEvent, ...]


class PlayedShares(PlayedTask):
    """A task whose shares move, earn and vote."""

    def sends_shares(self, sender: str, target: str, count: int) -> None:
        """A holder sends shares."""
        source, to = self.get_party(sender).address, self.get_party(target).address
        self._act(
            sender, ("TaskShares", "transfer", to, count), lambda: (self.shares.move(source, to, count), ())
        )

    def takes_shares(self, sender: str, source: str, count: int) -> None:
        """Who was allowed to takes shares of a holder."""
        giver, to = self.get_party(source).address, self.get_party(sender).address
        made = ("TaskShares", "transferFrom", giver, to, count)
        self._act(sender, made, lambda: (self.shares.move(giver, to, count), ()))

    def pays_revenue(self, sender: str, wei: int) -> None:
        """Somebody pays for the model. Credit is deposited before, but where a refusal is expected."""
        credit = credit_of(self.get_party(sender).address)
        if self._refusal is None:
            self.fund(wei, sender)

        def change() -> tuple[ShareBook, Events]:
            return self.shares.distribute(wei), self._move(credit, REVENUE, wei)

        self._act(sender, ("Shares", "payRevenue", self.task, wei), change)

    def claims_revenue(self, holder: str) -> None:
        """Anybody has a holder paid what it has earned."""
        account = self.get_party(holder).address

        def change() -> tuple[ShareBook, Events]:
            book, wei = self.shares.claim(account)
            return book, self._move(REVENUE, credit_of(account), wei)

        self._act(STRANGER, ("Shares", "claimRevenue", self.task, account), change)

    def votes_halt(self, sender: str, count: int) -> None:
        """A holder votes for the halt with so many of its shares."""
        account, epochs = self.get_party(sender).address, max(1, self.state.next_round // EPOCH_ROUNDS)

        def change() -> tuple[ShareBook, Events]:
            return self.shares.vote(account, count, self.block, epochs * EPOCH_ROUNDS), ()

        self._act(sender, ("Shares", "voteHalt", self.task, count), change)

    def halts_by_vote(self) -> None:
        """Anybody halts the task for the majority."""

        def change() -> tuple[ShareBook, Events]:
            since, dispute = self.shares.since, self.state.terms.windows.dispute
            if not since or self.block < since + dispute:
                raise ShareRefusal("NoShareMajority")
            settled = [seat.settled for seat in self.state.seats.values()]
            if min(*settled, self.state.next_round, 1 << 30) < self.shares.until_round:
                raise ShareRefusal("WorkUnsettled")
            return self.shares, apply(self.state, calls.HaltTask(), SHARES, self.block)

        self._act(STRANGER, ("Shares", "haltByVote", self.task), change)

    def _move(self, source: Pot, target: Pot, wei: int) -> Events:
        if self.state.vault.get_wei(source) < wei:
            raise ShareRefusal("CreditTooSmall")
        return (WeiMoved(source, target, wei),)

    def _act(self, sender: str, made: Any, change: Callable[[], tuple[ShareBook, Events]]) -> None:
        refused: str | None = None
        events: Events = ()
        try:
            book, events = change()
        except (ShareRefusal, GameRefusal) as refusal:
            refused = refusal.name
        self.count += 1
        self._expect(refused, f"{made[1]} of {sender}")
        if refused is None:
            self.state, self.shares = fold_all(self.state, events, self.block), book
        self._note(made[1], sender, made, refused, events)
