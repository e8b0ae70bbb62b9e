"""Disputes on the real contracts, with the real referee: the node's own duties drive each to its end."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cheating import (
    allow_cheating,
    make_cheating_solver,
    make_drifting_compute,
    make_idle_verifier,
    make_lying_verifier,
    make_primary_verifier,
)
from tests.e2e.harassing import HARASSER, list_harassment, make_forgetful
from tests.e2e.reading import list_closed, read_happened
from tests.e2e.roles import make_cast
from tests.e2e.world import AMOUNTS, TINY_PLAN, Part, World, open_world, run_world
from touchstone.demo.planted import make_planting_compute
from touchstone.node.kit import known_statements
from touchstone.node.loop.node import Node
from touchstone.protocol.spec.game.inner_dispute import LEAVES_MAX, DisputeStage, InnerBook, QueryEnding
from touchstone.protocol.spec.game.money_reasons import MoneyReason
from touchstone.protocol.spec.program_operations import Operation

SCHEDULE = replace(TINY_PLAN.schedule, total_steps=TINY_PLAN.inner_steps)
PLAN = replace(TINY_PLAN, rounds=1, schedule=SCHEDULE, late_chance=0, least_whistleblowers=0)
"""One round without late audits."""
HALTED_PLAN = replace(PLAN, rounds=2, schedule=replace(SCHEDULE, total_steps=2 * TINY_PLAN.inner_steps))
DROPPED = "the difference may be drift: not disputed"


async def play_until_closed(world: World, cast: Mapping[str, Part], names: set[str]) -> set[str]:
    """Who was convicted until all of `names` were, or the task was over. What the parties said is shown where
    a test fails."""
    closed = set[str]()

    def is_enough(submitter: Node) -> bool:
        game = submitter.state.games.get(world.task)
        closed.update(() if game is None else list_closed(world, game))
        return names <= closed

    try:
        await run_world(world, PLAN, cast, until=is_enough)
    finally:
        print("\n".join(world.lines))
    return closed


class Halting:
    """The submitter halts the task as soon as somebody is accused. Enough once everybody is settled."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.sent: asyncio.Task[Any] | None = None
        self.open_then = 0

    def get_view(self, submitter: Node) -> bool:
        book = submitter.state.inner.get(self._world.task, InnerBook(0))
        self.open_then = self.open_then or sum(one.is_open for one in book.disputes.values())
        if self.open_then and self.sent is None:
            self.sent = asyncio.create_task(submitter.chain.game.halt(self._world.task))
        return False


async def test_one_honest_verifier_convicts_all_who_err_or_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task is halted as soon as somebody is accused: that saves nobody.

    cheat: errs in one operation and defends it, until the referee computes the element. mute: does the
    same and is silent. liar: says ACCEPT against its own replay, and is asked for the leaf. accomplice:
    replays with the same error, so that only the steps of its vote show it. The honest verifier is the
    primary of one of the three claims, and all others are reserves there."""
    allow_cheating(monkeypatch)
    wrong = make_planting_compute(Operation.SUBTRACT)
    cast = make_cast(0, 1, 0) | {
        "cheat 0": make_cheating_solver(wrong),
        "cheat 1": make_cheating_solver(wrong),
        "mute": make_cheating_solver(wrong, answers=False),
        "liar": make_lying_verifier(),
        "accomplice": make_lying_verifier(wrong),
    }
    guilty = set(cast) - {"verifier 0"}
    async with open_world(tmp_path, tuple(cast)) as world:
        halting = Halting(world)
        try:
            game, _ = await run_world(world, HALTED_PLAN, cast, until=halting.get_view)
        finally:
            print("\n".join(world.lines))
        assert halting.open_then and game.is_halted and game.is_closed and game.next_round == 1
        assert list_closed(world, game) == guilty
        assert any("proving it" in line for line in world.lines)
        assert any("the steps were not shown" in line for line in world.lines)
        assert any("to show leaf" in line for line in world.lines)


async def test_a_verifier_that_replays_nothing_is_asked_for_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody's own replay speaks against its ACCEPT of an honest claim; the dice of the others do. Here they
    ask about every ACCEPT whose end is not the claim's. Of three verifiers each is the primary of one of
    three claims, and no reserve decides before it: so a vote of the idler's counts, however draws fall."""
    allow_cheating(monkeypatch)
    monkeypatch.setattr(known_statements, "SPOT_QUERIES", 1)
    monkeypatch.setattr(known_statements, "count_askers", lambda game, account: 1)
    honest = {f"verifier {number}": make_primary_verifier() for number in range(2)}
    cast = make_cast(3, 0, 0) | honest | {"idler": make_idle_verifier()}
    async with open_world(tmp_path, tuple(cast)) as world:
        assert await play_until_closed(world, cast, {"idler"}) == {"idler"}


async def test_honest_statements_outlive_whoever_harasses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each claim and each vote of round 0 is disputed, with demands for leaves, each ACCEPT is asked about;
    all is answered in time, nobody is convicted, and the harasser pays for it. drifter: its machine parts
    from the others by less than a limit in each step: its claim is rejected, and nobody disputes it.
    forgetful: it has pruned the segment that is disputed, and trains it again."""
    allow_cheating(monkeypatch)
    drifting = make_drifting_compute(TINY_PLAN.limits)
    cast = make_cast(1, 3, 0) | {
        "forgetful": make_forgetful(),
        "harasser": HARASSER,
        "drifter": make_cheating_solver(drifting),
    }
    books = list[InnerBook]()

    def is_enough(submitter: Node) -> bool:
        """Whether all that the harasser opened is over, and it has nothing left to open."""
        harasser = world.parties.get("harasser")
        book = None if harasser is None or harasser.joined is None else harasser.state.inner.get(world.task)
        if harasser is None or book is None or not book.queries or len(book.disputes) < 2 * 3:
            return False
        books[:] = [book]
        is_over = not any(one.is_open for one in book.disputes.values())
        is_over &= all(one.ending != QueryEnding.OPEN for one in book.queries.values())
        is_idle = not list(list_harassment(harasser.get_view(), harasser.state.head_block + 1))
        # What the submitter has folded is looked at in the end.
        is_over &= submitter.state.head_block >= harasser.state.head_block
        return is_over and is_idle and any(DROPPED in line for line in world.lines)

    async with open_world(tmp_path, tuple(cast)) as world:
        try:
            game, _ = await run_world(world, PLAN, cast, until=is_enough)
        finally:
            print("\n".join(world.lines))
        (book,) = books
        assert list_closed(world, game) == set()
        assert {one.stage for one in book.disputes.values()} == {DisputeStage.CLEARED}
        assert all(len(one.shown) == len(one.demands) == LEAVES_MAX for one in book.disputes.values())
        assert {one.statement.draw is None for one in book.disputes.values()} == {True, False}
        assert {one.ending for one in book.queries.values()} == {QueryEnding.CLEARED}
        harasser = world.keys["harasser"].address.lower()
        assert {one.opener for one in book.disputes.values()} == {harasser}
        # What it staked on them is gone: half goes to the account that it made answer.
        happened = await read_happened(world)
        opened = happened.list_events("DisputeOpened") + happened.list_events("QueryOpened")
        lost, accounts = {MoneyReason.LOST_DISPUTE, MoneyReason.ANSWERED_QUERY}, game.money.accounts
        bonds = sum(wei for reason, wei in accounts[harasser].sums.items() if reason in lost)
        assert bonds == sum(one.arguments["bond_wei"] for one in opened)
        accused = {game.seats[one.seat].account for one in book.disputes.values()}
        shares = [accounts[one].sums[MoneyReason.BOND_SHARE] for one in accused]
        assert all(wei >= AMOUNTS.dispute_bond // 2 for wei in shares)
