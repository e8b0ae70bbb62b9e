"""What a node tells of its money: each event of its seat once, with the amount and when it is paid."""

import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.protocol.spec.game.cashier import open_cashier
from tests.protocol.spec.game.mishaps import make_mishaps
from tests.protocol.spec.game.simulation import Simulation
from tests.protocol.spec.game.test_logs import play_fall, play_questions
from touchstone.node.health.money_news import MoneyNews
from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.money_reasons import MoneyReason

BLOCK_S = 12
PAY, STAKE = "0.0000000000000001 tokens", "0.000000000000002 tokens"
MISSED, FEE = "0.00000000000000006 tokens", "0.00000000000000007 tokens"
"""Of a missed round; of a draw in which two say UNSERVED."""


def list_lines(news: MoneyNews, account: str, game: LoggedGame, block: int) -> list[str]:
    """What is told at the head before `block`; the preset's blocks last as long as the chain's."""
    head = Head(block - 1, b"", b"", BLOCK_S * block, 0)
    connection = SimpleNamespace(health=SimpleNamespace(head=head))
    chain = SimpleNamespace(connection=connection, bounds=SimpleNamespace(name="local"))
    view = SimpleNamespace(account=account, game=game, head_block=block - 1)
    return news.list_lines(cast(Any, view), cast(Any, chain))


def listen(world: Simulation, *accounts: str) -> dict[str, list[str]]:
    """Plays to the end; what nodes of these accounts say on the way."""
    cashier, news, said = open_cashier(world), {one: MoneyNews() for one in accounts}, dict[str, list[str]]()

    def check(now: Simulation) -> bool:
        cashier.take(now.log)
        for account in accounts:
            lines = list_lines(news[account], account, cashier.make_game(), now.block)
            said.setdefault(account, []).extend(lines)
        return False

    check(world)
    world.play(until=check)
    return said


def cut_waits(lines: list[str]) -> list[str]:
    return [
        re.sub(r"(in about [\dhmin ]+|in less than a minute|at about block \d+)$", "WHEN", one)
        for one in lines
    ]


def test_each_event_of_a_seat_is_a_line() -> None:
    said = listen(make_mishaps(), "solver0", "solver1", "solver2", "solver3", "whistle0", "pest")
    assert cut_waits(said["solver3"])[:3] == [
        f"WARNING: round 0: the round closed without your claim. A fee of {MISSED} is taken WHEN",
        f"round 1: your claim was accepted, {PAY} earned, paid out WHEN",
        f"round 1: your claim was merged, {PAY} earned, paid out WHEN",
    ]
    assert cut_waits(said["solver3"])[-2:] == [
        f"WARNING: round 4: your claim was rejected by a late audit, {PAY} are not paid",
        "rounds 0 to 5 are settled: 0.0000000000000003 tokens are your credit (touchstone withdraw); "
        f"fees of {MISSED} were taken out of your stake",
    ]
    assert f"WARNING: round 1: your claim was rejected by its auditors, {PAY} are not paid" in said["solver1"]
    assert f"WARNING: round 0: your claim was not audited in time, {PAY} are not paid" in said["solver2"]
    unserved = [line for line in cut_waits(said["solver2"]) if "round 2:" in line]
    assert unserved == [
        f"WARNING: round 2: two of three auditors got no data from this node, {PAY} are not paid. Check that "
        "peers reach it: touchstone doctor",
        f"WARNING: round 2: a fee of {FEE} for data that auditors did not get is taken WHEN",
    ]
    assert any("nobody recorded the randomness" in line for line in said["solver2"])
    (convicted,) = [line for line in said["solver0"] if "CONVICTED" in line]
    assert convicted.startswith("WARNING") and f"its stake of {STAKE} is gone" in convicted
    assert any("of a convicted seat's stake are your credit" in line for line in said["whistle0"])
    assert said["pest"] == [
        "WARNING: a dispute of this node failed: the bond of 0.00000000000000008 tokens is lost"
    ]
    for account, lines in said.items():
        # Of audits the sum of a round grows, so no line comes twice there either.
        assert len(set(cut_waits(lines))) == len(lines), account


def test_the_wait_is_that_of_the_settlement() -> None:
    said = listen(make_mishaps(), "solver1")
    (line,) = [one for one in said["solver1"] if one.startswith("round 4: your claim was merged")]
    found = re.search(r"paid out in about (\d+) h (\d+) min$", line)
    assert found is not None
    windows = make_mishaps().state.terms.windows
    blocks = 2 * windows.audit_max + windows.query
    assert blocks * BLOCK_S / 3600 < int(found[1]) + int(found[2]) / 60 < (blocks + 150) * BLOCK_S / 3600


@pytest.mark.parametrize(
    ("play", "reason", "word"),
    [
        (play_questions, MoneyReason.RESTORED_PAY, "a convicted auditor had rejected your claim falsely"),
        (play_questions, MoneyReason.BOND_SHARE, "of a bond that was lost are your credit"),
        (play_questions, MoneyReason.ANSWERED_QUERY, "a query of this node was answered"),
        (play_fall, MoneyReason.UNDONE_ROUND, "the round was undone, because an earlier root was wrong"),
        (play_fall, MoneyReason.RESTITUTION, "the round was undone; a slashed stake pays your claim"),
    ],
)
def test_rare_events_are_told_to_whom_they_befall(play: Any, reason: MoneyReason, word: str) -> None:
    world = play()
    whole = open_cashier(world)
    whole.take(world.log)
    befallen = {who for who, one in whole.book.accounts.items() if has_seen(one, reason)}
    assert befallen
    for account in sorted(befallen):
        cashier, news, said = open_cashier(world), MoneyNews(), list[str]()
        for block in sorted({block for block, _ in world.log}):
            cashier.take([one for one in world.log if one[0] <= block])
            said += list_lines(news, account, cashier.make_game(), block + 1)
        assert any(word in line for line in said), (account, said)


def has_seen(book: Any, reason: MoneyReason) -> bool:
    return reason in book.sums or any(reason in one.sums for one in book.rounds.values())


def test_what_was_before_the_node_began_is_one_line() -> None:
    """Also what the chain takes back and brings again is told once."""
    world, news = make_mishaps(), MoneyNews()
    cashier = open_cashier(world)
    world.play(until=lambda w: w.state.next_round == 4)
    cashier.take(world.log)
    game = cashier.make_game()
    (line,) = list_lines(news, "solver3", game, world.block)
    assert (
        line.startswith("so far in this task you have earned 0.0000000000000002 tokens, none of it settled")
        and f"{STAKE.split()[0]} are locked and come back at about block" in line
        and "fees of 0.00000000000000006 are to come" in line
    )
    assert not list_lines(news, "solver3", game, world.block)
    assert not list_lines(news, "solver3", game, world.block + 1)
    earlier = open_cashier(world)
    earlier.take([one for one in world.log if one[0] < world.block - 40])
    assert not list_lines(news, "solver3", earlier.make_game(), world.block - 40)
    assert not list_lines(news, "solver3", game, world.block)
    assert not list_lines(MoneyNews(), "nobody", game, world.block)
