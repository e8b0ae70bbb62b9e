"""What an account has in a task, as one sentence; and when its locked money comes back."""

import pytest

from tests.protocol.spec.game.cashier import open_cashier
from tests.protocol.spec.game.mishaps import make_mishaps
from touchstone.protocol.economics.account_locks import Lock, LockKind
from touchstone.protocol.economics.account_money import AccountMoney, compute_money
from touchstone.protocol.economics.money_words import NOTHING, describe_money, estimate_unlock
from touchstone.protocol.economics.unsettled_rounds import RoundEntry
from touchstone.protocol.spec.game.money_reasons import MoneyReason
from touchstone.protocol.spec.game.round_machine import get_state_at

TOKEN = 10**18
STAKE = (Lock(LockKind.STAKE, 1, 2_000 * TOKEN, 900),)
EARNED = (RoundEntry(1, 3, {MoneyReason.ACCEPTED_CLAIM: 100 * TOKEN}),)
MISSED = (RoundEntry(1, 3, {MoneyReason.MISSED_ROUND: 7 * TOKEN}),)


@pytest.mark.parametrize(
    ("money", "said"),
    [
        (AccountMoney("a"), NOTHING),
        (AccountMoney("a", STAKE), "you have earned 0 tokens, 2,000 are locked and come back in about 2 h"),
        (
            AccountMoney("a", STAKE, EARNED),
            "you have earned 100 tokens, none of it settled yet, 2,000 are locked and come back in about 2 h",
        ),
        (
            AccountMoney(
                "a", (), EARNED, {MoneyReason.AUDIT: 50 * TOKEN, MoneyReason.CONVICTION: 60 * TOKEN}
            ),
            "you have earned 150 tokens, 100 of it not settled yet, 60 are lost",
        ),
        (
            AccountMoney("a", (), (), {MoneyReason.PAID_MEMBERS: 5 * TOKEN}),
            "you have earned 0 tokens, 5 are spent",
        ),
        (AccountMoney("a", (), MISSED, {}, 9 * TOKEN), "you have earned 0 tokens, fees of 7 are to come"),
    ],
)
def test_what_an_account_has_is_one_sentence(money: AccountMoney, said: str) -> None:
    assert describe_money(money, "in about 2 h") == said


def test_another_subject_and_an_unknown_wait() -> None:
    money = AccountMoney("a", STAKE)
    assert describe_money(money, subject="bob has") == "bob has earned 0 tokens, 2,000 are locked"


def test_locked_money_comes_back_no_earlier_than_the_task_is_over() -> None:
    world = make_mishaps()
    cashier = open_cashier(world)
    world.play(until=lambda w: w.state.next_round == 4)
    cashier.take(world.log)
    game, block = cashier.make_game(), world.block
    now = get_state_at(game, block)
    found = {
        who: estimate_unlock(now, one, block) for who, one in compute_money(now, game.money, block).items()
    }
    windows = game.terms.windows
    assert (due := found["solver3"]) is not None and due > block + windows.dispute
    submitter = found[game.terms.submitter]
    stakes = [found[seat.account] or 0 for seat in now.seats.values()]
    assert submitter == max(stakes)
    assert estimate_unlock(now, AccountMoney("nobody"), block) is None
