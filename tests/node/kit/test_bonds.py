"""What a node is ready to pay for a bond: more than is due, so that others may open some before it."""

import asyncio
from collections import defaultdict
from types import SimpleNamespace
from typing import Any, cast

import pytest

from touchstone.node.kit.bonds import SPARE_BONDS, fund_bonds
from touchstone.whistleblower.contesting import BeginContest, Contesting

BOND, STAKE = 40, 1_000


class Wallet:
    """A vault and a token, with so much in each."""

    def __init__(self, credit: int, tokens: int) -> None:
        self.credit, self.tokens = credit, tokens

    async def credit_of(self, account: str) -> int:
        return self.credit

    async def balance_of(self, account: str) -> int:
        return self.tokens

    async def deposit_missing(self, wei: int) -> None:
        missing = max(0, wei - self.credit)
        self.credit, self.tokens = self.credit + missing, self.tokens - missing


async def fund(wallet: Wallet, open_count: int, bond: int = BOND) -> int:
    amounts = SimpleNamespace(solver_stake=STAKE, auditor_stake=STAKE // 2)
    game = SimpleNamespace(terms=SimpleNamespace(amounts=amounts))
    chain = SimpleNamespace(vault=wallet, token=wallet, deposit_missing=wallet.deposit_missing)
    view = SimpleNamespace(account="me", game=game)
    return await fund_bonds(cast(Any, chain), cast(Any, view), open_count, bond)


@pytest.mark.parametrize("credit", [0, 70, 5_000])
async def test_the_limit_bears_some_that_come_before(credit: int) -> None:
    wallet = Wallet(credit, 5_000)
    assert await fund(wallet, 1) == (2 + SPARE_BONDS) * BOND == 240
    assert wallet.credit == max(credit, 240), "what may be due is credit"


async def test_the_limit_is_at_most_what_a_seat_costs_unless_more_is_due() -> None:
    assert await fund(Wallet(0, 5_000), 0, bond=400) == STAKE
    assert await fund(Wallet(0, 5_000), 2, bond=400) == 1_200


async def test_who_has_little_names_what_it_has_and_at_least_what_is_due() -> None:
    wallet = Wallet(30, 60)
    assert await fund(wallet, 0) == 90 == wallet.credit
    assert await fund(Wallet(30, 10), 0) == BOND
    assert await fund(Wallet(30, 0), 1) == 2 * BOND, "the contract says what is missing"


async def test_a_contest_takes_no_credit_that_another_question_has_funded() -> None:
    """Else either finds the credit of the other, deposits nothing, and the later one is refused: an attacker
    that gives rise to both at once has a root contested blocks later."""
    sent: list[int] = []

    async def contest(task: bytes, index: int, limit_wei: int, salt: bytes) -> None:
        sent.append(limit_wei)

    wallet, locks = Wallet(0, 5_000), defaultdict[Any, asyncio.Lock](asyncio.Lock)
    amounts = SimpleNamespace(solver_stake=STAKE, auditor_stake=STAKE, contest_bond=BOND)
    game = SimpleNamespace(terms=SimpleNamespace(amounts=amounts), contests={})
    game_calls, deposit = SimpleNamespace(contest=contest), wallet.deposit_missing
    chain = SimpleNamespace(vault=wallet, token=wallet, game=game_calls, deposit_missing=deposit)
    made = SimpleNamespace(salt=b"s")
    claims = SimpleNamespace(contests={(0, b"r", 9, 0): made})
    view: Any = SimpleNamespace(account="me", task=b"t", game=game, claims=claims)
    unused: Any = dict.fromkeys(("store", "claim_data", "model", "outer_steps"))
    has: Any = {"chain": chain, "claims": claims}
    room = Contesting(get_view=lambda: view, locks=locks, notify=print, **has, **unused)
    async with locks["credit", None]:
        opening = asyncio.ensure_future(BeginContest(0, b"r", 9, 0).perform(room))
        await asyncio.sleep(0.01)
        assert not sent
    await opening
    assert sent == [(1 + SPARE_BONDS) * BOND]
