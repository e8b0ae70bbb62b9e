"""Holds the account of money against the pots, to the wei: the events of a play are folded a second time."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.protocol.spec.game.simulation import START_BLOCK, Simulation
from touchstone.protocol.economics.account_money import AccountMoney, compute_account, compute_money
from touchstone.protocol.spec.game.enums import SeatStatus
from touchstone.protocol.spec.game.events import GameEvent, WeiMoved
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.money_book import MoneyBook, note_event
from touchstone.protocol.spec.game.money_reasons import MoneyReason
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.reducer import fold
from touchstone.protocol.spec.game.round_machine import get_state_at
from touchstone.protocol.spec.game.state import GameState, create_game
from touchstone.protocol.spec.game.terms import compute_escrow
from touchstone.protocol.spec.game.vault import BURNED, ESCROW, HELD, OUTSIDE, RESTITUTION, credit_of

UNEXPLAINED = {MoneyReason.PAY, MoneyReason.FEE}


@dataclass
class Cashier:
    """One task. state: as it was posted; brought: wei that each account brought less what it took out; seen:
    so many events of the log are folded."""

    state: GameState
    book: MoneyBook = field(default_factory=MoneyBook)
    brought: Counter[str] = field(default_factory=Counter)
    seen: int = 0

    def __post_init__(self) -> None:
        self.brought[self.state.terms.submitter] += compute_escrow(self.state.terms)

    def take(self, log: Sequence[tuple[int, GameEvent]]) -> None:
        """Folds what is new in the log of a world."""
        for block, event in log[self.seen :]:
            self.book = note_event(self.book, self.state, event, block)
            self.state = fold(self.state, event, block)
            if isinstance(event, WeiMoved) and OUTSIDE in (event.source, event.target):
                is_in = event.source == OUTSIDE
                self.brought[str((event.target if is_in else event.source).key)] += event.wei * (
                    2 * is_in - 1
                )
        self.seen = len(log)

    def compute(self, block: int) -> dict[str, AccountMoney]:
        return compute_money(get_state_at(self.state, block), self.book, block)

    def check(self, block: int) -> dict[str, AccountMoney]:
        """All that an account has, won, lost and spent explains its credit; all accounts together explain all
        pots; what is promised is there."""
        found, wei = self.compute(block), self.state.vault.get_wei
        accounts = {*found, *self.brought}
        for account in accounts:
            money = found.get(account, AccountMoney(account))
            assert self.brought[account] + money.change == wei(credit_of(account)), account
            assert not UNEXPLAINED & set(money.sums), money
            assert all(one > 0 for one in money.sums.values()), money
        restitution, held = wei(RESTITUTION), wei(HELD)
        credits = sum(wei(credit_of(account)) for account in accounts)
        locked = sum(money.locked for money in found.values())
        assert credits + locked + restitution + held + wei(BURNED) == self.state.vault.compute_total()
        assert sum(self.book.burned.values()) == wei(BURNED)
        # What a slash made good is held beside the escrow, which burns as much.
        assert sum(money.earned for money in found.values()) <= wei(ESCROW) + restitution
        for seat in self.state.seats.values():
            lost = seat.status == SeatStatus.CONVICTED
            assert found[seat.account].stake == 0 if lost else found[seat.account].locked >= 0
        return found

    def make_game(self) -> LoggedGame:
        """The task as logs would tell it, with credits in the vault."""
        return LoggedGame(**vars(self.state), money=self.book)

    def check_single(self, block: int, account: str) -> None:
        """One account by itself has what it has among all."""
        state = get_state_at(self.state, block)
        alone = compute_account(state, self.book, account, block)
        assert alone == self.compute(block).get(account, AccountMoney(account))


def open_cashier(world: Simulation) -> Cashier:
    """Before the first event of a world."""
    return Cashier(create_game(world.state.terms, BOUNDS_LOCAL, START_BLOCK))
