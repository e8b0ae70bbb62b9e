"""Deadlines that are near and unanswered, what a seat is, and disputes by side and end."""

import asyncio
import logging
import socket
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.kit.nodes import SIGNING, TASK, make_view
from tests.protocol.spec.game.cashier import Cashier, open_cashier
from tests.protocol.spec.game.mishaps import ROUNDS, make_mishaps
from tests.protocol.spec.game.simulation import (
    Simulation,
    commit,
    make_quiet_world,
    make_word,
    seal_draw,
    solver,
    vote,
)
from touchstone.node.health import metrics
from touchstone.node.health.checks import Watch
from touchstone.node.health.deadlines import list_deadlines
from touchstone.node.health.metrics import METRICS, Measures, show_metrics
from touchstone.node.health.open_disputes import count_disputes
from touchstone.node.kit.chain_state import ChainState
from touchstone.node.kit.config import Meter
from touchstone.node.kit.view import View
from touchstone.protocol.adapters.chain.answers import Head
from touchstone.protocol.adapters.chain.endpoint_health import RpcHealth
from touchstone.protocol.adapters.reports.node_state import HealthIssue
from touchstone.protocol.spec.game.inner_contest import ContestFolds, InnerContest, InnerTurn
from touchstone.protocol.spec.game.inner_dispute import (
    DisputeStage,
    InnerBook,
    InnerDispute,
    InnerQuery,
    QueryEnding,
)
from touchstone.protocol.spec.game.logged_game import LoggedGame
from touchstone.protocol.spec.game.presets import BOUNDS_LOCAL
from touchstone.protocol.spec.game.state import GameState, StatementRef
from touchstone.protocol.spec.params import TOKEN_WEI
from touchstone.protocol.spec.signed_reports import HeldoutReport
from touchstone.protocol.spec.statements import Vote, VoteWord

NAMES = {metric.name: metric for metric in METRICS}


def look(world: Simulation, account: str) -> View:
    """What may be looked at by a node whose chain is a world in memory."""
    state = ChainState(account, BOUNDS_LOCAL, SIGNING, head_block=world.block - 1)
    state.credits[account] = TOKEN_WEI // 2
    state.inner[TASK], state.contests[TASK] = InnerBook(60), ContestFolds(5)
    return make_view(account=account, game=LoggedGame(**vars(world.state)), state=state)


def list_own(world: Simulation, account: str) -> list[tuple[str, int]]:
    return list(list_deadlines(look(world, account), world.block))


def get_trained_from(game: GameState) -> int:
    found = game.rounds[0].trained_from
    assert found is not None
    return found


# Deadlines
def test_a_solver_has_to_commit_until_the_round_closes() -> None:
    world = make_quiet_world()
    world.cheats -= {"solver1", "solver2"}
    world.play(until=lambda w: w.state.rounds[0].trained_from is not None)
    closing = get_trained_from(world.state) + world.state.terms.windows.train_max
    assert list_own(world, "solver0") == [("commit", closing)]
    assert commit(world, "solver0") is None
    assert list_own(world, "solver0") == [] == list_own(world, "verifier0")


def test_an_auditor_has_to_vote_until_its_vote_has_counted() -> None:
    world = make_quiet_world(late_chance=0)
    assert commit(world, "solver0") is None
    seal_draw(world)
    closed, audit_max = world.state.rounds[0].closed or 0, world.state.terms.windows.audit_max
    auditors = [f"verifier{n}" for n in range(5)]
    due = {name: list_own(world, name) for name in auditors}
    drawn = [name for name in auditors if due[name]]
    assert len(drawn) == 1, "reserves wait for the primary"
    assert due[drawn[0]] == [("vote", closed + audit_max)]
    world.jump(closed + audit_max + 1)
    assert list_own(world, drawn[0]) == [("vote", closed + 2 * audit_max)]
    assert vote(world, 0, 0, 0, VoteWord.ACCEPT)
    assert list_own(world, drawn[0]) == []


def test_a_query_is_answered_by_the_seat_that_is_queried() -> None:
    world = make_quiet_world()
    seat = world.get_seat("verifier0").number
    asked = InnerQuery(b"a" * 32, seat, cast(Vote, None), 3, "someone", clock=world.block + 7)
    for one, expected in (
        (asked, [("ask", world.block + 7)]),
        (replace(asked, ending=QueryEnding.CLEARED), []),
        (replace(asked, clock=world.block - 1), []),
    ):
        view = look(world, "verifier0")
        view.chain_state.inner[TASK] = InnerBook(60, queries={one.name: one})
        assert list(list_deadlines(view, world.block)) == expected
        assert list(list_deadlines(replace(view, account="verifier1"), world.block)) == []


@pytest.mark.parametrize(
    ("stage", "who"),
    [
        (DisputeStage.ROOTS, "solver0"),
        (DisputeStage.NAME, "verifier0"),
        (DisputeStage.TRACE, "solver0"),
        (DisputeStage.PROVE, "verifier0"),
    ],
)
def test_a_dispute_waits_for_whose_turn_it_is(stage: DisputeStage, who: str) -> None:
    world = make_quiet_world()
    opened = InnerDispute(b"d" * 32, solver(0), StatementRef(0, 0), 0, "verifier0", world.block + 9, stage)
    for account in ("solver0", "verifier0", "solver1"):
        view = look(world, account)
        view.chain_state.inner[TASK] = InnerBook(60, disputes={opened.name: opened})
        found = [one for one in list_deadlines(view, world.block) if one[0] == "dispute"]
        assert found == ([("dispute", world.block + 9)] if account == who else [])
        # Once its clock has run out, to end it is nobody's own duty.
        assert "dispute" not in dict(list_deadlines(view, world.block + 10))


@pytest.mark.parametrize(
    ("turn", "who"),
    [
        (InnerTurn.ANSWER, "solver0"),
        (InnerTurn.LEAF, "solver0"),
        (InnerTurn.CONTESTER, "verifier0"),
        (InnerTurn.HOLDS, ""),
    ],
)
def test_a_contest_waits_for_its_signers_and_for_its_contester(turn: InnerTurn, who: str) -> None:
    world = make_quiet_world()
    game_round = replace(world.state.rounds[0], signers=(solver(0),))
    world.state = replace(world.state, rounds={0: game_round})
    contest = InnerContest(make_word(1), 0, make_word(2), "verifier0", world.block + 5, turn)
    for account in ("solver0", "solver1", "verifier0"):
        view = look(world, account)
        view.chain_state.contests[TASK] = ContestFolds(5, {contest.name: contest})
        found = [one for one in list_deadlines(view, world.block) if one[0] == "contest"]
        assert found == ([("contest", world.block + 5)] if account == who else [])


# Values
def test_disputes_are_counted_by_side_and_end() -> None:
    world, own = make_quiet_world(), "solver0"
    view = look(world, own)
    accused = InnerDispute(b"1" * 32, solver(0), StatementRef(0, 0), 0, "x", 9, DisputeStage.CLEARED)
    opened = InnerDispute(b"2" * 32, solver(1), StatementRef(0, 1), 0, own, 9)
    others = InnerDispute(b"3" * 32, solver(1), StatementRef(0, 1), 0, "x", 9)
    ask = InnerQuery(b"4" * 32, solver(0), cast(Vote, None), 3, "x", 9, QueryEnding.MOOT)
    contest = InnerContest(make_word(1), 0, make_word(2), own, 5, InnerTurn.FALLS)
    disputes = {one.name: one for one in (accused, opened, others)}
    view.chain_state.inner[TASK] = InnerBook(60, disputes, {ask.name: ask})
    view.chain_state.contests[TASK] = ContestFolds(5, {contest.name: contest})
    assert count_disputes(view) == {
        ("dispute", "accused", "cleared"): 1.0,
        ("dispute", "opener", "open"): 1.0,
        ("ask", "accused", "moot"): 1.0,
        ("contest", "opener", "falls"): 1.0,
    }


def test_the_money_of_the_account_is_measured() -> None:
    """Of a solver that missed a round, and was paid for others; in the end of all that it lost."""
    world = make_mishaps()
    cashier = open_cashier(world)
    world.play(until=lambda w: w.state.next_round == ROUNDS)
    values = read_money(world, cashier, "solver3")
    assert values["locked"] == {(): 2_000 / TOKEN_WEI} and values["owed"] == {(): 60 / TOKEN_WEI}
    assert values["earned"][()] >= 300 / TOKEN_WEI and not any(values["lost"].values())
    world.play()
    values = read_money(world, cashier, "solver3")
    assert values["locked"] == values["earned"] == values["owed"] == {(): 0.0}
    assert values["lost"]["missed_round",] == 60 / TOKEN_WEI
    assert values["settled"]["accepted_claim",] == 300 / TOKEN_WEI
    assert read_money(world, cashier, "solver0")["lost"]["conviction",] == 2_000 / TOKEN_WEI


def read_money(world: Simulation, cashier: Cashier, account: str) -> dict[str, Any]:
    cashier.take(world.log)
    view = replace(look(world, account), found_game=cashier.make_game())
    values = make_measures(view).read()
    return {
        name: values[f"touchstone_{name}_tokens"] for name in ("locked", "earned", "owed", "settled", "lost")
    }


def make_measures(view: View, home: Path = Path("/")) -> Measures:
    """Of a node that looks at this."""
    connection = SimpleNamespace(health=RpcHealth())
    chain = cast(Any, SimpleNamespace(address=view.account, connection=connection))
    client, server = SimpleNamespace(fetched_bytes=5), SimpleNamespace(served_bytes=9)
    watch = Watch(chain, view.chain_state, home, lambda: view)
    shown = cast(Any, client), Meter(), lambda: view, watch, cast(Any, server)
    return Measures(chain, view.chain_state, *shown)


def test_all_values_are_of_metrics_that_are_listed(tmp_path: Path) -> None:
    world = make_quiet_world()
    view = look(world, "solver0")
    made: Any = SimpleNamespace(vote=SimpleNamespace(word=VoteWord.ACCEPT))
    view.audits.book.votes.update(dict.fromkeys(cast(Any, (1, 2)), made))
    for index, micronats in ((4, 3_100_000), (5, 2_900_000), (3, 4_000_000)):
        reported: Any = SimpleNamespace(report=SimpleNamespace(round=index, mean_micronats=micronats))
        view.claims.reports[index, b""] = reported
    measured: Any = SimpleNamespace(report=HeldoutReport(b"", 0, view.game.terms.root, 4, 3_450_000, 20_000))
    view.claims.heldout[0, view.game.terms.root] = measured
    dispute = InnerDispute(b"1" * 32, solver(0), StatementRef(0, 0), 0, "x", world.block + 9)
    view.chain_state.inner[TASK] = InnerBook(60, {dispute.name: dispute})
    metrics = make_measures(view, tmp_path)
    metrics.chain.connection.health.head = Head(12, b"", b"", 1_000, 0)
    metrics.chain.connection.health.errors["timeout"] = 2
    meter = metrics.meter
    meter.loss, meter.due["MakeClaim"], meter.failures["MakeClaim"] = 2.5, 1, 4
    metrics.watch.gas_left, metrics.watch.gas_factor = 12, 1.5
    values = metrics.read()
    assert set(values) == set(NAMES) and values["touchstone_gas_left"] == {(): 12.0}
    assert values["touchstone_gas_factor"] == {(): 1.5}
    for name, samples in values.items():
        assert samples and all(len(labels) == len(NAMES[name].labels) for labels in samples), name
    assert values["touchstone_head_block"] == {(): 12.0}
    assert values["touchstone_deadline_blocks"]["dispute",] == 10.0, "blocks from the head on"
    assert values["touchstone_round_loss"] == {(): 2.9}, "of the newest round"
    assert values["touchstone_heldout_loss"] == {(): 3.45}
    assert values["touchstone_votes"]["ACCEPT",] == 2.0 and values["touchstone_votes"]["ABSTAIN",] == 0.0
    assert values["touchstone_seat_status"]["solver", "active"] == 1.0
    assert values["touchstone_seat_status"]["solver", "convicted"] == 0.0
    assert values["touchstone_credit_tokens"] == {(): 0.5}
    assert set(values["touchstone_health_issue"]) == {(kind.value,) for kind in HealthIssue}
    assert values["touchstone_rpc_errors_total"]["timeout",] == 2.0


def test_the_nearest_of_several_deadlines_counts(tmp_path: Path) -> None:
    world = make_quiet_world()
    view = look(world, "solver0")
    disputes = [
        InnerDispute(bytes([n]) * 32, solver(0), StatementRef(0, 0), 0, "x", world.block + n)
        for n in (30, 10, 20)
    ]
    view.chain_state.inner[TASK] = InnerBook(60, {one.name: one for one in disputes})
    assert make_measures(view, tmp_path).read()["touchstone_deadline_blocks"]["dispute",] == 11.0


def test_deadlines_are_listed_once_for_each_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    views, listed = [look(make_quiet_world(), "solver0")], []

    def list_noted(view: View, block: int) -> Any:
        listed.append(block)
        return list_deadlines(view, block)

    monkeypatch.setattr(metrics, "list_deadlines", list_noted)
    found, chain_state = make_measures(views[0], tmp_path), views[0].chain_state
    found.find_view = lambda: replace(views[-1], head_block=chain_state.head_block)
    found.read()
    found.read()
    assert len(listed) == 1
    dispute = InnerDispute(b"1" * 32, solver(0), StatementRef(0, 0), 0, "x", listed[0] + 9)
    chain_state.inner[TASK] = InnerBook(60, {dispute.name: dispute})
    assert found.read()["touchstone_deadline_blocks"]["dispute",] == 10.0
    chain_state.head_block += 1
    assert found.read()["touchstone_deadline_blocks"]["dispute",] == 9.0 and len(listed) == 3
    views.append(replace(views[-1], found_game=replace(views[0].game, next_number=9)))
    found.read()
    chain_state.contests[TASK] = ContestFolds(6)
    found.read()
    assert len(listed) == 5


def test_a_bug_in_one_part_leaves_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    view = replace(look(make_quiet_world(), "solver0"), audits=cast(Any, None))
    with caplog.at_level(logging.ERROR):
        values = make_measures(view, tmp_path).read()
    assert "touchstone_disk_free_bytes" in values and "touchstone_votes" not in values
    assert "cannot be measured" in caplog.text


def test_before_a_task_is_joined_nothing_is_told_of_one(tmp_path: Path) -> None:
    measures = make_measures(look(make_quiet_world(), "solver0"), tmp_path)
    measures.find_view = lambda: None
    assert "touchstone_seat_status" not in measures.read()


# Showing them
def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def test_a_port_is_opened_where_one_is_named_and_a_taken_one_stops_no_node(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    measures = make_measures(look(make_quiet_world(), "solver0"), tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with AsyncExitStack() as stack:
            await show_metrics(measures, "127.0.0.1", port, stack)
    assert "the metrics cannot be shown" in caplog.text and f"127.0.0.1:{port}" in caplog.text
    async with AsyncExitStack() as stack:
        await show_metrics(measures, "127.0.0.1", port, stack)
        assert await asyncio.to_thread(is_open, port)
    assert not await asyncio.to_thread(is_open, port)


async def test_without_a_port_nothing_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MetricsServer", None)
    measures = make_measures(look(make_quiet_world(), "solver0"), tmp_path)
    async with AsyncExitStack() as stack:
        await show_metrics(measures, "127.0.0.1", 0, stack)
