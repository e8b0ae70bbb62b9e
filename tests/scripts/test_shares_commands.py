"""The commands of shares where the chain answers oddly: what they refuse, warn of and show."""

from dataclasses import replace
from typing import Any

import pytest

from touchstone.protocol.adapters.chain.pace import Pace
from touchstone.protocol.spec.errors import InvalidInput
from touchstone.protocol.spec.params import TOKEN_WEI
from touchstone.scripts.command_line.console import Console
from touchstone.scripts.money import task_shares
from touchstone.scripts.money.task_shares import (
    Shares,
    halt_by_vote,
    parse_votes,
    pay_revenue,
    show_shares,
    vote_halt,
)

NO_SEATS = (1 << 32) - 1
"""What the contract answers where no seat is left that could have to settle anything."""
GREATEST = (1 << 256) - 1
HEAD = 9000
SHARES = Shares(
    task=bytes(32),
    token="0x" + "11" * 20,
    supply=8 * TOKEN_WEI,
    held=6 * TOKEN_WEI,
    votes=6 * TOKEN_WEI,
    claimable_wei=0,
    revenue_wei=0,
    voting=6 * TOKEN_WEI,
    since=HEAD - 500,
    halt_block=HEAD - 300,
    round=16,
    is_ended=False,
    rounds=96,
)


class OddChain:
    """A chain that answers what a test wants; keeps what was sent."""

    address = "0x" + "22" * 20

    def __init__(self, monkeypatch: pytest.MonkeyPatch, shares: Shares, settled: int, opened: int) -> None:
        self.sent: list[str] = []
        self._answers = {"settled_by": settled, "next_round": opened}
        self.game = self.shares = self
        for name, answer in (
            ("read_shares", shares),
            ("read_pace", Pace(HEAD, 12.0)),
            ("require_tokens", None),
            ("notify_wallet", 0),
        ):
            monkeypatch.setattr(task_shares, name, _make_answering(answer))

    async def settled_by(self, _task: bytes) -> int:
        """The first round that a seat has not settled."""
        return self._answers["settled_by"]

    async def next_round(self, _task: bytes) -> int:
        """How many rounds were opened."""
        return self._answers["next_round"]

    async def deposit_missing(self, _wei: int) -> None:
        """There is enough credit."""

    async def halt_by_vote(self, _task: bytes) -> None:
        """Kept."""
        self.sent.append("halt_by_vote")

    async def vote_halt(self, _task: bytes, _shares: int) -> None:
        """Kept."""
        self.sent.append("vote_halt")

    async def pay_revenue(self, _task: bytes, _wei: int) -> None:
        """Kept."""
        self.sent.append("pay_revenue")


def _make_answering(answer: object) -> Any:
    async def answering(*_: object, **__: object) -> object:
        return answer

    return answering


async def test_a_first_epoch_that_was_not_played_is_not_settled_without_a_seat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chain: Any = OddChain(monkeypatch, SHARES, settled=NO_SEATS, opened=3)
    with pytest.raises(InvalidInput, match="does not halt the task yet") as refused:
        await halt_by_vote(chain, "0x00", Console())
    assert "settled 3 rounds of the 16 that it needs" in str(refused.value.actual)
    assert chain.sent == []


async def test_a_halt_is_sent_once_all_that_counts_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    chain: Any = OddChain(monkeypatch, SHARES, settled=16, opened=40)
    await halt_by_vote(chain, "0x00", Console())
    assert chain.sent == ["halt_by_vote"]


async def test_a_task_that_is_over_is_not_halted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vote would cost gas and change nothing; to take one back frees the shares."""
    chain: Any = OddChain(monkeypatch, replace(SHARES, is_ended=True), 16, 16)
    for halting in (vote_halt(chain, "0x", None, Console()), halt_by_vote(chain, "0x", Console())):
        with pytest.raises(InvalidInput, match="nothing left to halt"):
            await halting
    assert chain.sent == []
    await vote_halt(chain, "0x", 0, Console())
    assert chain.sent == ["vote_halt"]


async def test_a_task_without_a_whole_epoch_takes_no_vote_but_gives_one_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The contract would take the vote and never halt the task."""
    chain: Any = OddChain(monkeypatch, replace(SHARES, rounds=15), 15, 15)
    for halting in (vote_halt(chain, "0x", None, Console()), halt_by_vote(chain, "0x", Console())):
        with pytest.raises(InvalidInput, match="no vote can halt this task"):
            await halting
    assert chain.sent == []
    await vote_halt(chain, "0x", 0, Console())
    assert chain.sent == ["vote_halt"]
    said = " ".join(capsys.readouterr().out.split())
    assert "no share of this account votes to halt any more" in said
    assert "it has 15 rounds, and a vote needs 16 settled ones" in said


def test_votes_are_a_number_of_shares_or_a_word() -> None:
    assert (parse_votes("all"), parse_votes("none"), parse_votes("12.5")) == (None, 0, 25 * TOKEN_WEI // 2)
    for text in ("-1", "0", "some"):
        with pytest.raises(InvalidInput, match="not a number of shares"):
            parse_votes(text)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"supply": 0, "held": 0, "votes": 0, "voting": 0, "since": 0}, "no seat has settled a round yet"),
        ({"since": 0, "voting": 4 * TOKEN_WEI}, "4 shares vote to halt the task, no majority"),
        ({}, f"the majority since block {HEAD - 500}"),
        ({"is_ended": True}, "halted or closed already"),
    ],
)
async def test_how_the_vote_stands_is_told(
    change: dict[str, Any],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    chain: Any = OddChain(monkeypatch, replace(SHARES, **change), settled=0, opened=20)
    await show_shares(chain, "0x00", Console())
    assert told in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("settled", "opened"), [(0, 20), (16, 20)])
async def test_who_pays_revenue_is_told_whose_work_has_no_part_in_it(
    settled: int, opened: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chain: Any = OddChain(monkeypatch, SHARES, settled, opened)
    await pay_revenue(chain, "0x00", TOKEN_WEI, Console())
    said = " ".join(capsys.readouterr().out.split())
    assert f"WARNING: {opened} rounds were opened, and not all seats have settled round {settled}" in said
    assert chain.sent == ["pay_revenue"]


@pytest.mark.parametrize("settled", [20, NO_SEATS])
async def test_nothing_is_warned_of_where_all_work_is_settled(
    settled: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chain: Any = OddChain(monkeypatch, SHARES, settled, 20)
    await pay_revenue(chain, "0x00", TOKEN_WEI, Console())
    assert "WARNING" not in capsys.readouterr().out
    assert chain.sent == ["pay_revenue"]


async def test_the_greatest_numbers_are_shown_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("supply", "held", "votes", "claimable_wei", "revenue_wei", "voting", "since", "round")
    greatest: dict[str, Any] = dict.fromkeys(names, GREATEST)
    shares = replace(SHARES, halt_block=2 * GREATEST, **greatest)
    chain: Any = OddChain(monkeypatch, shares, settled=0, opened=0)
    document = await show_shares(chain, "0x00", Console())
    assert document.held == str(GREATEST)
    assert "(100.00 %)" in " ".join(capsys.readouterr().out.split())
